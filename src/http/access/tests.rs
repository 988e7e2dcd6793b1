//! Origins, hosts and passwords.

use axum::{body::Body, extract::Request};
use windlass_base::peer::Standing;

use super::{Access, Entry, MAX_TRIES, Password, Refusal, is_loopback, is_passed_on};

fn password(password: &str) -> Password {
    Password { user: "opencode".to_owned(), password: password.to_owned() }
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:4096");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

#[test]
fn without_a_password_the_caller_itself_and_the_page_decide() {
    use Standing::{Confined, Gone, Held, Hidden, OtherUser, Own, Unknown};

    let entry = Entry::new("biscuit".to_owned(), "hush".to_owned());
    let access = Access::with_entry(None, vec!["https://a.example".to_owned()], entry);
    let own = ("origin", "http://127.0.0.1:4096");
    let allowed = ("origin", "https://a.example");
    let cookie = ("cookie", "a=b; windlass_4096=biscuit");
    // opencode:hush
    let secret = ("authorization", "Basic b3BlbmNvZGU6aHVzaA==");
    let fetched = ("sec-fetch-site", "same-origin");
    let is =
        |standing, headers: &[(&str, &str)]| access.check_caller(&request("POST", "/pty", headers), standing);
    for (standing, refusal) in
        [(Held, Refusal::Held), (OtherUser, Refusal::OtherUser), (Gone, Refusal::NoSecret)]
    {
        for headers in [&[][..], &[own, cookie], &[secret], &[allowed]] {
            assert_eq!(is(standing, headers), Err(refusal), "{headers:?}");
        }
        let link = request("GET", "/enter?key=x", &[]);
        assert_eq!(access.check_caller(&link, standing), Err(refusal));
    }
    for standing in [Own, Confined, Unknown] {
        for headers in [&[own, cookie][..], &[fetched, cookie], &[secret], &[allowed, secret]] {
            assert_eq!(is(standing, headers), Ok(()), "{standing:?} {headers:?}");
        }
        for origin in [
            "http://localhost:3000",
            "http://127.0.0.1:1",
            "tauri://localhost",
            "https://opencode.ai",
            "null",
        ] {
            let headers = [("origin", origin), cookie, secret];
            assert_eq!(is(standing, &headers), Err(Refusal::ForeignOrigin), "{origin}");
        }
        for headers in [
            &[own][..],
            &[fetched],
            &[own, ("cookie", "windlass_4096=cake")],
            &[own, ("cookie", "windlass_1=biscuit")],
            &[("sec-fetch-site", "none")],
        ] {
            assert_eq!(is(standing, headers), Err(Refusal::NoCookie), "{standing:?} {headers:?}");
        }
    }
    assert_eq!(is(Own, &[]), Ok(()));
    for standing in [Confined, Unknown] {
        assert_eq!((is(standing, &[]), is(standing, &[cookie])), (Err(Refusal::NoSecret), Ok(())));
    }
    assert_eq!(is(Own, &[allowed]), Ok(()));
    for standing in [Confined, Unknown] {
        assert_eq!(is(standing, &[allowed]), Err(Refusal::NoSecret), "any program can say so: {standing:?}");
    }
    for headers in [&[][..], &[own, cookie], &[cookie], &[allowed], &[allowed, cookie]] {
        assert_eq!(is(Hidden, headers), Err(Refusal::NoSecret), "{headers:?}");
    }
    assert_eq!(is(Hidden, &[secret]), Ok(()));
    let ticket = request("GET", "/pty/pty_1/connect?ticket=x", &[own]);
    assert_eq!(access.check_caller(&ticket, Confined), Ok(()), "its route looks at it");
}

#[test]
fn a_link_is_followed_once_and_the_oldest_of_many_is_forgotten() {
    let entry = Entry::new("biscuit".to_owned(), "hush".to_owned());
    let key = |link: String| link.strip_prefix("/enter?key=").unwrap().to_owned();
    let first = key(entry.link());
    assert_eq!(entry.enter("", "127.0.0.1:4096"), None);
    let cookie = entry.enter(&first, "127.0.0.1:4096").unwrap();
    assert_eq!(cookie, "windlass_4096=biscuit; Path=/; HttpOnly; SameSite=Strict");
    assert_eq!(entry.enter(&first, "127.0.0.1:4096"), None);
    let links: Vec<String> = (0..17).map(|_| key(entry.link())).collect();
    assert_eq!(entry.enter(&links[0], "localhost"), None);
    assert!(entry.enter(&links[1], "localhost").is_some());
}

#[test]
fn with_a_password_pages_of_this_machine_and_of_opencode_are_known() {
    let origins = || vec!["https://own.example".to_owned()];
    let access = Access::new(Some(password("secret")), origins());
    let without = Access::new(None, origins());
    for origin in [
        "http://localhost:3000",
        "http://127.0.0.1:1",
        "https://app.opencode.ai",
        "https://opencode.ai",
        "tauri://localhost",
        "https://own.example",
    ] {
        assert!(access.is_known_origin(origin), "{origin}");
        assert_eq!(without.is_known_origin(origin), origin == "https://own.example", "{origin}");
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
fn a_page_that_nobody_named_sends_only_what_a_browser_asks_about_first() {
    let access = Access::new(Some(password("secret")), vec!["https://own.example".to_owned()]);
    let is = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let known = [&[("origin", "http://localhost:3000")], headers].concat();
        let own = [&[("origin", "https://own.example")], headers].concat();
        assert_eq!(access.check_origin(&request(method, path, &own)), Ok(()));
        access.check_origin(&request(method, path, &known)).is_ok()
    };
    let (length, json) = (("content-length", "2"), ("content-type", "application/json; charset=utf-8"));
    assert!(is("POST", "/pty", &[length, json]));
    assert!(is("POST", "/session/ses_1/abort", &[("x-opencode-directory", "/tmp")]));
    assert!(!is("POST", "/pty", &[("content-length", "0")]));
    assert!(is("DELETE", "/session/ses_1", &[]));
    assert!(!is("POST", "/pty", &[length]));
    assert!(!is("POST", "/pty", &[("transfer-encoding", "chunked")]));
    assert!(!is("POST", "/pty", &[length, ("content-type", "text/plain")]));
    assert!(!is("GET", "/pty/pty_1/connect", &[("upgrade", "websocket")]));
    assert!(is("GET", "/pty/pty_1/connect?ticket=x", &[("upgrade", "websocket")]));
    assert!(is("GET", "/event?auth_token=x", &[("upgrade", "websocket")]));
}

#[test]
fn a_request_that_is_passed_on_says_so() {
    for (name, expected) in
        [("forwarded", true), ("x-forwarded-for", true), ("via", true), ("x-forward", false), ("host", false)]
    {
        assert_eq!(is_passed_on(request("GET", "/", &[(name, "x")]).headers()), expected, "{name}");
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
    let password = password("a:b");
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
    let access = Access::new(None, vec!["https://own.example".to_owned()]);
    let is_refused =
        |path: &str, headers: &[(&str, &str)]| access.check_site(&request("GET", path, headers)).is_err();
    let elsewhere = ("sec-fetch-site", "cross-site");
    assert!(is_refused("/vcs?directory=/tmp", &[elsewhere]));
    assert!(is_refused("/vcs", &[("sec-fetch-site", "same-site")]));
    assert!(is_refused("/vcs", &[elsewhere, ("sec-fetch-mode", "navigate")]));
    assert!(is_refused("/vcs", &[elsewhere, ("origin", "https://evil.example")]));
    assert!(!is_refused("/vcs", &[elsewhere, ("origin", "https://own.example")]));
    assert!(!is_refused("/", &[elsewhere, ("sec-fetch-mode", "navigate")]));
    assert!(!is_refused("/vcs", &[("sec-fetch-site", "same-origin")]));
    assert!(!is_refused("/vcs", &[("sec-fetch-site", "none")]));
    assert!(!is_refused("/vcs", &[]));
}
