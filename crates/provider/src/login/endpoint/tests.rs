//! Addresses and answers of authorities.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Value, json};
use windlass_core::config::Environment;
use windlass_protocol::opencode::config::AuthEntry;

use super::{Answer, Endpoint, LoginError, claims};
use crate::login::rows;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Environment {
        trusts_projects: true,
        variables: variables.collect::<BTreeMap<_, _>>(),
        home: PathBuf::from("/nowhere"),
    }
}

fn client() -> reqwest::Client {
    crate::http::Client::default().reqwest().unwrap()
}

/// Returns the address that gives a provider's tokens.
fn address(provider: &str, given: Option<&str>, variables: &[(&str, &str)]) -> Result<String, LoginError> {
    let (client, environment) = (client(), environment(variables));
    let issuer = rows::issuer(provider).unwrap();
    let endpoint = Endpoint::new(&client, &environment, issuer, given)?;
    endpoint.address(issuer.token_url).map(String::from)
}

#[test]
fn an_instance_is_given_named_by_a_variable_or_the_public_one() {
    let copilot = "/login/oauth/access_token";
    assert_eq!(address("github-copilot", None, &[]).unwrap(), format!("https://github.com{copilot}"));
    let own = address("github-copilot", Some("https://GHE.example/x"), &[]).unwrap();
    assert_eq!(own, format!("https://ghe.example{copilot}"));
    let gitlab = [("GITLAB_INSTANCE_URL", "https://git.example")];
    assert_eq!(address("gitlab", None, &gitlab).unwrap(), "https://git.example/oauth/token");
    let lacking = address("snowflake-cortex", None, &[]).unwrap_err().to_string();
    assert_eq!(lacking, "name the Snowflake account with `--instance`, or set SNOWFLAKE_ACCOUNT");
    for bad in ["a b", "x@evil.example", "evil.example?", "\u{e9}"] {
        assert!(address("github-copilot", Some(bad), &[]).is_err(), "{bad}");
    }
}

#[test]
fn only_a_server_of_this_machine_stands_in() {
    let with = |value: &str| address("openai", None, &[("WINDLASS_LOGIN_ISSUER", value)]);
    assert_eq!(with("http://127.0.0.1:99").unwrap(), "http://127.0.0.1:99/oauth/token");
    assert_eq!(with("http://[::1]:99").unwrap(), "http://[::1]:99/oauth/token");
    for far in ["https://evil.example", "http://127.0.0.1.evil.example", "http://localhost:1", "nothing"] {
        let said = with(far).unwrap_err().to_string();
        assert!(said.contains("names no address of this machine"), "{far}: {said}");
    }
}

fn answer(status: u16, fields: &Value) -> Answer {
    Answer { status, fields: fields.as_object().unwrap().clone() }
}

#[test]
fn what_was_granted_becomes_an_entry() {
    let (client, environment) = (client(), environment(&[]));
    let entry = |provider: &str, fields: Value, before: Option<&str>| {
        let endpoint = Endpoint::new(&client, &environment, rows::issuer(provider).unwrap(), None).unwrap();
        endpoint.entry(&answer(200, &fields), before)
    };
    let AuthEntry::Oauth { refresh, access, expires, .. } =
        entry("openai", json!({"access_token": "a", "expires_in": "60"}), Some("kept")).unwrap()
    else {
        panic!("no login")
    };
    // The token for renewals stays where no other one comes.
    assert_eq!((refresh.as_str(), access.as_str()), ("kept", "a"));
    let left = expires - windlass_base::clock::now_ms();
    assert!((1..=60_000).contains(&left), "{left}");
    let key = entry("poe", json!({"api_key": "k"}), None).unwrap();
    assert_eq!(key, AuthEntry::key("k"));
    for (provider, fields) in
        [("openai", json!({})), ("poe", json!({"access_token": "a"})), ("xai", json!({"access_token": ""}))]
    {
        assert!(entry(provider, fields, None).is_err(), "{provider}");
    }
}

#[test]
fn a_reason_is_shown_without_what_was_sent() {
    let (client, environment) = (client(), environment(&[]));
    let endpoint = Endpoint::new(&client, &environment, rows::issuer("xai").unwrap(), None).unwrap();
    let reason = |status: u16, fields: Value| {
        endpoint.reason(&answer(status, &fields), &[("refresh_token", "secret-0123456789")])
    };
    let said = json!({"error": "invalid_grant", "error_description": "token secret-0123456789\n is old."});
    assert_eq!(reason(400, said), "auth.x.ai says: token ******** is old");
    assert_eq!(reason(400, json!({"error": {"message": "no"}})), "auth.x.ai says: no");
    assert_eq!(reason(418, json!({})), "auth.x.ai answered 418");
}

#[test]
fn claims_of_anything_are_read_without_harm() {
    for token in ["", "a.b", "a.!!.c", "a..", "a.bm9wZQ.c"] {
        assert_eq!(claims(token).len(), 0, "{token}");
    }
    // {"exp": 7}
    assert_eq!(claims("x.eyJleHAiOiA3fQ.y")["exp"], 7);
}
