//! Runs several tools at once, each as a call of its own with its own questions and result.

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_protocol::opencode::tool_metadata::{Batched, BatchedCall, encode};

use super::{NestedCall, ToolCx, ToolError, ToolOutput, arguments::arguments, row::Offer};

/// Maximum number of calls of one batch that run.
const MAX_CALLS: usize = 10;
/// Maximum number of calls of one batch that are shown, including those that were too many.
const MAX_SHOWN: usize = 20;
const TOO_MANY: &str = "Maximum of 10 tools allowed in batch";

/// The calls.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The calls to make, 1 to 10.
    pub tool_calls: Vec<Item>,
}

/// One call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Item {
    /// The tool's name.
    pub tool: String,
    /// The call's arguments, as the tool takes them.
    pub parameters: Map<String, Value>,
}

pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    offer.config.settings.experimental.batch_tool == Some(true)
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("batch", input)?;
    if args.tool_calls.is_empty() {
        return Err(ToolError::Model("tool_calls is empty: provide at least one tool call".to_owned()));
    }
    // It asks nothing itself.
    cx.host.progress(None, Map::new());
    let n_calls = args.tool_calls.len();
    let tools: Vec<String> = args.tool_calls.iter().map(|call| call.tool.clone()).take(MAX_SHOWN).collect();
    let running =
        args.tool_calls.into_iter().take(MAX_SHOWN).enumerate().map(|(idx, Item { tool, parameters })| {
            let refusal = if idx >= MAX_CALLS {
                Some(TOO_MANY.to_owned())
            } else if tool.eq_ignore_ascii_case("batch") {
                Some("Tool 'batch' is not allowed in batch: a batch cannot hold another.".to_owned())
            } else {
                None
            };
            cx.host.call(NestedCall { tool, input: Value::Object(parameters), refusal })
        });
    let results = join_all(running).await;
    if results.iter().any(|result| matches!(result, Err(ToolError::Cancelled { .. }))) {
        return Err(ToolError::Cancelled { partial: None });
    }
    let n_successful = results.iter().filter(|result| result.is_ok()).count();
    let n_failed = n_calls - n_successful;
    let calls = tools.iter().zip(&results);
    let details = calls.map(|(tool, result)| BatchedCall { tool, success: result.is_ok() }).collect();
    Ok(ToolOutput {
        title: format!("Batch execution ({n_successful}/{n_calls} successful)"),
        output: output(n_calls, n_successful),
        metadata: encode(&Batched {
            total_calls: n_calls,
            successful: n_successful,
            failed: n_failed,
            tools: &tools,
            details,
            truncated: false,
        }),
        attachments: Vec::new(),
    })
}

fn output(n_calls: usize, n_successful: usize) -> String {
    let mut output = match n_calls - n_successful {
        0 => format!("All {n_calls} tools executed successfully."),
        n_failed => format!("Executed {n_successful}/{n_calls} tools successfully. {n_failed} failed."),
    };
    output.push_str(" Each call's own result stands with that call.");
    if n_calls > MAX_CALLS {
        output.push_str(&format!(" {TOO_MANY}; the calls after the tenth did not run."));
    }
    output
}

#[cfg(test)]
mod tests;
