//! Golden transcripts: all lines on the pipes, with everything that changes from run to run replaced by a fixed
//! name.
//!
//! `UPDATE_EXPECT=1 cargo test` rewrites `fixtures/acp/*.txt`; read the difference before committing it.

use std::{collections::HashMap, path::Path};

use serde_json::Value;

use super::{
    agent::{self, wire::Line},
    message::tag,
    scratch::Scratch,
};

/// Compares the lines with `fixtures/acp/<name>.txt`.
pub fn check(name: &str, lines: &[Line], scratch: &Scratch) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/acp/{name}.txt"));
    let actual = normalise(lines, scratch);
    if std::env::var("UPDATE_EXPECT").is_ok() {
        std::fs::write(&path, &actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run with UPDATE_EXPECT=1 to write it", path.display()));
    if expected != actual {
        let difference = similar::TextDiff::from_lines(&expected, &actual).unified_diff().to_string();
        panic!("{} differs; run with UPDATE_EXPECT=1 after reading this:\n{difference}", path.display());
    }
}

/// Writes one line per message, `->` from the client, `<-` from the agent. Titles are left out, because they
/// come at any time.
fn normalise(lines: &[Line], scratch: &Scratch) -> String {
    let mut names = Names::default();
    let mut out = String::new();
    for line in lines {
        if tag(&line.message["params"]["update"]) == "session_info_update" {
            continue;
        }
        let mut message = line.message.clone();
        names.rename(&mut message, scratch);
        out.push_str(if line.from_agent { "<- " } else { "-> " });
        out.push_str(&message.to_string());
        out.push('\n');
    }
    out
}

#[derive(Default)]
struct Names {
    ids: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

const PREFIXES: &[&str] = &["ses", "msg", "prt", "per", "evt"];

impl Names {
    fn rename(&mut self, value: &mut Value, scratch: &Scratch) {
        match value {
            Value::String(text) => *text = self.rename_text(text, scratch),
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item, scratch)),
            Value::Object(fields) => {
                for (key, field) in fields {
                    match key.as_str() {
                        "time" | "created" | "updated" | "completed" | "start" | "end"
                            if field.is_number() =>
                        {
                            *field = Value::from("<time>");
                        }
                        "updatedAt" => *field = Value::from("<time>"),
                        "version" => *field = Value::from("<version>"),
                        // The level depends on the kernel.
                        "windlass/sandbox" => *field = Value::from("<sandbox>"),
                        _ => self.rename(field, scratch),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn rename_text(&mut self, text: &str, scratch: &Scratch) -> String {
        let text = text.replace(agent::binary().to_str().unwrap(), "<windlass>");
        let text = text.replace(scratch.cwd(), "/work").replace(scratch.home.to_str().unwrap(), "/home");
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((start, prefix)) = next_id(rest) {
            let id_len = prefix.len() + 1 + body_len(&rest[start + prefix.len() + 1..]);
            let id = &rest[start..start + id_len];
            out.push_str(&rest[..start]);
            out.push_str(&self.name(id, prefix));
            rest = &rest[start + id_len..];
        }
        out.push_str(rest);
        out
    }

    fn name(&mut self, id: &str, prefix: &'static str) -> String {
        if let Some(name) = self.ids.get(id) {
            return name.clone();
        }
        let count = self.counts.entry(prefix).or_default();
        *count += 1;
        let name = format!("{prefix}_{count}");
        self.ids.insert(id.to_owned(), name.clone());
        name
    }
}

/// Finds the first id in `text`: its start and its prefix. Made ids have 26 characters after the prefix.
fn next_id(text: &str) -> Option<(usize, &'static str)> {
    let mut best: Option<(usize, &'static str)> = None;
    for prefix in PREFIXES {
        let marker = format!("{prefix}_");
        for (start, _) in text.match_indices(&marker) {
            let is_id = body_len(&text[start + marker.len()..]) >= 20;
            if is_id && best.is_none_or(|(found, _)| start < found) {
                best = Some((start, prefix));
            }
        }
    }
    best
}

fn body_len(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_alphanumeric).count()
}
