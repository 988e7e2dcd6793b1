//! Finds a formatter's program, and the files of a project that ask for it. All of it blocks.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use windlass_base::program;
use windlass_core::config::{Config, Environment};

use super::table::Needs;

/// Bytes of a project's file that are looked through.
const MAX_BYTES: u64 = 1024 * 1024;

/// The places where a formatter is looked for: the file's directory, those above it up to the worktree, and `PATH`.
pub(super) struct Lookup {
    environment: Environment,
    /// The session's directory.
    directory: PathBuf,
    above: Vec<PathBuf>,
}

impl Lookup {
    /// Begins at the directory of a file, with its links followed.
    pub fn new(config: &Config, beside: &Path) -> Self {
        let worktree = &config.worktree;
        let is_inside = worktree != Path::new("/") && beside.starts_with(worktree);
        // Outside a repository nothing says where a project ends.
        let n_above = if is_inside { usize::MAX } else { 1 };
        let above = beside.ancestors().take_while(|it| !is_inside || it.starts_with(worktree)).take(n_above);
        Self {
            environment: config.environment.clone(),
            directory: config.directory.clone(),
            above: above.map(Path::to_owned).collect(),
        }
    }

    /// Finds a program, if its needs are there.
    pub fn program(&self, name: &str, needs: Option<Needs>) -> Option<PathBuf> {
        let search = self.environment.get("PATH");
        let Some(needs) = needs else { return program::find(search, &self.directory, Path::new(name)) };
        let is_wanted = match needs {
            Needs::Nothing => true,
            Needs::Files(names) => names.iter().any(|name| self.has(name, "")),
            Needs::Words(pairs) => pairs.iter().any(|(name, word)| self.has(name, word)),
        };
        // A project's own version comes before the machine's.
        let own = ["", "node_modules/.bin"].map(|directory| Path::new("./").join(directory).join(name));
        let is_of_project = name.contains('/');
        let own = &own[usize::from(!is_of_project)];
        let mut in_project = self.above.iter().filter_map(|directory| program::find(None, directory, own));
        let found = || in_project.next().or_else(|| program::find_outside(search, Path::new(name)));
        is_wanted.then(found).flatten()
    }

    /// Returns true if a file is there and contains a text.
    fn has(&self, name: &str, word: &str) -> bool {
        self.above.iter().map(|directory| directory.join(name)).any(|path| {
            let Ok(file) = fs::File::open(&path) else { return false };
            let mut bytes = Vec::new();
            word.is_empty()
                || file.take(MAX_BYTES).read_to_end(&mut bytes).is_ok()
                    && memchr::memmem::find(&bytes, word.as_bytes()).is_some()
        })
    }
}
