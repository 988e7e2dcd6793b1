//! Keeps secrets at the address that their own source names: another source that names another address does not get
//! them.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Url;
use serde_json::Value;

use super::{
    layer::{Kind, Layer},
    sources,
    warning::{Findings, Warning},
};

/// Keys of an MCP server that hold secrets for its address.
const OF_ADDRESS: &[&str] = &["headers", "oauth"];
/// Keys of an MCP server that hold secrets for its program.
const OF_PROGRAM: &[&str] = &["environment"];
/// Keys of a provider's options that hold secrets.
const OF_PROVIDER: [&str; 2] = ["apiKey", "headers"];

/// The addresses that a project names and none of the user's own sources does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectAddresses {
    /// Origins of servers and lists; a text that is no URL stands for itself.
    origins: BTreeSet<String>,
    /// Origins of providers, by their ids.
    providers: BTreeMap<String, BTreeSet<String>>,
}

impl ProjectAddresses {
    /// Returns true for the address of a server, a page or a list that only the project names.
    pub fn has(&self, url: &str) -> bool {
        self.origins.contains(&origin(url))
    }

    /// Returns the origins of a provider's addresses that only the project names; `vendors` are those that
    /// it has without a configuration.
    pub fn of_provider(&self, id: &str, vendors: &[&str]) -> Vec<&str> {
        let vendors: Vec<String> = vendors.iter().copied().map(origin).collect();
        let named = self.providers.get(id).into_iter().flatten();
        named.map(String::as_str).filter(|it| !vendors.iter().any(|vendor| vendor == it)).collect()
    }
}

/// Takes secrets out of the layers that another layer's address would get, and names them. Returns the addresses of the
/// project.
pub fn bind(layers: &mut [Layer], findings: &mut Findings) -> ProjectAddresses {
    servers(layers, findings);
    let providers = providers(layers, findings);
    let (mut projects, mut users) = (BTreeSet::new(), BTreeSet::new());
    // A plugin's part repeats the configuration that it was given.
    for layer in layers.iter().filter(|layer| layer.kind != Kind::Plugin) {
        let named = if layer.is_projects { &mut projects } else { &mut users };
        named.extend(addresses(layer).map(origin));
    }
    ProjectAddresses { origins: &projects - &users, providers }
}

/// Returns the origin of a URL; if its host has variables, and for another text, the part that names the host.
fn origin(url: &str) -> String {
    let url = url.trim();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A user's name and password are before it.
    let host = host.rsplit('@').next().unwrap_or_default();
    let parsed = Url::parse(url).ok().filter(|it| it.has_host() && !host.contains("${"));
    parsed.map_or_else(|| format!("{scheme}://{host}"), |it| it.origin().ascii_serialization())
}

/// Returns the addresses of servers, pages and lists in a layer.
fn addresses(layer: &Layer) -> impl Iterator<Item = &str> {
    let value = &layer.value;
    let servers = value.get("mcp").and_then(Value::as_object).into_iter().flatten();
    let servers = servers.filter_map(|(_, server)| server.get("url")?.as_str());
    let skills = value.get("skills").and_then(|it| it.get("urls"));
    let agents = value.get("windlass").and_then(|it| it.get("agents")?.get("urls"));
    let lists = [value.get("instructions"), skills, agents].into_iter().flatten();
    let listed = lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    servers.chain(listed.filter(|it| it.contains("://")))
}

/// A layer's part in a server.
struct Part {
    layer_idx: usize,
    is_projects: bool,
    /// The origin, or the program, that it names.
    target: Option<String>,
}

/// Returns the entries below a key of all layers, by their names.
fn parts(
    layers: &[Layer],
    key: &str,
    target: impl Fn(&Value) -> Option<String>,
) -> BTreeMap<String, Vec<Part>> {
    let mut parts: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for (layer_idx, layer) in layers.iter().enumerate() {
        for (name, entry) in layer.value.get(key).and_then(Value::as_object).into_iter().flatten() {
            let part = Part { layer_idx, is_projects: layer.is_projects, target: target(entry) };
            parts.entry(name.clone()).or_default().push(part);
        }
    }
    parts
}

/// Takes out the settings of one layer for a server that another layer leads elsewhere.
fn servers(layers: &mut [Layer], findings: &mut Findings) {
    let url = |server: &Value| server.get("url").and_then(Value::as_str).map(origin);
    let program = |server: &Value| server.get("command").filter(|it| it.is_array()).map(Value::to_string);
    let of_url = parts(layers, "mcp", url);
    let of_program = parts(layers, "mcp", program);
    for (name, parts) in of_url {
        take_elsewhere(layers, &name, "url", &parts, findings);
    }
    for (name, parts) in of_program {
        take_elsewhere(layers, &name, "command", &parts, findings);
    }
}

/// Takes out the settings that go to the target that a key of a server names, and are for another one.
fn take_elsewhere(layers: &mut [Layer], name: &str, target: &str, parts: &[Part], findings: &mut Findings) {
    let Some(last) = parts.iter().rev().find_map(|part| part.target.as_ref()) else { return };
    let place = sources::place(&["mcp", name, target], layers).unwrap_or_default();
    let (keys, message) = match target {
        "url" => {
            (OF_ADDRESS, format!("is not sent to {last}, the address in {place}; set it beside that `url`"))
        }
        _ => (OF_PROGRAM, format!("is not given to the program in {place}; set it beside that `command`")),
    };
    for idx in elsewhere(parts, last) {
        let layer = parts.get(idx).and_then(|part| layers.get_mut(part.layer_idx));
        let Some(layer) = layer else { continue };
        for key in keys {
            findings.warnings.extend(take(layer, &["mcp", name, key], &message));
        }
    }
}

/// Returns the parts with secrets for another target than the one that holds. One that names no target itself is
/// for that of the layers below it, or of its peers above; a project's target is none for the user's layers.
fn elsewhere(parts: &[Part], last: &str) -> Vec<usize> {
    let is_elsewhere = |&idx: &usize| {
        let (below, rest) = parts.split_at(idx);
        let Some((part, above)) = rest.split_first() else { return false };
        let below = below.iter().rev().filter(|it| part.is_projects || !it.is_projects);
        let above = above.iter().filter(|it| part.is_projects == it.is_projects);
        let named = [part].into_iter().chain(below).chain(above);
        named.filter_map(|it| it.target.as_deref()).next() != Some(last)
    };
    (0..parts.len()).filter(is_elsewhere).collect()
}

/// Takes the user's secrets out of providers that have the project's address. Returns the origins of these.
fn providers(layers: &mut [Layer], findings: &mut Findings) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let parts = parts(layers, "provider", |_| None);
    let with_projects = parts.into_iter().filter(|(_, parts)| parts.iter().any(|part| part.is_projects));
    for (id, parts) in with_projects {
        let of_users =
            parts.iter().filter(|it| !it.is_projects).filter_map(|it| entry(layers.get(it.layer_idx)?, &id));
        let users: BTreeSet<String> = of_users.flat_map(urls).map(origin).collect();
        let projects: BTreeSet<String> = effective(layers, &id, &parts).into_iter().map(origin).collect();
        let projects = &projects - &users;
        let Some(address) = projects.first().cloned() else { continue };
        let message = format!(
            "is not sent to {address}, which only the project names; set it in the project's file beside `baseURL`, or set \
             `baseURL` here"
        );
        for layer in parts.iter().filter(|it| !it.is_projects).map(|it| it.layer_idx) {
            let Some(layer) = layers.get_mut(layer) else { continue };
            for key in OF_PROVIDER {
                findings.warnings.extend(take(layer, &["provider", &id, "options", key], &message));
            }
            let models = entry(layer, &id).and_then(|it| it.get("models")?.as_object());
            let models: Vec<String> = models.into_iter().flatten().map(|(model, _)| model.clone()).collect();
            for model in models {
                let path = ["provider", &id, "models", &model, "headers"];
                findings.warnings.extend(take(layer, &path, &message));
            }
        }
        found.insert(id, projects);
    }
    found
}

fn entry<'a>(layer: &'a Layer, id: &str) -> Option<&'a Value> {
    layer.value.get("provider")?.get(id)
}

/// Returns all addresses in a provider's entry.
fn urls(entry: &Value) -> Vec<&str> {
    let paths = ["/options/baseURL", "/options/endpoint", "/api"];
    let own = paths.into_iter().filter_map(|path| entry.pointer(path)?.as_str());
    let models = entry.get("models").and_then(Value::as_object).into_iter().flatten();
    own.chain(models.filter_map(|(_, model)| model.pointer("/provider/api")?.as_str())).collect()
}

/// Returns those of a provider's addresses that hold and are a project's.
fn effective<'a>(layers: &'a [Layer], id: &str, parts: &[Part]) -> Vec<&'a str> {
    // The strongest that says something at a path; an empty text says that there is none.
    let strongest = |path: &str| {
        let said = parts.iter().rev().find_map(|part| {
            let url = entry(layers.get(part.layer_idx)?, id)?.pointer(path)?.as_str()?;
            Some((url, part.is_projects))
        });
        said.filter(|(url, _)| !url.trim().is_empty())
    };
    let is_projects = |(url, is_projects): (&'a str, bool)| is_projects.then_some(url);
    if let Some(whole) = strongest("/options/baseURL").or_else(|| strongest("/options/endpoint")) {
        return is_projects(whole).into_iter().collect();
    }
    let models =
        parts.iter().filter_map(|it| entry(layers.get(it.layer_idx)?, id)?.get("models")?.as_object());
    let models: BTreeSet<&String> = models.flat_map(|models| models.keys()).collect();
    let of_models = models.into_iter().map(|model| {
        let key = model.replace('~', "~0").replace('/', "~1");
        format!("/models/{key}/provider/api")
    });
    let paths = of_models.chain(["/api".to_owned()]);
    paths.filter_map(|path| strongest(&path).and_then(is_projects)).collect()
}

/// Takes a value out of a layer; returns the warning about it, unless it was none or holds no secret.
fn take(layer: &mut Layer, path: &[&str], message: &str) -> Option<Warning> {
    let (last, above) = path.split_last()?;
    let mut object = &mut layer.value;
    for key in above {
        object = object.get_mut(*key)?.as_object_mut()?;
    }
    // `oauth: false` is no secret.
    if object.get(*last).is_none_or(|it| it.is_null() || it.is_boolean()) {
        return None;
    }
    object.shift_remove(*last);
    Some(layer.warning(path, message.to_owned()))
}

#[cfg(test)]
mod tests;
