//! Gives a task to a subagent, which works in a session of its own and answers with its last message.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_protocol::opencode::tool_metadata::{AskedTask, encode};

use super::{Subtask, ToolCx, ToolError, ToolOutput, arguments::arguments};
use crate::permission::Ask;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The task, in three to five words.
    pub description: String,
    /// Everything the subagent must know and do; it sees nothing else of the conversation.
    pub prompt: String,
    /// The name of the subagent that works on it.
    pub subagent_type: String,
    /// The id of an earlier task to continue, instead of starting a new one.
    #[serde(alias = "session_id")]
    pub task_id: Option<String>,
    /// The command that asked for the task.
    #[expect(dead_code, reason = "models send it; it only tells people where the task came from")]
    pub command: Option<String>,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("task", input)?;
    let metadata = encode(&AskedTask {
        description: &args.description,
        subagent_type: &args.subagent_type,
        prompt: &args.prompt,
        task_id: args.task_id.as_deref(),
    });
    let ask = Ask {
        permission: "task".to_owned(),
        patterns: vec![args.subagent_type.clone()],
        always: vec!["*".to_owned()],
        metadata,
    };
    cx.host.ask(ask).await?;
    let subtask = Subtask {
        description: args.description,
        prompt: args.prompt,
        agent: args.subagent_type,
        task_id: args.task_id,
    };
    cx.host.subtask(subtask).await
}
