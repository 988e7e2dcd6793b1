//! `windlass debug`: shows the request that an agent's turn would send, and the sandbox of its commands.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use windlass_core::config::{Environment, paths::Paths, secrets};
use windlass_engine::{AgentView, Engine};
use windlass_protocol::opencode::model_ref::ModelRef;

use super::{
    agent,
    options::{Format, FormatArgs},
    output, runtime,
};

mod sandbox;

#[derive(Debug, Args)]
pub struct DebugArgs {
    #[command(subcommand)]
    command: DebugCommand,
}

#[derive(Debug, Subcommand)]
enum DebugCommand {
    /// Show the model, rules, tools and system prompt that a turn of this agent would send.
    ///
    /// The tools are those of an editor's session; `windlass run` has no tools that need a user.
    Agent {
        name: String,
        /// Another model than the agent's, as `provider/model`.
        #[arg(long, short, value_name = "MODEL")]
        model: Option<String>,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Show the sandbox that this machine supports, and the one that an agent's commands get in this directory.
    Sandbox {
        #[arg(default_value = "build")]
        agent: String,
        #[command(flatten)]
        format: FormatArgs,
    },
}

pub fn run(environment: Environment, args: DebugArgs) -> ExitCode {
    match args.command {
        DebugCommand::Agent { name, model, format } => show_agent(environment, name, model, format.get()),
        DebugCommand::Sandbox { agent, format } => sandbox::run(environment, agent, format.get()),
    }
}

fn show_agent(environment: Environment, name: String, model: Option<String>, format: Format) -> ExitCode {
    runtime::block_on(async move {
        let paths = Paths::new(&environment);
        let engine = Engine::new(environment, paths);
        let viewed = tokio::select! {
            biased;
            signal = runtime::signalled() => {
                engine.abort().await;
                return ExitCode::from(128 + signal);
            }
            viewed = view(&engine, &name, model.as_deref()) => viewed,
        };
        engine.finish().await;
        match viewed {
            Ok(view) if format == Format::Json => output::print_answer(&format!("{:#}", as_json(&view))),
            Ok(view) => output::print_answer(&as_text(&view)),
            Err(reason) => output::fail(&reason),
        }
    })
}

async fn view(engine: &Engine, name: &str, model: Option<&str>) -> Result<AgentView, String> {
    let directory = std::env::current_dir().map_err(|error| error.to_string())?;
    let parse = |model: &str| {
        ModelRef::parse(model)
            .ok_or_else(|| format!("`{model}` is not a model name: write `provider/model`."))
    };
    let model = model.map(parse).transpose()?;
    engine
        .diagnostics()
        .inspect_agent(&directory, name, model.as_ref())
        .await
        .map_err(|error| error.to_string())
}

fn as_json(view: &AgentView) -> Value {
    let instructions = view
        .instructions
        .iter()
        .map(|(source, size)| json!({"source": secrets::text(source), "bytes": size}));
    let tools = view.tools.iter().map(
        |tool| json!({"name": tool.name, "description": secrets::text(&tool.description), "needs_user": tool.needs_user}),
    );
    json!({
        "agent": agent::to_json(&view.agent),
        "model": view.model.to_string(),
        "variant": view.model.variant,
        "request": parameters(view),
        "rules": secrets::mask(&[], &json!(view.policy.rules())),
        "neverLooserThan": secrets::mask(&[], &agent::layers(&view.policy)),
        "tools": tools.collect::<Vec<_>>(),
        "instructions": instructions.collect::<Vec<_>>(),
        "system": view.system.iter().map(|text| secrets::text(text)).collect::<Vec<_>>(),
        "warnings": view.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Returns the fields of the request beside its texts and tools.
fn parameters(view: &AgentView) -> Map<String, Value> {
    let mut fields = secrets::masked(&view.options);
    let own = [
        ("temperature", view.temperature.map(Value::from)),
        ("top_p", view.top_p.map(Value::from)),
        ("max_output_tokens", view.max_output_tokens.map(Value::from)),
        ("steps", view.agent.steps.map(Value::from)),
    ];
    fields.extend(own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    fields
}

fn as_text(view: &AgentView) -> String {
    let AgentView { agent, .. } = view;
    let mut lines = vec![format!("{} ({})", agent.name, agent::kind(agent))];
    lines.extend(agent.description.iter().map(|text| output::plain(&secrets::text(text))));
    let variant = view.model.variant.as_ref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    lines.push(format!("model: {}{variant}", view.model));
    for (key, value) in parameters(view) {
        lines.push(format!("{key}: {value}"));
    }
    for layer in view.policy.layers() {
        lines.push(format!("\n{}:", layer.origin.title()));
        let rules = layer.rules.iter().enumerate();
        lines.extend(rules.map(|(idx, rule)| format!("{:>4}  {}", idx + 1, agent::rule_line(rule))));
    }
    lines.push("\nTools:".to_owned());
    lines.extend(view.tools.iter().map(|tool| {
        let note = if tool.needs_user { " (not in `windlass run`, which has no user to ask)" } else { "" };
        format!("  {}: {}{note}", tool.name, output::plain(&secrets::text(&tool.description)))
    }));
    lines.push("\nInstructions:".to_owned());
    lines.extend(
        view.instructions.iter().map(|(source, size)| format!("  {} ({size} bytes)", secrets::text(source))),
    );
    lines.extend(view.warnings.iter().map(|warning| format!("  {warning}")));
    for (idx, text) in view.system.iter().enumerate() {
        lines.push(format!("\nSystem prompt, text {} of {}:\n", idx + 1, view.system.len()));
        lines.push(secrets::text(text));
    }
    lines.join("\n")
}
