//! Turns sessions of OpenCode's second version into those of the first, whose form ours is.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use windlass_core::storage::opencode::second::{Row, Session};
use windlass_protocol::opencode::part::EXECUTED_BY_USER;

/// Names of tools, and the first version's.
const TOOLS: [(&str, &str); 3] = [("shell", "bash"), ("subagent", "task"), ("patch", "apply_patch")];
/// Arguments of tools, and the first version's.
const ARGUMENTS: [(&str, &str, &str); 4] = [
    ("read", "path", "filePath"),
    ("write", "path", "filePath"),
    ("edit", "path", "filePath"),
    ("skill", "id", "name"),
];
/// A kind of part that no version has: it is counted where it is left out.
const UNREAD: &str = "opencode-row";
/// The first characters of an id that are kept, so that a number fits behind them.
const MAX_ID: usize = 56;

/// Returns the session as a file of the first version. An error says why its answers cannot be read.
pub fn file(session: Session) -> Result<Value, String> {
    let Session { mut info, columns, rows } = session;
    let parsed = |name: &str| {
        let text = columns.get(name).and_then(Value::as_str)?;
        serde_json::from_str::<Value>(text).ok()
    };
    info["permission"] = rules(&info["permission"]);
    let mut conversion = Conversion {
        session: info["id"].as_str().unwrap_or_default().to_owned(),
        directory: info["directory"].as_str().unwrap_or_default().to_owned(),
        model: json!({"providerID": "unknown", "modelID": "unknown"}),
        agent: "build".to_owned(),
        prompt: None,
        messages: Vec::new(),
        kept: Vec::new(),
        todos: Value::Null,
    };
    conversion.rows(rows)?;
    let Conversion { messages, kept, todos, .. } = conversion;
    let mut metadata = parsed("metadata").and_then(|it| it.as_object().cloned()).unwrap_or_default();
    let mut own = Map::new();
    if let Some(fork) = columns.get("fork_session_id") {
        own.insert("fork".to_owned(), json!({"sessionID": fork, "boundary": parsed("fork_boundary")}));
    }
    if !kept.is_empty() {
        own.insert("rows".to_owned(), kept.into());
    }
    if !own.is_empty() {
        metadata.insert("opencode".to_owned(), own.into());
    }
    if !metadata.is_empty() {
        info["metadata"] = metadata.into();
    }
    let todos = if todos.is_array() { todos } else { json!([]) };
    Ok(json!({"info": info, "messages": messages, "todos": todos}))
}

/// Returns true for a file of `opencode session export` of the second version.
pub fn is_export(file: &Value) -> bool {
    let messages = file["messages"].as_array();
    let first = messages.and_then(|messages| messages.first());
    file["info"]["location"].is_object()
        && first.is_none_or(|it| it["type"].is_string() && it.get("info").is_none())
}

/// Returns such a file as one of the first version.
pub fn exported(mut file: Value) -> Result<Value, String> {
    let info = &file["info"];
    let mut own = info.clone();
    own["directory"] = info["location"]["directory"].clone();
    own["permission"] = info.get("permissions").or(info.get("permission")).cloned().unwrap_or_default();
    let mut columns = Map::new();
    let fork = &info["fork"];
    let said = [
        ("metadata", &info["metadata"]),
        ("fork_session_id", &fork["sessionID"]),
        ("fork_boundary", &fork["boundary"]),
    ];
    for (name, value) in said.into_iter().filter(|(_, value)| !value.is_null()) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        columns.insert(name.to_owned(), text.into());
    }
    let rows =
        file["messages"].as_array_mut().map(std::mem::take).unwrap_or_default().into_iter().map(|message| {
            let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
            Row { id: text("id"), kind: text("type"), data: message.as_object().cloned() }
        });
    self::file(Session { rows: rows.collect(), info: own, columns })
}

/// Returns rules as ours; those of a form that is not known are left as they are, and refused where they are decoded.
fn rules(list: &Value) -> Value {
    let Some(list) = list.as_array() else { return Value::Null };
    let rule = |rule: &Value| match (&rule["action"], &rule["resource"], &rule["effect"]) {
        (Value::String(action), Value::String(pattern), Value::String(effect)) => {
            json!({"permission": own_tool(action), "pattern": pattern, "action": effect})
        }
        _ => rule.clone(),
    };
    list.iter().map(rule).collect()
}

fn own_tool(name: &str) -> &str {
    TOOLS.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, own)| own)
}

/// The messages so far.
struct Conversion {
    session: String,
    directory: String,
    /// The model and the agent of the next answer.
    model: Value,
    agent: String,
    /// The newest prompt.
    prompt: Option<String>,
    messages: Vec<Value>,
    /// Rows that are no messages.
    kept: Vec<Value>,
    todos: Value,
}

impl Conversion {
    fn rows(&mut self, rows: Vec<Row>) -> Result<(), String> {
        let mut next = None;
        let mut answers: Vec<Option<usize>> = Vec::new();
        for (idx, row) in rows.iter().enumerate().rev() {
            if row.kind == "assistant" && row.data.is_some() {
                next = Some(idx);
            }
            answers.push(next);
        }
        for (row, answer) in rows.iter().zip(answers.into_iter().rev()) {
            let Some(data) = &row.data else {
                self.user(&row.id, 0, vec![json!({"type": UNREAD})]);
                continue;
            };
            if let Some(answer) = answer.and_then(|idx| rows[idx].data.as_ref()) {
                self.answers_by(answer);
            }
            let created = data.get("time").and_then(|time| time["created"].as_i64()).unwrap_or_default();
            let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            match row.kind.as_str() {
                "user" => self.user(&row.id, created, prompt_parts(data)),
                "assistant" => self.assistant(&row.id, created, data)?,
                "synthetic" | "skill" => {
                    let part = json!({"type": "text", "text": text("text"), "synthetic": true});
                    self.user(&row.id, created, vec![part]);
                }
                "shell" => self.shell(&row.id, created, data),
                "compaction" if data.get("status").is_none_or(|status| status == "completed") => {
                    self.compaction(&row.id, created, data);
                }
                "idle" => {}
                _other => self.kept.push(json!({"id": row.id, "type": row.kind, "data": data})),
            }
        }
        Ok(())
    }

    /// Notes the model and the agent of an answer, which its prompt has too.
    fn answers_by(&mut self, answer: &Map<String, Value>) {
        if let Some(agent) = answer.get("agent").and_then(Value::as_str) {
            agent.clone_into(&mut self.agent);
        }
        if let Some(model) = answer.get("model").filter(|model| model.is_object()) {
            let mut own = json!({"providerID": model["providerID"], "modelID": model["id"]});
            if model["variant"].is_string() {
                own["variant"] = model["variant"].clone();
            }
            self.model = own;
        }
    }

    fn user(&mut self, id: &str, created: i64, parts: Vec<Value>) {
        let info = json!({
            "id": id, "sessionID": self.session, "role": "user", "time": {"created": created},
            "agent": self.agent, "model": self.model,
        });
        self.prompt = Some(id.to_owned());
        self.push(info, parts);
    }

    /// Adds a message, whose parts get ids behind its own.
    fn push(&mut self, info: Value, parts: Vec<Value>) {
        let id = info["id"].as_str().unwrap_or_default();
        let body: String = id.trim_start_matches("msg_").chars().take(MAX_ID).collect();
        let own_id = |number: usize| Value::from(format!("prt_{body}{number:05}"));
        let mut parts = parts;
        let mut number = parts.len();
        for (idx, part) in parts.iter_mut().enumerate() {
            part["id"] = own_id(idx);
            for attachment in
                part.pointer_mut("/state/attachments").and_then(Value::as_array_mut).into_iter().flatten()
            {
                attachment["id"] = own_id(number);
                attachment["sessionID"] = self.session.as_str().into();
                attachment["messageID"] = id.into();
                number += 1;
            }
        }
        self.messages.push(json!({"info": info, "parts": parts}));
    }

    fn answer_info(&mut self, id: &str, time: Value) -> Value {
        let prompt = match &self.prompt {
            Some(prompt) => prompt.clone(),
            None => {
                // An answer without a prompt before it, such as the first one behind a fork.
                let before = format!("{}-", id.chars().take(id.len().saturating_sub(1)).collect::<String>());
                self.user(&before, time["created"].as_i64().unwrap_or_default(), Vec::new());
                before
            }
        };
        json!({
            "id": id, "sessionID": self.session, "role": "assistant", "parentID": prompt, "time": time,
            "agent": self.agent, "mode": self.agent,
            "providerID": self.model["providerID"], "modelID": self.model["modelID"], "variant": self.model["variant"],
            "path": {"cwd": self.directory, "root": self.directory},
        })
    }

    fn assistant(&mut self, id: &str, created: i64, data: &Map<String, Value>) -> Result<(), String> {
        let content = data.get("content").and_then(Value::as_array);
        let content = content.ok_or("its answers are stored in a way that this version does not know")?;
        self.answers_by(data);
        let get = |key: &str| data.get(key).cloned().unwrap_or_default();
        let completed = data.get("time").and_then(|time| time["completed"].as_i64());
        let mut info = self.answer_info(id, json!({"created": created, "completed": completed}));
        let tokens = get("tokens");
        let (cost, tokens) = (get("cost"), if tokens.is_object() { tokens } else { no_tokens() });
        info["cost"] = cost.as_f64().unwrap_or_default().into();
        info["tokens"] = tokens.clone();
        info["finish"] = get("finish");
        if let Some(error) = data.get("error").filter(|error| error.is_object()) {
            info["error"] = failure(error, &self.model["providerID"]);
        }
        let snapshot = get("snapshot");
        let mut parts = vec![json!({"type": "step-start", "snapshot": snapshot["start"]})];
        for item in content {
            if let Some(todos) = todos_of(item) {
                self.todos = todos;
            }
            parts.push(part(item, created));
        }
        if data.contains_key("finish") || completed.is_some() {
            parts.push(json!({
                "type": "step-finish", "reason": data.get("finish").and_then(Value::as_str).unwrap_or("unknown"),
                "snapshot": snapshot["end"], "cost": cost.as_f64().unwrap_or_default(), "tokens": tokens,
            }));
        }
        if let (Some(files), Some(hash)) = (paths(&snapshot["files"]), snapshot["start"].as_str()) {
            parts.push(json!({"type": "patch", "hash": hash, "files": files}));
        }
        self.push(info, parts);
        Ok(())
    }

    /// A command that the user ran is a prompt and a call here.
    fn shell(&mut self, id: &str, created: i64, data: &Map<String, Value>) {
        let text = json!({"type": "text", "text": EXECUTED_BY_USER, "synthetic": true});
        self.user(id, created, vec![text]);
        let completed = data.get("time").and_then(|time| time["completed"].as_i64()).unwrap_or(created);
        let mut info =
            self.answer_info(&format!("{id}a"), json!({"created": created, "completed": completed}));
        info["cost"] = 0.0.into();
        info["tokens"] = no_tokens();
        let command = data.get("command").cloned().unwrap_or_default();
        let output = data.get("output").map(|output| &output["output"]);
        let state = json!({
            "status": "completed", "input": {"command": command}, "title": command,
            "output": output.and_then(Value::as_str).unwrap_or_default(),
            "metadata": {"exit": data.get("exit"), "output": output},
            "time": {"start": created, "end": completed},
        });
        let call = json!({"type": "tool", "tool": "bash", "callID": data.get("shellID").cloned().unwrap_or(id.into()), "state": state});
        self.push(info, vec![call]);
    }

    /// A summary is the prompt that asks for it, and its answer.
    fn compaction(&mut self, id: &str, created: i64, data: &Map<String, Value>) {
        let is_auto = data.get("reason").is_none_or(|reason| reason == "auto");
        self.user(id, created, vec![json!({"type": "compaction", "auto": is_auto})]);
        let mut info = self.answer_info(&format!("{id}a"), json!({"created": created, "completed": created}));
        info["summary"] = true.into();
        info["finish"] = "stop".into();
        info["cost"] = data.get("cost").and_then(Value::as_f64).unwrap_or_default().into();
        info["tokens"] = data.get("tokens").filter(|it| it.is_object()).cloned().unwrap_or_else(no_tokens);
        let summary = data.get("summary").and_then(Value::as_str).unwrap_or_default();
        self.push(info, vec![json!({"type": "text", "text": summary})]);
    }
}

fn no_tokens() -> Value {
    json!({"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}})
}

/// Returns the parts of a prompt.
fn prompt_parts(data: &Map<String, Value>) -> Vec<Value> {
    let list = |key: &str| data.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut parts = vec![json!({"type": "text", "text": data.get("text").cloned().unwrap_or("".into())})];
    parts.extend(list("files").map(|file| {
        let mime = file["mime"].as_str().unwrap_or("application/octet-stream");
        let url = match (file["data"].as_str(), file["source"]["uri"].as_str()) {
            (Some(data), _) => format!("data:{mime};base64,{data}"),
            (None, Some(uri)) => uri.to_owned(),
            (None, None) => String::new(),
        };
        json!({"type": "file", "mime": mime, "url": url, "filename": file["name"]})
    }));
    // The words of a file stand in a part of their own, which the model reads.
    parts.extend(list("files").filter_map(|file| {
        let is_text = file["mime"].as_str().is_some_and(|mime| mime.starts_with("text/"));
        let bytes = BASE64_STANDARD.decode(file["data"].as_str().filter(|_| is_text)?).ok()?;
        let name = file["name"].as_str().unwrap_or("file");
        let text = format!("Attached file: {name}\n\n{}", String::from_utf8_lossy(&bytes));
        Some(json!({"type": "text", "text": text, "synthetic": true}))
    }));
    parts.extend(list("agents").map(|agent| {
        let mention = &agent["mention"];
        let source = mention
            .is_object()
            .then(|| json!({"value": mention["text"], "start": mention["start"], "end": mention["end"]}));
        json!({"type": "agent", "name": agent["name"].as_str().unwrap_or_default(), "source": source})
    }));
    parts.extend(list("skills").filter_map(|skill| {
        Some(json!({"type": "text", "text": skill["text"].as_str()?, "synthetic": true}))
    }));
    parts
}

/// Returns an item of an answer as a part.
fn part(item: &Value, created: i64) -> Value {
    let native = item.get("native").or(item.get("state")).or(item.get("providerState"));
    let metadata = native.filter(|native| native.is_object()).map(|native| json!({"opencode": native}));
    let text = item["text"].as_str().unwrap_or_default();
    match item["type"].as_str() {
        Some("text") => json!({"type": "text", "text": text, "metadata": metadata}),
        Some("reasoning") => {
            let time = &item["time"];
            let start = time["created"].as_i64().unwrap_or(created);
            let end = time["completed"].as_i64().unwrap_or(start);
            json!({"type": "reasoning", "text": text, "time": {"start": start, "end": end}, "metadata": metadata})
        }
        Some("tool") => call(item, created),
        _other => json!({"type": UNREAD}),
    }
}

/// Returns a call as a part; one that had not ended was interrupted.
fn call(item: &Value, created: i64) -> Value {
    let name = item["name"].as_str().unwrap_or("unknown");
    let (state, time) = (&item["state"], &item["time"]);
    let start = time["ran"].as_i64().or(time["created"].as_i64()).unwrap_or(created);
    let end = time["completed"].as_i64().unwrap_or(start);
    let said = if state["input"].is_object() { state["input"].clone() } else { json!({}) };
    let mut input = said.clone();
    for (tool, theirs, own) in ARGUMENTS {
        if let Some(fields) = input.as_object_mut().filter(|fields| tool == name && !fields.contains_key(own))
            && let Some(value) = fields.shift_remove(theirs)
        {
            fields.insert(own.to_owned(), value);
        }
    }
    let own = own_tool(name);
    let mut kept = state
        .get("metadata")
        .or(state.get("structured"))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    if own != name || input != said {
        kept.insert("opencode".to_owned(), json!({"tool": name, "input": said}));
    }
    let items = state["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = items.iter().filter_map(|item| item["text"].as_str()).collect::<Vec<_>>().join("\n");
    let older =
        || ["output", "result"].iter().find_map(|key| state[*key].as_str()).unwrap_or_default().to_owned();
    let output = if items.is_empty() { older() } else { texts };
    let time = json!({"start": start, "end": end});
    let state = match state["status"].as_str() {
        Some("completed") => {
            let files = items.iter().filter(|item| item["type"] == "file").map(|file| {
                let text = |key: &str| file[key].as_str().unwrap_or_default();
                json!({"type": "file", "mime": text("mime"), "url": text("uri"), "filename": file["name"]})
            });
            let files: Vec<Value> = files.collect();
            let attachments = (!files.is_empty()).then_some(files);
            json!({
                "status": "completed", "input": input, "output": output, "title": "", "metadata": kept, "time": time,
                "attachments": attachments,
            })
        }
        Some("error") => {
            let said = state["error"].as_str().or(state["error"]["message"].as_str()).unwrap_or("It failed.");
            let error = if output.is_empty() { said.to_owned() } else { format!("{said}\n\n{output}") };
            json!({"status": "error", "input": input, "error": error, "metadata": kept, "time": time})
        }
        _running => {
            let error = "Tool execution was interrupted";
            json!({"status": "error", "input": input, "error": error, "metadata": kept, "time": time})
        }
    };
    let mut state = state;
    if let Some(state) = state.as_object_mut() {
        state.retain(|_, value| !value.is_null());
    }
    json!({"type": "tool", "callID": item["id"].as_str().unwrap_or("call"), "tool": own, "state": state})
}

/// Returns the tasks that a completed call wrote.
fn todos_of(item: &Value) -> Option<Value> {
    let is_it =
        item["type"] == "tool" && item["name"] == "todowrite" && item["state"]["status"] == "completed";
    let todos = item["state"]["input"]["todos"].as_array().filter(|_| is_it)?;
    let known = |todo: &Value| {
        let text = |key: &str, usual: &str| todo[key].as_str().unwrap_or(usual).to_owned();
        json!({"content": text("content", ""), "status": text("status", "pending"), "priority": text("priority", "medium")})
    };
    Some(todos.iter().map(known).collect())
}

/// Returns paths of files, as a list of paths or of objects with one.
fn paths(files: &Value) -> Option<Vec<String>> {
    let path =
        |file: &Value| file.as_str().or(file["file"].as_str()).or(file["path"].as_str()).map(str::to_owned);
    let paths: Vec<String> = files.as_array()?.iter().filter_map(path).collect();
    (!paths.is_empty()).then_some(paths)
}

/// Returns an error of an answer as the first version writes it.
fn failure(error: &Value, provider: &Value) -> Value {
    let message = error["message"].as_str().unwrap_or("The answer failed.");
    match error["type"].as_str().unwrap_or_default() {
        "aborted" => json!({"name": "MessageAbortedError", "data": {"message": message}}),
        "provider.auth" => {
            json!({"name": "ProviderAuthError", "data": {"providerID": provider, "message": message}})
        }
        kind if kind.starts_with("provider") => {
            let mut data = json!({"message": message, "isRetryable": false});
            if let Some(status) = error["status"].as_u64() {
                data["statusCode"] = status.into();
            }
            if let Some(body) = error["response"]["body"].as_str() {
                data["responseBody"] = body.into();
            }
            json!({"name": "APIError", "data": data})
        }
        _other => json!({"name": "UnknownError", "data": {"message": message}}),
    }
}
