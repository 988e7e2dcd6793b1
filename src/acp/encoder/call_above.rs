//! The name of a subagent in the session that it works for, before a client that does not show it as a session.

use serde_json::{Map, Value, json};
use windlass_protocol_acp::schema::{ToolCall, ToolCallUpdate};

use crate::acp::to_proto;

/// The call of a subagent, as the client knows it.
#[derive(Debug, Clone)]
pub struct CallAbove {
    agent: String,
    call_id: String,
}

impl CallAbove {
    /// Makes the name of an agent and the id of the call by which it was started.
    pub fn new(agent: &str, call_id: &str) -> Self {
        Self { agent: agent.to_owned(), call_id: call_id.to_owned() }
    }

    fn named(&self, title: &str) -> String {
        to_proto::label(&format!("{}: {title}", self.agent))
    }

    /// Returns true if it is this call.
    pub fn is(&self, call_id: &str) -> bool {
        self.call_id == call_id
    }

    /// Names the subagent in the first message about a call of its.
    pub fn mark(&self, mut call: ToolCall) -> ToolCall {
        call.title = self.named(&call.title);
        call.meta.get_or_insert_default().extend(self.meta(call.name.as_deref()));
        call
    }

    /// Names the subagent in a change of a call of its.
    pub fn mark_update(&self, mut update: ToolCallUpdate) -> ToolCallUpdate {
        if let Some(title) = &mut update.fields.title {
            *title = self.named(title);
        }
        update.meta.get_or_insert_default().extend(self.meta(update.fields.name.as_deref()));
        update
    }

    /// Returns the words by which older clients put a call below that of its subagent (facts: ACP §1.6).
    fn meta(&self, tool: Option<&str>) -> Map<String, Value> {
        let mut nesting = json!({ "parentToolUseId": self.call_id });
        if let Some(tool) = tool {
            nesting["toolName"] = tool.into();
        }
        Map::from_iter([("claudeCode".to_owned(), nesting)])
    }
}
