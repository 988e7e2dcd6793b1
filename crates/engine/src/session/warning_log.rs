//! Warnings to the user about instructions that do not reach a model: each once, a subagent's with its
//! parent's.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use windlass_base::lock::lock;
use windlass_core::{bus::Bus, config::Warning};
use windlass_protocol::opencode::{event::EventPayload, id::SessionId, service::ToastVariant};

/// Warnings that were shown in a session and its subagents' sessions. A copy shares them.
#[derive(Debug, Clone)]
pub struct WarningLog {
    /// The session that the user sees.
    session: SessionId,
    texts: Arc<Mutex<HashSet<String>>>,
}

impl WarningLog {
    pub fn new(session: SessionId) -> Self {
        Self { session, texts: Arc::default() }
    }

    /// Shows the warnings that were not shown yet.
    pub fn warn_once(&self, bus: &Bus, warnings: &[Warning]) {
        let new: Vec<String> = {
            let mut texts = lock(&self.texts);
            warnings.iter().map(ToString::to_string).filter(|text| texts.insert(text.clone())).collect()
        };
        for text in new {
            tracing::warn!(session = %self.session, "{text}");
            bus.publish(EventPayload::Toast {
                session_id: self.session.clone(),
                title: "Some instructions are not sent to the model.".to_owned(),
                message: text,
                variant: ToastVariant::Warning,
            });
        }
    }

    /// Says something that the user may have meant otherwise, once.
    pub fn notify_once(&self, bus: &Bus, text: &str) {
        self.notify_about(bus, text, text);
    }

    /// Says something about a thing that nothing was said about yet.
    pub fn notify_about(&self, bus: &Bus, about: &str, text: &str) {
        if lock(&self.texts).insert(about.to_owned()) {
            tracing::info!(session = %self.session, "{text}");
            bus.publish(EventPayload::Toast {
                session_id: self.session.clone(),
                title: text.to_owned(),
                message: String::new(),
                variant: ToastVariant::Info,
            });
        }
    }
}
