//! The open answers to requests that a plugin sends for a provider: their pieces on the way from the process to the
//! reader.

use std::{
    collections::HashMap,
    sync::{Mutex, atomic::AtomicU64},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use tokio::sync::mpsc;
use windlass_base::lock::lock;

/// The open answers of a process, by the numbers of their streams.
#[derive(Default)]
pub(super) struct Fetches {
    pub streams: Mutex<HashMap<u64, mpsc::UnboundedSender<Piece>>>,
    pub last: AtomicU64,
}

/// A piece of an answer's body, or its end.
pub(super) enum Piece {
    /// With the request that is answered once the bytes are used.
    Bytes(Value, Vec<u8>),
    End(Option<String>),
}

impl Fetches {
    /// Takes a piece of a body in; an error means that nothing waits for it.
    pub fn push(&self, id: Value, params: &Value) -> Result<(), Value> {
        let piece = || {
            let stream = params.get("stream")?.as_u64()?;
            let bytes = STANDARD.decode(params.get("data")?.as_str()?).ok()?;
            let sender = lock(&self.streams).get(&stream).cloned()?;
            sender.send(Piece::Bytes(id.clone(), bytes)).ok()
        };
        piece().ok_or(id)
    }

    /// Ends a body, with the reason if it is not complete.
    pub fn end(&self, params: &Value) {
        let sender = params
            .get("stream")
            .and_then(Value::as_u64)
            .and_then(|stream| lock(&self.streams).remove(&stream));
        if let Some(sender) = sender {
            let error = params.get("error").and_then(Value::as_str).map(str::to_owned);
            // Its reader may be gone.
            let _ = sender.send(Piece::End(error));
        }
    }

    /// Ends all bodies, because the process has ended.
    pub fn clear(&self) {
        lock(&self.streams).clear();
    }
}
