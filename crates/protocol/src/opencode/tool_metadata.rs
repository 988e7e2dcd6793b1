//! The metadata of tool calls and of the questions about them: OpenCode's JSON, one struct for each shape.
//!
//! Stored metadata stays a JSON object, since tools from elsewhere put anything into it. Our tools write theirs with
//! [`encode`], and readers look at it through [`decode`], which borrows the texts.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::session::Todo;

/// Returns the JSON object of a metadata struct.
pub fn encode(metadata: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(metadata) {
        Ok(Value::Object(object)) => object,
        // Structs with text keys always make objects.
        Ok(_) | Err(_) => Map::new(),
    }
}

/// Reads metadata as one shape; fields of other shapes are skipped.
pub fn decode<'a, T: Deserialize<'a>>(metadata: &'a Map<String, Value>) -> Option<T> {
    T::deserialize(metadata).ok()
}

/// Removes the whole texts of changed files, which are large and follow from the diffs.
pub fn forget_texts(metadata: &mut Map<String, Value>) {
    let forget = |change: &mut Value| {
        if let Value::Object(change) = change {
            change.remove("before");
            change.remove("after");
        }
    };
    metadata.get_mut("filediff").into_iter().for_each(forget);
    metadata.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten().for_each(forget);
}

/// A command that ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Command<'a> {
    /// The last part of what it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<&'a str>,
    /// The exit code; null if it was killed.
    pub exit: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// The name of the signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<&'a str>,
    /// The file with all its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_path: Option<&'a str>,
}

/// A command that runs, or that was stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningCommand<'a> {
    /// The last part of what it printed so far.
    pub output: &'a str,
    /// The number of bytes that it printed in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<u64>,
}

/// The marks on a call that failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Failure {
    /// Set for a call that was cancelled.
    #[serde(default)]
    pub interrupted: bool,
    /// Set for a call that a rule or the user refused.
    #[serde(default)]
    pub denied: bool,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Read<'a> {
    /// The first lines.
    #[serde(default)]
    pub preview: &'a str,
    #[serde(default)]
    pub truncated: bool,
    /// The instruction files that came along.
    #[serde(borrow, default)]
    pub loaded: Vec<&'a str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Display<'a>>,
}

/// The kind of thing that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisplayKind {
    #[default]
    File,
    Directory,
}

/// The lines of a file, or the entries of a directory, for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Display<'a> {
    #[serde(rename = "type", default)]
    pub kind: DisplayKind,
    #[serde(default)]
    pub path: &'a str,
    /// The lines of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    /// The names in a directory.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Cow<'a, [String]>>,
    /// The first and the last line, from 1.
    #[serde(default)]
    pub line_start: u64,
    #[serde(default)]
    pub line_end: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<u64>,
    #[serde(default)]
    pub truncated: bool,
}

/// The result of `edit` and `multiedit`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edited<'a> {
    pub diagnostics: Map<String, Value>,
    pub diff: &'a str,
    pub filediff: FileDiff<'a>,
}

/// The result of `write`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Written<'a> {
    pub diagnostics: Map<String, Value>,
    pub filepath: &'a str,
    /// Set if there was a file before.
    pub exists: bool,
    pub filediff: FileDiff<'a>,
}

/// The result of a patch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Patched<'a> {
    pub diff: &'a str,
    pub files: &'a [PatchedFile<'a>],
    pub diagnostics: Map<String, Value>,
}

/// A question about the change of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedEdit<'a> {
    pub filepath: &'a str,
    pub diff: &'a str,
    pub filediff: FileDiff<'a>,
}

/// A question about a patch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedPatch<'a> {
    /// The paths, separated by commas.
    pub filepath: &'a str,
    /// The kinds of the changes, in words.
    pub changes: &'a str,
    pub diff: &'a str,
    pub files: &'a [PatchedFile<'a>],
    /// The paths that links lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<&'a str>,
}

/// The changes of files in the metadata of a call or of a question.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Changes<'a> {
    /// Unified diffs of all files.
    #[serde(borrow, default)]
    pub diff: Option<&'a str>,
    #[serde(borrow, default)]
    pub filediff: Option<FileDiff<'a>>,
    #[serde(borrow, default)]
    pub files: Option<Vec<PatchedFile<'a>>>,
}

/// The change of one file by a tool for one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileDiff<'a> {
    pub file: &'a str,
    /// A unified diff.
    #[serde(default)]
    pub patch: &'a str,
    #[serde(default)]
    pub additions: u64,
    #[serde(default)]
    pub deletions: u64,
    /// The whole texts, if they are small and not forgotten; null where there is no file.
    #[serde(borrow, default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub before: Option<Option<&'a str>>,
    #[serde(borrow, default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub after: Option<Option<&'a str>>,
}

/// The change of one file of a patch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchedFile<'a> {
    /// The path, for a moved file the old one.
    pub file_path: &'a str,
    /// The path for people, for a moved file the new one.
    #[serde(default)]
    pub relative_path: Option<&'a str>,
    #[serde(rename = "type")]
    pub change: FileChange,
    /// A unified diff.
    #[serde(default, alias = "diff")]
    pub patch: &'a str,
    #[serde(default)]
    pub additions: u64,
    #[serde(default)]
    pub deletions: u64,
    /// The new path of a moved file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_path: Option<&'a str>,
    /// The whole texts, if they are small and not forgotten; null where there is no file.
    #[serde(borrow, default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub before: Option<Option<&'a str>>,
    #[serde(borrow, default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub after: Option<Option<&'a str>>,
}

impl<'a> PatchedFile<'a> {
    /// Returns the path after the change.
    pub fn path(&self) -> &'a str {
        self.move_path.unwrap_or(self.file_path)
    }
}

/// The overall change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    Add,
    Update,
    Delete,
    Move,
}

/// The instruction files that came along with what was read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Loaded<'a> {
    #[serde(borrow)]
    pub loaded: Vec<&'a str>,
}

/// The todo list that a call leaves, or is about to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Todos<'a> {
    #[serde(borrow)]
    pub todos: Cow<'a, [Todo]>,
}

/// The user's answers: for each question the chosen labels and any text of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered<'a> {
    #[serde(borrow)]
    pub answers: Cow<'a, [Vec<String>]>,
}

/// The work of a subagent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task<'a> {
    #[serde(default)]
    pub parent_session_id: Option<&'a str>,
    pub session_id: &'a str,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub model: Option<TaskModel<'a>>,
    /// Set where the call has not waited for the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
}

/// The model of a subagent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskModel<'a> {
    #[serde(rename = "modelID")]
    pub model_id: &'a str,
    #[serde(rename = "providerID")]
    pub provider_id: &'a str,
}

/// A question about work for a subagent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedTask<'a> {
    pub description: &'a str,
    pub subagent_type: &'a str,
    pub prompt: &'a str,
    /// The earlier task to continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<&'a str>,
}

/// The number of things that a search found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Lines, of a search in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<u64>,
    /// Files, of a search for names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// The result of `batch`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batched<'a> {
    pub total_calls: usize,
    pub successful: usize,
    pub failed: usize,
    pub tools: &'a [String],
    pub details: Vec<BatchedCall<'a>>,
    pub truncated: bool,
}

/// A call of a batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchedCall<'a> {
    pub tool: &'a str,
    pub success: bool,
}

/// A skill that was loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadedSkill<'a> {
    pub name: &'a str,
    /// The directory with its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<&'a str>,
}

/// A search of the web, as it is asked about and sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Search<'a, K, L> {
    pub query: &'a str,
    #[serde(rename = "type")]
    pub kind: K,
    pub num_results: u32,
    pub livecrawl: L,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_max_characters: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<&'a str>,
}

/// The result of a search of the web.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Searched<'a> {
    pub provider: &'a str,
}

/// A search for code, as it is asked about and sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeSearch<'a> {
    pub query: &'a str,
    pub tokens_num: u32,
}

/// A question about a page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedPage<'a, F> {
    pub url: &'a str,
    pub format: F,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// The URL that is requested, if it is not written the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<&'a str>,
}

/// A page that was fetched.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page<'a> {
    /// The URL that redirects led to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<&'a str>,
}

/// A question to a language server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedLsp<'a> {
    pub operation: &'a str,
    /// Null for a search of symbols without a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<Option<&'a str>>,
    pub file_path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub character: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<&'a str>,
}

/// The answers of language servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LspResults<'a> {
    pub result: &'a [Value],
}

/// A question about reading a file, or about a path outside the project.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedPath<'a> {
    pub filepath: &'a str,
    #[serde(rename = "parentDir", skip_serializing_if = "Option::is_none")]
    pub parent_dir: Option<&'a str>,
    /// The path, or the names, that links lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<&'a str>,
}

/// A question about the entries of a directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedList<'a> {
    pub path: &'a str,
}

/// A question about a search for names or in files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedPattern<'a> {
    pub pattern: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<&'a str>,
}

/// A question about a shell line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedCommand<'a> {
    pub command: &'a str,
    /// Where it runs, if that is elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<&'a str>,
    /// The directories outside the project that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directories: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patterns: Option<&'a [String]>,
}

/// A question about the lists of MCP servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedResources<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<&'a str>,
}

/// The lists of MCP servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resources<'a> {
    pub count: usize,
    pub servers: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<&'a str>,
}

/// A resource of an MCP server, as it is asked about and read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resource<'a> {
    pub server: &'a str,
    pub uri: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<usize>,
}

/// A question about a call that repeats others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedRepeat<'a> {
    pub tool: &'a str,
    pub input: &'a Value,
    pub times: usize,
}

/// A question about a changed configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedConfig<'a> {
    pub changes: &'a str,
    pub prompt: &'a str,
}

/// Tells null from nothing.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<&'de str>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests;
