//! The hook about slash commands: their parts before they become a prompt.

use serde_json::{Map, Value, json};
use windlass_protocol::opencode::{model_ref::ModelRef, part::FilePart};

use super::message::{cancellable, listening};
use crate::{
    EngineError, PromptPart,
    session::{context::TurnCx, state::SessionState},
};

const COMMAND: &str = "command.execute.before";

/// Lets plugins change the parts of a command before the model reads them.
pub async fn change(
    cx: &TurnCx<'_>,
    state: &SessionState,
    command: &str,
    arguments: &str,
    parts: Vec<PromptPart>,
) -> Result<Vec<PromptPart>, EngineError> {
    let Some(host) = listening(cx, COMMAND) else { return Ok(parts) };
    let input = json!({ "command": command, "sessionID": state.info.id, "arguments": arguments });
    let before: Vec<Value> = parts.iter().map(|part| shown(part, command)).collect();
    let changed = cancellable(cx, host.hook(COMMAND, input, json!({ "parts": before }))).await?;
    let Some(Value::Array(changed)) = changed.get("parts") else { return Ok(parts) };
    let mut kept: Vec<(Value, Option<PromptPart>)> =
        before.into_iter().zip(parts.into_iter().map(Some)).collect();
    let mut part = |value: &Value| {
        // One that no plugin changed keeps the fields that are not shown.
        let same = kept.iter_mut().find(|(before, part)| before == value && part.is_some());
        same.and_then(|(_, part)| part.take()).or_else(|| read(value))
    };
    Ok(changed.iter().filter_map(&mut part).collect())
}

/// Returns a part as plugins see it.
fn shown(part: &PromptPart, command: &str) -> Value {
    match part {
        PromptPart::Text { text, .. } | PromptPart::Document { text, .. } => {
            json!({ "type": "text", "text": text })
        }
        PromptPart::File(file) => {
            let mut shown = json!({ "type": "file" });
            if let (Some(shown), Ok(Value::Object(fields))) =
                (shown.as_object_mut(), serde_json::to_value(file))
            {
                shown.extend(fields);
            }
            shown
        }
        PromptPart::Agent { name } => json!({ "type": "agent", "name": name }),
        PromptPart::Subtask { prompt, description, agent, model } => {
            let mut shown = json!({
                "type": "subtask", "agent": agent, "description": description, "command": command, "prompt": prompt,
            });
            if let Some(model) = model {
                shown["model"] = json!(model);
            }
            shown
        }
    }
}

/// Returns a part that a plugin has written; `None` for one that is none.
fn read(value: &Value) -> Option<PromptPart> {
    let fields: &Map<String, Value> = value.as_object()?;
    let text = |key: &str| Some(fields.get(key)?.as_str()?.to_owned());
    match fields.get("type")?.as_str()? {
        "text" => Some(PromptPart::Text { text: text("text")?, is_synthetic: true, is_ignored: false }),
        "file" => serde_json::from_value::<FilePart>(value.clone()).ok().map(PromptPart::File),
        "agent" => Some(PromptPart::Agent { name: text("name")? }),
        "subtask" => Some(PromptPart::Subtask {
            prompt: text("prompt")?,
            description: text("description").unwrap_or_default(),
            agent: text("agent")?,
            model: fields.get("model").and_then(|it| serde_json::from_value::<ModelRef>(it.clone()).ok()),
        }),
        _other => None,
    }
}
