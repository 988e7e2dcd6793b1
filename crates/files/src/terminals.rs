//! Terminals that clients open in a directory.

use std::{collections::BTreeSet, ffi::OsString, path::Path};

use serde_json::json;
use windlass_base::{path::absolute, process};
use windlass_core::pty::{OpenError, Opening};
use windlass_engine::{Engine, Workspace};
use windlass_protocol::opencode::pty::{Pty, PtyCreate, Shell};
use windlass_services::tool::bash;

use super::roots::FilesError;

/// Shells that take `-l` for a login.
const LOGIN_SHELLS: [&str; 6] = ["bash", "dash", "fish", "ksh", "sh", "zsh"];
/// Shells with a language that the shell tool does not write.
const OTHER_LANGUAGES: [&str; 2] = ["fish", "nu"];
/// Variables that name the server's own password, which no program in a terminal needs.
const WITHHELD: [&str; 2] = ["OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME"];

/// Opens a terminal in a directory: with the program that is named, else with the user's shell.
pub async fn open(engine: &Engine, workspace: &Workspace, create: PtyCreate) -> Result<Pty, FilesError> {
    let loaded = workspace.loaded();
    let config = &loaded.config;
    let command = create.command.filter(|command| !command.is_empty());
    let program = command.unwrap_or_else(|| user_shell(config).to_string_lossy().into_owned());
    let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut args = create.args.unwrap_or_default();
    if args.is_empty() && LOGIN_SHELLS.contains(&name.as_str()) {
        args.push("-l".to_owned());
    }
    let cwd = create.cwd.filter(|cwd| !cwd.is_empty()).unwrap_or_else(|| ".".to_owned());
    let cwd = absolute(workspace.directory(), cwd);
    if !cwd.is_dir() {
        return Err(FilesError::Invalid(format!("The directory {} does not exist.", cwd.display())));
    }
    let mut environment = config.environment.variables.clone();
    environment.extend(create.env.unwrap_or_default());
    if let Some(host) = engine.plugins().host(workspace.directory()) {
        let variables = host.shell_variables(json!({ "cwd": cwd }), false).await;
        environment.extend(variables.map_err(|error| FilesError::Invalid(error.to_string()))?);
    }
    environment.insert("TERM".to_owned(), "xterm-256color".to_owned());
    environment.insert("OPENCODE_TERMINAL".to_owned(), "1".to_owned());
    WITHHELD.iter().chain(&process::SHARED).for_each(|name| _ = environment.remove(*name));
    process::withheld().iter().for_each(|name| _ = environment.remove(name));
    let opening = Opening {
        directory: workspace.directory().to_owned(),
        program,
        args,
        cwd,
        title: create.title.filter(|title| !title.is_empty()),
        environment,
        without: WITHHELD.map(str::to_owned).to_vec(),
    };
    engine.terminals().open(opening).map_err(|error| match error {
        OpenError::TooMany | OpenError::Start { .. } => FilesError::Invalid(error.to_string()),
    })
}

/// Returns the user's own shell, in any language.
fn user_shell(config: &windlass_core::config::Config) -> OsString {
    let own = config.environment.get("SHELL").filter(|_| config.shell.is_none());
    own.map_or_else(|| bash::shell(config), OsString::from)
}

/// Returns the shells of the system.
pub async fn shells() -> Vec<Shell> {
    let text = tokio::fs::read_to_string("/etc/shells").await.unwrap_or_else(|_| "/bin/sh\n".to_owned());
    let mut seen = BTreeSet::new();
    let paths = text.lines().map(str::trim).filter(|line| line.starts_with('/'));
    paths
        .filter(|path| Path::new(path).is_file() && seen.insert((*path).to_owned()))
        .map(|path| {
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            Shell { path: path.to_owned(), acceptable: !OTHER_LANGUAGES.contains(&name.as_str()), name }
        })
        .collect()
}
