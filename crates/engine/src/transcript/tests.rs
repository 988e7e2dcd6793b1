//! Pages of small sessions.

use std::collections::HashMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_base::clock::Zone;
use windlass_protocol::opencode::{
    id::SessionId,
    message::MessageWithParts,
    session::{Session, Todo},
};

use super::{Transcript, call, html, markdown};

/// 2026-09-21T14:13:20Z.
const START: i64 = 1_790_000_000_000;

struct Stored {
    info: Session,
    messages: Vec<MessageWithParts>,
    todos: Vec<Todo>,
    children: HashMap<SessionId, Vec<MessageWithParts>>,
}

impl Stored {
    fn new(messages: Value) -> Self {
        let info = json!({
            "id": "ses_1", "slug": "a-b", "projectID": "p", "directory": "/work", "title": "Fix the <parser>",
            "version": "0", "time": {"created": START, "updated": START},
        });
        Self {
            info: serde_json::from_value(info).expect("session"),
            messages: serde_json::from_value(messages).expect("messages"),
            todos: Vec::new(),
            children: HashMap::new(),
        }
    }

    fn transcript(&self) -> Transcript<'_> {
        Transcript {
            info: &self.info,
            messages: &self.messages,
            todos: &self.todos,
            children: &self.children,
            zone: Zone::utc(),
        }
    }

    /// Returns the page without its style, which no snapshot needs.
    fn page(&self) -> String {
        let page = html::page(&self.transcript());
        let (head, rest) = page.split_once("<style>").expect("style");
        format!("{head}<style>…{}", &rest[rest.find("</style>").expect("end of the style")..])
    }
}

fn part(message: &str, number: usize, kind: Value) -> Value {
    let mut part = json!({"id": format!("prt_{message}{number}"), "sessionID": "ses_1", "messageID": format!("msg_{message}")});
    part.as_object_mut().expect("part").extend(kind.as_object().expect("kind").clone());
    part
}

fn message(id: &str, info: Value, kinds: Vec<Value>) -> Value {
    let mut whole = json!({"id": format!("msg_{id}"), "sessionID": "ses_1", "agent": "build"});
    whole.as_object_mut().expect("message").extend(info.as_object().expect("info").clone());
    let parts: Vec<Value> =
        kinds.into_iter().enumerate().map(|(number, kind)| part(id, number, kind)).collect();
    json!({"info": whole, "parts": parts})
}

fn user(id: &str, kinds: Vec<Value>) -> Value {
    let info =
        json!({"role": "user", "time": {"created": START}, "model": {"providerID": "p", "modelID": "m"}});
    message(id, info, kinds)
}

fn answer(id: &str, kinds: Vec<Value>) -> Value {
    let info = json!({
        "role": "assistant", "parentID": "msg_0", "modelID": "m", "providerID": "p", "mode": "build",
        "path": {"cwd": "/work", "root": "/work"}, "cost": 0.25, "finish": "stop",
        "time": {"created": START + 1000, "completed": START + 13_000},
        "tokens": {"input": 1000, "output": 200, "reasoning": 0, "cache": {"read": 5000, "write": 0}},
    });
    message(id, info, kinds)
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool(name: &str, input: Value, output: &str, metadata: Value) -> Value {
    let title = input.get("filePath").and_then(Value::as_str).unwrap_or_default();
    json!({"type": "tool", "callID": "c", "tool": name, "state": {
        "status": "completed", "input": input, "output": output, "title": title, "metadata": metadata,
        "time": {"start": START, "end": START + 2400},
    }})
}

/// Makes a session with one of each element.
fn everything() -> Stored {
    let patch = "--- a.rs\n+++ a.rs\n@@ -1,2 +1,2 @@\n fn a() {}\n-let x = \"<old>\";\n+let x = \"<new>\";\n";
    let first = answer(
        "1",
        vec![
            json!({"type": "reasoning", "text": "I look *first*.", "time": {"start": START, "end": START + 3000}}),
            text("I **look**.\n\n# Found\n\n[site](https://x.test/?a=1&b) <b>bold</b>"),
            tool("bash", json!({"command": "ls -la\ntrue"}), "\u{1b}[32ma.rs\u{1b}[0m\n", json!({"exit": 2})),
            tool(
                "edit",
                json!({"filePath": "/work/a.rs"}),
                "ok",
                json!({"filediff": {"file": "a.rs", "patch": patch, "additions": 1, "deletions": 1}}),
            ),
            tool(
                "task",
                json!({"description": "Look", "prompt": "Look at it.", "subagent_type": "explore"}),
                "",
                json!({"sessionId": "ses_child"}),
            ),
            tool(
                "question",
                json!({"questions": [{"question": "Which?"}]}),
                "",
                json!({"answers": [["This", "That"]]}),
            ),
            tool("server_tool", json!({"name": "x", "n": 1}), "made", json!({})),
        ],
    );
    let mut failed = answer(
        "3",
        vec![
            json!({"type": "retry", "attempt": 1, "error": {"message": "busy", "isRetryable": true},
                   "time": {"created": START}}),
            json!({"type": "tool", "callID": "c", "tool": "read", "state": {
                "status": "error", "input": {"filePath": "/work/no"}, "error": "File not found: /work/no",
                "time": {"start": START, "end": START},
            }}),
        ],
    );
    failed["info"]["error"] = json!({"name": "UnknownError", "data": {"message": "no credit is left"}});
    let mut stored = Stored::new(json!([
        user(
            "0",
            vec![
                text("Fix it.\n\n<i>Soon</i>"),
                json!({"type": "file", "mime": "text/plain", "filename": "log.txt",
            "url": "data:text/plain;base64,AAAA"})
            ]
        ),
        first,
        user(
            "2",
            vec![
                json!({"type": "text", "text": "/review", "ignored": true}),
                json!({"type": "text", "text": "Review it.", "synthetic": true}),
            ]
        ),
        failed,
    ]));
    let todos = json!([
        {"content": "Look", "status": "completed", "priority": "high"},
        {"content": "Fix *it*", "status": "in_progress", "priority": "low"},
    ]);
    stored.todos = serde_json::from_value(todos).expect("todos");
    let child = json!([user("4", vec![text("Look at it.")]), answer("5", vec![text("It is *there*.")])]);
    stored
        .children
        .insert(SessionId::from_trusted("ses_child"), serde_json::from_value(child).expect("child"));
    stored
}

fn check(name: &str, drawn: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/transcript"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let drawn = drawn.replace(env!("CARGO_PKG_VERSION"), "<version>");
    settings.bind(|| insta::assert_snapshot!(name, drawn));
}

#[test]
fn a_page_shows_everything() {
    check("page", &everything().page());
}

#[test]
fn a_document_shows_everything() {
    check("document", &markdown::document(&everything().transcript()));
}

#[test]
fn the_pages_policy_allows_its_own_style_and_nothing_else() {
    let page = html::page(&Stored::new(json!([])).transcript());
    let (_, rest) = page.split_once("<style>").expect("style");
    let (style, rest) = rest.split_once("</style>").expect("end of the style");
    let hash = BASE64_STANDARD.encode(Sha256::digest(style));
    assert!(page.contains(&format!("style-src 'sha256-{hash}'")), "the style's hash is sha256-{hash}");
    assert!(rest.contains("Nothing has been said in this session."), "{rest}");
}

#[test]
fn links_lead_to_the_web_only() {
    for (markdown, is_link) in [
        ("[x](https://x.test)", true),
        ("[x](HTTP://x.test)", true),
        ("<me@x.test>", true),
        ("[x](mailto:me@x.test)", true),
        ("[x](javascript:alert(1))", false),
        ("[x](java&#115;cript:alert(1))", false),
        ("[x](data:text/html,hi)", false),
        ("[x](src/main.rs)", false),
        ("[x](//x.test)", false),
        ("[x](vbscript:x)", false),
        ("[x]\n\n[x]: javascript:alert(1)", false),
        ("[![x](https://x.test/a.png)](javascript:alert(1))", true),
    ] {
        let page =
            Stored::new(json!([user("0", vec![text("go")]), answer("1", vec![text(markdown)])])).page();
        let main = &page[page.find("<main").expect("main")..];
        let n_links = main.matches(" href=\"").count() - main.matches(" href=\"#").count();
        assert_eq!(n_links, usize::from(is_link), "{markdown}: {main}");
        assert!(!main.contains("<img") && !main.contains("href=\"javascript"), "{main}");
    }
}

#[test]
fn boxes_of_tasks_have_names() {
    let tasks = "- [x] tested\n- [ ] read";
    let page = Stored::new(json!([user("0", vec![text("go")]), answer("1", vec![text(tasks)])])).page();
    assert!(page.contains("<input type=\"checkbox\" disabled checked aria-label=\"done\"> tested"), "{page}");
    assert!(page.contains("<input type=\"checkbox\" disabled aria-label=\"to do\"> read"), "{page}");
}

#[test]
fn a_long_output_loses_its_middle() {
    let output: String = (0..5000).map(|number| format!("line {number}\n")).collect();
    let cut = call::cut(&output);
    let (n_lines, tail) = cut.tail.expect("a tail");
    assert!(cut.head.starts_with("line 0\n") && tail.ends_with("line 4999\n"), "{tail}");
    assert_eq!(cut.head.lines().count() + n_lines + tail.lines().count(), 5000);
    assert_eq!(call::cut("\u{1b}[1mbold\u{1b}[0m \u{202e}x").head, "bold \\u{202e}x");
}

#[test]
fn an_open_code_block_ends_with_its_answer() {
    let stored = Stored::new(json!([
        user("0", vec![text("```\nmine")]),
        answer("1", vec![text("```rust\nfn main() {")]),
        user("2", vec![text("more")]),
        answer("3", vec![text("ok")]),
    ]));
    let document = markdown::document(&stored.transcript());
    assert!(document.contains("fn main() {\n```\n"), "{document}");
    assert!(document.contains("\n## 2. more\n"), "{document}");
}

#[test]
fn a_fence_is_longer_than_those_in_its_text() {
    let stored = Stored::new(json!([
        user("0", vec![text("go")]),
        answer("1", vec![tool("read", json!({"filePath": "a.md"}), "````\ncode\n````", json!({}))]),
    ]));
    let document = markdown::document(&stored.transcript());
    assert!(document.contains("`````text\n````\ncode\n````\n`````\n"), "{document}");
}

#[test]
fn commands_of_the_shell_and_of_windlass_are_no_prompts() {
    let command = |id: &str, line: &str| {
        let executed =
            json!({"type": "text", "text": "The following tool was executed by the user", "synthetic": true});
        user(id, vec![json!({"type": "text", "text": line, "ignored": true}), executed])
    };
    let stored = Stored::new(json!([
        command("a", "!ls"),
        user("b", vec![json!({"type": "text", "text": "Mend it"})]),
        user("c", vec![json!({"type": "compaction", "auto": false})]),
        command("d", "!pwd"),
        user("e", vec![json!({"type": "file", "mime": "text/plain", "filename": "x", "url": "data:,x"})]),
    ]));
    let document = markdown::document(&stored.transcript());
    let headings: Vec<&str> = document.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings, ["## !ls", "## 1. Mend it", "## 2. x"]);
    let page = stored.page();
    assert!(page.contains("<dt>Prompts</dt><dd>2</dd>"), "{page}");
}
