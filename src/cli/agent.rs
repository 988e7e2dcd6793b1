//! `windlass agent`: lists the agents of a directory and makes new ones.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_core::config::{
    Environment,
    paths::Paths,
    policy::{Origin, Policy},
    secrets,
};
use windlass_engine::{Agent, Engine};
use windlass_protocol::opencode::{config::AgentMode, permission::Rule};

use super::{
    options::{Format, FormatArgs},
    output, runtime, trust,
};

mod create;

#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// List the agents that can be used here, with their rules; the last rule that matches decides.
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Have a model write an agent from a description. Asks on the terminal for missing options.
    Create(create::CreateArgs),
}

pub fn run(environment: Environment, args: AgentArgs) -> ExitCode {
    match args.command {
        AgentCommand::List { format } => runtime::block_on(async move {
            let paths = Paths::new(&environment);
            list(&Engine::new(environment, paths), format.get()).await
        }),
        AgentCommand::Create(args) => create::run(environment, args),
    }
}

async fn list(engine: &Engine, format: Format) -> ExitCode {
    let read = async {
        let directory = std::env::current_dir().map_err(|error| error.to_string())?;
        engine.workspaces().read_files(&directory).await.map_err(|error| error.to_string())
    };
    let loaded = match read.await {
        Ok(loaded) => loaded,
        Err(reason) => return output::fail(&format!("{reason}.")),
    };
    trust::note_held(&loaded.config.held);
    let mut agents: Vec<&Agent> = loaded.agents.iter().collect();
    agents.sort_by_key(|agent| (!agent.native, &agent.name));
    if format == Format::Json {
        let agents: Vec<Value> = agents.into_iter().map(to_json).collect();
        return output::print_answer(&format!("{:#}", Value::Array(agents)));
    }
    let mut lines = Vec::new();
    for agent in agents {
        lines.push(format!("{} ({})", agent.name, kind(agent)));
        lines.extend(
            agent.description.iter().map(|text| format!("  {}", output::plain(&secrets::text(text)))),
        );
        for layer in agent.policy.layers() {
            if layer.origin != Origin::Agent {
                lines.push(format!("  {}:", layer.origin.title()));
            }
            lines.extend(layer.rules.iter().map(|rule| format!("  {}", rule_line(rule))));
        }
    }
    output::print_answer(&lines.join("\n"))
}

/// Returns an agent as OpenCode writes one, without secrets.
pub fn to_json(agent: &Agent) -> Value {
    let model = agent.model.as_ref();
    let mut fields = json!({
        "name": agent.name,
        "title": agent.title,
        "description": agent.description,
        "mode": agent.mode,
        "native": agent.native,
        "hidden": agent.hidden,
        "temperature": agent.temperature,
        "topP": agent.top_p,
        "color": agent.color,
        "model": model.map(|model| json!({"providerID": model.provider_id, "modelID": model.model_id})),
        "variant": agent.variant,
        "prompt": agent.prompt,
        "options": agent.options,
        "steps": agent.steps,
        "permission": agent.policy.rules(),
        "neverLooserThan": layers(&agent.policy),
    });
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    secrets::mask(&[], &fields)
}

/// Returns the layers that hold beside an agent's own rules; null where there are none.
pub fn layers(policy: &Policy) -> Value {
    let others = policy.layers().iter().filter(|layer| layer.origin != Origin::Agent);
    let others: Vec<Value> =
        others.map(|it| json!({"origin": it.origin.key(), "rules": &*it.rules})).collect();
    if others.is_empty() { Value::Null } else { Value::Array(others) }
}

/// Returns where an agent may be used and where it comes from.
pub fn kind(agent: &Agent) -> String {
    let mode = match agent.mode {
        AgentMode::Primary => "primary",
        AgentMode::Subagent => "subagent",
        AgentMode::All => "all",
    };
    let origin = if agent.native { ", native" } else { "" };
    let hidden = if agent.hidden { ", hidden" } else { "" };
    format!("{mode}{origin}{hidden}")
}

/// Renders a rule on one line, such as `deny edit src/*`.
pub fn rule_line(rule: &Rule) -> String {
    let line = format!("{:<5} {} {}", rule.action.name(), rule.permission, rule.pattern);
    output::plain(&secrets::text(&line))
}
