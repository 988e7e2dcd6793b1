//! The patterns of a resource in rules.

use super::patterns;

fn known(uri: &str) -> Vec<String> {
    let known = patterns("docs", uri);
    known.iter().map(|pattern| pattern.strip_prefix("mcp:docs:").expect("named").to_owned()).collect()
}

#[test]
fn a_plain_uri_is_one_pattern() {
    for uri in ["docs://guide", "docs://Guide/Intro.md", "file:///a/b.txt", "urn:isbn:1", "notes", "", "é x"]
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
