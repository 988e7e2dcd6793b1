//! `windlass mcp add` and `remove`: servers in the files of the configuration.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde_json::{Map, Value, json};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::Engine;

use crate::cli::{output, runtime, trust};

#[derive(Debug, Args)]
pub struct AddArgs {
    /// The server's name.
    name: String,
    /// The address of a remote server.
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// A header for a remote server, `NAME=VALUE`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", requires = "url", value_parser = pair)]
    header: Vec<(String, String)>,
    /// A variable for a local server, `NAME=VALUE`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Name it in the user's configuration instead.
    #[arg(long, short)]
    global: bool,
    /// Directory of the project; the working directory unless given.
    #[arg(long, alias = "cwd", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The program of a local server with its arguments, behind `--`.
    #[arg(last = true, required_unless_present = "url")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The server's name.
    name: String,
    /// Take it out of the user's configuration instead.
    #[arg(long, short)]
    global: bool,
    /// Directory of the project; the working directory unless given.
    #[arg(long, alias = "cwd", value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub fn add(environment: Environment, args: AddArgs) -> ExitCode {
    let AddArgs { name, url, header, env, global, dir, command } = args;
    let object = |pairs: Vec<(String, String)>| -> Map<String, Value> {
        pairs.into_iter().map(|(name, value)| (name, value.into())).collect()
    };
    let mut server = match url {
        Some(url) => json!({"type": "remote", "url": url, "headers": object(header)}),
        None => json!({"type": "local", "command": command, "environment": object(env)}),
    };
    if let Some(fields) = server.as_object_mut() {
        fields.retain(|_, value| value != &json!({}));
    }
    let said = format!("MCP server {name} is added; `windlass mcp list` starts it.");
    write(environment, dir, &name, server, global, &said)
}

pub fn remove(environment: Environment, args: RemoveArgs) -> ExitCode {
    let RemoveArgs { name, global, dir } = args;
    let said = format!("MCP server {name} is taken out.");
    write(environment, dir, &name, Value::Null, global, &said)
}

/// Writes a server into the file of the configuration, or takes it out for null.
fn write(
    environment: Environment,
    dir: Option<PathBuf>,
    name: &str,
    server: Value,
    is_global: bool,
    said: &str,
) -> ExitCode {
    let directory = match output::directory(dir.as_deref()) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let paths = Paths::new(&environment);
    let before = trust::held(&environment, &directory);
    let engine = Engine::new(environment.clone(), paths);
    runtime::block_on(async move {
        let written = match engine.workspaces().written_setting(&directory, "mcp", is_global).await {
            Ok(written) => written,
            Err(error) => return output::fail(&format!("{error}.")),
        };
        let is_there = written.as_ref().is_some_and(|servers| servers.get(name).is_some());
        match (is_there, server.is_null()) {
            (false, true) => return output::fail(&format!("There is no MCP server {name} in that file.")),
            (true, false) => {
                return output::fail(&format!(
                    "There is an MCP server {name} in that file; remove it first by `windlass mcp remove {name}`."
                ));
            }
            (true, true) | (false, false) => {}
        }
        let patch = Map::from_iter([("mcp".to_owned(), json!({name: server}))]);
        match engine.workspaces().write_config(&directory, patch, is_global).await {
            Ok(()) => {
                trust::trust_written(&environment, &directory, &before);
                output::print_answer(said)
            }
            Err(error) => output::fail(&format!("{error}.")),
        }
    })
}
