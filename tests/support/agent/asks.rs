//! Requests of the agent to its client, and the test's answers in the user's place.

use serde_json::{Value, json};

use super::{Agent, Answer};

/// A request from the agent.
#[derive(Debug, Clone)]
pub struct Ask {
    pub id: Value,
    pub method: String,
    pub params: Value,
}

impl Ask {
    /// Returns the tool call that needs the permission.
    pub fn call(&self) -> &Value {
        &self.params["toolCall"]
    }
}

impl Agent {
    /// Returns the next permission request that the test has not read.
    pub async fn permission(&self) -> Ask {
        self.shared
            .wait(self.deadline, "a permission request", |state| {
                let asked = state.asks.iter_mut().find(|state| !state.is_taken)?;
                asked.is_taken = true;
                Some(asked.ask.clone())
            })
            .await
    }

    pub fn answer(&self, ask: &Ask, answer: Answer) {
        self.answer_with(ask, permission_reply(ask, answer));
    }

    /// Answers with the option that has this name.
    pub fn choose(&self, ask: &Ask, name: &str) {
        let options = ask.params["options"].as_array().unwrap();
        let option = options.iter().find(|option| option["name"] == name);
        let option = option.unwrap_or_else(|| panic!("no option `{name}` in {}", ask.params));
        let outcome = json!({"outcome": "selected", "optionId": option["optionId"]});
        self.answer_with(ask, json!({"jsonrpc": "2.0", "id": ask.id, "result": {"outcome": outcome}}));
    }

    /// Answers a form.
    pub fn fill_in(&self, ask: &Ask, result: Value) {
        self.answer_with(ask, json!({"jsonrpc": "2.0", "id": ask.id, "result": result}));
    }

    /// Answers with an error.
    pub fn fail(&self, ask: &Ask, code: i64) {
        let error = json!({"code": code, "message": "scripted failure"});
        self.answer_with(ask, json!({"jsonrpc": "2.0", "id": ask.id, "error": error}));
    }

    fn answer_with(&self, ask: &Ask, reply: Value) {
        let mut state = self.shared.state.lock().unwrap();
        let asked = state.asks.iter_mut().find(|state| state.ask.id == ask.id).unwrap();
        asked.is_answered = true;
        drop(state);
        self.shared.send(&reply);
    }

    /// Waits until the agent has sent `$/cancel_request` for this request, and answers it as a client does.
    pub async fn withdrawn(&self, ask: &Ask) {
        self.shared
            .wait(self.deadline, "the agent to withdraw its request", |state| {
                let asked = state.asks.iter_mut().find(|state| state.ask.id == ask.id).unwrap();
                asked.is_withdrawn.then(|| asked.is_answered = true)
            })
            .await;
        self.shared.send(&permission_reply(ask, Answer::Cancelled));
    }

    /// Like it, for a request that is answered by the code of a cancelled one.
    pub async fn withdrawn_by_code(&self, ask: &Ask) {
        self.shared
            .wait(self.deadline, "the agent to withdraw its request", |state| {
                let asked = state.asks.iter_mut().find(|state| state.ask.id == ask.id).unwrap();
                asked.is_withdrawn.then(|| asked.is_answered = true)
            })
            .await;
        self.fail(ask, -32800);
    }

    /// Waits until the agent has made that many requests; they stay unread.
    pub async fn has_asked(&self, n_asks: usize) {
        self.shared
            .wait(self.deadline, "requests of the agent", |state| (state.asks.len() >= n_asks).then_some(()))
            .await;
    }

    /// Returns the number of permission requests.
    pub fn n_asked(&self) -> usize {
        self.shared.state.lock().unwrap().asks.len()
    }

    /// Returns the permission requests so far.
    pub fn asks(&self) -> Vec<Ask> {
        self.shared.state.lock().unwrap().asks.iter().map(|state| state.ask.clone()).collect()
    }
}

/// Makes the response that picks the option of this kind.
pub(super) fn permission_reply(ask: &Ask, answer: Answer) -> Value {
    let kind = match answer {
        Answer::AllowOnce => "allow_once",
        Answer::AllowAlways => "allow_always",
        Answer::RejectOnce => "reject_once",
        Answer::RejectAlways => "reject_always",
        Answer::Cancelled => {
            return json!({"jsonrpc": "2.0", "id": ask.id, "result": {"outcome": {"outcome": "cancelled"}}});
        }
    };
    let options = ask.params["options"].as_array().unwrap();
    let option = options.iter().find(|option| option["kind"] == kind);
    let option = option.unwrap_or_else(|| panic!("no option of kind {kind} in {}", ask.params));
    let outcome = json!({"outcome": "selected", "optionId": option["optionId"]});
    json!({"jsonrpc": "2.0", "id": ask.id, "result": {"outcome": outcome}})
}
