//! Definitions of a directory of markdown files, and warnings about files that define nothing.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};

use super::{meant, read};
use crate::config::{Findings, fixture::project_files, merge::merged};

/// Returns the merged definitions and the warnings, `<root>` being the directory.
fn defined(root: &Path) -> (Value, Vec<String>) {
    let mut findings = Findings::default();
    let read = read(&project_files(root), root, &mut findings);
    let root = root.display().to_string();
    let warnings = findings.warnings.iter().map(|warning| warning.to_string().replace(&root, "<root>"));
    (Value::Object(merged(&read.layers)), warnings.collect())
}

fn write(root: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn agents_modes_and_commands_are_named_by_their_paths() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    write(root, "agent/review.md", "---\nmode: subagent\nsteps: 3\n---\n\nLook.\n\n");
    write(root, "agents/team/docs.md", "Write.");
    write(root, "agent/build.md", "---\ntemperature: 0.5\n---\n");
    write(root, "mode/careful.md", "---\nmode: subagent\n---\nSlowly.");
    write(root, "modes/deep/ignored.md", "Modes have no names with slashes.");
    write(root, "command/ship.md", "---\ndescription: Ships\nsubtask: true\n---\nShip $ARGUMENTS");
    write(root, "commands/a/b.md", "---\n---\n");
    write(root, "agent/notes.txt", "No markdown.");
    write(root, "skill/x/SKILL.md", "---\nname: x\n---\n");
    let expected = json!({
        "command": {
            "ship": {"description": "Ships", "subtask": true, "template": "Ship $ARGUMENTS"},
            "a/b": {"template": ""},
        },
        "agent": {
            "build": {"temperature": 0.5},
            "review": {"mode": "subagent", "steps": 3, "prompt": "Look."},
            "team/docs": {"prompt": "Write."},
            "careful": {"mode": "primary", "prompt": "Slowly."},
        },
    });
    assert_eq!(defined(root), (expected, Vec::new()));
}

#[test]
fn values_stand_where_the_file_has_them() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    write(root, "agent/a.md", "---\nmode: all\npermission:\n  bash:\n    \"*\": ask\n---\n\n\nBody.");
    let layer = read(&project_files(root), root, &mut Findings::default()).layers.remove(0);
    let position = |path: &[&str]| layer.position(&[&["agent", "a"], path].concat());
    assert_eq!(position(&[]), Some((1, 1)));
    assert_eq!(position(&["mode"]), Some((2, 1)));
    assert_eq!(position(&["permission", "bash", "*"]), Some((5, 5)));
    assert_eq!(position(&["prompt"]), Some((9, 1)));
}

#[test]
fn files_that_cannot_be_used_are_named_and_the_others_count() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    write(root, "agent/good.md", "Good.");
    write(root, "agent/binary.md", b"\xff\xfe\x00");
    write(root, "agent/broken.md", "---\nmode: primary\ndescription: \"open\n---\nBody.");
    write(root, "agent/huge.md", "x".repeat(1024 * 1024 + 1));
    write(root, "agent/color.md", "---\ncolor: #FF0000\n---\nRed.");
    write(root, "agent/...md", "Dots.");
    write(root, "agnets/lost.md", "Lost.");
    write(root, "command/kept.md", "Kept.");
    fs::create_dir(root.join("agent/directory.md")).unwrap();
    symlink(root.join("agent"), root.join("agent/again")).unwrap();
    symlink("nowhere.md", root.join("agent/dangling.md")).unwrap();
    let (value, mut warnings) = defined(root);
    let names: Vec<&String> = value["agent"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["color", "good"]);
    assert_eq!(value["command"]["kept"]["template"], "Kept.");
    warnings.sort();
    let broken = warnings.iter().position(|warning| warning.contains("broken.md")).unwrap();
    let open = warnings.remove(broken);
    assert!(open.starts_with("<root>/agent/broken.md:3:14: is not valid YAML: "), "{open}");
    assert!(open.ends_with("; the file is left out"), "{open}");
    assert_eq!(
        warnings,
        [
            "<root>/agent/...md: its path is not a name; the file is left out",
            "<root>/agent/again: is a link back to a directory that was read; it is left out",
            "<root>/agent/binary.md:1:1: cannot be read: it is not text in UTF-8; the file is left out",
            "<root>/agent/color.md:2:1: agent.color.color: is empty; put a value that begins with `#` in quotes",
            "<root>/agent/dangling.md: cannot be read: No such file or directory; the file is left out",
            "<root>/agent/huge.md: cannot be read: it is larger than 1 MiB; the file is left out",
            "<root>/agnets: is not read; did you mean `agents`?",
        ]
    );
}

#[test]
fn an_absent_directory_defines_nothing() {
    assert_eq!(defined(Path::new("/nowhere/at/all")), (json!({}), Vec::new()));
}

#[test]
fn misspelt_directories_are_recognised_and_others_left_alone() {
    assert_eq!(
        ["agnets", "Agents", "comand", "comands", "skils", "plugin-s"].map(meant),
        [Some("agents"), Some("agents"), Some("command"), Some("commands"), Some("skill"), Some("plugins")]
    );
    assert_eq!(["plans", "bin", "node_modules", "themes", "prompts", "test"].map(meant), [None; 6]);
}
