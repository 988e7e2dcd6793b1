//! `windlass run`: has one prompt answered, from a shell or a pipe.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use tokio::sync::oneshot;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    permission::{PermissionRequest, Reply},
};

use super::{
    output::{self, Output},
    runtime,
    view::{look::Look, screen::Screen},
};
use crate::{
    base::queue::Queue,
    bus::Filter,
    config::{Environment, paths::Paths},
    engine::{Engine, Invocation, PromptInput, PromptPart, StopReason},
};

pub mod args;
mod attach;
mod failure;
mod open;
mod printer;
mod slash;

use args::{Format, RunArgs};
use failure::Failure;
use open::Place;
use printer::Printer;
use slash::Slash;

/// How long the last words may take after a signal.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);

pub fn run(environment: Environment, args: RunArgs) -> ExitCode {
    let paths = Paths::new(&environment);
    let look = Look::new(&environment, io::stdout().is_terminal(), PathBuf::new());
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        let mut shown = Shown {
            events: engine.bus().listen(Filter::All),
            batch: VecDeque::new(),
            printer: Printer::new(args.format, args.talk.thinking, screen(&args, look)),
            output: Output::new(),
            engine: engine.clone(),
            is_auto: args.talk.auto,
        };
        let mut signalled = std::pin::pin!(runtime::signalled());
        let ended = tokio::select! {
            biased;
            signal = &mut signalled => Err(signal),
            result = answer(&engine, &mut shown, args) => Ok(result),
        };
        let result = match ended {
            Ok(result) => result,
            Err(signal) => {
                engine.abort().await;
                shown.note_rest();
                // Whoever does not read by now loses the rest.
                let _ = tokio::time::timeout(FLUSH_LIMIT, async {
                    shown.output.flush().await?;
                    shown.printer.abandon().await
                })
                .await;
                return ExitCode::from(128 + signal);
            }
        };
        // Nobody reads the events any more, so nobody may wait for that.
        drop(shown);
        match result {
            Ok(code) => tokio::select! {
                biased;
                signal = &mut signalled => {
                    engine.abort().await;
                    ExitCode::from(128 + signal)
                }
                () = engine.finish() => code,
            },
            Err(failure) => {
                engine.abort().await;
                failure.report()
            }
        }
    })
}

/// Runs the turn and shows it.
async fn answer(engine: &Engine, shown: &mut Shown, mut args: RunArgs) -> Result<ExitCode, Failure> {
    let given = args.given();
    let files =
        given.files.iter().map(|file| attach::attach(file)).collect::<Result<Vec<PromptPart>, _>>()?;
    let words = given.words.join(" ");
    let message = message(&words, attach::piped().await?);
    if message.is_empty() && args.command.is_none() {
        let reason = "There is nothing to say: give a prompt as arguments or on standard input.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    let place = Place::find(engine, &args.talk).await?;
    if args.command.is_none() && !given.is_literal {
        check_command(&place, &words)?;
    }
    place.check_files(&files)?;
    let opened = place.open(engine, &args.talk, &message).await?;
    let id = opened.info.id;
    shown.printer.begin(&id);

    let mut parts = files;
    parts.push(PromptPart::Text { text: message, is_synthetic: false, is_ignored: false });
    // What is piped was not written by the user.
    parts.extend(opened.workspace.loaded().mentions(&words));
    let (ended, mut end) = oneshot::channel();
    let invocation = args.command.map_or(Invocation::None, Invocation::Named);
    let input = PromptInput {
        parts,
        agent: args.talk.agent,
        model: place.model,
        invocation,
        ..PromptInput::default()
    };
    // The receiver is dropped only when the process ends.
    engine.prompt(&id, input, Box::new(|outcome| _ = ended.send(outcome)));
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut end => break outcome,
            _ = shown.events.next_batch(&mut shown.batch) => shown.note_batch(),
        }
        shown.output.flush().await?;
        shown.printer.room().await?;
    };
    // The end is told behind the last event, so the queue holds all of the turn.
    shown.note_rest();
    let stop = match outcome {
        Ok(Ok(outcome)) => Some(outcome.stop),
        Ok(Err(error)) => {
            shown.printer.fail(&error.message, &mut shown.output);
            None
        }
        Err(_) => {
            shown.printer.fail("The turn was lost.", &mut shown.output);
            None
        }
    };
    let remark = match stop {
        Some(StopReason::MaxTokens) => Some("The answer was cut: it reached the model's output limit."),
        Some(StopReason::MaxTurnRequests) => Some("The work was cut: the agent's `steps` are used up."),
        Some(StopReason::EndTurn | StopReason::Refusal | StopReason::Cancelled) | None => None,
    };
    shown.printer.end(remark, &mut shown.output).await?;
    shown.output.flush().await?;
    Ok(match stop {
        Some(StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests) => ExitCode::SUCCESS,
        Some(StopReason::Refusal | StopReason::Cancelled) | None => ExitCode::FAILURE,
    })
}

/// What draws the turn on a terminal; text and JSON for programs are not drawn.
fn screen(args: &RunArgs, look: Look) -> Option<Screen> {
    let is_drawn = args.format == Format::Default && io::stdout().is_terminal();
    let directory = args.talk.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let directory = directory.canonicalize().unwrap_or(directory);
    let look = Look { directory, shows_thoughts: args.talk.thinking, ..look };
    // Without a thread to draw, the text alone is shown.
    is_drawn.then(|| Screen::open(look).ok()).flatten()
}

/// Refuses words that begin with a slash command: they would be sent to the model as they are.
fn check_command(place: &Place, words: &str) -> Result<(), Failure> {
    let choices = place.workspace.loaded().command_choices();
    let hint = match Slash::read(words, &choices) {
        None => return Ok(()),
        Some(Slash::Known(name)) => format!("`/{name}` is a command: run it by `--command {name}`"),
        Some(Slash::Unknown(name)) => slash::unknown(name, choices.iter().map(|choice| choice.name.as_str())),
    };
    let way_out = "put `--` before the words to send them as they are";
    let reason =
        if hint.ends_with('?') { format!("{hint} Or {way_out}.") } else { format!("{hint}; or {way_out}.") };
    Err(Failure::Misuse(reason))
}

/// Puts what was piped behind the words and a blank line.
fn message(said: &str, piped: String) -> String {
    match (said.trim(), piped.trim()) {
        ("", _) => piped.trim().to_owned(),
        (_, "") => said.to_owned(),
        (_, _) => format!("{said}\n\n{}", piped.trim_end()),
    }
}

/// What the user sees of the engine. Whatever is dropped halfway goes on from here.
struct Shown {
    engine: Engine,
    events: Arc<Queue<Arc<Event>>>,
    batch: VecDeque<Arc<Event>>,
    printer: Printer,
    output: Output,
    is_auto: bool,
}

impl Shown {
    /// Notes the events that were taken from the queue, and answers their questions.
    fn note_batch(&mut self) {
        while let Some(event) = self.batch.pop_front() {
            // The engine works for this turn alone, so a question of any session is one of its subagents.
            if let EventPayload::PermissionAsked(request) = &event.payload {
                self.reply(request);
            }
            self.printer.event(&event, &mut self.output);
        }
    }

    /// Notes everything that has happened.
    fn note_rest(&mut self) {
        self.events.take(&mut self.batch);
        self.note_batch();
    }

    fn reply(&mut self, request: &PermissionRequest) {
        if self.is_auto {
            self.engine.reply_permission(&request.id, Reply::Once, None);
            return;
        }
        let asked = format!("{} ({})", request.permission, request.patterns.join(", "));
        let line = format!(
            "Permission rejected, since nobody can be asked: {}. \
             Use --auto, or allow it by `permission` in opencode.json.",
            output::plain(&asked)
        );
        self.printer.remark(&line, &mut self.output);
        self.engine.reply_permission(&request.id, Reply::Reject, None);
    }
}

#[cfg(test)]
mod tests;
