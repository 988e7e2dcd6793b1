//! The people of an engine that serves several: their answers are kept apart, and their own keys are used.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use windlass_protocol::opencode::id::SessionId;
use windlass_provider::{Model, Secret};

use crate::Engine;

/// Knows the people of a server, for its engine. Called often, so it reads memory alone.
pub trait People: Send + Sync {
    /// Names the person that a session belongs to.
    fn person_of(&self, session: &SessionId) -> Option<String>;
    /// Returns that person's own key of a provider.
    fn key_of(&self, session: &SessionId, provider: &str) -> Option<Secret>;
    /// Gives a session a page for everybody with its link, unless it has one, and returns the link. May write.
    fn share(&self, session: &SessionId) -> BoxFuture<'static, Result<String, String>>;
    /// Takes a session's page back. May write.
    fn unshare(&self, session: &SessionId) -> BoxFuture<'static, Result<(), String>>;
}

impl Engine {
    /// Has the engine serve several people. Once, before the first session is opened.
    pub fn serve_people(&self, people: Box<dyn People>) {
        if self.0.people.set(people).is_err() {
            tracing::error!("the people of an engine were told twice; the first hold");
        }
    }

    pub(crate) fn has_people(&self) -> bool {
        self.people().is_some()
    }

    pub(crate) fn people(&self) -> Option<&dyn People> {
        self.0.people.get().map(|people| &**people)
    }

    pub(crate) fn person_of(&self, session: &SessionId) -> Option<String> {
        self.0.people.get().and_then(|people| people.person_of(session))
    }

    /// Returns a model as a session's person asks it: with a key of their own where they have one.
    pub(crate) fn asked_by<'a>(&self, session: &SessionId, model: &'a Model) -> Cow<'a, Model> {
        match self.0.people.get().and_then(|people| people.key_of(session, &model.provider_id)) {
            Some(key) => {
                let own = Model { api_key: Some(key), has_login: false, exchange: None, ..model.clone() };
                Cow::Owned(own)
            }
            None => Cow::Borrowed(model),
        }
    }
}
