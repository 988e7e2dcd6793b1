//! Requests of a server that works on a call (elicitation, sampling), and the caller that answers them.

use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::Progress;

/// The caller of a tool: sees how far the call has come, and answers the server's requests meanwhile.
pub trait Caller: Send + Sync {
    /// Returns the session that makes the call.
    fn session(&self) -> &str {
        ""
    }

    fn progressed(&self, progress: &Progress);

    /// Has the user fill in a form or open a page.
    fn elicit(&self, _: Elicitation) -> BoxFuture<'_, Elicited> {
        Box::pin(ready(Elicited::Declined))
    }

    /// Has a model answer; an error is a sentence for the server.
    fn sample(&self, _: Sampling) -> BoxFuture<'_, Result<Sampled, String>> {
        Box::pin(ready(Err("no model is here to be asked".to_owned())))
    }
}

/// A caller that waits for the result alone.
impl Caller for () {
    fn progressed(&self, _: &Progress) {}
}

/// Words for the user, and the input that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    pub message: String,
    pub wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// Values for a flat object of this JSON schema.
    Form(Value),
    /// The user is to open this page. The server names it by the id when it is done with.
    Page { id: String, url: String },
}

/// The user's answer.
#[derive(Debug)]
pub enum Elicited {
    Accepted(Map<String, Value>),
    /// The page is open.
    Opened(Completion),
    Declined,
    Cancelled,
    /// The user was not asked; the reason is a sentence for the server.
    Refused(String),
}

/// Passes on that the server has done with a page, which may be after its call.
pub struct Completion(pub Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Completion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Completion")
    }
}

/// A conversation that a model is to go on with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    pub system: Option<String>,
    pub messages: Vec<(Speaker, String)>,
    pub temperature: Option<f64>,
    pub max_tokens: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    User,
    Model,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    pub text: String,
    pub model: String,
}

/// A request on its way to the caller.
#[derive(Debug)]
pub(super) enum Wish {
    Elicitation(Elicitation, oneshot::Sender<Elicited>),
    Sampling(Sampling, oneshot::Sender<Result<Sampled, String>>),
}

impl Wish {
    /// Has the caller answer, until the server takes the request back.
    pub(super) async fn answer(self, caller: &dyn Caller) {
        match self {
            Self::Elicitation(wish, mut reply) => tokio::select! {
                () = reply.closed() => {}
                elicited = caller.elicit(wish) => drop(reply.send(elicited)),
            },
            Self::Sampling(wish, mut reply) => tokio::select! {
                () = reply.closed() => {}
                sampled = caller.sample(wish) => drop(reply.send(sampled)),
            },
        }
    }
}
