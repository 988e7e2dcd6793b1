//! Keeps a project's file from changing, by keys of single agents, the rules of stronger files for these or all agents.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::settings::{SandboxMode, SandboxSettings};

use super::{
    Findings, Warning,
    layer::{Kind, Layer},
    merge::{merge, merged},
    sandbox::wanted,
};

/// Keys that take an agent away, so that another one answers.
const AWAY: [&str; 2] = ["disable", "hidden"];

/// Takes out of each project's layer the rules that would loosen the layers above it that are not the project's.
pub fn bound(layers: &mut [Layer], findings: &mut Findings) {
    for idx in (0..layers.len()).filter(|idx| layers[*idx].is_projects).collect::<Vec<_>>() {
        let Some((own, above)) = layers.get_mut(idx..).and_then(<[Layer]>::split_first_mut) else { continue };
        let is_file = |layer: &&Layer| !layer.is_projects && layer.kind != Kind::Plugin;
        let above = merged(above.iter().filter(is_file));
        let taken = [agents(&mut own.value, &above), sandboxes(&mut own.value, &above)].concat();
        findings.warnings.extend(taken.into_iter().map(|key| Warning {
            source: own.source.clone(),
            line: None,
            column: None,
            message: format!(
                "`{key}` does not hold: a file that is stronger than the project's says otherwise"
            ),
        }));
    }
}

/// Agents that stronger files define stay: without one of them, prompts go to another, with other rules.
fn agents(own: &mut Map<String, Value>, above: &Map<String, Value>) -> Vec<String> {
    let mut taken = Vec::new();
    let defined = above.get("agent").and_then(Value::as_object);
    for (name, agent) in own.get_mut("agent").and_then(Value::as_object_mut).into_iter().flatten() {
        let Value::Object(agent) = agent else { continue };
        if defined.is_some_and(|it| it.contains_key(name)) {
            let away = AWAY.into_iter().filter(|key| agent.shift_remove(*key).is_some());
            taken.extend(away.map(|key| format!("agent.{name}.{key}")));
        }
    }
    taken
}

/// A stronger file's sandbox for all holds before a project's for one agent.
fn sandboxes(own: &mut Map<String, Value>, above: &Map<String, Value>) -> Vec<String> {
    let sandbox = |value: &Map<String, Value>| value.get("windlass")?.get("sandbox").cloned();
    let (Some(said), Some(strong)) = (sandbox(own), sandbox(above)) else { return Vec::new() };
    let decoded = |value: &Value| SandboxSettings::deserialize(value).ok();
    let agents = said.get("agents").and_then(Value::as_object).into_iter().flatten();
    let is_wider = |name: &str, value: &Value| {
        let mut whole = Map::from_iter([("sandbox".to_owned(), json!({"agents": {name: value}}))]);
        merge(&mut whole, &Map::from_iter([("sandbox".to_owned(), strong.clone())]));
        let both = decoded(&strong).zip(whole.get("sandbox").and_then(decoded));
        both.is_none_or(|(old, new)| {
            let (old, new) = (wanted(&old, name), wanted(&new, name));
            // Outside, every sandbox is narrower, wherever it may write.
            old.mode != SandboxMode::Off && !new.wider_than(&old).is_empty()
        })
    };
    let wider: Vec<String> =
        agents.filter(|(name, it)| is_wider(name, it)).map(|(name, _)| name.clone()).collect();
    let agents =
        own.get_mut("windlass").and_then(|it| it.get_mut("sandbox")?.get_mut("agents")?.as_object_mut());
    if let Some(agents) = agents {
        wider.iter().for_each(|name| _ = agents.shift_remove(name));
    }
    wider.into_iter().map(|name| format!("windlass.sandbox.agents.{name}")).collect()
}

#[cfg(test)]
mod tests {
    //! A project beneath a stronger file.

    use std::path::Path;

    use super::*;

    fn layer(value: &Value, is_projects: bool) -> Layer {
        let value = value.as_object().cloned().unwrap_or_default();
        Layer { is_projects, ..Layer::new(Kind::File, "f", Path::new("/"), value) }
    }

    /// Returns the rest of a project's file, and the number of warnings.
    fn left(project: &Value, above: &Value) -> (Value, usize) {
        let mut layers = [layer(&json!({}), false), layer(project, true), layer(above, false)];
        let mut findings = Findings::default();
        bound(&mut layers, &mut findings);
        (Value::Object(layers[1].value.clone()), findings.warnings.len())
    }

    #[test]
    fn an_agent_of_a_stronger_file_is_not_taken_away() {
        let above = json!({"agent": {"locked": {"permission": {"bash": "deny"}}}});
        let project = json!({"agent": {
            "locked": {"disable": true, "hidden": true, "mode": "subagent", "prompt": "x"},
            "own": {"hidden": true},
        }});
        let expected =
            json!({"agent": {"locked": {"mode": "subagent", "prompt": "x"}, "own": {"hidden": true}}});
        assert_eq!(left(&project, &above), (expected, 2));
    }

    #[test]
    fn a_sandbox_of_a_stronger_file_is_no_wider_for_a_projects_agent() {
        let sandbox = |value: Value| json!({"windlass": {"sandbox": value}});
        let strict = sandbox(json!({"mode": "read-only", "network": "deny"}));
        let wide = json!({"mode": "workspace-write", "network": "allow"});
        let project = sandbox(json!({"agents": {"build": wide, "plan": {"mode": "read-only"}}}));
        let expected = sandbox(json!({"agents": {"plan": {"mode": "read-only"}}}));
        assert_eq!(left(&project, &strict), (expected, 1));
        assert_eq!(left(&project, &json!({"model": "a/b"})), (project.clone(), 0));
        let writing = sandbox(json!({"agents": {"build": {"mode": "workspace-write", "writable": ["/x"]}}}));
        assert_eq!(left(&writing, &sandbox(json!({"ask_less": true}))), (writing.clone(), 0));
    }
}
