//! An event in the forms that readers of streams get, each written once for all of them.

use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use windlass_protocol::opencode::event::Event;

/// The directory and project of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectDirectory {
    pub directory: Arc<str>,
    pub project_id: Arc<str>,
}

/// See the module's comment.
#[derive(Debug)]
pub struct EncodedEvent {
    event: Arc<Event>,
    /// None for an event of no known directory.
    project: Option<ProjectDirectory>,
    text: OnceLock<String>,
    plain: OnceLock<Bytes>,
    placed: OnceLock<Bytes>,
    located: OnceLock<Bytes>,
}

/// An event as it is written.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    r#type: &'a RawValue,
    #[serde(borrow)]
    properties: &'a RawValue,
}

impl EncodedEvent {
    pub fn new(event: Arc<Event>, project: Option<ProjectDirectory>) -> Self {
        let [plain, placed, located] = [const { OnceLock::new() }; 3];
        Self { event, project, text: OnceLock::new(), plain, placed, located }
    }

    /// Returns true if it is this event, and no equal one.
    pub fn is_of(&self, event: &Arc<Event>) -> bool {
        Arc::ptr_eq(&self.event, event)
    }

    pub fn directory(&self) -> Option<&str> {
        self.project.as_ref().map(|it| &*it.directory)
    }

    fn text(&self) -> &str {
        // Every event can be written: its keys are texts.
        self.text.get_or_init(|| serde_json::to_string(&self.event).unwrap_or_default())
    }

    fn shown_directory(&self) -> &str {
        self.directory().unwrap_or("global")
    }

    /// Writes the event alone.
    pub fn plain(&self) -> Bytes {
        self.plain.get_or_init(|| frame(self.text())).clone()
    }

    /// Writes the event beside its directory and project.
    pub fn placed(&self) -> Bytes {
        let write = || {
            let mut place = json!({"directory": self.shown_directory()});
            if let Some(project) = &self.project {
                place["project"] = (*project.project_id).into();
            }
            let place = place.to_string();
            let place = place.strip_suffix('}').unwrap_or(&place);
            frame(&format!("{place},\"payload\":{}}}", self.text()))
        };
        self.placed.get_or_init(write).clone()
    }

    /// Writes the event with its directory within, for OpenCode's newer clients.
    pub fn located(&self) -> Bytes {
        let write = || {
            let location = json!({"directory": self.shown_directory()});
            match serde_json::from_str::<Parts<'_>>(self.text()) {
                Ok(Parts { id, r#type, properties }) => frame(&format!(
                    "{{\"id\":{id},\"type\":{type},\"location\":{location},\"data\":{properties}}}"
                )),
                // Every event has them.
                Err(_) => frame(self.text()),
            }
        };
        self.located.get_or_init(write).clone()
    }
}

/// Returns the text as a server-sent event. JSON holds no line break.
pub fn frame(json: &str) -> Bytes {
    format!("data: {json}\n\n").into()
}
