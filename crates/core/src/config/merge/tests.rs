//! Merging of layers: a row for each rule, with the layer that set each value.

use std::path::Path;

use serde_json::{Value, json};

use crate::config::{
    Findings,
    check::check,
    layer::{Kind, Layer},
    normalize::normalize,
    sources::{leaves, render},
};

use super::merged;

/// A rule, layers from the weakest on, their merged value, and each value with the layers that say it, strongest first.
struct Row {
    rule: &'static str,
    layers: Vec<Value>,
    merged: Value,
    sources: &'static str,
}

/// Layers as they are read: lowered and checked, named 0, 1, …
fn layers(values: &[Value]) -> Vec<Layer> {
    let mut findings = Findings::default();
    let read = |(idx, value): (usize, &Value)| {
        let value = value.as_object().unwrap().clone();
        let mut layer = Layer::new(Kind::File, &idx.to_string(), Path::new("/"), value);
        normalize(&mut layer, &mut findings);
        check(&mut layer, &mut findings);
        layer
    };
    let layers = values.iter().enumerate().map(read).collect();
    assert_eq!(findings.warnings, []);
    layers
}

/// Renders `key=value<0<1`: the value of a path and the layers that set it, the strongest first.
fn sources(layers: &[Layer]) -> String {
    let leaves = leaves(&merged(layers), layers);
    assert_eq!(render(&leaves, None).is_empty(), leaves.is_empty());
    let shown = leaves.iter().map(|leaf| {
        let set_by: Vec<&str> = leaf.set_by.iter().map(|origin| origin.source.as_str()).collect();
        format!("{}={}<{}", leaf.path.join("."), leaf.value, set_by.join("<"))
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn row(rule: &'static str, layers: &[Value], merged: Value, sources: &'static str) -> Row {
    Row { rule, layers: layers.to_vec(), merged, sources }
}

fn value_rows() -> Vec<Row> {
    vec![
        row(
            "a stronger value replaces a weaker one",
            &[json!({"model": "a/b"}), json!({"model": "c/d"})],
            json!({"model": "c/d"}),
            "model=\"c/d\"<1<0",
        ),
        row(
            "objects merge key by key at every depth",
            &[
                json!({"attachment": {"image": {"max_width": 1, "max_height": 2}}}),
                json!({"attachment": {"image": {"max_width": 3}}}),
            ],
            json!({"attachment": {"image": {"max_width": 3, "max_height": 2}}}),
            "attachment.image.max_width=3<1<0\nattachment.image.max_height=2<0",
        ),
        row(
            "a key keeps the place of the layer that had it first",
            &[json!({"model": "a/b", "shell": "x"}), json!({"username": "u", "shell": "y", "model": "c/d"})],
            json!({"model": "c/d", "shell": "y", "username": "u"}),
            "model=\"c/d\"<1<0\nshell=\"y\"<1<0\nusername=\"u\"<1",
        ),
        row(
            "lists are replaced",
            &[json!({"watcher": {"ignore": ["a", "b"]}}), json!({"watcher": {"ignore": ["c"]}})],
            json!({"watcher": {"ignore": ["c"]}}),
            "watcher.ignore=[\"c\"]<1<0",
        ),
        row(
            "also by an empty list",
            &[json!({"disabled_providers": ["a"]}), json!({"disabled_providers": []})],
            json!({"disabled_providers": []}),
            "disabled_providers=[]<1<0",
        ),
        row(
            "instructions are joined without repeats",
            &[json!({"instructions": ["a", "b"]}), json!({"instructions": ["b", "c"]})],
            json!({"instructions": ["a", "b", "c"]}),
            "instructions=\"a\"<0\ninstructions=\"b\"<1<0\ninstructions=\"c\"<1",
        ),
        row(
            "plugins are joined by package, the stronger version holds",
            &[
                json!({"plugin": ["p@1.0", "@scope/q@2", "file:///x@1.js"]}),
                json!({"plugin": [["@scope/q", {"a": 1}], "p@2.0", "file:///x@2.js"]}),
            ],
            json!({"plugin": ["file:///x@1.js", ["@scope/q", {"a": 1}], "p@2.0", "file:///x@2.js"]}),
            "plugin=\"file:///x@1.js\"<0\nplugin=[\"@scope/q\",{\"a\":1}]<1<0\nplugin=\"p@2.0\"<1<0\nplugin=\"file:///x@2.js\"<1",
        ),
        row(
            "null says nothing",
            &[
                json!({"model": "a/b", "shell": null}),
                json!({"model": null, "compaction": {"auto": null, "prune": true}}),
            ],
            json!({"model": "a/b", "compaction": {"prune": true}}),
            "model=\"a/b\"<0\ncompaction.prune=true<1",
        ),
        row(
            "also in an agent, whose null takes nothing away",
            &[
                json!({"agent": {"a": {"prompt": "1", "permission": {"edit": "deny"}}}}),
                json!({"agent": {"a": {"prompt": null, "permission": null}, "b": {"mode": null}}}),
            ],
            json!({"agent": {"a": {"prompt": "1", "permission": {"edit": "deny"}}, "b": {}}}),
            "agent.a.prompt=\"1\"<0\nagent.a.permission.edit=\"deny\"<0\nagent.b={}<1",
        ),
        row(
            "a value of another type replaces an object",
            &[json!({"lsp": {"x": {"disabled": true}}}), json!({"lsp": false})],
            json!({"lsp": false}),
            "lsp=false<1<0",
        ),
        row(
            "and an object a value",
            &[json!({"lsp": false}), json!({"lsp": {"x": {"disabled": true}}})],
            json!({"lsp": {"x": {"disabled": true}}}),
            "lsp.x.disabled=true<1<0",
        ),
    ]
}

fn object_rows() -> Vec<Row> {
    vec![
        row(
            "an agent is changed field by field, and another is added",
            &[
                json!({"agent": {"a": {"prompt": "1", "temperature": 1, "options": {"x": 1, "y": 2}}}}),
                json!({"agent": {"a": {"prompt": "2", "options": {"x": 3}}, "b": {"mode": "subagent"}}}),
            ],
            json!({"agent": {"a": {"prompt": "2", "temperature": 1, "options": {"x": 3, "y": 2}}, "b": {"mode": "subagent"}}}),
            "agent.a.prompt=\"2\"<1<0\nagent.a.temperature=1<0\nagent.a.options.x=3<1<0\nagent.a.options.y=2<0\nagent.b.mode=\"subagent\"<1",
        ),
        row(
            "a mode is a primary agent, below what the same layer's agent says",
            &[
                json!({"agent": {"a": {"prompt": "1", "mode": "all"}}}),
                json!({"mode": {"a": {"prompt": "2", "temperature": 1}}, "agent": {"a": {"temperature": 0}}}),
            ],
            json!({"agent": {"a": {"prompt": "2", "mode": "primary", "temperature": 0}}}),
            "agent.a.prompt=\"2\"<1<0\nagent.a.mode=\"primary\"<1<0\nagent.a.temperature=0<1",
        ),
        row(
            "a command is changed field by field",
            &[
                json!({"command": {"c": {"template": "1", "agent": "build"}}}),
                json!({"command": {"c": {"template": "2"}}}),
            ],
            json!({"command": {"c": {"template": "2", "agent": "build"}}}),
            "command.c.template=\"2\"<1<0\ncommand.c.agent=\"build\"<0",
        ),
        row(
            "a server is switched off by its name alone",
            &[
                json!({"mcp": {"m": {"type": "local", "command": ["x", "y"], "environment": {"A": "1"}}}}),
                json!({"mcp": {"m": {"enabled": false, "environment": {"B": "2"}}}}),
            ],
            json!({"mcp": {"m": {"type": "local", "command": ["x", "y"], "environment": {"A": "1", "B": "2"}, "enabled": false}}}),
            "mcp.m.type=\"local\"<0\nmcp.m.command=[\"x\",\"y\"]<0\nmcp.m.environment.A=\"1\"<0\nmcp.m.environment.B=\"2\"<1\nmcp.m.enabled=false<1",
        ),
        row(
            "a provider's options and models merge, its lists do not",
            &[
                json!({"provider": {"p": {"options": {"apiKey": "k"}, "models": {"m": {"name": "M"}}, "whitelist": ["m"]}}}),
                json!({"provider": {"p": {"options": {"baseURL": "http://u"}, "models": {"n": {}, "m": {"id": "i"}}, "whitelist": ["n"]}}}),
            ],
            json!({"provider": {"p": {"options": {"apiKey": "k", "baseURL": "http://u"}, "models": {"m": {"name": "M", "id": "i"}, "n": {}}, "whitelist": ["n"]}}}),
            "provider.p.options.apiKey=\"k\"<0\nprovider.p.options.baseURL=\"http://u\"<1\nprovider.p.models.m.name=\"M\"<0\nprovider.p.models.m.id=\"i\"<1\nprovider.p.models.n={}<1\nprovider.p.whitelist=[\"n\"]<1<0",
        ),
    ]
}

fn permission_rows() -> Vec<Row> {
    vec![
        row(
            "a permission that is set again keeps its place",
            &[
                json!({"permission": {"bash": "allow", "edit": "ask"}}),
                json!({"permission": {"bash": "deny"}}),
            ],
            json!({"permission": {"bash": "deny", "edit": "ask"}}),
            "permission.bash=\"deny\"<1<0\npermission.edit=\"ask\"<0",
        ),
        row(
            "and so does a pattern of one",
            &[
                json!({"permission": {"bash": {"git *": "allow", "rm *": "ask"}, "edit": "ask"}}),
                json!({"permission": {"bash": {"git *": "deny"}}}),
            ],
            json!({"permission": {"bash": {"git *": "deny", "rm *": "ask"}, "edit": "ask"}}),
            "permission.bash.git *=\"deny\"<1<0\npermission.bash.rm *=\"ask\"<0\npermission.edit=\"ask\"<0",
        ),
        row(
            "an action for everything is a rule for `*`",
            &[json!({"permission": {"bash": "allow"}}), json!({"permission": "ask"})],
            json!({"permission": {"bash": "allow", "*": "ask"}}),
            "permission.bash=\"allow\"<0\npermission.*=\"ask\"<1",
        ),
        row(
            "an action replaces patterns, and patterns an action",
            &[
                json!({"permission": {"bash": {"git *": "allow"}, "read": "ask"}}),
                json!({"permission": {"bash": "deny", "read": {"*.md": "allow"}}}),
            ],
            json!({"permission": {"bash": "deny", "read": {"*.md": "allow"}}}),
            "permission.bash=\"deny\"<1<0\npermission.read.*.md=\"allow\"<1<0",
        ),
        row(
            "an agent's permission the same way",
            &[
                json!({"agent": {"a": {"permission": {"read": "ask", "edit": "ask"}}}}),
                json!({"agent": {"a": {"permission": {"read": "deny"}}}}),
            ],
            json!({"agent": {"a": {"permission": {"read": "deny", "edit": "ask"}}}}),
            "agent.a.permission.read=\"deny\"<1<0\nagent.a.permission.edit=\"ask\"<0",
        ),
        row(
            "three layers lie over each other in order",
            &[json!({"share": "auto"}), json!({"share": "manual"}), json!({"share": "disabled"})],
            json!({"share": "disabled"}),
            "share=\"disabled\"<2<1<0",
        ),
    ]
}

#[test]
fn layers_merge_as_the_table_says() {
    let rows = [value_rows(), object_rows(), permission_rows()].into_iter().flatten();
    for Row { rule, layers: values, merged: expected, sources: expected_sources } in rows {
        let layers = layers(&values);
        // As text, because order matters.
        assert_eq!(Value::Object(merged(&layers)).to_string(), expected.to_string(), "{rule}");
        assert_eq!(sources(&layers), expected_sources, "{rule}");
    }
}

#[test]
fn only_the_lists_at_the_top_are_joined() {
    let layers = [json!({"x": {"instructions": [1]}}), json!({"x": {"instructions": [2]}})]
        .map(|value| Layer::new(Kind::File, "f", Path::new("/"), value.as_object().unwrap().clone()));
    assert_eq!(Value::Object(merged(&layers)), json!({"x": {"instructions": [2]}}));
}
