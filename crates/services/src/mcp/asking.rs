//! Passes the requests that a server makes while it works on a call on to the caller.
#![expect(deprecated, reason = "the newest revision deprecates sampling; the servers of today use it")]

use rmcp::{
    ErrorData,
    model::{
        CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, Role, SamplingMessage, SamplingMessageContentBlock,
    },
};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    watched::WatchedCalls,
    wishes::{Elicitation, Elicited, Sampled, Sampling, Speaker, Wanted, Wish},
};

/// Passes a form or a page on to the newest call.
pub(super) async fn elicit(
    calls: &WatchedCalls,
    params: ElicitRequestParams,
    cancel: &CancellationToken,
) -> Result<ElicitResult, ErrorData> {
    let wish = match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema).unwrap_or_default();
            Elicitation { message, wanted: Wanted::Form(schema) }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
            Elicitation { message, wanted: Wanted::Page { id: elicitation_id, url } }
        }
        // The enum is non-exhaustive.
        _ => return Ok(ElicitResult::new(ElicitationAction::Decline)),
    };
    let page = match &wish.wanted {
        Wanted::Page { id, .. } => {
            let in_use = || ErrorData::invalid_params("a page of this id is open, or too many are", None);
            Some(calls.page(id).ok_or_else(in_use)?)
        }
        Wanted::Form(_) => None,
    };
    let elicited = pass_on(calls, cancel, |reply| Wish::Elicitation(wish, reply)).await;
    Ok(match elicited {
        Some(Elicited::Refused(reason)) => return Err(ErrorData::invalid_params(reason, None)),
        Some(Elicited::Opened(completion)) => {
            if let Some(page) = page {
                page.opened(completion);
            }
            ElicitResult::new(ElicitationAction::Accept)
        }
        Some(Elicited::Accepted(content)) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
        }
        Some(Elicited::Cancelled) => ElicitResult::new(ElicitationAction::Cancel),
        Some(Elicited::Declined) | None => ElicitResult::new(ElicitationAction::Decline),
    })
}

/// Passes a conversation on to the newest call.
pub(super) async fn sample(
    calls: &WatchedCalls,
    params: CreateMessageRequestParams,
    cancel: &CancellationToken,
) -> Result<CreateMessageResult, ErrorData> {
    let wish = sampling(params).map_err(|reason| ErrorData::invalid_params(reason, None))?;
    let sampled = pass_on(calls, cancel, |reply| Wish::Sampling(wish, reply)).await;
    match sampled {
        Some(Ok(Sampled { text, model })) => {
            let message = SamplingMessage::assistant_text(text);
            Ok(CreateMessageResult::new(message, model)
                .with_stop_reason(CreateMessageResult::STOP_REASON_END_TURN))
        }
        Some(Err(reason)) => Err(ErrorData::internal_error(reason, None)),
        None => Err(ErrorData::invalid_request("no call is on its way to ask a model for", None)),
    }
}

fn sampling(params: CreateMessageRequestParams) -> Result<Sampling, &'static str> {
    if params.tools.is_some_and(|tools| !tools.is_empty()) {
        return Err("sampling with tools is not offered");
    }
    let mut messages = Vec::new();
    for message in params.messages {
        let speaker = match message.role {
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Model,
        };
        for block in message.content.into_vec() {
            match block {
                SamplingMessageContentBlock::Text(text) => messages.push((speaker, text.text)),
                _ => return Err("sampling takes text only"),
            }
        }
    }
    Ok(Sampling {
        system: params.system_prompt,
        messages,
        temperature: params.temperature.map(f64::from),
        max_tokens: params.max_tokens.into(),
    })
}

/// Returns the answer of the newest call's caller; `None` without one, or when the server takes it back.
async fn pass_on<T>(
    calls: &WatchedCalls,
    cancel: &CancellationToken,
    wish: impl FnOnce(oneshot::Sender<T>) -> Wish,
) -> Option<T> {
    let wishes = calls.newest()?;
    let _asking = calls.asks();
    let (reply, answer) = oneshot::channel();
    let asked = async {
        wishes.send(wish(reply)).await.ok()?;
        answer.await.ok()
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        answer = asked => answer,
    }
}
