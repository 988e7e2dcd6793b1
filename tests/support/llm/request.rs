//! A request to the scripted model, and its parts.

use std::collections::HashMap;

use serde_json::Value;

use super::dialects;
use crate::support::http::Asked;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: HashMap<String, String>,
    pub body: Value,
    /// The conversation in the form of chat completions or of Anthropic's messages.
    messages: Vec<Value>,
}

impl Request {
    pub(super) fn new(asked: Asked) -> Self {
        let messages = dialects::messages(&asked.body);
        Self { path: asked.path().to_owned(), headers: asked.headers, body: asked.body, messages }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the names of the offered tools.
    pub fn tools(&self) -> Vec<String> {
        let name = |tool: &Value| {
            tool["function"]["name"].as_str().or(tool["name"].as_str()).unwrap_or_default().to_owned()
        };
        dialects::tools(&self.body).iter().map(name).collect()
    }

    /// Returns the whole text of the system prompt.
    pub fn system(&self) -> String {
        let mut system = texts(&self.body["system"]);
        system.push_str(&texts(&self.body["systemInstruction"]["parts"]));
        let is_system = |message: &&Value| message["role"] == "system" || message["role"] == "developer";
        for message in self.messages().iter().filter(is_system) {
            system.push_str(&texts(&message["content"]));
        }
        system
    }

    pub fn messages(&self) -> Vec<Value> {
        self.messages.clone()
    }

    /// Returns the result of a tool call that the model was told, by call id.
    pub fn tool_result(&self, call_id: &str) -> String {
        for message in self.messages() {
            if message["role"] == "tool" && message["tool_call_id"] == call_id {
                return texts(&message["content"]);
            }
            for block in message["content"].as_array().into_iter().flatten() {
                if block["type"] == "tool_result" && block["tool_use_id"] == call_id {
                    return texts(&block["content"]);
                }
            }
        }
        panic!("the model was told nothing about `{call_id}`: {:#}", self.body["messages"]);
    }

    /// Returns the text of the last user message.
    pub fn last_user(&self) -> String {
        let messages = self.messages();
        let is_prompt = |message: &&Value| {
            message["role"] == "user"
                && !message["content"]
                    .as_array()
                    .is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
        };
        messages.iter().rev().find(is_prompt).map(|message| texts(&message["content"])).unwrap_or_default()
    }

    pub fn is_title(&self) -> bool {
        let has_answers =
            self.messages().iter().any(|message| message["role"] == "assistant" || message["role"] == "tool");
        self.tools().is_empty() && !has_answers && !self.last_user().contains("<conversation>")
    }
}

/// Returns the text of a string or of a list of blocks.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| block["text"].as_str().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}
