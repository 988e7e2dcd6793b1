//! The tree as text.

use std::{fs, sync::atomic::AtomicBool};

use serde_json::{Value, json};

use super::list;
use crate::tool::fake::{Project, one};

async fn check(project: &Project, input: Value, expected: &str) {
    let output = project.output("list", input.clone()).await;
    assert_eq!(output.output.replace(&project.text("."), "."), expected, "{input}");
}

#[tokio::test]
async fn directories_come_before_files() {
    let project = Project::new();
    fs::create_dir(project.path(".git")).expect("created");
    project.write(".gitignore", "*.log\n");
    for name in ["z.txt", "a.log", "src/b.rs", "src/a/c.rs", "node_modules/x/y.js", "docs/d.md", ".hidden"] {
        project.write(name, "");
    }
    check(&project, json!({}), "./\n  docs/\n    d.md\n  src/\n    a/\n      c.rs\n    b.rs\n  z.txt\n")
        .await;
    check(&project, json!({ "ignore": ["docs/", "c.rs"] }), "./\n  src/\n    b.rs\n  z.txt\n").await;
    check(&project, json!({ "path": "src/a" }), "./src/a/\n  c.rs\n").await;
    assert_eq!(project.asked(), [one("list", "."), one("list", "."), one("list", "src/a")]);
}

#[tokio::test]
async fn the_nearest_hundred_are_shown() {
    let project = Project::new();
    for n in 0..150 {
        project.write(&format!("deep/er/{n:03}"), "");
    }
    project.write("near", "");
    let output = project.output("list", json!({})).await;
    assert_eq!(Value::Object(output.metadata), json!({ "count": 100, "truncated": true }));
    assert!(output.output.contains("\n  near\n\n(Results are truncated: showing the nearest 100 files."));
    assert!(output.output.contains("      098\n") && !output.output.contains("      099\n"));
}

#[tokio::test]
async fn mistakes_are_reported() {
    let project = Project::new();
    project.write("file", "");
    for (path, problem) in [("file", "must be a directory"), ("none", "does not exist")] {
        let error = project.error("list", json!({ "path": path })).await;
        assert_eq!(error, format!("list path {problem}: {}", project.text(path)));
    }
}

#[test]
fn a_link_put_in_a_directorys_place_shows_nothing_of_its_target() {
    let project = Project::new();
    let target = project.swapped_door();
    let (output, n_files, _) = list(&target, &[], &AtomicBool::new(false)).unwrap();
    assert_eq!((output, n_files), (format!("{}/\n", target.path.display()), 0));
}
