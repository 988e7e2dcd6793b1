//! `windlass run`: has one prompt answered, from a shell or a pipe.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

use windlass_base::figures;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{
    CommandChoice, Engine, Invocation, Limits, PromptInput, PromptPart, Slash, StopReason, unknown_command,
};

use super::{
    daemon::Daemon,
    output,
    runtime::{self, Interrupts},
    view::look::Look,
    worktree,
};

pub mod args;
pub mod attach;
pub mod dropped;
pub mod failure;
pub mod open;
mod outcome;
mod policy;
mod printer;
pub mod schema;
pub mod shown;
pub mod waiting;

use args::{Format, RunArgs};
use failure::Failure;
use open::Place;
use outcome::Reason;
use shown::{Ended, Shown};

/// The exit code when something was refused because no user could be asked, or by `--strict` for any refusal.
const REFUSED: u8 = 3;
/// The exit code after the time of `--timeout`, as `timeout` of a shell has it.
const TIMED_OUT: u8 = 124;
/// The exit code after Ctrl-C: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 128 + 2;

pub fn run(mut environment: Environment, mut args: RunArgs) -> ExitCode {
    args.talk.bound(&mut environment);
    // In a pipeline nobody sees a command that sends them away.
    environment.hide_keys();
    let mut paths = Paths::new(&environment);
    let store = if args.ephemeral {
        match tempfile::Builder::new().prefix("windlass-run-").tempdir() {
            Ok(store) => Some(store),
            Err(error) => {
                return output::fail(&format!("No directory can be made for the session: {error}."));
            }
        }
    } else {
        None
    };
    paths.store = store.as_ref().map(|store| store.path().to_owned());
    let look = Look::new(&environment, io::stdout().is_terminal(), PathBuf::new());
    let code = runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        runtime::serve_plugins(&engine);
        let mut signalled = std::pin::pin!(runtime::signalled());
        let worktree = match worktree::enter(&engine, &mut args.talk, &mut signalled).await {
            Ok(worktree) => worktree,
            Err(code) => {
                engine.abort().await;
                return code;
            }
        };
        let leave = async {
            if let Some(worktree) = worktree {
                worktree::leave(worktree).await;
            }
        };
        let mut shown = Shown::new(&Daemon::own(&engine), args.shown_as(), &args.talk, look);
        let ended = tokio::select! {
            biased;
            signal = &mut signalled => Err(signal),
            result = answer(&engine, &mut shown, args) => Ok(result),
        };
        let result = match ended {
            Ok(result) => result,
            Err(signal) => {
                engine.abort().await;
                shown.abandon().await;
                print_end(&shown, Reason::Cancelled, None);
                leave.await;
                return ExitCode::from(128 + signal);
            }
        };
        if let Err(Failure::Failed(reason) | Failure::Misuse(reason)) = &result {
            print_end(&shown, Reason::Error, Some(reason));
        }
        // The events have no reader any more, so the turn must not wait for one.
        drop(shown);
        match result {
            Ok(code) => tokio::select! {
                biased;
                signal = &mut signalled => {
                    engine.abort().await;
                    ExitCode::from(128 + signal)
                }
                () = async { engine.finish().await; leave.await } => code,
            },
            Err(failure) => {
                engine.abort().await;
                let code = failure.report();
                leave.await;
                code
            }
        }
    });
    // Behind the engine, which has written there until now.
    drop(store);
    code
}

/// Prints the outcome of a run that has come to no end of its own, where its form is one object.
fn print_end(shown: &Shown, reason: Reason, error: Option<&str>) {
    if shown.format() == Format::Result {
        // The exit code says the end as well.
        output::print_answer(&shown.tally.object(reason, None, error).to_string());
    }
}

/// Runs the turn and shows it.
async fn answer(engine: &Engine, shown: &mut Shown, mut args: RunArgs) -> Result<ExitCode, Failure> {
    // In a prompt a command has a slash, so it is typed here as well.
    args.command = args.command.map(|name| name.strip_prefix('/').unwrap_or(&name).to_owned());
    let given = args.given();
    let (files, piped) = attach::given(&given.files).await?;
    let words = given.words.join(" ");
    let message = message(&words, piped);
    if message.is_empty() && args.command.is_none() {
        let reason = "No prompt: give one as arguments or on standard input.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    let format = args.schema.as_deref().map(schema::read).transpose()?;
    let place = Place::find(engine, &args.talk).await?;
    // A command may bring a model of its own.
    let is_demo = args.command.is_none() && place.answering()?.is_demo();
    if args.max_cost.is_some() && args.command.is_none() {
        let model = place.answering()?;
        if !is_demo && model.cost.input + model.cost.output <= 0.0 {
            output::note(&format!(
                "{} has no prices, so that --max-cost does not bound it: give it `cost` in opencode.json, or use --max-steps.",
                output::plain(&model.reference().to_string())
            ));
        }
    }
    if args.command.is_none() && !given.is_literal && !(is_demo && words.starts_with("/demo")) {
        check_command(&place, &words)?;
    }
    if let Some(name) = &args.command {
        check_named(engine, &place, name).await?;
    }
    // Behind the checks: their failures say by themselves which file is at fault.
    place.warn();
    place.tell_sandbox().await;
    place.check_files(&files)?;
    let opened = place.open(engine, &args.talk, &message, open::LONG_MCP_LIMIT).await?;
    let id = opened.info.id.clone();
    let waiting = engine.sessions().waiting_prompts(&id);
    let n_parked = waiting.iter().filter(|prompt| prompt.is_parked).count();
    if n_parked > 0 {
        let prompts = figures::counted(n_parked, "prompt");
        output::note(&format!("Before this one goes what has waited in the session: {prompts}."));
    }
    let mut parts = files;
    parts.push(PromptPart::Text { text: message, is_synthetic: false, is_ignored: false });
    // Piped text was not written by the user.
    parts.extend(opened.workspace.loaded().mentions(&words));
    let invocation = args.command.map_or(Invocation::None, Invocation::Named);
    let input = PromptInput {
        parts,
        agent: args.talk.agent,
        model: place.model,
        invocation,
        format,
        is_only: true,
        limits: Limits { steps: args.max_steps, cost: args.max_cost },
        ..PromptInput::default()
    };
    let is_object = input.format.is_some();
    shown.bound(&opened.info, args.timeout);
    let ended = shown.turn(&id, input, None, &mut Interrupts::none()).await?;
    let code = conclude(shown, &ended, is_object, args.max_cost).await?;
    shown.tell_rest(&id).await?;
    Ok(code)
}

/// Prints the object that was asked for, and returns a turn's end as the shell has it.
pub async fn conclude(
    shown: &mut Shown,
    ended: &Ended,
    is_object: bool,
    max_cost: Option<f64>,
) -> Result<ExitCode, Failure> {
    let reason = reason(shown, ended, max_cost);
    shown.print_outcome(reason, ended.structured.as_ref()).await?;
    if let Some(object) = ended.structured.as_ref().filter(|_| shown.format() == Format::Object) {
        shown.print(&object.to_string()).await?;
    } else if is_object && ended.structured.is_none() && ended.stop.is_some() && !ended.is_interrupted {
        shown.print_error("The model ended without an answer in the form of the schema.").await?;
    }
    Ok(match ended.stop {
        _ if reason == Reason::Timeout => ExitCode::from(TIMED_OUT),
        _ if ended.is_interrupted => ExitCode::from(INTERRUPTED),
        Some(
            StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests | StopReason::Cancelled,
        ) if ended.was_refused => ExitCode::from(REFUSED),
        _ if is_object && ended.structured.is_none() => ExitCode::FAILURE,
        Some(StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests) => ExitCode::SUCCESS,
        Some(StopReason::Refusal | StopReason::Cancelled) | None => ExitCode::FAILURE,
    })
}

/// Returns the reason that a run ended.
fn reason(shown: &Shown, ended: &Ended, max_cost: Option<f64>) -> Reason {
    match ended.stop {
        _ if ended.is_timed_out => Reason::Timeout,
        _ if ended.was_refused => Reason::Refused,
        Some(StopReason::EndTurn) => Reason::EndTurn,
        Some(StopReason::MaxTokens) => Reason::MaxTokens,
        Some(StopReason::MaxTurnRequests) if max_cost.is_some_and(|max| shown.tally.cost() >= max) => {
            Reason::MaxCost
        }
        Some(StopReason::MaxTurnRequests) => Reason::MaxSteps,
        Some(StopReason::Refusal) => Reason::Refusal,
        Some(StopReason::Cancelled) => Reason::Cancelled,
        None => Reason::Error,
    }
}

/// Refuses an unknown command before a session is made for it.
async fn check_named(engine: &Engine, place: &Place, name: &str) -> Result<(), Failure> {
    let is_known = |choices: &[CommandChoice]| choices.iter().any(|choice| choice.name == name);
    if is_known(&place.workspace.loaded().command_choices()) {
        return Ok(());
    }
    // It may be a skill of a server that was never asked before.
    engine.remote().listed_settled().await;
    let loaded = place.workspace.loaded();
    let choices = loaded.command_choices();
    if is_known(&choices) {
        return Ok(());
    }
    let names: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
    let unknown = loaded.before("command", name) + &unknown_command(name, names.iter().copied());
    if unknown.ends_with('?') {
        return Err(Failure::Misuse(unknown));
    }
    Err(Failure::Misuse(format!("{unknown}; there are {}.", names.join(", "))))
}

/// Refuses words that begin with a slash command: they would be sent to the model as they are.
fn check_command(place: &Place, words: &str) -> Result<(), Failure> {
    let loaded = place.workspace.loaded();
    let choices = loaded.command_choices();
    let hint = match Slash::read(words, |name| choices.iter().any(|choice| choice.name == name)) {
        None => return Ok(()),
        Some(Slash::Known(name)) => format!("`/{name}` is a command: run it by `--command {name}`"),
        Some(Slash::Unknown(name)) => {
            let names = choices.iter().map(|choice| choice.name.as_str());
            loaded.before("command", name) + &unknown_command(name, names)
        }
    };
    let way_out = "put `--` before the words to send them as they are";
    let reason =
        if hint.ends_with('?') { format!("{hint} Or {way_out}.") } else { format!("{hint}; or {way_out}.") };
    Err(Failure::Misuse(reason))
}

/// Puts piped text behind the words and a blank line.
pub fn message(said: &str, piped: String) -> String {
    match (said.trim(), piped.trim()) {
        // Only typed words are a command of the demo's; a line break makes it words.
        ("", text) if text.starts_with("/demo") => format!("{text}\n"),
        ("", _) => piped.trim().to_owned(),
        (_, "") => said.to_owned(),
        (_, _) => format!("{said}\n\n{}", piped.trim_end()),
    }
}

#[cfg(test)]
mod tests;
