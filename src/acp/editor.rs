//! The client's editor as a place of files: `fs/read_text_file` and `fs/write_text_file` (facts: ACP §1.2).

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::oneshot;
use windlass_protocol::{
    opencode::id::SessionId,
    rpc::{ErrorBody, Id},
};

use super::outbox::{EditorCall, Outbox, Outgoing};
use crate::engine::Editor;

/// Numbers the requests of all connections, so that each can be taken back.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The editor behind a connection.
pub struct ClientEditor {
    pub outbox: Arc<Outbox>,
    pub reads: bool,
    pub writes: bool,
}

/// The requests that the client has not answered.
#[derive(Default)]
pub struct EditorCalls(HashMap<Id, (u64, oneshot::Sender<Result<Value, String>>)>);

impl EditorCalls {
    pub fn insert(&mut self, id: Id, number: u64, reply: oneshot::Sender<Result<Value, String>>) {
        self.0.insert(id, (number, reply));
    }

    /// Takes the client's answer; false if it is to nothing of these.
    pub fn answered(&mut self, id: &Id, result: &Result<Option<&RawValue>, ErrorBody>) -> bool {
        let Some((_, reply)) = self.0.remove(id) else { return false };
        let result = match result {
            Ok(json) => Ok(json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()),
            Err(failure) => Err(failure.message.to_string()),
        };
        // A tool that was cancelled does not wait any more.
        let _ = reply.send(result);
        true
    }

    /// Forgets a request that nothing waits for; returns its id if the client has it.
    pub fn take_back(&mut self, number: u64) -> Option<Id> {
        let id = self.0.iter().find(|(_, (known, _))| *known == number).map(|(id, _)| id.clone())?;
        self.0.remove(&id);
        Some(id)
    }

    /// Ends all requests: the client answers nothing any more.
    pub fn give_up(&mut self) {
        self.0.clear();
    }
}

/// Takes a request back when nothing waits for it any more.
struct TakeBack {
    outbox: Arc<Outbox>,
    number: u64,
}

impl Drop for TakeBack {
    fn drop(&mut self) {
        self.outbox.push(Outgoing::EditorCallDropped(self.number));
    }
}

impl ClientEditor {
    fn call(
        &self,
        session: &SessionId,
        method: &'static str,
        params: Value,
    ) -> BoxFuture<'static, Result<Value, String>> {
        let (reply, answer) = oneshot::channel();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let call = EditorCall { number, session_id: session.clone(), method, params, reply };
        self.outbox.push(Outgoing::EditorCall(Box::new(call)));
        let guard = TakeBack { outbox: self.outbox.clone(), number };
        Box::pin(async move {
            let _guard = guard;
            answer.await.unwrap_or_else(|_| Err("it is gone".to_owned()))
        })
    }
}

impl Editor for ClientEditor {
    fn reads(&self) -> bool {
        self.reads
    }

    fn writes(&self) -> bool {
        self.writes
    }

    fn read(&self, session: &SessionId, path: &Path) -> BoxFuture<'static, Result<String, String>> {
        let answer = self.call(session, "fs/read_text_file", json!({ "path": path }));
        Box::pin(async move {
            match answer.await?.get("content") {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(_) | None => Err("its answer holds no `content`".to_owned()),
            }
        })
    }

    fn write(&self, session: &SessionId, path: &Path, text: &str) -> BoxFuture<'static, Result<(), String>> {
        let answer = self.call(session, "fs/write_text_file", json!({ "path": path, "content": text }));
        Box::pin(async move { answer.await.map(drop) })
    }
}
