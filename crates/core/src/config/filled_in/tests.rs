//! Texts from variables and files: hidden among free values and in URLs, shown where a type describes the value.

use serde_json::json;

use super::{STARS, hide};

#[test]
fn texts_from_variables_and_files_are_hidden_where_no_type_describes_the_value() {
    let texts = [
        "acme-4242",
        "anthropic/claude",
        "https://a.example/v1",
        "Review it.",
        "high",
        "/usr/bin",
        "/Hk3+secret/4242",
        "Bearer abcdefgh",
    ]
    .map(str::to_owned);
    let mut value = json!({
        "model": "anthropic/claude",
        "provider": {"p": {"options": {"baseURL": "https://a.example/v1", "apiKye": "acme-4242", "region": "high", "folder": "/usr/bin/p", "aws": "/Hk3+secret/4242", "curl": "https://h -H Bearer abcdefgh", "near": "xacme-4242",
            "list": [{"of": "acme-4242 x"}], "proxy": "https://a.example/v1"}}},
        "agent": {"a": {"prompt": "Review it.", "own": "for acme-4242", "options": {"user": "acme-4242"}}},
        "mcp": {"m": {"url": "https://h.example/acme-4242?x"}},
    });
    for (key, value) in value.as_object_mut().unwrap() {
        hide(std::slice::from_ref(key), value, &texts.clone().into());
    }
    let expected = json!({
        "model": "anthropic/claude",
        "provider": {"p": {"options": {"baseURL": "https://a.example/v1", "apiKye": STARS, "region": "high", "folder": "/usr/bin/p", "aws": STARS, "curl": "https://h -H ********", "near": "xacme-4242",
            "list": [{"of": "******** x"}], "proxy": "https://a.example/v1"}}},
        "agent": {"a": {"prompt": "Review it.", "own": "for ********", "options": {"user": STARS}}},
        "mcp": {"m": {"url": "https://h.example/********?x"}},
    });
    assert_eq!(value, expected);
}
