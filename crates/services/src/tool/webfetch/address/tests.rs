//! Tests of [`super`].

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use futures_util::future::BoxFuture;
use reqwest::Url;
use windlass_core::config::rules::rule;
use windlass_protocol::opencode::permission::{Action, Rule};

use super::{judge, normal, readable};

/// Resolves the names of a small test network.
fn lookup(host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
    let addresses = match host.as_str() {
        "public.example" | "api.corp.example" | "github.com.evil.example" => vec!["93.184.215.14"],
        "rebind.example" | "localhost" | "localhost." | "github.com" => vec!["127.0.0.1"],
        "internal.corp.example" => vec!["10.1.2.3"],
        "mixed.example" => vec!["93.184.215.14", "192.168.0.1"],
        "six.example" => vec!["2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
        "mapped.example" => vec!["::ffff:93.184.215.14"],
        "empty.example" => vec![],
        _ => return Box::pin(async { Err(io::Error::other("no such host")) }),
    };
    Box::pin(async move { Ok(addresses.into_iter().map(|it| it.parse().expect("an address")).collect()) })
}

async fn judged(url: &str, rules: &[Rule]) -> Result<Vec<SocketAddr>, String> {
    judge(&Url::parse(url).expect("a URL"), rules, lookup).await
}

async fn check(url: &str, expected: Option<&str>) {
    match (judged(url, &[]).await, expected) {
        (Ok(_), None) => {}
        (Err(why), Some(kind)) => assert!(why.contains(kind), "{url}: {why}"),
        (found, _) => panic!("{url}: {found:?}, expected {expected:?}"),
    }
}

#[tokio::test]
async fn addresses_are_judged_however_they_are_written() {
    for (url, expected) in [
        ("http://93.184.215.14/", None),
        ("http://127.0.0.1/", Some("loopback")),
        ("http://127.255.255.254/", Some("loopback")),
        ("http://2130706433/", Some("loopback")),
        ("http://0x7f000001/", Some("loopback")),
        ("http://0x7f.1/", Some("loopback")),
        ("http://0177.0.0.1/", Some("loopback")),
        ("http://127.1/", Some("loopback")),
        ("http://１２７.0.0.1/", Some("loopback")),
        ("http://127.0.0.1./", Some("loopback")),
        ("http://%31%32%37.0.0.1/", Some("loopback")),
        ("http://0/", Some("unspecified")),
        ("http://0.0.0.0/", Some("unspecified")),
        ("http://0.1.2.3/", Some("unspecified")),
        ("http://10.0.0.1/", Some("private")),
        ("http://172.15.0.1/", None),
        ("http://172.16.0.1/", Some("private")),
        ("http://172.31.255.255/", Some("private")),
        ("http://172.32.0.1/", None),
        ("http://192.168.1.1/", Some("private")),
        ("http://0xc0a80101/", Some("private")),
        ("http://169.254.169.254/latest/meta-data/", Some("link-local")),
        ("http://100.63.255.255/", None),
        ("http://100.64.0.1/", Some("carrier-grade NAT")),
        ("http://100.127.255.255/", Some("carrier-grade NAT")),
        ("http://100.128.0.1/", None),
        ("http://224.0.0.1/", Some("multicast")),
        ("http://255.255.255.255/", Some("reserved")),
        ("http://198.18.0.1/", Some("reserved")),
        ("http://192.0.2.1/", Some("reserved")),
        ("http://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/", None),
        ("http://[::]/", Some("unspecified")),
        ("http://[::1]/", Some("loopback")),
        ("http://[0:0:0:0:0:0:0:1]/", Some("loopback")),
        ("http://[::ffff:127.0.0.1]/", Some("IPv4-mapped")),
        ("http://[::ffff:7f00:1]/", Some("IPv4-mapped")),
        ("http://[::ffff:93.184.215.14]/", Some("IPv4-mapped")),
        ("http://[::127.0.0.1]/", Some("reserved")),
        ("http://[fe80::1]/", Some("link-local")),
        ("http://[fec0::1]/", Some("site-local")),
        ("http://[fc00::1]/", Some("private")),
        ("http://[fd12:3456::1]/", Some("private")),
        ("http://[ff02::1]/", Some("multicast")),
        ("http://[64:ff9b::7f00:1]/", Some("loopback")),
        ("http://[64:ff9b::5db8:d70e]/", None),
        ("http://[64:ff9b:1::1]/", Some("reserved")),
        ("http://[2002:7f00:1::]/", Some("loopback")),
        ("http://[2002:a00:1::]/", Some("private")),
        ("http://[2001::1]/", Some("reserved")),
        ("http://[2001:db8::1]/", Some("reserved")),
    ] {
        check(url, expected).await;
    }
}

#[tokio::test]
async fn names_are_judged_by_what_they_resolve_to() {
    for (url, expected) in [
        ("https://public.example/", None),
        ("https://six.example/", None),
        ("https://rebind.example/", Some("rebind.example is at 127.0.0.1, a loopback address")),
        ("https://LOCALHOST/", Some("loopback")),
        ("https://localhost./", Some("loopback")),
        ("https://internal.corp.example/", Some("private")),
        ("https://mixed.example/", Some("192.168.0.1, a private address")),
        ("https://mapped.example/", Some("IPv4-mapped")),
        ("https://empty.example/", Some("has no address")),
        ("https://missing.example/", Some("cannot be found (no such host)")),
    ] {
        check(url, expected).await;
    }
}

#[tokio::test]
async fn connections_use_the_judged_addresses() {
    let found = judged("https://public.example:8443/x", &[]).await;
    assert_eq!(found, Ok(vec!["93.184.215.14:0".parse().expect("an address")]));
}

async fn check_rule(pattern: &str, url: &str, is_allowed: bool) {
    let rules = [rule("*", "*", Action::Allow), rule("webfetch", pattern, Action::Allow)];
    assert_eq!(judged(url, &rules).await.is_ok(), is_allowed, "{pattern} for {url}");
}

#[tokio::test]
async fn a_rule_opens_the_hosts_it_names_and_no_others() {
    for (pattern, url, is_allowed) in [
        ("http://127.0.0.1:*", "http://127.0.0.1:8080/x", true),
        ("http://127.0.0.1*", "http://127.0.0.1/x", true),
        ("http://127.0.0.1:8080/*", "http://2130706433:8080/x", true),
        ("http://127.0.0.1:8080/*", "http://127.0.0.1:9090/x", false),
        ("http://127.0.0.1:8080/*", "http://10.0.0.1:8080/", false),
        ("http://192.168.*", "http://192.168.7.7/", true),
        ("http://[::1]:*", "http://[::1]:8080/", true),
        ("http://localhost*", "http://localhost:3000/", true),
        ("http://LOCALHOST:*", "http://localhost:3000/", false),
        ("https://*.corp.example/*", "https://internal.corp.example/", true),
        ("https://github.com*", "https://github.com/x", true),
        // These patterns name no host, or another one.
        ("*", "http://127.0.0.1/", false),
        ("http*", "http://127.0.0.1/", false),
        ("http://*", "http://127.0.0.1/", false),
        ("http://*.1/*", "http://127.0.0.1/", false),
        ("http://???.0.0.1/*", "http://127.0.0.1/", false),
        ("https://*example/*", "https://rebind.example/", false),
        ("https://rebind*", "https://rebind.example/", false),
        ("https://*/*", "https://rebind.example/", false),
    ] {
        check_rule(pattern, url, is_allowed).await;
    }
}

#[tokio::test]
async fn only_an_allow_of_webfetch_opens_a_host() {
    for rule in [
        rule("*", "http://127.0.0.1/*", Action::Allow),
        rule("webfetch", "http://127.0.0.1/*", Action::Ask),
        rule("bash", "http://127.0.0.1/*", Action::Allow),
    ] {
        assert!(judged("http://127.0.0.1/x", &[rule]).await.is_err());
    }
}

#[test]
fn a_url_has_one_normal_form_for_rules() {
    for (written, expected) in [
        ("https://host/x", "https://host/x"),
        ("HTTPS://Host.:443/%73ecret", "https://host/secret"),
        ("https://host/a/%2E%2e/b/./c", "https://host/b/c"),
        ("https://host/%2f%c3%a9%7E%41", "https://host/%2F%C3%A9~A"),
        ("https://host/x?q=%41%26%3d&r#%41", "https://host/x?q=A%26%3D&r"),
        // A percent sign that is no escape does not become one.
        ("https://host/%%36%31", "https://host/%2561"),
        ("https://host/%2541%zz%4", "https://host/%2541%25zz%254"),
        ("https://host/%ff%41", "https://host/%FFA"),
        ("https://host/?", "https://host/?"),
    ] {
        let url = normal(Url::parse(written).expect("a URL"));
        assert_eq!(url.as_str(), expected, "{written}");
        assert_eq!(normal(url.clone()), url, "{written}");
    }
    let url = Url::parse("https://host/%C3%A9%20%E2%80%AE%FF").expect("a URL");
    assert_eq!(readable(&url), "https://host/é%20%E2%80%AE%FF");
}
