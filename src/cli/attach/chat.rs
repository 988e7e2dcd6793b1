//! The chat of a terminal with the sessions of a server.

use std::{
    collections::HashMap,
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use reqwest::{Method, header::CONTENT_TYPE};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{CommandChoice, Invocation, PromptInput, PromptPart, Slash, unknown_command};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::{Message, MessageWithParts},
    model_ref::ModelRef,
    session::Session,
};

use super::{
    super::{
        chat::{
            N_SESSIONS, N_SHOWN, OWN, WAITING,
            editor::{Editor, Typed},
            is_gone, texts,
            words::Words,
        },
        daemon::{Daemon, remote::Remote},
        output,
        run::{
            args::Format,
            attach,
            failure::Failure,
            shown::{Happened, Shown},
        },
        runtime::{self, Interrupts},
        view::{self, line, look::Look},
    },
    AttachArgs, failed, place,
};

/// Says that another client prompts the session while a line is typed.
const ELSEWHERE: &str =
    "Another client prompts this session. Its turn is shown when it has ended; Enter shows it at once.";

pub fn run(environment: Environment, args: AttachArgs) -> ExitCode {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let reason = "An attached chat needs a terminal on standard input and output; `windlass run --attach URL` takes \
                      prompts from pipes.";
        return output::misuse(reason);
    }
    let history = Paths::new(&environment).chat_history();
    let look = Look::new(&environment, true, PathBuf::new());
    runtime::block_on(async move {
        let mut interrupts = Interrupts::caught();
        let address = args.url.clone();
        let talked = async {
            let remote = tokio::select! {
                remote = place::connect(&environment, &args.url, &args.credential, &args.talk) => remote?,
                () = interrupts.next() => return Ok(None),
            };
            let editor = Editor::start(&history).map_err(Failure::Output)?;
            let mut chat = Chat::open(&remote, args, look, editor, &mut interrupts).await?;
            let result = chat.talk(&mut interrupts).await;
            if !chat.is_begun {
                chat.leave().await;
            }
            let id = chat.is_begun.then(|| chat.id.clone());
            remote.finish().await;
            result.map(|()| id)
        };
        tokio::select! {
            biased;
            signal = runtime::ended() => ExitCode::from(128 + signal),
            talked = talked => match talked {
                Ok(id) => {
                    if let Some(id) = id {
                        output::note(&format!("Continue with: windlass attach {address} -s {id}"));
                    }
                    ExitCode::SUCCESS
                }
                Err(failure) => failure.report(),
            },
        }
    })
}

/// An agent of the server.
#[derive(Debug, Deserialize)]
struct Agent {
    name: String,
    mode: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    hidden: bool,
}

#[derive(Debug, Deserialize)]
struct Command {
    name: String,
    #[serde(default)]
    description: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Providers {
    providers: Vec<Provider>,
}

#[derive(Debug, Deserialize)]
struct Provider {
    id: String,
    models: HashMap<String, serde::de::IgnoredAny>,
}

/// The names that the server offers in the directory.
#[derive(Debug, Default)]
struct Choices {
    commands: Vec<CommandChoice>,
    agents: Vec<Agent>,
    models: Vec<String>,
}

impl Choices {
    async fn read(remote: &Remote) -> Result<Self, Failure> {
        let http = &remote.http;
        let commands: Vec<Command> = http.get("/command").await.map_err(failed)?;
        let mut agents: Vec<Agent> = http.get("/agent").await.map_err(failed)?;
        agents.retain(|agent| !agent.hidden);
        let providers: Providers = http.get("/config/providers").await.map_err(failed)?;
        let commands = commands.into_iter().map(|command| CommandChoice {
            name: command.name,
            description: command.description.unwrap_or_default(),
            hint: None,
        });
        let models = providers.providers.iter();
        let models = models.flat_map(|it| it.models.keys().map(move |model| format!("{}/{model}", it.id)));
        let mut models: Vec<String> = models.collect();
        models.sort();
        Ok(Self { commands: commands.collect(), agents, models })
    }

    fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter().filter(|agent| agent.mode != "subagent")
    }

    fn subagents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter().filter(|agent| agent.mode != "primary")
    }
}

/// Meaning of a line.
enum Line<'a> {
    Nothing,
    Leave,
    Own(&'a str, &'a str),
    Unknown(&'a str),
    Say(String, Invocation),
}

/// A conversation at the terminal.
struct Chat {
    remote: Arc<Remote>,
    shown: Shown,
    editor: Editor,
    look: Look,
    choices: Choices,
    id: SessionId,
    /// The session's folder.
    directory: PathBuf,
    agent: Option<String>,
    /// The model that was chosen here; the session's or agent's when there is none.
    model: Option<ModelRef>,
    first: Option<String>,
    /// Something was said in the session.
    is_begun: bool,
    /// Another client's turn has begun, and its end was not seen.
    is_elsewhere: bool,
    /// The session was made here.
    is_new: bool,
}

impl Chat {
    async fn open(
        remote: &Arc<Remote>,
        args: AttachArgs,
        look: Look,
        editor: Editor,
        interrupts: &mut Interrupts,
    ) -> Result<Self, Failure> {
        let AttachArgs { prompt, talk, .. } = args;
        let model = place::model(talk.model.as_deref(), talk.variant.as_deref())?;
        let choices = Choices::read(remote).await?;
        let mut shown = Shown::new(&Daemon::Remote(remote.clone()), Format::Default, &talk, look.clone());
        shown.keep_typed(editor.ahead());
        let (session, is_new) =
            place::open(&remote.http, &talk, prompt.as_deref().unwrap_or_default()).await?;
        let mut chat = Self {
            remote: remote.clone(),
            shown,
            editor,
            look,
            choices,
            id: session.id.clone(),
            directory: PathBuf::new(),
            agent: talk.agent,
            model,
            first: prompt.filter(|prompt| !prompt.trim().is_empty()),
            is_begun: false,
            is_elsewhere: false,
            is_new,
        };
        chat.shown.rest().await?;
        chat.enter(session, interrupts).await?;
        chat.greet().await?;
        Ok(chat)
    }

    /// Shows a session, and its last messages.
    async fn enter(&mut self, session: Session, interrupts: &mut Interrupts) -> Result<(), Failure> {
        if session.id != self.id {
            self.leave().await;
            self.shown.leave(&self.id);
        }
        self.id = session.id.clone();
        self.directory = PathBuf::from(&session.directory);
        self.look.directory = self.directory.clone();
        self.agent = self.agent.take().or(session.agent);
        self.shown.attend(&self.id);
        (self.is_begun, self.is_elsewhere) = (false, false);
        self.catch_up(interrupts).await
    }

    /// Says how the chat works, in a session without messages.
    async fn greet(&mut self) -> io::Result<()> {
        if self.is_begun {
            return Ok(());
        }
        self.shown.print_wrapped("/help lists the commands, Ctrl-D leaves.").await
    }

    /// Stores a choice of the session. A server of OpenCode lacks this route; the choice holds for this chat then.
    async fn store(&self, kind: &str, choice: Value) {
        let request = self.remote.http.request(Method::POST, &format!("/api/session/{}/{kind}", self.id));
        let request = request.header(CONTENT_TYPE, "application/json");
        let _ = self.remote.http.send(request.body(json!({ kind: choice }).to_string())).await;
    }

    /// Shows the session's last messages since it was shown, and a turn that runs to its end.
    async fn catch_up(&mut self, interrupts: &mut Interrupts) -> Result<(), Failure> {
        // Before the messages are read: everything behind it comes as events.
        let running = self.shown.running(&self.id, &self.directory).await;
        let mut messages = news(&self.remote, &self.id, self.shown.newest()).await?;
        let unfinished = messages.pop_if(|last| running.is_some() && is_unfinished(&last.info));
        if let Some(last) = messages.last() {
            self.shown.note_shown(last.info.id());
            let text = view::transcript(&messages, &HashMap::new(), &self.look, output::columns());
            self.shown.print(&text).await?;
        }
        self.is_begun |= running.is_some() || !messages.is_empty();
        if let Some(end) = running {
            self.shown.follow(&self.id, end, unfinished, interrupts).await?;
            self.shown.rest().await?;
        }
        Ok(())
    }

    /// Deletes the session if nobody said anything in it.
    async fn leave(&self) {
        let is_empty = async || {
            let path = format!("/session/{}/message?limit=1", self.id);
            let said: Result<Vec<serde::de::IgnoredAny>, _> = self.remote.http.get(&path).await;
            said.is_ok_and(|said| said.is_empty())
        };
        if self.is_new && !self.is_begun && is_empty().await {
            // One that stays is no harm.
            let _ = self.remote.http.delete(&format!("/session/{}", self.id)).await;
        }
    }

    fn words(&self) -> Words {
        let mut words = Words::default();
        words.directory = self.directory.clone();
        words.agents = self.choices.agents().map(|it| it.name.clone()).collect();
        words.subagents = self.choices.subagents().map(|it| it.name.clone()).collect();
        words.models = self.choices.models.clone();
        words.with_commands(self.choices.commands.iter().map(|command| command.name.clone()), &OWN)
    }

    /// Reads a line. Older questions are answered first; a notice tells of those that come meanwhile.
    async fn line(&mut self, interrupts: &mut Interrupts) -> io::Result<Typed> {
        self.shown.settle().await?;
        let prompt = format!("{} › ", self.agent.as_deref().unwrap_or("build"));
        let reading = self.editor.read(prompt, self.words());
        let mut reading = std::pin::pin!(reading);
        let mut is_told = false;
        let typed = loop {
            tokio::select! {
                biased;
                typed = &mut reading => break typed,
                // There is nothing to interrupt. One that comes behind Enter is for the turn that begins.
                () = interrupts.next() => {}
                happened = self.shown.happened() => match happened {
                    Happened::Asked => self.editor.notice(&line::wrapped_text(WAITING, output::columns())),
                    Happened::Begun if is_told => {}
                    Happened::Begun => {
                        is_told = true;
                        (self.is_begun, self.is_elsewhere) = (true, true);
                        self.editor.notice(&line::wrapped_text(ELSEWHERE, output::columns()));
                    }
                    Happened::Ended => {
                        is_told = false;
                        self.is_elsewhere = false;
                        // A server that has gone is told with the next prompt.
                        let messages = news(&self.remote, &self.id, self.shown.newest()).await.unwrap_or_default();
                        if let Some(last) = messages.last() {
                            self.is_begun = true;
                            self.shown.note_shown(last.info.id());
                            let text = view::transcript(&messages, &HashMap::new(), &self.look, output::columns());
                            self.editor.notice(&text);
                        }
                    }
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
                    Typed::End | Typed::Failed(_) if is_gone() => return std::future::pending().await,
                    Typed::End => return Ok(()),
                    Typed::Failed(error) => return Err(Failure::Output(error)),
                },
            };
            was_interrupted = false;
            let done = match self.read(&line) {
                Line::Nothing => self.catch_up(interrupts).await,
                Line::Leave => return Ok(()),
                Line::Own(name, rest) => {
                    let (name, rest) = (name.to_owned(), rest.to_owned());
                    self.own(&name, &rest, interrupts).await
                }
                Line::Unknown(name) => {
                    let names = self.choices.commands.iter().map(|choice| choice.name.as_str());
                    let unknown = unknown_command(name, names.chain(OWN.iter().map(|(name, _)| *name)));
                    Err(Failure::Failed(texts::unknown(&unknown)))
                }
                Line::Say(words, invocation) => self.say(&words, invocation, interrupts).await,
            };
            match done {
                Ok(()) => {}
                Err(Failure::Misuse(reason) | Failure::Failed(reason)) => {
                    self.shown.print_wrapped(&reason).await?;
                }
                Err(Failure::Output(error)) => return Err(Failure::Output(error)),
            }
        }
    }

    fn read<'a>(&self, line: &'a str) -> Line<'a> {
        if line.trim().is_empty() {
            return Line::Nothing;
        }
        if let Some(command) = line.strip_prefix('!').map(str::trim).filter(|it| !it.is_empty()) {
            return Line::Say(command.to_owned(), Invocation::Shell);
        }
        let (word, rest) = line.trim_end().split_once(char::is_whitespace).unwrap_or((line.trim_end(), ""));
        match word.strip_prefix('/').filter(|word| OWN.iter().any(|(name, _)| name == word)) {
            Some("exit" | "quit") => return Line::Leave,
            Some(name) => return Line::Own(name, rest.trim()),
            None => {}
        }
        match Slash::read(line, |name| self.choices.commands.iter().any(|choice| choice.name == name)) {
            Some(Slash::Unknown(name)) => Line::Unknown(name),
            Some(Slash::Known(name)) => Line::Say(rest.trim().to_owned(), Invocation::Named(name.to_owned())),
            None => Line::Say(line.to_owned(), Invocation::None),
        }
    }

    /// Has words answered, or a command run.
    async fn say(
        &mut self,
        words: &str,
        invocation: Invocation,
        interrupts: &mut Interrupts,
    ) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_elsewhere) {
            // The server takes one prompt after another; the answer to the other client's is shown first.
            self.catch_up(interrupts).await?;
        }
        let mut parts = Vec::new();
        if invocation != Invocation::Shell {
            for name in words.split_whitespace().filter_map(|word| word.strip_prefix('@')) {
                let name = name.trim_end_matches([',', '.', ';', ':', '?', '!', ')']);
                let path = self.directory.join(name);
                if !name.is_empty() && path.exists() {
                    parts.push(attach::attach(&path)?);
                } else if self.choices.subagents().any(|agent| agent.name == name) {
                    parts.push(PromptPart::Agent { name: name.to_owned() });
                }
            }
        }
        parts.push(PromptPart::Text { text: words.to_owned(), is_synthetic: false, is_ignored: false });
        let (agent, model) = (self.agent.clone(), self.model.clone());
        let input = PromptInput { parts, agent, model, invocation, ..PromptInput::default() };
        self.is_begun = true;
        self.shown.turn(&self.id, input, interrupts).await?;
        Ok(self.shown.rest().await?)
    }

    /// Carries a command of the chat out.
    async fn own(&mut self, name: &str, rest: &str, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let text = match (name, rest) {
            ("help", _) => texts::help(&self.choices.commands),
            ("model", "") => self.choices.models.join("\n"),
            ("model", name) => {
                if let Some(model) = place::model(Some(name), None)? {
                    let ModelRef { provider_id, model_id, variant } = &model;
                    if !self.choices.models.contains(&format!("{provider_id}/{model_id}")) {
                        let known = "/model lists those of the server.";
                        return Err(Failure::Misuse(format!("Unknown model `{name}`; {known}")));
                    }
                    let choice = json!({"providerID": provider_id, "id": model_id, "variant": variant});
                    self.store("model", choice).await;
                    self.model = Some(model);
                }
                format!("Model: {name}.")
            }
            ("agent" | "mode", "") => {
                texts::agents(self.choices.agents().map(|it| (it.name.as_str(), it.description.as_deref())))
            }
            ("agent" | "mode", agent) => {
                if !self.choices.agents().any(|it| it.name == agent) {
                    let known: Vec<&str> = self.choices.agents().map(|it| it.name.as_str()).collect();
                    let known = known.join(", ");
                    return Err(Failure::Misuse(format!("Unknown agent `{agent}`; known: {known}.")));
                }
                self.store("agent", agent.into()).await;
                self.agent = Some(agent.to_owned());
                format!("Agent: {agent}.")
            }
            ("new", _) => {
                let session = place::create(&self.remote.http, None, "").await?;
                self.enter(session, interrupts).await?;
                self.is_new = true;
                format!("A new session, {}.", self.id)
            }
            ("sessions", "") => {
                let path = format!("/session?roots=true&limit={N_SESSIONS}");
                let sessions: Vec<Session> = self.remote.http.get(&path).await.map_err(failed)?;
                let is_empty = |session: &Session| session.id == self.id && !self.is_begun;
                texts::sessions(sessions.iter().filter(|it| !is_empty(it)))
            }
            ("sessions", id) => {
                let session = place::session(&self.remote.http, id).await?;
                self.enter(session, interrupts).await?;
                self.is_new = false;
                return Ok(self.greet().await?);
            }
            (_, _) => String::new(),
        };
        Ok(self.shown.print_wrapped(&text).await?)
    }
}

/// Returns the last messages of a session, those behind the given one.
async fn news(
    remote: &Remote,
    id: &SessionId,
    shown: Option<&MessageId>,
) -> Result<Vec<MessageWithParts>, Failure> {
    let path = format!("/session/{id}/message?limit={N_SHOWN}");
    let mut messages: Vec<MessageWithParts> = remote.http.get(&path).await.map_err(failed)?;
    messages.retain(|message| shown.is_none_or(|shown| message.info.id() > shown));
    Ok(messages)
}

fn is_unfinished(message: &Message) -> bool {
    match message {
        Message::User(_) => false,
        Message::Assistant(answer) => answer.time.completed.is_none() && answer.error.is_none(),
    }
}
