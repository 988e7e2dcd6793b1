//! `windlass debug sandbox`: shows which sandbox this machine can hold, and the one that an agent's commands get.

use std::{path::PathBuf, process::ExitCode};

use serde_json::{Value, json};
use windlass_base::sandbox::{Found, level};
use windlass_core::config::{
    Config, Environment,
    paths::Paths,
    sandbox::{draw, secret_variables, wanted, wanted_of_projects_servers, wanted_of_servers},
};
use windlass_engine::{Engine, Pages};

use super::super::{options::Format, output, runtime};

pub(super) fn run(environment: Environment, agent: String, format: Format) -> ExitCode {
    let directory = match std::env::current_dir() {
        Ok(directory) => directory,
        Err(error) => return output::fail(&format!("The directory cannot be used: {error}.")),
    };
    let paths = Paths::new(&environment);
    let engine = Engine::new(environment, paths);
    runtime::block_on(async move {
        let report = match engine.diagnostics().examine(&directory, Pages::AreLeft).await {
            Ok(report) => report,
            Err(error) => return output::fail(&format!("{error}.")),
        };
        let view = view(level().await, &report.config, &agent);
        output::print_answer(&match format {
            Format::Json => format!("{view:#}"),
            Format::Text => as_text(&view),
        })
    })
}

/// Returns one object; lists of paths are there where the agent has a sandbox.
fn view(found: &Found, config: &Config, agent: &str) -> Value {
    let settings = &config.settings.windlass.sandbox;
    let wanted = wanted(settings, agent);
    let mut view = json!({"level": found.level.name()});
    if let Some(reason) = &found.reason {
        view["reason"] = json!(reason);
    }
    let is_used = wanted.is_used(found.level);
    view["agent"] = json!(agent);
    view["mode"] = if is_used { json!(wanted.mode) } else { json!("off") };
    let servers =
        [("mcp_servers", &settings.mcp), ("language_servers", &settings.lsp), ("plugins", &settings.plugins)];
    for (key, settings) in servers {
        view[key] = json!(wanted_of_servers(settings).mode);
    }
    let own = &config.own_sandbox;
    let of_project = [
        ("project_mcp_servers", &own.mcp, &settings.mcp),
        ("project_language_servers", &own.lsp, &settings.lsp),
        ("project_plugins", &own.plugins, &settings.plugins),
    ];
    for (key, own, whole) in of_project {
        let wanted = wanted_of_projects_servers(own, whole, settings.at_start);
        view[key] = if wanted.is_used(found.level) { json!(wanted.mode) } else { json!("off") };
    }
    if !is_used {
        return view;
    }
    let drawn = draw(config, &wanted, found.level);
    view["network"] = wanted.network.shown();
    let lists = [
        ("writable", &drawn.boundary.writable),
        ("protected", &drawn.boundary.protected),
        ("refused", &drawn.watch.absent),
        ("hidden", &drawn.boundary.hidden),
    ];
    for (key, paths) in lists {
        view[key] = json!(paths.iter().map(|path: &PathBuf| path.to_string_lossy()).collect::<Vec<_>>());
    }
    view["variables_removed"] = json!(secret_variables(config, &wanted.environment));
    view
}

fn as_text(view: &Value) -> String {
    let mut lines = Vec::new();
    for (key, value) in view.as_object().into_iter().flatten() {
        let key = key.replace('_', " ");
        match value {
            Value::Array(list) if list.is_empty() => lines.push(format!("{key}: none")),
            Value::Array(list) => {
                lines.push(format!("{key}:"));
                let texts = list.iter().filter_map(Value::as_str);
                lines.extend(texts.map(|text| format!("  {}", output::plain(text))));
            }
            other => {
                let text = other.as_str().map_or_else(|| other.to_string(), output::plain);
                lines.push(format!("{key}: {text}"));
            }
        }
    }
    lines.join("\n")
}
