//! The names and addresses that are announced.

use super::{host_name, service};

#[test]
fn a_server_is_announced_in_the_form_of_opencode() {
    let one = service("192.0.2.7:4096".parse().unwrap(), "opencode.local.").unwrap();
    assert_eq!(one.get_fullname(), "opencode-4096._http._tcp.local.");
    assert_eq!((one.get_hostname(), one.get_port()), ("opencode.local.", 4096));
    assert_eq!(one.get_property_val_str("path"), Some("/"));
    assert_eq!(
        one.get_addresses_v4().into_iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["192.0.2.7"]
    );
    assert!(!one.is_addr_auto());
    let all = service("0.0.0.0:4096".parse().unwrap(), "opencode.local.").unwrap();
    assert!(all.is_addr_auto() && all.get_addresses_v4().is_empty());
}

#[test]
fn only_names_of_the_local_network_can_be_announced() {
    for (text, expected) in [
        ("opencode.local", Some("opencode.local.")),
        ("a.b.local.", Some("a.b.local.")),
        (".local", None),
        ("local", None),
        ("a..local", None),
        ("opencode.example", None),
        ("", None),
    ] {
        assert_eq!(host_name(text).as_deref(), expected, "{text}");
    }
    assert_eq!(host_name(&format!("{}.local", "a".repeat(64))), None);
}
