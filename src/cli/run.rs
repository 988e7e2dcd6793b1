//! `windlass run`: has one prompt answered, from a shell or a pipe.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use tokio::{io::AsyncReadExt, sync::oneshot};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    message::ModelRef,
    part::FilePart,
    permission::{PermissionRequest, Reply},
};

use super::{
    output::{self, Output},
    runtime,
};
use crate::{
    base::{mime, queue::Queue},
    bus::Filter,
    config::{Environment, paths::Paths},
    engine::{
        Engine, EngineError, EngineErrorKind, Invocation, Loaded, NewSession, PromptInput, PromptPart,
        StopReason,
    },
};

mod printer;

use printer::Printer;

/// Bytes that standard input may add to the prompt.
const MAX_INPUT: u64 = 16 * 1024 * 1024;
/// How long the first request waits for MCP servers: a single turn cannot use tools that come later.
const MCP_LIMIT: Duration = Duration::from_secs(5);
/// How long the last words may take after a signal.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);
/// What a shell reports of a program whose reader has gone: 128 and the number of SIGPIPE.
const READER_GONE: u8 = 128 + 13;
/// Characters of the prompt that become the title when `--title` is empty.
const TITLE_LENGTH: usize = 50;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// What to say; piped standard input is added to it.
    message: Vec<String>,
    /// Run this slash command; the words are its arguments.
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
    /// How to show the answer.
    #[arg(long, value_enum, default_value_t = Format::Default)]
    format: Format,
    /// Model that is to answer, as `provider/model`.
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// Agent that is to answer.
    #[arg(long)]
    agent: Option<String>,
    /// Go on with the latest session of the directory, if there is one.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    is_continued: bool,
    /// Go on with this session.
    #[arg(long, short, value_name = "ID")]
    session: Option<String>,
    /// Title of the new session; an empty one is taken from the prompt.
    #[arg(long, conflicts_with_all = ["is_continued", "session"])]
    title: Option<String>,
    /// Directory to work in.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Attach a file or directory; may be repeated.
    #[arg(long = "file", short, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show the model's thoughts.
    #[arg(long)]
    thinking: bool,
    /// Allow everything that is not denied, instead of rejecting what would have to be asked.
    #[arg(long)]
    auto: bool,
}

/// How the answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The text on standard output, all else on standard error.
    Default,
    /// JSON objects on standard output, one a line.
    Json,
}

/// Why there is no turn whose end could be told.
enum Failure {
    /// The call makes no sense.
    Misuse(String),
    Failed(String),
    /// Standard output.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Failed(error.to_string())
    }
}

pub fn run(environment: Environment, args: RunArgs) -> ExitCode {
    let paths = Paths::new(&environment);
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        let mut shown = Shown {
            events: engine.bus().listen(Filter::All),
            batch: VecDeque::new(),
            printer: Printer::new(args.format, args.thinking),
            output: Output::new(),
            engine: engine.clone(),
            is_auto: args.auto,
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
                let _ = tokio::time::timeout(FLUSH_LIMIT, shown.output.flush()).await;
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
                match failure {
                    Failure::Misuse(reason) => output::misuse(&reason),
                    Failure::Failed(reason) => output::fail(&reason),
                    Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        ExitCode::from(READER_GONE)
                    }
                    Failure::Output(error) => output::fail(&format!("The output was not written: {error}.")),
                }
            }
        }
    })
}

/// Runs the turn and shows it.
async fn answer(engine: &Engine, shown: &mut Shown, args: RunArgs) -> Result<ExitCode, Failure> {
    let files = args.files.iter().map(|file| attach(file)).collect::<Result<Vec<PromptPart>, _>>()?;
    let message = message(&args.message, piped().await?);
    if message.is_empty() && args.command.is_none() {
        let reason = "There is nothing to say: give a prompt as arguments or on standard input.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    let (id, model, mentions) = open(engine, &args, &message).await?;
    shown.printer.begin(&id);

    let mut parts = files;
    parts.push(PromptPart::Text { text: message, is_synthetic: false, is_ignored: false });
    parts.extend(mentions);
    let (ended, mut end) = oneshot::channel();
    let invocation = args.command.map_or(Invocation::None, Invocation::Named);
    let input = PromptInput { parts, agent: args.agent, model, invocation, ..PromptInput::default() };
    // The receiver is dropped only when the process ends.
    engine.prompt(&id, input, Box::new(|outcome| _ = ended.send(outcome)));
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut end => break outcome,
            _ = shown.events.next_batch(&mut shown.batch) => shown.note_batch(),
        }
        shown.output.flush().await?;
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
    shown.printer.end(remark, &mut shown.output);
    shown.output.flush().await?;
    Ok(match stop {
        Some(StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests) => ExitCode::SUCCESS,
        Some(StopReason::Refusal | StopReason::Cancelled) | None => ExitCode::FAILURE,
    })
}

/// A named file as a part of the prompt.
fn attach(file: &Path) -> Result<PromptPart, Failure> {
    let missing = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!("{} cannot be attached: {error}.", file.display()))
    };
    let path = std::path::absolute(file).map_err(|error| missing(&error))?;
    let metadata = path.metadata().map_err(|error| missing(&error))?;
    let mime = match metadata.is_dir() {
        true => "application/x-directory",
        false => mime::of_path(&path.to_string_lossy()).unwrap_or("text/plain"),
    };
    let url = reqwest::Url::from_file_path(&path).map_err(|()| missing(&"its path cannot be a URL"))?;
    let filename = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(PromptPart::File(FilePart { mime: mime.to_owned(), filename, url: url.into(), source: None }))
}

/// What standard input holds; nothing on a terminal.
async fn piped() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let read = tokio::io::stdin().take(MAX_INPUT + 1).read_to_end(&mut bytes).await;
    read.map_err(|error| Failure::Failed(format!("Standard input cannot be read: {error}.")))?;
    if bytes.len() as u64 > MAX_INPUT {
        let reason = format!("Standard input holds more than {} MiB.", MAX_INPUT >> 20);
        return Err(Failure::Misuse(reason));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The prompt: the arguments, and what was piped behind a blank line.
fn message(arguments: &[String], piped: String) -> String {
    let said = arguments.join(" ");
    match (said.trim(), piped.trim()) {
        ("", _) => piped.trim().to_owned(),
        (_, "") => said,
        (_, _) => format!("{said}\n\n{}", piped.trim_end()),
    }
}

/// Makes or opens the session, once agent and model are known to exist; the model that is to answer, and the
/// subagents that the words name.
async fn open(
    engine: &Engine,
    args: &RunArgs,
    message: &str,
) -> Result<(SessionId, Option<ModelRef>, Vec<PromptPart>), Failure> {
    let directory = match &args.dir {
        Some(dir) => dir.canonicalize().map_err(|error| (dir.display().to_string(), error)),
        None => std::env::current_dir().map_err(|error| ("this directory".to_owned(), error)),
    };
    let directory =
        directory.map_err(|(dir, error)| Failure::Failed(format!("{dir} cannot be used: {error}.")))?;
    let workspace = engine.workspace(&directory).await?;
    let mut loaded = workspace.loaded();
    if let Some(agent) = &args.agent {
        if loaded.agent(agent).is_none() {
            // It may be one of a server that was never asked before.
            engine.agents_settled().await;
            loaded = workspace.loaded();
        }
        check_agent(&loaded, agent)?;
    }
    let chosen = args.model.as_deref().map(|model| parse_model(&loaded, model)).transpose()?;

    let continued = match &args.session {
        Some(id) => {
            let unknown = || {
                let hint = "`windlass session list --all` shows what there is";
                Failure::Failed(format!("There is no session `{id}`; {hint}."))
            };
            let id = SessionId::parse(id).map_err(|_| unknown())?;
            let stored = engine.session(&id).await;
            stored.map_err(|error| match matches!(error.kind, EngineErrorKind::SessionNotFound(_)) {
                true => unknown(),
                false => Failure::from(error),
            })?;
            Some(id)
        }
        None if args.is_continued => {
            let latest = engine.list_sessions(Some(directory.display().to_string()), None, 1).await?;
            latest.into_iter().next().map(|session| session.id)
        }
        None => None,
    };
    let opened = match &continued {
        Some(id) => engine.open_session_in(workspace.clone(), id, Vec::new()).await?,
        None => {
            let title = args.title.as_deref().map(|title| match title.trim() {
                "" => output::plain(message).chars().take(TITLE_LENGTH).collect(),
                title => title.to_owned(),
            });
            let new = NewSession { directory, id: None, title, servers: Vec::new() };
            engine.create_session_in(workspace.clone(), new).await?
        }
    };
    workspace.mcp().settled(MCP_LIMIT).await;
    engine.skills_settled().await;
    let agent = args.agent.as_deref().or(opened.info.agent.as_deref());
    let has_own_model = agent.and_then(|name| loaded.agent(name)).is_some_and(|agent| agent.model.is_some());
    let last = opened.info.model.filter(|_| !(args.agent.is_some() && has_own_model));
    let last =
        last.map(|last| ModelRef { provider_id: last.provider_id, model_id: last.id, variant: last.variant });
    let model = chosen.or(last.filter(|last| loaded.checked_model(last).is_ok()));
    // What is piped was not written by the user.
    let mentions = loaded.mentions(&args.message.join(" "));
    Ok((opened.info.id, model, mentions))
}

fn check_agent(loaded: &Loaded, agent: &str) -> Result<(), Failure> {
    let choices = loaded.agent_choices();
    if choices.iter().any(|choice| choice.id == agent) {
        return Ok(());
    }
    let names: Vec<&str> = choices.iter().map(|choice| choice.id.as_str()).collect();
    Err(Failure::Failed(format!("There is no agent `{agent}`; there are {}.", names.join(", "))))
}

fn parse_model(loaded: &Loaded, model: &str) -> Result<ModelRef, Failure> {
    let Some(reference) = ModelRef::parse(model) else {
        return Err(Failure::Failed(format!("`{model}` is no model: one is named `provider/model`.")));
    };
    match loaded.checked_model(&reference) {
        Ok(_) => Ok(reference),
        Err(unknown) => Err(Failure::Failed(format!("{unknown} `windlass models` lists those there are."))),
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
            self.printer.event(&event.payload, &mut self.output);
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
