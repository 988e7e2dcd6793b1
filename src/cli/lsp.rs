//! `windlass lsp`: lists the language servers, and installs those that npm has.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_base::text::visible_line;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, LanguageServer, LanguageServers};

use super::{
    options::{Format, FormatArgs},
    output,
    progress::Progress,
    runtime,
};

#[derive(Debug, Args)]
pub struct LspArgs {
    #[command(subcommand)]
    command: LspCommand,
    /// Directory to look at; the working directory unless given.
    #[arg(long, alias = "cwd", global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum LspCommand {
    /// List the language servers, with their programs or the way to get them.
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Install language servers that npm has, for all projects of this user.
    #[command(alias = "add")]
    Install {
        /// The servers, by their names in the list.
        #[arg(required = true, value_name = "SERVER")]
        servers: Vec<String>,
    },
}

pub fn run(environment: Environment, args: LspArgs) -> ExitCode {
    let directory = match output::directory(args.dir.as_deref()) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let paths = Paths::new(&environment);
    let engine = Engine::new(environment, paths);
    runtime::block_on(async move {
        match args.command {
            LspCommand::List { format } => list(&engine, &directory, format.get()).await,
            LspCommand::Install { servers } => install(&engine, &directory, &servers).await,
        }
    })
}

async fn list(engine: &Engine, directory: &Path, format: Format) -> ExitCode {
    let LanguageServers { servers, is_off } = match engine.workspaces().language_servers(directory).await {
        Ok(found) => found,
        Err(error) => return output::fail(&format!("{error}.")),
    };
    match format {
        Format::Json => output::print_answer(&format!("{:#}", servers.iter().map(row).collect::<Value>())),
        Format::Text => {
            if is_off {
                output::note("They are switched off: `\"lsp\": true` in opencode.json switches them on.");
            }
            let width = servers.iter().map(|it| it.id.len()).max().unwrap_or_default();
            output::print_answer(
                &servers.iter().map(|it| draw(it, width, is_off)).collect::<Vec<_>>().join("\n"),
            )
        }
    }
}

fn draw(server: &LanguageServer, width: usize, is_off: bool) -> String {
    let LanguageServer { id, command, path, is_on, packages, .. } = server;
    let place = match path {
        Some(path) => path.display().to_string(),
        None if packages.is_empty() => format!("missing: put {command} on PATH"),
        None => format!("missing: run `windlass lsp install '{id}'`"),
    };
    let switched = if *is_on || is_off { "" } else { " (switched off)" };
    visible_line(&format!("{id:width$}  {place}{switched}")).into_owned()
}

fn row(server: &LanguageServer) -> Value {
    let LanguageServer { id, command, path, is_configured, is_on, extensions, packages } = server;
    json!({
        "id": id, "command": command, "path": path, "configured": is_configured, "on": is_on,
        "extensions": extensions, "packages": packages,
    })
}

async fn install(engine: &Engine, directory: &Path, servers: &[String]) -> ExitCode {
    for id in servers {
        let progress = Progress::of(format!("Installing {id}"));
        let installed = engine.workspaces().install_language_server(directory, id).await;
        drop(progress);
        if let Err(error) = installed {
            return output::fail(&format!("{error}."));
        }
        let code = output::print_answer(&format!("{id} is installed."));
        if code != ExitCode::SUCCESS {
            return code;
        }
    }
    if let Ok(LanguageServers { is_off: true, .. }) = engine.workspaces().language_servers(directory).await {
        output::note("Language servers are switched off: `\"lsp\": true` in opencode.json switches them on.");
    }
    ExitCode::SUCCESS
}
