//! Checks `windlass.sandbox`: a setting that cannot be understood counts as the strictest, never as none.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use windlass_base::{names::Names, text::nearest};
use windlass_protocol::opencode::settings::{AgentSandbox, NamedNetwork, SandboxSettings, ServerSandbox};

use super::{Checker, brief, is_near};
use crate::config::merge::without_nulls;

/// A key, the words for its values, and the strictest of them.
type Limit = (&'static str, &'static str, fn() -> Value);

const MODE: Limit = ("mode", "\"read-only\", \"workspace-write\" or \"off\"", || json!("read-only"));
const LIMITS: [Limit; 6] = [
    MODE,
    (
        "network",
        "\"allow\", \"deny\", \"loopback\" or an object of hosts with `allow`, `deny`, `ports` and `keys`",
        || json!("deny"),
    ),
    ("writable", "a list of paths", || json!([])),
    ("environment", "a list of names", || json!([])),
    ("readable", "a list of paths", || json!([])),
    ("ask_less", "true or false", || json!(false)),
];
const LIMITS_OF_ALL: [Limit; 7] = {
    let [mode, network, writable, environment, readable, ask_less] = LIMITS;
    [mode, network, writable, environment, readable, ask_less, ("required", "true or false", || json!(true))]
};

/// The programs that a part of the settings is about.
#[derive(Clone, Copy)]
enum Of {
    All,
    Agent,
    Servers,
}

impl Of {
    fn limits(self) -> &'static [Limit] {
        match self {
            Self::All => &LIMITS_OF_ALL,
            Self::Agent => &LIMITS,
            Self::Servers => &LIMITS[..5],
        }
    }

    /// Keys of parts below.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::All => &["agents", "mcp", "lsp", "plugins"],
            Self::Agent | Self::Servers => &[],
        }
    }

    fn decodes(self, limit: &Map<String, Value>) -> bool {
        fn is<T: DeserializeOwned>(limit: &Map<String, Value>) -> bool {
            T::deserialize(Value::Object(limit.clone())).is_ok()
        }
        let is_decoded = match self {
            Self::All => is::<SandboxSettings>(limit),
            Self::Agent => is::<AgentSandbox>(limit),
            Self::Servers => is::<ServerSandbox>(limit),
        };
        // A pattern that is no pattern would be a host that is not denied.
        is_decoded && limit.get("network").filter(|it| it.is_object()).is_none_or(is_of_hosts)
    }
}

/// Returns true if an object has keys other than those of a network by name, even with an empty value.
fn has_unknown_part(limit: &Value) -> bool {
    limit
        .as_object()
        .into_iter()
        .flatten()
        .any(|(key, _)| !["allow", "deny", "keys", "ports"].contains(&key.as_str()))
}

fn is_of_hosts(network: &Value) -> bool {
    NamedNetwork::deserialize(network).is_ok_and(|it| Names::parse(&it).is_ok())
}

impl Checker<'_> {
    /// Checks all of `windlass.sandbox`.
    pub(super) fn sandbox(&mut self, path: &[&str], value: &mut Value) {
        self.sandbox_of(Of::All, path, value);
        let Value::Object(settings) = value else { return };
        for part in ["mcp", "lsp", "plugins"] {
            if let Some(value) = settings.get_mut(part) {
                self.sandbox_of(Of::Servers, &[path, &[part]].concat(), value);
            }
        }
        let path = [path, &["agents"]].concat();
        for (name, value) in settings.get_mut("agents").and_then(Value::as_object_mut).into_iter().flatten() {
            self.sandbox_of(Of::Agent, &[&path, &[name.as_str()][..]].concat(), value);
        }
    }

    fn sandbox_of(&mut self, of: Of, path: &[&str], value: &mut Value) {
        if !(value.is_object() || value.is_null()) {
            let message = "is no sandbox; expected an object with `mode`; \"read-only\" is used";
            self.warn(path, format!("{} {message}", brief(path, value)));
            *value = json!({"mode": "read-only"});
        }
        let Value::Object(settings) = value else { return };
        for key in settings.keys().cloned().collect::<Vec<_>>() {
            let place = [path, &[key.as_str()]].concat();
            let value = &settings[&key];
            let limit = of.limits().iter().find(|(name, ..)| *name == key);
            match limit {
                Some((_, expected, strictest)) => {
                    let alone = Map::from_iter([(key.clone(), without_nulls(value))]);
                    if !value.is_null() && (has_unknown_part(value) || !of.decodes(&alone)) {
                        let shown = brief(&place, value);
                        let used = strictest();
                        self.warn(
                            &place,
                            format!("{shown} is not understood; expected {expected}; {used} is used"),
                        );
                        settings.insert(key, used);
                    }
                }
                None if of.parts().contains(&key.as_str()) => {
                    let is_for_agents = key == "agents" && !(value.is_object() || value.is_null());
                    if is_for_agents {
                        let message = "names no agents; expected an object; all are \"read-only\"";
                        self.warn(&place, format!("{} {message}", brief(&place, value)));
                        settings.shift_remove("agents");
                        settings.insert(MODE.0.to_owned(), MODE.2());
                    }
                }
                None => self.unknown_limit(of, &place, &key, settings),
            }
        }
    }

    /// Takes a key that is not known for the one that was probably meant, or for a mode, at its strictest.
    fn unknown_limit(&mut self, of: Of, place: &[&str], key: &str, settings: &mut Map<String, Value>) {
        let names = of.limits().iter().map(|(name, ..)| *name).chain(of.parts().iter().copied());
        let near = nearest(key, names).filter(|near| is_near(key, Some(near)));
        let (name, _, strictest) =
            of.limits().iter().find(|(name, ..)| near == Some(*name)).copied().unwrap_or(MODE);
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        settings.shift_remove(key);
        let is_said = settings.get(name).is_some_and(|value| !value.is_null());
        let used = if is_said { String::new() } else { format!("; `{name}` is {} for it", strictest()) };
        if !is_said {
            settings.insert(name.to_owned(), strictest());
        }
        self.warn(place, format!("is not a known key{hint}{used}"));
    }
}
