//! Display of a list of sessions.

use std::collections::HashMap;

use serde_json::json;
use unicode_width::UnicodeWidthStr;
use windlass_base::clock::Zone;
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
SESSION  UPDATED      TITLE           DIRECTORY
ses_1    today 14:13  Fix the parser  /work
ses_22   today 14:13  x [31m …        /work";
    let time = |ms| Zone::utc().short(ms, 1_790_000_000_000);
    assert_eq!(table(&sessions, &HashMap::new(), time), expected);
}

#[test]
fn joined_characters_stay_joined_and_columns_straight() {
    let sessions =
        [session("ses_1", "a 👨\u{200d}👩\u{200d}👧 b"), session("ses_2", "می\u{200c}خواهم \u{202e}x")];
    let shown = table(&sessions, &HashMap::new(), |_| "now".to_owned());
    for title in ["a 👨\u{200d}👩\u{200d}👧 b", "می\u{200c}خواهم \\u{202e}x"] {
        assert!(shown.contains(title), "{title}: {shown}");
    }
    let widths: Vec<usize> =
        shown.lines().skip(1).map(|line| line.trim_end_matches("/work").width()).collect();
    assert_eq!(widths[0], widths[1], "{shown}");
}
