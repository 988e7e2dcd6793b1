//! `windlass agent create`: a model writes an agent from a description, and it becomes a Markdown file.

use std::{
    fs,
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use windlass_core::config::{Config, Environment, market::BUILT_IN, paths::Paths, rules, worktree::worktree};
use windlass_engine::{self as engine, Engine, EngineError, GeneratedAgent};
use windlass_protocol::opencode::{
    model_ref::ModelRef,
    permission::{Action, Rule},
};

use crate::cli::{output, runtime};

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Description of the agent's task; a model writes its prompt from it.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Configuration directory that gets the file, such as `.opencode`; it goes into `agent` there.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Write into the global configuration directory.
    #[arg(long, conflicts_with = "path")]
    global: bool,
    /// Use of the agent: by users, by other agents, or both.
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Permissions of the agent, separated by commas; everything else is denied, MCP tools and later tools too.
    /// Without it the agent has the permissions of your configuration.
    #[arg(long, visible_aliases = ["permissions", "permission"], value_delimiter = ',', value_name = "LIST")]
    tools: Option<Vec<String>>,
    /// Model that writes the agent, as `provider/model`.
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// Name of the agent; without it the model chooses one. `team/name` is fine.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    All,
    Primary,
    Subagent,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::All => "all",
            Mode::Primary => "primary",
            Mode::Subagent => "subagent",
        }
    }
}

/// Choices that are made before the model is asked.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// Configuration directory.
    directory: PathBuf,
    description: String,
    mode: Mode,
    /// The permissions it has; none stands for those of the configuration.
    allowed: Option<Vec<&'static str>>,
}

pub fn run(environment: Environment, args: CreateArgs) -> ExitCode {
    let directory = match std::env::current_dir() {
        Ok(directory) => directory,
        Err(error) => return output::fail(&format!("The working directory cannot be used: {error}.")),
    };
    let paths = Paths::new(&environment);
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let wanted = if is_terminal {
        wanted(&args, &environment, &directory, Some((&mut io::stdin().lock(), &mut io::stderr())))
    } else {
        wanted(&args, &environment, &directory, None)
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(reason) => return output::misuse(&reason),
    };
    let model = match args.model.as_deref().map(|model| ModelRef::parse(model).ok_or(model)).transpose() {
        Ok(model) => model,
        Err(model) => {
            return output::misuse(&format!("`{model}` is not a model name: write `provider/model`."));
        }
    };
    let name = match args.name.as_deref().map(|name| checked_name(name).ok_or(name)).transpose() {
        Ok(name) => name,
        Err(name) => {
            let reason = "use letters, digits and hyphens, with `/` between a directory and a name";
            return output::misuse(&format!("`{name}` cannot be an agent's name: {reason}."));
        }
    };
    if let Some(name) = &name
        && let Some(file) = taken(&wanted.directory, name)
    {
        return output::fail(&exists(&file));
    }
    if is_terminal {
        output::note("The model writes the agent …");
    }
    runtime::block_on(async move {
        let paths_of_config = paths.opencode_config.clone();
        let engine = Engine::new(environment, paths);
        let generating = async {
            // The place of the file: permissions of one project say nothing about an agent of every project.
            let place = wanted.directory.ancestors().skip(1).find(|it| it.is_dir()).unwrap_or(&directory);
            let loaded = engine.workspaces().inspect_files(place).await?;
            let agent =
                engine.workspaces().generate_agent(&directory, &wanted.description, model.as_ref()).await?;
            Ok::<_, EngineError>((loaded, agent))
        };
        let generated = tokio::select! {
            biased;
            signal = runtime::signalled() => return ExitCode::from(128 + signal),
            generated = generating => generated,
        };
        let (loaded, agent) = match generated {
            Ok(generated) => generated,
            Err(error) => return output::fail(&format!("The agent was not created: {error}")),
        };
        let permission = wanted.allowed.as_deref().map(|allowed| permission(allowed, &loaded.config));
        let name = name.unwrap_or_else(|| agent.name.clone());
        let written = write(&wanted, &name, &agent, permission.as_ref());
        if written.is_ok() {
            if BUILT_IN.contains(&name.as_str()) {
                output::note(&format!("This file replaces the built-in agent `{name}`."));
            }
            if !is_read(&engine, &wanted.directory).await {
                let place = wanted.directory.display();
                output::note(&format!(
                    "Nothing reads agents in {place}; they are read in `.opencode`, in {} and in what OPENCODE_CONFIG_DIR names.",
                    paths_of_config.display()
                ));
            }
        }
        match written {
            Ok(file) if is_terminal => {
                output::print_answer(&format!("The agent `{name}` is in {}", file.display()))
            }
            // For scripts: the path and nothing else.
            Ok(file) => output::print_answer(&file.display().to_string()),
            Err(reason) => output::fail(&reason),
        }
    })
}

/// Input of answers, and output of questions.
type Terminal<'a> = (&'a mut dyn BufRead, &'a mut dyn Write);

/// Collects the answers of the flags, and asks the user for the missing ones.
fn wanted(
    args: &CreateArgs,
    environment: &Environment,
    directory: &Path,
    mut terminal: Option<Terminal<'_>>,
) -> Result<Wanted, String> {
    let is_placed = args.path.is_some() || args.global;
    let missing = [
        ("--description", args.description.is_none()),
        ("--path or --global", !is_placed),
        ("--mode", args.mode.is_none()),
    ];
    let missing: Vec<&str> =
        missing.iter().filter(|(_, is_missing)| *is_missing).map(|(flag, _)| *flag).collect();
    if terminal.is_none() && !missing.is_empty() {
        return Err(format!("Without a terminal to ask on these are needed: {}.", missing.join(", ")));
    }
    let mut ask = |question: &str, default: &str| -> Result<String, String> {
        let Some((input, output)) = &mut terminal else { return Ok(default.to_owned()) };
        let mut line = String::new();
        let asked = write!(output, "{question} ").and_then(|()| output.flush());
        let n_bytes = asked.and_then(|()| input.read_line(&mut line)).map_err(|error| error.to_string())?;
        match line.trim() {
            _ if n_bytes == 0 => Err("No agent was created: the input ended.".to_owned()),
            "" => Ok(default.to_owned()),
            answer => Ok(answer.to_owned()),
        }
    };
    let paths = Paths::new(environment);
    let project = match worktree(environment, directory) {
        root if root == Path::new("/") => directory.join(".opencode"),
        root => root.join(".opencode"),
    };
    let place = match (&args.path, args.global) {
        (Some(path), _) => directory.join(path),
        (None, true) => paths.opencode_config.clone(),
        (None, false) => {
            let question = format!(
                "Where? 1 this project ({}), 2 every project ({}) [1]:",
                project.display(),
                paths.opencode_config.display()
            );
            match ask(&question, "1")?.as_str() {
                "1" => project,
                "2" => paths.opencode_config.clone(),
                other => return Err(format!("No agent was created: `{other}` is neither 1 nor 2.")),
            }
        }
    };
    let description = match &args.description {
        Some(description) => description.trim().to_owned(),
        None => ask("What is the agent to do?", "")?,
    };
    if description.is_empty() {
        return Err("No agent was created: the description is empty.".to_owned());
    }
    let all = engine::permission_names();
    let tools = match &args.tools {
        Some(tools) => tools.clone(),
        None => {
            let answer = ask(&format!("What may it use? {} [all]:", all.join(", ")), "all")?;
            answer.split([',', ' ']).map(str::to_owned).collect()
        }
    };
    let allowed = allowed(&tools, &all)?;
    let mode = match args.mode {
        Some(mode) => mode,
        None => {
            let answer =
                ask("Mode? all, primary (users choose it), subagent (other agents start it) [all]:", "all")?;
            Mode::from_str(&answer, true).map_err(|_| {
                format!("No agent was created: `{answer}` is not a mode; use all, primary or subagent.")
            })?
        }
    };
    Ok(Wanted { directory: place, description, mode, allowed })
}

/// Returns the permissions that a list names; none when it names all of them.
fn allowed(listed: &[String], all: &[&'static str]) -> Result<Option<Vec<&'static str>>, String> {
    let listed: Vec<&str> = listed.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    if listed == ["all"] || listed == ["*"] {
        return Ok(None);
    }
    // Both tools that write are one permission.
    let listed: Vec<&str> = listed
        .into_iter()
        .map(|name| if matches!(name, "write" | "patch") { "edit" } else { name })
        .collect();
    if let Some(unknown) = listed.iter().find(|name| !all.contains(*name) && **name != "none") {
        return Err(format!("Unknown permission `{unknown}`; known: {}, or `none`.", all.join(", ")));
    }
    Ok(Some(all.iter().copied().filter(|name| listed.contains(name)).collect()))
}

/// Returns a `permission` that denies everything, then repeats the rules about the allowed ones
/// without it.
///
/// An agent's own rules come behind the user's, so a plain `bash: allow` would lift the user's `bash: ask`, and
/// `read: allow` the question before `.env` files.
fn permission(allowed: &[&str], config: &Config) -> Map<String, Value> {
    let mut permission = Map::from_iter([("*".to_owned(), Value::from("deny"))]);
    let always: &[&str] = if allowed.is_empty() { &[] } else { &["doom_loop", "external_directory"] };
    let base = rules::defaults(&config.paths);
    for name in always.iter().chain(allowed) {
        let matching = |rule: &&Rule| rules::wildcard(&rule.permission, name);
        let is_denied =
            rules::last_match(name, "*", base.iter()).is_some_and(|rule| rule.action == Action::Deny);
        // A permission that windlass denies unless an agent allows it was asked for here; our directories stay
        // readable anyway, and their paths would mean nothing on another machine.
        let is_said = |rule: &&Rule| !is_denied && !Path::new(&rule.pattern).is_absolute();
        let chosen = is_denied.then(|| rules::rule(name, "*", Action::Allow));
        let said = base.iter().filter(matching).filter(is_said).cloned();
        let said: Vec<Rule> =
            said.chain(chosen).chain(config.permission.iter().filter(matching).cloned()).collect();
        permission.insert((*name).to_owned(), patterns(&said, &config.environment.home));
    }
    permission
}

/// Rules of one permission as the configuration says them, without those that never decide.
fn patterns(rules: &[Rule], home: &Path) -> Value {
    let first = rules.iter().rposition(|rule| rule.pattern == "*").unwrap_or_default();
    let mut patterns = Map::new();
    for Rule { pattern, action, .. } in rules.iter().skip(first) {
        let below_home = Path::new(pattern).strip_prefix(home).ok();
        let pattern = below_home.map_or_else(|| pattern.clone(), |rest| format!("~/{}", rest.display()));
        // Said again, it counts at its last place.
        patterns.shift_remove(&pattern);
        patterns.insert(pattern, Value::from(action.name()));
    }
    match patterns.get("*") {
        Some(action) if patterns.len() == 1 => action.clone(),
        Some(_) | None => Value::Object(patterns),
    }
}

/// Returns a name of the user's as a path below the agents' directory.
fn checked_name(name: &str) -> Option<String> {
    let is_fine = |part: &str| !part.is_empty() && engine::agent_name(part) == part;
    name.split('/').all(is_fine).then(|| name.to_owned())
}

/// Returns true if agents of a configuration directory are read by sessions around it.
async fn is_read(engine: &Engine, directory: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or(path.to_owned());
    let directory = real(directory);
    let Ok(loaded) = engine.workspaces().inspect_files(directory.parent().unwrap_or(&directory)).await else {
        return true;
    };
    loaded.config.directories.iter().any(|read| real(read) == directory)
}

/// Returns the file that defines the agent in this directory already.
fn taken(directory: &Path, name: &str) -> Option<PathBuf> {
    let files = ["agent", "agents"].map(|below| directory.join(below).join(format!("{name}.md")));
    files.into_iter().find(|file| file.symlink_metadata().is_ok())
}

fn exists(file: &Path) -> String {
    format!("{} exists and was not changed. Choose another name with --name.", file.display())
}

fn write(
    wanted: &Wanted,
    name: &str,
    agent: &GeneratedAgent,
    permission: Option<&Map<String, Value>>,
) -> Result<PathBuf, String> {
    if let Some(file) = taken(&wanted.directory, name) {
        return Err(exists(&file));
    }
    let file = wanted.directory.join("agent").join(format!("{name}.md"));
    let failed = |error: io::Error| format!("{} was not written: {error}.", file.display());
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    // Another process may have made it in the meantime.
    let mut created = fs::File::create_new(&file).map_err(failed)?;
    created.write_all(markdown(wanted.mode, agent, permission).as_bytes()).map_err(failed)?;
    Ok(file)
}

fn markdown(mode: Mode, agent: &GeneratedAgent, permission: Option<&Map<String, Value>>) -> String {
    // Every JSON string is a YAML one as well.
    let quoted = |text: &str| Value::from(text).to_string();
    let mut text = format!("---\ndescription: {}\nmode: {}\n", quoted(&agent.description), mode.name());
    if let Some(permission) = permission {
        text.push_str("permission:\n");
        for (name, actions) in permission {
            let name = if name == "*" { quoted(name) } else { name.clone() };
            match actions {
                Value::Object(patterns) => {
                    text.push_str(&format!("  {name}:\n"));
                    for (pattern, action) in patterns {
                        let action = action.as_str().unwrap_or_default();
                        text.push_str(&format!("    {}: {action}\n", quoted(pattern)));
                    }
                }
                action => text.push_str(&format!("  {name}: {}\n", action.as_str().unwrap_or_default())),
            }
        }
    }
    text.push_str(&format!("---\n\n{}\n", agent.prompt));
    text
}

#[cfg(test)]
mod tests;
