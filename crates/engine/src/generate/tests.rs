//! Agents that are read from a model's answer.

use super::{GeneratedAgent, read, sanitized};

const TAKEN: [&str; 2] = ["build", "log-reader"];

fn agent(name: &str) -> Result<GeneratedAgent, String> {
    let (description, prompt) =
        ("Use this agent when logs are long.".to_owned(), "You read logs.".to_owned());
    Ok(GeneratedAgent { name: name.to_owned(), description, prompt })
}

fn answer(identifier: &str) -> String {
    format!(
        r#"{{"identifier": "{identifier}", "whenToUse": " Use this agent when logs are long.", "systemPrompt": "You read logs.\n"}}"#
    )
}

#[test]
fn an_agent_is_found_in_what_stands_around_it() {
    let json = answer("log-digger");
    assert_eq!(read(&json, &TAKEN), agent("log-digger"));
    assert_eq!(read(&format!("Here it is:\n```json\n{json}\n```\nEnjoy."), &TAKEN), agent("log-digger"));
}

#[test]
fn an_identifier_that_is_taken_gets_a_number() {
    assert_eq!(read(&answer("log-reader"), &TAKEN), agent("log-reader-2"));
    assert_eq!(read(&answer("log-reader"), &["log-reader", "log-reader-2"]), agent("log-reader-3"));
}

#[test]
fn an_answer_that_cannot_be_used_is_told_why() {
    for (answer, reason) in [
        ("I cannot do that.", "it holds no JSON object"),
        ("}{", "it holds no JSON object"),
        ("{\"identifier\": \"a\"}", "its JSON is wrong (missing field `whenToUse` at line 1 column 19)"),
        (r#"{"identifier": "../..", "whenToUse": "x", "systemPrompt": "y"}"#, "its `identifier` is empty"),
        (r#"{"identifier": "a", "whenToUse": "x", "systemPrompt": " "}"#, "its `systemPrompt` is empty"),
    ] {
        assert_eq!(read(answer, &TAKEN), Err(reason.to_owned()), "{answer}");
    }
}

#[test]
fn identifiers_become_names_of_files() {
    for (identifier, expected) in [
        ("Code Reviewer", "code-reviewer"),
        ("../../etc/passwd", "etc-passwd"),
        ("--x__y--", "x-y"),
        ("größe", "gr-e"),
        ("日本", ""),
        (&"ab-".repeat(40), "ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab"),
    ] {
        assert_eq!(sanitized(identifier), expected);
    }
}
