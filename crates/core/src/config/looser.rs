//! Compares two policies: finds the texts that the new one allows more readily than the old one.

use std::fmt;

use windlass_protocol::opencode::permission::{Action, Rule};

use super::{
    policy::{Layer, Origin, Policy},
    rules::{covers, strictest, wildcard},
};

/// Something that the new policy may treat less strictly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loosened {
    pub permission: String,
    pub pattern: String,
    /// The words for the earlier and the present action.
    pub before: &'static str,
    pub after: &'static str,
}

impl fmt::Display for Loosened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { permission, pattern, before, after } = self;
        write!(formatter, "`{permission}` for `{pattern}`: {before} → {after}")
    }
}

/// Returns everything that `new` may treat less strictly than `old`. Patterns are compared as such, so a list that was
/// rearranged can be named although no text is treated otherwise; nothing that is looser is missing.
pub fn looser(old: &Policy, new: &Policy) -> Vec<Loosened> {
    let mut acc: Vec<Loosened> = Vec::new();
    for (idx, layer) in old.layers().iter().enumerate() {
        let n_before = old.layers()[..idx].iter().filter(|it| it.origin == layer.origin).count();
        let successor = new.layers().iter().filter(|it| it.origin == layer.origin).nth(n_before);
        if successor.is_some_and(|it| it.rules == layer.rules) {
            continue;
        }
        let before = entries(layer.origin, &layer.rules);
        let after = entries(layer.origin, successor.map_or(&[], |it| &it.rules));
        let is_other = |it: &&Layer| !successor.is_some_and(|successor| std::ptr::eq(*it, successor));
        let others: Vec<Vec<Entry>> =
            new.layers().iter().filter(is_other).map(|it| entries(it.origin, &it.rules)).collect();
        for (found, old_idx) in looser_list(&before, &after) {
            let is_held = others.iter().any(|other| holds(other, found, &before, old_idx));
            let loosened = Loosened {
                permission: found.permission.to_owned(),
                pattern: found.pattern.to_owned(),
                before: before[old_idx].action.name(),
                after: found.action.name(),
            };
            if !is_held && !acc.contains(&loosened) {
                acc.push(loosened);
            }
        }
    }
    acc
}

/// A rule, or the action of a layer where none of its rules matches.
#[derive(Debug, Clone, Copy)]
struct Entry<'a> {
    permission: &'a str,
    pattern: &'a str,
    action: Action,
}

impl Entry<'_> {
    fn covers(&self, other: &Entry<'_>) -> bool {
        covers(self.permission, other.permission) && covers(self.pattern, other.pattern)
    }

    fn may_meet(&self, other: &Entry<'_>) -> bool {
        may_meet(self.permission, other.permission) && may_meet(self.pattern, other.pattern)
    }

    fn is_stricter_than(&self, other: Action) -> bool {
        self.action != other && strictest(self.action, other) == self.action
    }
}

/// Returns the rules of a layer behind the one that stands for no rule.
fn entries(origin: Origin, rules: &[Rule]) -> Vec<Entry<'_>> {
    let action = match origin {
        Origin::Agent => Action::Ask,
        Origin::Floor | Origin::Administrator | Origin::Above => Action::Allow,
    };
    let rules = rules.iter().map(|rule| Entry {
        permission: &rule.permission,
        pattern: &rule.pattern,
        action: rule.action,
    });
    std::iter::once(Entry { permission: "*", pattern: "*", action }).chain(rules).collect()
}

/// Returns the texts that a new rule decides and that an old one, which is returned by its place, decided more
/// strictly.
fn looser_list<'a>(before: &[Entry<'a>], after: &[Entry<'a>]) -> Vec<(Entry<'a>, usize)> {
    let is_dead = |list: &[Entry<'_>], idx: usize| list[idx + 1..].iter().any(|it| it.covers(&list[idx]));
    // The last new rule that decides everything that an old one is about, so that no earlier one does.
    let decided: Vec<Option<usize>> =
        before.iter().map(|old| after.iter().rposition(|new| new.covers(old))).collect();
    let dead: Vec<bool> = (0..before.len()).map(|idx| is_dead(before, idx)).collect();
    let mut found = Vec::new();
    for (new_idx, new) in after.iter().enumerate() {
        if new.action == Action::Deny || is_dead(after, new_idx) {
            continue;
        }
        for (old_idx, old) in before.iter().enumerate().rev() {
            let is_decided_later = decided[old_idx] > Some(new_idx);
            let counts = !dead[old_idx] && !is_decided_later && old.is_stricter_than(new.action);
            if counts && old.may_meet(new) {
                found.push((narrower(new, old), old_idx));
            }
            if old.covers(new) {
                break;
            }
        }
    }
    found
}

/// Returns true if another layer of the new policy is at least as strict as the old rule wherever that one decided.
fn holds(other: &[Entry<'_>], found: Entry<'_>, before: &[Entry<'_>], old_idx: usize) -> bool {
    let old = before[old_idx];
    !other.iter().enumerate().any(|(idx, entry)| {
        let shared = narrower(entry, &found);
        let is_decided = |later: &[Entry<'_>]| later.iter().any(|it| it.covers(&shared));
        old.is_stricter_than(entry.action)
            && entry.may_meet(&found)
            && !is_decided(&other[idx + 1..])
            && !is_decided(&before[old_idx + 1..])
    })
}

/// Returns a rule that is about at least the texts that two rules have in common, with the action of the first.
fn narrower<'a>(one: &Entry<'a>, other: &Entry<'a>) -> Entry<'a> {
    let choose = |one: &'a str, other: &'a str| if covers(one, other) { other } else { one };
    Entry {
        permission: choose(one.permission, other.permission),
        pattern: choose(one.pattern, other.pattern),
        action: one.action,
    }
}

/// Returns false if surely no text matches both patterns.
fn may_meet(one: &str, other: &str) -> bool {
    const WILD: [char; 2] = ['*', '?'];
    let head = |pattern: &str| {
        let end = pattern.find(WILD).unwrap_or(pattern.len());
        // A trailing ` *` may be absent.
        let end = if pattern[..end].ends_with(' ') && &pattern[end..] == "*" { end - 1 } else { end };
        pattern[..end].replace('\\', "/")
    };
    if !one.contains(WILD) {
        return wildcard(other, one);
    }
    if !other.contains(WILD) {
        return wildcard(one, other);
    }
    let (one, other) = (head(one), head(other));
    one.starts_with(&other) || other.starts_with(&one)
}

#[cfg(test)]
mod tests;
