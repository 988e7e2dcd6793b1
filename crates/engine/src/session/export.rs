//! Exports sessions as OpenCode does, with ours beside it, and without private contents where that is wanted.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_core::storage::spent::SpentAnswer;
use windlass_protocol::opencode::{
    api_error::ApiError,
    id::SessionId,
    message::{AssistantMessage, Message, MessageError, MessagePath, MessageWithParts, UserMessage},
    part::{FilePart, PartKind, ReasoningPart, TextPart, ToolPart, ToolState},
    session::{Session, Todo},
};

use crate::{EngineError, Sessions};

/// The text that stands for a private one.
const REDACTED: &str = "[redacted]";

/// A session as a file: `info` and `messages` are OpenCode's export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionFile {
    pub info: Session,
    pub messages: Vec<MessageWithParts>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<Todo>,
    /// The cost of answers that were undone and removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<SpentAnswer>,
    /// The sessions of its subagents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<SessionFile>,
}

impl Sessions<'_> {
    /// Reads a stored session and its subagents' sessions.
    pub async fn export(self, id: &SessionId) -> Result<SessionFile, EngineError> {
        let record = self.record(id).await?;
        let mut files = Vec::new();
        for child in self.engine.0.storage.children(id.clone()).await? {
            if let Some(stored) = self.engine.0.storage.load(child.clone()).await? {
                files.push(SessionFile {
                    info: stored.info,
                    messages: stored.messages,
                    todos: stored.todos,
                    spent: self.engine.0.storage.spent(child).await?,
                    children: Vec::new(),
                });
            }
        }
        let mut file = SessionFile {
            info: record.info,
            messages: record.messages,
            todos: record.todos,
            spent: self.engine.0.storage.spent(id.clone()).await?,
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
    /// Takes out the texts of messages and the content of files; figures, times, tools and the order of things stay.
    pub fn redact(&mut self) {
        let Session {
            id: _,
            slug: _,
            project_id: _,
            directory,
            path,
            parent_id: _,
            title,
            version: _,
            agent: _,
            model: _,
            cost: _,
            tokens: _,
            summary: _,
            share,
            metadata,
            permission,
            limits,
            revert,
            time: _,
        } = &mut self.info;
        REDACTED.clone_into(title);
        "/".clone_into(directory);
        *path = None;
        *share = None;
        *metadata = None;
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
        Message::User(user) => {
            let UserMessage { id: _, session_id: _, time: _, agent: _, model: _, system, format, summary } =
                user;
            *summary = None;
            *system = None;
            *format = None;
        }
        Message::Assistant(answer) => {
            let AssistantMessage {
                id: _,
                session_id: _,
                parent_id: _,
                model_id: _,
                provider_id: _,
                variant: _,
                agent: _,
                mode: _,
                path: MessagePath { cwd, root },
                time: _,
                cost: _,
                tokens: _,
                finish: _,
                error,
                summary: _,
                structured,
            } = &mut **answer;
            "/".clone_into(cwd);
            "/".clone_into(root);
            if error.is_some() {
                *error = Some(MessageError::UnknownError { message: REDACTED.to_owned() });
            }
            *structured = None;
        }
    }
}

fn redact_part(kind: &mut PartKind) {
    match kind {
        PartKind::Text(TextPart { text, synthetic: _, ignored: _, time: _, metadata }) => {
            REDACTED.clone_into(text);
            *metadata = None;
        }
        PartKind::Reasoning(ReasoningPart { text, time: _, metadata }) => {
            REDACTED.clone_into(text);
            *metadata = None;
        }
        PartKind::File(FilePart { mime, filename, url, source }) => {
            *filename = None;
            format!("data:{mime},").clone_into(url);
            *source = None;
        }
        PartKind::Tool(tool) => {
            let ToolPart { call_id: _, tool: _, state, metadata } = &mut **tool;
            *metadata = None;
            redact_state(state);
        }
        PartKind::Patch { hash: _, files, left_out } => {
            files.clear();
            left_out.clear();
        }
        PartKind::Agent { name: _, source } => *source = None,
        PartKind::Subtask { prompt, description, agent: _, model: _, command } => {
            REDACTED.clone_into(prompt);
            REDACTED.clone_into(description);
            *command = None;
        }
        PartKind::Retry { attempt: _, error, time: _ } => {
            let ApiError {
                message,
                status_code: _,
                is_retryable: _,
                response_headers,
                response_body,
                metadata,
            } = error;
            REDACTED.clone_into(message);
            *response_headers = None;
            *response_body = None;
            *metadata = None;
        }
        PartKind::StepStart { snapshot: _ }
        | PartKind::StepFinish { reason: _, snapshot: _, cost: _, tokens: _ }
        | PartKind::Snapshot { snapshot: _ }
        | PartKind::Compaction { auto: _, overflow: _, tail_start_id: _ } => {}
    }
}

fn redact_state(state: &mut ToolState) {
    let nothing = || Value::Object(Map::new());
    match state {
        ToolState::Pending { input, raw } => {
            *input = nothing();
            raw.clear();
        }
        ToolState::Running { input, title, metadata, time: _ } => {
            *input = nothing();
            *title = None;
            *metadata = None;
        }
        ToolState::Completed { input, output, title, metadata, time: _, attachments } => {
            *input = nothing();
            REDACTED.clone_into(output);
            title.clear();
            let session = metadata.get("sessionId").cloned();
            *metadata = session.map(|id| Map::from_iter([("sessionId".to_owned(), id)])).unwrap_or_default();
            *attachments = None;
        }
        ToolState::Error { input, error, metadata, time: _ } => {
            *input = nothing();
            REDACTED.clone_into(error);
            *metadata = None;
        }
    }
}
