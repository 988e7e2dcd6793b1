//! What a list of sessions looks like.

use serde_json::json;
use windlass_protocol::opencode::session::Session;

use super::table;

fn session(id: &str, title: &str) -> Session {
    serde_json::from_value(json!({
        "id": id, "slug": "a-b", "projectID": "global", "directory": "/work", "title": title, "version": "0",
        "time": {"created": 0, "updated": 1_790_000_000_000_i64},
    }))
    .expect("session")
}

#[test]
fn columns_are_as_wide_as_they_must_be() {
    let sessions = [session("ses_1", "Fix the parser"), session("ses_22", "x\u{1b}[31m\ny")];
    let expected = "\
SESSION  UPDATED                   TITLE           DIRECTORY
ses_1    2026-09-21T14:13:20.000Z  Fix the parser  /work
ses_22   2026-09-21T14:13:20.000Z  x [31m …        /work";
    assert_eq!(table(&sessions), expected);
}
