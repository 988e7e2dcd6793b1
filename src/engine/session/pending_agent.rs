//! Holds the agent a user just chose until the session's task has stored it.

use std::sync::{Arc, Mutex};

use crate::base::lock::lock;

/// The agent that the user chose last, until the session's task has stored it.
#[derive(Clone, Default)]
pub struct PendingAgent(Arc<Mutex<Choices>>);

#[derive(Default)]
struct Choices {
    n_waiting: usize,
    last: Option<String>,
}

impl PendingAgent {
    pub fn get(&self) -> Option<String> {
        lock(&self.0).last.clone()
    }

    /// Records a choice; call it before the task learns of it.
    pub fn announce(&self, agent: &str) {
        let mut choices = lock(&self.0);
        choices.n_waiting += 1;
        choices.last = Some(agent.to_owned());
    }

    /// Forgets one choice: it is stored, or did not reach the task.
    pub fn settle(&self) {
        let mut choices = lock(&self.0);
        choices.n_waiting = choices.n_waiting.saturating_sub(1);
        if choices.n_waiting == 0 {
            choices.last = None;
        }
    }
}
