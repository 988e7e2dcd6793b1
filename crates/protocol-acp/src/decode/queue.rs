//! Decoding of requests about the prompts behind a session's work.

use serde_json::Value;

use super::{
    Prompt,
    fields::{InvalidParams, at, invalid, object, text},
    prompt,
};

/// The parameters of `_session/steering`.
#[derive(Debug)]
pub struct Steering {
    pub prompt: Prompt,
    /// Where no turn runs, none is to begin.
    pub is_turn_required: bool,
}

/// Decodes `_session/steering` (facts: ACP §1.6).
pub fn steering(params: Option<&str>) -> Result<Steering, InvalidParams> {
    let object = object(params)?;
    let behavior = at(object.get("_meta"), &["steering", "idleBehavior"]);
    let is_turn_required = match behavior {
        None | Some(Value::Null) => false,
        Some(Value::String(behavior)) if behavior == "promptRequired" => true,
        Some(_) => return Err(invalid("`_meta.steering.idleBehavior` must be `promptRequired`")),
    };
    Ok(Steering { prompt: prompt(params)?, is_turn_required })
}

/// A prompt that waits, as a client names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingPrompt {
    pub session_id: String,
    pub id: u64,
}

/// Decodes the prompt of `_windlass/queue/withdraw` and `_windlass/queue/change`.
pub fn waiting_prompt(params: Option<&str>) -> Result<WaitingPrompt, InvalidParams> {
    let params = object(params)?;
    let id = text(&params, "id")?;
    let id = id.parse().map_err(|_| invalid(format!("no prompt `{id}` waits in this session")))?;
    Ok(WaitingPrompt { session_id: text(&params, "sessionId")?, id })
}

/// The change of `_windlass/queue/change`.
#[derive(Debug)]
pub struct PromptChange {
    /// New words.
    pub prompt: Option<Prompt>,
    /// True to have it read by the turn that runs.
    pub is_steer: Option<bool>,
    /// The index in the list that it gets.
    pub position: Option<usize>,
}

/// Decodes the change of `_windlass/queue/change`.
pub fn prompt_change(params: Option<&str>) -> Result<PromptChange, InvalidParams> {
    let object = object(params)?;
    let is_steer = match object.get("delivery") {
        None | Some(Value::Null) => None,
        Some(delivery) if delivery == "steer" => Some(true),
        Some(delivery) if delivery == "queue" => Some(false),
        Some(_) => return Err(invalid("`delivery` must be `steer` or `queue`")),
    };
    let prompt = match object.get("prompt") {
        None | Some(Value::Null) => None,
        Some(_) => Some(prompt(params)?),
    };
    let position = match object.get("position") {
        None | Some(Value::Null) => None,
        Some(position) => {
            let index = position.as_u64().and_then(|index| usize::try_from(index).ok());
            Some(index.ok_or_else(|| invalid("`position` must be a number from zero"))?)
        }
    };
    if prompt.is_none() && is_steer.is_none() && position.is_none() {
        return Err(invalid("nothing is to be changed: give a `prompt`, a `delivery` or a `position`"));
    }
    Ok(PromptChange { prompt, is_steer, position })
}
