//! Exact texts of the tools for models and users (facts: OpenCode §5 and earlier OpenCode).

use serde_json::{Map, Value, json};

use crate::tool::{ToolError, fake::Project};

/// Makes a project with a few files; `PATH` in a text is replaced by its directory.
fn project() -> Project {
    let project = Project::new();
    project.write("file", "one\ntwo\nthree\n");
    project.write("twice", "x\nx\n");
    project.write("directory/below", "");
    project.write("data.zip", "text");
    project
}

fn in_project(project: &Project, text: &str) -> String {
    text.replace("PATH", &project.text("."))
}

#[tokio::test]
async fn errors_are_the_known_ones() {
    let edit =
        |path: &str, old: &str, new: &str| json!({ "filePath": path, "oldString": old, "newString": new });
    let patch = |body: &str| json!({ "patchText": format!("*** Begin Patch\n{body}*** End Patch") });
    for (tool, input, expected) in [
        (
            "bash",
            json!({ "command": "true", "timeout": -1 }),
            "Invalid timeout value: -1. Timeout must be a positive number.",
        ),
        (
            "read",
            json!({ "filePath": "fil" }),
            "File not found: PATH/fil\n\nDid you mean one of these?\nPATH/file",
        ),
        ("read", json!({ "filePath": "data.zip" }), "Cannot read binary file: PATH/data.zip"),
        (
            "read",
            json!({ "filePath": "file", "offset": 9 }),
            "Offset 9 is out of range for this file (3 lines)",
        ),
        ("edit", edit("", "a", "b"), "filePath is required"),
        ("write", json!({ "filePath": "", "content": "" }), "filePath is required"),
        ("edit", edit("file", "one", "one"), "No changes to apply: oldString and newString are identical."),
        ("edit", edit("none", "a", "b"), "File PATH/none not found"),
        ("edit", edit("directory", "a", "b"), "Path is a directory, not a file: PATH/directory"),
        (
            "edit",
            edit("file", "", "b"),
            "oldString cannot be empty when editing an existing file. Provide the exact text to replace, or use write for an intentional full-file replacement.",
        ),
        (
            "edit",
            edit("file", "nowhere", "b"),
            "Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line endings.",
        ),
        (
            "edit",
            edit("twice", "x", "b"),
            "Found multiple matches for oldString. Provide more surrounding context to make the match unique.",
        ),
        ("apply_patch", json!({}), "patchText is required"),
        ("apply_patch", json!({ "patchText": " " }), "patchText is required"),
        ("apply_patch", patch(""), "patch rejected: empty patch"),
        ("apply_patch", patch("\n\n"), "apply_patch verification failed: no hunks found"),
        (
            "apply_patch",
            json!({ "patchText": "*** Add File: a\n+a" }),
            "apply_patch verification failed: Invalid patch format: missing Begin/End markers",
        ),
        (
            "apply_patch",
            patch("*** Update File: none\n@@\n-a\n+b\n"),
            "apply_patch verification failed: Failed to read file to update: PATH/none",
        ),
        (
            "apply_patch",
            patch("*** Update File: file\n@@ nowhere\n-a\n+b\n"),
            "apply_patch verification failed: Failed to find context 'nowhere' in PATH/file",
        ),
        (
            "apply_patch",
            patch("*** Update File: file\n@@\n-four\n+b\n"),
            "apply_patch verification failed: Failed to find expected lines in PATH/file:\nfour",
        ),
        ("glob", json!({ "pattern": "*", "path": "file" }), "glob path must be a directory: PATH/file"),
        ("grep", json!({ "pattern": "" }), "pattern is required"),
        ("webfetch", json!({ "url": "ftp://example.com" }), "URL must start with http:// or https://"),
        ("skill", json!({ "name": "none" }), "Skill \"none\" not found. Available skills: none"),
    ] {
        let project = project();
        assert_eq!(project.error(tool, input).await, in_project(&project, expected), "{tool}");
    }
}

#[tokio::test]
async fn a_file_that_was_not_read_or_has_changed_is_refused_in_known_words() {
    let mut project = project();
    project.config.file_time = true;
    let path = project.text("file");
    let write = json!({ "filePath": "file", "content": "new" });
    assert_eq!(
        project.error("write", write.clone()).await,
        format!("You must read the file {path} before overwriting it. Use the Read tool first")
    );
    project.output("read", json!({ "filePath": "file" })).await;
    project.write("file", "somebody else's");
    let error = project.error("write", write).await;
    assert!(
        error.starts_with(&format!(
            "File {path} has been modified since it was last read.\nLast modification: "
        ))
    );
    assert!(error.contains("\nLast read: "), "{error}");
    assert!(error.ends_with("\n\nPlease read the file again before modifying it."), "{error}");
}

#[test]
fn refusals_are_the_known_ones() {
    let denied = |feedback: Option<&str>| ToolError::Denied { feedback: feedback.map(str::to_owned) };
    for (error, expected) in [
        (denied(None), "The user rejected permission to use this specific tool call."),
        (
            denied(Some("no")),
            "The user rejected permission to use this specific tool call with the following feedback: no",
        ),
        (ToolError::Dismissed, "The user dismissed this question"),
    ] {
        assert_eq!(error.to_string(), expected);
    }
}

/// Title, text for the model, and names in the metadata of a call.
#[tokio::test]
async fn results_have_the_known_form() {
    let edit = json!({ "filePath": "file", "oldString": "two", "newString": "zwei" });
    let edits = json!({ "filePath": "file", "edits": [{ "oldString": "two", "newString": "zwei" }] });
    let patch = "*** Begin Patch\n*** Update File: file\n@@\n-two\n+zwei\n*** Add File: new\n+a\n*** Delete File: twice\n*** End Patch";
    let todos = json!([{ "content": "a", "status": "pending", "priority": "high" }]);
    let shown =
        "[\n  {\n    \"content\": \"a\",\n    \"status\": \"pending\",\n    \"priority\": \"high\"\n  }\n]";
    let directory = "<path>PATH</path>\n<type>directory</type>\n<entries>\ndata.zip\ndirectory/\nfile\ntwice\n\n(4 entries)\n</entries>";
    let window = "<path>PATH/file</path>\n<type>file</type>\n<content>\n1: one\n\n(Showing lines 1-1 of 3. Use offset=2 to continue.)\n</content>";
    let applied: &[&str] = &["diagnostics", "diff", "filediff", "truncated"];
    let questions = json!([{ "question": "q", "header": "h", "options": [] }]);
    for (tool, input, title, output, metadata) in [
        ("bash", json!({ "command": "echo a" }), "echo a", "a\n", &["output", "exit", "truncated"][..]),
        ("bash", json!({ "command": "true" }), "true", "(no output)", &["output", "exit", "truncated"]),
        (
            "read",
            json!({ "filePath": "file", "limit": 1 }),
            "file",
            window,
            &["preview", "truncated", "loaded", "display"],
        ),
        ("read", json!({ "filePath": "." }), ".", directory, &["preview", "truncated", "loaded", "display"]),
        ("edit", edit, "file", "Edit applied successfully.", applied),
        ("multiedit", edits, "file", "Edit applied successfully.", applied),
        (
            "write",
            json!({ "filePath": "file", "content": "" }),
            "file",
            "Wrote file successfully.",
            &["diagnostics", "filepath", "exists", "filediff", "truncated"],
        ),
        (
            "apply_patch",
            json!({ "patchText": patch }),
            "update file, add new, delete twice",
            "Success. Updated the following files:\nM file\nA new\nD twice",
            &["diff", "files", "diagnostics", "truncated"],
        ),
        ("glob", json!({ "pattern": "fil*" }), "fil*", "PATH/file", &["count", "truncated"]),
        ("glob", json!({ "pattern": "none*" }), "none*", "No files found", &["count", "truncated"]),
        (
            "grep",
            json!({ "pattern": "^x" }),
            "^x",
            "Found 2 matches\nPATH/twice:\n  Line 1: x\n  Line 2: x",
            &["matches", "truncated"],
        ),
        ("grep", json!({ "pattern": "none" }), "none", "No files found", &["matches", "truncated"]),
        ("todowrite", json!({ "todos": todos }), "1 todos", shown, &["todos", "truncated"]),
        (
            "question",
            json!({ "questions": questions }),
            "Asked 1 question",
            "User has answered your questions: \"q\"=\"Unanswered\". Go on with these answers.",
            &["answers", "truncated"],
        ),
        (
            "invalid",
            json!({ "tool": "t", "error": "e" }),
            "Invalid Tool",
            "The arguments provided to the tool are invalid: e",
            &["truncated"],
        ),
    ] {
        let project = project();
        let told = project.output(tool, input).await;
        assert_eq!(told.output, in_project(&project, output), "{tool}");
        assert_eq!(told.title, title, "{tool}");
        assert_eq!(names(&told.metadata), sorted(metadata), "{tool}");
    }
}

fn names(metadata: &Map<String, Value>) -> Vec<&str> {
    sorted(&metadata.keys().map(String::as_str).collect::<Vec<_>>())
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn cut_outputs_say_so_in_known_words() {
    let mut project = project();
    for n in 0..101 {
        project.write(&format!("many/{n:03}"), "x\n");
    }
    let told = project.output("glob", json!({ "pattern": "many/*" })).await;
    let note =
        "(Results are truncated: showing first 100 results. Consider using a more specific path or pattern.)";
    assert!(told.output.ends_with(&format!("\n\n{note}")), "{}", told.output);
    let told = project.output("grep", json!({ "pattern": "x", "path": "many" })).await;
    assert!(told.output.starts_with("Found 100 matches (more matches available)\n"), "{}", told.output);
    let note = "(Results truncated. Consider using a more specific path or pattern.)";
    assert!(told.output.ends_with(&format!("\n\n{note}")), "{}", told.output);
    let told = project.output("read", json!({ "filePath": "many", "limit": 2 })).await;
    let note = "(Showing 2 of 101 entries. Use 'offset' parameter to read beyond entry 2)";
    assert!(told.output.ends_with(&format!("\n000\n001\n\n{note}\n</entries>")), "{}", told.output);
    project.write("long", "x".repeat(2001));
    let told = project.output("read", json!({ "filePath": "long" })).await;
    assert!(told.output.contains("x... (line truncated to 2000 chars)\n"));
    for (n_lines, text, last) in [(5000, "a line of text\n", 3009), (90_000, "\n", 9028), (5000, "x\n", 5000)]
    {
        project.write("large", text.repeat(n_lines));
        let told = project.output("read", json!({ "filePath": "large", "limit": 90_000 })).await;
        assert!(told.output.len() < 64 * 1024, "{} bytes of {text:?}", told.output.len());
        assert!(told.output.contains(&format!("\n{last}: ")), "{}", &told.output[told.output.len() - 200..]);
        assert!(!told.output.contains(&format!("\n{}: ", last + 1)));
    }
    for n in 0..300 {
        project.write(&format!("names/{n:03}{}", "x".repeat(200)), "");
    }
    let told = project.output("read", json!({ "filePath": "names", "limit": 100_000 })).await;
    assert!(told.output.len() < 52 * 1024, "{}", told.output.len());
    let note = "(Showing 250 of 300 entries. Use 'offset' parameter to read beyond entry 250)\n</entries>";
    assert!(told.output.ends_with(note), "{}", &told.output[told.output.len() - 200..]);
    let todo = json!({ "content": "x".repeat(300), "status": "pending", "priority": "low" });
    let written = project.output("todowrite", json!({ "todos": vec![todo; 300] })).await;
    for told in [written, project.output("todoread", json!({})).await] {
        assert!(told.output.len() < 52 * 1024, "{}", told.output.len());
        assert!(told.output.contains("The tool call succeeded but the output was truncated."));
    }
    project.host.answers = Ok(vec![vec!["y".repeat(100_000)]]);
    let questions = json!([{ "question": "q", "header": "h", "options": [] }]);
    let told = project.output("question", json!({ "questions": questions })).await;
    assert!(told.output.len() < 52 * 1024, "{}", told.output.len());
    project.write("large", "a line of text\n".repeat(5000));
    let told = project.output("read", json!({ "filePath": "large", "limit": 5000 })).await;
    let note = "(Output capped at 50 KB. Showing lines 1-3009. Use offset=3010 to continue.)\n</content>";
    assert!(told.output.ends_with(note), "{}", &told.output[told.output.len() - 200..]);
    project.config.tool_output.max_lines = 2;
    let told = project.output("bash", json!({ "command": "seq 3" })).await;
    let saved = told.metadata["outputPath"].as_str().expect("saved");
    assert_eq!(told.output, format!("...output truncated...\n\nFull output saved to: {saved}\n\n2\n3\n"));
    let told = project.output("bash", json!({ "command": "sleep 60", "timeout": 10 })).await;
    assert_eq!(
        told.output,
        "(no output)\n\n<shell_metadata>\nshell tool terminated command after exceeding timeout 10 ms. If this command is expected to take longer and is not waiting for interactive input, retry with a larger timeout value in milliseconds.\n</shell_metadata>"
    );
}
