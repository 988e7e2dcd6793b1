//! The real path decides if a file is outside the project.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
};

use serde_json::json;
use windlass_base::home;

use super::{Roots, absolute, judge, one_line, real};
use crate::tool::{ToolError, fake::Project};

fn check(project: &Project, name: &str, is_inside: bool, patterns: &[&str]) {
    let target = judge(&Roots::new(&project.config), absolute(&project.config.directory, name));
    assert_eq!(target.is_inside, is_inside, "{name}");
    assert_eq!(target.patterns, patterns, "{name}");
}

#[test]
fn dots_and_links_are_followed_before_judging() {
    let project = Project::new();
    project.write("a/b.txt", "");
    project.write("../outside/secret", "");
    symlink("../outside", project.path("way-out")).expect("linked");
    symlink("../outside/new", project.path("dangling")).expect("linked");
    symlink("a", project.path("alias")).expect("linked");
    symlink("loop", project.path("loop")).expect("linked");
    let secret = project.text("../outside/secret");
    let new = project.text("../outside/new");
    check(&project, "a/b.txt", true, &["a/b.txt"]);
    check(&project, "not/there/yet", true, &["not/there/yet"]);
    check(&project, "a/../a/./b.txt", true, &["a/b.txt"]);
    check(&project, "alias/b.txt", true, &["alias/b.txt", "a/b.txt"]);
    check(&project, "loop", true, &["loop"]);
    check(&project, "../outside/secret", false, &[&secret]);
    check(&project, &secret, false, &[&secret]);
    check(&project, "way-out/secret", false, &["way-out/secret", &secret]);
    check(&project, "dangling", false, &["dangling", &new]);
    check(&project, "../project-2/x", false, &[&project.text("../project-2/x")]);
}

#[test]
fn the_worktree_counts_unless_it_is_the_root() {
    let mut project = Project::new();
    project.config.directory = project.path("sub");
    check(&project, "../beside", true, &["beside"]);
    project.config.worktree = "/".into();
    let beside = project.text("../beside");
    check(&project, "../beside", false, &[beside.trim_start_matches('/')]);
}

#[test]
fn a_project_reached_through_a_link_is_inside_itself() {
    let mut project = Project::new();
    project.write("a", "");
    let link = project.root().join("link");
    symlink(project.path("."), &link).expect("linked");
    project.config.directory = link.clone();
    project.config.worktree = link;
    check(&project, "a", true, &["a"]);
    check(&project, ".", true, &["."]);
}

#[test]
fn links_are_followed_where_nothing_exists() {
    let project = Project::new();
    symlink("../outside/../outside/x", project.path("link")).expect("linked");
    assert_eq!(real(&project.path("link/y")), project.path("../outside/x/y"));
    fs::create_dir(project.path("../outside")).expect("created");
    assert_eq!(real(&project.path("link/y")), project.path("../outside/x/y"));
}

#[test]
fn home_is_expanded_as_a_shell_does() {
    let expanded = ["~", "~/x", "~x", "a/~"].map(|text| home::expand(Path::new("/home/u"), text));
    assert_eq!(expanded, ["/home/u", "/home/u/x", "~x", "a/~"]);
}

#[test]
fn other_names_of_an_env_file_are_known_to_the_rules() {
    let project = Project::new();
    project.write(".env", "secret");
    project.write("sub/Prod.ENV.local", "secret");
    fs::hard_link(project.path(".env"), project.path("notes.txt")).expect("linked");
    fs::hard_link(project.path("sub/Prod.ENV.local"), project.path("other.txt")).expect("linked");
    check(&project, ".ENV", true, &[".ENV", ".env"]);
    check(&project, "sub/Prod.ENV.local", true, &["sub/Prod.ENV.local", "sub/prod.env.local"]);
    check(&project, "notes.txt", true, &["notes.txt", ".env"]);
    // Only the directories that may contain such files are searched.
    check(&project, "other.txt", true, &["other.txt"]);
}

#[tokio::test]
async fn a_question_names_the_target_of_a_link() {
    let project = Project::new();
    project.write(".env", "secret");
    std::os::unix::fs::symlink(".env", project.path("innocent")).expect("linked");
    fs::hard_link(project.path(".env"), project.path("harmless")).expect("linked");
    for name in ["innocent", "harmless"] {
        project.output("read", json!({ "filePath": name })).await;
        let metadata = json!({ "filepath": project.text(name), "resolved": ".env" });
        assert_eq!(serde_json::Value::Object(project.last_ask().metadata), metadata);
    }
    project.output("read", json!({ "filePath": ".env" })).await;
    assert!(!project.last_ask().metadata.contains_key("resolved"));
}

/// A file that rules of the plan agent allow by name must not be another name of the source.
#[test]
fn a_plan_that_is_a_hard_link_is_judged_by_more_than_its_name() {
    let project = Project::new();
    project.write("source.rs", "");
    project.write(".opencode/plans/own.md", "");
    fs::hard_link(project.path("source.rs"), project.path(".opencode/plans/linked.md")).expect("linked");
    check(&project, ".opencode/plans/own.md", true, &[".opencode/plans/own.md"]);
    let hidden = ".opencode/plans/linked.md (hard link)";
    check(&project, ".opencode/plans/linked.md", true, &[".opencode/plans/linked.md", hidden]);
}

#[tokio::test]
async fn a_path_stays_one_line_that_bash_reads() {
    let project = Project::new();
    let check = |name: &[u8], expected: &str| {
        assert_eq!(one_line(Path::new(OsStr::from_bytes(name))), expected);
    };
    check("/a b/é'\\".as_bytes(), r"/a b/é'\");
    for (name, expected) in [
        (b"a\nb'\\".as_slice(), r"$'a\nb\'\\'"),
        (b"\t\r\x07\xc2\x85", r"$'\t\r\x07\xc2\x85'"),
        (b"caf\xe9.rs", r"$'caf\xe9.rs'"),
    ] {
        check(name, expected);
        fs::write(project.path(".").join(OsStr::from_bytes(name)), "").expect("written");
        let command = format!("test -f {expected} && echo found");
        assert_eq!(
            project.output("bash", json!({ "command": command })).await.output,
            "found\n",
            "{expected}"
        );
    }
}

#[tokio::test]
async fn a_link_put_in_its_place_while_the_user_is_asked_is_not_followed() {
    let patch = "*** Begin Patch\n*** Add File: door/new\n+evil\n*** End Patch";
    for (tool, input) in [
        ("read", json!({ "filePath": "door/a" })),
        ("list", json!({ "path": "door" })),
        ("glob", json!({ "path": "door", "pattern": "*" })),
        ("grep", json!({ "path": "door", "pattern": "secret" })),
        ("edit", json!({ "filePath": "door/a", "oldString": "open", "newString": "evil" })),
        (
            "multiedit",
            json!({ "filePath": "door/a", "edits": [{ "oldString": "open", "newString": "evil" }] }),
        ),
        ("write", json!({ "filePath": "door/new", "content": "evil" })),
        ("apply_patch", json!({ "patchText": patch })),
        ("bash", json!({ "command": "touch new", "workdir": "door" })),
        ("bash", json!({ "command": "cat door/a" })),
        ("bash", json!({ "command": "echo evil > door/new" })),
        ("bash", json!({ "command": "cd door && touch new" })),
    ] {
        let mut project = Project::new();
        project.write("door/a", "open\n");
        project.write("../outside/a", "open\nsecret\n");
        let (door, outside) = (project.path("door"), project.path("../outside"));
        project.host.answer = Box::new(move |_| {
            // A write by a redirection is asked about beside its command.
            if door.is_symlink() {
                return Ok(());
            }
            let swapped =
                fs::rename(&door, door.with_extension("old")).and_then(|()| symlink(&outside, &door));
            swapped.map_err(|error| ToolError::Internal(error.to_string()))
        });
        let error = project.error(tool, input).await;
        assert!(error.contains("leads elsewhere than when permission was asked"), "{tool}: {error}");
        assert_eq!(project.content("../outside/a"), "open\nsecret\n", "{tool}");
        assert!(!project.path("../outside/new").exists(), "{tool}");
    }
}

#[tokio::test]
async fn another_name_of_a_file_put_in_its_place_while_the_user_is_asked_is_not_written() {
    for (tool, input) in [
        ("edit", json!({ "filePath": "a", "oldString": "open", "newString": "evil" })),
        ("write", json!({ "filePath": "a", "content": "evil" })),
    ] {
        let mut project = Project::new();
        project.write("a", "open\n");
        project.write("../outside/a", "open\n");
        let (own, outside) = (project.path("a"), project.path("../outside/a"));
        project.host.answer = Box::new(move |_| {
            let swapped = fs::remove_file(&own).and_then(|()| fs::hard_link(&outside, &own));
            swapped.map_err(|error| ToolError::Internal(error.to_string()))
        });
        let error = project.error(tool, input).await;
        assert!(error.contains("leads elsewhere than when permission was asked"), "{tool}: {error}");
        assert_eq!(project.content("../outside/a"), "open\n", "{tool}");
    }
}
