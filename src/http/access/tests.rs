//! Origins, hosts and passwords.

use axum::{body::Body, extract::Request};

use super::{Access, MAX_TRIES, Password, is_loopback};

#[test]
fn pages_of_this_machine_and_of_opencode_are_known() {
    let access = Access::new(None, vec!["https://own.example".to_owned()]);
    for origin in [
        "http://localhost:3000",
        "http://127.0.0.1:1",
        "https://app.opencode.ai",
        "https://opencode.ai",
        "tauri://localhost",
        "https://own.example",
    ] {
        assert!(access.is_known_origin(origin), "{origin}");
    }
    for origin in [
        "http://localhost",
        "http://localhost:80.evil.example",
        "https://localhost:1",
        "https://evilopencode.ai",
        "https://evil.example/.opencode.ai",
        "https://.opencode.ai",
        "http://app.opencode.ai",
        "null",
        "",
    ] {
        assert!(!access.is_known_origin(origin), "{origin}");
    }
}

#[test]
fn only_names_of_loopback_are_this_machine() {
    for host in [
        "localhost",
        "localhost:4096",
        "127.0.0.1:1",
        "127.8.0.1",
        "[::1]:4096",
        "a.localhost:1",
        "LOCALHOST",
    ] {
        assert!(is_loopback(host), "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:4096",
        "localhost.evil.example",
        "10.0.0.1:1",
        "[::]:1",
        "",
        "0.0.0.0:1",
    ] {
        assert!(!is_loopback(host), "{host}");
    }
}

#[test]
fn a_password_may_hold_a_colon() {
    let password = Password { user: "opencode".to_owned(), password: "a:b".to_owned() };
    assert!(password.is("opencode:a:b"));
    assert!(!password.is("opencode:a:"));
    assert!(!password.is(""));
    assert_eq!(format!("{password:?}"), "Password");
}

#[test]
fn an_address_has_only_so_many_failed_tries() {
    let access = Access::new(None, Vec::new());
    let (one, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
    for _ in 0..MAX_TRIES {
        assert!(access.has_tries(one));
        access.note_failure(one);
    }
    assert!(!access.has_tries(one));
    assert!(access.has_tries(other));
}

#[test]
fn a_browser_reads_nothing_for_a_page_elsewhere_but_shows_the_servers_own() {
    let access = Access::new(None, Vec::new());
    let is_refused = |path: &str, headers: &[(&str, &str)]| {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        access.check_site(&request.body(Body::empty()).unwrap()).is_err()
    };
    let elsewhere = ("sec-fetch-site", "cross-site");
    assert!(is_refused("/vcs?directory=/tmp", &[elsewhere]));
    assert!(is_refused("/vcs", &[("sec-fetch-site", "same-site")]));
    assert!(is_refused("/vcs", &[elsewhere, ("sec-fetch-mode", "navigate")]));
    assert!(is_refused("/vcs", &[elsewhere, ("origin", "https://evil.example")]));
    assert!(!is_refused("/vcs", &[elsewhere, ("origin", "https://app.opencode.ai")]));
    assert!(!is_refused("/", &[elsewhere, ("sec-fetch-mode", "navigate")]));
    assert!(!is_refused("/vcs", &[("sec-fetch-site", "same-origin")]));
    assert!(!is_refused("/vcs", &[("sec-fetch-site", "none")]));
    assert!(!is_refused("/vcs", &[]));
}
