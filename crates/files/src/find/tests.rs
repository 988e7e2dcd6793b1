//! Lines and paths that are found, in ripgrep's shape.

use std::fs;

use serde_json::json;
use windlass_engine::fixture::Scene;
use windlass_protocol::opencode::file::NodeType;

use super::FileQuery;
use crate::{Files, FilesError};

#[tokio::test]
async fn text_is_found_in_the_shape_of_ripgrep() {
    let scene = Scene::with_commit(&[
        (".gitignore", "out.txt\n"),
        ("b.txt", "zero\nä mango mango\n"),
        ("a/x.rs", "mango"),
        ("out.txt", "mango"),
    ])
    .await;
    fs::write(scene.path("bytes"), b"mango\0mango").unwrap();
    let workspace = scene.workspace().await;
    let found = Files::of(&workspace).find_text("man.o").await.unwrap();
    let part = |start: u64| json!({"match": {"text": "mango"}, "start": start, "end": start + 5});
    assert_eq!(
        serde_json::to_value(found).unwrap(),
        json!([
            {"path": {"text": "a/x.rs"}, "lines": {"text": "mango"}, "line_number": 1, "absolute_offset": 0,
             "submatches": [part(0)]},
            {"path": {"text": "b.txt"}, "lines": {"text": "ä mango mango\n"}, "line_number": 2,
             "absolute_offset": 5, "submatches": [part(3), part(9)]},
        ])
    );
    assert!(matches!(Files::of(&workspace).find_text("(").await, Err(FilesError::Invalid(_))));
}

#[tokio::test]
async fn files_are_found_by_letters_of_their_paths() {
    let scene =
        Scene::with_commit(&[("src/main.rs", ""), ("src/other.rs", ""), (".hidden/main.md", ""), ("x", "")])
            .await;
    let workspace = scene.workspace().await;
    let find = async |letters: &str, only| {
        Files::of(&workspace).find_files(FileQuery { letters: letters.to_owned(), limit: 10, only }).await
    };
    assert_eq!(find("main", None).await, ["src/main.rs", ".hidden/main.md"]);
    assert_eq!(find("s", Some(NodeType::Directory)).await, ["src/"]);
    assert_eq!(find("zzz", None).await, Vec::<String>::new());
    assert_eq!(find("", Some(NodeType::File)).await.len(), 4);
}
