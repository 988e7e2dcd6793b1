//! Titles of tool calls from their input, for every client the same. Pure.

use std::path::Path;

use serde_json::Value;
use windlass_base::{file_change, text};
use windlass_protocol::opencode::{tool::Subject, tool_metadata::FileChange};
use windlass_services::tool;

/// Bytes of a title that names the files of a patch, the tools of a batch, or a question.
const MAX_FILES_TITLE: usize = 200;

/// Returns the title of a call from its input: the exact command, or the tool's verb with a path, a pattern or a URL.
pub fn call_title(tool: &str, input: &Value, cwd: &Path) -> Option<String> {
    let look = tool::look(tool);
    match look.subject {
        Subject::Patch => patched_files(input),
        Subject::Questions => first_question(input),
        Subject::Calls => batched_tools(input),
        Subject::Code => lsp_question(input),
        Subject::Todos if tool == "todoread" => Some("read the plan".to_owned()),
        Subject::Todos => Some("update the plan".to_owned()),
        subject => {
            let verb = look.verb.to_lowercase();
            let text = input.get(subject.field()?).and_then(Value::as_str)?;
            Some(match subject {
                Subject::File | Subject::Change | Subject::Directory => {
                    let inner = Path::new(text).strip_prefix(cwd).ok().and_then(Path::to_str);
                    let inner = inner.map(|inner| if inner.is_empty() { "." } else { inner });
                    format!("{verb} {}", inner.unwrap_or(text))
                }
                Subject::Pattern | Subject::Text(_) => format!("{verb} \"{text}\""),
                Subject::Url => format!("{verb} {text}"),
                _as_it_is => text.to_owned(),
            })
        }
    }
}

/// Summarises the changes of a patch, as soon as its files are known.
fn patched_files(input: &Value) -> Option<String> {
    let file_changes = patch_changes(input);
    let summary = file_change::summary(file_changes.iter().map(|(change, name)| (*change, name.as_str())));
    (!summary.is_empty()).then(|| text::head(&summary, MAX_FILES_TITLE).to_owned())
}

/// Returns the sections of a patch, as far as it can be read.
pub fn patch_changes(input: &Value) -> Vec<(FileChange, String)> {
    let patch = input.get("patchText").or(input.get("patch")).or(input.get("input")).and_then(Value::as_str);
    let mut file_changes: Vec<(FileChange, String)> = Vec::new();
    for header in patch.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("*** ")) {
        let (change, name) = match (header.split_once(" File:"), header.strip_prefix("Move to:")) {
            (Some(("Add", name)), _) => (FileChange::Add, name),
            (Some(("Delete", name)), _) => (FileChange::Delete, name),
            (Some(("Update", name)), _) => (FileChange::Update, name),
            (_, Some(name)) => {
                if let Some((change, from)) = file_changes.last_mut() {
                    *change = FileChange::Move;
                    *from = format!("{from} → {}", name.trim());
                }
                continue;
            }
            (_, None) => continue,
        };
        file_changes.push((change, name.trim().to_owned()));
    }
    file_changes
}

/// Returns the first of the questions that a call asks.
fn first_question(input: &Value) -> Option<String> {
    let question = input.get("questions")?.get(0)?.get("question")?.as_str()?;
    Some(text::head(question, MAX_FILES_TITLE).to_owned())
}

/// Returns the question to a language server, and its place.
pub(super) fn lsp_question(input: &Value) -> Option<String> {
    let operation = input.get("operation")?.as_str()?;
    let field =
        |key: &str| input.get(key).map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
    let place: Vec<String> = match operation {
        "workspaceSymbol" => match (input.get("query").and_then(Value::as_str), field("filePath")) {
            (Some(query), Some(file)) => vec![format!("{query} (by the server of {file})")],
            (query, file) => query.map(str::to_owned).or(file).into_iter().collect(),
        },
        "documentSymbol" => field("filePath").into_iter().collect(),
        _ => ["filePath", "line", "character"].into_iter().filter_map(field).collect(),
    };
    let question = format!("{operation} {}", place.join(":"));
    Some(text::head(question.trim_end(), MAX_FILES_TITLE).to_owned())
}

/// Returns the tools that a batch calls.
fn batched_tools(input: &Value) -> Option<String> {
    let tools = input.get("tool_calls")?.as_array()?.iter();
    let tools: Vec<&str> = tools.filter_map(|call| call.get("tool")?.as_str()).collect();
    Some(text::head(&format!("batch: {}", tools.join(", ")), MAX_FILES_TITLE).to_owned())
}
