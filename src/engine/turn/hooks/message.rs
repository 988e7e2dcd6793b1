//! The hooks about what is said: prompts, commands, finished texts, and summaries.

use serde_json::{Value, json};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::Message,
    part::{Part, PartKind, TextPart},
};

use crate::{
    base::ids,
    engine::{
        EngineError, EngineErrorKind,
        session::{
            context::TurnCx,
            state::{Journal, SessionState},
        },
    },
    plugin::host::{HookError, Host},
};

const MESSAGE: &str = "chat.message";
const COMMAND: &str = "command.execute.before";
const TEXT: &str = "experimental.text.complete";
const COMPACTING: &str = "experimental.session.compacting";
const AUTO_CONTINUE: &str = "experimental.compaction.autocontinue";

/// Lets plugins change the newest message, a prompt that is not stored yet. One that they refuse is taken back.
pub async fn change_prompt(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    said: &mut Journal,
) -> Result<(), EngineError> {
    let Some(host) = listening(cx, MESSAGE) else { return Ok(()) };
    let Some(newest) = state.history.last() else { return Ok(()) };
    let id = newest.info.id().clone();
    let mut input = json!({
        "sessionID": state.info.id,
        "agent": cx.agent.name,
        "model": cx.model.reference(),
        "messageID": id,
    });
    if let Some(variant) = &cx.variant {
        input["variant"] = variant.as_str().into();
    }
    let output = json!({ "message": newest.info, "parts": newest.parts });
    let changed = match cancellable(cx, host.hook(MESSAGE, input, output)).await {
        Ok(changed) => changed,
        Err(error) => {
            state.history.remove(&[id].into());
            return Err(error);
        }
    };
    if changed.is_empty() {
        return Ok(());
    }
    let Some(newest) = state.history.newest_mut() else { return Ok(()) };
    if let Some(Ok(message @ Message::User(_))) =
        changed.get("message").map(|it| serde_json::from_value(it.clone()))
    {
        newest.info = message;
    }
    if let Some(Value::Array(parts)) = changed.get("parts") {
        let session_id = newest.info.session_id().clone();
        newest.parts = parts.iter().filter_map(|part| whole(part, &session_id, &id)).collect();
    }
    *said = Journal::default();
    said.message(&newest.info);
    for part in &newest.parts {
        said.part(part);
    }
    Ok(())
}

/// Returns a part as a plugin left it, with the ids that it may lack.
fn whole(part: &Value, session_id: &SessionId, message_id: &MessageId) -> Option<Part> {
    let mut part = part.clone();
    let fields = part.as_object_mut()?;
    fields.entry("id").or_insert_with(|| json!(ids::part()));
    fields.insert("sessionID".to_owned(), json!(session_id));
    fields.insert("messageID".to_owned(), json!(message_id));
    serde_json::from_value(part).ok()
}

/// Lets plugins change the text of a command before the model reads it.
pub async fn change_command(
    cx: &TurnCx<'_>,
    state: &SessionState,
    command: &str,
    arguments: &str,
    text: String,
) -> Result<String, EngineError> {
    let Some(host) = listening(cx, COMMAND) else { return Ok(text) };
    let input = json!({ "command": command, "sessionID": state.info.id, "arguments": arguments });
    let output = json!({ "parts": [{ "type": "text", "text": text }] });
    let changed = cancellable(cx, host.hook(COMMAND, input, output)).await?;
    let Some(Value::Array(parts)) = changed.get("parts") else { return Ok(text) };
    let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
    Ok(texts.collect::<Vec<_>>().join("\n\n"))
}

/// Lets plugins change the finished texts of the newest answer.
pub async fn change_texts(cx: &TurnCx<'_>, state: &mut SessionState) -> Result<(), EngineError> {
    let Some(host) = listening(cx, TEXT) else { return Ok(()) };
    let Some(newest) = state.history.last() else { return Ok(()) };
    let texts: Vec<(usize, Value, String)> = newest
        .parts
        .iter()
        .enumerate()
        .filter_map(|(idx, part)| match &part.kind {
            PartKind::Text(TextPart { text, .. }) if !text.is_empty() => {
                let input = json!({
                    "sessionID": state.info.id, "messageID": newest.info.id(), "partID": part.id,
                });
                Some((idx, input, text.clone()))
            }
            _other => None,
        })
        .collect();
    let mut journal = Journal::default();
    for (idx, input, text) in texts {
        let changed = cancellable(cx, host.hook(TEXT, input, json!({ "text": text }))).await?;
        let Some(Value::String(changed)) = changed.get("text") else { continue };
        let Some(part) = state.part_mut(idx) else { continue };
        if let PartKind::Text(text) = &mut part.kind {
            text.text.clone_from(changed);
        }
        journal.part(part);
    }
    journal.commit(cx.session.engine.storage(), cx.session.engine.bus()).await
}

/// Lets plugins add to the request for a summary, or put another in its place.
pub async fn change_summary(
    cx: &TurnCx<'_>,
    state: &SessionState,
    text: String,
) -> Result<String, EngineError> {
    let Some(host) = listening(cx, COMPACTING) else { return Ok(text) };
    let input = json!({ "sessionID": state.info.id });
    let changed = cancellable(cx, host.hook(COMPACTING, input, json!({ "context": [] }))).await?;
    let prompt = changed.get("prompt").and_then(Value::as_str);
    let context = changed.get("context").and_then(Value::as_array).into_iter().flatten();
    let pieces = std::iter::once(prompt.unwrap_or(&text)).chain(context.filter_map(Value::as_str));
    Ok(pieces.collect::<Vec<_>>().join("\n\n"))
}

/// Returns false if a plugin wants the turn to end behind an automatic summary.
pub async fn goes_on(cx: &TurnCx<'_>, state: &SessionState, overflow: bool) -> Result<bool, EngineError> {
    let Some(host) = listening(cx, AUTO_CONTINUE) else { return Ok(true) };
    let mut messages = state.history.iter().rev().map(|it| &it.info);
    let message = messages.find(|it| matches!(it, Message::User(_)));
    let shown = super::shown_model(cx).await;
    let input = json!({
        "sessionID": state.info.id,
        "agent": cx.agent.name,
        "model": shown.as_ref().map(|(_, model)| model),
        "provider": shown.as_ref().map(|(provider, _)| json!({ "info": provider, "options": provider.options })),
        "message": message,
        "overflow": overflow,
    });
    let changed = cancellable(cx, host.hook(AUTO_CONTINUE, input, json!({ "enabled": true }))).await?;
    Ok(changed.get("enabled") != Some(&Value::Bool(false)))
}

fn listening<'a>(cx: &'a TurnCx<'_>, hook: &str) -> Option<&'a Host> {
    cx.plugins.as_deref().filter(|host| host.declares(hook))
}

/// Waits for a hook, and for nothing once the turn is cancelled.
async fn cancellable<T: Default>(
    cx: &TurnCx<'_>,
    hook: impl Future<Output = Result<T, HookError>>,
) -> Result<T, EngineError> {
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Ok(T::default()),
        result = hook => result.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string())),
    }
}
