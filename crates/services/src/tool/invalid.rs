//! Answers a call that could not be made: an unknown tool or arguments that do not decode.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ToolCx, ToolError, ToolOutput, arguments::arguments};

/// The failed call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The name of the tool that was called.
    pub tool: String,
    /// The reason that it could not run.
    pub error: String,
}

pub(super) async fn run(_cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("invalid", input)?;
    Ok(ToolOutput {
        title: "Invalid Tool".to_owned(),
        output: format!("The arguments provided to the tool are invalid: {}", args.error),
        metadata: Map::new(),
        attachments: Vec::new(),
    })
}
