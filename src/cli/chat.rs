//! `windlass chat` and `windlass run -i`: prompts one after another in a terminal.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use nix::sys::termios::tcgetattr;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{
    Engine, EngineError, Invocation, NewSession, Opened, PromptInput, PromptPart, Record, Slash,
    unknown_command,
};
use windlass_protocol::opencode::{
    id::SessionId,
    model_ref::ModelRef,
    session::{ArchiveFilter, Session},
};

use super::{
    daemon::Daemon,
    output,
    run::{
        args::{Format, RunArgs, TalkArgs},
        attach,
        failure::Failure,
        open::{self, Place},
        shown::{Happened, Shown},
    },
    runtime::{self, Interrupts},
    view::{self, line, look::Look},
};

pub mod editor;
mod reflow;
pub mod texts;
pub mod words;

use editor::{Editor, Typed};
use words::Words;

/// Messages of a session that are shown when it is picked up.
pub const N_SHOWN: usize = 6;
/// Sessions that `/sessions` lists.
pub const N_SESSIONS: usize = 20;
/// Says that a question has come while a line is typed.
pub const WAITING: &str = "A change of the configuration waits for your answer: press Enter.";

/// Commands of the chat itself, with their effects.
pub const OWN: [(&str, &str); 8] = [
    ("agent", "NAME: switch agent; without a name, list them"),
    ("exit", "leave, as Ctrl-D does"),
    ("help", "this list"),
    ("mode", "the same as /agent"),
    ("model", "PROVIDER/MODEL: switch model; without a name, list them"),
    ("new", "start a new session"),
    ("quit", "leave"),
    ("sessions", "ID: switch session; without an id, list the latest"),
];

#[derive(Debug, Default, Args)]
pub struct ChatArgs {
    /// Words of the first prompt.
    pub message: Vec<String>,
    /// The first prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "message")]
    pub prompt: Option<String>,
    #[command(flatten)]
    pub talk: TalkArgs,
}

impl From<RunArgs> for ChatArgs {
    fn from(mut args: RunArgs) -> Self {
        Self { message: args.given().words, prompt: None, talk: args.talk }
    }
}

pub fn run(mut environment: Environment, args: ChatArgs) -> ExitCode {
    args.talk.bound(&mut environment);
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let reason =
            "A chat needs a terminal on standard input and output; `windlass run` takes prompts from pipes.";
        return output::misuse(reason);
    }
    let paths = Paths::new(&environment);
    let history = paths.chat_history();
    let look = Look::new(&environment, true, PathBuf::new());
    runtime::block_on(async move {
        let mut interrupts = Interrupts::caught();
        let engine = Engine::new(environment, paths);
        runtime::serve_plugins(&engine);
        let talked = async {
            let mut chat = tokio::select! {
                chat = Chat::open(&engine, args, look, &history) => chat?,
                () = interrupts.next() => return Ok(None),
            };
            let result = chat.talk(&mut interrupts).await;
            if !chat.is_begun {
                chat.leave().await?;
            }
            let id = chat.is_begun.then(|| chat.id.clone());
            result.map(|()| Some(id))
        };
        let ended = tokio::select! {
            biased;
            signal = runtime::ended() => Err(signal),
            talked = talked => Ok(talked),
        };
        match ended {
            Err(signal) => {
                engine.abort().await;
                ExitCode::from(128 + signal)
            }
            Ok(Err(failure)) => {
                engine.abort().await;
                failure.report()
            }
            Ok(Ok(None)) => {
                engine.abort().await;
                ExitCode::from(128 + 2)
            }
            Ok(Ok(Some(id))) => {
                engine.finish().await;
                if let Some(id) = id {
                    output::note(&format!("Continue with: windlass chat -s {id}"));
                }
                ExitCode::SUCCESS
            }
        }
    })
}

/// Returns true if the terminal has gone, of which SIGHUP tells.
pub fn is_gone() -> bool {
    tcgetattr(io::stdin()).is_err()
}

/// Meaning of a line.
enum Line<'a> {
    Leave,
    Own(&'a str, &'a str),
    Unknown(&'a str),
    /// A command for the shell.
    Shell(&'a str),
    Prompt,
}

/// A conversation at the terminal.
struct Chat {
    engine: Engine,
    shown: Shown,
    editor: Editor,
    look: Look,
    place: Place,
    id: SessionId,
    /// The model that was chosen here; the session's or agent's when there is none.
    model: Option<ModelRef>,
    first: Option<String>,
    /// Something was said in the session.
    is_begun: bool,
    /// The session was made here.
    is_new: bool,
}

impl Chat {
    async fn open(engine: &Engine, args: ChatArgs, look: Look, history: &Path) -> Result<Self, Failure> {
        let first = args.prompt.unwrap_or_else(|| args.message.join(" "));
        let place = Place::find(engine, &args.talk).await?;
        place.warn();
        place.tell_sandbox().await;
        let mut shown = Shown::new(&Daemon::own(engine), Format::Default, &args.talk, look.clone());
        let opened = place.open(engine, &args.talk, &first, open::MCP_LIMIT).await?;
        let editor = Editor::start(history).map_err(Failure::Output)?;
        shown.keep_typed(editor.ahead());
        let mut chat = Self {
            engine: engine.clone(),
            shown,
            editor,
            look: Look { directory: place.workspace.directory().to_owned(), ..look },
            id: opened.info.id.clone(),
            model: place.model.clone(),
            is_new: place.is_new(),
            place,
            first: Some(first).filter(|first| !first.trim().is_empty()),
            is_begun: false,
        };
        if let Some(agent) = args.talk.agent {
            engine.select(&chat.id, Some(agent), None).await?;
        }
        chat.shown.attend(&chat.id);
        chat.shown.rest().await?;
        chat.greet(&opened).await?;
        if let Err(unusable) = chat.place.answering() {
            chat.report(Err(unusable)).await?;
        }
        Ok(chat)
    }

    /// Shows the last messages, or how the chat works.
    async fn greet(&mut self, opened: &Opened) -> io::Result<()> {
        self.is_begun = !opened.history.is_empty();
        if !self.is_begun {
            return self.shown.print_wrapped("/help lists the commands, Ctrl-D leaves.").await;
        }
        let record = self.engine.record(&opened.info.id).await.map(Record::without_undone);
        let record = record.map_err(|error| io::Error::other(error.message))?;
        let from = record.messages.len().saturating_sub(N_SHOWN);
        let text =
            view::transcript(&record.messages[from..], &record.children, &self.look, output::columns());
        if from > 0 {
            self.shown.print_wrapped(&format!("… {from} earlier messages")).await?;
        }
        self.shown.print(&text).await
    }

    /// Reads a line. Older questions are answered first; a notice tells of those that come meanwhile.
    async fn line(&mut self, interrupts: &mut Interrupts) -> io::Result<Typed> {
        self.shown.settle().await?;
        let prompt = format!("{} › ", self.agent().await);
        let reading = self.editor.read(prompt, Words::new(&self.place.workspace, &OWN));
        let mut reading = std::pin::pin!(reading);
        let typed = loop {
            tokio::select! {
                biased;
                typed = &mut reading => break typed,
                // There is nothing to interrupt. One that comes behind Enter is for the turn that begins.
                () = interrupts.next() => {}
                happened = self.shown.happened() => match happened {
                    Happened::Asked => self.editor.notice(&line::wrapped_text(WAITING, output::columns())),
                    // A turn that a plugin began.
                    Happened::Begun | Happened::Ended => {}
                },
            }
        };
        if matches!(typed, Typed::Line(_)) {
            self.shown.settle().await?;
        }
        Ok(typed)
    }

    /// Reads lines and has them answered until the person leaves.
    async fn talk(&mut self, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let mut was_interrupted = false;
        loop {
            let line = match self.first.take() {
                Some(first) => first,
                None => match self.line(interrupts).await? {
                    Typed::Line(line) => line,
                    Typed::Interrupted if was_interrupted => return Ok(()),
                    Typed::Interrupted => {
                        was_interrupted = true;
                        self.shown.print_wrapped("Ctrl-C again, or Ctrl-D, leaves.").await?;
                        continue;
                    }
                    Typed::End if is_gone() => return std::future::pending().await,
                    Typed::End => return Ok(()),
                    Typed::Failed(_) if is_gone() => return std::future::pending().await,
                    Typed::Failed(error) => return Err(Failure::Output(error)),
                },
            };
            was_interrupted = false;
            if line.trim().is_empty() {
                continue;
            }
            match self.read(&line) {
                Line::Leave => return Ok(()),
                Line::Own(name, rest) => {
                    let done = self.own(name, rest).await;
                    self.report(done).await?;
                }
                Line::Unknown(name) => {
                    let loaded = self.place.workspace.loaded();
                    let choices = loaded.command_choices();
                    let names = OWN.iter().map(|(name, _)| *name);
                    let names = choices.iter().map(|choice| choice.name.as_str()).chain(names);
                    let unknown = loaded.before("command", name) + &unknown_command(name, names);
                    self.shown.print_wrapped(&texts::unknown(&unknown)).await?;
                }
                Line::Shell(command) => {
                    let part =
                        PromptPart::Text { text: command.to_owned(), is_synthetic: false, is_ignored: false };
                    let invocation = Invocation::Shell;
                    let input = PromptInput {
                        parts: vec![part],
                        model: self.model.clone(),
                        invocation,
                        ..PromptInput::default()
                    };
                    self.say(input, interrupts).await?;
                }
                Line::Prompt => {
                    let parts = self.parts(&line);
                    let parts = match parts {
                        Ok(parts) => parts,
                        Err(failure) => {
                            self.report(Err(failure)).await?;
                            continue;
                        }
                    };
                    let input = PromptInput {
                        parts,
                        model: self.model.clone(),
                        invocation: Invocation::Slash,
                        ..PromptInput::default()
                    };
                    self.say(input, interrupts).await?;
                }
            }
        }
    }

    /// Has a prompt answered, or a command run.
    async fn say(&mut self, input: PromptInput, interrupts: &mut Interrupts) -> Result<(), Failure> {
        self.is_begun = true;
        self.shown.turn(&self.id, input, interrupts).await?;
        Ok(self.shown.rest().await?)
    }

    /// Says why something was not done, and goes on.
    async fn report(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(Failure::Misuse(reason) | Failure::Failed(reason)) => {
                Ok(self.shown.print_wrapped(&reason).await?)
            }
            Err(Failure::Output(error)) => Err(Failure::Output(error)),
        }
    }

    fn read<'a>(&self, line: &'a str) -> Line<'a> {
        // As in OpenCode, only at the very beginning: a space before it makes it words.
        if let Some(command) = line.strip_prefix('!').map(str::trim).filter(|it| !it.is_empty()) {
            return Line::Shell(command);
        }
        let (word, rest) = line.trim_end().split_once(char::is_whitespace).unwrap_or((line.trim_end(), ""));
        let own = word.strip_prefix('/').filter(|word| OWN.iter().any(|(name, _)| name == word));
        match own {
            Some("exit" | "quit") => return Line::Leave,
            Some(name) => return Line::Own(name, rest.trim()),
            None => {}
        }
        let choices = self.place.workspace.loaded().command_choices();
        match Slash::read(line, |name| choices.iter().any(|choice| choice.name == name)) {
            // The demo model has commands of its own.
            Some(Slash::Unknown("demo")) if self.place.answering().is_ok_and(|model| model.is_demo()) => {
                Line::Prompt
            }
            Some(Slash::Unknown(name)) => Line::Unknown(name),
            Some(Slash::Known(_)) | None => Line::Prompt,
        }
    }

    /// Returns the line with the files that it names by `@`, and the subagents.
    fn parts(&self, line: &str) -> Result<Vec<PromptPart>, Failure> {
        let directory = self.place.workspace.directory();
        let mut parts = Vec::new();
        for word in line.split_whitespace() {
            let Some(name) = word.strip_prefix('@') else { continue };
            let bare = name.trim_end_matches([',', '.', ';', ':', '?', '!', ')']);
            let named =
                [name, bare].into_iter().find(|name| !name.is_empty() && directory.join(name).exists());
            if let Some(name) = named {
                parts.push(attach::attach(&directory.join(name))?);
            }
        }
        self.place.check_files(&parts)?;
        parts.push(PromptPart::Text { text: line.to_owned(), is_synthetic: false, is_ignored: false });
        parts.extend(self.place.workspace.loaded().mentions(line));
        Ok(parts)
    }

    /// Returns the name of the agent that answers.
    async fn agent(&self) -> String {
        let chosen = self.engine.session_agent(&self.id).await;
        self.place.workspace.loaded().agent_name(chosen.as_deref()).to_owned()
    }

    /// Carries a command of the chat out.
    async fn own(&mut self, name: &str, rest: &str) -> Result<(), Failure> {
        let loaded = self.place.workspace.loaded();
        let text = match (name, rest) {
            ("help", _) => texts::help(&loaded.command_choices()),
            ("model", "") => {
                let names: Vec<String> = loaded.model_choices().into_iter().map(|choice| choice.id).collect();
                names.join("\n")
            }
            ("model", model) => {
                let model = open::parse_model(&loaded, model)?;
                self.engine.select(&self.id, None, Some(model.clone())).await?;
                let text = format!("Model: {model}.");
                self.place.model = Some(model.clone());
                self.model = Some(model);
                text
            }
            ("agent" | "mode", "") => {
                let choices = loaded.agent_choices();
                texts::agents(choices.iter().map(|it| (it.id.as_str(), it.description.as_deref())))
            }
            ("agent" | "mode", agent) => {
                open::check_agent(&loaded, agent)?;
                self.engine.select(&self.id, Some(agent.to_owned()), None).await?;
                format!("Agent: {agent}.")
            }
            ("new", _) => {
                let directory = self.place.workspace.directory().to_owned();
                let new = NewSession { directory, ..NewSession::default() };
                let opened = self.engine.create_session_in(self.place.workspace.clone(), new).await?;
                self.go_to(&opened).await?;
                self.is_new = true;
                format!("A new session, {}.", self.id)
            }
            ("sessions", "") => {
                let directory = self.place.workspace.directory().display().to_string();
                let sessions = self
                    .engine
                    .list_sessions(Some(directory), ArchiveFilter::Exclude, None, N_SESSIONS)
                    .await?;
                let is_empty = |session: &Session| session.id == self.id && !self.is_begun;
                texts::sessions(sessions.iter().filter(|it| !is_empty(it)))
            }
            ("sessions", id) => {
                let known = open::known(&self.engine, id).await?;
                let workspace = self.place.workspace.clone();
                let opened = self.engine.open_session_in(workspace, &known.id, Vec::new()).await?;
                self.go_to(&opened).await?;
                return Ok(self.greet(&opened).await?);
            }
            (_, _) => String::new(),
        };
        Ok(self.shown.print_wrapped(&text).await?)
    }

    /// Leaves the session for another one.
    async fn go_to(&mut self, opened: &Opened) -> Result<(), EngineError> {
        if opened.info.id != self.id {
            // A question that the closed session leaves goes to one that somebody attends.
            self.shown.attend(&opened.info.id);
            self.leave().await?;
            self.shown.leave(&self.id);
            self.id = opened.info.id.clone();
            self.is_new = false;
        }
        self.is_begun = !opened.history.is_empty();
        Ok(())
    }

    /// Closes the session; one in which nothing was said does not stay in any list.
    async fn leave(&self) -> Result<(), EngineError> {
        if self.is_new && !self.is_begun {
            return self.engine.delete_session(&self.id).await;
        }
        self.engine.close_session(&self.id).await;
        Ok(())
    }
}
