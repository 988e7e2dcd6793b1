//! Gives imported records ids that are free and sort before all that comes later.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use windlass_base::ids;
use windlass_protocol::opencode::id::SessionId;

use super::SessionFile;

/// Returns true if messages and parts are in the order of their ids, in which the store returns them, and before those
/// that are made from now on. The digits of ids begin anew every two years, so old ids may be behind them.
pub fn sorts_before_new_ids(file: &SessionFile) -> bool {
    let (next_message, next_part) = (ids::message(), ids::part());
    let is_before = |file: &SessionFile| {
        file.messages.is_sorted_by_key(|message| message.info.id())
            && file.messages.last().is_none_or(|last| *last.info.id() < next_message)
            && file.messages.iter().all(|message| {
                message.parts.is_sorted_by_key(|part| &part.id)
                    && message.parts.last().is_none_or(|last| last.id < next_part)
            })
    };
    tree(file).into_iter().all(is_before)
}

/// Brings the messages of each session in the order of their times.
pub fn sort_by_time(file: &mut Value) {
    if let Some(messages) = file.get_mut("messages").and_then(Value::as_array_mut) {
        messages.sort_by_key(|message| message["info"]["time"]["created"].as_i64());
    }
    let children = file.get_mut("children").and_then(Value::as_array_mut);
    children.into_iter().flatten().for_each(sort_by_time);
}

/// Returns the ids of a session and its subagents' sessions.
pub fn sessions(file: &SessionFile) -> impl Iterator<Item = &SessionId> {
    tree(file).into_iter().map(|file| &file.info.id)
}

/// Gives messages, parts and the sessions in `taken` new ids, in the order of the file, wherever an id stands as a whole
/// text. A session keeps a free id, so that the next import knows that it is here.
pub fn rename(json: &mut Value, file: &SessionFile, taken: &HashSet<SessionId>) {
    let mut names: HashMap<String, String> = HashMap::new();
    for file in tree(file) {
        if taken.contains(&file.info.id) {
            names.insert(file.info.id.to_string(), ids::session().to_string());
        }
        for message in &file.messages {
            names.insert(message.info.id().to_string(), ids::message().to_string());
            for part in &message.parts {
                names.insert(part.id.to_string(), ids::part().to_string());
            }
        }
    }
    rename_in(json, &names);
}

fn rename_in(value: &mut Value, names: &HashMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(name) = names.get(text) {
                text.clone_from(name);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename_in(value, names)),
        Value::Object(fields) => fields.values_mut().for_each(|value| rename_in(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a session and all below it.
fn tree(file: &SessionFile) -> Vec<&SessionFile> {
    let mut files = vec![file];
    let mut at = 0;
    while let Some(file) = files.get(at).copied() {
        files.extend(&file.children);
        at += 1;
    }
    files
}
