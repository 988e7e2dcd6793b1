//! The hook about slash commands: their parts before they become a prompt.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_protocol::opencode::{model_ref::ModelRef, part::FilePart};

use super::message::{cancellable, listening, unreadable};
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
    let Some(changed) = changed.get("parts") else { return Ok(parts) };
    let Value::Array(changed) = changed else {
        return Err(unreadable("parts of a command", "they are no list"));
    };
    let mut kept: Vec<(Value, Option<PromptPart>)> =
        before.into_iter().zip(parts.into_iter().map(Some)).collect();
    let mut part = |value: &Value| {
        // One that no plugin changed keeps the fields that are not shown.
        let same = kept.iter_mut().find(|(before, part)| before == value && part.is_some());
        match same.and_then(|(_, part)| part.take()) {
            Some(part) => Ok(part),
            None => read(value).map_err(|error| unreadable("parts of a command", error)),
        }
    };
    changed.iter().map(&mut part).collect()
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

/// A part that a plugin has written.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Written {
    Text { text: String },
    File(FilePart),
    Agent { name: String },
    Subtask { prompt: String, description: Option<String>, agent: String, model: Option<ModelRef> },
}

fn read(value: &Value) -> Result<PromptPart, serde_json::Error> {
    Ok(match Written::deserialize(value)? {
        Written::Text { text } => PromptPart::Text { text, is_synthetic: true, is_ignored: false },
        Written::File(file) => PromptPart::File(file),
        Written::Agent { name } => PromptPart::Agent { name },
        Written::Subtask { prompt, description, agent, model } => {
            let description = description.unwrap_or_default();
            PromptPart::Subtask { prompt, description, agent, model }
        }
    })
}
