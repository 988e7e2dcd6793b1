//! Takes sessions out as OpenCode exports them, with ours beside it, and without private contents where that is wanted.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    id::SessionId,
    message::{Message, MessageError, MessageWithParts},
    part::{PartKind, ToolState},
    session::{Session, Todo},
};

use crate::engine::{Engine, EngineError};

/// The text that stands for a private one.
const REDACTED: &str = "[redacted]";

/// A session as a file: `info` and `messages` are OpenCode's export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionFile {
    pub info: Session,
    pub messages: Vec<MessageWithParts>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<Todo>,
    /// The sessions of its subagents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<SessionFile>,
}

impl Engine {
    /// Reads a stored session and its subagents' sessions.
    pub async fn export_session(&self, id: &SessionId) -> Result<SessionFile, EngineError> {
        let record = self.record(id).await?;
        let mut files = Vec::new();
        for child in self.0.storage.children(id.clone()).await? {
            if let Some(stored) = self.0.storage.load(child).await? {
                files.push(SessionFile {
                    info: stored.info,
                    messages: stored.messages,
                    todos: stored.todos,
                    children: Vec::new(),
                });
            }
        }
        let mut file = SessionFile {
            info: record.info,
            messages: record.messages,
            todos: record.todos,
            children: Vec::new(),
        };
        adopt(&mut file, &mut files);
        Ok(file)
    }
}

/// Moves the children of a session, and theirs, to their parents.
fn adopt(parent: &mut SessionFile, files: &mut Vec<SessionFile>) {
    let is_child = |file: &mut SessionFile| file.info.parent_id.as_ref() == Some(&parent.info.id);
    let mut children: Vec<SessionFile> = files.extract_if(.., is_child).collect();
    for child in &mut children {
        adopt(child, files);
    }
    parent.children = children;
}

impl SessionFile {
    /// Takes out what was said and what files hold; figures, times, tools and the order of things stay.
    pub fn redact(&mut self) {
        let Session { directory, path, title, permission, limits, revert, .. } = &mut self.info;
        REDACTED.clone_into(title);
        "/".clone_into(directory);
        *path = None;
        *permission = None;
        limits.clear();
        if let Some(revert) = revert {
            revert.diff = None;
        }
        for todo in &mut self.todos {
            REDACTED.clone_into(&mut todo.content);
        }
        for message in &mut self.messages {
            redact_message(&mut message.info);
            for part in &mut message.parts {
                redact_part(&mut part.kind);
            }
        }
        self.children.iter_mut().for_each(Self::redact);
    }
}

fn redact_message(message: &mut Message) {
    match message {
        Message::User(user) => user.system = None,
        Message::Assistant(answer) => {
            "/".clone_into(&mut answer.path.cwd);
            "/".clone_into(&mut answer.path.root);
            if answer.error.is_some() {
                answer.error = Some(MessageError::UnknownError { message: REDACTED.to_owned() });
            }
        }
    }
}

fn redact_part(kind: &mut PartKind) {
    match kind {
        PartKind::Text(text) => {
            REDACTED.clone_into(&mut text.text);
            text.metadata = None;
        }
        PartKind::Reasoning(reasoning) => {
            REDACTED.clone_into(&mut reasoning.text);
            reasoning.metadata = None;
        }
        PartKind::File(file) => {
            file.filename = None;
            format!("data:{},", file.mime).clone_into(&mut file.url);
            file.source = None;
        }
        PartKind::Tool(tool) => {
            tool.metadata = None;
            redact_state(&mut tool.state);
        }
        PartKind::Patch { files, .. } => files.clear(),
        PartKind::Agent { source, .. } => *source = None,
        PartKind::Subtask { prompt, description, command, .. } => {
            REDACTED.clone_into(prompt);
            REDACTED.clone_into(description);
            *command = None;
        }
        PartKind::Retry { error, .. } => {
            REDACTED.clone_into(&mut error.message);
            error.response_headers = None;
            error.response_body = None;
            error.metadata = None;
        }
        PartKind::StepStart { .. }
        | PartKind::StepFinish { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Compaction { .. } => {}
    }
}

fn redact_state(state: &mut ToolState) {
    let nothing = || Value::Object(Map::new());
    match state {
        ToolState::Pending { input, raw } => {
            *input = nothing();
            raw.clear();
        }
        ToolState::Running { input, title, metadata, .. } => {
            *input = nothing();
            *title = None;
            *metadata = None;
        }
        ToolState::Completed { input, output, title, metadata, attachments, .. } => {
            *input = nothing();
            REDACTED.clone_into(output);
            title.clear();
            let session = metadata.get("sessionId").cloned();
            *metadata = session.map(|id| Map::from_iter([("sessionId".to_owned(), id)])).unwrap_or_default();
            *attachments = None;
        }
        ToolState::Error { input, error, metadata, .. } => {
            *input = nothing();
            REDACTED.clone_into(error);
            *metadata = None;
        }
    }
}
