//! Agents and resources that a user names by `@` in a prompt (facts: OpenCode §6.1). Pure.

use serde_json::{Value, json};
use windlass_protocol::opencode::part::FilePart;

/// Returns the resources of MCP servers that a text names as `@server:uri`, each once, in its order. Whether there is
/// such a server is not known here.
pub fn resources(text: &str) -> Vec<FilePart> {
    let mut found: Vec<FilePart> = Vec::new();
    for (at, word) in named(text) {
        let Some((server, uri)) = word.split_once(':') else { continue };
        let uri = uri.trim_end_matches(['.', '?', '!', ';', ')', ']', '"', '\'']);
        let is_scheme = |scheme: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
            scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_part)
        };
        let is_uri = uri.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty());
        if server.is_empty() || !is_uri || found.iter().any(|file| resource(file) == Some((server, uri))) {
            continue;
        }
        let value = format!("@{server}:{uri}");
        let span = json!({ "start": at, "end": at + value.len(), "value": value });
        let source = json!({ "type": "resource", "clientName": server, "uri": uri, "text": span });
        found.push(FilePart {
            mime: "text/plain".to_owned(),
            filename: Some(format!("{server}:{uri}")),
            url: uri.to_owned(),
            source: Some(source),
        });
    }
    found
}

/// Returns the server and the URI of a file that is a server's resource.
pub fn resource(file: &FilePart) -> Option<(&str, &str)> {
    let source = file.source.as_ref().filter(|source| source["type"] == "resource")?;
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    Some((text("clientName")?, text("uri")?))
}

/// Returns true if a resource was found among the user's words, which may mean something else.
pub fn is_typed(file: &FilePart, server: &str, uri: &str) -> bool {
    let typed = file.source.as_ref().and_then(|source| source["text"]["value"].as_str());
    typed.is_some_and(|typed| typed == format!("@{server}:{uri}"))
}

/// Returns the words behind each `@` that may be a mention, with the place of the `@` in bytes.
///
/// An `@` inside a word or behind a backtick is none: it is an address or code.
fn named(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('@').filter_map(|(at, _)| {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || matches!(before, '_' | '`')) {
            return None;
        }
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | '`')).unwrap_or(rest.len());
        Some((at, &rest[..end]))
    })
}

/// Returns those of the subagents that a text names, each once, in its order.
pub fn subagents<'a>(text: &str, subagents: &'a [String]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, word) in named(text) {
        let rest = &text[at + 1..];
        // Punctuation at the end of a sentence is not part of a name, unless an agent is named so.
        let bare = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
        let mut names = with_spaces(rest, subagents).into_iter().chain([word, bare]);
        let name = names.find_map(|name| subagents.iter().find(|subagent| *subagent == name));
        if let Some(name) = name.filter(|name| !found.contains(&name.as_str())) {
            found.push(name.as_str());
        }
    }
    found
}

/// Returns the longest name of several words that a text begins with: a file's name may have spaces.
fn with_spaces<'a>(text: &str, names: &'a [String]) -> Option<&'a str> {
    let begins = |name: &&str| {
        text.strip_prefix(name).is_some_and(|behind| !behind.starts_with(|c: char| c.is_alphanumeric()))
    };
    let names = names.iter().map(String::as_str);
    names.filter(|name| name.contains(char::is_whitespace)).filter(begins).max_by_key(|name| name.len())
}

#[cfg(test)]
mod tests {
    //! Mentions are told from addresses and code.

    use super::{resource, resources};

    #[test]
    fn a_resource_is_named_by_its_server_and_its_uri() {
        let text = "See @docs:docs://guide, (@docs:file:///a%20b.md) and `@docs:x://y`, not a@docs:x://y, @docs or \
                    @docs:guide; @docs:docs://guide again.";
        let found = resources(text);
        let named: Vec<_> = found.iter().filter_map(resource).collect();
        assert_eq!(named, [("docs", "docs://guide"), ("docs", "file:///a%20b.md")]);
        let span = &found[0].source.as_ref().unwrap()["text"];
        assert_eq!((&span["value"], &span["start"]), (&"@docs:docs://guide".into(), &4.into()));
    }
}
