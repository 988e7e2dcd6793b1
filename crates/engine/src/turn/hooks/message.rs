//! The hooks about messages: prompts, commands, finished texts, and summaries.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_base::ids;
use windlass_core::library::Agent;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::{Message, UserMessage},
    model_ref::ModelRef,
    part::{Part, PartKind, TextPart},
};
use windlass_provider::Model;
use windlass_services::plugin::host::{HookError, Host};

use crate::{
    EngineError, EngineErrorKind,
    session::{
        context::TurnCx,
        state::{Journal, SessionState},
        structured,
    },
};

const MESSAGE: &str = "chat.message";
const TEXT: &str = "experimental.text.complete";
const COMPACTING: &str = "experimental.session.compacting";
const AUTO_CONTINUE: &str = "experimental.compaction.autocontinue";

/// Lets plugins change the newest message, a prompt with its first `n_stored` parts stored. The unstored parts of one
/// that they refuse are taken back.
pub async fn change_prompt(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    n_stored: usize,
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
    let output = json!({ "message": newest.info, "parts": newest.parts.get(n_stored..) });
    let changed = cancellable(cx, host.hook(MESSAGE, input, output)).await;
    let checked = changed.and_then(|changed| {
        let message = changed.get("message").map(Message::deserialize).transpose();
        let message = message.map_err(|error| unreadable("a message", error))?;
        match &message {
            Some(Message::User(prompt)) => drop(answering(cx, prompt)?),
            Some(Message::Assistant(_)) => return Err(unreadable("a message", "it is no prompt's")),
            None => {}
        }
        let parts = changed.get("parts").map(|parts| whole(parts, newest.info.session_id(), &id));
        let parts = parts.transpose().map_err(|error| unreadable("parts of a message", error))?;
        Ok((message, parts))
    });
    let (message, parts) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            match state.history.newest_mut() {
                Some(newest) if n_stored > 0 => newest.parts.truncate(n_stored),
                Some(_) | None => state.history.remove(&[id].into()),
            }
            return Err(error);
        }
    };
    if message.is_none() && parts.is_none() {
        return Ok(());
    }
    let Some(newest) = state.history.newest_mut() else { return Ok(()) };
    if let Some(message) = message {
        newest.info = message;
    }
    if let Some(parts) = parts {
        newest.parts.truncate(n_stored);
        newest.parts.extend(parts);
    }
    *said = Journal::default();
    said.message(&newest.info);
    for part in newest.parts.iter().skip(n_stored) {
        said.part(part);
    }
    Ok(())
}

/// Returns the agent and the model that a prompt names where they are others than the turn's.
fn answering<'a>(
    cx: &'a TurnCx<'_>,
    prompt: &UserMessage,
) -> Result<(Option<&'a Agent>, Option<Model>), EngineError> {
    let agent =
        (prompt.agent != cx.agent.name).then(|| cx.loaded.checked_agent(&prompt.agent)).transpose()?;
    let own = ModelRef { variant: cx.variant.clone(), ..cx.model.reference() };
    let model = (prompt.model != own).then(|| cx.loaded.checked_model(&prompt.model)).transpose()?;
    if let Some(model) = model.as_ref().filter(|_| cx.structured.is_some()) {
        structured::check_model(model)?;
    }
    Ok((agent, model))
}

/// Has the agent and the model answer that a plugin wrote into the newest prompt.
pub fn follow_prompt(cx: &mut TurnCx<'_>, state: &SessionState) -> Result<(), EngineError> {
    if listening(cx, MESSAGE).is_none() {
        return Ok(());
    }
    let Some(Message::User(prompt)) = super::newest_prompt(state) else { return Ok(()) };
    let (agent, model) = answering(cx, prompt)?;
    if let Some(agent) = agent.cloned() {
        cx.agent = agent;
    }
    if let Some(model) = model {
        cx.variant = cx.loaded.variant_for(&cx.agent, &model, prompt.model.variant.as_deref());
        cx.model = model;
    }
    Ok(())
}

/// Returns parts as plugins left them, with the ids that they may lack.
fn whole(
    parts: &Value,
    session_id: &SessionId,
    message_id: &MessageId,
) -> Result<Vec<Part>, serde_json::Error> {
    let parts = Vec::<Map<String, Value>>::deserialize(parts)?.into_iter().map(|mut fields| {
        fields.entry("id").or_insert_with(|| json!(ids::part()));
        fields.insert("sessionID".to_owned(), json!(session_id));
        fields.insert("messageID".to_owned(), json!(message_id));
        Part::deserialize(Value::Object(fields))
    });
    parts.collect()
}

/// Returns the failure over something of a plugin's: leaving it out would lose words of the user.
pub(super) fn unreadable(left: &str, error: impl fmt::Display) -> EngineError {
    let message = format!("a plugin left {left} that cannot be read: {error}");
    EngineError::new(EngineErrorKind::Internal, message)
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
    cx.commit(&mut journal).await
}

/// Words of plugins in a request for a summary.
#[derive(Default)]
pub struct Wanted {
    /// The request in the place of our own.
    pub prompt: Option<String>,
    /// Texts that are added.
    pub context: Vec<String>,
}

/// Lets plugins add to the request for a summary, or put another in its place.
pub async fn change_summary(cx: &TurnCx<'_>, state: &SessionState) -> Result<Wanted, EngineError> {
    let Some(host) = listening(cx, COMPACTING) else { return Ok(Wanted::default()) };
    let input = json!({ "sessionID": state.info.id });
    let changed = cancellable(cx, host.hook(COMPACTING, input, json!({ "context": [] }))).await?;
    let context = changed.get("context").and_then(Value::as_array).into_iter().flatten();
    Ok(Wanted {
        prompt: changed.get("prompt").and_then(Value::as_str).map(str::to_owned),
        context: context.filter_map(|it| it.as_str().map(str::to_owned)).collect(),
    })
}

/// Returns false if a plugin wants the turn to end behind an automatic summary.
pub async fn goes_on(cx: &TurnCx<'_>, state: &SessionState, overflow: bool) -> Result<bool, EngineError> {
    let Some(host) = listening(cx, AUTO_CONTINUE) else { return Ok(true) };
    let message = super::newest_prompt(state);
    let shown = super::shown_model(&cx.session.engine, &cx.loaded, &cx.model.reference()).await;
    let input = json!({
        "sessionID": state.info.id,
        "agent": cx.agent.name,
        "model": shown.as_ref().map(|(_, model)| model),
        "provider": shown.as_ref().map(|(provider, _)| json!({ "source": provider.source, "info": provider, "options": provider.options })),
        "message": message,
        "overflow": overflow,
    });
    let changed = cancellable(cx, host.hook(AUTO_CONTINUE, input, json!({ "enabled": true }))).await?;
    Ok(changed.get("enabled") != Some(&Value::Bool(false)))
}

pub(super) fn listening<'a>(cx: &'a TurnCx<'_>, hook: &str) -> Option<&'a Host> {
    cx.plugins.as_deref().filter(|host| host.declares(hook))
}

/// Waits for a hook, and for nothing once the turn is cancelled.
pub(super) async fn cancellable<T: Default>(
    cx: &TurnCx<'_>,
    hook: impl Future<Output = Result<T, HookError>>,
) -> Result<T, EngineError> {
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Ok(T::default()),
        result = hook => result.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string())),
    }
}
