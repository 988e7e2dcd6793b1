//! Compares two readings of a workspace's files: finds everything that the newer one allows, starts or reaches and the
//! older did not.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use windlass_base::text::visible_line;
use windlass_core::{
    config::{
        looser::{Loosened, looser},
        sandbox::{wanted, wanted_of_servers},
        secrets,
    },
    library::{
        self, Agent,
        commands::{
            Body,
            template::{self, Piece},
        },
        skills::Skill,
    },
};
use windlass_protocol::opencode::{
    config::AgentConfig,
    settings::{HookCommand, PluginSpec, Programs},
};
use windlass_services::{lsp, mcp::Server, plugin::plan::Planned};

use super::loaded::Loaded;

/// Agents that are named for a rule; the rest is counted.
const MAX_NAMES: usize = 5;
/// Permissions that only let an agent speak with the user.
const TALK: [&str; 3] = ["question", "plan_enter", "plan_exit"];

/// Something that may not hold before the user has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loosening {
    /// A rule became less strict for these agents.
    Rule { rule: Loosened, agents: Vec<String> },
    /// A program would be started, or a server asked, that was not before.
    Program { what: String, runs: String },
    /// A plugin would be taken out, and with it everything that it denies.
    Guard { plugin: String },
    /// A limit of the sandbox around an agent's commands, or around servers, became wider.
    Sandbox { of: String, change: String },
    /// A key that is in use would go to another address.
    Address { provider: String, url: String },
}

impl fmt::Display for Loosening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { rule, agents } => {
                let n_more = agents.len().saturating_sub(MAX_NAMES);
                let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
                let named = agents.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
                let text = format!("rule {rule} (agent {named}{more})");
                formatter.write_str(&visible_line(&text))
            }
            Self::Program { what, runs } => {
                let runs = secrets::command_line(runs);
                write!(formatter, "{}: {}", visible_line(what), visible_line(&runs))
            }
            Self::Guard { plugin } => formatter
                .write_str(&visible_line(&format!("without the plugin {plugin}, which may deny calls"))),
            Self::Sandbox { of, change } => {
                formatter.write_str(&visible_line(&format!("sandbox of {of}: {change}")))
            }
            Self::Address { provider, url } => {
                let text = format!("provider {provider}: its key would be sent to {}", secrets::text(url));
                formatter.write_str(&visible_line(&text))
            }
        }
    }
}

/// Returns everything that `new` loosens; nothing for a change that only tightens or has nothing to do with it.
pub fn loosened(old: &Loaded, new: &Loaded) -> Vec<Loosening> {
    let mut acc = rules(old, new);
    acc.extend(started(old, new));
    acc.extend(sandboxes(old, new));
    acc.extend(addresses(old, new));
    acc
}

fn rules(old: &Loaded, new: &Loaded) -> Vec<Loosening> {
    let mut found: BTreeMap<Loosened, Vec<String>> = BTreeMap::new();
    let mut note = |name: &str, rules: Vec<Loosened>| {
        for rule in rules {
            found.entry(rule).or_default().push(name.to_owned());
        }
    };
    let (of_old, of_new) = (by_name(&old.agents), by_name(&new.agents));
    let added: Vec<&Agent> =
        new.agents.iter().filter(|agent| !of_old.contains_key(agent.name.as_str())).collect();
    let plain = if added.is_empty() { Vec::new() } else { without_own_rules(new, &added) };
    let plain = by_name(&plain);
    for agent in &new.agents {
        let name = agent.name.as_str();
        let before = of_old.get(name).or_else(|| plain.get(name)).copied();
        note(&agent.name, looser(&before.unwrap_or(new.default_agent()).policy, &agent.policy));
    }
    // Their sessions go on with the default agent.
    let is_gone = |agent: &&Agent| agent.is_primary() && !of_new.contains_key(agent.name.as_str());
    for agent in old.agents.iter().filter(is_gone) {
        let heir = new.default_agent();
        let mut rules = looser(&agent.policy, &heir.policy);
        rules.retain(|rule| !TALK.contains(&rule.permission.as_str()));
        note(&format!("{} for {}", heir.name, agent.name), rules);
    }
    // A skill may always be read with the files beside it.
    let skills = new.skills.iter().filter_map(Skill::directory);
    let readable: BTreeSet<String> = skills.map(|it| format!("{}/*", it.display())).collect();
    let is_skills =
        |rule: &Loosened| rule.permission == "external_directory" && readable.contains(&rule.pattern);
    let found = found.into_iter().filter(|(rule, _)| !is_skills(rule));
    found.map(|(rule, agents)| Loosening::Rule { rule, agents }).collect()
}

fn by_name(agents: &[Agent]) -> HashMap<&str, &Agent> {
    agents.iter().map(|agent| (agent.name.as_str(), agent)).collect()
}

/// Agents as they would be if nothing but their names were configured.
fn without_own_rules(loaded: &Loaded, agents: &[&Agent]) -> Vec<Agent> {
    let mut config = loaded.config.clone();
    config.agents.extend(agents.iter().map(|agent| (agent.name.clone(), AgentConfig::default())));
    library::agents(&config, &loaded.skills).0
}

fn started(old: &Loaded, new: &Loaded) -> Vec<Loosening> {
    let before = programs(old);
    let is_new = |what: &String, program: &Program| before.get(what) != Some(program);
    let started = programs(new).into_iter().filter(|(what, program)| is_new(what, program));
    let started = started.map(|(what, program)| Loosening::Program { what, runs: program.runs });
    // A plugin may deny calls that no rule does.
    let is_kept = |planned: &Planned| new.plan.plugins.iter().any(|it| it.source == planned.source);
    let gone = old.plan.plugins.iter().filter(|planned| !is_kept(planned));
    let gone = gone.map(|planned| Loosening::Guard { plugin: planned.name().to_owned() });
    started.chain(gone).collect()
}

/// Something that is started or asked without a question of its own.
#[derive(PartialEq)]
struct Program {
    /// The part that people read.
    runs: String,
    /// Everything else that decides the effect, such as variables.
    rest: String,
}

fn programs(loaded: &Loaded) -> BTreeMap<String, Program> {
    let mut acc = BTreeMap::new();
    let mut add = |what: String, runs: String, rest: String| acc.insert(what, Program { runs, rest });
    for server in loaded.servers() {
        let what = format!("MCP server {}", server.name);
        match server.server {
            Server::Local { command, cwd, environment } => {
                add(what, command.join(" "), format!("{cwd:?} {environment:?}"))
            }
            // Headers are keys, which come and go.
            Server::Remote { url, headers: _, oauth: _ } => add(what, url, String::new()),
            // Only a client brings one.
            Server::Linked(_) => None,
        };
    }
    for server in lsp::definitions(&loaded.config) {
        let is_known = server.row.is_some_and(|row| server.command == row.command);
        if is_known && server.environment.is_empty() {
            let runs = "those whose programs are on PATH".to_owned();
            add("known language servers".to_owned(), runs, String::new());
            continue;
        }
        let rest = format!("{:?} {:?}", server.environment, server.initialization);
        add(format!("language server {}", server.id), server.command.join(" "), rest);
    }
    if let Some(shell) = &loaded.config.shell {
        add("shell".to_owned(), shell.clone(), String::new());
    }
    let settings = &loaded.config.settings;
    if let Some(Programs::ByName(formatters)) = &settings.formatter {
        for (name, formatter) in formatters.iter().filter(|(_, it)| it.disabled != Some(true)) {
            let rest = format!("{:?}", formatter.environment);
            add(format!("formatter {name}"), formatter.command.join(" "), rest);
        }
    }
    for plugin in &settings.plugin {
        let (PluginSpec::Name(name) | PluginSpec::WithOptions(name, _)) = plugin;
        add(format!("plugin {name}"), name.clone(), String::new());
    }
    for (what, runs, state) in loaded.plan.programs() {
        add(what, runs, state);
    }
    let hooks = settings.experimental.hook.iter();
    let hooks = hooks.flat_map(|it| it.file_edited.values().flatten().chain(&it.session_completed));
    for HookCommand { command, environment } in hooks {
        let runs = command.join(" ");
        add(format!("hook {runs}"), runs, format!("{environment:?}"));
    }
    for command in loaded.commands.values() {
        let lines = match &command.body {
            Body::Template(text) => shell_lines(text),
            Body::Skill(_) | Body::ServerPrompt(_) | Body::Builtin(_) | Body::Compact => Vec::new(),
        };
        if !lines.is_empty() {
            add(format!("shell lines of the command /{}", command.name), lines.join("; "), String::new());
        }
    }
    acc
}

/// Returns the shell commands of a template.
fn shell_lines(template: &str) -> Vec<String> {
    let pieces = template::expand(template, "").into_iter();
    let lines = pieces.filter_map(|piece| match piece {
        Piece::Shell(line) | Piece::Unfillable(line) => Some(line),
        Piece::Text(_) => None,
    });
    lines.collect()
}

fn sandboxes(old: &Loaded, new: &Loaded) -> Vec<Loosening> {
    let (before, after) = (&old.config.settings.windlass.sandbox, &new.config.settings.windlass.sandbox);
    let of_agents = new.agents.iter().map(|agent| {
        let of = format!("agent {}", agent.name);
        (of, wanted(before, &agent.name), wanted(after, &agent.name))
    });
    let of_servers = [
        ("MCP servers", wanted_of_servers(&before.mcp), wanted_of_servers(&after.mcp)),
        ("language servers", wanted_of_servers(&before.lsp), wanted_of_servers(&after.lsp)),
        ("plugins", wanted_of_servers(&before.plugins), wanted_of_servers(&after.plugins)),
    ];
    let all = of_agents.chain(of_servers.map(|(of, old, new)| (of.to_owned(), old, new)));
    let changed = all.flat_map(|(of, old, new)| {
        new.wider_than(&old).into_iter().map(move |change| Loosening::Sandbox { of: of.clone(), change })
    });
    changed.collect()
}

fn addresses(old: &Loaded, new: &Loaded) -> Vec<Loosening> {
    let used = |loaded: &Loaded| -> BTreeSet<(String, String, String)> {
        let models = loaded.catalog.models();
        let with_keys = models.filter_map(|model| {
            let key = match &model.api_key {
                Some(key) => key.0.clone(),
                None if model.has_login => format!("the login for {}", model.provider_id),
                None => return None,
            };
            Some((key, model.base_url.clone(), model.provider_id.clone()))
        });
        with_keys.collect()
    };
    let before = used(old);
    let is_known = |key: &str, url: Option<&str>| {
        before.iter().any(|(own, to, _)| own == key && url.is_none_or(|url| url == to))
    };
    let sent = used(new).into_iter().filter(|(key, url, _)| is_known(key, None) && !is_known(key, Some(url)));
    sent.map(|(_, url, provider)| Loosening::Address { provider, url }).collect()
}

#[cfg(test)]
mod tests;
