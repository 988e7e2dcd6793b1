//! The demo model's answers, step by step.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::script;
use crate::{AssistantContent, Delta, Finish, Prompt, PromptMessage, ToolResult, ToolSpec, UserContent};

const TOOLS: [&str; 6] = ["bash", "edit", "list", "read", "todowrite", "write"];

/// The texts, the calls and the end of an answer.
#[derive(Debug, PartialEq)]
struct Answer {
    text: String,
    calls: Vec<(String, Value)>,
    finish: Option<Finish>,
}

fn answer(prompt: &Prompt<'_>) -> Answer {
    let mut answer = Answer { text: String::new(), calls: Vec::new(), finish: None };
    let mut input = String::new();
    for delta in script(prompt).concat() {
        match delta {
            Delta::Text { text, .. } => answer.text.push_str(&text),
            Delta::ToolCallStart { name, .. } => answer.calls.push((name, Value::Null)),
            Delta::ToolCallInput { json, .. } => {
                input.push_str(&json);
                if let Ok(value) = serde_json::from_str(&input) {
                    answer.calls.last_mut().unwrap().1 = value;
                    input.clear();
                }
            }
            Delta::Finish(finish) => answer.finish = Some(finish),
            Delta::TextStart { .. }
            | Delta::ReasoningStart { .. }
            | Delta::Reasoning { .. }
            | Delta::Signature { .. }
            | Delta::BlockEnd { .. }
            | Delta::Usage(_) => {}
        }
    }
    answer
}

fn tools(names: &[&'static str]) -> Vec<ToolSpec<'static>> {
    names
        .iter()
        .map(|name| ToolSpec {
            name: (*name).into(),
            description: "".into(),
            schema: Cow::Owned(json!({"type": "object"})),
        })
        .collect()
}

fn user(text: &str) -> PromptMessage<'_> {
    PromptMessage::User(vec![UserContent::Text(text.into())])
}

/// Makes the prompt after the user said `text` and the tools answered `results`, one per step.
fn prompt<'a>(text: &'a str, results: &[(&'a str, bool)]) -> Prompt<'a> {
    let mut messages = vec![user("hello"), PromptMessage::Assistant(Vec::new()), user(text)];
    for (output, is_error) in results {
        messages.push(PromptMessage::Assistant(Vec::new()));
        messages.push(PromptMessage::ToolResults(vec![ToolResult {
            call_id: "c",
            name: "tool",
            output: (*output).into(),
            is_error: *is_error,
            media: Vec::new(),
        }]));
    }
    Prompt { messages, tools: tools(&TOOLS), ..Prompt::default() }
}

#[track_caller]
fn check_calls(text: &str, results: &[(&str, bool)], calls: &[(&str, Value)]) {
    let answer = answer(&prompt(text, results));
    let expected: Vec<(String, Value)> =
        calls.iter().map(|(name, input)| ((*name).to_owned(), input.clone())).collect();
    assert_eq!(answer.calls, expected);
    let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    assert_eq!(answer.finish, Some(finish));
}

#[track_caller]
fn check_text(text: &str, results: &[(&str, bool)], contains: &str) {
    let answer = answer(&prompt(text, results));
    assert!(answer.text.contains(contains), "{}", answer.text);
    assert_eq!((answer.calls, answer.finish), (Vec::new(), Some(Finish::Stop)));
}

#[test]
fn unknown_words_are_answered_with_help() {
    for hint in [
        "ANTHROPIC_API_KEY",
        "OPENAI_BASE_URL",
        "windlass auth login",
        "opencode.json",
        "`/demo run COMMAND`",
    ] {
        check_text("what is this?", &[], hint);
    }
}

#[test]
fn nothing_but_an_exact_form_is_a_command() {
    for words in [
        "run rm -rf build and then rebuild the project",
        "run ls",
        "tour",
        "plan",
        "please /demo run ls",
        " /demo run ls",
        "/demo run ls\n",
        "/demo run ls\r",
        "look at this:\n/demo run ls",
        "/demo run ls\nand then more",
        "/Demo run ls",
        "/demorun ls",
        "/demo  run ls",
        "/demo\trun ls",
        "/demo run",
        "/demo run  ",
        "/demo tour now",
        "/demo plan the work",
        "/demo",
        "/demo rm x",
    ] {
        check_text(words, &[], "This is windlass's built-in demo model");
    }
    // A command with other text in the same message is none either: piped text, attachments, or a command's
    // template.
    let beside = vec![UserContent::Text("/demo run ls".into()), UserContent::Text("and this".into())];
    let prompt =
        Prompt { messages: vec![PromptMessage::User(beside)], tools: tools(&TOOLS), ..Prompt::default() };
    assert_eq!(answer(&prompt).calls, []);
}

const LISTING: &str = "<path>/p</path>\n<type>directory</type>\n<entries>\n.gitignore\nREADME.md\nsrc/\n\n(3 entries)\n</entries>";
const FILE: &str = "<path>/p/a</path>\n<type>file</type>\n<content>\n1: fn main() {\n2: }\n3: fn main() {\n4:   x: 1\n\n(End of file - total 4 lines)\n</content>";

#[test]
fn the_tour_uses_one_tool_after_the_other() {
    let first = answer(&prompt("/demo tour", &[]));
    assert_eq!(first.calls.len(), 1);
    assert_eq!(first.calls[0].1["todos"][0]["status"], "in_progress");
    assert_eq!(first.calls[0].1["todos"].as_array().map(Vec::len), Some(4));

    let results = [
        ("[]", false),
        (LISTING, false),
        (FILE, false),
        ("Wrote", false),
        ("Edited", false),
        ("", false),
        ("[]", false),
    ];
    check_calls("/demo tour", &results[..1], &[("list", json!({}))]);
    check_calls("/demo tour", &results[..2], &[("read", json!({"filePath": "README.md"}))]);
    check_calls(
        "/demo tour",
        &results[..3],
        &[(
            "write",
            json!({"filePath": "windlass-demo.txt", "content": "The windlass demo was here.\nThe rope is slack.\n"}),
        )],
    );
    check_calls(
        "/demo tour",
        &results[..4],
        &[(
            "edit",
            json!({"filePath": "windlass-demo.txt", "oldString": "rope is slack", "newString": "rope is taut"}),
        )],
    );
    check_calls("/demo tour", &results[..5], &[("bash", json!({"command": "cat windlass-demo.txt"}))]);
    let last = answer(&prompt("/demo tour", &results[..6]));
    assert_eq!(last.calls[0].1["todos"][3]["status"], "completed");
    check_text("/demo tour", &results, "That was the tour");
}

#[test]
fn the_tour_reads_nothing_in_an_empty_directory() {
    let empty = "<entries>\n\n(0 entries)\n</entries>";
    assert_eq!(answer(&prompt("/demo tour", &[("[]", false), (empty, false)])).calls[0].0, "write");
    assert_eq!(
        answer(&prompt("/demo tour", &[("[]", false), (empty, false), ("Wrote", false)])).calls[0].0,
        "edit"
    );
}

#[test]
fn a_refusal_ends_it() {
    check_text(
        "/demo tour",
        &[("[]", false), ("The user said no.", true)],
        "did not go through: The user said no.",
    );
    check_text("/demo run ls", &[("rejected", true)], "The demo stops here.");
}

#[test]
fn a_missing_tool_ends_it() {
    let mut prompt = prompt("/demo run ls", &[]);
    prompt.tools = tools(&["read"]);
    let answer = answer(&prompt);
    assert!(answer.text.contains("`bash` is not available"), "{}", answer.text);
    assert_eq!((answer.calls, answer.finish), (Vec::new(), Some(Finish::Stop)));
}

#[test]
fn a_file_is_read() {
    check_calls("/demo read src/main.rs", &[], &[("read", json!({"filePath": "src/main.rs"}))]);
    check_text("/demo read a", &[(FILE, false)], "I see 4 lines of `a`; the first: fn main() {");
}

#[test]
fn a_command_is_run() {
    check_calls("/demo run echo hi there", &[], &[("bash", json!({"command": "echo hi there"}))]);
    check_text("/demo run ls", &[("a\nb\n", false)], "The command printed 2 lines, beginning with: a");
    check_text("/demo run true", &[("", false)], "printed nothing");
}

#[test]
fn a_file_is_edited_where_its_beginning_is_unique() {
    check_calls("/demo edit a", &[], &[("read", json!({"filePath": "a"}))]);
    check_calls(
        "/demo edit a",
        &[(FILE, false)],
        &[(
            "edit",
            json!({
                "filePath": "a",
                "oldString": "fn main() {\n}",
                "newString": "fn main() {\nEdited by the windlass demo.\n}",
            }),
        )],
    );
    check_text("/demo edit a", &[(FILE, false), ("Edit applied successfully.", false)], "Done");
}

#[test]
fn a_missing_file_is_written() {
    let missing = ("File not found: /p/a", true);
    check_calls(
        "/demo edit a",
        &[missing],
        &[("write", json!({"filePath": "a", "content": "Edited by the windlass demo.\n"}))],
    );
    check_text("/demo edit a", &[missing, ("Wrote file successfully.", false)], "Done");
    check_text(
        "/demo edit a",
        &[missing, ("The user said no.", true)],
        "did not go through: The user said no.",
    );
}

#[test]
fn a_plan_has_three_steps() {
    let first = answer(&prompt("/demo plan", &[]));
    assert_eq!(first.calls[0].1["todos"].as_array().map(Vec::len), Some(3));
    check_text("/demo plan", &[("[]", false)], "That is the plan");
}

#[test]
fn a_title_is_the_first_words() {
    let title = |messages| {
        answer(&Prompt { system: vec!["You generate a title.".into()], messages, ..Prompt::default() }).text
    };
    let words = "Fix the rope on the port side, please";
    assert_eq!(
        title(vec![user("Generate a title for this conversation:"), user(words)]),
        "Fix the rope on the port"
    );
    let together = format!("Generate a title for this conversation:\n{words}");
    assert_eq!(title(vec![user(&together)]), "Fix the rope on the port");
}

#[test]
fn it_arrives_in_pieces_and_call_ids_differ() {
    let batches = script(&prompt("/demo tour", &[]));
    assert!(batches.len() > 10);
    let ids: Vec<String> =
        [script(&prompt("/demo run a", &[])), script(&prompt("/demo run a ", &[("x", false)])), batches]
            .concat()
            .concat()
            .into_iter()
            .filter_map(|delta| match delta {
                Delta::ToolCallStart { call_id, .. } => Some(call_id),
                _ => None,
            })
            .collect();
    assert_eq!(ids, ["demo_3_0", "demo_3_0"]);
    assert_eq!(
        script(&prompt("/demo tour", &[("[]", false)])).concat().iter().find_map(|delta| match delta {
            Delta::ToolCallStart { call_id, .. } => Some(call_id.clone()),
            _ => None,
        }),
        Some("demo_5_0".to_owned())
    );
}

#[test]
fn earlier_turns_do_not_count() {
    let mut prompt = prompt("/demo tour", &[("[]", false)]);
    prompt.messages.push(PromptMessage::Assistant(vec![AssistantContent::Text("Aye.".into())]));
    prompt.messages.push(user("/demo run ls"));
    assert_eq!(answer(&prompt).calls, [("bash".to_owned(), json!({"command": "ls"}))]);
}
