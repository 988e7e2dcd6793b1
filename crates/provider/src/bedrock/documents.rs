//! Names of documents, which must differ within a request.

use std::{borrow::Cow, collections::HashSet};

use serde_json::value::RawValue;

use super::{Block, Message};

/// The text before a document's name in an encoded block; no string can hold it, because its quotes would be escaped.
const BEFORE_NAME: &str = r#"{"document":{"format":"pdf","name":""#;

/// Makes the names of all documents differ, and adds the text that documents must have beside them.
///
/// The first of a name keeps it and the others are counted, so that each has the same name in every request.
pub(super) fn name_apart(messages: &mut [Message<'_>]) {
    let mut used = HashSet::new();
    for message in messages {
        for block in &mut message.content {
            name_block(block, &mut used);
        }
        let is_document = |block: &Block<'_>| match block {
            Block::Document(_) => true,
            Block::Encoded(json) => json.get().starts_with(BEFORE_NAME),
            _ => false,
        };
        let is_text = |block: &Block<'_>| match block {
            Block::Text(_) | Block::ToolResult { .. } => true,
            Block::Encoded(json) => {
                ["{\"text\"", "{\"toolResult\""].iter().any(|it| json.get().starts_with(it))
            }
            _ => false,
        };
        if message.content.iter().any(is_document) && !message.content.iter().any(is_text) {
            message.content.push(Block::Text(Cow::Borrowed("See the document.")));
        }
    }
}

fn name_block(block: &mut Block<'_>, used: &mut HashSet<String>) {
    match block {
        Block::Document(document) => document.name = unused(std::mem::take(&mut document.name), used),
        Block::ToolResult { content, .. } => content.iter_mut().for_each(|block| name_block(block, used)),
        Block::Encoded(json) => {
            if let Some(renamed) = rename(json.get(), used) {
                *json = Cow::Owned(renamed);
            }
        }
        Block::Text(_)
        | Block::Image(_)
        | Block::ReasoningContent(_)
        | Block::ToolUse { .. }
        | Block::CachePoint(_) => {}
    }
}

/// Returns an encoded block with other names for its documents; `None` if they can stay.
fn rename(json: &str, used: &mut HashSet<String>) -> Option<Box<RawValue>> {
    let mut renamed = String::new();
    let mut n_copied = 0;
    let mut at = 0;
    while let Some(found) = json[at..].find(BEFORE_NAME) {
        let start = at + found + BEFORE_NAME.len();
        // Names hold no character that is escaped.
        let end = start + json[start..].find('"')?;
        let name = &json[start..end];
        let other = unused(name.to_owned(), used);
        if other != name {
            renamed.push_str(&json[n_copied..start]);
            renamed.push_str(&other);
            n_copied = end;
        }
        at = end;
    }
    if n_copied == 0 {
        return None;
    }
    renamed.push_str(&json[n_copied..]);
    RawValue::from_string(renamed).ok()
}

/// Returns the name, with a number if another document has it.
fn unused(plain: String, used: &mut HashSet<String>) -> String {
    let mut name = plain.clone();
    let mut number = 1;
    while !used.insert(name.clone()) {
        number += 1;
        name = format!("{plain} {number}");
    }
    name
}
