//! The client's editor as a place of files: `fs/read_text_file` and `fs/write_text_file` (facts: ACP §1.2).

use std::{path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use windlass_engine::{Editor, EditorFailure};
use windlass_protocol::opencode::id::SessionId;

use super::{client_call::CallFailure, outbox::Outbox};

/// The editor behind a connection.
pub struct ClientEditor {
    pub outbox: Arc<Outbox>,
    pub reads: bool,
    pub writes: bool,
}

impl From<CallFailure> for EditorFailure {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::Gone => Self::Gone,
            CallFailure::Refused(reason) => Self::Refused(reason),
        }
    }
}

impl Editor for ClientEditor {
    fn reads(&self) -> bool {
        self.reads
    }

    fn writes(&self) -> bool {
        self.writes
    }

    fn read(&self, session: &SessionId, path: &Path) -> BoxFuture<'static, Result<String, EditorFailure>> {
        let answer = self.outbox.call(Some(session), "fs/read_text_file", json!({ "path": path }), None);
        Box::pin(async move {
            match answer.await?.get("content") {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(_) | None => Err(EditorFailure::Refused("its answer holds no `content`".to_owned())),
            }
        })
    }

    fn write(
        &self,
        session: &SessionId,
        path: &Path,
        text: &str,
    ) -> BoxFuture<'static, Result<(), EditorFailure>> {
        let params = json!({ "path": path, "content": text });
        let answer = self.outbox.call(Some(session), "fs/write_text_file", params, None);
        Box::pin(async move {
            answer.await?;
            Ok(())
        })
    }
}
