//! Paths of a project in messages between a client and another node: each machine has the project in a directory of its own. Pure.

use serde_json::Value;
use windlass_base::path::in_other_directory;

/// The directory of a session at two machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherPaths {
    pub here: String,
    pub there: String,
}

impl OtherPaths {
    /// Returns true if nothing has to be turned.
    pub fn are_same(&self) -> bool {
        self.here == self.there
    }

    /// Turns a message of the other node for the client.
    pub fn to_here(&self, message: &mut Value) {
        turn(message, &self.there, &self.here);
    }

    /// Turns a message of the client for the other node.
    pub fn to_there(&self, message: &mut Value) {
        turn(message, &self.here, &self.there);
    }
}

/// Texts of people, of models and of files.
const TEXTS: [&str; 4] = ["text", "oldText", "newText", "rawOutput"];

/// Turns the paths in everything but texts.
fn turn(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text.contains(from) => *text = in_other_directory(text, from, to),
        Value::Array(items) => items.iter_mut().for_each(|item| turn(item, from, to)),
        Value::Object(fields) => {
            let others = fields.iter_mut().filter(|(key, _)| !TEXTS.contains(&key.as_str()));
            others.for_each(|(_, field)| turn(field, from, to));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_turned_both_ways_and_texts_stay() {
        let paths = OtherPaths { here: "/home/a/proj".to_owned(), there: "/srv/b".to_owned() };
        let there = json!({"locations": [{"path": "/srv/b/x"}], "rawInput": {"command": "cat '/srv/b/x' /srv/bc"},
            "content": [{"type": "text", "text": "in /srv/b"}], "uri": "file:///srv/b/x"});
        let mut message = there.clone();
        paths.to_here(&mut message);
        assert_eq!(
            message,
            json!({"locations": [{"path": "/home/a/proj/x"}], "rawInput": {"command": "cat '/home/a/proj/x' /srv/bc"},
                "content": [{"type": "text", "text": "in /srv/b"}], "uri": "file:///home/a/proj/x"})
        );
        paths.to_there(&mut message);
        assert_eq!(message, there);
    }
}
