//! Questions, writes and answers of an edit.

use std::fs;

use serde_json::{Value, json};

use super::{BOM, edited};
use crate::tool::fake::{Numbers, Project, one};

fn edit(old: &str, new: &str) -> Value {
    json!({ "filePath": "a.txt", "oldString": old, "newString": new })
}

#[tokio::test]
async fn the_user_sees_the_diff_before_and_after() {
    let project = Project::new();
    let path = project.write("a.txt", "hi\n");
    let file = project.text("a.txt");
    let patch =
        format!("Index: {file}\n{}\n--- {file}\n+++ {file}\n@@ -1,1 +1,1 @@\n-hi\n+ho\n", "=".repeat(67));
    let filediff = json!({
        "file": file, "patch": patch, "additions": 1, "deletions": 1, "before": "hi\n", "after": "ho\n",
    });
    let output = project.output("edit", edit("hi", "ho")).await;
    assert_eq!(output.title, "a.txt");
    assert_eq!(output.output, "Edit applied successfully.");
    assert_eq!(
        Value::Object(output.metadata),
        json!({ "diagnostics": {}, "diff": patch, "filediff": filediff, "truncated": false })
    );
    assert_eq!(project.asked(), [one("edit", "a.txt")]);
    let ask = project.last_ask();
    assert_eq!(ask.always, ["*"]);
    assert_eq!(Value::Object(ask.metadata), json!({ "filepath": file, "diff": patch, "filediff": filediff }));
    assert_eq!(*project.host.edited.lock().expect("not poisoned"), [path]);
    assert_eq!(project.content("a.txt"), "ho\n");
}

#[tokio::test]
async fn line_ends_and_byte_order_mark_are_kept() {
    for (before, old, new, after) in [
        ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "x", "x\r\n"),
        ("\u{feff}a\nb\n", "a", "x", "\u{feff}x\nb\n"),
        ("\u{feff}a\nb\n", "\u{feff}a", "\u{feff}x", "\u{feff}x\nb\n"),
        ("a\nb\n", "a\r\nb\r\n", "x\r\n", "x\n"),
        ("a\r\nb\r\nc\nd\n", "c\nd\n", "x\ny\n", "a\r\nb\r\nx\ny\n"),
        ("a\r\nb\r\nc\nd\n", "a\nb\n", "x\ny\n", "x\r\ny\r\nc\nd\n"),
        ("a\nb", "b", "c", "a\nc"),
    ] {
        let project = Project::new();
        project.write("a.txt", before);
        project.output("edit", edit(old, new)).await;
        assert_eq!(project.content("a.txt"), after);
    }
}

#[tokio::test]
async fn all_occurrences_are_replaced_on_request() {
    let project = Project::new();
    project.write("a.txt", "a b a");
    let input = json!({ "filePath": "a.txt", "oldString": "a", "newString": "c", "replaceAll": true });
    project.output("edit", input).await;
    assert_eq!(project.content("a.txt"), "c b c");
}

#[tokio::test]
async fn an_empty_old_string_creates() {
    let project = Project::new();
    let input = json!({ "filePath": "new/a.txt", "oldString": "", "newString": "x\n" });
    let output = project.output("edit", input.clone()).await;
    assert_eq!(output.metadata["filediff"]["before"], Value::Null);
    assert_eq!(project.content("new/a.txt"), "x\n");
    assert_eq!(
        project.error("edit", input).await,
        "oldString cannot be empty when editing an existing file. Provide the exact text to replace, or use write for an intentional full-file replacement."
    );
}

#[tokio::test]
async fn failures_say_what_to_do() {
    let project = Project::new();
    project.write("a.txt", "a b\na b\n");
    project.write("latin", b"caf\xe9");
    fs::create_dir(project.path("directory")).expect("created");
    let large = fs::File::create(project.path("large")).expect("created");
    large.set_len(67_108_865).expect("sized");
    let text = |name: &str| project.text(name);
    for (name, old, new, expected) in [
        ("", "a", "b", "filePath is required".to_owned()),
        ("a.txt", "a", "a", "No changes to apply: oldString and newString are identical.".to_owned()),
        ("none", "a", "b", format!("File {} not found", text("none"))),
        ("directory", "a", "b", format!("Path is a directory, not a file: {}", text("directory"))),
        (
            "a.txt",
            "c",
            "b",
            "Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line endings.".to_owned(),
        ),
        (
            "a.txt",
            "a",
            "b",
            "Found multiple matches for oldString. Provide more surrounding context to make the match unique.".to_owned(),
        ),
        (
            "latin",
            "caf",
            "b",
            format!("Cannot edit {}: it is not valid UTF-8 text. Use bash instead.", text("latin")),
        ),
        (
            "large",
            "a",
            "b",
            format!(
                "File {} is too large to change with this tool: 67108865 bytes, the limit is 67108864. Use bash instead.",
                text("large")
            ),
        ),
        ("/dev/null", "a", "b", "Not a regular file: /dev/null".to_owned()),
        ("a.txt/b", "a", "b", format!("Cannot read {}: Not a directory (os error 20)", text("a.txt/b"))),
    ] {
        let input = json!({ "filePath": name, "oldString": old, "newString": new });
        assert_eq!(project.error("edit", input).await, expected);
    }
    assert_eq!(project.content("a.txt"), "a b\na b\n");
}

/// Byte order mark and line ends stay those of the file for any text that the model writes; only the named text is
/// replaced.
#[test]
fn an_exact_edit_is_a_plain_replacement_in_the_files_own_form() {
    const PIECES: &[&str] = &["a", "ab", "ä", " ", "{", "\n", "\n", "x = 1"];
    let mut numbers = Numbers::new();
    let mut n_replaced = [0; 2];
    for _ in 0..20_000 {
        let n_pieces = 1 + numbers.below(14);
        let pieces: Vec<&str> = (0..n_pieces).map(|_| numbers.pick(PIECES)).collect();
        let body = pieces.concat();
        let start = numbers.below(n_pieces);
        let old = pieces[start..start + 1 + numbers.below(n_pieces - start)].concat();
        let new = [numbers.pick(PIECES), numbers.pick(PIECES)].concat();
        let is_all = numbers.below(2) == 0;
        let is_unique = body.find(&old) == body.rfind(&old);
        // Blank text also matches in looser ways, and replacing a text by itself is refused earlier.
        if old.trim().is_empty() || old == new || !(is_all || is_unique) {
            continue;
        }
        let bom = numbers.pick(&["", BOM]);
        let end = numbers.pick(&["\n", "\r\n"]);
        let file = |text: &str| format!("{bom}{}", text.replace('\n', end));
        // The model may use the line ends of the file, or plain ones.
        let said = |text: &str, end: &str| text.replace('\n', end);
        let its_end = if body.contains('\n') { numbers.pick(&["\n", end]) } else { "\n" };
        let wanted = body.replace(&old, &new);
        let expected = if body.contains('\n') { file(&wanted) } else { format!("{bom}{wanted}") };
        let content = file(&body);
        let after = edited(&content, &said(&old, its_end), &said(&new, its_end), is_all);
        assert_eq!(
            after.as_deref(),
            Ok(expected.as_str()),
            "{old:?} by {new:?} in {content:?}, all: {is_all}"
        );
        n_replaced[usize::from(is_all)] += 1;
    }
    assert!(n_replaced.iter().all(|count| *count > 2000), "{n_replaced:?}");
}

#[test]
fn only_the_named_text_changes_in_a_file_with_both_line_ends() {
    const ENDS: &[&str] = &["\n", "\r\n"];
    let mut numbers = Numbers::new();
    for round in 0..5000 {
        let lines: Vec<String> =
            (0..2 + numbers.below(6)).map(|n| format!("line {n} of {round}{}", numbers.pick(ENDS))).collect();
        let content = lines.concat();
        let wanted = numbers.below(lines.len());
        let old = format!("line {wanted} of");
        let after = edited(&content, &old, "new", numbers.below(2) == 0);
        assert_eq!(after, Ok(content.replace(&old, "new")));
    }
}
