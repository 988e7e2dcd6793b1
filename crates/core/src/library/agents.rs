//! The agents: seven built-in ones, those of the configuration over them, and the one a session starts with
//! (facts: OpenCode §3).

use std::{collections::BTreeMap, path::Path};

use serde_json::Map;
use windlass_protocol::opencode::{
    config::{AgentConfig, AgentMode},
    permission::{Action, Rule},
};

use super::{Agent, skills::Skill};
use crate::config::{
    Config, Warning,
    limits::Bound,
    model::parse_model,
    policy::{Origin, Policy},
    rules::{defaults, last_match, read_rules, rule, rules_from_tools, wildcard},
};

/// Implements [`super::agents`].
pub(super) fn agents(config: &Config, skills: &[Skill]) -> (Vec<Agent>, Vec<Warning>) {
    let mut warnings = Vec::new();
    let readable = readable(skills, config);
    let mut agents: BTreeMap<String, Agent> =
        built_in(config, &readable).into_iter().map(|agent| (agent.name.clone(), agent)).collect();
    for (name, agent_config) in &config.agents {
        if agent_config.disable == Some(true) {
            agents.remove(name);
            continue;
        }
        let agent = agents.entry(name.clone()).or_insert_with(|| {
            let base = defaults(&config.paths);
            let allowed = allowed(name, config);
            let agent_rules = [base.as_slice(), &readable, &allowed, &config.permission].concat();
            let policy = match config.fetched_rules.get(name) {
                Some(fetched) => bounded(agent_rules, fetched, config),
                None => Policy::new(agent_rules),
            };
            let policy = limited(policy, name, config, true);
            Agent { native: false, ..blank(name, AgentMode::All, policy) }
        });
        configure(agent, agent_config, config);
    }
    if !agents.values().any(Agent::is_primary) {
        let message = "every primary agent is disabled or hidden; `build` is used".to_owned();
        warnings.push(Warning { source: "agent".to_owned(), line: None, column: None, message });
        agents
            .extend(built_in(config, &readable).into_iter().take(1).map(|build| (build.name.clone(), build)));
    }
    let mut agents: Vec<Agent> = agents.into_values().collect();
    for agent in &mut agents {
        keep_tool_output_readable(agent, config);
        let policy = std::mem::take(&mut agent.policy);
        let policy = limited(policy, &agent.name, config, false);
        agent.policy = policy.with(Origin::Administrator, &config.managed.rules(&agent.name));
    }
    let (default, warning) = default_agent(&agents, config);
    warnings.extend(warning);
    let default = default.map(|agent| agent.name.clone());
    agents.sort_by_key(|agent| Some(&agent.name) != default.as_ref());
    (agents, warnings)
}

/// Returns the agent a session starts with: `default_agent` if it may be chosen, else `build`, else the first
/// that may be.
///
/// [`agents`] leaves at least one.
pub(super) fn default_agent<'a>(
    agents: &'a [Agent],
    config: &Config,
) -> (Option<&'a Agent>, Option<Warning>) {
    let named = |name: &str| agents.iter().find(|agent| agent.name == name);
    let is_primary = |agent: &&Agent| agent.mode == AgentMode::Primary && agent.is_primary();
    let fallback = || {
        named("build")
            .filter(|agent| agent.is_primary())
            .or_else(|| agents.iter().find(is_primary))
            .or_else(|| agents.iter().find(|agent| agent.is_primary()))
    };
    let Some(wanted) = config.default_agent.as_deref() else { return (fallback(), None) };
    let problem = match named(wanted) {
        Some(agent) if agent.is_primary() => return (Some(agent), None),
        Some(agent) if agent.mode == AgentMode::Subagent => "is a subagent",
        Some(_) => "is hidden",
        None => "does not exist",
    };
    let agent = fallback();
    let used = agent.map_or("none", |agent| agent.name.as_str());
    let message = format!("default agent `{wanted}` {problem}; `{used}` is used");
    (agent, Some(Warning { source: "default_agent".to_owned(), line: None, column: None, message }))
}

fn built_in(config: &Config, readable: &[Rule]) -> Vec<Agent> {
    let base = [defaults(&config.paths).as_slice(), readable].concat();
    let tool_output = format!("{}/*", config.paths.tool_output().display());
    let plans = config.paths.data.join("plans");
    let plan_files =
        [".opencode/plans/*.md".to_owned(), format!("{}/*.md", plans.display()), relative_plans(config)];
    let allow = |permission: &str| rule(permission, "*", Action::Allow);
    let deny = |permission: &str| rule(permission, "*", Action::Deny);

    let edits_plans = || {
        let allowed = plan_files.iter().map(|file| rule("edit", file, Action::Allow));
        std::iter::once(deny("edit")).chain(allowed)
    };
    let mut plan = vec![
        allow("question"),
        allow("plan_exit"),
        rule("task", "general", Action::Deny),
        rule("external_directory", &format!("{}/*", plans.display()), Action::Allow),
    ];
    plan.extend(edits_plans());
    let plan_floor: Vec<Rule> = edits_plans().chain([rule("task", "general", Action::Deny)]).collect();

    let env_files = [
        rule("read", "*.env", Action::Ask),
        rule("read", "*.env.*", Action::Ask),
        rule("read", "*.env.example", Action::Allow),
    ];
    let mut explore = vec![deny("*")];
    explore
        .extend(["grep", "glob", "list", "bash", "webfetch", "websearch", "codesearch", "read"].map(allow));
    explore.extend([
        rule("external_directory", "*", Action::Ask),
        rule("external_directory", &tool_output, Action::Allow),
    ]);
    explore.extend(readable.iter().cloned());
    explore.extend(env_files.clone());
    let explore_floor: Vec<Rule> = std::iter::once(deny("edit")).chain(env_files).collect();

    let agent = |name: &str, mode: AgentMode, specific: &[Rule], floor: &[Rule]| {
        let allowed = allowed(name, config);
        let policy = Policy::new([base.as_slice(), specific, &allowed, &config.permission].concat());
        let floor = if floor.is_empty() { Vec::new() } else { [floor, &allowed].concat() };
        blank(name, mode, policy.with(Origin::Floor, &floor))
    };
    let described =
        |agent: Agent, description: &str| Agent { description: Some(description.to_owned()), ..agent };
    let prompted = |agent: Agent, prompt: &str| Agent { prompt: Some(prompt.trim_end().into()), ..agent };
    let internal = |name: &str, prompt: &str| Agent {
        hidden: true,
        ..prompted(agent(name, AgentMode::Primary, &[deny("*")], &[deny("*")]), prompt)
    };
    vec![
        described(
            agent("build", AgentMode::Primary, &[allow("question"), allow("plan_enter")], &[]),
            "The default agent: works on the task with every tool the permissions allow.",
        ),
        described(
            agent("plan", AgentMode::Primary, &plan, &plan_floor),
            "Plans without changing anything: reads, asks and proposes.",
        ),
        described(
            prompted(
                agent("general", AgentMode::Subagent, &[deny("todowrite"), deny("todoread")], &[]),
                include_str!("prompts/general.txt"),
            ),
            "Carries out a research question or a task of several steps on its own. \
             Use it to do independent pieces of work side by side.",
        ),
        described(
            prompted(
                agent("explore", AgentMode::Subagent, &explore, &explore_floor),
                include_str!("prompts/explore.txt"),
            ),
            "Searches the code base quickly: finds files by name, code by content, and answers how something works. \
             Say how thorough it shall be: quick, medium or very thorough. It is given no tool for editing; its shell commands go by the rules for `bash`.",
        ),
        Agent { temperature: Some(0.5), ..internal("title", include_str!("prompts/title.txt")) },
        internal("summary", include_str!("prompts/summary.txt")),
        internal("compaction", include_str!("prompts/compaction.txt")),
    ]
}

/// Returns the rules that an administrator adds to an agent's built-in ones. They rank below the user's rules.
fn allowed(name: &str, config: &Config) -> Vec<Rule> {
    let managed = config.managed.agents.get(name).into_iter().flatten();
    managed.filter(|rule| rule.action == Action::Allow).cloned().collect()
}

/// Returns the policy of an agent that was fetched by URL: no looser than the defaults where the user has no
/// rule, and no looser than the agent's own file. Only the agent's own configuration can give back a tool that
/// the agent denies itself altogether.
fn bounded(agent_rules: Vec<Rule>, fetched: &[Rule], config: &Config) -> Policy {
    let is_whole = |idx: usize, earlier: &Rule| {
        let concerns = |later: &Rule| {
            wildcard(&earlier.permission, &later.permission)
                || wildcard(&later.permission, &earlier.permission)
        };
        let is_excepted =
            fetched.iter().skip(idx + 1).any(|later| later.action != Action::Deny && concerns(later));
        earlier.action == Action::Deny && earlier.pattern == "*" && !is_excepted
    };
    let denied = fetched.iter().enumerate().filter(|(idx, earlier)| is_whole(*idx, earlier));
    let denied: Vec<Rule> = denied.map(|(_, earlier)| earlier.clone()).collect();
    let meant = [fetched, &config.permission].concat();
    Policy::new(agent_rules).with(Origin::Floor, &meant).with(Origin::Floor, &denied)
}

/// Adds the lists of tools and the other limits of an agent, which no rule of its own lifts unless they were fetched.
fn limited(policy: Policy, name: &str, config: &Config, is_fetched: bool) -> Policy {
    let concerns =
        |it: &&Bound| it.is_fetched == is_fetched && it.agent.as_ref().is_none_or(|agent| agent == name);
    config.limits.iter().filter(concerns).fold(policy, |policy, it| policy.with(Origin::Floor, &it.rules))
}

fn blank(name: &str, mode: AgentMode, policy: Policy) -> Agent {
    Agent {
        name: name.to_owned(),
        title: None,
        description: None,
        mode,
        native: true,
        hidden: false,
        temperature: None,
        top_p: None,
        color: None,
        model: None,
        variant: None,
        prompt: None,
        options: Map::new(),
        steps: None,
        worktree: false,
        policy,
    }
}

fn configure(agent: &mut Agent, agent_config: &AgentConfig, config: &Config) {
    let AgentConfig {
        name,
        model,
        variant,
        temperature,
        top_p,
        prompt,
        description,
        mode,
        hidden,
        disable: _,
        color,
        steps,
        worktree,
        permission,
        options,
        tools,
    } = agent_config;
    if let Some(model) = model.as_deref().and_then(parse_model) {
        agent.variant = model.variant.clone();
        agent.model = Some(model);
    }
    agent.variant = variant.clone().or(agent.variant.take());
    agent.title = name.clone().or(agent.title.take());
    agent.temperature = temperature.or(agent.temperature);
    agent.top_p = top_p.or(agent.top_p);
    agent.prompt = prompt.clone().or(agent.prompt.take());
    agent.description = description.clone().or(agent.description.take());
    agent.mode = mode.unwrap_or(agent.mode);
    agent.hidden = hidden.unwrap_or(agent.hidden);
    agent.color = color.clone().or(agent.color.take());
    agent.steps = steps.or(agent.steps);
    agent.worktree = worktree.unwrap_or(agent.worktree);
    agent.options.extend(options.clone());
    let tools = tools.iter().flat_map(|switches| &switches.0);
    let mut own = rules_from_tools(tools.map(|(tool, is_enabled)| (tool.as_str(), *is_enabled)));
    if let Some(permission) = permission {
        own.extend(read_rules(permission, &config.environment.home).0);
    }
    agent.policy.extend(&own);
}

/// Returns rules that let agents read skill directories outside the project, unless a rule of the user decides
/// otherwise.
fn readable(skills: &[Skill], config: &Config) -> Vec<Rule> {
    let is_inside = |directory: &Path| {
        let has_worktree = config.worktree != Path::new("/");
        directory.starts_with(&config.directory) || (has_worktree && directory.starts_with(&config.worktree))
    };
    let outside = skills.iter().filter_map(Skill::directory).filter(|directory| !is_inside(directory));
    outside.map(|it| rule("external_directory", &format!("{}/*", it.display()), Action::Allow)).collect()
}

/// Keeps saved tool outputs readable under all rules for files, unless they deny that very directory.
fn keep_tool_output_readable(agent: &mut Agent, config: &Config) {
    let pattern = format!("{}/*", config.paths.tool_output().display());
    for permission in ["external_directory", "read"] {
        let is_denied = agent.policy.rules().iter().any(|rule| {
            rule.permission == permission && rule.pattern == pattern && rule.action == Action::Deny
        });
        // An agent that denies everything but a list of tools has no use for the file of an output.
        let last_match = last_match(permission, &pattern, agent.policy.rules().iter());
        let is_outside = last_match.is_some_and(|rule| rule.permission == "*" && rule.action == Action::Deny);
        if !is_denied && (permission == "external_directory" || !is_outside) {
            agent.policy.extend(&[rule(permission, &pattern, Action::Allow)]);
        }
    }
}

/// Returns the pattern of plan files outside the project as `edit` names them: relative to the worktree.
fn relative_plans(config: &Config) -> String {
    let plans = config.paths.data.join("plans");
    let n_common =
        config.worktree.components().zip(plans.components()).take_while(|(one, other)| one == other).count();
    let n_up = config.worktree.components().count().saturating_sub(n_common);
    let down = plans.components().skip(n_common).map(|component| component.as_os_str().to_string_lossy());
    let parts: Vec<String> =
        std::iter::repeat_n("..".to_owned(), n_up).chain(down.map(|part| part.into_owned())).collect();
    format!("{}/*.md", parts.join("/"))
}

#[cfg(test)]
mod tests;
