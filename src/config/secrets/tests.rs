//! What is secret, and what only looks like it.

use serde_json::{Value, json};

use super::{STARS, mask, mask_message, masked, text};

#[track_caller]
fn check(value: Value, expected: Value) {
    assert_eq!(Value::Object(masked(value.as_object().unwrap())), expected);
}

#[test]
fn keys_headers_and_environments_are_masked() {
    check(
        json!({
            "provider": {"p": {"options": {"apiKey": "k", "baseURL": "u", "headers": {"X": "h"}}, "env": ["NAME"]}},
            "mcp": {"m": {"environment": {"A": "1", "B": 2}, "headers": {"B": "2"}, "oauth": {"clientId": "i", "clientSecret": "s"}}},
            "agent": {"a": {"options": {"api_key": 123, "access_key": "k", "token": "t", "secret": "s", "auth-token": "t"}}},
        }),
        json!({
            "provider": {"p": {"options": {"apiKey": STARS, "baseURL": "u", "headers": {"X": STARS}}, "env": ["NAME"]}},
            "mcp": {"m": {"environment": {"A": STARS, "B": STARS}, "headers": {"B": STARS}, "oauth": {"clientId": "i", "clientSecret": STARS}}},
            "agent": {"a": {"options": {"api_key": STARS, "access_key": STARS, "token": STARS, "secret": STARS, "auth-token": STARS}}},
        }),
    );
}

#[test]
fn what_only_sounds_like_a_secret_is_shown() {
    let value = json!({
        "compaction": {"preserve_recent_tokens": 5},
        "agent": {"token-counter": {"prompt": "Count --token X and token: y.", "options": {"max_tokens": 5, "budgetTokens": 7}}},
        "server": {"cors": ["https://a.example/?page=2&monkey=1"]},
        "keybinds": {"leader": "ctrl+x"},
        "references": {"r": {"repository": "ssh://git@host/x"}},
        "model": "sk-model/x",
        "apiKey": "",
    });
    check(value.clone(), value);
}

#[test]
fn urls_lose_their_passwords_and_token_like_parameters() {
    for (url, expected) in [
        ("https://user:pw@a.example/x", "https://user:********@a.example/x"),
        ("https://tok3n@a.example", "https://********@a.example"),
        ("https://:pw@a.example", "https://********@a.example"),
        ("https://a.example/x@y", "https://a.example/x@y"),
        ("https://a.example/?api_key=1&page=2#top", "https://a.example/?api_key=********&page=2#top"),
        (
            "wss://a.example?a=1&access_token=2&sig=3",
            "wss://a.example?a=1&access_token=********&sig=********",
        ),
        ("https://a.example/#token=x", "https://a.example/#token=********"),
        (
            "see \"https://u:p@b\" and http://c?key=v.",
            "see \"https://u:********@b\" and http://c?key=********",
        ),
        ("use sk-ant-api03-0123456789abcdef now", "use ******** now"),
    ] {
        assert_eq!(text(url), expected);
    }
    check(
        json!({"instructions": ["https://u:p@a.example/r.md"]}),
        json!({"instructions": ["https://u:********@a.example/r.md"]}),
    );
}

#[test]
fn arguments_of_programs_are_masked() {
    check(
        json!({"mcp": {"m": {"command": [
            "npx", "server", "--token", "abc", "--api-key=def", "--verbose", "--secret", "--port", "5", "API_KEY=x",
            "--header", "Authorization: Bearer y", "X-Api-Key:z", "https://u:p@h", "--max-tokens", "7",
        ]}}}),
        json!({"mcp": {"m": {"command": [
            "npx", "server", "--token", STARS, "--api-key=********", "--verbose", "--secret", "--port", "5", "API_KEY=********",
            "--header", "Authorization: ********", "X-Api-Key:********", "https://u:********@h", "--max-tokens", "7",
        ]}}}),
    );
    let wrong = json!("npx server --token abc");
    assert_eq!(mask(&["mcp", "m", "command"], &wrong), json!("npx server --token ********"));
}

#[test]
fn messages_do_not_quote_secrets() {
    let value = json!({"environment": {"KEY": 12345}, "command": ["x", "--token", "s3cr\"et"]});
    let message = "invalid type: integer `12345`, string \"s3cr\\\"et\", expected `x`";
    assert_eq!(
        mask_message(&["mcp", "m"], &value, message),
        "invalid type: integer `********`, string \"********\", expected `x`"
    );
    assert_eq!(mask_message(&["share"], &json!("loud"), "unknown variant `loud`"), "unknown variant `loud`");
}
