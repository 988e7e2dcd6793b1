//! Projects that sessions belong to.

use std::path::Path;

use serde_json::json;
use windlass_protocol::opencode::session::Session;

use super::{is_project, project_root};

fn session(directory: &str, path: Option<&str>) -> Session {
    serde_json::from_value(json!({
        "id": "ses_1", "slug": "a-b", "projectID": "abc", "directory": directory, "path": path, "title": "t",
        "version": "0", "time": {"created": 0, "updated": 0},
    }))
    .expect("session")
}

#[test]
fn a_session_belongs_to_the_repository_around_it() {
    for (directory, path, root) in [
        ("/work/app", Some(""), "/work/app"),
        ("/work/app/src/cli", Some("src/cli"), "/work/app"),
        ("/tmp/x", Some("tmp/x"), "/tmp/x"),
        ("/tmp/x", None, "/tmp/x"),
        ("/moved/elsewhere", Some("src/cli"), "/moved/elsewhere"),
    ] {
        assert_eq!(project_root(&session(directory, path)), Path::new(root), "{directory}");
    }
}

#[test]
fn a_project_is_named_by_its_id_its_directory_or_its_name() {
    let session = session("/work/app", Some(""));
    for (name, is_its) in [("abc", true), ("/work/app", true), ("app", true), ("work", false), ("ap", false)]
    {
        assert_eq!(is_project(name, &session, Path::new("/work/app")), is_its, "{name}");
    }
}
