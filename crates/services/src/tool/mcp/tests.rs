//! Rules for all resources.

use windlass_core::config::{policy::Policy, rules::rule};
use windlass_protocol::opencode::permission::Action;

use super::{is_denied, pattern, remembered};

#[test]
fn a_rule_about_files_opens_no_resources() {
    let allowed = |pattern| rule("read", pattern, Action::Allow);
    let none = rule("read", "*", Action::Deny);
    assert!(!is_denied(&Policy::default()));
    assert!(is_denied(&Policy::new(vec![none.clone()])));
    assert!(is_denied(&Policy::new(vec![
        none.clone(),
        allowed("/data/tool-output/*"),
        allowed("docs/*"),
        allowed("mcp/x")
    ])));
    for pattern in ["*", "mcp:docs:*", "mcp:*", "m*", "?cp:docs:a", "mcp:docs:docs://guide"] {
        assert!(!is_denied(&Policy::new(vec![none.clone(), allowed(pattern)])), "{pattern}");
    }
    assert!(is_denied(&Policy::new(vec![allowed("mcp:docs:*"), none])));
}

#[test]
fn a_rule_for_a_server_does_not_match_longer_names() {
    assert_eq!(pattern("docs", "a:b"), "mcp:docs:a:b");
    assert_eq!(pattern("docs:old", "a:b"), "mcp:docs_old:a:b");
}

#[test]
fn a_name_that_would_mean_other_servers_is_not_remembered() {
    let patterns = ["mcp:docs:*".to_owned(), "mcp:d?cs:*".to_owned()];
    assert_eq!(remembered(&patterns[..1]), patterns[..1]);
    assert!(remembered(&patterns[1..]).is_empty());
    assert!(remembered(&patterns).is_empty());
}
