//! What the configuration shows of rules where an administrator has some: those that decide, whoever says them.

use std::{collections::HashMap, path::Path};

use serde_json::{Map, Value};
use windlass_protocol::opencode::permission::{Action, Rule};

use super::{
    Managed,
    layer::{Kind, Layer},
    merge::merged,
    rules::{covers, expand_home, granted, impose, meets, rules_of},
};

/// Puts the rules that decide in the places of the merged `permission`s and `tools`, also of agents.
pub fn show(raw: &mut Map<String, Value>, layers: &[Layer], managed: &Managed, home: &Path) {
    if managed.general.is_empty() && managed.agents.is_empty() {
        return;
    }
    let own = merged(layers.iter().filter(|layer| layer.kind != Kind::Managed));
    let written = written(layers, home);
    let general = [managed.general.clone(), rules_of(&own, home)].concat();
    if !managed.general.is_empty() {
        let mut rules = general.clone();
        impose(&mut rules, &managed.general);
        put(raw, &rules, &written);
    }
    for (name, agent) in raw.get_mut("agent").and_then(Value::as_object_mut).into_iter().flatten() {
        let said = own.get("agent").and_then(|agents| agents.get(name)?.as_object());
        let said = said.map(|agent| rules_of(agent, home)).unwrap_or_default();
        let of_agent = managed.agents.get(name).map(Vec::as_slice).unwrap_or_default();
        let concerns = |held: &Rule| said.iter().any(|rule| meets(&rule.permission, &held.permission));
        if of_agent.is_empty() && !managed.general.iter().any(concerns) {
            continue;
        }
        let Value::Object(agent) = agent else { continue };
        let own_rules = [general.get(managed.general.len()..).unwrap_or_default(), &said].concat();
        let mut rules = [general.clone(), granted(&own_rules, of_agent), said].concat();
        impose(&mut rules, &managed.rules(name));
        put(agent, rules.get(general.len()..).unwrap_or_default(), &written);
    }
}

fn put(owner: &mut Map<String, Value>, rules: &[Rule], written: &HashMap<String, String>) {
    owner.shift_remove("tools");
    owner.insert("permission".to_owned(), as_config(rules, written));
}

/// Rules as a `permission` value that means the same.
///
/// A permission stands in it once, and the rules of a wider one decide for it too; so each has all that the list says
/// of it, behind the wider ones, and only what those do not say already.
fn as_config(rules: &[Rule], written: &HashMap<String, String>) -> Value {
    let mut names: Vec<&str> = Vec::new();
    for rule in rules {
        if !names.contains(&rule.permission.as_str()) {
            names.push(&rule.permission);
        }
    }
    let n_wider = |name: &str| names.iter().filter(|other| covers(other, name)).count();
    let mut ordered = names.clone();
    ordered.sort_by_key(|name| n_wider(name));
    let mut shown: Vec<(&str, Vec<(&str, Action)>)> = Vec::new();
    let mut value = Map::new();
    for name in ordered {
        let mut said: Vec<(&str, Action)> = Vec::new();
        for rule in rules.iter().filter(|rule| covers(&rule.permission, name)) {
            said.retain(|(pattern, _)| !covers(&rule.pattern, pattern));
            let before = said.iter().rev().find(|(pattern, _)| meets(pattern, &rule.pattern));
            let is_said =
                |(pattern, action): &(&str, Action)| *action == rule.action && covers(pattern, &rule.pattern);
            if !before.is_some_and(is_said) {
                said.push((&rule.pattern, rule.action));
            }
        }
        let wider = shown.iter().rev().find(|(wider, _)| covers(wider, name));
        let said_already = wider.map(|(_, said)| said.as_slice()).unwrap_or_default();
        let new = said.strip_prefix(said_already).unwrap_or(&said);
        let action = |action: Action| Value::from(action.name());
        match new {
            [] => {}
            [("*", one)] => {
                value.insert(name.to_owned(), action(*one));
            }
            new => {
                let key = |pattern: &str| written.get(pattern).map_or(pattern, String::as_str).to_owned();
                let patterns = new.iter().map(|(pattern, it)| (key(pattern), action(*it)));
                value.insert(name.to_owned(), Value::Object(patterns.collect()));
            }
        }
        shown.push((name, said));
    }
    Value::Object(value)
}

/// Patterns that begin with the home directory, as somebody wrote them.
fn written(layers: &[Layer], home: &Path) -> HashMap<String, String> {
    let mut written = HashMap::new();
    for layer in layers {
        let agents = layer.value.get("agent").and_then(Value::as_object).into_iter().flatten();
        let owners = std::iter::once(&layer.value).chain(agents.filter_map(|(_, agent)| agent.as_object()));
        let permissions = owners.filter_map(|owner| owner.get("permission")?.as_object());
        let patterns = permissions.flatten().filter_map(|(_, actions)| actions.as_object()).flatten();
        for (pattern, _) in patterns.filter(|(pattern, _)| pattern.starts_with(['~', '$'])) {
            written.insert(expand_home(pattern, home), pattern.clone());
        }
    }
    written
}

#[cfg(test)]
mod tests;
