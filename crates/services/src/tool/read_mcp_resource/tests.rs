//! The patterns of a resource in rules.

use windlass_core::{
    config::{policy::Policy, rules::rule},
    permission,
};
use windlass_protocol::opencode::permission::Action;

use super::patterns;

fn known(uri: &str) -> Vec<String> {
    let known = patterns("docs", uri);
    known.iter().map(|pattern| pattern.strip_prefix("mcp:docs:").expect("named").to_owned()).collect()
}

#[test]
fn a_plain_uri_is_one_pattern() {
    for uri in ["docs://guide", "docs://guide/Intro.md", "file:///a/b.txt", "urn:isbn:1", "notes", "", "é x"]
    {
        assert_eq!(known(uri), [uri]);
    }
}

#[test]
fn a_rule_holds_however_the_uri_is_written() {
    for (uri, meant) in [
        ("file:///public/../secret/a", "file:///secret/a"),
        ("file:///public/%2e%2E/secret/a", "file:///secret/a"),
        ("FILE:///%73ecret/a", "file:///secret/a"),
        ("file:////secret//a", "file:///secret/a"),
        ("docs://a/../../secret/a", "docs://a/secret/a"),
        ("file:///x/.en%76", "file:///x/.env"),
        ("file:///x/.env#top", "file:///x/.env"),
        ("file:///x/%252eenv", "file:///x/.env"),
        ("file:///x/.env;a=b", "file:///x/.env"),
        ("file:///x;y/.ENV;a=b?c", "file:///x/.env"),
        ("file:///x/.env%3Ba=b", "file:///x/.env"),
        ("file:///x/.env?raw=1", "file:///x/.env"),
        ("file:///x/.e\nnv", "file:///x/.env"),
        ("file:///x/.ENV", "file:///x/.env"),
        ("file:///x/.env/", "file:///x/.env"),
        ("file:///x/.ENV//?a", "file:///x/.env"),
        ("notes/secret/", "notes/secret"),
        ("file:///x/.ENV.local?a", "file:///x/.env.local"),
        ("Settings.ENV", "settings.env"),
    ] {
        let known = known(uri);
        assert!(known[0] == uri && known.iter().any(|form| form == meant), "{uri}: {known:?}");
    }
}

#[test]
fn no_escaping_evades_a_rule() {
    let denied = |rules: &[&str], uri: &str| {
        let mut all = vec![rule("read", "*", Action::Allow)];
        all.extend(rules.iter().map(|pattern| rule("read", &format!("mcp:docs:{pattern}"), Action::Deny)));
        let policy = Policy::new(all);
        let verdict = |pattern: &String| permission::resolve("read", pattern, &policy, &[]);
        patterns("docs", uri).iter().any(|pattern| verdict(pattern) == Action::Deny)
    };
    for (rule, uris) in [
        (
            "file:///secret/*",
            &[
                "file:///secret%2Fa",
                "file:///secret%2fa",
                "file:///%2Fsecret/a",
                "file:///a%2F..%2Fsecret/a",
                "file:///a/%2e%2e%2Fsecret/a",
                "file:///secret%252Fa",
                "file:///%252573ecret/a",
                "file:%2F%2F%2Fsecret/a",
                "file:///secret%5Ca",
                "file:///secret\\a",
                "File:///secret/./a",
                "file:///secret/a%3Fx",
                " file:///secret/a",
            ][..],
        ),
        (
            "http://host/secret*",
            &[
                "http://HOST/secret",
                "HTTP://host:80/secret",
                "http://host:0080/secret",
                "http://host./secret",
                "http://h%6Fst/secret",
                "http://host//secret",
                "http://host/x/../secret?y",
            ],
        ),
        (
            "docs://guide/secret",
            &[
                "docs://Guide/secret",
                "docs://GUIDE//secret/",
                "docs://guide/%73ecret#x",
                "docs://guide/secret%23x",
                "docs:%2f%2fguide/secret",
            ],
        ),
        ("notes/secret", &["notes/./secret", "notes%2Fsecret", "x/../notes/secret", "notes//secret/"]),
        // As it is written counts too.
        ("docs://Guide/%73ecret", &["docs://Guide/%73ecret"]),
    ] {
        for uri in uris {
            assert!(denied(&[rule], uri), "{uri} evades {rule}: {:?}", patterns("docs", uri));
        }
    }
    assert!(!denied(&["file:///secret/*"], "file:///public/secret/a"));
    assert!(!denied(&["notes/secret"], "../notes/secret"));
}

#[test]
fn endless_escapes_come_to_an_end() {
    let uri = format!("file:///%{}2e", "25".repeat(100_000));
    assert!(!patterns("docs", &uri).is_empty());
}
