//! Requests that we make of the client for a tool or a server, and those that it has not answered.

use std::collections::HashMap;

use serde_json::{Value, value::RawValue};
use tokio::sync::oneshot;
use windlass_engine::Notifications;
use windlass_protocol::{
    opencode::id::SessionId,
    rpc::{ErrorBody, Id},
};

/// A request for the client.
pub struct ClientCall {
    pub number: u64,
    /// The session that it is about, which goes into the parameters.
    pub session_id: Option<SessionId>,
    pub method: &'static str,
    pub params: Value,
    /// Takes notifications about the request, where it is for a server in the client.
    pub notified: Option<Notified>,
    pub reply: oneshot::Sender<Result<Value, CallFailure>>,
}

/// Takes the notifications of a server in the client about one request.
pub struct Notified {
    pub server_id: String,
    pub request_id: String,
    pub notifications: Notifications,
}

/// The reason that the client did not carry out a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// It answers nothing any more.
    Gone,
    /// Its words.
    Refused(String),
}

/// The requests that the client has not answered.
#[derive(Default)]
pub struct ClientCalls {
    waiting: HashMap<Id, Waiting>,
    /// The client answers nothing any more.
    is_given_up: bool,
}

struct Waiting {
    number: u64,
    notified: Option<Notified>,
    reply: oneshot::Sender<Result<Value, CallFailure>>,
}

impl ClientCalls {
    pub fn insert(
        &mut self,
        id: Id,
        number: u64,
        notified: Option<Notified>,
        reply: oneshot::Sender<Result<Value, CallFailure>>,
    ) {
        self.waiting.insert(id, Waiting { number, notified, reply });
    }

    /// Takes the client's answer; false if no request here has this id.
    pub fn answered(&mut self, id: &Id, result: &Result<Option<&RawValue>, ErrorBody>) -> bool {
        let Some(Waiting { reply, .. }) = self.waiting.remove(id) else { return false };
        let result = match result {
            Ok(json) => Ok(json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()),
            Err(failure) => Err(CallFailure::Refused(failure.message.to_string())),
        };
        // A cancelled caller does not wait any more.
        let _ = reply.send(result);
        true
    }

    /// Returns the requests about which there may be notifications.
    pub fn notified(&self) -> impl Iterator<Item = &Notified> {
        self.waiting.values().filter_map(|waiting| waiting.notified.as_ref())
    }

    /// Forgets a request that nothing waits for; returns its id if the client has it.
    pub fn cancel(&mut self, number: u64) -> Option<Id> {
        let id =
            self.waiting.iter().find(|(_, waiting)| waiting.number == number).map(|(id, _)| id.clone())?;
        self.waiting.remove(&id);
        Some(id)
    }

    /// Ends all requests, and those to come: the client answers nothing any more.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
        self.waiting.clear();
    }

    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }
}
