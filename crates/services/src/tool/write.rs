//! Writes a whole file.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_protocol::opencode::tool_metadata::{Written, encode};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    diagnostics::{self, Diagnosed},
    file::{self, BOM, Before, Change},
    path::{self, Target, display},
};

/// The file to write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The file's whole new content.
    pub content: String,
    /// The file to write: an absolute path, or one relative to the working directory.
    pub file_path: String,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("write", input)?;
    file::check_name(&args.file_path)?;
    let target = path::resolve(cx, &args.file_path).await?;
    path::ask_outside(cx, &target).await?;
    let _turn = file::turn(cx, &target).await;
    let (planned, gate) = (target.clone(), Before::new(cx, &target).await);
    let change = file::plan(&target, move || plan(&planned, &gate, args.content)).await?;
    let applied = change.apply(cx, &target).await?;
    let Diagnosed { metadata, words } = diagnostics::behind(cx, &[&target]).await;
    let metadata = encode(&Written {
        diagnostics: metadata,
        filepath: &display(&target.path),
        exists: applied.existed,
        filediff: applied.shown.filediff(),
    });
    Ok(ToolOutput {
        title: target.relative,
        output: format!("Wrote file successfully.{words}"),
        metadata,
        attachments: Vec::new(),
    })
}

fn plan(target: &Target, gate: &Before, content: String) -> Result<Change, ToolError> {
    let before = gate.load(target)?;
    let had_bom = before.as_deref().is_some_and(|bytes| bytes.starts_with(BOM.as_bytes()));
    let content = match before.as_deref().and_then(file::line_ends) {
        Some(line_ends) => line_ends.of(content),
        None => content,
    };
    let after = if had_bom && !content.starts_with(BOM) { format!("{BOM}{content}") } else { content };
    Ok(Change::new(&target.path, before, after))
}

#[cfg(test)]
mod tests;
