//! A command's sandbox: when it is used, and the words and questions after a refusal.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::BoxFuture;
use windlass_base::{
    lock::lock,
    process::{Child, Spawn},
    proxy::{
        self,
        gate::{Asking, Gate},
        keys::Keys,
    },
    sandbox::{self, Boundary, Found, Level, Network},
};
use windlass_core::{
    config::{
        Config,
        policy::LEAVE_SANDBOX,
        sandbox::{
            Drawn, Sketch, Wanted, Watch, is_left_open, moved_names, narrowest, placeholders,
            secret_variables, wanted,
        },
    },
    permission::{self, Ask, Verdict},
};
use windlass_protocol::opencode::{permission::Action, settings::SandboxMode};

use super::{
    call::{Ended, Line, described},
    unasked,
};
use crate::tool::{ToolCx, ToolError, ToolOutput, begin_blocking, blocking, path::display};

/// Words by which programs say that a file system refused a write, or the kernel another user's rights.
const READ_ONLY: [&str; 4] = ["Read-only file system", "EROFS", "os error 30", "\"no new privileges\" flag"];
/// Words for something mounted where another file would be put, as at each path that is protected.
const BUSY: [&str; 3] = ["Device or resource busy", "EBUSY", "os error 16"];
const NOT_PERMITTED: [&str; 3] = ["Permission denied", "EACCES", "os error 13"];
/// Told of a command that fails in bounds that nobody has asked for: missing processes and sockets are not named.
const OUT_OF_REACH: &str = "Other processes and the sockets of services are out of its reach; \
                            only a rule of the user for `sandbox` lets it run outside.";
/// Bytes of the line that says so.
const MAX_SIGN: usize = 300;

/// Sandbox of a command.
pub struct Sandbox {
    wanted: Wanted,
    drawn: Drawn,
    /// Variables that the command does not get.
    pub without: Vec<String>,
    /// The question whether it may run outside.
    leave: Option<Ask>,
    /// Set for a command that is held only because nobody was asked about it.
    is_bound: bool,
    /// Set once a command was started, which may have made files that decide.
    has_run: AtomicBool,
    /// The keys that its commands have placeholders of.
    keys: Option<Keys>,
    /// The way out of the last command's network, where that is one by name.
    gate: Mutex<Option<Arc<Gate>>>,
    moved: Moved,
}

/// Names that files have got which were moved away; they are not moved again.
type Moved = Arc<Mutex<HashSet<PathBuf>>>;

/// A sandbox whose boundary is being drawn, on a thread of its own: the command's questions are asked meanwhile.
pub(in crate::tool) struct Drawing {
    wanted: Wanted,
    level: Level,
    without: Vec<String>,
    leave: Option<Ask>,
    is_bound: bool,
    keys: Option<Keys>,
    sketch: Arc<Sketch>,
    drawn: BoxFuture<'static, Result<Drawn, ToolError>>,
}

/// The surroundings of a command, before its questions are known.
pub(in crate::tool) enum Surroundings {
    Outside,
    /// Outside, unless rules let the command through that would ask about others.
    LeftOpen,
    /// A sandbox is wanted that this machine cannot hold.
    Missing(&'static Found),
    Inside(Box<Drawing>),
}

/// Begins to draw the sandbox of an agent's command.
pub(in crate::tool) async fn begin(cx: &ToolCx<'_>) -> Result<Surroundings, ToolError> {
    let agents = std::iter::once(cx.agent).chain(cx.agents_above.iter().map(String::as_str));
    let Some((wanted, found)) = wanted_of(cx.config, agents.clone()).await else {
        let is_left_open = agents.into_iter().any(|agent| is_left_open(&cx.config.own_sandbox, agent));
        return Ok(if is_left_open { Surroundings::LeftOpen } else { Surroundings::Outside });
    };
    if found.level == Level::None {
        if wanted.is_required {
            return Err(ToolError::Forbidden(format!(
                "{}, and `windlass.sandbox.required` is set",
                missing(found)
            )));
        }
        return Ok(Surroundings::Missing(found));
    }
    Ok(Surroundings::Inside(Box::new(Drawing::new(cx.config, wanted, found.level).await?)))
}

/// Returns the sandbox that a command is to run in; none when the user has allowed it to run outside.
pub(in crate::tool) async fn around(
    cx: &ToolCx<'_>,
    surroundings: Surroundings,
    line: &Line,
    asks: &[(Ask, bool)],
) -> Result<Option<Drawing>, ToolError> {
    let surroundings = match surroundings {
        Surroundings::Outside => return Ok(None),
        Surroundings::LeftOpen => match bounded(cx, asks).await? {
            Some(drawing) => Surroundings::Inside(Box::new(drawing)),
            None => return Ok(None),
        },
        Surroundings::Inside(drawing) if drawing.wanted.is_required => return Ok(Some(*drawing)),
        Surroundings::Inside(drawing) => Surroundings::Inside(narrowed(cx, asks, drawing).await),
        other => other,
    };
    // A command that can run anything cannot be allowed for ever.
    let commands = asks.iter().find(|(ask, is_opaque)| ask.permission == "bash" && !is_opaque);
    let mut leave = commands.map_or_else(
        || Ask {
            permission: LEAVE_SANDBOX.to_owned(),
            patterns: vec![line.command.clone()],
            always: Vec::new(),
            metadata: described(cx.config, &line.command, &line.workdir, None),
        },
        |(ask, _)| Ask { permission: LEAVE_SANDBOX.to_owned(), ..ask.clone() },
    );
    if commands.is_some() {
        let verdict = permission::evaluate_all(&leave, &cx.host.policy(), &cx.host.answers().await);
        if verdict == Verdict::Allow {
            return Ok(None);
        }
    }
    match surroundings {
        Surroundings::Outside | Surroundings::LeftOpen => Ok(None),
        Surroundings::Missing(found) => {
            leave.metadata.insert("reason".to_owned(), missing(found).into());
            cx.host.ask(leave).await.map(|()| None)
        }
        Surroundings::Inside(mut drawing) => {
            // The script that the command runs may be another one by the next time, written by a command inside.
            leave.always.clear();
            drawing.leave = Some(leave);
            Ok(Some(*drawing))
        }
    }
}

/// Begins to draw the sandbox of a command that nobody is asked about although others are: it writes where `edit` may
/// without a question, even if its name looks harmless. None where there is no such command, or the machine does not
/// hold the full level.
async fn bounded(cx: &ToolCx<'_>, asks: &[(Ask, bool)]) -> Result<Option<Drawing>, ToolError> {
    let (policy, answers) = (cx.host.policy(), cx.host.answers().await);
    let Some(let_through) = unasked::let_through(asks, &policy, &answers) else { return Ok(None) };
    if !sandbox::level().await.level.is_full() {
        return Ok(None);
    }
    let writes = unasked::writes(cx.config, &policy, &answers, let_through);
    let sketch = Arc::new(Sketch::of_writes(cx.config, writes));
    Ok(Some(Drawing {
        wanted: Wanted::of_writes(),
        level: Level::Full,
        without: Vec::new(),
        leave: None,
        is_bound: true,
        keys: None,
        drawn: begin_drawing(&sketch),
        sketch,
    }))
}

/// Draws the sandbox of a template's commands, for its agents; none when they run outside. Fails where a sandbox is
/// wanted that this machine cannot hold.
pub async fn around_template(
    config: &Config,
    agents: impl Iterator<Item = &str> + Clone,
) -> Result<Option<Sandbox>, ToolError> {
    let Some((wanted, found)) = wanted_of(config, agents).await else { return Ok(None) };
    if found.level == Level::None {
        let way_out = "a `windlass.sandbox` with the mode \"off\" lets commands run without one";
        return Err(ToolError::Forbidden(format!("{}; {way_out}", missing(found))));
    }
    Drawing::new(config, wanted, found.level).await?.finished(false).await.map(Some)
}

/// Bounds a command in a sandbox that only a project asks for as [`bounded`] does outside.
async fn narrowed(cx: &ToolCx<'_>, asks: &[(Ask, bool)], mut drawing: Box<Drawing>) -> Box<Drawing> {
    let is_open = is_left_open(&cx.config.own_sandbox, cx.agent);
    let is_wide = drawing.wanted.mode == SandboxMode::WorkspaceWrite && drawing.level.is_full();
    let (policy, answers) = (cx.host.policy(), cx.host.answers().await);
    let let_through = unasked::let_through(asks, &policy, &answers).filter(|_| is_open && is_wide);
    if let Some(let_through) = let_through {
        let writes = unasked::writes(cx.config, &policy, &answers, let_through);
        let sketch = Sketch::new(cx.config, &drawing.wanted, Level::Full).within(cx.config, writes);
        drawing.sketch = Arc::new(sketch);
        drawing.drawn = begin_drawing(&drawing.sketch);
        drawing.is_bound = true;
    }
    drawing
}

/// Draws the sandbox of a formatter that a project brings, where its agents' commands run outside and nobody has said so.
/// None where the machine does not hold the full level.
pub async fn around_projects_program(
    config: &Config,
    mut agents: impl Iterator<Item = &str>,
) -> Result<Option<Sandbox>, ToolError> {
    let is_left_open = agents.any(|agent| is_left_open(&config.own_sandbox, agent));
    if !is_left_open || !sandbox::level().await.level.is_full() {
        return Ok(None);
    }
    let drawing = Drawing::new(config, Wanted::of_writes(), Level::Full).await?;
    drawing.finished(false).await.map(Some)
}

/// Returns the sandbox that agents' commands run in, and the level of this machine; none if they run outside.
async fn wanted_of(
    config: &Config,
    agents: impl Iterator<Item = &str> + Clone,
) -> Option<(Wanted, &'static Found)> {
    let settings = &config.settings.windlass.sandbox;
    // The level is not looked for where it makes no difference.
    if agents.clone().all(|agent| wanted(settings, agent).mode == SandboxMode::Off) {
        return None;
    }
    let found = sandbox::level().await;
    narrowest(settings, agents, found.level).map(|wanted| (wanted, found))
}

fn missing(found: &Found) -> String {
    let reason = found.reason.as_deref().unwrap_or("it has none");
    format!("this machine cannot hold a sandbox: {reason}")
}

/// A command that was cancelled leaves files that decide as well.
impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.has_run.load(Ordering::Relaxed) {
            for moved in move_aside(&self.drawn.watch.left(), &self.moved) {
                tracing::warn!("what ran in a sandbox made a file that decides, which was moved: {moved}");
            }
        }
    }
}

/// Draws a boundary on a thread of its own, from now on.
fn begin_drawing(sketch: &Arc<Sketch>) -> BoxFuture<'static, Result<Drawn, ToolError>> {
    let sketch = sketch.clone();
    Box::pin(begin_blocking(move || Ok(sketch.draw())))
}

impl Drawing {
    async fn new(config: &Config, wanted: Wanted, level: Level) -> Result<Self, ToolError> {
        let sketch = Arc::new(Sketch::new(config, &wanted, level));
        let drawn = begin_drawing(&sketch);
        // Looked for while the boundary is drawn.
        let without = secret_variables(config, &wanted.environment);
        let names_keys = wanted.network.names().is_some_and(|it| it.keys().next().is_some());
        let keys = if names_keys {
            let (of, wish) = (config.clone(), wanted.clone());
            blocking(move || placeholders(&of, &wish).map_err(|error| ToolError::Model(error.to_string())))
                .await?
        } else {
            None
        };
        Ok(Self { wanted, level, without, leave: None, is_bound: false, keys, sketch, drawn })
    }

    /// Waits for the boundary. It is drawn anew after a person `was_asked`: files that decide may be there by now.
    pub(in crate::tool) async fn finished(self, was_asked: bool) -> Result<Sandbox, ToolError> {
        let Self { wanted, without, leave, is_bound, keys, sketch, drawn, level: _ } = self;
        let drawn = if was_asked { begin_drawing(&sketch).await? } else { drawn.await? };
        Ok(Sandbox {
            wanted,
            drawn,
            without,
            leave,
            is_bound,
            has_run: AtomicBool::new(false),
            keys,
            gate: Mutex::default(),
            moved: Moved::default(),
        })
    }

    /// Returns true if a question about commands is one that the sandbox stands in for.
    pub(super) fn answers(&self, cx: &ToolCx<'_>, ask: &Ask, is_opaque: bool) -> bool {
        if !self.wanted.ask_less || self.level != Level::Full || ask.permission != "bash" {
            return false;
        }
        let policy = cx.host.policy();
        let mut about = policy.layers().iter().flat_map(|layer| layer.about("bash"));
        let is_denied = matches!(permission::evaluate_all(ask, &policy, &[]), Verdict::Deny { .. });
        // A command that can run anything can run a denied one.
        !(is_denied || is_opaque && about.any(|rule| rule.action == Action::Deny))
    }
}

impl Sandbox {
    /// Starts a command. `asking` is the way to ask about hosts that no setting names; without it they are refused.
    pub(in crate::tool) fn spawn(&self, command: &Spawn<'_>, asking: Option<Asking>) -> io::Result<Child> {
        self.has_run.store(true, Ordering::Relaxed);
        let gate = self
            .wanted
            .network
            .names()
            .map(|names| Arc::new(Gate::new(names.clone(), asking, self.keys.clone())));
        let child = proxy::spawn(command, &self.drawn.boundary, gate.as_ref(), None);
        *lock(&self.gate) = gate;
        child
    }

    pub(super) fn is_network_by_name(&self) -> bool {
        self.wanted.network.names().is_some()
    }

    /// Returns sentences about the hosts that the last command could not reach.
    fn refused_hosts(&self, has_failed: bool) -> Option<String> {
        let gate = lock(&self.gate).take()?;
        if self.drawn.boundary.network == Network::Denied {
            let told = "The command had no network: only the full level of the sandbox holds one by name \
                        (`windlass.sandbox.network`), which this machine lacks.";
            return has_failed.then(|| told.to_owned());
        }
        let refusals = gate.refusals();
        let sentences = refusals.join(" ");
        let told =
            format!("The command could not reach every host: {sentences} Do not try to get around this.");
        (!refusals.is_empty()).then_some(told)
    }

    /// Takes files away that would decide and that the commands made; returns a sentence about them.
    pub async fn clear(&mut self) -> Result<Option<String>, ToolError> {
        let (watch, moved) = (std::mem::take(&mut self.drawn.watch), self.moved.clone());
        let moved = blocking(move || Ok(move_aside(&watch.left(), &moved))).await?;
        Ok(told_of_moved(&moved))
    }

    /// Takes such files away while a command goes on; returns their names.
    pub(super) async fn sweep(&self) -> Vec<String> {
        let (watch, moved) = (self.drawn.watch.clone(), self.moved.clone());
        // Without a thread for it they are taken away at the end.
        blocking(move || Ok(move_aside(&watch.left(), &moved))).await.unwrap_or_default()
    }

    /// Takes such files away at the end of a command in the background; returns sentences about them, those that were
    /// `moved` before among them, and about hosts that it could not reach.
    pub(super) async fn words_at_end(&mut self, mut moved: Vec<String>, has_failed: bool) -> Vec<String> {
        moved.extend(self.sweep().await);
        self.drawn.watch = Watch::default();
        told_of_moved(&moved).into_iter().chain(self.refused_hosts(has_failed)).collect()
    }

    /// Reports the sandbox's refusals, and offers to run the command `outside`.
    pub(in crate::tool) async fn explain(
        mut self,
        cx: &ToolCx<'_>,
        ended: Ended,
        outside: impl Future<Output = Result<Ended, ToolError>>,
    ) -> Result<ToolOutput, ToolError> {
        let Ended { mut tool_output, has_failed } = ended;
        if let Some(moved) = self.clear().await? {
            note(&mut tool_output, &moved);
        }
        if let Some(refused) = self.refused_hosts(has_failed) {
            note(&mut tool_output, &refused);
        }
        let Some(sign) = self.sign(&tool_output.output).filter(|_| has_failed).map(str::to_owned) else {
            if self.is_bound && has_failed {
                note(&mut tool_output, &format!("{} {OUT_OF_REACH}", self.in_words()));
            }
            return Ok(tool_output);
        };
        let allowed = self.in_words();
        let Some(mut leave) = self.leave.take() else { return Ok(tool_output) };
        leave.metadata.insert(
            "reason".to_owned(),
            format!("it failed in the sandbox, and its output says: {sign}").into(),
        );
        match cx.host.ask_who(leave).await {
            Ok(by) => {
                let mut outside = outside.await?.tool_output;
                note(
                    &mut outside,
                    &format!("{by} let this command run again outside the sandbox, in which it had failed."),
                );
                Ok(outside)
            }
            Err(ToolError::Cancelled { partial }) => Err(ToolError::Cancelled { partial }),
            Err(refusal) => {
                let said = match refusal {
                    ToolError::Denied { feedback: Some(feedback) } => format!(" The user said: {feedback}"),
                    _other => String::new(),
                };
                note(
                    &mut tool_output,
                    &format!(
                        "The command failed in a sandbox, and its output says so: {sign}. {allowed} \
                     It was not allowed to run outside; do not try to get around this.{said}"
                    ),
                );
                Ok(tool_output)
            }
        }
    }

    /// Returns the line that says that something was refused.
    fn sign<'a>(&self, text: &'a str) -> Option<&'a str> {
        let boundary = &self.drawn.boundary;
        let (words, is_full) = match boundary.level {
            Level::Full => (READ_ONLY.as_slice(), true),
            Level::Landlock | Level::None => (NOT_PERMITTED.as_slice(), false),
        };
        let names = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
        let is_sign = |line: &&str| {
            names(line, words) || is_full && names(line, &BUSY) && names_protected(boundary, line)
        };
        Some(windlass_base::text::head(text.lines().find(is_sign)?.trim(), MAX_SIGN))
    }

    fn in_words(&self) -> String {
        let Boundary { writable, sockets, .. } = &self.drawn.boundary;
        let is_place = |path: &&PathBuf| !(self.is_bound && sockets.contains(path));
        let writable: Vec<String> = writable.iter().filter(is_place).map(|path| display(path)).collect();
        let why = if self.is_bound {
            "Nobody was asked about it, so it writes what `edit` may unasked. "
        } else {
            ""
        };
        if writable.is_empty() {
            format!("{why}It may write no files (but `$TMPDIR`).")
        } else {
            format!(
                "{why}It may write below {} only, and no configuration or git hooks there.",
                writable.join(", ")
            )
        }
    }
}

/// Returns true if a line names a protected path, as it is or from the directory that may be written.
fn names_protected(boundary: &Boundary, line: &str) -> bool {
    boundary.protected.iter().any(|path| {
        let from_roots = boundary.writable.iter().filter_map(|root| path.strip_prefix(root).ok());
        let mut names = from_roots.chain([path.as_path()]).filter_map(Path::to_str);
        names.any(|name| !name.is_empty() && line.contains(name))
    })
}

fn note(tool_output: &mut ToolOutput, text: &str) {
    tool_output.output.push_str(&format!("\n\n<sandbox>\n{text}\n</sandbox>"));
}

/// Returns the sentence about files that were moved.
fn told_of_moved(moved: &[String]) -> Option<String> {
    let told = || {
        format!(
            "The command made files that would decide what windlass or git may do, or that rules for `edit` \
             keep from it. The sandbox does not allow that, so they were moved: {}.",
            moved.join(", ")
        )
    };
    (!moved.is_empty()).then(told)
}

/// Takes paths away that were not there before the command ran, so that nothing obeys them.
fn move_aside(paths: &[PathBuf], moved: &Moved) -> Vec<String> {
    let mut known = lock(moved);
    let mut told = Vec::new();
    for path in paths.iter().filter(|path| !known.contains(*path)).collect::<Vec<_>>() {
        let free = moved_names(path).find(|name| name.symlink_metadata().is_err());
        match free {
            Some(name) if fs::rename(path, &name).is_ok() => {
                told.push(format!("{} to {}", display(path), display(&name)));
                known.insert(name);
            }
            Some(_) | None => told.push(format!("{} (which could not be moved)", display(path))),
        }
    }
    told
}
