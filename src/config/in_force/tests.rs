//! That what is shown of rules decides as the rules do, and who is named for it.

use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_protocol::opencode::permission::Rule;

use super::show;
use crate::config::{
    Findings, Managed,
    check::check as check_layer,
    layer::{Kind, Layer},
    merge::merged,
    rules::{deciding, granted, impose, read_rules, rules_of},
    sources::{leaves, render},
};

const HOME: &str = "/home/u";

/// Layers of the user and, the last, of an administrator; and what the administrator's says.
fn layers(own: &[Value], managed: &Value) -> (Vec<Layer>, Managed) {
    let user = own.iter().enumerate().map(|(idx, value)| (Kind::File, format!("user{idx}"), value));
    let all = user.chain([(Kind::Managed, "managed".to_owned(), managed)]);
    let layers = all.map(|(kind, source, value)| {
        let mut layer = Layer::new(kind, &source, Path::new("/"), value.as_object().unwrap().clone());
        check_layer(&mut layer, &mut Findings::default());
        layer
    });
    let layers: Vec<Layer> = layers.collect();
    let said = &layers.last().unwrap().value;
    let agents = said.get("agent").and_then(Value::as_object).into_iter().flatten();
    let rules = |owner: &Value| rules_of(owner.as_object().unwrap(), Path::new(HOME));
    let agents = agents.map(|(name, agent)| (name.clone(), rules(agent))).collect();
    let managed = Managed { general: rules_of(said, Path::new(HOME)), agents };
    (layers, managed)
}

fn shown(own: &[Value], managed: &Value) -> (Map<String, Value>, Vec<Layer>) {
    let (layers, managed) = layers(own, managed);
    let mut raw = merged(&layers);
    show(&mut raw, &layers, &managed, Path::new(HOME));
    (raw, layers)
}

#[track_caller]
fn check(own: Value, managed: Value, expected: Value, sources: &str) {
    let (raw, layers) = shown(&[own], &managed);
    assert_eq!(Value::Object(raw.clone()).to_string(), expected.to_string());
    assert_eq!(render(&leaves(&raw, &layers), false), sources);
}

#[test]
fn whoever_is_stricter_is_shown_and_named_first() {
    check(
        json!({"permission": {"bash": "deny", "edit": "allow"}}),
        json!({"permission": {"bash": "allow", "edit": "ask"}}),
        json!({"permission": {"bash": "deny", "edit": "ask"}}),
        "permission.bash = \"deny\"\n    user0\n    over managed: \"allow\"\n\
         permission.edit = \"ask\"\n    managed\n    over user0: \"allow\"\n",
    );
    // What is stricter for a part stands behind the administrator's, what is looser is gone.
    check(
        json!({"permission": {"bash": {"*": "allow", "git *": "allow", "rm *": "deny"}}}),
        json!({"permission": {"bash": "ask"}}),
        json!({"permission": {"bash": {"*": "ask", "rm *": "deny"}}}),
        "permission.bash.* = \"ask\"\n    managed\n    over user0: \"allow\"\n\
         permission.bash.rm * = \"deny\"\n    user0\n    over managed: \"ask\"\n"
            .replace("bash.rm *", "bash.\"rm *\"")
            .as_str(),
    );
}

#[test]
fn switches_of_tools_are_shown_as_the_rules_that_they_are() {
    check(
        json!({"permission": {"bash": "allow"}, "tools": {"webfetch": false}}),
        json!({"tools": {"bash": false, "webfetch": true}}),
        json!({"permission": {"bash": "deny", "webfetch": "deny"}}),
        "permission.bash = \"deny\"\n    managed\n    over user0: \"allow\"\n\
         permission.webfetch = \"deny\"\n    user0\n",
    );
}

#[test]
fn an_agents_rules_are_shown_as_they_hold_too() {
    check(
        json!({"agent": {"build": {"permission": {"bash": "allow"}}, "other": {"permission": {"edit": "deny"}}}}),
        json!({"permission": {"bash": "deny"}, "agent": {"plan": {"permission": {"bash": "allow"}}}}),
        json!({
            "agent": {
                "build": {"permission": {"bash": "deny"}},
                "other": {"permission": {"edit": "deny"}},
                "plan": {"permission": {"bash": "allow"}},
            },
            "permission": {"bash": "deny"},
        }),
        "agent.build.permission.bash = \"deny\"\n    managed\n    over user0: \"allow\"\n\
         agent.other.permission.edit = \"deny\"\n    user0\n\
         agent.plan.permission.bash = \"allow\"\n    managed\n\
         permission.bash = \"deny\"\n    managed\n",
    );
    // What the administrator allows an agent is no more than the user does.
    let (raw, _) = shown(
        &[json!({"permission": {"edit": {"*.lock": "deny"}}})],
        &json!({"agent": {"plan": {"permission": {"edit": "allow"}}}}),
    );
    assert_eq!(raw["agent"]["plan"]["permission"], json!({"edit": {"*": "allow", "*.lock": "deny"}}));
}

#[test]
fn patterns_of_the_home_stay_as_they_are_written() {
    let (raw, _) = shown(
        &[json!({"permission": {"external_directory": {"~/work/*": "allow", "$HOME/x": "deny"}}})],
        &json!({"permission": {"external_directory": {"/home/u/work/secret": "deny"}}}),
    );
    let expected = json!({"external_directory": {"~/work/*": "allow", "$HOME/x": "deny", "/home/u/work/secret": "deny"}});
    assert_eq!(raw["permission"].to_string(), expected.to_string());
}

#[test]
fn without_an_administrators_rules_everything_stays_as_it_is_said() {
    let own =
        json!({"tools": {"bash": true}, "permission": {"edit": {"b": "ask", "*": "allow"}, "*": "ask"}});
    let (raw, _) =
        shown(std::slice::from_ref(&own), &json!({"share": "disabled", "agent": {"a": {"mode": "all"}}}));
    assert_eq!((&raw["permission"], &raw["tools"]), (&own["permission"], &own["tools"]));
}

#[test]
fn what_is_shown_decides_as_the_rules_do() {
    let permissions = ["*", "bash", "b*", "edit"];
    let patterns = ["*", "git *", "git log *", "git log -x", "rm *", "*--force*", "*.env"];
    let texts =
        ["git", "git log", "git log -x", "git log --force", "rm --force", "rm .env", "ls", "git x.env"];
    let mut state = 1_u64;
    let mut pick = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut said = |n: usize| -> Value {
        let mut permission = Map::new();
        for _ in 0..n {
            let action = json!(["allow", "ask", "deny"][pick(3)]);
            let name = permissions[pick(permissions.len())];
            let of_name = permission.entry(name).or_insert_with(|| json!({}));
            of_name.as_object_mut().unwrap().insert(patterns[pick(patterns.len())].to_owned(), action);
        }
        Value::Object(permission)
    };
    for round in 0..1500 {
        let own = json!({"permission": said(3), "agent": {"a": {"permission": said(2)}}});
        let managed = json!({"permission": said(round % 3), "agent": {"a": {"permission": said(round % 4)}}});
        let (raw, layers) = shown(std::slice::from_ref(&own), &managed);
        let (_, rules) = self::layers(std::slice::from_ref(&own), &managed);
        let read = |value: &Value| read_rules(value, Path::new(HOME)).0;
        let own_general = read(&own["permission"]);
        let own_agent = read(&own["agent"]["a"]["permission"]);
        let general = [rules.general.clone(), own_general.clone()].concat();
        let mut in_force = general.clone();
        impose(&mut in_force, &rules.general);
        let granted = granted(&[own_general, own_agent.clone()].concat(), &rules.agents["a"]);
        let mut of_agent = [general, granted, own_agent].concat();
        impose(&mut of_agent, &rules.rules("a"));
        let shown_general = read(&raw["permission"]);
        let shown_agent = [shown_general.clone(), read(&raw["agent"]["a"]["permission"])].concat();
        for (permission, text) in
            ["bash", "bush", "edit", "read"].iter().flat_map(|it| texts.map(|text| (it, text)))
        {
            let verdict = |rules: &[Rule]| deciding(permission, text, rules.iter()).map(|rule| rule.action);
            let place = format!("{permission} {text}: {own} under {managed} is shown as {}", json!(raw));
            assert_eq!(verdict(&shown_general), verdict(&in_force), "{place}");
            assert_eq!(verdict(&shown_agent), verdict(&of_agent), "as agent: {place}");
        }
        for leaf in leaves(&raw, &layers) {
            assert!(!leaf.said_by.is_empty(), "{leaf:?} of {own} under {managed}");
        }
    }
}
