//! Asks a language server about a place in a file.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    object,
    path::{self, display},
};
use crate::{
    config::Environment,
    lsp::{Operation, Question},
    permission::Ask,
};

/// Bytes of results that clients are shown as such; the model reads all of them, as text.
const MAX_METADATA: usize = 256 << 10;

/// What to ask, and about which place.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// What to ask.
    pub operation: Operation,
    /// The file: an absolute path, or one relative to the working directory.
    pub file_path: String,
    /// Line of the name, counted from 1.
    pub line: NonZeroU64,
    /// Where in the line the name stands, counted from 1, as editors show it.
    pub character: NonZeroU64,
    /// For workspaceSymbol: what the names are to match.
    pub query: Option<String>,
}

/// Whether the tool is offered: only where it is switched on (facts: OpenCode §5).
pub fn is_available(environment: &Environment) -> bool {
    ["OPENCODE_EXPERIMENTAL_LSP_TOOL", "OPENCODE_EXPERIMENTAL"].iter().any(|name| environment.is_on(name))
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let Args { operation, file_path, line, character, query } = arguments("lsp", input)?;
    if file_path.is_empty() {
        return Err(ToolError::Model("filePath is required".to_owned()));
    }
    let target = path::resolve(cx, &file_path).await?;
    path::ask_outside(cx, &target).await?;
    let (name, shown) = (operation.name(), display(&target.path));
    let (metadata, title) = match operation {
        Operation::WorkspaceSymbol => (json!({ "operation": name }), name.to_owned()),
        Operation::DocumentSymbol => {
            (json!({ "operation": name, "filePath": shown }), format!("{name} {}", target.relative))
        }
        Operation::GoToDefinition
        | Operation::FindReferences
        | Operation::Hover
        | Operation::GoToImplementation
        | Operation::PrepareCallHierarchy
        | Operation::IncomingCalls
        | Operation::OutgoingCalls => (
            json!({ "operation": name, "filePath": shown, "line": line, "character": character }),
            format!("{name} {}:{line}:{character}", target.relative),
        ),
    };
    let any = || vec!["*".to_owned()];
    let metadata = target.described(object(metadata));
    cx.host.ask(Ask { permission: "lsp".to_owned(), patterns: any(), always: any(), metadata }).await?;
    // The server reads the file, and what it declares is told: who may not read it, may not have it read.
    let metadata = target.described(object(json!({ "filepath": shown })));
    let patterns = target.patterns.clone();
    cx.host.ask(Ask { permission: "read".to_owned(), patterns, always: any(), metadata }).await?;
    path::unmoved(cx, &target).await?;
    if target.is_directory {
        return Err(ToolError::Model(format!("Path is a directory, not a file: {shown}")));
    }
    if !tokio::fs::try_exists(&target.real).await.unwrap_or(false) {
        return Err(ToolError::Model(format!("File not found: {shown}")));
    }
    let question = Question {
        operation,
        path: &target.real,
        line: line.get() - 1,
        character: character.get() - 1,
        query: query.as_deref().unwrap_or_default(),
    };
    let results = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
        results = cx.lsp.ask(cx.config, &question) => {
            results.map_err(|error| ToolError::Model(error.to_string()))?
        }
    };
    let output = match results.is_empty() {
        true => format!("No results found for {name}"),
        false => serde_json::to_string_pretty(&results).unwrap_or_default(),
    };
    let mut n_bytes = 0;
    let fits = |result: &Value| {
        n_bytes += result.to_string().len();
        n_bytes <= MAX_METADATA
    };
    let results: Vec<Value> = results.into_iter().take_while(fits).collect();
    Ok(ToolOutput { title, output, metadata: object(json!({ "result": results })), attachments: Vec::new() })
}

#[cfg(test)]
mod tests;
