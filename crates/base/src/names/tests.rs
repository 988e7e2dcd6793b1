//! Patterns of hosts, and the addresses that a name may lead to.

use super::*;

fn names(allow: &[&str], deny: &[&str]) -> Names {
    let texts = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
    let setting = NamedNetwork { allow: texts(allow), deny: texts(deny), ..NamedNetwork::default() };
    Names::parse(&setting).expect("patterns")
}

fn judged(names: &Names, at: &str) -> &'static str {
    let (host, port) = at.rsplit_once(':').expect("a port");
    let host = Host::parse(host).expect("a host");
    match names.judge(&host, port.parse().expect("a number")) {
        Verdict::Denied => "denied",
        Verdict::Allowed { is_exact: true } => "exact",
        Verdict::Allowed { is_exact: false } => "allowed",
        Verdict::Unnamed => "unnamed",
    }
}

#[test]
fn a_pattern_matches_hosts_and_ports() {
    let names = names(
        &["crates.io", "*.npmjs.org", "db.example:5432", "localhost:8080", "[::1]:81", "bücher.example"],
        &["x.npmjs.org", "*.evil.npmjs.org", "crates.io:80"],
    );
    for (at, expected) in [
        ("crates.io:443", "exact"),
        ("CRATES.IO.:443", "exact"),
        ("crates.io:80", "denied"),
        ("crates.io:22", "unnamed"),
        ("static.crates.io:443", "unnamed"),
        ("notcrates.io:443", "unnamed"),
        ("registry.npmjs.org:443", "allowed"),
        ("a.b.npmjs.org:80", "allowed"),
        ("npmjs.org:443", "unnamed"),
        ("evilnpmjs.org:443", "unnamed"),
        ("x.npmjs.org:443", "denied"),
        ("X.npmjs.org:8443", "denied"),
        ("y.evil.npmjs.org:443", "denied"),
        ("db.example:5432", "exact"),
        ("db.example:443", "unnamed"),
        ("localhost:8080", "exact"),
        ("localhost:80", "unnamed"),
        ("::1:81", "exact"),
        ("xn--bcher-kva.example:443", "exact"),
    ] {
        let found = if at == "::1:81" { judged(&names, "[::1]:81") } else { judged(&names, at) };
        assert_eq!(found, expected, "{at}");
    }
}

#[test]
fn a_star_alone_allows_every_name_and_a_denial_holds_on_every_port() {
    let all = names(&["*"], &["a.example"]);
    assert_eq!(judged(&all, "b.example:443"), "allowed");
    assert_eq!(judged(&all, "b.example:22"), "unnamed");
    assert_eq!(judged(&all, "a.example:22"), "denied");
    let both = names(&["*.example"], &[]).and(names(&["b.example", "c.other"], &[]));
    assert_eq!(judged(&both, "b.example:443"), "allowed");
    assert_eq!(judged(&both, "a.example:443"), "unnamed");
    assert_eq!(judged(&both, "c.other:443"), "unnamed");
}

#[test]
fn hosts_are_written_in_one_way() {
    for (text, expected) in [
        ("0x7f.1", Some("127.0.0.1")),
        ("2130706433", Some("127.0.0.1")),
        ("::ffff:127.0.0.1", Some("127.0.0.1")),
        ("[::FFFF:169.254.169.254]", Some("169.254.169.254")),
        ("0:0:0:0:0:0:0:1", Some("[::1]")),
        ("A.Example.", Some("a.example")),
        ("a.example:80", None),
        ("a@b.example", None),
        ("a.example/x", None),
        ("a%2eexample", None),
        ("a b", None),
        ("*", None),
        ("*.a.example", None),
        ("a.example;x", None),
        ("a..example", None),
        ("0x5d.184.215.14..", Some("93.184.215.14")),
        ("0x5d.184.215.14.", Some("93.184.215.14")),
        ("a.example\u{3002}", None),
        ("fe80::1%eth0", None),
        ("", None),
        (".", None),
    ] {
        assert_eq!(Host::parse(text).as_ref().map(Host::as_str), expected, "{text}");
    }
}

/// Returns lists that allow everything and give keys.
fn giving(keys: &[(&str, &[&str])]) -> Result<Names, String> {
    let texts = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
    let keys = keys.iter().map(|(variable, hosts)| ((*variable).to_owned(), texts(hosts))).collect();
    Names::parse(&NamedNetwork { allow: vec!["*".to_owned()], keys, ..NamedNetwork::default() })
}

#[test]
fn a_key_is_for_hosts_that_every_list_names_and_for_no_wildcard_of_all() {
    let both = giving(&[("A", &["a.example", "*.b.example"]), ("B", &["a.example"])]).expect("lists");
    let given = |names: &Names, variable: &str, host: &str, port: u16| {
        names.gives(variable, &Host::parse(host).expect("a host"), port)
    };
    for (variable, host, port, expected) in [
        ("A", "a.example", 443, true),
        ("A", "a.example", 80, false),
        ("A", "x.b.example", 443, true),
        ("A", "c.example", 443, false),
        ("C", "a.example", 443, false),
    ] {
        assert_eq!(given(&both, variable, host, port), expected, "{variable} to {host}:{port}");
    }
    let fewer = both.clone().and(giving(&[("A", &["a.example:443", "a.example:8443"])]).expect("lists"));
    assert_eq!(fewer.keys().collect::<Vec<_>>(), ["A"]);
    assert!(given(&fewer, "A", "a.example", 443) && !given(&fewer, "A", "x.b.example", 443));
    assert!(!given(&fewer, "A", "a.example", 8443));
    assert_eq!(
        both.gives_more_than(Some(&giving(&[("A", &["a.example"])]).expect("lists"))),
        ["gives A to *.b.example:443", "gives B to a.example:443",]
    );
    for refused in [("A", &["*"][..]), ("A", &["a/b"]), ("", &["a.example"])] {
        assert!(giving(&[refused]).is_err(), "{refused:?}");
    }
}

#[test]
fn what_is_no_pattern_is_named() {
    for text in [
        "a*.example",
        "*.*.example",
        "*.127.0.0.1",
        "a.example:0",
        "a.example:http",
        "",
        "https://a.example",
        "a.example:",
        "fe80::1:80",
        "[]",
        "[a.example]",
        "a..example",
        ".example",
        "a example",
    ] {
        let setting = NamedNetwork { allow: vec![text.to_owned()], ..NamedNetwork::default() };
        assert_eq!(Names::parse(&setting), Err(text.to_owned()));
    }
}

#[test]
fn a_name_leads_to_private_addresses_only_where_it_is_named_exactly() {
    for (host, is_exact, address, expected) in [
        ("a.example", false, "93.184.215.14", None),
        ("a.example", false, "10.1.2.3", Some("private")),
        ("a.example", true, "10.1.2.3", None),
        ("a.example", true, "fd00::1", None),
        ("a.example", true, "fd00:ec2::254", Some("a metadata service")),
        ("a.example", true, "100.100.100.200", Some("a metadata service")),
        ("168.63.129.16", false, "168.63.129.16", Some("a metadata service")),
        ("168.63.129.16", true, "168.63.129.16", None),
        ("a.example", true, "127.0.0.1", Some("loopback")),
        ("a.example", true, "::1", Some("loopback")),
        ("a.example", true, "169.254.169.254", Some("link-local")),
        ("a.example", true, "::ffff:169.254.169.254", Some("link-local")),
        ("a.example", true, "64:ff9b::7f00:1", Some("loopback")),
        ("a.example", true, "0.0.0.0", Some("unspecified")),
        ("localhost", true, "127.0.0.1", None),
        ("localhost", false, "127.0.0.1", Some("loopback")),
        ("localhost", true, "10.0.0.1", Some("private")),
        ("169.254.169.254", true, "169.254.169.254", None),
        ("169.254.169.254", false, "169.254.169.254", Some("link-local")),
    ] {
        let found = [SocketAddr::new(address.parse().expect("an address"), 443)];
        let checked = Host::parse(host).expect("a host").check(is_exact, &found);
        assert_eq!(checked.err().map(|(_, kind)| kind), expected, "{host} at {address}, exact: {is_exact}");
    }
}

#[test]
fn a_wider_list_says_what_it_adds() {
    for (old, new, expected) in [
        (names(&["*.a.example"], &[]), names(&["*.b.a.example"], &[]), &[][..]),
        (names(&["a.example"], &[]), names(&["a.example", "b.example"], &[]), &["reaches b.example:80,443"]),
        (names(&["*"], &[]), names(&["localhost"], &[]), &["reaches localhost:80,443"]),
        (names(&["*"], &["a.example"]), names(&["*"], &[]), &["no longer denies a.example"]),
        (names(&["*"], &["a.example"]), names(&["*"], &["*.example", "a.example"]), &[]),
        (names(&["a.example"], &[]), names(&["a.example:22"], &[]), &["reaches a.example:22"]),
    ] {
        assert_eq!(new.wider_than(&old), expected, "{old:?} to {new:?}");
    }
}
