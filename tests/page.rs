//! The exported page in a real browser: nothing that anybody said becomes part of the page.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    sessions_seen::{exchange, store},
    support::browser::{self, Page},
};

/// Tries to become part of the page in text, attributes, styles, comments and Markdown.
const HOSTILE: &str = "<img src=x onerror=\"console.log('pwned')\">\"'><script>console.log('pwned')</script></style></title>\
    --><svg onload=\"console.log('pwned')\"></svg>&lt;b&gt;\n\n# <iframe src=\"javascript:console.log('pwned')\"></iframe>\n\n\
    [x](javascript:console.log('pwned')) ![x](https://x.invalid/a.png) <a href=\"javascript:alert(1)\" onclick=alert(1)>x</a>\n\n\
    ```\" onmouseover=\"console.log('pwned')\n<script>console.log('pwned')</script>\n```\n\n<base href=\"https://x.invalid/\">\n\
    <meta http-equiv=\"refresh\" content=\"0;url=https://x.invalid/\"><form action=\"https://x.invalid\"><input autofocus \
    onfocus=\"console.log('pwned')\"></form>\n\n| a |\n|--:|\n| <b>b</b> |";

/// Keys with values that the shapes fix.
const FIXED: &[&str] =
    &["id", "sessionID", "messageID", "parentID", "role", "type", "sessionId", "status", "priority", "name"];

/// Elements that a page is made of.
const ELEMENTS: &[&str] = &[
    "a",
    "article",
    "blockquote",
    "body",
    "br",
    "code",
    "dd",
    "del",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "img",
    "input",
    "li",
    "main",
    "meta",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "small",
    "span",
    "strong",
    "style",
    "summary",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "ul",
];

/// Attributes of those elements.
const ATTRIBUTES: &[&str] = &[
    "alt",
    "aria-label",
    "aria-labelledby",
    "charset",
    "checked",
    "class",
    "content",
    "datetime",
    "dir",
    "disabled",
    "href",
    "http-equiv",
    "id",
    "lang",
    "name",
    "open",
    "rel",
    "role",
    "src",
    "start",
    "tabindex",
    "type",
];

/// Lists the elements, attributes and addresses of the page in the end.
const LOOK: &str = "<script>
    const all = [...document.querySelectorAll('*')].filter(it => it !== document.currentScript);
    const seen = {
        elements: [...new Set(all.map(it => it.localName))],
        attributes: [...new Set(all.flatMap(it => it.getAttributeNames()))],
        links: [...new Set(all.flatMap(it => ['href', 'src', 'action'].map(name => it.getAttribute(name)).filter(Boolean)))],
        metas: document.querySelectorAll('meta').length,
        shown: document.body.innerText.includes(\"onerror=\\\"console.log('pwned')\\\"\"),
    };
    document.body.textContent = 'SEEN' + encodeURIComponent(JSON.stringify(seen)) + 'END';
</script>";

/// Returns a file as the browser renders it, and the messages of its console.
async fn shown(page: &mut Page, file: &Path) -> (String, Vec<String>) {
    let said = page.visit(&format!("file://{}", file.display())).await;
    (page.read("document.documentElement.outerHTML").await.as_str().unwrap().to_owned(), said)
}

/// Returns the same value with every text in it hostile that no shape fixes.
fn hostile(value: &Value) -> Value {
    match value {
        Value::String(_) => HOSTILE.into(),
        Value::Array(values) => values.iter().map(hostile).collect(),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                let is_fixed = FIXED.contains(&key.as_str()) && value.is_string();
                (key.clone(), if is_fixed { value.clone() } else { hostile(value) })
            };
            Value::Object(fields.iter().map(field).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Returns a session with every kind of part, and calls of every tool that is drawn in a way of its own.
fn messages(session: &str) -> Value {
    let mut messages = exchange(session, 1, "prompt", "answer");
    let file = json!({"type": "file", "mime": "text/plain", "filename": "a", "url": "data:x"});
    let patch = "@@ -1 +1 @@\n-a\n+b";
    let todos = json!([{"content": "c", "status": "pending", "priority": "low"}]);
    let call = |tool: &str, input: Value, metadata: Value| {
        json!({"type": "tool", "callID": "c", "tool": tool, "state": {
            "status": "completed", "input": input, "output": "o", "title": "t", "metadata": metadata,
            "time": {"start": 1, "end": 900},
            "attachments": [{"id": "prt_x", "sessionID": session, "messageID": "msg_x", "type": "file", "mime": "m",
                             "filename": "f", "url": "u"}]}})
    };
    let mut answers = vec![
        json!({"type": "reasoning", "text": "t", "time": {"start": 1, "end": 2}}),
        json!({"type": "retry", "attempt": 1, "error": {"message": "m", "isRetryable": true}, "time": {"created": 1}}),
        json!({"type": "patch", "hash": "h", "files": ["f"]}),
        json!({"type": "tool", "callID": "c", "tool": "x", "state": {
            "status": "error", "input": {"a": "b"}, "error": "e", "time": {"start": 1, "end": 2}}}),
        json!({"type": "tool", "callID": "c", "tool": "x", "state": {
            "status": "running", "input": {"a": "b"}, "title": "t", "metadata": {"output": "o"}, "time": {"start": 1}}}),
        call("task", json!({"description": "d", "prompt": "p"}), json!({"sessionId": "ses_child"})),
        call("question", json!({"questions": [{"question": "q"}]}), json!({"answers": [["a"]]})),
        call("todowrite", json!({"todos": todos}), json!({})),
        call(
            "edit",
            json!({"filePath": "f"}),
            json!({"filediff": {"file": "f", "patch": patch, "additions": 1}}),
        ),
        call(
            "apply_patch",
            json!({}),
            json!({"files": [{"relativePath": "f", "patch": patch}], "diff": patch}),
        ),
        file.clone(),
        json!({"type": "text", "text": "again"}),
    ];
    let named = ["bash", "read", "grep", "webfetch", "skill", "write", "server_tool"];
    answers.extend(named.map(|tool| {
        call(
            tool,
            json!({"command": "c", "filePath": "f", "pattern": "p", "url": "u", "name": "n"}),
            json!({"exit": 1}),
        )
    }));
    let asked = vec![
        file,
        json!({"type": "text", "text": "s", "synthetic": true}),
        json!({"type": "text", "text": "i", "ignored": true}),
        json!({"type": "agent", "name": "n"}),
        json!({"type": "subtask", "prompt": "p", "description": "d", "agent": "a"}),
        json!({"type": "compaction", "auto": true}),
    ];
    messages[1]["info"]["error"] = json!({"name": "UnknownError", "data": {"message": "m"}});
    for (message, parts) in messages.iter_mut().zip([asked, answers]) {
        let id = message["info"]["id"].clone();
        for (number, mut part) in parts.into_iter().enumerate() {
            part["id"] = format!("prt_{}{number:03}", id.as_str().unwrap().trim_start_matches("msg_")).into();
            part["sessionID"] = session.into();
            part["messageID"] = id.clone();
            message["parts"].as_array_mut().unwrap().push(part);
        }
    }
    json!(messages)
}

#[tokio::test]
async fn nothing_that_was_said_becomes_part_of_the_page() {
    let Some(browser) = browser::program() else { return };
    let machine = Machine::new().await;
    let hostile = hostile(&messages("ses_hostile"));
    store(&machine, "ses_hostile", HOSTILE, hostile).await;
    let exported = machine.run(&["session", "export", "ses_hostile", "-o", "page.html"]).await;
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let html = machine.scratch.read("page.html");

    let mut page = Page::open(browser, &machine.scratch.home, "about:blank").await;

    // Without its policy, so that anything that got in would also run, and with a script that looks at the result.
    let start = html.find("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let end = start + html[start..].find(">\n").unwrap() + 2;
    let bare = format!("{}{}", &html[..start], &html[end..]);
    machine.scratch.write("bare.html", bare.replace("</body>", &format!("{LOOK}</body>")));
    let (dom, said) = shown(&mut page, &machine.scratch.work.join("bare.html")).await;
    assert_eq!(said, Vec::<String>::new());
    let seen =
        dom.split_once("SEEN").and_then(|(_, rest)| rest.split_once("END")).expect("the script has run").0;
    let seen: Value = serde_json::from_str(&decoded(seen)).unwrap();
    for (kind, allowed) in [("elements", ELEMENTS), ("attributes", ATTRIBUTES)] {
        for name in seen[kind].as_array().unwrap() {
            assert!(allowed.contains(&name.as_str().unwrap()), "{kind}: {name}");
        }
    }
    assert!(!seen["elements"].as_array().unwrap().contains(&json!("img")), "{seen}");
    for link in seen["links"].as_array().unwrap() {
        let link = link.as_str().unwrap();
        assert!(link.starts_with('#') || link == "https://x.invalid/a.png", "{link}");
    }
    assert_eq!((&seen["metas"], &seen["shown"]), (&json!(4), &json!(true)), "{seen}");

    // As it is written: its own style is allowed, and nothing is complained about.
    let (dom, said) = shown(&mut page, &machine.scratch.work.join("page.html")).await;
    assert_eq!(said, Vec::<String>::new());
    assert!(dom.contains("class=\"turn\""), "{dom}");
    page.close().await;
    machine.finish().await;
}

/// Decodes a text of `encodeURIComponent`.
fn decoded(encoded: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits: String = rest.by_ref().take(2).map(char::from).collect();
            bytes.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}
