//! Looks at everything that configures a directory: the reading itself, its sources, missing programs and files.

use std::{path::Path, sync::Arc};

use windlass_base::program;
use windlass_core::{
    config::{Config, Warning, layers, sources::Leaf},
    library,
};
use windlass_protocol::opencode::config::McpConfig;

use crate::{Diagnostics, EngineError, EngineErrorKind, EngineState, Loaded};

/// Problems of a directory's configuration, and notes.
pub struct Report {
    /// Something is ignored or cannot work.
    pub warnings: Vec<Warning>,
    /// MCP servers without their programs, which starting them tells too.
    pub servers: Vec<Warning>,
    pub notes: Vec<Warning>,
    /// The sources that were read, the weakest first.
    pub read: Vec<String>,
    pub config: Config,
    /// Every value of the configuration with its sources.
    pub leaves: Vec<Leaf>,
}

/// Treatment of pages among the instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    AreAsked,
    AreLeft,
}

impl Diagnostics<'_> {
    /// Looks at everything that configures a directory; slower than reading it for a session.
    pub async fn examine(self, directory: &Path, pages: Pages) -> Result<Report, EngineError> {
        let loaded = Arc::new(self.engine.workspaces().inspect_files(directory).await?);
        let instructions = match pages {
            Pages::AreAsked => self.engine.workspaces().read_instructions(&loaded).await,
            Pages::AreLeft => self.engine.workspaces().read_instruction_files(&loaded).await,
        };
        let (directory, engine) = (directory.to_owned(), self.engine.clone());
        let examined = tokio::task::spawn_blocking(move || {
            let EngineState { environment, paths, hooks, .. } = engine.0.as_ref();
            let (config, leaves) = layers::explain(environment, paths, &directory, hooks);
            let unread = layers::unread(environment, paths, &directory);
            let missing = missing_instructions(&loaded.config, &leaves);
            let cuts: Vec<Warning> = instructions.cuts.iter().map(|cut| placed(cut, &leaves)).collect();
            let Loaded { config: read, warnings, notes, .. } = loaded.as_ref();
            Report {
                servers: missing_servers(&config, &leaves),
                read: layers::sources(environment, paths, &directory),
                warnings: [warnings.as_slice(), &unread.warnings, &instructions.warnings].concat(),
                notes: [read.notes.as_slice(), notes, &unread.notes, &missing, &cuts].concat(),
                config,
                leaves,
            }
        });
        examined.await.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))
    }
}

/// Finds enabled MCP servers that lack their programs.
fn missing_servers(config: &Config, leaves: &[Leaf]) -> Vec<Warning> {
    let missing = |(name, server): (&String, &McpConfig)| {
        let McpConfig::Local { command, cwd, environment, enabled, .. } = server else { return None };
        let named = command.first().filter(|_| *enabled != Some(false))?;
        let search = environment.get("PATH").map(String::as_str).or(config.environment.get("PATH"));
        let directory = config.directory.join(cwd.as_deref().unwrap_or_default());
        if program::find(search, &directory, Path::new(named)).is_some() {
            return None;
        }
        let leaf = leaves.iter().find(|leaf| leaf.path == ["mcp", name, "command"]);
        let origin = leaf.and_then(|leaf| leaf.set_by.first());
        let (line, column) = origin.and_then(|origin| origin.position).unzip();
        let source = origin.map_or_else(|| format!("mcp.{name}"), |origin| origin.source.clone());
        let message = format!(
            "mcp.{name}.command: there is no program {named}, so the server cannot be started; install it or correct \
             the command"
        );
        Some(Warning { source, line, column, message })
    };
    config.mcp.iter().filter_map(missing).collect()
}

/// Entries of `instructions` that name no file: often meant so, because a file of the user's serves many projects.
fn missing_instructions(config: &Config, leaves: &[Leaf]) -> Vec<Warning> {
    let missing = library::missing_instructions(config);
    let note = |pattern: &String| at_entry(pattern, "names no file here", leaves);
    missing.iter().filter_map(note).collect()
}

/// Returns a warning about an entry of `instructions`, where the strongest source says it.
fn at_entry(pattern: &str, message: &str, leaves: &[Leaf]) -> Option<Warning> {
    let is_said = |leaf: &&Leaf| leaf.path == ["instructions"] && leaf.value == pattern;
    let origin = leaves.iter().find(is_said).and_then(|leaf| leaf.set_by.first())?;
    let (line, column) = origin.position.unzip();
    let message = format!("instructions: {pattern} {message}");
    Some(Warning { source: origin.source.clone(), line, column, message })
}

/// Returns a warning about a file or an entry; an entry's with its place.
fn placed(warning: &Warning, leaves: &[Leaf]) -> Warning {
    at_entry(&warning.source, &warning.message, leaves).unwrap_or_else(|| warning.clone())
}
