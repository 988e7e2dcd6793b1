//! Rows for the lines of a trace: requests with their answers, updates, and text joined from its chunks. Pure.

use std::collections::HashMap;

use serde_json::{Map, Value};
use windlass_base::text;

/// Characters of a message's content in its row.
const MAX_SHOWN: usize = 160;

/// Characters at the end of a session's id that tell it from others.
const N_ID_CHARS: usize = 6;

/// The sender of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sender {
    Client,
    Agent,
}

impl Sender {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Agent,
            Self::Agent => Self::Client,
        }
    }

    /// Returns the arrow that a trace begins its lines with.
    fn arrow(self) -> &'static str {
        match self {
            Self::Client => "->",
            Self::Agent => "<-",
        }
    }
}

/// A request that is not answered yet.
struct Open {
    line: usize,
    method: String,
    session: Option<String>,
}

/// Neighbouring chunks of one text.
struct Chunks {
    line: usize,
    session: String,
    kind: String,
    message: Value,
    text: String,
    n_chunks: usize,
}

/// See the module's comment. Lines go in, rows come out.
pub struct View {
    session: Option<String>,
    is_full: bool,
    line: usize,
    n_messages: usize,
    open: HashMap<(Sender, String), Open>,
    chunks: Option<Chunks>,
}

impl View {
    /// Shows the session with an id that ends with `session`, or all.
    pub fn new(session: Option<String>, is_full: bool) -> Self {
        Self { session, is_full, line: 0, n_messages: 0, open: HashMap::new(), chunks: None }
    }

    /// Returns the messages so far.
    pub fn n_messages(&self) -> usize {
        self.n_messages
    }

    /// Takes the next line and returns the rows that are complete by it.
    pub fn line(&mut self, line: &str) -> Vec<String> {
        self.line += 1;
        if line.is_empty() {
            return Vec::new();
        }
        let (arrow, json) = match line.split_at_checked(3) {
            Some(("-> ", json)) => (Some(Sender::Client), json),
            Some(("<- ", json)) => (Some(Sender::Agent), json),
            Some(_) | None => (None, line),
        };
        let message: Value = match serde_json::from_str(json) {
            Ok(message @ Value::Object(_)) => message,
            Ok(_) | Err(_) => {
                let mut rows = self.end_chunks();
                let arrow = arrow.map_or("??", Sender::arrow);
                rows.push(self.row(self.line, arrow, None, "no message", json));
                return rows;
            }
        };
        self.n_messages += 1;
        let sender = arrow.unwrap_or_else(|| self.likely_sender(&message));
        match message["method"].as_str() {
            Some("session/update") => self.update(sender, &message["params"]),
            Some(method) => self.call(sender, method, &message),
            None => self.answer(sender, &message),
        }
    }

    /// Returns the rest to show: the last text, and the requests without an answer.
    pub fn end(&mut self) -> Vec<String> {
        let mut rows = self.end_chunks();
        let mut open: Vec<((Sender, String), Open)> = self.open.drain().collect();
        open.sort_by_key(|(_, open)| open.line);
        for ((sender, id), open) in open {
            if self.is_wanted(open.session.as_deref()) {
                let method = &open.method;
                let what = format!("{method} #{id} has no answer");
                rows.push(self.row(open.line, sender.arrow(), open.session.as_deref(), &what, ""));
            }
        }
        rows
    }

    /// Returns the sender of a line without an arrow: by its method, or as the answering side.
    fn likely_sender(&self, message: &Value) -> Sender {
        let Some(method) = message["method"].as_str() else {
            let is_answer_of_client = self.open.contains_key(&(Sender::Agent, id_of(message)));
            return if is_answer_of_client { Sender::Client } else { Sender::Agent };
        };
        let agents = ["session/update", "session/request_permission"];
        let is_agents = agents.contains(&method)
            || ["fs/", "terminal/", "elicitation/", "mcp/"].iter().any(|start| method.starts_with(start));
        if is_agents { Sender::Agent } else { Sender::Client }
    }

    fn call(&mut self, sender: Sender, method: &str, message: &Value) -> Vec<String> {
        let mut rows = self.end_chunks();
        let params = &message["params"];
        let session = params["sessionId"].as_str().map(str::to_owned);
        let what = if message.get("id").is_some() {
            let id = id_of(message);
            let open = Open { line: self.line, method: method.to_owned(), session: session.clone() };
            match self.open.insert((sender, id.clone()), open) {
                None => format!("{method} #{id}"),
                Some(before) => format!("{method} #{id} (the id of line {} again)", before.line),
            }
        } else {
            method.to_owned()
        };
        if self.is_wanted(session.as_deref()) {
            let content = match method {
                "session/prompt" => blocks(&params["prompt"]),
                _ => without(params, &["sessionId"]),
            };
            rows.push(self.row(self.line, sender.arrow(), session.as_deref(), &what, &content));
        }
        rows
    }

    fn answer(&mut self, sender: Sender, message: &Value) -> Vec<String> {
        let mut rows = self.end_chunks();
        let id = id_of(message);
        let open = self.open.remove(&(sender.other(), id.clone()));
        let session = open.as_ref().and_then(|open| open.session.clone());
        if !self.is_wanted(session.as_deref()) {
            return rows;
        }
        let method = open.as_ref().map_or("no request", |open| &open.method);
        let (what, content) = match (message.get("error"), message.get("result")) {
            (Some(error), _) => (format!("#{id} failed ({method})"), error),
            (None, Some(result)) => (format!("#{id} answered ({method})"), result),
            (None, None) => (format!("#{id} neither result nor error ({method})"), message),
        };
        rows.push(self.row(self.line, sender.arrow(), session.as_deref(), &what, &content.to_string()));
        rows
    }

    fn update(&mut self, sender: Sender, params: &Value) -> Vec<String> {
        let session = params["sessionId"].as_str().unwrap_or_default();
        if !self.is_wanted(Some(session)) {
            return Vec::new();
        }
        let update = &params["update"];
        let kind = update["sessionUpdate"].as_str().unwrap_or("update of no kind");
        if let (true, Some(text)) = (kind.ends_with("_chunk"), update["content"]["text"].as_str()) {
            return self.chunk(session, kind, &update["messageId"], text);
        }
        let mut rows = self.end_chunks();
        let (what, content) = match kind {
            "tool_call" | "tool_call_update" => (format!("{kind} {}", call(update)), call_content(update)),
            _ => (kind.to_owned(), without(update, &["sessionUpdate"])),
        };
        rows.push(self.row(self.line, sender.arrow(), Some(session), &what, &content));
        rows
    }

    /// Joins a chunk to the text before it, or begins another text.
    fn chunk(&mut self, session: &str, kind: &str, message: &Value, text: &str) -> Vec<String> {
        if let Some(chunks) = &mut self.chunks
            && chunks.session == session
            && chunks.kind == kind
            && chunks.message == *message
        {
            chunks.text.push_str(text);
            chunks.n_chunks += 1;
            return Vec::new();
        }
        let rows = self.end_chunks();
        self.chunks = Some(Chunks {
            line: self.line,
            session: session.to_owned(),
            kind: kind.to_owned(),
            message: message.clone(),
            text: text.to_owned(),
            n_chunks: 1,
        });
        rows
    }

    fn end_chunks(&mut self) -> Vec<String> {
        let Some(chunks) = self.chunks.take() else { return Vec::new() };
        let times = if chunks.n_chunks > 1 { format!(" ×{}", chunks.n_chunks) } else { String::new() };
        let what = format!("{}{times}", chunks.kind);
        let content = Value::from(chunks.text).to_string();
        vec![self.row(chunks.line, Sender::Agent.arrow(), Some(&chunks.session), &what, &content)]
    }

    fn is_wanted(&self, session: Option<&str>) -> bool {
        match (&self.session, session) {
            (Some(wanted), Some(session)) => session.ends_with(wanted.as_str()),
            (Some(_) | None, _) => true,
        }
    }

    fn row(&self, line: usize, arrow: &str, session: Option<&str>, what: &str, content: &str) -> String {
        let session = session.map(|id| text::tail(id, N_ID_CHARS)).unwrap_or_default();
        let content = if self.is_full { content.to_owned() } else { shortened(content) };
        let row = format!("{line:>5} {arrow} {session:<N_ID_CHARS$} {what}  {content}");
        text::visible_line(row.trim_end()).into_owned()
    }
}

/// Returns the beginning of a content, with the size of the whole where it is cut.
fn shortened(content: &str) -> String {
    match content.char_indices().nth(MAX_SHOWN) {
        None => content.to_owned(),
        Some((end, _)) => format!("{} … ({})", &content[..end], text::size(content.len() as u64)),
    }
}

fn id_of(message: &Value) -> String {
    match &message["id"] {
        Value::String(id) => id.clone(),
        id => id.to_string(),
    }
}

/// Returns the id of a tool call, its status and its title.
fn call(update: &Value) -> String {
    let fields = ["toolCallId", "status", "title"].iter().filter_map(|field| update[field].as_str());
    fields.collect::<Vec<_>>().join(" ")
}

fn call_content(update: &Value) -> String {
    without(update, &["sessionUpdate", "toolCallId", "status", "title"])
}

/// Returns an object as JSON without some of its fields; nothing where no other is left.
fn without(value: &Value, fields: &[&str]) -> String {
    let Value::Object(map) = value else {
        return if value.is_null() { String::new() } else { value.to_string() };
    };
    let rest = map.iter().filter(|(name, _)| !fields.contains(&name.as_str()));
    let rest: Map<String, Value> = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
    if rest.is_empty() { String::new() } else { Value::Object(rest).to_string() }
}

/// Returns the texts of a prompt's blocks, and the kinds of the others.
fn blocks(prompt: &Value) -> String {
    let Value::Array(blocks) = prompt else { return prompt.to_string() };
    let shown = blocks.iter().map(|block| match (block["text"].as_str(), block["type"].as_str()) {
        (Some(text), _) => Value::from(text).to_string(),
        (None, Some("resource_link")) => format!("[{}]", block["uri"].as_str().unwrap_or("resource_link")),
        (None, kind) => format!("[{}]", kind.unwrap_or("block of no type")),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
