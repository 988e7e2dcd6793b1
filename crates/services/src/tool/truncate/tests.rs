//! The cut, the kept part, and the file with the whole output.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value, json};
use windlass_base::ids;
use windlass_core::config::{ToolOutputLimits, rules::rule};
use windlass_protocol::opencode::permission::Action;

use super::{HINT, HINT_WITH_TASK, apply, clean, head, tail};
use crate::tool::{ToolCx, ToolOutput, fake::Project};

const LIMITS: ToolOutputLimits = ToolOutputLimits { max_lines: 3, max_bytes: 10 };

#[test]
fn heads_are_whole_lines() {
    for (output, expected) in [
        ("", ""),
        ("a\nb\nc", "a\nb\nc"),
        ("a\nb\nc\n", "a\nb\nc\n"),
        ("a\nb\nc\nd", "a\nb\nc"),
        ("12345\n12345\n", "12345"),
        ("123456789é", "123456789"),
    ] {
        assert_eq!(head(output, LIMITS), expected, "{output:?}");
    }
}

#[test]
fn tails_are_whole_lines() {
    for (output, expected) in [
        ("", ""),
        ("a\nb\nc\n", "a\nb\nc\n"),
        ("a\nb\nc\nd", "b\nc\nd"),
        ("12345\n12345\n", "12345\n"),
        ("é123456789", "123456789"),
    ] {
        assert_eq!(tail(output, LIMITS), expected, "{output:?}");
    }
}

async fn applied(project: &Project, output: &str, metadata: Map<String, Value>) -> ToolOutput {
    let (session_id, message_id) = (ids::session(), ids::message());
    let cx = ToolCx {
        session_id: &session_id,
        message_id: &message_id,
        call_id: "",
        agent: "build",
        agents_above: &[],
        config: &project.config,
        skills: &[],
        servers: &[],
        lsp: &project.lsp,
        cancel: &project.cancel,
        plugins: None,
        host: &project.host,
    };
    let tool_output =
        ToolOutput { title: String::new(), output: output.to_owned(), metadata, attachments: Vec::new() };
    apply(&cx, tool_output).await.expect("cut")
}

#[tokio::test]
async fn the_whole_is_saved_for_the_user_alone() {
    let mut project = Project::new();
    project.config.tool_output = LIMITS;
    for (output, kept, note) in [
        ("a\nb\nc\nd\ne\n", "a\nb\nc", "...2 lines truncated..."),
        ("12345\n12345\n", "12345", "...7 bytes truncated..."),
    ] {
        let tool_output = applied(&project, output, Map::new()).await;
        let path = tool_output.metadata["outputPath"].as_str().expect("a path").to_owned();
        assert_eq!(
            tool_output.output,
            format!(
                "{kept}\n\n{note}\n\nThe tool call succeeded but the output was truncated. Full output saved to: {path}\n{HINT_WITH_TASK}"
            )
        );
        assert_eq!(tool_output.metadata["truncated"], true);
        assert_eq!(fs::read_to_string(&path).expect("read"), output);
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_tool_that_cut_its_output_itself_is_left_alone() {
    let mut project = Project::new();
    project.config.tool_output = LIMITS;
    let metadata = json!({ "truncated": false }).as_object().expect("an object").clone();
    let tool_output = applied(&project, "a\nb\nc\nd\n", metadata).await;
    assert_eq!(tool_output.output, "a\nb\nc\nd\n");
    assert!(!project.config.paths.tool_output().exists());
}

#[tokio::test]
async fn a_subagent_is_proposed_only_where_there_may_be_one() {
    let mut project = Project::new();
    project.config.tool_output = LIMITS;
    project.host.rules.push(rule("task", "*", Action::Deny));
    let tool_output = applied(&project, "a\nb\nc\nd\ne\n", Map::new()).await;
    assert!(tool_output.output.ends_with(HINT), "{}", tool_output.output);
}

#[test]
fn outputs_are_removed_after_a_week() {
    let temporary = tempfile::tempdir().expect("made");
    let now = SystemTime::now();
    let day = Duration::from_secs(24 * 60 * 60);
    for (name, age) in [("tool_new", 0), ("tool_6", 6), ("tool_8", 8), ("other", 8)] {
        let file = fs::File::create(temporary.path().join(name)).expect("created");
        file.set_modified(now - age * day).expect("set");
    }
    fs::create_dir(temporary.path().join("tool_directory")).expect("created");
    clean(temporary.path(), now, u64::MAX);
    let entries = fs::read_dir(temporary.path()).expect("read");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("read").file_name()).collect();
    names.sort();
    assert_eq!(names, ["other", "tool_6", "tool_directory", "tool_new"]);
    clean(&temporary.path().join("none"), now, u64::MAX);
}

#[test]
fn the_oldest_outputs_go_first_where_all_are_too_large() {
    let temporary = tempfile::tempdir().expect("made");
    let now = SystemTime::now();
    for hours in [0, 2, 3, 4] {
        let path = temporary.path().join(format!("tool_{hours}"));
        fs::write(&path, [0; 100]).expect("written");
        let file = fs::File::options().append(true).open(path).expect("opened");
        file.set_modified(now - hours * Duration::from_secs(3600)).expect("set");
    }
    let left = |max_bytes: u64| {
        clean(temporary.path(), now, max_bytes);
        let entries = fs::read_dir(temporary.path()).expect("read");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("read").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(left(300), ["tool_0", "tool_2", "tool_3"]);
    // A call may still be writing the newest.
    assert_eq!(left(0), ["tool_0"]);
}
