//! Formats files behind a change, where `formatter` is set (facts: OpenCode §12.2).

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, copy, sink},
    time::timeout,
};
use windlass_base::{
    process::{Child, Spawn, spawn},
    text,
};
use windlass_core::config::Config;
use windlass_protocol::opencode::settings::Programs;

use self::{
    lookup::Lookup,
    table::{Needs, ROWS, Row},
};
use super::{ToolCx, ToolError, bash, blocking, path::Target};

mod lookup;
mod table;
#[cfg(test)]
mod tests;

/// Time that a formatter may take.
#[cfg(not(test))]
const LIMIT: Duration = Duration::from_secs(15);
#[cfg(test)]
const LIMIT: Duration = Duration::from_millis(1500);
/// Between the request to end and the kill.
const GRACE: Duration = Duration::from_millis(500);
/// Words for one that fails in a sandbox that nobody has asked for.
const HELD: &str = "it runs in a sandbox, as a formatter of the project; `windlass.sandbox.mode` \"off\" in your own \
                    configuration runs it without";
/// Bytes of a formatter's complaint that are shown.
const MAX_COMPLAINT: usize = 300;

/// A formatter as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Formatter {
    name: String,
    /// The program and its arguments; `$FILE` stands for the file.
    command: Vec<String>,
    /// With their dots.
    extensions: Vec<String>,
    environment: BTreeMap<String, String>,
    /// The things that have to be there; `None` for a command that the user gave.
    needs: Option<Needs>,
}

impl Formatter {
    fn built_in(row: &Row) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            name: row.name.to_owned(),
            command: owned(row.command),
            extensions: owned(row.extensions),
            environment: BTreeMap::new(),
            needs: Some(row.needs),
        }
    }

    fn takes(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        self.extensions.iter().any(|extension| name.len() > extension.len() && name.ends_with(&**extension))
    }
}

/// Returns the formatters that the configuration switches on, in the order in which they run.
fn configured(config: &Config) -> Vec<Formatter> {
    let own = match &config.settings.formatter {
        _ if config.held.holds_programs => return Vec::new(),
        None | Some(Programs::All(false)) => return Vec::new(),
        Some(Programs::All(true)) => &BTreeMap::new(),
        Some(Programs::ByName(own)) => own,
    };
    let mut formatters: Vec<Formatter> = ROWS.iter().map(Formatter::built_in).collect();
    for (name, settings) in own {
        formatters.retain(|it| it.name != *name || settings.disabled != Some(true));
        if settings.disabled == Some(true) {
            continue;
        }
        let known = formatters.iter().position(|it| it.name == *name);
        let mut formatter = match known {
            Some(idx) => formatters.remove(idx),
            None => Formatter {
                name: name.clone(),
                command: Vec::new(),
                extensions: Vec::new(),
                environment: BTreeMap::new(),
                needs: None,
            },
        };
        if !settings.command.is_empty() {
            formatter.command.clone_from(&settings.command);
            formatter.needs = None;
        }
        if !settings.extensions.is_empty() {
            formatter.extensions = settings.extensions.iter().map(|it| with_dot(it)).collect();
        }
        formatter.environment.clone_from(&settings.environment);
        if !formatter.command.is_empty() {
            formatters.insert(known.unwrap_or(formatters.len()), formatter);
        }
    }
    formatters
}

fn with_dot(extension: &str) -> String {
    if extension.starts_with('.') { extension.to_owned() } else { format!(".{extension}") }
}

/// A formatter, as clients list it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatterState {
    pub name: String,
    /// With their dots.
    pub extensions: Vec<String>,
    /// True if its program and its needs are there.
    pub is_enabled: bool,
}

/// Returns the configured formatters, looked for from the session's directory. Blocks.
pub fn states(config: &Config) -> Vec<FormatterState> {
    let lookup = Lookup::new(config, &config.directory);
    let state = |formatter: Formatter| {
        let program = formatter.command.first().and_then(|name| lookup.program(name, formatter.needs));
        FormatterState {
            name: formatter.name,
            extensions: formatter.extensions,
            is_enabled: program.is_some(),
        }
    };
    configured(config).into_iter().map(state).collect()
}

/// Returns the formatters for a file. Whether their programs are there is not known yet.
pub(super) fn matching(config: &Config, path: &Path) -> Vec<Formatter> {
    configured(config).into_iter().filter(|it| it.takes(path)).collect()
}

/// Returns the formatters for a file that have their programs in place, with these programs.
pub(super) async fn found(cx: &ToolCx<'_>, target: &Target) -> Vec<(Formatter, PathBuf)> {
    let formatters = matching(cx.config, &target.path);
    if formatters.is_empty() {
        return Vec::new();
    }
    let lookup = Lookup::new(cx.config, target.real.parent().unwrap_or(cx.directory()));
    let with_programs = move || {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for formatter in formatters {
            let program = formatter.command.first().and_then(|name| lookup.program(name, formatter.needs));
            match program {
                Some(program) => found.push((formatter, program)),
                // A known one is for projects that have it.
                None if formatter.needs.is_none() => missing.push(formatter),
                None => {}
            }
        }
        Ok((found, missing))
    };
    let (found, missing) = match blocking(with_programs).await {
        Ok(both) => both,
        Err(error) => {
            cx.host.notify("formatters", format!("No formatter was run: {error}"));
            return Vec::new();
        }
    };
    for Formatter { name, command, .. } in missing {
        let program = command.into_iter().next().unwrap_or_default();
        cx.host.notify(
            &format!("formatter {name}"),
            format!(
                "The formatter {name} was not run, because there is no program {program}. Install it, or set \
                 `formatter.{name}.disabled` to true."
            ),
        );
    }
    found
}

/// Formats a file. A formatter that fails is told to the user once, and changes nothing else.
pub(super) async fn run(cx: &ToolCx<'_>, target: &Target, formatters: &[(Formatter, PathBuf)]) {
    for (formatter, program) in formatters {
        if let Err(reason) = run_one(cx, target, formatter, program).await {
            let name = &formatter.name;
            // Its complaint differs from file to file.
            let about = format!("formatter {name}");
            let text = format!(
                "The formatter {name} failed: {reason}. `formatter.{name}.disabled` set to true does without it."
            );
            cx.host.notify(&about, text);
        }
    }
}

/// Runs one formatter. The error is its complaint.
async fn run_one(
    cx: &ToolCx<'_>,
    target: &Target,
    formatter: &Formatter,
    program: &Path,
) -> Result<(), String> {
    let file = target.real.to_string_lossy();
    let args: Vec<OsString> =
        formatter.command.iter().skip(1).map(|word| filled_in(word, &file).into()).collect();
    let mut environment = cx.config.environment.variables.clone();
    environment.insert("FILE".to_owned(), file.into_owned());
    environment.extend(formatter.environment.iter().map(|(name, value)| (name.clone(), value.clone())));
    // It runs code of the project, as a command of the agent would.
    let agents = std::iter::once(cx.agent).chain(cx.agents_above.iter().map(String::as_str));
    let projects = &cx.config.project_programs;
    let is_projects = projects.names("formatter", &formatter.name) || projects.holds(program);
    let refused = |error: ToolError| error.to_string();
    let mut sandbox = bash::around_template(cx.config, agents.clone()).await.map_err(refused)?;
    let is_by_default = sandbox.is_none() && is_projects;
    if is_by_default {
        sandbox = bash::around_projects_program(cx.config, agents).await.map_err(refused)?;
    }
    let ended = run_in(cx, program, &args, &environment, sandbox.as_ref()).await;
    let is_held = is_by_default && sandbox.is_some();
    if let Some(mut sandbox) = sandbox
        && let Some(moved) = sandbox.clear().await.map_err(refused)?
    {
        return Err(moved);
    }
    ended.map_err(|reason| if is_held { format!("{reason} ({HELD})") } else { reason })
}

/// Runs a formatter to its end.
async fn run_in(
    cx: &ToolCx<'_>,
    program: &Path,
    args: &[OsString],
    environment: &BTreeMap<String, String>,
    sandbox: Option<&bash::Sandbox>,
) -> Result<(), String> {
    let spawned = Spawn {
        program: program.as_os_str(),
        args,
        directory: cx.directory(),
        environment,
        without: sandbox.map_or(&[], |sandbox| &sandbox.without),
        stdin: false,
        is_parent: true,
    };
    let child = match sandbox {
        Some(sandbox) => sandbox.spawn(&spawned, None),
        None => spawn(&spawned),
    };
    let mut child = child.map_err(|error| error.to_string())?;
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => {
            child.end(GRACE).await;
            Err("the turn was cancelled".to_owned())
        }
        ended = timeout(LIMIT, end(&mut child)) => match ended {
            Ok(ended) => ended,
            Err(_elapsed) => {
                child.end(GRACE).await;
                Err(format!("it was not done after {} seconds", LIMIT.as_secs_f32()))
            }
        },
    }
}

/// Puts the file into a word of a command. A text for a shell keeps the name of the variable, which is set: the name of a
/// file may be more than a name there.
fn filled_in(word: &str, file: &str) -> String {
    let is_option = |letter: char| letter.is_alphanumeric() || "-_=:/.,@%+".contains(letter);
    if word.replace("$FILE", "").chars().all(is_option) {
        word.replace("$FILE", file)
    } else {
        word.to_owned()
    }
}

/// Waits for a formatter and for its output.
async fn end(child: &mut Child) -> Result<(), String> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (said, complaint, status) = tokio::join!(head(stdout), head(stderr), child.wait());
    // Nothing of it is left behind.
    child.kill_group();
    let status = status.map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(());
    }
    let words = if complaint.trim().is_empty() { said } else { complaint };
    match words.trim().lines().next() {
        Some(line) => Err(text::head(line, MAX_COMPLAINT).to_owned()),
        None => Err(status.to_string()),
    }
}

/// Returns the beginning of a pipe's output, and reads the rest.
async fn head(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut bytes = Vec::new();
    let read: io::Result<usize> = (&mut pipe).take(4096).read_to_end(&mut bytes).await;
    if read.is_ok() {
        // The end of the output, or an error, which is the same here.
        let _ = copy(&mut pipe, &mut sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
