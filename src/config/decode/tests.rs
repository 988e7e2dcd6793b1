//! What a merged configuration means, and what is said of what means nothing.

use std::path::Path;

use super::parse_model;
use crate::config::{Config, Environment, load, paths::Paths};

fn config(text: &str) -> Config {
    let variables = [("OPENCODE_CONFIG_CONTENT".to_owned(), text.to_owned())].into();
    let environment = Environment { variables, home: "/nowhere".into() };
    load(&environment, &Paths::new(&environment), Path::new("/nowhere/project"))
}

fn warnings(config: &Config) -> Vec<String> {
    let text = |warning: &crate::config::Warning| {
        let text = warning.to_string();
        text.strip_prefix("OPENCODE_CONFIG_CONTENT:").unwrap_or(&text).to_owned()
    };
    config.warnings.iter().map(text).collect()
}

#[test]
fn a_wrong_field_of_a_server_is_named_and_the_rest_holds() {
    let config = config(
        r#"{"mcp": {
"a": {"type": "local", "command": "npx foo"},
"b": {"type": "local", "command": ["x"], "timeout": "5", "enabled": false},
"c": {"type": "remote"},
"d": {"type": "lokal", "command": ["x"]},
"e": {"enabled": "no", "timeout": 5},
"f": {"type": "remote", "url": "https://f.example", "headers": {"A": 1}}
}}"#,
    );
    assert_eq!(
        warnings(&config),
        [
            "2:24: mcp.a.command: invalid type: string \"npx foo\", expected a list; the server is left out",
            "3:42: mcp.b.timeout: invalid type: string \"5\", expected a whole number",
            "4:1: mcp.c: has no `url`; the server is left out",
            "5:7: mcp.d.type: \"lokal\" is no kind of server; write \"local\" or \"remote\"; the server is left out",
            "6:7: mcp.e.enabled: invalid type: string \"no\", expected a boolean",
            "7:53: mcp.f.headers: invalid type: integer `1`, expected a string",
            "6:1: mcp.e: MCP server `e` is left out: missing field `type`",
        ]
    );
    assert_eq!(config.mcp.keys().collect::<Vec<_>>(), ["b", "f"]);
}

#[test]
fn a_limit_that_is_no_number_is_told() {
    let config = config(
        r#"{"provider": {"x": {"options": {"timeout": "5", "enterpriseUrl": "https://e"}},
"y": {"options": {"timeout": false}}, "z": {"options": {"timeout": 5}}}}"#,
    );
    assert_eq!(
        warnings(&config),
        ["1:33: provider.x.options.timeout: \"5\" is neither milliseconds nor false"]
    );
    let timeouts: Vec<Option<String>> =
        config.providers.values().map(|it| it.options.timeout.as_ref().map(ToString::to_string)).collect();
    assert_eq!(timeouts, [None, Some("false".to_owned()), Some("5".to_owned())]);
    let notes: Vec<&str> = config.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(notes, ["provider.x.options.enterpriseUrl: is understood, but nothing acts on it yet"]);
}

#[test]
fn a_model_is_provider_model_and_maybe_a_variant() {
    let shown = |text: &str| {
        parse_model(text).map(|model| format!("{}|{}|{:?}", model.provider_id, model.model_id, model.variant))
    };
    assert_eq!(shown("a/b").as_deref(), Some("a|b|None"));
    assert_eq!(shown("a/b/c#high").as_deref(), Some("a|b/c|Some(\"high\")"));
    assert_eq!([shown("a"), shown("/b"), shown("a/"), shown("")], [None, None, None, None]);
}
