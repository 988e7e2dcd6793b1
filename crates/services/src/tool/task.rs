//! Gives a task to a subagent, which works in a session of its own and answers with its last message.

use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_core::{config::Config, permission::Ask};
use windlass_protocol::opencode::tool_metadata::{AskedTask, encode};

use super::{
    Subtask, ToolCx, ToolError, ToolOutput,
    arguments::{arguments, schema_of},
    row::Schema,
    schema,
};

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
    /// Return at once and work on; the result comes later, as a message.
    pub background: Option<bool>,
}

/// Text for the model where subagents may work in the background.
const IN_BACKGROUND: &str = "
In the background
- With `background: true` the call returns at once with the task id, and you go on. Use it for work whose result you do not need for your next step.
- The result comes by itself, as a message that holds a <task> with this id. Do not wait or ask for it; when there is nothing else to do, end your answer.
- Pass the id of a running task as `task_id`, with `background: true`, to give it more to do.";

/// Returns true if subagents may work in the background: by our setting, else by OpenCode's variables.
pub fn is_in_background(config: &Config) -> bool {
    let by_variable = || {
        let names = ["OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS", "OPENCODE_EXPERIMENTAL"];
        names.iter().any(|name| config.environment.is_on(name))
    };
    config.settings.windlass.background_subagents.unwrap_or_else(by_variable)
}

/// Returns the tool's text and schema, which name the background only where there is one.
pub fn described(config: &Config, text: &str) -> (String, Schema) {
    static WITHOUT: LazyLock<Arc<Value>> = LazyLock::new(|| {
        let mut schema = schema("task").clone();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove("background");
        }
        Arc::new(schema)
    });
    if is_in_background(config) {
        (format!("{}\n{IN_BACKGROUND}", text.trim_end()), Schema::Of(schema_of::<Args>))
    } else {
        (text.to_owned(), Schema::Shared(WITHOUT.clone()))
    }
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
        is_background: args.background == Some(true) && is_in_background(cx.config),
    };
    cx.host.subtask(subtask).await
}
