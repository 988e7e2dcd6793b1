//! `windlass plugin`: shows the offers of a directory's plugins, and installs packages.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use windlass_base::text::visible_line;
use windlass_core::config::{Environment, merge::plugin_name, paths::Paths};
use windlass_engine::{Engine, EngineError, EngineErrorKind, PluginReport};

use super::{
    options::{Format, FormatArgs},
    output,
    progress::Progress,
    runtime, trust,
};

#[derive(Debug, Args)]
pub struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
    /// Directory to look at; the working directory unless given.
    #[arg(long, alias = "cwd", global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Load the plugins and tool files and list their offers; exits with 1 when one failed.
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Install a package and name it in the project's configuration.
    #[command(alias = "install")]
    Add {
        /// The package: `name`, `name@version` or `@scope/name`.
        package: String,
        /// Name it in the user's configuration instead.
        #[arg(long, short)]
        global: bool,
    },
    /// Take a package out of the project's configuration.
    #[command(alias = "rm")]
    Remove {
        /// The package, with or without its version.
        package: String,
        /// Take it out of the user's configuration instead.
        #[arg(long, short)]
        global: bool,
    },
    /// Install the packages anew, each by the version that its entry names.
    Update {
        /// The package; all unless given.
        package: Option<String>,
    },
}

pub fn run(environment: Environment, args: PluginArgs) -> ExitCode {
    let directory = match output::directory(args.dir.as_deref()) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let paths = Paths::new(&environment);
    let engine = Engine::new(environment.clone(), paths);
    runtime::block_on(async move {
        runtime::serve_plugins(&engine);
        let done = match args.command {
            PluginCommand::List { format } => {
                let is_held = trust::note_held(&trust::held(&environment, &directory));
                return list(&engine, &directory, format.get(), is_held).await;
            }
            PluginCommand::Add { package, global } => {
                let before = trust::held(&environment, &directory);
                let added = add(&engine, &directory, &package, global).await;
                if added.is_ok() {
                    trust::trust_written(&environment, &directory, &before);
                }
                added.map(|()| format!("{package} is installed."))
            }
            PluginCommand::Remove { package, global } => remove(&engine, &directory, &package, global).await,
            PluginCommand::Update { package } => update(&engine, &directory, package.as_deref()).await,
        };
        match done {
            Ok(said) => output::print_answer(&said),
            Err(error) => output::fail(&format!("{error}.")),
        }
    })
}

async fn list(engine: &Engine, directory: &std::path::Path, format: Format, is_held: bool) -> ExitCode {
    let reports = match engine.plugins().reports(directory).await {
        Ok(reports) => reports,
        Err(error) => return output::fail(&format!("{error}.")),
    };
    let code = match format {
        Format::Json => output::print_answer(&format!("{:#}", reports.iter().map(row).collect::<Value>())),
        Format::Text if reports.is_empty() && is_held => ExitCode::SUCCESS,
        Format::Text if reports.is_empty() => {
            output::note("There are no plugins and no tool files; `plugin` in opencode.json names plugins.");
            ExitCode::SUCCESS
        }
        Format::Text => output::print_answer(&reports.iter().map(draw).collect::<Vec<_>>().join("\n")),
    };
    if reports.iter().any(|report| report.error.is_some()) { ExitCode::FAILURE } else { code }
}

fn draw(report: &PluginReport) -> String {
    let PluginReport { name, version, hooks, tools, load_ms, error, remedy, superseded } = report;
    let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let state = match (error, superseded) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(reason)) => format!("left out: {reason}"),
        (None, None) => format!("loaded in {load_ms} ms"),
    };
    let mut lines = vec![visible_line(&format!("{name}{version}: {state}")).into_owned()];
    lines.extend(remedy.filter(|_| error.is_some()).map(|remedy| format!("  {remedy}")));
    for (title, names) in [("hooks", hooks), ("tools", tools)] {
        if !names.is_empty() {
            lines.push(visible_line(&format!("  {title}: {}", names.join(", "))).into_owned());
        }
    }
    lines.join("\n")
}

fn row(report: &PluginReport) -> Value {
    let PluginReport { name, version, hooks, tools, load_ms, error, remedy, superseded } = report;
    json!({
        "name": name, "version": version, "hooks": hooks, "tools": tools, "loadMs": load_ms, "error": error, "remedy": remedy,
        "superseded": superseded,
    })
}

async fn add(
    engine: &Engine,
    directory: &std::path::Path,
    package: &str,
    is_global: bool,
) -> Result<(), EngineError> {
    if package.is_empty() || package.starts_with(['.', '/', '~']) || package.starts_with("file:") {
        let reason = format!(
            "`{package}` is no package: a file or directory is named in `plugin` of opencode.json, or put into `.opencode/plugin`"
        );
        return Err(EngineError::new(EngineErrorKind::InvalidInput, reason));
    }
    let progress = Progress::of(format!("Installing {package}"));
    engine.plugins().install(directory, package).await?;
    drop(progress);
    let mut plugins = engine.workspaces().written_plugins(directory, is_global).await?;
    plugins.retain(|entry| plugin_name(entry) != plugin_name(&Value::from(package)));
    plugins.push(package.into());
    write(engine, directory, plugins, is_global).await
}

async fn remove(
    engine: &Engine,
    directory: &std::path::Path,
    package: &str,
    is_global: bool,
) -> Result<String, EngineError> {
    let mut plugins = engine.workspaces().written_plugins(directory, is_global).await?;
    let n_before = plugins.len();
    plugins.retain(|entry| plugin_name(entry) != plugin_name(&Value::from(package)));
    if plugins.len() == n_before {
        return Ok(format!("{package} is not named there."));
    }
    write(engine, directory, plugins, is_global).await?;
    Ok(format!("{package} is taken out."))
}

async fn update(
    engine: &Engine,
    directory: &std::path::Path,
    package: Option<&str>,
) -> Result<String, EngineError> {
    let mut packages = engine.plugins().packages(directory).await?;
    if let Some(package) = package {
        packages
            .retain(|spec| plugin_name(&Value::from(spec.as_str())) == plugin_name(&Value::from(package)));
    }
    let progress = Progress::of("Installing");
    for spec in &packages {
        progress.say(format!("Installing {spec}"));
        engine.plugins().install(directory, spec).await?;
    }
    drop(progress);
    if let Some(package) = package.filter(|_| packages.is_empty()) {
        let reason = format!("no plugin here is the package {package}; `windlass plugin list` shows all");
        return Err(EngineError::new(EngineErrorKind::InvalidInput, reason));
    }
    Ok(if packages.is_empty() {
        "There is no package to update.".to_owned()
    } else {
        format!("Installed anew: {}.", packages.join(", "))
    })
}

async fn write(
    engine: &Engine,
    directory: &std::path::Path,
    plugins: Vec<Value>,
    is_global: bool,
) -> Result<(), EngineError> {
    let patch = Map::from_iter([("plugin".to_owned(), Value::Array(plugins))]);
    engine.workspaces().write_config(directory, patch, is_global).await
}
