//! Reads the spellings of OpenCode's second version: lists of rules, policies, models that are objects, skills, plugins and
//! servers.

use serde_json::{Map, Value, json};

use super::Normalizer;
use crate::config::{
    layer::Layer,
    limits::{Kind, Limit},
    merge::merge,
    rules::wildcard,
};

/// Actions of rules by another name than our permissions.
const ACTIONS: [(&str, &str); 4] =
    [("shell", "bash"), ("subagent", "task"), ("write", "edit"), ("patch", "edit")];
/// Keys that have nothing to act on here.
pub const WITHOUT_EFFECT: [&str; 2] = ["warming", "worktree"];
/// Keys of a server that have nothing to act on here.
pub const SERVER_WITHOUT_EFFECT: [&str; 2] = ["codemode", "protocol"];
/// Keys of a server's login by another name.
pub const LOGIN: [(&str, &str); 4] = [
    ("client_id", "clientId"),
    ("client_secret", "clientSecret"),
    ("callback_port", "callbackPort"),
    ("redirect_uri", "redirectUri"),
];
/// The time limits of servers.
pub const LIMITS: [&str; 3] = ["startup", "catalog", "execution"];

/// Actions that policies are about.
pub const POLICIES: [&str; 8] = [
    "provider.use",
    "tool.use",
    "skill.use",
    "mcp.use",
    "websearch.use",
    "integration.use",
    "integration.connect",
    "plugin.use",
];

/// A rule as a list has it: permission, pattern, action.
type Entry = (String, String, String);

impl Normalizer<'_> {
    /// Turns the keys of the second version into ours.
    pub(super) fn second_version(&mut self) {
        self.rules_of(&[]);
        self.policies();
        self.model(&[]);
        for owner in ["agent", "command"] {
            for name in self.names(owner) {
                self.model(&[owner, &name]);
                if owner == "agent" {
                    self.rules_of(&[owner, &name]);
                    self.reads_as(&[owner, &name], "system", "prompt");
                    self.request(&name);
                } else {
                    self.reads_as(&[owner, &name], "subagent", "subtask");
                }
            }
        }
        self.skills();
        self.plugins();
        self.update();
        self.web_search();
        self.names("mcp").iter().for_each(|name| self.server(name));
        self.providers();
        for key in WITHOUT_EFFECT {
            if self.layer.value.shift_remove(key).is_some() {
                self.note(&[key], "has no effect here");
            }
        }
    }

    fn names(&self, owner: &str) -> Vec<String> {
        let named = self.layer.value.get(owner).and_then(Value::as_object);
        named.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the object at a path of keys; the whole configuration for none.
    pub(super) fn object(&mut self, path: &[&str]) -> Option<&mut Map<String, Value>> {
        path.iter().try_fold(&mut self.layer.value, |object, key| object.get_mut(*key)?.as_object_mut())
    }

    /// Reads a key of an owner as another one, unless that is there.
    fn reads_as(&mut self, owner: &[&str], from: &str, to: &str) {
        let Some(object) = self.object(owner) else { return };
        let Some(value) = object.shift_remove(from).filter(|value| !value.is_null()) else { return };
        let path = [owner, &[from]].concat();
        if object.get(to).is_some_and(|own| !own.is_null()) {
            let warning = self.layer.warning(&path, format!("is ignored beside `{to}`"));
            self.findings.warnings.push(warning);
            return;
        }
        object.insert(to.to_owned(), value);
        self.note(&path, &format!("is read as `{to}`"));
        self.layer.move_places(&path, &[owner, &[to]].concat());
    }

    /// Turns a list of rules into `permission`. A value that is no list stays, and so does one beside a `permission`: the
    /// reading of restrictions, which comes next, says so.
    fn rules_of(&mut self, owner: &[&str]) {
        let Some(object) = self.object(owner) else { return };
        let is_alone = object.get("permission").is_none_or(Value::is_null);
        let Some(list) = object.get("permissions").and_then(Value::as_array).filter(|_| is_alone).cloned()
        else {
            let Some(Value::Object(rules)) = object.get_mut("permissions") else { return };
            let mut stricter = Map::new();
            for (theirs, own) in &ACTIONS[..2] {
                let Some(rule) = rules.shift_remove(*theirs) else { continue };
                // No order of the keys decides between two names of one tool: the stricter holds.
                let target = if rules.contains_key(*own) { &mut stricter } else { &mut *rules };
                target.insert((*own).to_owned(), rule);
            }
            if !stricter.is_empty() {
                let agent = owner.get(1).map(|name| (*name).to_owned());
                self.layer.limits.push(Limit { agent, kind: Kind::Stricter(stricter) });
            }
            return;
        };
        object.shift_remove("permissions");
        let path = [owner, &["permissions"]].concat();
        let entries = self.entries(owner, &path, &list);
        if let Some(object) = self.object(owner) {
            object.insert("permission".to_owned(), permission(&entries).into());
        }
        let to = [owner, &["permission"]].concat();
        self.note(&path, "is read as `permission`");
        self.layer.move_places(&path, &to);
    }

    /// Reads the entries of a list; for one that cannot be read everything asks.
    fn entries(&mut self, owner: &[&str], path: &[&str], list: &[Value]) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (idx, said) in list.iter().enumerate() {
            match entry(said) {
                Some(entry) => entries.push(entry),
                None => {
                    let number = idx.to_string();
                    let place = [path, &[number.as_str()]].concat();
                    self.unread_at(
                        owner.get(1).copied(),
                        &place,
                        "is no rule of `action`, `resource` and `effect`",
                    );
                }
            }
        }
        entries
    }

    /// Turns policies about providers into lists of them, and those about tools into denials.
    fn policies(&mut self) {
        let older = self.object(&["experimental"]).and_then(|it| it.shift_remove("policies"));
        let newer = self.layer.value.shift_remove("policies");
        let mut list = Vec::new();
        for said in [older, newer].into_iter().flatten().filter(|it| !it.is_null()) {
            match said {
                Value::Array(more) => list.extend(more),
                _ => {
                    self.warn_of(
                        "policies",
                        "is no list of policies; no provider is used until it is mended",
                    );
                    self.layer.value.insert("enabled_providers".to_owned(), json!([]));
                }
            }
        }
        if list.is_empty() {
            return;
        }
        let entries = self.entries(&[], &["policies"], &list);
        self.provider_policies(&entries);
        if entries.len() < list.len() {
            self.warn_of(
                "policies",
                "has an entry that is no policy; no provider is used until it is mended",
            );
            self.layer.value.insert("enabled_providers".to_owned(), json!([]));
        }
        let mut denied_tools: Vec<Value> = Vec::new();
        for (action, resource, effect) in &entries {
            let is_denied = effect != "allow";
            match action.as_str() {
                "provider.use" => {}
                known if !is_denied && POLICIES.contains(&known) => {
                    self.note(
                        &["policies"],
                        &format!("{action} allows {resource}, which lifts no denial here"),
                    );
                }
                "tool.use" => {
                    let (action, value) = resource.split_once(':').unwrap_or((resource, "*"));
                    denied_tools.push(format!("{}({value})", own_action(action)).into());
                }
                "skill.use" => denied_tools.push(format!("skill({resource})").into()),
                "websearch.use" => denied_tools.push("websearch".into()),
                "mcp.use" => {
                    // A stronger file may switch the server on again; its tools stay denied.
                    denied_tools.push(format!("mcp__{resource}").into());
                    if !resource.contains(['*', '?']) {
                        self.put_below("mcp", json!({}));
                        let off = Map::from_iter([(resource.clone(), json!({"enabled": false}))]);
                        if let Some(servers) = self.object(&["mcp"]) {
                            merge(servers, &off);
                        }
                    }
                }
                "integration.use" | "integration.connect" | "plugin.use" => {
                    self.warn_of("policies", &format!("{action} of {resource} has no effect here"));
                }
                _other => {
                    self.unread_at(None, &["policies"], &format!("{action} of {resource} is not understood"));
                }
            }
        }
        if !denied_tools.is_empty() {
            // No rule gives back a tool that a policy denies.
            self.deny(&denied_tools);
        }
        self.note(&["policies"], "is read as lists of providers, and as denied tools");
    }

    fn provider_policies(&mut self, entries: &[Entry]) {
        let mut denied: Vec<Value> = Vec::new();
        // The only ones, once a policy has denied all.
        let mut only: Option<Vec<Value>> = None;
        for (_, name, effect) in entries.iter().filter(|(action, ..)| action == "provider.use") {
            let is_denied = effect != "allow";
            match (name.as_str(), is_denied) {
                ("*", true) => only = Some(Vec::new()),
                ("*", false) => (only, denied) = (None, Vec::new()),
                (name, _) if name.contains(['*', '?']) => {
                    let problem = format!(
                        "{name} names providers by a pattern, which is not understood; no provider is used until it is mended"
                    );
                    self.warn_of("policies", &problem);
                    only = Some(Vec::new());
                    break;
                }
                (name, true) => {
                    only.iter_mut().for_each(|only| only.retain(|it| it != name));
                    denied.push(name.into());
                }
                (name, false) => {
                    denied.retain(|it| it != name);
                    only.iter_mut().for_each(|only| only.push(name.into()));
                }
            }
        }
        // They restrict beside the lists that there are, and lift nothing of them.
        let listed = |layer: &Layer, key: &str| layer.value.get(key).and_then(Value::as_array).cloned();
        if let Some(mut only) = only {
            if let Some(known) = listed(self.layer, "enabled_providers") {
                only.retain(|name| known.contains(name));
            }
            self.layer.value.insert("enabled_providers".to_owned(), only.into());
        }
        if !denied.is_empty() {
            let mut all = listed(self.layer, "disabled_providers").unwrap_or_default();
            denied.retain(|name| !all.contains(name));
            all.extend(denied);
            self.layer.value.insert("disabled_providers".to_owned(), all.into());
        }
    }

    /// Turns a model that is an object into a text.
    fn model(&mut self, owner: &[&str]) {
        let Some(object) = self.object(owner) else { return };
        let Some(text) = object.get("model").and_then(model_text) else { return };
        object.insert("model".to_owned(), text.as_str().into());
        self.note(&[owner, &["model"]].concat(), &format!("is read as {text:?}"));
    }

    /// Reads the fields that an agent adds to requests.
    fn request(&mut self, name: &str) {
        let Some(agent) = self.object(&["agent", name]) else { return };
        let Some(request) = agent.shift_remove("request").filter(|request| !request.is_null()) else {
            return;
        };
        let path = ["agent", name, "request"];
        let Some(request) = request.as_object() else {
            let warning = self.layer.warning(&path, "is ignored; expected an object with `body`".to_owned());
            self.findings.warnings.push(warning);
            return;
        };
        for key in request.keys().filter(|key| !["body", "headers"].contains(&key.as_str())) {
            let place = ["agent", name, "request", key];
            let warning = self.layer.warning(&place, "is not a known key and is ignored".to_owned());
            self.findings.warnings.push(warning);
        }
        let Some(agent) = self.object(&["agent", name]) else { return };
        if let Some(body) = request.get("body").filter(|body| !body.is_null()) {
            agent.entry("options").or_insert_with(|| body.clone());
            self.note(&["agent", name, "request", "body"], "is read as `options`");
            self.layer.move_places(&["agent", name, "request", "body"], &["agent", name, "options"]);
        }
        if request.contains_key("headers") {
            self.note(&["agent", name, "request", "headers"], "has no effect here");
        }
    }

    /// Turns a list of skills into paths and addresses.
    fn skills(&mut self) {
        let Some(Value::Array(list)) = self.layer.value.get("skills") else { return };
        let is_address = |it: &&Value| {
            it.as_str().is_some_and(|it| it.starts_with("http://") || it.starts_with("https://"))
        };
        let (urls, paths): (Vec<&Value>, Vec<&Value>) = list.iter().partition(is_address);
        let skills = json!({"paths": paths, "urls": urls});
        self.layer.value.insert("skills".to_owned(), skills);
        self.note(&["skills"], "is read as `skills.paths` and `skills.urls`");
    }

    /// Turns `plugins` into `plugin`; an entry that switches another one off takes it out of this list.
    fn plugins(&mut self) {
        let Some(plugins) = self.layer.value.shift_remove("plugins").filter(|it| !it.is_null()) else {
            return;
        };
        let Value::Array(list) = plugins else {
            // The check says that it is none.
            self.layer.value.insert("plugin".to_owned(), plugins);
            return;
        };
        let mut taken: Vec<Value> = Vec::new();
        for entry in list {
            let name_of = |it: &Value| it.as_str().or(it.get(0).and_then(Value::as_str)).map(str::to_owned);
            match &entry {
                Value::String(text) if text.starts_with('-') => {
                    let off = &text[1..];
                    let n_before = taken.len();
                    taken.retain(|it| name_of(it).is_none_or(|name| !wildcard(off, &name)));
                    if taken.len() == n_before {
                        let problem =
                            format!("`{text}` switches off no plugin of this file, and those of others stay");
                        self.warn_of("plugins", &problem);
                    }
                }
                Value::String(text) if text.contains('*') => {
                    self.warn_of("plugins", &format!("`{text}` has no effect here"));
                }
                Value::Object(object)
                    if object.get("package").is_some_and(Value::is_string)
                        && object.keys().all(|key| ["package", "options"].contains(&key.as_str())) =>
                {
                    let options = object.get("options").filter(|options| !options.is_null());
                    taken.push(json!([object["package"], options.cloned().unwrap_or_else(|| json!({}))]));
                }
                _ => taken.push(entry),
            }
        }
        self.note(&["plugins"], "is read as `plugin`");
        self.layer.move_places(&["plugins"], &["plugin"]);
        let listed = self.layer.value.get("plugin").and_then(Value::as_array).cloned().unwrap_or_default();
        self.layer.value.insert("plugin".to_owned(), [listed, taken].concat().into());
    }

    fn update(&mut self) {
        let Some(update) = self.layer.value.shift_remove("update").filter(|it| !it.is_null()) else { return };
        let own = match update.as_str() {
            Some("disable") => json!(false),
            Some("auto") => json!(true),
            _ => update,
        };
        self.layer.value.entry("autoupdate").or_insert(own);
        self.note(&["update"], "is read as `autoupdate`");
        self.layer.move_places(&["update"], &["autoupdate"]);
    }

    /// Reads the search of the web that is switched off.
    fn web_search(&mut self) {
        match self.layer.value.get("websearch") {
            Some(Value::Bool(false)) => {
                self.deny(&["websearch".into()]);
                self.note(&["websearch"], "is denied");
            }
            Some(Value::Object(_)) => self.note(&["websearch"], "has no effect here"),
            Some(Value::Null) | None => {}
            // The check says that it is not known.
            Some(_) => return,
        }
        self.layer.value.shift_remove("websearch");
    }

    /// Denies tools by a list that no rule lifts.
    fn deny(&mut self, tools: &[Value]) {
        let key = "disallowedTools";
        let listed = self.layer.value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        self.layer.value.insert(key.to_owned(), [listed.as_slice(), tools].concat().into());
    }

    /// Takes the time limits of all servers out from among the servers, before these come from below `servers`.
    pub(super) fn time_limits(&mut self) {
        let Some(mcp) = self.object(&["mcp"]) else { return };
        let is_server = |value: &Value| value.get("type").is_some() || value.get("enabled").is_some();
        let Some(longest) = mcp.get("timeout").filter(|it| !is_server(it)).and_then(longest) else { return };
        mcp.shift_remove("timeout");
        let is_object = |it: &Value| it.is_object();
        let experimental = self.layer.value.get("experimental").is_none_or(is_object);
        if let (Some(longest), true) = (longest, experimental) {
            let experimental = self.layer.value.entry("experimental").or_insert_with(|| json!({}));
            if let Some(experimental) = experimental.as_object_mut() {
                experimental.entry("mcp_timeout").or_insert(longest);
            }
        }
        self.note(&["mcp", "timeout"], "is read as `experimental.mcp_timeout`, the longest of them");
    }

    /// Reads a server's limits, and its login in other letters.
    fn server(&mut self, name: &str) {
        let path = ["mcp", name];
        let Some(server) = self.object(&path) else { return };
        let mut notes = Vec::new();
        if let Some(longest) = server.get("timeout").and_then(longest) {
            server.shift_remove("timeout");
            server.extend(longest.map(|longest| ("timeout".to_owned(), longest)));
            notes.push((vec!["timeout"], "is read as the longest of them".to_owned()));
        }
        for key in SERVER_WITHOUT_EFFECT {
            if server.shift_remove(key).is_some() {
                notes.push((vec![key], "has no effect here".to_owned()));
            }
        }
        for (from, to) in LOGIN {
            let Some(login) = server.get_mut("oauth").and_then(Value::as_object_mut) else { break };
            if let Some(value) = login.shift_remove(from) {
                login.entry(to).or_insert(value);
                notes.push((vec!["oauth", from], format!("is read as `{to}`")));
            }
        }
        for (key, message) in notes {
            self.note(&[&path[..], &key].concat(), &message);
        }
    }

    pub(super) fn warn_of(&mut self, key: &str, message: &str) {
        let warning = self.layer.warning(&[key], message.to_owned());
        self.findings.warnings.push(warning);
    }
}

/// Reads a rule of a list; `None` if it is none.
fn entry(entry: &Value) -> Option<Entry> {
    let text = |key: &str| entry.get(key)?.as_str();
    let is_known = |key: &String| ["action", "resource", "effect"].contains(&key.as_str());
    entry.as_object()?.keys().all(is_known).then_some(())?;
    let effect = text("effect").filter(|it| ["allow", "ask", "deny"].contains(it))?;
    let resource = if entry.get("resource").is_none_or(Value::is_null) { "*" } else { text("resource")? };
    Some((own_action(text("action")?).to_owned(), resource.to_owned(), effect.to_owned()))
}

fn own_action(action: &str) -> &str {
    ACTIONS.iter().find(|(theirs, _)| *theirs == action).map_or(action, |(_, own)| own)
}

/// Returns an object of rules in which the last match decides as in the list.
///
/// An object has each key once. A rule about a permission that has stood before goes behind all others; those that came
/// between and are about it too are repeated under its own key, so that they go on to decide. A pattern for permissions that
/// has stood before is written with one more star.
fn permission(entries: &[Entry]) -> Map<String, Value> {
    let mut rules: Map<String, Value> = Map::new();
    for (action, resource, effect) in entries {
        let mut key = action.clone();
        let is_last =
            |rules: &Map<String, Value>, key: &str| rules.keys().next_back().is_some_and(|last| last == key);
        if key.contains('*') {
            while rules.contains_key(&key) && !is_last(&rules, &key) {
                key = key.replacen('*', "**", 1);
            }
        }
        let mut patterns = Map::new();
        if let Some(at) = rules.keys().position(|known| *known == key) {
            let between: Vec<Value> = rules
                .iter()
                .skip(at + 1)
                .filter(|(known, _)| wildcard(known, &key))
                .map(|it| it.1.clone())
                .collect();
            let known = rules.shift_remove(&key);
            for earlier in known.into_iter().chain(between) {
                let Value::Object(earlier) = earlier else { continue };
                earlier.into_iter().for_each(|(pattern, action)| put(&mut patterns, pattern, action));
            }
        }
        put(&mut patterns, resource.clone(), effect.clone().into());
        rules.insert(key, patterns.into());
    }
    rules
}

/// Puts a pattern behind all others, where it decides.
fn put(patterns: &mut Map<String, Value>, pattern: String, action: Value) {
    patterns.shift_remove(&pattern);
    patterns.insert(pattern, action);
}

/// Returns the text of a model that is an object; `None` for another value.
fn model_text(model: &Value) -> Option<String> {
    let is_known = |key: &String| ["providerID", "model", "variant"].contains(&key.as_str());
    model.as_object()?.keys().all(is_known).then_some(())?;
    let is_name =
        |text: &&str| !text.is_empty() && !text.contains('#') && !text.contains(char::is_whitespace);
    let text = |key: &str| model.get(key)?.as_str().filter(is_name);
    let provider = text("providerID").filter(|provider| !provider.contains('/'))?;
    let name = text("model")?;
    match model.get("variant") {
        None | Some(Value::Null) => Some(format!("{provider}/{name}")),
        Some(_) => Some(format!("{provider}/{name}#{}", text("variant")?)),
    }
}

/// Returns the longest of several time limits, if there is one; `None` where they are something else.
fn longest(limits: &Value) -> Option<Option<Value>> {
    let limits = limits.as_object()?;
    let said = || limits.values().filter(|value| !value.is_null());
    let is_known = |key: &String| LIMITS.contains(&key.as_str());
    (limits.keys().all(is_known) && said().all(Value::is_u64)).then_some(())?;
    Some(said().max_by_key(|value| value.as_u64()).cloned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{
        layer::Kind,
        rules::{last_match, read_rules},
        warning::Findings,
    };

    fn normalized(value: Value) -> (Value, Findings) {
        let Value::Object(value) = value else { unreachable!() };
        let mut layer = Layer::new(Kind::File, "file", Path::new("/"), value);
        let mut findings = Findings::default();
        super::super::normalize(&mut layer, &mut findings);
        (Value::Object(layer.value), findings)
    }

    #[test]
    fn a_list_of_rules_decides_as_it_did_in_its_order() {
        let list = [
            ("*", "*", "ask"),
            ("shell", "git *", "allow"),
            ("read", "*", "allow"),
            ("*", "secret*", "deny"),
            ("shell", "git status", "allow"),
            ("*", "*.md", "allow"),
            ("read", "secret.md", "deny"),
            ("shop_*", "*", "deny"),
            ("shop_list", "*", "allow"),
        ];
        let rules: Vec<Value> = list
            .iter()
            .map(|(action, resource, effect)| json!({"action": action, "resource": resource, "effect": effect}))
            .collect();
        let (value, findings) = normalized(json!({"permissions": rules}));
        assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
        let (ours, problems) = read_rules(&value["permission"], Path::new("/"));
        assert!(problems.is_empty());
        for action in ["shell", "read", "edit", "shop_buy", "shop_list"] {
            for resource in
                ["git log", "git status", "secret", "secret.md", "secret *", "a.md", "x", "git secret"]
            {
                let theirs = list
                    .iter()
                    .rfind(|(known, pattern, _)| wildcard(known, action) && wildcard(pattern, resource));
                let own =
                    last_match(own_action(action), resource, ours.iter()).map(|rule| rule.action.name());
                assert_eq!(
                    own,
                    theirs.map(|(.., effect)| *effect),
                    "{action} {resource}: {}",
                    value["permission"]
                );
            }
        }
    }

    #[test]
    fn for_a_rule_that_is_none_everything_asks_and_the_others_hold() {
        let denial = json!({"action": "shell", "resource": "rm *", "effect": "deny"});
        for odd in [json!({"action": "shell", "effect": "perhaps"}), json!("deny"), json!(5)] {
            let (value, findings) = normalized(json!({"permissions": [denial, odd]}));
            assert_eq!(value["permission"], json!({"bash": {"rm *": "deny"}}));
            let warning = findings.warnings[0].to_string();
            assert!(warning.contains("permissions.1") && warning.contains("everything asks"), "{warning}");
        }
    }

    #[test]
    fn of_two_names_of_one_tool_the_stricter_rule_holds_and_other_names_are_read_as_ours() {
        let rules = json!({"shell": "deny", "bash": "allow", "subagent": "deny"});
        let value = Map::from_iter([("permissions".to_owned(), rules)]);
        let mut layer = Layer::new(Kind::File, "f", Path::new("/"), value);
        super::super::normalize(&mut layer, &mut Findings::default());
        assert_eq!(layer.value["permission"], json!({"bash": "allow", "task": "deny"}));
        let rules: Vec<_> = layer.limits.iter().flat_map(|limit| limit.kind.rules(Path::new("/"))).collect();
        assert_eq!((&*rules[0].permission, rules[0].action.name(), rules.len()), ("bash", "deny", 1));
    }

    #[test]
    fn policies_name_the_providers_that_there_are() {
        let policy =
            |name: &str, effect: &str| json!({"action": "provider.use", "resource": name, "effect": effect});
        let (value, _) = normalized(json!({"policies": [policy("openai", "deny")]}));
        assert_eq!(value["disabled_providers"], json!(["openai"]));
        let (value, _) = normalized(json!({"policies": [policy("*", "deny"), policy("anthropic", "allow")]}));
        assert_eq!(value["enabled_providers"], json!(["anthropic"]));
        let (value, findings) = normalized(json!({"policies": [policy("open*", "deny")]}));
        assert_eq!(value["enabled_providers"], json!([]));
        assert_eq!(findings.warnings.len(), 1);
        assert_eq!(normalized(json!({"policies": "none"})).0["enabled_providers"], json!([]));
        let (value, _) = normalized(json!({
            "disabled_providers": ["groq"], "enabled_providers": ["anthropic", "openai"],
            "policies": [policy("*", "deny"), policy("anthropic", "allow"), policy("google", "allow"), policy("xai", "deny")],
        }));
        assert_eq!(
            (&value["disabled_providers"], &value["enabled_providers"]),
            (&json!(["groq", "xai"]), &json!(["anthropic"]))
        );
        let older = json!({"experimental": {"policies": [policy("openai", "deny")]}});
        assert_eq!(normalized(older).0["disabled_providers"], json!(["openai"]));
        let of_server = json!({"action": "mcp.use", "resource": "shop", "effect": "deny"});
        let servers = json!({"shop": {"type": "local", "command": ["x"]}});
        let (value, _) = normalized(json!({"policies": [of_server], "mcp": servers}));
        assert_eq!(value["mcp"]["shop"]["enabled"], false);
        let tool = json!({"action": "tool.use", "resource": "shell:rm *", "effect": "deny"});
        let mut layer = Layer::new(
            Kind::File,
            "f",
            Path::new("/"),
            Map::from_iter([("policies".to_owned(), json!([tool]))]),
        );
        super::super::normalize(&mut layer, &mut Findings::default());
        let rules: Vec<_> = layer.limits.iter().flat_map(|limit| limit.kind.rules(Path::new("/"))).collect();
        assert_eq!((&*rules[0].permission, &*rules[0].pattern), ("bash", "rm *"));
    }

    #[test]
    fn models_skills_plugins_and_limits_are_read_as_ours() {
        let (value, findings) = normalized(json!({
            "model": {"providerID": "a", "model": "b", "variant": "high"},
            "agents": {"judge": {"model": {"providerID": "a", "model": "b"}, "system": "Judge."}},
            "skills": ["./s", "https://s.example/"],
            "plugins": ["one", {"package": "two", "options": {"x": 1}}, "-one"],
            "update": "disable",
            "mcp": {"timeout": {"startup": 1000, "execution": 5000}, "servers": {}},
            "warming": true,
        }));
        assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
        assert_eq!(
            value,
            json!({
                "model": "a/b#high",
                "agent": {"judge": {"model": "a/b", "prompt": "Judge."}},
                "skills": {"paths": ["./s"], "urls": ["https://s.example/"]},
                "plugin": [["two", {"x": 1}]],
                "autoupdate": false,
                "mcp": {},
                "experimental": {"mcp_timeout": 5000},
            })
        );
    }
}
