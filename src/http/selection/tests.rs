//! Every way to name a directory.

use std::path::Path;

use axum::http::Request;

use super::select;

fn check(uri: &str, header: Option<&str>, wanted: &str) {
    let mut request = Request::get(uri);
    if let Some(header) = header {
        request = request.header("x-opencode-directory", header);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    assert_eq!(select(&parts, Path::new("/own")), Path::new(wanted), "{uri} {header:?}");
}

#[test]
fn the_query_beats_the_header_and_the_header_the_servers_own() {
    check("/session", None, "/own");
    check("/session?directory=", None, "/own");
    check("/session?directory=/a", Some("/b"), "/a");
    check("/session", Some("/b"), "/b");
    check("/api/session?location%5Bdirectory%5D=/c", None, "/c");
}

#[test]
fn each_is_decoded_once() {
    check("/session?directory=%2Fa%20%2541", None, "/a %41");
    check("/session?directory=/a+b", None, "/a b");
    check("/session", Some("%2Fa%20b"), "/a b");
    check("/session", Some("/plain b"), "/plain b");
}

#[test]
fn a_relative_path_is_the_servers() {
    check("/session?directory=sub/../x/.", None, "/own/x");
    check("/session?directory=/a/", None, "/a");
    check("/session?directory=/../..", None, "/");
}
