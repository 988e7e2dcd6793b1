//! Directories and files as people see them, and paths that lead out of the project.

use std::fs;

use windlass_engine::fixture::Scene;
use windlass_protocol::opencode::file::{ContentType, NodeType};

use crate::{Files, FilesError};

#[tokio::test]
async fn a_directory_is_listed_with_what_is_ignored() {
    let scene = Scene::with_commit(&[(".gitignore", "out/\n*.log\n"), ("b.txt", ""), ("src/a.rs", "")]).await;
    fs::create_dir(scene.path("out")).unwrap();
    fs::write(scene.path("x.log"), "").unwrap();
    let workspace = scene.workspace().await;
    let nodes = Files::of(&workspace).list_directory(".").await.unwrap();
    let rows: Vec<_> = nodes.iter().map(|it| (it.path.as_str(), it.r#type, it.ignored)).collect();
    assert_eq!(
        rows,
        [
            (".git/", NodeType::Directory, false),
            ("out/", NodeType::Directory, true),
            ("src/", NodeType::Directory, false),
            (".gitignore", NodeType::File, false),
            ("b.txt", NodeType::File, false),
            ("x.log", NodeType::File, true),
        ]
    );
    let below = Files::of(&workspace).list_directory("src").await.unwrap();
    assert_eq!((below[0].path.as_str(), below[0].name.as_str()), ("src/a.rs", "a.rs"));
    assert_eq!(below[0].absolute, scene.path("src/a.rs").display().to_string());
}

#[tokio::test]
async fn a_text_is_shown_with_its_difference_and_other_content_as_bytes() {
    let scene = Scene::with_commit(&[("a.txt", "one\ntwo\nthree\n"), ("same.txt", "same\n")]).await;
    fs::write(scene.path("a.txt"), "one\nTWO\nthree").unwrap();
    fs::write(scene.path("bytes"), [0, 159, 146, 150]).unwrap();
    fs::write(scene.path("p.png"), "no image").unwrap();
    let workspace = scene.workspace().await;
    let text = Files::of(&workspace).read_file("a.txt").await.unwrap();
    assert_eq!((text.r#type, text.content.as_str()), (ContentType::Text, "one\nTWO\nthree"));
    let hunk = &text.patch.unwrap().hunks[0];
    assert_eq!((hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines), (1, 3, 1, 3));
    let lines = [" one", "-two", "-three", "+TWO", "+three", "\\ No newline at end of file"];
    assert_eq!(hunk.lines, lines);
    assert!(text.diff.unwrap().starts_with("--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n"));
    let same = Files::of(&workspace).read_file("same.txt").await.unwrap();
    assert_eq!((same.content.as_str(), same.diff), ("same", None));
    let bytes = Files::of(&workspace).read_file("bytes").await.unwrap();
    assert_eq!(
        (bytes.content.as_str(), bytes.mime_type.as_deref()),
        ("AJ+Slg==", Some("application/octet-stream"))
    );
    let image = Files::of(&workspace).read_file("p.png").await.unwrap();
    assert_eq!((image.r#type, image.mime_type.as_deref()), (ContentType::Binary, Some("image/png")));
}

#[tokio::test]
async fn paths_that_lead_out_or_nowhere_are_refused_by_name() {
    let scene = Scene::with_commit(&[("a.txt", "")]).await;
    std::os::unix::fs::symlink("/etc", scene.path("link")).unwrap();
    let workspace = scene.workspace().await;
    for path in ["/etc/passwd", "../../..", "link/passwd"] {
        let error = Files::of(&workspace).read_file(path).await.unwrap_err();
        assert!(matches!(&error, FilesError::Invalid(text) if text.contains("outside")), "{path}: {error}");
    }
    assert_eq!(Files::of(&workspace).read_file("no").await.unwrap_err().to_string(), "File not found: no");
    assert!(matches!(Files::of(&workspace).list_directory("no").await, Err(FilesError::NotFound(_))));
    assert!(matches!(Files::of(&workspace).list_directory("a.txt").await, Err(FilesError::Invalid(_))));
    assert!(matches!(Files::of(&workspace).read_file(".").await, Err(FilesError::Invalid(_))));
}
