//! Finds commands that rules let through while others ask, and the places that they may write: those of `edit`.

use std::path::{Path, PathBuf};

use windlass_core::{
    config::{Config, policy::Policy, sandbox::Writes},
    permission::{self, Ask, Verdict},
};
use windlass_protocol::opencode::permission::{Action, Rule};

/// A name that no rule means: a rule about it is about everything else.
const ANYTHING: &str = "\0";

/// The source of a command's leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LetThrough {
    Rules,
    /// The user, after having seen one like it and said that all of them may run: where `edit` asks, they may write.
    Always,
}

/// Returns the source of the whole line's leave; none if somebody is asked about it, or about no command at all.
pub(super) fn let_through(asks: &[(Ask, bool)], policy: &Policy, answers: &[Rule]) -> Option<LetThrough> {
    if policy.evaluate("bash", ANYTHING) == Action::Allow {
        return None;
    }
    let is_allowed = |answers: &[Rule]| {
        let is_unasked = |(ask, is_opaque): &(Ask, bool)| {
            !is_opaque && permission::evaluate_all(ask, policy, answers) == Verdict::Allow
        };
        asks.iter().any(|(ask, _)| ask.permission == "bash") && asks.iter().all(is_unasked)
    };
    if is_allowed(&[]) { Some(LetThrough::Rules) } else { is_allowed(answers).then_some(LetThrough::Always) }
}

/// Returns the places that such a command may write to. A rule that speaks of no place, such as `*.lock`, closes all.
pub(super) fn writes(config: &Config, policy: &Policy, answers: &[Rule], by: LetThrough) -> Writes {
    let may_ask = by == LetThrough::Always;
    let is_allowed = |pattern: &str| match permission::resolve("edit", pattern, policy, answers) {
        Action::Allow => true,
        Action::Ask => may_ask,
        Action::Deny => false,
    };
    // With each place a name that stands for all that is meant there.
    let (mut places, mut kept) = (Vec::new(), Vec::new());
    for layer in policy.layers() {
        // Rules before one for everything say nothing.
        let about = layer.about("edit");
        for rule in about.iter().rev().take_while(|rule| rule.pattern != "*") {
            match (place(&config.worktree, &rule.pattern), rule.action) {
                (_, Action::Ask) if may_ask => {}
                (Some(place), Action::Allow) => places.push(place),
                (Some((path, _)), Action::Ask | Action::Deny) => kept.push(path),
                (None, Action::Allow) => {}
                (None, Action::Ask | Action::Deny) => return Writes::default(),
            }
        }
    }
    if is_allowed(ANYTHING) {
        return Writes { is_project: true, places: Vec::new(), kept };
    }
    places.retain(|(_, inside)| is_allowed(inside));
    Writes { is_project: false, places: places.into_iter().map(|(path, _)| path).collect(), kept }
}

/// Returns the file or directory of a rule, and a name in it; none for a rule that means names anywhere.
fn place(worktree: &Path, pattern: &str) -> Option<(PathBuf, String)> {
    // As rules match.
    let pattern = pattern.replace('\\', "/");
    let directory = ["/**/*", "/**", "/*"].iter().find_map(|suffix| pattern.strip_suffix(suffix));
    let named = directory.unwrap_or(&pattern);
    let inside = directory.map_or_else(|| named.to_owned(), |it| format!("{it}/{ANYTHING}"));
    (!named.is_empty() && !named.contains(['*', '?'])).then(|| (worktree.join(named), inside))
}

#[cfg(test)]
mod tests {
    //! Lines that are let through, and the places that they may then write.

    use serde_json::{Value, json};

    use super::*;
    use windlass_core::config::{Environment, fixture, paths::Paths, rules::rules_from_config};

    fn policy(rules: &Value) -> Policy {
        Policy::new(rules_from_config(rules, Path::new("/home/u")).expect("rules"))
    }

    fn ask(permission: &str, pattern: &str) -> (Ask, bool) {
        let patterns = vec![pattern.to_owned()];
        let always = Vec::new();
        (Ask { permission: permission.to_owned(), patterns, always, metadata: Default::default() }, false)
    }

    #[test]
    fn a_line_is_let_through_where_another_would_be_asked_about() {
        let some = json!({"bash": {"*": "ask", "git log *": "allow"}, "edit": "ask"});
        let always =
            rules_from_config(&json!({"bash": {"cargo *": "allow"}}), Path::new("/")).expect("rules");
        for (rules, asks, expected) in [
            (json!("allow"), vec![ask("bash", "git log -p")], None),
            (json!({"*": "allow", "bash": {"rm *": "deny"}}), vec![ask("bash", "git log -p")], None),
            (some.clone(), vec![ask("bash", "git log -p")], Some(LetThrough::Rules)),
            (some.clone(), vec![ask("bash", "cargo test")], Some(LetThrough::Always)),
            (some.clone(), vec![ask("bash", "make")], None),
            (some.clone(), vec![ask("edit", "a.txt"), ask("bash", "git log -p")], None),
            (some.clone(), vec![ask("edit", "a.txt")], None),
            (some.clone(), vec![(ask("bash", "git log -p").0, true)], None),
        ] {
            let found = let_through(&asks, &policy(&rules), &always);
            assert_eq!(found, expected, "{rules} of {asks:?}");
        }
    }

    #[test]
    fn it_writes_what_edit_may_write_unasked() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(temp.path().join(".git")).expect("created");
        let environment = Environment { home: temp.path().join("home"), ..Environment::default() };
        let config = fixture::load(&environment, &Paths::new(&environment), temp.path());
        for (edit, by, is_project, places, kept) in [
            (json!("allow"), LetThrough::Rules, true, vec![], vec![]),
            (json!("ask"), LetThrough::Rules, false, vec![], vec![]),
            (json!("ask"), LetThrough::Always, true, vec![], vec![]),
            (json!("deny"), LetThrough::Always, false, vec![], vec![]),
            (json!({"*": "ask", "docs/**": "allow"}), LetThrough::Rules, false, vec!["docs"], vec![]),
            (
                json!({"*": "ask", "docs/**": "allow", "docs/x": "deny"}),
                LetThrough::Rules,
                false,
                vec!["docs"],
                vec!["docs/x"],
            ),
            (json!({"*": "allow", "keys/*": "ask"}), LetThrough::Rules, true, vec![], vec!["keys"]),
            (json!({"*": "allow", "keys/*": "ask"}), LetThrough::Always, true, vec![], vec![]),
            (json!({"*": "allow", "keys\\x": "deny"}), LetThrough::Rules, true, vec![], vec!["keys/x"]),
            (json!({"*": "ask", "TODO.md": "allow"}), LetThrough::Rules, false, vec!["TODO.md"], vec![]),
            (json!({"keys/*": "ask", "*": "allow"}), LetThrough::Rules, true, vec![], vec![]),
            // No place: nothing is written.
            (json!({"*": "allow", "*.lock": "ask"}), LetThrough::Rules, false, vec![], vec![]),
            (json!({"*": "ask", "*.md": "allow"}), LetThrough::Rules, false, vec![], vec![]),
        ] {
            let below = |names: Vec<&str>| names.into_iter().map(|name| config.worktree.join(name)).collect();
            let expected = Writes { is_project, places: below(places), kept: below(kept) };
            let found = writes(&config, &policy(&json!({"edit": edit})), &[], by);
            assert_eq!(found, expected, "{edit} by {by:?}");
        }
    }
}
