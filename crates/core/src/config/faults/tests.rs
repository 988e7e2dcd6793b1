//! The fault that a key suffers from.

use super::Faults;
use crate::config::Warning;

#[test]
fn a_fault_counts_for_the_keys_around_it_and_below_it() {
    let mut faults = Faults::default();
    for path in ["provider.local.options.baseURL", "agent", "providers"] {
        let warning =
            Warning { source: path.to_owned(), line: None, column: None, message: "wrong".to_owned() };
        faults.add(path.split('.').map(str::to_owned).collect(), &warning);
    }
    for (path, about) in [
        (&["provider", "local"][..], Some("provider.local.options.baseURL: wrong")),
        (&["provider", "local", "options", "baseURL"], Some("provider.local.options.baseURL: wrong")),
        (&["provider", "local", "options", "baseUrl"], Some("provider.local.options.baseURL: wrong")),
        (&["provider", "local", "models"], Some("providers: wrong")),
        (&["agent", "rev"], Some("agent: wrong")),
        (&["command", "rev"], None),
    ] {
        assert_eq!(faults.about(path), about, "{path:?}");
    }
}
