//! A recorded run of OpenCode is repeated: each request gets the same status, and an answer with the same data.

use std::{collections::VecDeque, fs};

use serde_json::Value;

use crate::support::{
    llm::{Gate, Reply},
    server::{Answer, Events, Server, answer},
};

/// Requests that are answered in another way, with the status and the reason.
const DIFFERENT: &[(&str, u16, &str)] = &[
    ("GET /session/xyz", 400, "an id without its prefix is a bad request"),
    ("POST /session/{session}/message {bad", 400, "JSON that cannot be read is a bad request"),
    ("POST /session {bad", 400, "it has words"),
    (
        "POST /session/{session}/message {\"parts\":[{\"type\":\"text\",\"text\":\"x\"}],\"agent\":\"nobody\"}",
        400,
        "it is the client's mistake",
    ),
    ("GET /file/content?path=/etc/passwd", 400, "a path outside is a bad request"),
    ("GET /nowhere", 404, "no page stands in for a route"),
];

/// Data that an answer does not have, with the reason.
const ABSENT: &[(&str, &str)] = &[
    (".parts[].snapshot is null", "a step that changes no file takes no snapshot"),
    (".summary.", "a session has sums once it has changed a file"),
    (".model.variant is null", "a model without variants has none"),
    (".time.initialized is null", "a project is initialised by its first /init"),
];

/// A request, and OpenCode's answer.
struct Exchange {
    request: String,
    status: u16,
    /// Types in the place of values; null where the record does not hold all of it.
    shape: Value,
}

fn exchanges() -> VecDeque<Exchange> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/http/transcript.txt");
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let read = |pair: &[&str]| {
        let request = pair[0].strip_prefix("> ").unwrap().to_owned();
        let (status, shape) = pair[1].strip_prefix("< ").unwrap().split_once(' ').unwrap();
        let shape = serde_json::from_str(shape).unwrap_or_default();
        Exchange { request, status: status.parse().unwrap(), shape }
    };
    lines.chunks(2).map(read).collect()
}

/// The names that requests use for ids.
struct Names<'a> {
    server: &'a Server,
    session: String,
    message: String,
    asked: String,
}

impl Names<'_> {
    fn put_in(&self, text: &str) -> String {
        text.replace("{session}", &self.session)
            .replace("{message}", &self.message)
            .replace("{permission}", &self.asked)
            .replace("{question}", &self.asked)
            .replace("{directory}", self.server.scratch.cwd())
    }

    async fn send(&self, request: &str) -> Answer {
        let text = self.put_in(request);
        let mut words = text.splitn(3, ' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let request = self.server.request(method, path);
        answer(request.body(words.next().unwrap_or_default().to_owned())).await
    }

    /// Has the model answer as the prompt says.
    fn script(&self, request: &str, gate: &Gate) {
        let text = self.put_in(request);
        let body: Value =
            serde_json::from_str(text.splitn(3, ' ').nth(2).unwrap_or("null")).unwrap_or_default();
        let prompt = body["parts"][0]["text"].as_str().unwrap_or_default();
        if let Some(call) = prompt.strip_prefix("TOOLS 1 ") {
            let (tool, input) = call.split_once(' ').unwrap();
            self.server.llm.reply(Reply::call("call_1", tool, serde_json::from_str(input).unwrap()));
            self.server.llm.reply(Reply::deltas(["done ", "1"]));
        } else if prompt.starts_with("SLOW") {
            self.server.llm.reply(Reply::text("slow ").and_gate(gate));
        } else if prompt.starts_with("FAIL 400") {
            self.server.llm.reply(Reply::status(400));
        }
    }
}

/// Lists the fields that a recorded answer has and this one has not.
fn missing(shape: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    match shape {
        Value::Object(fields) => {
            for (name, shape) in fields {
                let name = if name == "{session}" {
                    value.as_object().and_then(|it| it.keys().next())
                } else {
                    Some(name)
                };
                let Some(name) = name else { continue };
                missing(shape, &value[name], &format!("{place}.{name}"), found);
            }
        }
        Value::Array(items) => {
            if !value.is_array() {
                found.push(format!("{place} is no list"));
            }
            for shape in items {
                missing(shape, &value[0], &format!("{place}[]"), found);
            }
        }
        _ => {
            let kind = match value {
                Value::String(_) => "text",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                Value::Null => "null",
                Value::Array(_) | Value::Object(_) => "more",
            };
            if shape != kind {
                found.push(format!("{place} is {kind}, not {shape}"));
            }
        }
    }
}

fn compare(exchange: &Exchange, answer: &Answer, problems: &mut Vec<String>) {
    let request = &exchange.request;
    let different = DIFFERENT.iter().find(|(prefix, ..)| request == prefix);
    let status = different.map_or(exchange.status, |(_, status, _)| *status);
    if answer.status.as_u16() != status {
        problems.push(format!("{request}: {} instead of {status}: {}", answer.status, answer.text));
        return;
    }
    if different.is_some() {
        let body = answer.json();
        assert!(
            body["data"]["message"].is_string() || body["message"].is_string(),
            "{request}: {}",
            answer.text
        );
        return;
    }
    let mut found = Vec::new();
    if !exchange.shape.is_null() {
        missing(&exchange.shape, &answer.json(), "", &mut found);
    }
    found.retain(|it| !ABSENT.iter().any(|(place, _)| format!("{request}{it}").contains(place)));
    problems.extend(found.into_iter().map(|it| format!("{request}: {it}")));
}

async fn asked(events: &mut Events, request: &str) -> String {
    let kind = if request.contains("/permission") { "permission.asked" } else { "question.asked" };
    let asked = events.until(kind).await;
    asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_recorded_run_gets_the_same_answers() {
    let server = Server::start().await;
    for (name, text) in [("a.txt", "one\n"), ("m.txt", "two\n")] {
        fs::write(server.scratch.work.join(name), text).unwrap();
    }
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        let identity = ["-c", "user.name=u", "-c", "user.email=e"];
        assert!(
            command.args(identity).args(args).current_dir(&server.scratch.work).status().unwrap().success()
        );
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    let mut events = server.events("/event").await;
    let mut names =
        Names { server: &server, session: String::new(), message: String::new(), asked: String::new() };
    let gate = Gate::new();
    let mut problems = Vec::new();
    let mut left = exchanges();
    while let Some(exchange) = left.pop_front() {
        if ["GET /permission", "GET /question"].contains(&exchange.request.as_str()) {
            // The prompt that asks is written down behind its answers.
            let until = left.iter().position(|it| it.request.contains("TOOLS 1")).unwrap();
            let prompt = left.remove(until).unwrap();
            names.script(&prompt.request, &gate);
            let text = names.put_in(&prompt.request);
            let mut words = text.splitn(3, ' ');
            let request = server.request(words.next().unwrap(), words.next().unwrap());
            let prompted = tokio::spawn(answer(request.body(words.next().unwrap().to_owned())));
            names.asked = asked(&mut events, &exchange.request).await;
            compare(&exchange, &names.send(&exchange.request).await, &mut problems);
            while !prompted.is_finished() {
                let Some(exchange) = left.front().filter(|it| !it.request.contains("limit=1")) else { break };
                if exchange.request.contains("TOOLS 1") || exchange.request.contains("FAIL") {
                    break;
                }
                let exchange = left.pop_front().unwrap();
                compare(&exchange, &names.send(&exchange.request).await, &mut problems);
                if exchange.request.contains("/reply") {
                    break;
                }
            }
            compare(&prompt, &prompted.await.unwrap(), &mut problems);
            continue;
        }
        names.script(&exchange.request, &gate);
        if exchange.request.ends_with("/abort") {
            server.llm.asked(3).await;
        }
        let answered = names.send(&exchange.request).await;
        compare(&exchange, &answered, &mut problems);
        if exchange.request.starts_with("POST /session {\"title\"") {
            names.session = answered.json()["id"].as_str().unwrap().to_owned();
        } else if exchange.request.contains("TOOLS 1 write") {
            names.message = answered.json()["info"]["parentID"].as_str().unwrap().to_owned();
        } else if exchange.request.ends_with("/abort") {
            events.until("session.idle").await;
            gate.open();
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    server.finish().await;
}
