//! Entries put into files that people keep, with everything else left as it is.

use std::fs;

use super::{EDITORS, Editor, file, merge, write};

const ZED: merge::Keys = merge::Keys { owner: "agent_servers", kind: Some("custom") };
const JETBRAINS: merge::Keys = merge::Keys { owner: "agent_servers", kind: None };

#[test]
fn comments_order_and_other_entries_stay() {
    let before = r#"// My settings.
{
  "theme": "One Dark", // dark
  /* agents */
  "agent_servers": {
    "other": { "command": "other", "args": [] }
  },
  "vim_mode": true,
}
"#;
    let after = merge::json(before, &ZED, "/bin/windlass").unwrap();
    for line in before.lines().filter(|line| !line.contains("other")) {
        assert!(after.contains(line), "{line} is not in {after}");
    }
    assert!(after.contains(r#""other": { "command": "other", "args": [] }"#), "{after}");
    assert_eq!(merge::programs(&after, &ZED).unwrap(), ["/bin/windlass"]);
    assert_eq!(merge::json(&after, &ZED, "/bin/windlass").unwrap(), after);
}

#[test]
fn the_copy_is_of_the_file_before_the_first_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("settings.json");
    fs::write(&path, "one").unwrap();
    for text in ["two", "three"] {
        file::change(&path, |_| Ok(text.to_owned())).unwrap();
    }
    let copy = directory.path().join("settings.json.before-windlass");
    assert_eq!(
        (fs::read_to_string(&path).unwrap(), fs::read_to_string(copy).unwrap()),
        ("three".into(), "one".into())
    );
}

#[test]
fn of_an_entry_only_the_command_is_changed() {
    let before = r#"{"agent_servers": {"windlass": {
        "env": {"ANTHROPIC_API_KEY": "k"}, // mine
        "command": "/old/windlass",
        "args": [ "acp", "--trace", "/tmp/x" ]
    }}}"#;
    let after = merge::json(before, &JETBRAINS, "/new/windlass").unwrap();
    assert_eq!(after, before.replace("/old/", "/new/"));
}

#[test]
fn files_without_anything_are_made_whole() {
    for before in ["", " \n", "\t"] {
        assert_eq!(merge::json(before, &ZED, "/w").unwrap(), merge::whole(&ZED, "/w"));
    }
    for before in ["{}", "// nothing yet\n", "{\"a\": 1}", "\u{feff}{}", "{\"agent_servers\": {}}"] {
        let after = merge::json(before, &ZED, "/w").unwrap();
        assert_eq!(merge::programs(&after, &ZED).unwrap(), ["/w"], "{after}");
        assert_eq!(after.starts_with('\u{feff}'), before.starts_with('\u{feff}'));
    }
}

#[test]
fn what_cannot_be_merged_is_refused_with_its_place() {
    for (text, reason) in [
        ("{\n  \"a\": }\n", "line 2, column 8 is no JSON"),
        ("{\"a\": 1", "line 1, column 1 is no JSON"),
        ("[1]", "it is not a JSON object"),
        ("5", "it is not a JSON object"),
        (
            "{\"agent_servers\": {}, \"agent_servers\": {}}",
            "`agent_servers` is there more than once, and only",
        ),
        ("{\"agent_servers\": {\"windlass\": {}, \"windlass\": {}}}", "`windlass` is there more than once"),
        (
            "{\"agent_servers\": {\"windlass\": {\"command\": \"a\", \"command\": \"b\"}}}",
            "`command` is there more",
        ),
        ("{\"agent_servers\": []}", "`agent_servers` is not a JSON object there"),
        ("{\"agent_servers\": {\"windlass\": \"x\"}}", "`agent_servers.windlass` is not a JSON object there"),
    ] {
        let refused = merge::json(text, &ZED, "/w").unwrap_err();
        assert!(refused.starts_with(reason), "{text}: {refused}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(merge::json(&deep, &ZED, "/w").unwrap_err(), "it is nested more than 200 levels deep");
}

#[test]
fn a_block_is_put_at_the_end_and_then_replaced_in_its_place() {
    let once = merge::block("a = 1", "--", "entry 1\n", None).unwrap();
    assert_eq!(once, "a = 1\n\n-- >>> windlass\nentry 1\n-- <<< windlass\n");
    let more = format!("{once}b = 2\n");
    let twice = merge::block(&more, "--", "entry 2", None).unwrap();
    assert_eq!(twice, more.replace("entry 1", "entry 2"));
    assert_eq!(merge::block("", ";;", "e", None).unwrap(), ";; >>> windlass\ne\n;; <<< windlass\n");
    assert!(merge::block("local M = {}\nreturn M\n", "--", "e", None).unwrap_err().contains("return"));
    let cut = merge::block("-- >>> windlass\n", "--", "e", None).unwrap_err();
    assert_eq!(cut, "of the lines `-- >>> windlass` and `-- <<< windlass` one is missing");
    let set_up = merge::block(
        "-- codecompanion\nrequire('codecompanion').setup{}\n",
        "--",
        "e",
        Some("codecompanion"),
    );
    assert!(set_up.unwrap_err().starts_with("line 2 sets codecompanion up already"));
}

#[test]
fn every_editors_entry_is_written_once_and_found_again() {
    let scratch = tempfile::tempdir().unwrap();
    let program = "/a \"b\"\\/windlass";
    for editor in EDITORS {
        let path = scratch.path().join(editor.name()).join("settings");
        assert_eq!(write(editor, &path, program), Ok(file::Change::Made { copy: None }), "{editor:?}");
        assert_eq!(write(editor, &path, program), Ok(file::Change::None), "{editor:?}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(r#""/a \"b\"\\/windlass""#), "{text}");
    }
}

#[test]
fn a_link_stays_a_link_and_a_copy_of_what_was_is_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let scratch = tempfile::tempdir().unwrap();
    let (real, link) = (scratch.path().join("dotfiles.json"), scratch.path().join("settings.json"));
    fs::write(&real, "{}").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, &link).unwrap();
    let Ok(file::Change::Made { copy: Some(copy) }) = write(Editor::Zed, &link, "/w") else { panic!() };
    assert_eq!(fs::read_to_string(copy).unwrap(), "{}");
    assert!(link.is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("\"/w\""));
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    for wrong in [scratch.path().to_owned(), scratch.path().join("settings.json/x")] {
        assert!(write(Editor::Zed, &wrong, "/w").is_err());
    }
    fs::remove_file(&real).unwrap();
    assert!(write(Editor::Zed, &link, "/w").unwrap_err().starts_with("it cannot be read: "));
    fs::write(&real, b"\xff").unwrap();
    assert!(write(Editor::Zed, &link, "/w").unwrap_err().starts_with("it cannot be read: "));
}
