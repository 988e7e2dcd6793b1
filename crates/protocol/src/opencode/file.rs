//! Files and matches in them, as the HTTP API shows them.

use serde::{Deserialize, Serialize};

use super::project::FileChange;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileNode {
    pub name: String,
    /// The path below the selected directory; a directory's ends with `/`.
    pub path: String,
    pub absolute: String,
    pub r#type: NodeType,
    /// True if the ignore files of the repository name it.
    pub ignored: bool,
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum NodeType {
    File,
    Directory,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileContent {
    pub r#type: ContentType,
    pub content: String,
    /// The difference to the last commit as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The same in pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<FilePatch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// The type of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ContentType {
    Text,
    Binary,
}

/// The encoding of a content that is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    Base64,
}

/// The difference of a file to the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FilePatch {
    pub old_file_name: String,
    pub new_file_name: String,
    pub hunks: Vec<Hunk>,
}

/// A changed range of lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    pub old_start: u64,
    pub old_lines: u64,
    pub new_start: u64,
    pub new_lines: u64,
    /// The lines, each behind its sign.
    pub lines: Vec<String>,
}

/// A changed file: OpenCode's `File` object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileStatus {
    pub path: String,
    pub added: u64,
    pub removed: u64,
    pub status: FileChange,
}

/// A text, wrapped as ripgrep's own JSON has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Text {
    pub text: String,
}

/// A line that matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineMatch {
    pub path: Text,
    pub lines: Text,
    pub line_number: u64,
    /// The position of the line in the file, in bytes.
    pub absolute_offset: u64,
    pub submatches: Vec<Submatch>,
}

/// A match within a line, by bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Submatch {
    pub r#match: Text,
    pub start: u64,
    pub end: u64,
}

/// A symbol that a language server knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Symbol {
    pub name: String,
    /// The number of the kind in the language server protocol.
    pub kind: u64,
    pub location: SymbolLocation,
}

/// The place of a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SymbolLocation {
    pub uri: String,
    pub range: Range,
}

/// A range of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Range {
    pub start: Position,
    pub end: Position,
}

/// A position in a text, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Position {
    pub line: u64,
    pub character: u64,
}
