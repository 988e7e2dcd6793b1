//! A request to the scripted model as it arrived, and what it tells the model.

use std::io;

use serde_json::Value;
use tokio::{io::AsyncReadExt, net::TcpStream};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The names of the tools offered.
    pub fn tools(&self) -> Vec<String> {
        let name = |tool: &Value| {
            tool["function"]["name"].as_str().or(tool["name"].as_str()).unwrap_or_default().to_owned()
        };
        self.body["tools"].as_array().map(|tools| tools.iter().map(name).collect()).unwrap_or_default()
    }

    /// All text of the system prompt.
    pub fn system(&self) -> String {
        let mut system = texts(&self.body["system"]);
        for message in self.messages().iter().filter(|message| message["role"] == "system") {
            system.push_str(&texts(&message["content"]));
        }
        system
    }

    pub fn messages(&self) -> Vec<Value> {
        self.body["messages"].as_array().cloned().unwrap_or_default()
    }

    /// What the model was told about the tool calls it made, by call id.
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

    /// The text of the last user message.
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

/// The text of a string or of a list of blocks.
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

/// Reads the next request of a connection; none when it ends.
pub(super) async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let head_end = loop {
        match buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(position) => break position,
            None if stream.read_buf(buffer).await? == 0 => return Ok(None),
            None => {}
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    let body_start = head_end + 4;
    while buffer.len() < body_start + length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = serde_json::from_slice(&buffer[body_start..body_start + length]).unwrap_or(Value::Null);
    buffer.drain(..body_start + length);
    Ok(Some(Request { path, headers, body }))
}
