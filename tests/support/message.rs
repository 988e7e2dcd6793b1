//! Accessors for an agent's messages: turns, tool calls, text.

use serde_json::{Map, Value};

/// The updates of one turn and its end.
#[derive(Debug, Clone)]
pub struct Turn {
    pub stop: String,
    /// The usage in the turn's answer.
    pub usage: Value,
    /// `params.update` of each `session/update` of the session between the request and its response.
    pub updates: Vec<Value>,
}

impl Turn {
    /// Returns the whole text of the agent.
    pub fn text(&self) -> String {
        text(&self.updates, "agent_message_chunk")
    }

    /// Returns all thoughts of the agent.
    pub fn thoughts(&self) -> String {
        text(&self.updates, "agent_thought_chunk")
    }

    /// Returns the `sessionUpdate` tags in order, runs of one tag written once.
    pub fn tags(&self) -> Vec<&str> {
        let mut tags: Vec<&str> = self.updates.iter().map(tag).collect();
        tags.dedup();
        tags
    }

    /// Returns the updates with this tag.
    pub fn all(&self, wanted: &str) -> Vec<&Value> {
        self.updates.iter().filter(|update| tag(update) == wanted).collect()
    }

    /// Returns a tool call as a client finally shows it: the call with its updates merged over it.
    pub fn tool(&self, call_id: &str) -> Value {
        tool(&self.updates, call_id)
            .unwrap_or_else(|| panic!("no tool call `{call_id}` in {:#?}", self.updates))
    }
}

/// Returns the `sessionUpdate` tag of an update.
pub fn tag(update: &Value) -> &str {
    update["sessionUpdate"].as_str().unwrap_or("")
}

/// Returns the joined text of the chunks with this tag.
pub fn text(updates: &[Value], wanted: &str) -> String {
    updates
        .iter()
        .filter(|update| tag(update) == wanted)
        .map(|update| update["content"]["text"].as_str().unwrap_or(""))
        .collect()
}

/// Returns a tool call with its updates merged over it; omitted and null fields of an update change nothing.
pub fn tool(updates: &[Value], call_id: &str) -> Option<Value> {
    let mut merged: Option<Map<String, Value>> = None;
    for update in updates {
        if update["toolCallId"] != call_id {
            continue;
        }
        let fields = update.as_object().unwrap();
        match &mut merged {
            None => {
                assert_eq!(tag(update), "tool_call", "an update came before its tool call: {update}");
                merged = Some(fields.clone());
            }
            Some(merged) => {
                assert_eq!(tag(update), "tool_call_update", "a tool call was announced twice: {update}");
                for (key, value) in fields {
                    if key != "sessionUpdate" && !value.is_null() {
                        merged.insert(key.clone(), value.clone());
                    }
                }
            }
        }
    }
    merged.map(Value::Object)
}

/// Returns the modes of a session, in the answer that opened it.
pub fn mode_ids(answer: &Value) -> Vec<&str> {
    let modes = answer["modes"]["availableModes"].as_array().unwrap();
    modes.iter().map(|mode| mode["id"].as_str().unwrap()).collect()
}

/// Returns the text blocks of a tool call's content.
pub fn content_text(call: &Value) -> String {
    let blocks = call["content"].as_array().cloned().unwrap_or_default();
    blocks.iter().filter_map(|block| block["content"]["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns the diff block of a tool call's or a permission request's content.
pub fn diff(call: &Value) -> Value {
    let blocks = call["content"].as_array().cloned().unwrap_or_default();
    blocks
        .into_iter()
        .find(|block| block["type"] == "diff")
        .unwrap_or_else(|| panic!("no diff in the content of {call}"))
}

/// Returns a conversation with its runs of chunks joined, tool calls in their final state and transient updates
/// removed: it must be the same live and after a load.
pub fn settled(updates: &[Value]) -> Vec<Value> {
    let mut settled: Vec<Value> = Vec::new();
    for update in updates {
        match tag(update) {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                let joins = settled.last().is_some_and(|last| {
                    tag(last) == tag(update)
                        && last["messageId"] == update["messageId"]
                        && last["content"]["type"] == "text"
                        && update["content"]["type"] == "text"
                });
                if joins {
                    let last = settled.last_mut().unwrap();
                    let joined = format!(
                        "{}{}",
                        last["content"]["text"].as_str().unwrap(),
                        update["content"]["text"].as_str().unwrap()
                    );
                    last["content"]["text"] = Value::String(joined);
                } else {
                    settled.push(update.clone());
                }
            }
            "tool_call" => {
                settled.push(tool(updates, update["toolCallId"].as_str().unwrap()).unwrap());
            }
            "plan" => {
                settled.retain(|kept| tag(kept) != "plan");
                settled.push(update.clone());
            }
            _ => {}
        }
    }
    settled
}
