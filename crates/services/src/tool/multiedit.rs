//! Makes several edits of one file at once: all of them or none.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    edit::{self, EMPTY_OLD, IDENTICAL},
    file::{self, Before, Change},
    path::Target,
};

/// The replacements to make, in order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The file to change: an absolute path, or one relative to the working directory.
    pub file_path: String,
    /// The edits in order; each works on the result of those before it.
    pub edits: Vec<Edit>,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    /// The text to replace, exactly as it is in the file. Empty only in the first edit, to create a new file.
    pub old_string: String,
    /// The text to put in its place; must differ from oldString.
    pub new_string: String,
    /// Replace every occurrence instead of exactly one (default false).
    #[serde(default)]
    pub replace_all: bool,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("multiedit", input)?;
    file::check_name(&args.file_path)?;
    if args.edits.is_empty() {
        return Err(ToolError::Model("No changes to apply: edits is empty.".to_owned()));
    }
    let is_new = args.edits.first().is_some_and(|edit| edit.old_string.is_empty());
    let target = edit::resolve(cx, &args.file_path, is_new).await?;
    edit::change(cx, target, move |target, gate| plan(target, gate, &args.edits)).await
}

fn plan(target: &Target, gate: &Before, edits: &[Edit]) -> Result<Change, ToolError> {
    let path = target.path.as_path();
    let before = gate.load(target)?;
    let mut text = match &before {
        Some(bytes) => Some(file::text(path, bytes)?.to_owned()),
        None => None,
    };
    for (idx, edit) in edits.iter().enumerate() {
        let after = apply(path, text.as_deref(), edit).map_err(|error| {
            ToolError::Model(format!("{error}\n(edit {} of {}; none was applied)", idx + 1, edits.len()))
        });
        text = Some(after?);
    }
    Ok(Change::new(path, before, text.unwrap_or_default()))
}

fn apply(path: &Path, text: Option<&str>, edit: &Edit) -> Result<String, String> {
    let Edit { old_string, new_string, replace_all } = edit;
    if old_string == new_string {
        return Err(IDENTICAL.to_owned());
    }
    match (text, old_string.as_str()) {
        (None, "") => Ok(new_string.clone()),
        (None, _) => Err(super::path::missing(format!("File {} not found", path.display()), path)),
        (Some(_), "") => Err(EMPTY_OLD.to_owned()),
        (Some(text), old) => {
            edit::edited(text, old, new_string, *replace_all).map_err(|error| error.to_string())
        }
    }
}

#[cfg(test)]
mod tests;
