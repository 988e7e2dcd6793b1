//! Messages of the agent that a test reads: it waits for one, or takes all that came so far.

use serde_json::Value;

use super::{
    Agent,
    wire::{Line, updates},
};
use crate::support::message::{tag, text};

impl Agent {
    /// Returns the next message from the agent for which `is_wanted` is true; skips earlier ones.
    pub async fn wait_for(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        self.shared
            .wait(self.deadline, what, |state| {
                while state.cursor < state.lines.len() {
                    let line = &state.lines[state.cursor];
                    state.cursor += 1;
                    if line.from_agent && is_wanted(&line.message) {
                        return Some(line.message.clone());
                    }
                }
                None
            })
            .await
    }

    /// Returns the next update with this tag, of any session.
    pub async fn wait_update(&self, wanted: &str) -> Value {
        let message = self
            .wait_for(&format!("an update `{wanted}`"), |message| {
                message["method"] == "session/update" && tag(&message["params"]["update"]) == wanted
            })
            .await;
        message["params"]["update"].clone()
    }

    /// Waits until these calls of a session have begun to run, in any order.
    pub async fn wait_running(&self, session: &str, call_ids: &[&str]) {
        let is_running =
            |update: &Value, id: &str| update["toolCallId"] == id && update["status"] == "in_progress";
        self.shared
            .wait(self.deadline, "calls to run", |state| {
                let updates = updates(&state.lines, session);
                let has_begun = |id: &&str| updates.iter().any(|update| is_running(update, id));
                call_ids.iter().all(has_begun).then_some(())
            })
            .await;
    }

    /// Waits until the inputs of these calls of a session are shown: they run, or wait to be allowed.
    pub async fn wait_made(&self, session: &str, call_ids: &[&str]) {
        self.shared
            .wait(self.deadline, "calls to be made", |state| {
                let updates = updates(&state.lines, session);
                let is_made = |id: &&str| {
                    let of_call = updates.iter().filter(|update| update["toolCallId"] == **id);
                    of_call.into_iter().any(|it| it["rawInput"].as_object().is_some_and(|it| !it.is_empty()))
                };
                call_ids.iter().all(is_made).then_some(())
            })
            .await;
    }

    /// Waits until the agent has said `wanted` in this session, in any number of chunks.
    pub async fn wait_text(&self, session: &str, wanted: &str) {
        self.shared
            .wait(self.deadline, &format!("the text `{wanted}`"), |state| {
                let said = text(&updates(&state.lines, session), "agent_message_chunk");
                said.contains(wanted).then_some(())
            })
            .await;
    }

    /// Returns the number of lines that the agent has written.
    pub fn n_read(&self) -> usize {
        self.shared.state.lock().unwrap().lines.iter().filter(|line| line.from_agent).count()
    }

    /// Waits until the agent has written that many lines.
    pub async fn has_read(&self, n_lines: usize) {
        self.shared
            .wait(self.deadline, &format!("{n_lines} lines"), |state| {
                (state.lines.iter().filter(|line| line.from_agent).count() >= n_lines).then_some(())
            })
            .await;
    }

    /// Waits until the agent has sent an update of a session for which `is_wanted` is true, and skips none.
    pub async fn has_update(&self, session: &str, what: &str, is_wanted: impl Fn(&Value) -> bool) {
        self.shared
            .wait(self.deadline, what, |state| {
                updates(&state.lines, session).iter().any(&is_wanted).then_some(())
            })
            .await;
    }

    /// Waits until stderr contains `wanted`.
    pub async fn wait_stderr(&self, wanted: &str) {
        self.shared
            .wait(self.deadline, &format!("`{wanted}` on stderr"), |state| {
                state.stderr.contains(wanted).then_some(())
            })
            .await;
    }

    /// Returns all lines on both pipes so far.
    pub fn lines(&self) -> Vec<Line> {
        self.shared.state.lock().unwrap().lines.clone()
    }

    /// Returns every update of a session so far.
    pub fn updates(&self, session: &str) -> Vec<Value> {
        updates(&self.shared.state.lock().unwrap().lines, session)
    }

    pub fn stderr(&self) -> String {
        self.shared.state.lock().unwrap().stderr.clone()
    }
}
