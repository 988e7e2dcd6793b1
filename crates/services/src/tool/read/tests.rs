//! Windows, limits and unreadable files.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use windlass_core::config::rules::rule;
use windlass_protocol::opencode::permission::Action;

use crate::tool::{
    ToolError,
    fake::{Project, one},
};

/// Returns the text between the content tags.
fn content(output: &str) -> &str {
    let start = output.find("<content>\n").expect("has content") + "<content>\n".len();
    output[start..].strip_suffix("\n</content>").expect("ends")
}

async fn check(project: &Project, input: Value, expected: &str) {
    let output = project.output("read", input).await;
    assert_eq!(content(&output.output), expected);
}

#[tokio::test]
async fn a_small_file() {
    let project = Project::new();
    project.write("a.txt", "hi\n");
    let path = project.text("a.txt");
    let output = project.output("read", json!({ "filePath": "a.txt" })).await;
    assert_eq!(output.title, "a.txt");
    assert_eq!(
        output.output,
        format!(
            "<path>{path}</path>\n<type>file</type>\n<content>\n1: hi\n\n(End of file - total 1 lines)\n</content>"
        )
    );
    assert_eq!(
        Value::Object(output.metadata),
        json!({
            "preview": "hi", "truncated": false, "loaded": [],
            "display": {
                "type": "file", "path": path, "text": "hi", "lineStart": 1, "lineEnd": 1, "totalLines": 1,
                "truncated": false,
            },
        })
    );
    assert_eq!(project.asked(), [one("read", "a.txt")]);
    let ask = project.last_ask();
    assert_eq!(ask.always, ["*"]);
    assert_eq!(Value::Object(ask.metadata), json!({ "filepath": path }));
}

#[tokio::test]
async fn windows() {
    let project = Project::new();
    project.write("a", "1\n2\n3\n4");
    project.write("empty", "");
    project.write("crlf", "\u{feff}a\r\nb\r\n");
    check(&project, json!({ "filePath": "a" }), "1: 1\n2: 2\n3: 3\n4: 4\n\n(End of file - total 4 lines)")
        .await;
    check(
        &project,
        json!({ "filePath": "a", "offset": 2, "limit": 2 }),
        "2: 2\n3: 3\n\n(Showing lines 2-3 of 4. Use offset=4 to continue.)",
    )
    .await;
    check(&project, json!({ "filePath": "a", "offset": 4 }), "4: 4\n\n(End of file - total 4 lines)").await;
    check(
        &project,
        json!({ "filePath": "a", "offset": 0, "limit": 1 }),
        "1: 1\n\n(Showing lines 1-1 of 4. Use offset=2 to continue.)",
    )
    .await;
    check(&project, json!({ "filePath": "empty" }), "\n\n(End of file - total 0 lines)").await;
    check(&project, json!({ "filePath": "crlf" }), "1: a\n2: b\n\n(End of file - total 2 lines)").await;
    assert_eq!(
        project.error("read", json!({ "filePath": "a", "offset": 5 })).await,
        "Offset 5 is out of range for this file (4 lines)"
    );
}

#[tokio::test]
async fn long_lines_and_long_files_are_cut() {
    let project = Project::new();
    project.write("wide", format!("{}\n{}\n", "é".repeat(2000), "é".repeat(2001)));
    let cut = "é".repeat(2000);
    check(
        &project,
        json!({ "filePath": "wide" }),
        &format!("1: {cut}\n2: {cut}... (line truncated to 2000 chars)\n\n(End of file - total 2 lines)"),
    )
    .await;
    project.write("long", format!("{}\n", "x".repeat(1023)).repeat(100));
    let output = project.output("read", json!({ "filePath": "long" })).await;
    assert!(output.output.ends_with(
        "\n\n(Output capped at 50 KB. Showing lines 1-50. Use offset=51 to continue.)\n</content>"
    ));
    assert_eq!(output.metadata["truncated"], true);
    project.write("many", "x\n".repeat(2001));
    let output = project.output("read", json!({ "filePath": "many" })).await;
    assert!(
        output.output.ends_with("(Showing lines 1-2000 of 2001. Use offset=2001 to continue.)\n</content>")
    );
}

#[tokio::test]
async fn the_head_of_a_huge_file_is_quick() {
    let project = Project::new();
    let mut file = File::create(project.path("huge")).expect("created");
    file.write_all("line\n".repeat(5000).as_bytes()).expect("written");
    // A hole reads as zeros but needs no disk space.
    file.set_len(1 << 40).expect("sized");
    let begin = Instant::now();
    let output = project.output("read", json!({ "filePath": "huge", "limit": 3 })).await;
    // Reading all of it takes minutes.
    assert!(begin.elapsed() < Duration::from_secs(15));
    assert_eq!(
        content(&output.output),
        "1: line\n2: line\n3: line\n\n(Showing lines 1-3. Use offset=4 to continue.)"
    );
    assert_eq!(output.metadata["display"].get("totalLines"), None);
}

#[tokio::test]
async fn directories_are_listed() {
    let project = Project::new();
    project.write("src/b", "");
    project.write("a", "");
    symlink("src", project.path("link")).expect("linked");
    let path = project.text(".");
    let list = |names: &str, note: &str| {
        format!("<path>{path}</path>\n<type>directory</type>\n<entries>\n{names}\n\n{note}\n</entries>")
    };
    let output = project.output("read", json!({ "filePath": "." })).await;
    assert_eq!(output.output, list("a\nlink/\nsrc/", "(3 entries)"));
    assert_eq!(
        output.metadata["display"],
        json!({
            "type": "directory", "path": path, "entries": ["a", "link/", "src/"], "lineStart": 1,
            "lineEnd": 3, "totalLines": 3, "truncated": false,
        })
    );
    let output = project.output("read", json!({ "filePath": ".", "offset": 2, "limit": 1 })).await;
    assert_eq!(
        output.output,
        list("link/", "(Showing 1 of 3 entries. Use 'offset' parameter to read beyond entry 2)")
    );
}

#[tokio::test]
async fn images_and_documents_are_attached() {
    for (bytes, mime, message) in [
        (b"\x89PNG\r\n\x1a\n".as_slice(), "image/png", "Image read successfully"),
        (b"\xff\xd8\xff\xe0", "image/jpeg", "Image read successfully"),
        (b"GIF89a", "image/gif", "Image read successfully"),
        (b"RIFF\0\0\0\0WEBP", "image/webp", "Image read successfully"),
        (b"%PDF-1.7", "application/pdf", "PDF read successfully"),
    ] {
        let project = Project::new();
        project.write("file.bin", bytes);
        let output = project.output("read", json!({ "filePath": "file.bin" })).await;
        assert_eq!(output.output, message);
        let [attachment] = output.attachments.as_slice() else { panic!("one attachment") };
        assert_eq!((attachment.mime.as_str(), attachment.filename.as_deref()), (mime, Some("file.bin")));
        assert!(attachment.url.starts_with(&format!("data:{mime};base64,")));
    }
}

#[tokio::test]
async fn unreadable_files_are_reported() {
    let project = Project::new();
    project.write("Button.tsx", "");
    project.write("button.css", "");
    project.write("a.ZIP", "text");
    project.write("nul", "a\0b");
    project.write("control", "\u{1}\u{2}ab");
    project.write("huge.png", b"\x89PNG\r\n\x1a\n");
    let huge = fs::OpenOptions::new().append(true).open(project.path("huge.png")).expect("opened");
    huge.set_len(21 << 20).expect("sized");
    project.output("bash", json!({ "command": "mkfifo pipe" })).await;
    symlink("loop", project.path("loop")).expect("linked");
    symlink("gone", project.path("dangling")).expect("linked");
    let text = |name: &str| project.text(name);
    for (name, expected) in [
        ("", "filePath is required".to_owned()),
        ("none", format!("File not found: {}", text("none"))),
        ("dangling", format!("File not found: {}", text("dangling"))),
        ("none/none", format!("File not found: {}", text("none/none"))),
        (
            "button",
            format!(
                "File not found: {}\n\nDid you mean one of these?\n{}\n{}",
                text("button"),
                text("Button.tsx"),
                text("button.css")
            ),
        ),
        ("a.ZIP", format!("Cannot read binary file: {}", text("a.ZIP"))),
        ("nul", format!("Cannot read binary file: {}", text("nul"))),
        ("control", format!("Cannot read binary file: {}", text("control"))),
        (
            "huge.png",
            format!(
                "File {} is too large to attach: 22020096 bytes, the limit is 20971520.",
                text("huge.png")
            ),
        ),
        ("loop", format!("Cannot read {}: Too many levels of symbolic links (os error 40)", text("loop"))),
        ("nul/below", format!("Cannot read {}: Not a directory (os error 20)", text("nul/below"))),
        ("a\0b", format!("Cannot read {}: file name contained an unexpected NUL byte", text("a\0b"))),
        ("pipe", format!("Cannot read {}: it is not a regular file.", text("pipe"))),
    ] {
        assert_eq!(project.error("read", json!({ "filePath": name })).await, expected);
    }
}

#[tokio::test]
async fn instruction_files_on_the_way_come_along_once() {
    let project = Project::new();
    for name in ["AGENTS.md", "a/AGENTS.md", "a/b/CLAUDE.md"] {
        project.write(name, format!("Rules of {name}.\n"));
    }
    project.write("a/b/x", "x");
    project.write("a/y", "y");
    let (outer, inner) = (project.text("a/AGENTS.md"), project.text("a/b/CLAUDE.md"));
    let output = project.output("read", json!({ "filePath": "a/b/x" })).await;
    let reminder = format!(
        "\n</content>\n\n<system-reminder>\nInstructions from: {outer}\nRules of a/AGENTS.md.\n\nInstructions from: {inner}\nRules of a/b/CLAUDE.md.\n</system-reminder>"
    );
    assert!(output.output.ends_with(&reminder), "{}", output.output);
    assert_eq!(output.metadata["loaded"], json!([outer, inner]));
    for name in ["a/y", "a/b/x"] {
        let output = project.output("read", json!({ "filePath": name })).await;
        assert!(output.output.ends_with("</content>"), "{}", output.output);
        assert_eq!(output.metadata["loaded"], json!([]));
    }
}

#[tokio::test]
async fn parallel_reads_show_an_instruction_file_once() {
    let project = Project::new();
    project.write("a/AGENTS.md", "Rules.");
    let names: Vec<String> = (0..20).map(|n| format!("a/{n}")).collect();
    names.iter().for_each(|name| drop(project.write(name, "x")));
    let reads = names.iter().map(|name| project.output("read", json!({ "filePath": name })));
    let outputs = futures_util::future::join_all(reads).await;
    assert_eq!(outputs.iter().filter(|output| output.output.contains("Rules.")).count(), 1);
}

#[tokio::test]
async fn a_link_makes_no_instruction_file_of_what_may_not_be_read() {
    let mut project = Project::new();
    project.write("a/x", "x");
    project.write("b/x", "x");
    project.write("c/x", "x");
    project.write(".env", "SECRET");
    project.write("../outside", "SECRET");
    project.write("rules.md", "Rules.");
    symlink("../.env", project.path("a/AGENTS.md")).expect("linked");
    symlink("../../outside", project.path("b/AGENTS.md")).expect("linked");
    symlink("../rules.md", project.path("c/AGENTS.md")).expect("linked");
    project.host.rules.push(rule("read", "*.env", Action::Ask));
    for name in ["a/x", "b/x"] {
        let output = project.output("read", json!({ "filePath": name })).await;
        assert!(output.output.ends_with("</content>"), "{}", output.output);
    }
    assert!(project.output("read", json!({ "filePath": "c/x" })).await.output.contains("Rules."));
}

#[tokio::test]
async fn secrets_are_not_read_under_another_name() {
    let mut project = Project::new();
    project.write(".env", "KEY=1");
    symlink(".env", project.path("notes.txt")).expect("linked");
    project.host.answer = Box::new(|ask| {
        if ask.patterns.iter().any(|it| it.ends_with(".env")) {
            Err(ToolError::Denied { feedback: None })
        } else {
            Ok(())
        }
    });
    for name in [".env", "notes.txt", "./x/../.env"] {
        let refused = project.run("read", json!({ "filePath": name })).await;
        assert_eq!(refused, Err(ToolError::Denied { feedback: None }), "{name}");
    }
}

#[tokio::test]
async fn outside_is_asked_for_first() {
    let mut project = Project::new();
    project.write("../outside/a", "x");
    symlink("../outside/a", project.path("link")).expect("linked");
    let (directory, file) = (project.text("../outside"), project.text("../outside/a"));
    project.output("read", json!({ "filePath": "../outside/a" })).await;
    project.output("read", json!({ "filePath": directory })).await;
    project.output("read", json!({ "filePath": "link" })).await;
    let outside = || one("external_directory", format!("{directory}/*"));
    assert_eq!(
        project.asked(),
        [
            outside(),
            one("read", &file),
            outside(),
            one("read", &directory),
            outside(),
            ("read".to_owned(), vec!["link".to_owned(), file.clone()]),
        ]
    );
    project.host.asks.lock().expect("not poisoned").clear();
    project.deny("external_directory");
    project.run("read", json!({ "filePath": "link" })).await.expect_err("refused");
    assert_eq!(project.asked(), [outside()]);
}
