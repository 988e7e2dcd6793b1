//! Takes secrets, and files of other places, out of a session that is shown to others. Pure.

use std::{io, path::Path};

use serde_json::{Value, json};
use windlass_base::path::{absolute, real};
use windlass_core::config::secrets;
use windlass_protocol::opencode::message::MessageWithParts;

use crate::Record;

/// The text in the place of a file that lies elsewhere.
const OUTSIDE: &str = "[left out: a file outside of the project]";
/// The arguments that name the file of a call.
const PATHS: [&str; 2] = ["filePath", "path"];
/// The lines of a patch that name a file.
const PATCH_HEADS: [&str; 4] = ["*** Update File:", "*** Add File:", "*** Delete File:", "*** Move to:"];
/// The lines around a private key.
const KEY_LINES: [&str; 2] = ["-----BEGIN ", "-----END "];

/// Returns a session without secrets, and without the contents of files outside of its directory.
pub fn without(mut record: Record, root: &Path, known: &[String]) -> io::Result<Record> {
    record.info.title = hidden(std::mem::take(&mut record.info.title), known);
    record.info.metadata = None;
    record.info.permission = None;
    let messages = std::mem::take(&mut record.messages);
    record.messages = messages_without(messages, root, known)?;
    for messages in record.children.values_mut() {
        *messages = messages_without(std::mem::take(messages), root, known)?;
    }
    for todo in &mut record.todos {
        todo.content = hidden(std::mem::take(&mut todo.content), known);
    }
    Ok(record)
}

fn messages_without(
    messages: Vec<MessageWithParts>,
    root: &Path,
    known: &[String],
) -> io::Result<Vec<MessageWithParts>> {
    let mut value = serde_json::to_value(messages)?;
    for message in value.as_array_mut().into_iter().flatten() {
        message["info"].as_object_mut().map(|info| info.remove("system"));
        leave_out_elsewhere(message, root);
    }
    Ok(serde_json::from_value(texts_without(value, known))?)
}

/// Leaves out the contents of files outside of the project that a message shows.
fn leave_out_elsewhere(message: &mut Value, root: &Path) {
    let Some(parts) = message["parts"].as_array_mut() else { return };
    // The words behind an attached file are parts of their own, and do not say of which file.
    let shows_elsewhere =
        parts.iter().any(|part| part["type"] == "file" && attached(part).any(|it| is_elsewhere(it, root)));
    for part in parts {
        let is_tool = part["type"] == "tool";
        let is_added = part["synthetic"] == true || part["type"] == "file";
        if is_tool && files(&part["state"]).into_iter().any(|path| is_elsewhere(&path, root)) {
            leave_out_call(&mut part["state"]);
        } else if is_added && shows_elsewhere {
            let stand_in = if part["type"] == "file" { "url" } else { "text" };
            part[stand_in] = json!(OUTSIDE);
            part.as_object_mut().map(|part| part.remove("source"));
        }
    }
}

fn is_elsewhere(path: &str, root: &Path) -> bool {
    let path = real(&absolute(root, path));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !path.starts_with(real(root)) || secrets::is_secret_file(&name)
}

/// Returns the paths of an attached file.
fn attached(part: &Value) -> impl Iterator<Item = &str> {
    let address = part["url"].as_str().and_then(|url| url.strip_prefix("file://"));
    part["source"]["path"].as_str().into_iter().chain(address)
}

/// Returns the paths of the files that a call is about.
fn files(state: &Value) -> Vec<String> {
    let named = PATHS.iter().filter_map(|key| state["input"][*key].as_str());
    let lines = state["input"]["patchText"].as_str().unwrap_or_default().lines();
    let patched = lines.filter_map(|line| PATCH_HEADS.iter().find_map(|head| line.trim().strip_prefix(head)));
    let changed = state["metadata"]["files"].as_array().into_iter().flatten();
    let changed = changed.flat_map(|file| ["filePath", "movePath"].map(|key| file[key].as_str())).flatten();
    named.chain(patched.map(str::trim)).chain(changed).map(str::to_owned).collect()
}

/// Leaves out all of a call but the names of its files.
fn leave_out_call(state: &mut Value) {
    let paths: serde_json::Map<String, Value> =
        PATHS.iter().filter_map(|key| Some(((*key).to_owned(), state["input"].get(*key)?.clone()))).collect();
    state["input"] = Value::Object(paths);
    for (key, stand_in) in
        [("output", json!(OUTSIDE)), ("error", json!(OUTSIDE)), ("metadata", json!({})), ("raw", json!(""))]
    {
        if state.get(key).is_some() {
            state[key] = stand_in;
        }
    }
    if let Some(state) = state.as_object_mut() {
        state.remove("attachments");
    }
}

fn texts_without(value: Value, known: &[String]) -> Value {
    match value {
        // Pictures are no texts.
        Value::String(text) if is_picture(&text) => Value::String(text),
        Value::String(text) => Value::String(hidden(text, known)),
        Value::Array(items) => items.into_iter().map(|item| texts_without(item, known)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, field)| (key, texts_without(field, known))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Returns true for a file as a URL.
fn is_picture(text: &str) -> bool {
    let head = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    head.is_some_and(|(kind, data)| {
        !kind.contains(char::is_whitespace) && !data.contains(char::is_whitespace)
    })
}

fn hidden(text: String, known: &[String]) -> String {
    let text = known.iter().fold(text, |text, secret| {
        if text.contains(secret.as_str()) { secrets::hide(&text, secret) } else { text }
    });
    without_private_keys(secrets::text(&text))
}

/// Puts stars in the place of the lines of private keys.
fn without_private_keys(text: String) -> String {
    let is_line = |line: &str, start: &str| line.contains(start) && line.contains("PRIVATE KEY");
    if !text.lines().any(|line| is_line(line, KEY_LINES[0])) {
        return text;
    }
    let mut is_inside = false;
    let kept = text.split_inclusive('\n').filter_map(|line| {
        let (begins, ends) = (is_line(line, KEY_LINES[0]), is_line(line, KEY_LINES[1]));
        let is_of_key = is_inside || begins;
        is_inside = (is_inside || begins) && !ends;
        match (is_of_key, begins) {
            (false, _) => Some(line),
            (true, true) => Some(concat!("********", "\n")),
            (true, false) => None,
        }
    });
    kept.collect()
}

/// Returns the texts of a file of keys: all of them, but for the kinds of keys.
pub fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(words).collect(),
        Value::Object(fields) => {
            fields.iter().filter(|(key, _)| *key != "type").flat_map(|(_, field)| words(field)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
