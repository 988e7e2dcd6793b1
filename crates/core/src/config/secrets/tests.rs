//! Secrets, and texts that only look like one.

use serde_json::{Value, json};

use super::{STARS, hide, holds_key, is_placeholder, is_secret_file, mask, mask_message, masked, text};

#[track_caller]
fn check(value: Value, expected: Value) {
    assert_eq!(Value::Object(masked(value.as_object().unwrap())), expected);
}

#[test]
fn keys_headers_and_environments_are_masked() {
    check(
        json!({
            "provider": {"p": {"options": {"apiKey": "key1", "baseURL": "u", "headers": {"X": "value"}}, "env": ["NAME"]}},
            "mcp": {"m": {"environment": {"A": "value", "B": 2}, "headers": {"B": "value"}, "oauth": {"clientId": "i", "clientSecret": "hunter2"}}},
            "agent": {"a": {"options": {"api_key": 123, "access_key": "key1", "token": "t0k", "secret": "s3", "auth-token": "t0k", "secretkey": "key1", "PASSWORD1": "p4ss", "apiKey2": "key2", "cookies": "c00kie", "tokens": ["t0k"]}}},
        }),
        json!({
            "provider": {"p": {"options": {"apiKey": STARS, "baseURL": "u", "headers": {"X": STARS}}, "env": ["NAME"]}},
            "mcp": {"m": {"environment": {"A": STARS, "B": STARS}, "headers": {"B": STARS}, "oauth": {"clientId": "i", "clientSecret": STARS}}},
            "agent": {"a": {"options": {"api_key": STARS, "access_key": STARS, "token": STARS, "secret": STARS, "auth-token": STARS, "secretkey": STARS, "PASSWORD1": STARS, "apiKey2": STARS, "cookies": STARS, "tokens": [STARS]}}},
        }),
    );
}

#[test]
fn a_secret_that_is_said_again_is_masked_too() {
    let secret = "0123-abcdef-secret";
    let prompt = format!("Call it with {secret}, not with x{secret}.");
    check(
        json!({"provider": {"p": {"options": {"token": secret}}}, "agent": {"a": {"prompt": prompt}}}),
        json!({
            "provider": {"p": {"options": {"token": STARS}}},
            "agent": {"a": {"prompt": format!("Call it with {STARS}, not with x{secret}.")}},
        }),
    );
}

#[test]
fn what_only_sounds_like_a_secret_is_shown() {
    let value = json!({
        "compaction": {"preserve_recent_tokens": 5},
        "agent": {"token-counter": {"prompt": "Count --token X and token: y.", "options": {"max_tokens": 5, "budgetTokens": 7, "tokens": 9}}},
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
        ("https://a.example/?api_key=k1&page=2#top", "https://a.example/?api_key=********&page=2#top"),
        (
            "wss://a.example?a=1&access_token=t2&sig=s3",
            "wss://a.example?a=1&access_token=********&sig=********",
        ),
        ("https://a.example/#token=t0k", "https://a.example/#token=********"),
        (
            "see \"https://u:p@b\" and http://c?key=k3y.",
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
            "npx", "server", "--token", "abc", "--api-key=def", "--verbose", "--secret", "--port", "5", "API_KEY=k3y",
            "--header", "Authorization: Bearer y", "X-Api-Key:k3y", "https://u:p@h", "--max-tokens", "7",
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
fn a_placeholder_is_no_secret() {
    for value in
        ["", " ", "x", "xxxx", "none", "NONE", "ollama", "lm-studio", "not-needed", "sk-no-key", "dummy"]
    {
        assert_eq!(is_placeholder(value), value != "sk-no-key", "{value}");
    }
    let value = json!({
        "provider": {"local": {"options": {"apiKey": "ollama", "headers": {"X-Api-Key": "none"}}}},
        "mcp": {"m": {"command": ["server", "--token", "x", "--api-key=none"], "environment": {"TOKEN": "dummy"}}},
        "instructions": ["https://a.example/?token=x"],
    });
    check(value.clone(), value);
}

#[test]
fn a_known_secret_is_hidden_as_a_whole_token_only() {
    for (text, secret, expected) in [
        ("key hunter22, again hunter22", "hunter22", "key ********, again ********"),
        ("hunter22", "hunter22", "********"),
        ("(hunter22)", "hunter22", "(********)"),
        (
            "xhunter22 hunter222 hunter22-a a_hunter22",
            "hunter22",
            "xhunter22 hunter222 hunter22-a a_hunter22",
        ),
        // Shorter than eight characters: a word of any text.
        ("a message", "message", "a message"),
        ("error: e", "e", "error: e"),
        ("use ollama or localhost", "localhost", "use ollama or localhost"),
        // A secret that begins or ends with a sign has no border there.
        ("a=pass/word==b", "pass/word==", "a=********b"),
        (
            r#"{"a":"hunter22","b":"\nhunter22\\nhunter22"}"#,
            "hunter22",
            r#"{"a":"********","b":"\n********\\nhunter22"}"#,
        ),
        ("größe12 größe123", "größe123", "größe12 ********"),
    ] {
        assert_eq!(hide(text, secret), expected, "{secret} in {text}");
    }
}

#[test]
fn json_stays_json() {
    let inner = json!({"url": "https://u:hunter22@a.example/?token=hunter22", "list": ["a=1&key=hunter22"]})
        .to_string();
    let outer = json!({"body": inner, "line": "{\"authorization\": \"Bearer eyJ0123456789012345678901234567890123456789\"}"});
    let shown: Value = serde_json::from_str(&text(&outer.to_string())).unwrap();
    let body: Value = serde_json::from_str(shown["body"].as_str().unwrap()).unwrap();
    assert_eq!(body["url"], "https://u:********@a.example/?token=********");
    assert_eq!(shown["line"], "{\"authorization\": \"Bearer ********\"}");
    let masked =
        mask(&[], &json!({"apiKey": {"a": 1}, "token": [1, "two", null], "headers": ["x: y"], "n": 1.5}));
    assert_eq!(
        masked,
        json!({"apiKey": {"a": 1}, "token": [STARS, STARS, STARS], "headers": [STARS], "n": 1.5})
    );
}

#[test]
fn messages_do_not_quote_secrets() {
    let value = json!({"environment": {"KEY": 12345, "A": "in", "B": "long enough"}, "command": ["x", "--token", "s3cr\"et"]});
    let message = "invalid type: integer `12345`, string \"s3cr\\\"et\", expected `x`";
    assert_eq!(
        mask_message(&["mcp", "m"], &value, message),
        "invalid type: integer `********`, string \"********\", expected `x`"
    );
    // A short value is hidden between quotes only, not inside the sentence's own words.
    assert_eq!(
        mask_message(&["mcp", "m"], &value, "invalid string \"in\" in integer; long enough"),
        "invalid string \"********\" in integer; ********"
    );
    assert_eq!(mask_message(&["share"], &json!("loud"), "unknown variant `loud`"), "unknown variant `loud`");
}

#[test]
fn files_with_keys_are_told_by_their_content_and_files_of_secrets_by_their_name() {
    for text in [
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        "  -----BEGIN RSA PRIVATE KEY-----",
        "token = \"ghp_0123456789abcdefghij0123\"",
        "Authorization: Bearer wlt_0123456789abcdefghij0123456789abcdefghij",
        "AWS_KEY=AKIA0123456789ABCDEF",
    ] {
        assert!(holds_key(text), "{text}");
    }
    for text in ["-----BEGIN CERTIFICATE-----", ".sk-loading-spinner-wrapper {}", "ghp_short", "AKIA"] {
        assert!(!holds_key(text), "{text}");
    }
    for name in [".env", ".env.local", "prod.env", "id_rsa", "server.pem", "Server.KEY", ".netrc"] {
        assert!(is_secret_file(name), "{name}");
    }
    for name in [".env.example", "environment.rs", "key.rs", "monkey", "id_rsa.pub", "env"] {
        assert!(!is_secret_file(name), "{name}");
    }
}
