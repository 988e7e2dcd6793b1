//! The way by which a program was installed, by the place of its file. Pure.

use std::path::{Path, PathBuf};

/// The versions of Python 3 that are looked for.
const FIRST_MINOR: u32 = 7;
const LAST_MINOR: u32 = 30;

/// A way to install windlass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    Npm,
    /// A project's own dependency.
    NpmOfProject {
        project: PathBuf,
    },
    /// For one call alone.
    Npx,
    Uv,
    Pipx,
    Pip {
        python: PathBuf,
    },
    Homebrew,
    Cargo,
    Debian,
    Nix,
    /// A file from an archive, as the shell's installer puts it.
    File {
        directory: PathBuf,
    },
    Sources,
}

/// Tells the way from a program's path without links; `exists` looks for a file.
pub fn of(program: &Path, exists: impl Fn(&Path) -> bool) -> Way {
    let parts: Vec<&str> = program.iter().filter_map(|part| part.to_str()).collect();
    let has = |word: &str| parts.contains(&word);
    let within = |words: [&str; 2]| parts.windows(2).any(|pair| pair == words);
    let directory = program.parent().unwrap_or(program).to_owned();
    if has("node_modules") {
        if has("_npx") {
            return Way::Npx;
        }
        let modules = parts.iter().position(|part| *part == "node_modules").unwrap_or_default();
        // The prefix of npm's global packages has them in `lib`.
        if modules > 0 && parts[modules - 1] == "lib" {
            return Way::Npm;
        }
        return Way::NpmOfProject { project: parts[..modules].iter().collect() };
    }
    if within(["uv", "tools"]) || has("archive-v0") {
        return Way::Uv;
    }
    if within(["pipx", "venvs"]) {
        return Way::Pipx;
    }
    if has("Cellar") {
        return Way::Homebrew;
    }
    if within(["nix", "store"]) {
        return Way::Nix;
    }
    if within([".cargo", "bin"]) {
        return Way::Cargo;
    }
    if program == Path::new("/usr/bin/windlass") && exists(Path::new("/var/lib/dpkg/info/windlass.list")) {
        return Way::Debian;
    }
    if has("target") && (has("release") || has("debug")) {
        return Way::Sources;
    }
    if let Some(python) = python_of(&directory, exists) {
        return Way::Pip { python };
    }
    Way::File { directory }
}

/// Returns the Python with a package beside the program.
fn python_of(directory: &Path, exists: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let package = concat!("windlass-", env!("CARGO_PKG_VERSION"), ".dist-info");
    let is_there = |minor: &u32| {
        let library = directory.with_file_name("lib").join(format!("python3.{minor}"));
        ["site-packages", "dist-packages"].iter().any(|place| exists(&library.join(place).join(package)))
    };
    let minor = (FIRST_MINOR..=LAST_MINOR).find(is_there)?;
    Some(directory.join(format!("python3.{minor}")))
}

impl Way {
    /// Says how it was installed.
    pub fn words(&self) -> String {
        match self {
            Self::Npm => "installed by npm".to_owned(),
            Self::NpmOfProject { project } => format!("a dependency of {}", project.display()),
            Self::Npx => "run by npx".to_owned(),
            Self::Uv => "installed by uv".to_owned(),
            Self::Pipx => "installed by pipx".to_owned(),
            Self::Pip { .. } => "installed by pip".to_owned(),
            Self::Homebrew => "installed by Homebrew".to_owned(),
            Self::Cargo => "installed by cargo".to_owned(),
            Self::Debian => "installed as a Debian package".to_owned(),
            Self::Nix => "installed by Nix".to_owned(),
            Self::File { directory } => format!("a file in {}", directory.display()),
            Self::Sources => "built from sources".to_owned(),
        }
    }

    /// Returns the command that installs a version; none where windlass does that itself, or there is none.
    pub fn command(&self, version: &str) -> Option<Vec<String>> {
        let package = format!("windlass@{version}");
        let exact = format!("windlass=={version}");
        let words: Vec<&str> = match self {
            Self::Npm => vec!["npm", "install", "--global", &package],
            Self::NpmOfProject { project } => {
                vec!["npm", "install", "--prefix", project.to_str()?, &package]
            }
            Self::Npx => vec!["npx", &package],
            Self::Uv => vec!["uv", "tool", "install", "--force", &exact],
            Self::Pipx => vec!["pipx", "install", "--force", &exact],
            Self::Pip { python } => vec![python.to_str()?, "-m", "pip", "install", &exact],
            Self::Homebrew => vec!["brew", "upgrade", "windlass"],
            Self::Cargo => vec!["cargo", "install", "--locked", "windlass", "--version", version],
            Self::Debian => vec!["sudo", "apt-get", "install", "windlass"],
            Self::Nix => vec!["nix", "profile", "upgrade", "windlass"],
            Self::File { .. } | Self::Sources => return None,
        };
        Some(words.into_iter().map(str::to_owned).collect())
    }

    /// Returns true where the command is for the person to run: it needs more rights, or changes more than windlass.
    pub fn is_for_others(&self) -> bool {
        matches!(self, Self::NpmOfProject { .. } | Self::Npx | Self::Debian | Self::Nix | Self::Homebrew)
    }
}
