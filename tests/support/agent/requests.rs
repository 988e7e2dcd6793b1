//! Requests of the client to the agent, and their answers.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Agent,
    wire::{Input, Open, RpcError, Shared, updates},
};
use crate::support::message::Turn;

/// A request on its way; the test can do other work until it asks for the answer.
pub struct Pending {
    pub id: Value,
    method: String,
    session: String,
    /// The position in the log before the request.
    start: usize,
    shared: Arc<Shared>,
    deadline: Duration,
}

impl Pending {
    pub fn is_answered(&self) -> bool {
        self.shared.state.lock().unwrap().answers.contains_key(&self.id.to_string())
    }

    /// Returns the answer.
    pub async fn answer(&self) -> Result<Value, RpcError> {
        self.answered().await.1
    }

    async fn answered(&self) -> (usize, Result<Value, RpcError>) {
        let id = self.id.to_string();
        let what = format!("the answer to {} (id {id})", self.method);
        self.shared.wait(self.deadline, &what, |state| state.answers.get(&id).cloned()).await
    }

    /// Returns the result of a prompt with the updates that came before it.
    pub async fn turn(&self) -> Turn {
        let (end, answer) = self.answered().await;
        let result = answer.unwrap_or_else(|error| panic!("{} failed: {error:?}", self.method));
        let state = self.shared.state.lock().unwrap();
        let updates = updates(&state.lines[self.start..end], &self.session);
        let stop = result["stopReason"].as_str().unwrap_or_default().to_owned();
        Turn { stop, usage: result["usage"].clone(), updates }
    }

    /// Returns the updates that came before the answer, even if that is an error.
    pub async fn updates(&self) -> Vec<Value> {
        let (end, _) = self.answered().await;
        updates(&self.shared.state.lock().unwrap().lines[self.start..end], &self.session)
    }
}

impl Agent {
    pub async fn initialized(self) -> Self {
        self.initialize().await;
        self
    }

    /// Initializes as a client without capabilities.
    pub async fn initialize(&self) -> Value {
        self.initialize_with(json!({})).await
    }

    pub async fn initialize_with(&self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": capabilities,
            "clientInfo": {"name": "e2e", "version": "1"},
        });
        self.request("initialize", params).await.unwrap()
    }

    /// Opens a session in the scratch repository.
    pub async fn new_session(&self) -> String {
        self.open().await.0
    }

    /// Opens a session; returns its id and the answer.
    pub async fn open(&self) -> (String, Value) {
        let answer = self.request("session/new", self.session_params()).await.unwrap();
        (answer["sessionId"].as_str().unwrap().to_owned(), answer)
    }

    pub fn session_params(&self) -> Value {
        json!({"cwd": self.scratch.cwd(), "mcpServers": []})
    }

    pub async fn prompt(&self, session: &str, text: &str) -> Turn {
        self.send_prompt(session, text).turn().await
    }

    pub fn send_prompt(&self, session: &str, text: &str) -> Pending {
        self.send_request("session/prompt", prompt_params(session, text))
    }

    pub fn cancel(&self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session}));
    }

    /// Loads a session; returns the replayed updates.
    pub async fn load(&self, session: &str) -> Vec<Value> {
        let params = json!({"sessionId": session, "cwd": self.scratch.cwd(), "mcpServers": []});
        let pending = self.send_request("session/load", params);
        pending.answer().await.unwrap();
        pending.updates().await
    }

    pub async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        self.send_request(method, params).answer().await
    }

    pub fn send_request(&self, method: &str, params: Value) -> Pending {
        self.send_request_with_id(json!(self.next_id.fetch_add(1, Ordering::Relaxed)), method, params)
    }

    pub fn send_request_with_id(&self, id: Value, method: &str, params: Value) -> Pending {
        let pending = self.expect_answer(id.clone(), method, params.clone());
        self.shared.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        pending
    }

    /// Registers a request that the test writes by itself, with `raw_line`.
    pub fn expect_answer(&self, id: Value, method: &str, params: Value) -> Pending {
        let mut state = self.shared.state.lock().unwrap();
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        state.open.insert(id.to_string(), Open { method: method.to_owned(), params });
        Pending {
            id,
            method: method.to_owned(),
            session,
            start: state.lines.len(),
            shared: self.shared.clone(),
            deadline: self.deadline,
        }
    }

    pub fn notify(&self, method: &str, params: Value) {
        self.shared.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Writes bytes unchanged; no newline is added.
    pub fn raw(&self, bytes: impl Into<Vec<u8>>) {
        let _ = self.shared.input.send(Input::Bytes(bytes.into()));
    }

    /// Writes a line that is answered with a null id; returns the error.
    pub async fn malformed(&self, line: impl Into<Vec<u8>>) -> (i64, String) {
        self.raw(line);
        let answer = self
            .wait_for("an error with a null id", |message| {
                message["id"].is_null() && message.get("error").is_some()
            })
            .await;
        (answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap().to_owned())
    }
}

/// Makes the parameters of a prompt that is one text.
pub fn prompt_params(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
