//! Single tool calls: the scripted model makes one and then ends its turn.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::Agent;
use crate::support::{llm::Reply, message::Turn};

impl Agent {
    /// Makes the model call a tool in a session; returns the result that it was told.
    pub async fn told(&self, session: &str, tool: &str, arguments: Value) -> String {
        // A repeated id in a session would be changed.
        static N_CALLS: AtomicUsize = AtomicUsize::new(0);
        let id = format!("call_told_{}", N_CALLS.fetch_add(1, Ordering::Relaxed));
        self.call(session, &id, tool, arguments).await.1
    }

    /// Makes the model call `call_1` in a new session; returns the turn, and the result that it was told.
    pub async fn run(&self, tool: &str, arguments: Value) -> (Turn, String) {
        let session = self.new_session().await;
        self.call(&session, "call_1", tool, arguments).await
    }

    /// Makes the model call a tool in a session; returns the turn, and the result that it was told.
    pub async fn call(&self, session: &str, id: &str, tool: &str, arguments: Value) -> (Turn, String) {
        self.llm.reply(Reply::call(id, tool, arguments));
        self.llm.reply(Reply::text("done"));
        let turn = self.prompt(session, "go").await;
        assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "done"));
        (turn, self.llm.last_request().tool_result(id))
    }
}
