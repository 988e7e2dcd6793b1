//! Asks a language server about a place in a file.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::{
    config::policy::Policy,
    permission::{self, Ask},
};
use windlass_protocol::opencode::{
    permission::{Action, Rule},
    tool_metadata::{AskedLsp, AskedPath, LspResults, encode},
};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    blocking,
    path::{self, Roots, Target, display},
    row::Offer,
    walk,
};
use crate::lsp::{self, Operation, Question};

/// Maximum bytes of results in the metadata for clients; the model reads all of them as text.
const MAX_METADATA: usize = 256 << 10;

/// The question and its place.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The operation to perform.
    pub operation: Operation,
    /// The file: an absolute path, or one relative to the working directory.
    pub file_path: String,
    /// Line of the name, counted from 1.
    pub line: NonZeroU64,
    /// Position of the name in the line, counted from 1, as shown by editors.
    pub character: NonZeroU64,
    /// For workspaceSymbol: the text that names must match.
    pub query: Option<String>,
}

/// Returns true if the tool is switched on, which is off by default (facts: OpenCode §5).
pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    let environment = &offer.config.environment;
    ["OPENCODE_EXPERIMENTAL_LSP_TOOL", "OPENCODE_EXPERIMENTAL"].iter().any(|name| environment.is_on(name))
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let Args { operation, file_path, line, character, query } = arguments("lsp", input)?;
    if file_path.is_empty() {
        return Err(ToolError::Model("filePath is required".to_owned()));
    }
    let target = path::resolve_existing(cx, &file_path).await?;
    path::ask_outside(cx, &target).await?;
    let (name, shown) = (operation.name(), display(&target.path));
    let resolved = target.resolved();
    let resolved = resolved.as_deref();
    let place = (line.get(), character.get());
    let (metadata, title) = describe(operation, &target, query.as_deref(), place);
    let any = || vec!["*".to_owned()];
    cx.host.ask(Ask { permission: "lsp".to_owned(), patterns: any(), always: any(), metadata }).await?;
    // The server reads the file and its declarations become visible, so the call needs permission to read the
    // file.
    let metadata = encode(&AskedPath { filepath: &shown, parent_dir: None, resolved });
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
    let (roots, policy, answers) = (Roots::new(cx.config), cx.host.policy(), cx.host.answers().await);
    // A hover quotes the text of a definition without naming its file.
    let is_quoted = operation == Operation::Hover && !results.is_empty();
    let quoted = if is_quoted && policy.is_restricted("read") {
        let question = Question { operation: Operation::GoToDefinition, ..question };
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
            // A server without an answer has revealed nothing of another file.
            found = cx.lsp.ask(cx.config, &question) => found.unwrap_or_default(),
        }
    } else {
        Vec::new()
    };
    let sorting = blocking(move || {
        let mut guard = Guard { roots, policy, answers, known: BTreeMap::new(), withheld: BTreeSet::new() };
        let is_withheld = quoted.iter().filter(|it| !guard.allows(it)).count() > 0;
        let shown = results.into_iter().filter(|it| !is_withheld && guard.allows(it));
        let shown: Vec<Value> = shown.collect();
        Ok((shown, guard.withheld))
    });
    let (results, withheld) = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
        sorted = sorting => sorted?,
    };
    let mut output = if results.is_empty() {
        format!("No results found for {name}")
    } else {
        serde_json::to_string_pretty(&results).unwrap_or_default()
    };
    if !withheld.is_empty() {
        output.push_str(&format!(
            "\n\n(Results left out, because reading needs permission: {}. Use the read tool to ask for it.)",
            walk::names(&withheld)
        ));
    }
    let mut n_bytes = 0;
    let fits = |result: &Value| {
        n_bytes += result.to_string().len();
        n_bytes <= MAX_METADATA
    };
    let results: Vec<Value> = results.into_iter().take_while(fits).collect();
    Ok(ToolOutput {
        title,
        output,
        metadata: encode(&LspResults { result: &results }),
        attachments: Vec::new(),
    })
}

/// Returns the metadata of the question about an operation, and the title of its call.
fn describe(
    operation: Operation,
    target: &Target,
    query: Option<&str>,
    (line, character): (u64, u64),
) -> (Map<String, Value>, String) {
    let name = operation.name();
    let (query, position, title) = match operation {
        Operation::WorkspaceSymbol => (Some(query), None, name.to_owned()),
        Operation::DocumentSymbol => (None, None, format!("{name} {}", target.relative)),
        Operation::GoToDefinition
        | Operation::FindReferences
        | Operation::Hover
        | Operation::GoToImplementation
        | Operation::PrepareCallHierarchy
        | Operation::IncomingCalls
        | Operation::OutgoingCalls => {
            (None, Some((line, character)), format!("{name} {}:{line}:{character}", target.relative))
        }
    };
    let metadata = encode(&AskedLsp {
        operation: name,
        query,
        file_path: &display(&target.path),
        line: position.map(|(line, _)| line),
        character: position.map(|(_, character)| character),
        resolved: target.resolved().as_deref(),
    });
    (metadata, title)
}

/// Decides which results may be shown: those in files that `read` would show without asking.
///
/// Files outside of the project are left out only if their directories are denied: libraries are there, and a
/// result has names and places, not their text.
struct Guard {
    roots: Roots,
    policy: Policy,
    answers: Vec<Rule>,
    known: BTreeMap<String, bool>,
    withheld: BTreeSet<PathBuf>,
}

impl Guard {
    /// Reads the file system: call it on a blocking thread.
    fn allows(&mut self, result: &Value) -> bool {
        let mut urls = BTreeSet::new();
        lsp::urls(result, &mut urls);
        // Evaluated for each URL, so that all are named.
        urls.into_iter().filter(|url| !self.allows_url(url)).count() == 0
    }

    fn allows_url(&mut self, url: &str) -> bool {
        if let Some(known) = self.known.get(url) {
            return *known;
        }
        let file = match reqwest::Url::parse(url) {
            Ok(parsed) if parsed.scheme() == "file" => {
                Some(parsed.to_file_path().unwrap_or_else(|()| PathBuf::from(url)))
            }
            // A URL made up by the server, such as one for the source of a class in an archive.
            Ok(_) => None,
            Err(_) => Some(PathBuf::from(url)),
        };
        let is_allowed = file.is_none_or(|file| {
            let is_allowed = file.is_absolute() && self.allows_file(file.clone());
            if !is_allowed {
                self.withheld.insert(file);
            }
            is_allowed
        });
        self.known.insert(url.to_owned(), is_allowed);
        is_allowed
    }

    fn allows_file(&self, file: PathBuf) -> bool {
        let target = path::judge(&self.roots, file);
        let decide =
            |permission: &str, name: &str| permission::resolve(permission, name, &self.policy, &self.answers);
        let outside = display(&target.directory().join("*"));
        (target.is_inside || decide("external_directory", &outside) != Action::Deny)
            && target.patterns.iter().all(|name| decide("read", name) == Action::Allow)
    }
}

#[cfg(test)]
mod tests;
