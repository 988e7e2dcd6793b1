//! Replaces text in a file.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_protocol::opencode::tool_metadata::{Edited, encode};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    diagnostics::{self, Diagnosed},
    edit_match,
    file::{self, BOM, Before, Change, LineEnds},
    path::{self, Target},
    row::Offer,
};

pub(super) const IDENTICAL: &str = "No changes to apply: oldString and newString are identical.";
pub(super) const EMPTY_OLD: &str = "oldString cannot be empty when editing an existing file. Provide the exact text to replace, or use write for an intentional full-file replacement.";

/// The replacement to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The file to change: an absolute path, or one relative to the working directory.
    pub file_path: String,
    /// The text to replace, exactly as it is in the file. Empty only to create a new file.
    pub old_string: String,
    /// The text to put in its place; must differ from oldString.
    pub new_string: String,
    /// Replace every occurrence instead of exactly one (default false).
    #[serde(default)]
    pub replace_all: bool,
}

pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    !offer.writes_patches()
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("edit", input)?;
    file::check_name(&args.file_path)?;
    if args.old_string == args.new_string {
        return Err(ToolError::Model(IDENTICAL.to_owned()));
    }
    let file_path = args.file_path.clone();
    let target = resolve(cx, &file_path, args.old_string.is_empty()).await?;
    change(cx, target, move |target, gate| plan(target, gate, &args)).await
}

/// Resolves the path of a file to change, or of a new one.
pub(super) async fn resolve(cx: &ToolCx<'_>, file_path: &str, is_new: bool) -> Result<Target, ToolError> {
    if is_new { path::resolve(cx, file_path).await } else { path::resolve_existing(cx, file_path).await }
}

/// Changes one file by `plan`, which gets the state of the file that the model knows.
pub(super) async fn change(
    cx: &ToolCx<'_>,
    target: Target,
    plan: impl FnOnce(&Target, &Before) -> Result<Change, ToolError> + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    path::ask_outside(cx, &target).await?;
    let _turn = file::turn(cx, &target).await;
    let (planned, gate) = (target.clone(), Before::new(cx, &target).await);
    let change = file::plan(&target, move || plan(&planned, &gate)).await?;
    let applied = change.apply(cx, &target).await?;
    let shown = &applied.shown;
    let Diagnosed { metadata, words } = diagnostics::behind(cx, &[&target]).await;
    let edited = Edited { diagnostics: metadata, diff: shown.patch(), filediff: shown.filediff() };
    Ok(ToolOutput {
        title: target.relative,
        output: format!("Edit applied successfully.{words}"),
        metadata: encode(&edited),
        attachments: Vec::new(),
    })
}

fn plan(target: &Target, gate: &Before, args: &Args) -> Result<Change, ToolError> {
    let path = target.path.as_path();
    let before = gate.load(target)?;
    let Some(bytes) = before else {
        return if args.old_string.is_empty() {
            Ok(Change::new(path, None, args.new_string.clone()))
        } else {
            Err(ToolError::Model(path::missing(format!("File {} not found", path.display()), path)))
        };
    };
    if args.old_string.is_empty() {
        return Err(ToolError::Model(EMPTY_OLD.to_owned()));
    }
    let text = file::text(path, &bytes)?;
    let after = edited(text, &args.old_string, &args.new_string, args.replace_all)
        .map_err(|error| ToolError::Model(error.to_string()))?;
    Ok(Change::new(path, Some(bytes), after))
}

/// Returns the new text, with the byte order mark and the line ends of the file.
pub(super) fn edited(
    text: &str,
    old: &str,
    new: &str,
    is_all: bool,
) -> Result<String, edit_match::MatchError> {
    let (bom, body) = match text.strip_prefix(BOM) {
        Some(body) => (BOM, body),
        None => ("", text),
    };
    let without_bom = |given: &str| given.strip_prefix(BOM).unwrap_or(given).to_owned();
    let with = |ends: LineEnds| (ends.of(without_bom(old)), ends.of(without_bom(new)));
    let (old, new) = match file::line_ends(body.as_bytes()) {
        Some(ends) => with(ends),
        None => {
            // In a file with both line ends, those of the replaced text decide about those of the new text.
            let (lf, crlf) = (with(LineEnds::Lf), with(LineEnds::CrLf));
            let is_lf =
                !body.contains("\r\n") || (lf != crlf && body.contains(&lf.0) && !body.contains(&crlf.0));
            if is_lf { lf } else { crlf }
        }
    };
    let mut edited = edit_match::replace(body, &old, &new, is_all)?;
    // A large text is copied only if necessary.
    if !bom.is_empty() {
        edited.insert_str(0, bom);
    }
    Ok(edited)
}

#[cfg(test)]
mod tests;
