//! Disks that are full and files that may not be written: the error names the file, and everything stays as it was.
//!
//! The agent runs in a mount namespace of its own, so that the disks are real, need no privilege and go away with it.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::support::{agent::Agent, scratch::Scratch, skip::skipped};

/// Returns an agent that is started after these shell commands as `root` of a namespace, in which `$WORK` and
/// `$HOME` are known.
pub async fn mounted(script: &str, config: Value) -> Option<(Agent, String)> {
    let agent = mounted_agent(script, config).await?;
    let session = agent.new_session().await;
    Some((agent, session))
}

/// Like [`mounted`], without a session.
pub async fn mounted_agent(script: &str, config: Value) -> Option<Agent> {
    if !Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success()) {
        skipped("this machine gives users no mount namespaces");
        return None;
    }
    let scratch = Scratch::new();
    let script = format!("set -e; WORK='{}'; {script}; exec \"$@\"", scratch.cwd());
    let wrapper = ["unshare", "-Urm", "sh", "-c", &script, "sh"];
    let builder = Agent::builder().scratch(&scratch).config(config).started_by(&wrapper);
    Some(builder.start().await)
}

/// Returns the path from outside of a file on the agent's own disks.
fn seen(agent: &Agent, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{}", agent.pid(), agent.scratch.path(name)))
}

fn names(agent: &Agent, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(seen(agent, directory)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Has the model read a file, which it must have before it may change it.
async fn know(agent: &Agent, session: &str, path: &str) {
    let content = agent.told(session, "read", json!({"filePath": path})).await;
    assert!(content.starts_with("<path>"), "{content}");
}

/// Returns the same change by each tool that makes one.
fn changes(path: &str) -> [(&'static str, Value); 3] {
    let edit = json!({"oldString": "first", "newString": "second"});
    [
        ("edit", json!({"filePath": path, "oldString": "first", "newString": "second"})),
        ("multiedit", json!({"filePath": path, "edits": [edit]})),
        ("write", json!({"filePath": path, "content": "second\n".repeat(60_000)})),
    ]
}

#[tokio::test]
async fn a_full_disk_is_named_and_no_file_is_lost() {
    let script = "mkdir $WORK/full; mount -t tmpfs -o size=1m tmpfs $WORK/full; \
        { echo first; yes line | head -c 700000; } >$WORK/full/large.txt; \
        { echo first; yes line | head -c 100000; } >$WORK/full/linked.txt; \
        ln $WORK/full/linked.txt $WORK/full/other.txt; echo small >$WORK/full/small.txt";
    let Some((agent, session)) = mounted(script, json!({})).await else { return };
    let before: Vec<Vec<u8>> = ["large", "linked", "small"]
        .map(|it| fs::read(seen(&agent, &format!("full/{it}.txt"))).unwrap())
        .into();
    let refused = |path: &str| format!("Cannot write {path}: No space left on device (os error 28)");
    for name in ["large", "linked", "small"] {
        know(&agent, &session, &agent.scratch.path(&format!("full/{name}.txt"))).await;
    }
    let large = agent.scratch.path("full/large.txt");
    for (tool, input) in changes(&large) {
        assert_eq!(agent.told(&session, tool, input).await, refused(&large), "{tool}");
    }
    let linked = agent.scratch.path("full/linked.txt");
    let input = json!({"filePath": linked, "oldString": "first", "newString": "x".repeat(500_000)});
    assert_eq!(agent.told(&session, "edit", input).await, refused(&linked));
    let new = agent.scratch.path("full/deep/new.txt");
    let input = json!({"filePath": new, "content": "x".repeat(500_000)});
    assert_eq!(agent.told(&session, "write", input).await, refused(&new));
    assert_eq!(names(&agent, "full"), ["large.txt", "linked.txt", "other.txt", "small.txt"]);
    for (name, before) in ["large", "linked", "small"].iter().zip(before) {
        assert!(fs::read(seen(&agent, &format!("full/{name}.txt"))).unwrap() == before, "{name} has changed");
    }
    // There is room for this one.
    let small = agent.scratch.path("full/small.txt");
    let input = json!({"filePath": small, "oldString": "small", "newString": "smaller"});
    assert_eq!(agent.told(&session, "edit", input).await, "Edit applied successfully.");
    agent.finish().await;
}

#[tokio::test]
async fn a_patch_that_finds_no_room_for_its_last_file_changes_none() {
    let script = "mkdir $WORK/full; mount -t tmpfs -o size=1m tmpfs $WORK/full; echo old >$WORK/full/a.txt";
    // The tool is for models that write patches.
    let models = json!({"gpt-5": {"name": "Patches", "limit": {"context": 200_000, "output": 8192}}});
    let config = json!({"model": "mock/gpt-5", "provider": {"mock": {"models": models}}});
    let Some((agent, session)) = mounted(script, config).await else { return };
    let body = format!("+{}\n", "x".repeat(1000)).repeat(1200);
    let patch = format!(
        "*** Begin Patch\n*** Update File: full/a.txt\n@@\n-old\n+new\n*** Add File: full/b/c.txt\n{body}*** End Patch"
    );
    know(&agent, &session, &agent.scratch.path("full/a.txt")).await;
    let answer = agent.told(&session, "apply_patch", json!({"patchText": patch})).await;
    let path = agent.scratch.path("full/b/c.txt");
    assert_eq!(answer, format!("Cannot write {path}: No space left on device (os error 28)"));
    assert_eq!(names(&agent, "full"), ["a.txt"]);
    assert_eq!(fs::read_to_string(seen(&agent, "full/a.txt")).unwrap(), "old\n");
    agent.finish().await;
}

#[tokio::test]
async fn an_output_that_cannot_be_saved_is_cut_and_says_so() {
    let script = "mkdir -p $HOME/.local/share/windlass/tool-output; \
        mount -t tmpfs -o size=64k tmpfs $HOME/.local/share/windlass/tool-output";
    let Some((agent, session)) = mounted(script, json!({})).await else { return };
    let answer = agent.told(&session, "bash", json!({"command": "seq 1 200000"})).await;
    let expected = "...output truncated...\n\nThe full output could not be saved: No space left on device (os error 28)\n\n";
    assert!(answer.starts_with(expected) && answer.ends_with("\n199999\n200000\n"), "{}", &answer[..200]);
    let output = PathBuf::from(format!("/proc/{}/root", agent.pid()))
        .join(agent.scratch.home.strip_prefix("/").unwrap())
        .join(".local/share/windlass/tool-output");
    assert_eq!(fs::read_dir(output).unwrap().count(), 0, "a part of it is left");
    agent.finish().await;
}

#[tokio::test]
async fn a_read_only_disk_is_named() {
    let script = "mkdir $WORK/fixed; echo first >$WORK/fixed/a.txt; mount --bind $WORK/fixed $WORK/fixed; \
        mount -o remount,ro,bind $WORK/fixed";
    let Some((agent, session)) = mounted(script, json!({})).await else { return };
    know(&agent, &session, &agent.scratch.path("fixed/a.txt")).await;
    for name in ["fixed/a.txt", "fixed/deep/new.txt"] {
        let path = agent.scratch.path(name);
        let refused = format!("Cannot write {path}: Read-only file system (os error 30)");
        for (tool, input) in
            changes(&path).into_iter().filter(|(tool, _)| name == "fixed/a.txt" || *tool == "write")
        {
            assert_eq!(agent.told(&session, tool, input).await, refused, "{tool}");
        }
    }
    assert_eq!(agent.scratch.read("fixed/a.txt"), "first\n");
    assert_eq!(names(&agent, "fixed"), ["a.txt"]);
    agent.finish().await;
}

#[tokio::test]
async fn a_file_that_is_read_only_for_its_owner_stays_so() {
    // Without a mapping nobody is root, even if root runs the tests.
    if !Command::new("unshare").args(["-U", "true"]).status().is_ok_and(|status| status.success()) {
        return skipped("this machine gives users no namespaces");
    }
    let agent = Agent::builder().started_by(&["unshare", "-U"]).start().await;
    let session = agent.new_session().await;
    agent.scratch.write("closed/kept.txt", "first\n");
    agent.scratch.write("open.txt", "first\n");
    let set_mode = |name: &str, mode: &str| {
        let status = Command::new("chmod").args([mode, &agent.scratch.path(name)]).status();
        assert!(status.unwrap().success());
    };
    set_mode("open.txt", "444");
    let path = agent.scratch.path("open.txt");
    know(&agent, &session, &path).await;
    for (tool, input) in changes(&path) {
        let refused = format!("Cannot write {path}: Permission denied (os error 13)");
        assert_eq!(agent.told(&session, tool, input).await, refused, "{tool}");
    }
    assert_eq!(agent.scratch.read("open.txt"), "first\n");
    // The files of a directory that takes no new ones can still be changed.
    set_mode("closed", "555");
    let path = agent.scratch.path("closed/kept.txt");
    know(&agent, &session, &path).await;
    let [edit, ..] = changes(&path);
    assert_eq!(agent.told(&session, edit.0, edit.1).await, "Edit applied successfully.");
    assert_eq!(agent.scratch.read("closed/kept.txt"), "second\n");
    let path = agent.scratch.path("closed/new.txt");
    let answer = agent.told(&session, "write", json!({"filePath": path, "content": "x"})).await;
    assert_eq!(answer, format!("Cannot write {path}: Permission denied (os error 13)"));
    set_mode("closed", "000");
    for (tool, input) in [
        ("read", json!({"filePath": agent.scratch.path("closed/kept.txt")})),
        (
            "edit",
            json!({"filePath": agent.scratch.path("closed/kept.txt"), "oldString": "a", "newString": "b"}),
        ),
    ] {
        let answer = agent.told(&session, tool, input).await;
        assert!(answer.ends_with("Permission denied (os error 13)"), "{tool}: {answer}");
    }
    set_mode("closed", "755");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_that_nobody_may_change_is_named() {
    let scratch = Scratch::new();
    let path = scratch.path("a.txt");
    let chattr =
        |flag: &str| Command::new("chattr").args([flag, &path]).output().is_ok_and(|it| it.status.success());
    if !chattr("+i") {
        return skipped("this machine makes no file immutable");
    }
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    know(&agent, &session, &path).await;
    let input = json!({"filePath": path, "oldString": "two", "newString": "zwei"});
    let answer = agent.told(&session, "edit", input).await;
    assert!(chattr("-i"));
    assert_eq!(answer, format!("Cannot write {path}: Operation not permitted (os error 1)"));
    assert_eq!(scratch.read("a.txt"), "one\ntwo\nthree\n");
    agent.finish().await;
}

#[tokio::test]
async fn what_may_not_be_looked_at_is_told() {
    // Without a mapping nobody is root, even if root runs the tests.
    if !Command::new("unshare").args(["-U", "true"]).status().is_ok_and(|status| status.success()) {
        return skipped("this machine gives users no namespaces");
    }
    let agent = Agent::builder().started_by(&["unshare", "-U"]).start().await;
    let session = agent.new_session().await;
    agent.scratch.write("closed/kept.txt", "two\n");
    agent.scratch.write("secret.txt", "two\n");
    let (closed, secret) = (agent.scratch.path("closed"), agent.scratch.path("secret.txt"));
    let set_mode = |path: &str, mode: &str| {
        assert!(Command::new("chmod").args([mode, path]).status().unwrap().success());
    };
    set_mode(&closed, "000");
    set_mode(&secret, "000");
    for (tool, input, note) in [
        ("grep", json!({"pattern": "two"}), format!("not searched: {closed}, {secret})")),
        ("glob", json!({"pattern": "*.txt"}), format!("not searched: {closed})")),
        ("list", json!({}), format!("not searched: {closed})")),
        ("list", json!({"path": closed}), format!("not searched: {closed})")),
        (
            "grep",
            json!({"pattern": "two", "path": secret}),
            format!("Cannot read {secret}: Permission denied (os error 13)"),
        ),
    ] {
        let answer = agent.told(&session, tool, input).await;
        assert!(answer.ends_with(&note), "{tool}: {answer}");
    }
    set_mode(&closed, "755");
    set_mode(&secret, "644");
    agent.finish().await;
}
