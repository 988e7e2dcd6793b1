//! Tests of [`super`]: the JSON of each shape, keys in OpenCode's order.

use serde_json::{Map, Value, json};

use super::{
    AskedEdit, Changes, Command, Edited, Failure, FileChange, FileDiff, PatchedFile, decode, encode,
    forget_texts,
};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _other => panic!("no object: {_other}"),
    }
}

fn diff() -> FileDiff<'static> {
    FileDiff {
        file: "/w/a",
        patch: "@@ -0,0 +1 @@\n+b",
        additions: 1,
        deletions: 0,
        before: Some(None),
        after: Some(Some("b")),
    }
}

#[test]
fn the_json_is_opencodes_to_the_order_of_keys() {
    let edited = Edited { diagnostics: Map::new(), diff: "d", filediff: diff() };
    assert_eq!(
        Value::Object(encode(&edited)).to_string(),
        r#"{"diagnostics":{},"diff":"d","filediff":{"file":"/w/a","patch":"@@ -0,0 +1 @@\n+b","additions":1,"deletions":0,"before":null,"after":"b"}}"#
    );
    let file = PatchedFile {
        file_path: "/w/a",
        relative_path: Some("b"),
        change: FileChange::Move,
        patch: "p",
        additions: 0,
        deletions: 2,
        move_path: Some("/w/b"),
        before: None,
        after: None,
    };
    assert_eq!(
        Value::Object(encode(&file)).to_string(),
        r#"{"filePath":"/w/a","relativePath":"b","type":"move","patch":"p","additions":0,"deletions":2,"movePath":"/w/b"}"#
    );
    let command = Command {
        output: Some("x"),
        exit: None,
        truncated: Some(false),
        signal: Some("SIGKILL"),
        output_path: None,
    };
    assert_eq!(
        Value::Object(encode(&command)).to_string(),
        r#"{"output":"x","exit":null,"truncated":false,"signal":"SIGKILL"}"#
    );
}

#[test]
fn what_was_written_is_read_and_null_is_not_nothing() {
    let written = encode(&AskedEdit { filepath: "/w/a", diff: "d", filediff: diff() });
    let changes: Changes<'_> = decode(&written).expect("changes");
    assert_eq!(changes, Changes { diff: Some("d"), filediff: Some(diff()), files: None });

    let mut forgotten = written.clone();
    forget_texts(&mut forgotten);
    let changes: Changes<'_> = decode(&forgotten).expect("changes");
    assert_eq!(changes.filediff, Some(FileDiff { before: None, after: None, ..diff() }));
}

#[test]
fn an_older_patch_and_other_shapes_are_read_as_far_as_they_go() {
    let older = object(json!({"files": [{"filePath": "/a", "type": "add", "diff": "p"}], "more": 1}));
    let changes: Changes<'_> = decode(&older).expect("changes");
    let files = changes.files.expect("files");
    assert_eq!((files[0].path(), files[0].change, files[0].patch), ("/a", FileChange::Add, "p"));
    assert_eq!(decode::<Changes<'_>>(&object(json!({"count": 1}))), Some(Changes::default()));
    assert_eq!(decode::<Command<'_>>(&object(json!({"output": 1}))), None);
    let failure: Option<Failure> = decode(&object(json!({"denied": true, "output": ""})));
    assert_eq!(failure, Some(Failure { interrupted: false, denied: true }));
}
