//! Names of forks.

use super::*;

#[test]
fn the_title_counts_forks() {
    for (before, after) in [
        ("Bees", "Bees (fork #1)"),
        ("Bees (fork #1)", "Bees (fork #2)"),
        ("Bees (fork #x)", "Bees (fork #x) (fork #1)"),
        ("Bees (new)", "Bees (new) (fork #1)"),
    ] {
        assert_eq!(title(before), after);
    }
}
