//! Search for a program that runs JavaScript: Bun, OpenCode's own binary, which is a Bun too, or Node.

use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use windlass_base::program;
use windlass_core::config::Config;

use super::files::CHECK;

/// A program that runs JavaScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    pub program: PathBuf,
    pub kind: Kind,
}

/// Kind of runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bun,
    Node,
}

impl Runtime {
    /// Returns the arguments that run the host's first file.
    pub fn arguments(&self, file: &Path) -> Vec<OsString> {
        match self.kind {
            // Nothing may be fetched that nobody has named; memory goes before the last percent of speed.
            Kind::Bun => vec!["--smol".into(), "--no-install".into(), file.into()],
            Kind::Node => {
                let check = file.with_file_name(CHECK);
                vec!["--no-warnings".into(), "--require".into(), check.into(), file.into()]
            }
        }
    }
}

/// Finds the program for a directory; the error says how to get one. One of the project's runs held plugins only. Does
/// blocking reads.
pub fn find(config: &Config, is_held: bool) -> Result<Runtime, String> {
    let search = config.environment.get("PATH");
    // The directory of a project may be a stranger's.
    let on_path = |name: &str| program::find_outside(search, Path::new(name));
    if let Some(named) = &config.settings.windlass.plugin.runtime {
        let Some(program) =
            program::find(Some(&program::absolute_directories(search)), &config.directory, Path::new(named))
        else {
            return Err(format!("there is no program {named}; correct `windlass.plugin.runtime`"));
        };
        if !is_held && config.project_files.has(&program) {
            return Err(format!(
                "{named} is the project's, and would run plugins outside of the sandbox; correct `windlass.plugin.runtime`"
            ));
        }
        let is_node = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("node"));
        return Ok(Runtime { kind: if is_node { Kind::Node } else { Kind::Bun }, program });
    }
    let opencode = || {
        let own = config.environment.home.join(".opencode/bin/opencode");
        on_path("opencode").into_iter().chain([own]).find(|file| is_binary(file))
    };
    // One in `node_modules` is the project's, and would run the user's own plugins too.
    let bun = on_path("bun").or_else(opencode);
    match (bun, on_path("node")) {
        (Some(program), _) => Ok(Runtime { program, kind: Kind::Bun }),
        (None, Some(program)) => Ok(Runtime { program, kind: Kind::Node }),
        (None, None) => Err("there is no Bun and no Node to run them; install one of them".to_owned()),
    }
}

/// Returns true for a program of machine code: the npm package puts a script in OpenCode's place.
fn is_binary(file: &Path) -> bool {
    let mut head = [0; 4];
    let read = File::open(file).and_then(|mut it| it.read_exact(&mut head));
    read.is_ok() && (head == *b"\x7fELF" || head[..3] == [0xcf, 0xfa, 0xed])
}
