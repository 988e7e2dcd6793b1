//! Settings of other coding agents, by the directory that has them.

use std::path::{Path, PathBuf};

use windlass_core::config::{Environment, paths::Paths, project_files::ProjectFiles, worktree};

use self::taken::Taken;
use super::output::plain;

pub mod changes;
mod claude;
mod codex;
pub mod findings;
mod found;
mod gemini;
mod taken;

/// Another agent whose files windlass can take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    Claude,
    Codex,
    Gemini,
}

impl Agent {
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Reads its settings in the directory, in those above it up to the repository's root, and in the user's home;
    /// where it has none, there is no place. Blocks.
    pub fn places(self, environment: &Environment, directory: &Path) -> Vec<Place> {
        let home = environment.home.as_path();
        let files = ProjectFiles::find(environment, &Paths::new(environment), directory);
        let folders = UserFolders::of(environment);
        let read = |root: &Path| match self {
            Self::Claude => claude::read(&files, root, &folders),
            Self::Codex => codex::read(&files, root, &folders),
            Self::Gemini => gemini::read(&files, root, home),
        };
        let upwards = worktree::upwards(directory, &files.worktree);
        let of_project = upwards.into_iter().take_while(|root| root != home);
        let roots = of_project.map(|root| (root, false)).chain([(home.to_owned(), true)]);
        let places = roots.map(|(root, is_users)| Place { taken: read(&root), root, is_users });
        places.filter(|place| place.taken != Taken::default()).collect()
    }
}

/// The user's own folders of other agents, which variables move.
struct UserFolders {
    home: PathBuf,
    claude: PathBuf,
    /// The file with the servers of the user, and of single directories.
    claude_state: PathBuf,
    codex: PathBuf,
}

impl UserFolders {
    fn of(environment: &Environment) -> Self {
        let home = environment.home.clone();
        let named = |name: &str| environment.get(name).map(PathBuf::from);
        let moved = named("CLAUDE_CONFIG_DIR");
        Self {
            claude_state: moved.as_ref().unwrap_or(&home).join(".claude.json"),
            claude: moved.unwrap_or_else(|| home.join(".claude")),
            codex: named("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            home,
        }
    }
}

/// A directory, or the user's home, with the settings that another agent has there.
#[derive(Debug)]
pub struct Place {
    pub root: PathBuf,
    pub is_users: bool,
    pub taken: Taken,
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}
