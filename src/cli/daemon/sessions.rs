//! The sessions that a chat talks in, this process's own or a server's, and the names that can be chosen there.

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use windlass_core::config::Environment;
use windlass_engine::{
    self as engine, CommandChoice, Engine, Invocation, NewSession, PromptInput, PromptPart, Record, Slash,
};
use windlass_protocol::opencode::{
    file_diff::FileDiff,
    id::{MessageId, SessionId},
    message::{Message, MessageWithParts},
    model_ref::ModelRef,
    part::PartKind,
    session::{ArchiveFilter, Session},
};

use super::{
    super::{
        output,
        run::{
            args::TalkArgs,
            attach, dropped,
            failure::Failure,
            open::{self, Place},
        },
        session::export,
    },
    Daemon,
    http::CredentialArgs,
    place,
    remote::Remote,
};

/// Messages of a session that are shown when it is picked up.
const N_SHOWN: usize = 6;
/// The time in which a server tells the agent of a session.
const AGENT_LIMIT: Duration = Duration::from_secs(2);
/// Sessions that are listed.
const N_SESSIONS: usize = 20;
/// Sessions of the project among which they are looked for.
const MAX_OF_PROJECT: usize = 500;

/// See the module's comment.
#[expect(clippy::large_enum_variant, reason = "a chat has one")]
pub enum Sessions {
    Own {
        engine: Engine,
        place: Box<Place>,
    },
    Remote {
        remote: Arc<Remote>,
        choices: Choices,
        /// The session's agent, as far as it is known.
        agent: Option<String>,
        /// One that was chosen here and that the server does not store.
        unstored_agent: Option<String>,
        model: Option<ModelRef>,
    },
}

/// The names that can be typed in a directory.
#[derive(Debug, Clone)]
pub struct Choices {
    pub commands: Vec<CommandChoice>,
    /// The names and descriptions of agents that can be chosen.
    pub agents: Vec<(String, Option<String>)>,
    pub subagents: Vec<String>,
    pub models: Vec<String>,
    /// The names of a server's models, and the tokens that their contexts take.
    names: HashMap<String, (String, u64)>,
}

/// A prompt of the user in a session.
pub struct Said {
    pub id: MessageId,
    /// Milliseconds since the epoch.
    pub created: i64,
    pub words: String,
}

/// The last messages of a session.
pub struct Past {
    /// Earlier messages, which are not read.
    pub n_earlier: usize,
    pub messages: Vec<MessageWithParts>,
    /// Messages of subagents.
    pub children: HashMap<SessionId, Vec<MessageWithParts>>,
    /// Something was said, even if it was undone.
    pub is_begun: bool,
}

impl Sessions {
    /// Opens the directory that the options name, and prints its warnings and the state of the sandbox.
    pub async fn own(engine: &Engine, args: &TalkArgs) -> Result<Self, Failure> {
        let place = Place::find(engine, args).await?;
        place.warn();
        place.tell_sandbox().await;
        Ok(Self::Own { engine: engine.clone(), place: place.into() })
    }

    pub async fn at_server(
        environment: &Environment,
        url: &str,
        credential: &CredentialArgs,
        args: &TalkArgs,
    ) -> Result<Self, Failure> {
        let model = place::model(args)?;
        let remote = place::connect(environment, url, credential, args).await?;
        let choices = Choices::read(&remote).await?;
        if let Some(agent) = &args.agent {
            choices.check_agent(agent)?;
        }
        Ok(Self::Remote { remote, choices, agent: None, unstored_agent: None, model })
    }

    pub fn daemon(&self) -> Daemon {
        match self {
            Self::Own { engine, .. } => Daemon::own(engine),
            Self::Remote { remote, .. } => Daemon::Remote(remote.clone()),
        }
    }

    /// Returns true if others prompt these sessions too.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Remote { .. })
    }

    pub fn choices(&self) -> Choices {
        match self {
            Self::Own { place, .. } => {
                let loaded = place.workspace.loaded();
                let subagents = loaded.agents.iter().filter(|agent| agent.is_subagent());
                Choices {
                    commands: loaded.command_choices(),
                    agents: loaded.agent_choices().into_iter().map(|it| (it.id, it.description)).collect(),
                    subagents: subagents.map(|agent| agent.name.clone()).collect(),
                    models: loaded.model_choices().into_iter().map(|choice| choice.id).collect(),
                    names: HashMap::new(),
                }
            }
            Self::Remote { choices, .. } => choices.clone(),
        }
    }

    /// Opens the session that the options name, a copy of it, or a new one, which may have `words` as its title.
    /// Returns true for a new one.
    pub async fn open(&mut self, args: &TalkArgs, words: &str) -> Result<(Session, bool), Failure> {
        let (session, is_new) = match self {
            Self::Own { engine, place } => {
                (place.open(engine, args, words, open::MCP_LIMIT).await?.info, place.is_new())
            }
            Self::Remote { remote, .. } => place::open(&remote.http, args, words).await?,
        };
        self.note_agent(&session);
        if let Some(agent) = &args.agent
            && let Err(failure) = self.choose_agent(&session.id, agent).await
        {
            self.leave(&session.id, is_new).await?;
            return Err(failure);
        }
        Ok((session, is_new))
    }

    fn note_agent(&mut self, session: &Session) {
        if let Self::Remote { agent, unstored_agent, .. } = self {
            (*agent, *unstored_agent) = (session.agent.clone(), None);
        }
    }

    pub async fn create(&mut self) -> Result<Session, Failure> {
        let session = match self {
            Self::Own { engine, place } => {
                let directory = place.workspace.directory().to_owned();
                let new = NewSession { directory, ..NewSession::default() };
                Ok(engine.sessions().create_in(place.workspace.clone(), new).await?.info)
            }
            Self::Remote { remote, .. } => place::create(&remote.http, None).await,
        }?;
        self.note_agent(&session);
        Ok(session)
    }

    /// Opens a session by its id.
    pub async fn enter(&mut self, id: &str) -> Result<Session, Failure> {
        let session = match self {
            Self::Own { engine, place } => {
                let directory = place.workspace.directory().to_owned();
                let id = open::known(engine, id, &directory).await?.id;
                let opened = engine.sessions().open(&id, &directory, Vec::new()).await?;
                // One of a worktree goes on there.
                place.workspace = opened.workspace;
                Ok(opened.info)
            }
            Self::Remote { remote, .. } => place::session(&remote.http, id).await,
        }?;
        self.note_agent(&session);
        Ok(session)
    }

    /// Closes a session. One in which nothing was said is deleted, so that it does not stay in any list.
    pub async fn leave(&self, id: &SessionId, is_unused: bool) -> Result<(), Failure> {
        match self {
            Self::Own { engine, .. } if is_unused => engine.sessions().delete(id).await?,
            Self::Own { engine, .. } => _ = engine.sessions().close(id).await,
            Self::Remote { remote, .. } if is_unused => {
                let said = remote.http.get::<Vec<Value>>(&format!("/session/{id}/message?limit=1")).await;
                // Another client may have said something; a session that stays is no harm.
                if said.is_ok_and(|said| said.is_empty()) {
                    let _ = remote.http.delete(&format!("/session/{id}")).await;
                }
            }
            Self::Remote { .. } => {}
        }
        Ok(())
    }

    /// Returns the latest sessions of the directory, and of worktrees of its project.
    pub async fn list(&self) -> Result<Vec<Session>, Failure> {
        match self {
            Self::Own { engine, place } => {
                let directory = place.workspace.directory();
                let of_project =
                    engine.sessions().of_project(directory, ArchiveFilter::Exclude, MAX_OF_PROJECT);
                let is_here = |session: &Session| {
                    let of_session = Path::new(&session.directory);
                    of_session == directory || engine.worktrees().name_of(of_session).is_some()
                };
                Ok(of_project.await?.into_iter().filter(is_here).take(N_SESSIONS).collect())
            }
            Self::Remote { remote, .. } => {
                Ok(remote.http.get(&format!("/session?roots=true&limit={N_SESSIONS}")).await?)
            }
        }
    }

    /// Returns the ids of the sessions that are listed; none where a server does not tell them in time.
    pub async fn ids(&self) -> Vec<String> {
        let listed = timeout(AGENT_LIMIT, self.list()).await;
        let listed = listed.ok().and_then(Result::ok).unwrap_or_default();
        listed.into_iter().map(|session| session.id.to_string()).collect()
    }

    /// Returns the prompts of a session that are not undone, in their order.
    pub async fn prompts(&self, id: &SessionId) -> Result<Vec<Said>, Failure> {
        let messages = match self {
            Self::Own { engine, .. } => engine.sessions().record(id).await?.without_undone().messages,
            Self::Remote { remote, .. } => remote.http.get(&format!("/session/{id}/message")).await?,
        };
        let said = messages.into_iter().filter_map(|message| match &message.info {
            Message::User(user) => {
                let (id, created) = (user.id.clone(), user.time.created);
                Some(Said { id, created, words: words_of(&message) }).filter(|said| !said.words.is_empty())
            }
            Message::Assistant(_) => None,
        });
        Ok(said.collect())
    }

    /// Returns a session as it is stored.
    pub async fn info(&self, id: &SessionId) -> Result<Session, Failure> {
        match self {
            Self::Own { engine, .. } => Ok(engine.sessions().get(id).await?),
            Self::Remote { remote, .. } => Ok(remote.http.get(&format!("/session/{id}")).await?),
        }
    }

    pub async fn rename(&self, id: &SessionId, title: &str) -> Result<Session, Failure> {
        match self {
            Self::Own { engine, .. } => Ok(engine.sessions().rename(id, title).await?),
            Self::Remote { remote, .. } => {
                let request = remote.http.request(Method::PATCH, &format!("/session/{id}"));
                remote.http.send(request.json(&json!({ "title": title }))).await?;
                self.info(id).await
            }
        }
    }

    /// Returns the files that a session changed.
    pub async fn diff(&self, id: &SessionId) -> Result<Vec<FileDiff>, Failure> {
        match self {
            Self::Own { engine, .. } => Ok(engine.sessions().diff(id, None).await?),
            Self::Remote { remote, .. } => Ok(remote.http.get(&format!("/session/{id}/diff")).await?),
        }
    }

    /// Writes a session to a file whose name says how.
    pub async fn export(&self, id: &SessionId, path: &Path) -> Result<(), Failure> {
        match self {
            Self::Own { engine, .. } => export::to_file(engine, id, path).await.map_err(Failure::Misuse),
            Self::Remote { .. } => {
                let way_out = format!("run `windlass session export {id} -o FILE` where the server runs");
                Err(Failure::Misuse(format!("A server's session cannot be exported from here; {way_out}.")))
            }
        }
    }

    /// Takes the prompts back that wait for the next one since their turn was stopped or their process ended; returns
    /// them as they would be typed, and the number of those that cannot be typed and stay.
    pub async fn take_waiting(&self, id: &SessionId) -> (Vec<String>, usize) {
        let engine = match self {
            Self::Own { engine, .. } => engine,
            Self::Remote { remote, .. } => return (remote.take_parked(id).await, 0),
        };
        let (mut lines, mut n_left) = (Vec::new(), 0);
        for prompt in engine.sessions().waiting_prompts(id).into_iter().filter(|prompt| prompt.is_parked) {
            match prompt.line {
                Some(line) if engine.sessions().withdraw_prompt(id, prompt.ticket) => lines.push(line),
                Some(_) => {}
                None => n_left += 1,
            }
        }
        (lines, n_left)
    }

    /// Returns the prompt that was taken back last: its message, and its words.
    pub async fn undone(&self, id: &SessionId) -> Option<(MessageId, String)> {
        let message_id = self.info(id).await.ok()?.revert?.message_id;
        let message = match self {
            Self::Own { engine, .. } => engine.sessions().message(id, &message_id).await.ok()??,
            Self::Remote { remote, .. } => {
                remote.http.get(&format!("/session/{id}/message/{message_id}")).await.ok()?
            }
        };
        Some((message_id, words_of(&message)))
    }

    /// Returns the name of a model, and the tokens that its context takes.
    pub fn model(&self, model: &ModelRef) -> Option<(String, u64)> {
        match self {
            Self::Own { place, .. } => {
                let model = place.workspace.loaded().checked_model(model).ok()?;
                Some((model.name, model.limit.context))
            }
            Self::Remote { choices, .. } => {
                let id = format!("{}/{}", model.provider_id, model.model_id);
                Some(choices.names.get(&id).cloned().unwrap_or((id, 0)))
            }
        }
    }

    /// Describes where the chat takes place: program, model, directory and branch.
    pub fn place(&self, directory: &Path, home: &Path) -> String {
        let mut facts = vec![format!("windlass {}", env!("CARGO_PKG_VERSION"))];
        let directory = match directory.strip_prefix(home) {
            Ok(below) if below.as_os_str().is_empty() => "~".to_owned(),
            Ok(below) => format!("~/{}", below.display()),
            Err(_) => directory.display().to_string(),
        };
        match self {
            Self::Own { place, .. } => {
                facts.extend(place.answering().ok().map(|model| model.name));
                let branch =
                    place.workspace.branch().map(|branch| format!(" ({branch})")).unwrap_or_default();
                facts.push(output::plain(&(directory + &branch)));
            }
            Self::Remote { remote, model, .. } => {
                facts.extend(model.as_ref().map(ModelRef::to_string));
                facts.push(output::plain(&directory));
                facts.push(format!("at {}", remote.http.address()));
            }
        }
        facts.join(" · ")
    }

    /// Returns the last messages of a session, those behind the given one.
    pub async fn past(&self, id: &SessionId, shown: Option<&MessageId>) -> Result<Past, Failure> {
        let mut past = match self {
            Self::Own { engine, .. } => {
                let record = engine.sessions().record(id).await?;
                let is_begun = !record.messages.is_empty();
                let Record { mut messages, children, .. } = record.without_undone();
                let n_earlier = messages.len().saturating_sub(N_SHOWN);
                messages.drain(..n_earlier);
                Past { n_earlier, messages, children, is_begun }
            }
            Self::Remote { remote, .. } => {
                let path = format!("/session/{id}/message?limit={N_SHOWN}");
                let messages: Vec<MessageWithParts> = remote.http.get(&path).await?;
                let is_begun = !messages.is_empty();
                Past { n_earlier: 0, messages, children: HashMap::new(), is_begun }
            }
        };
        past.messages.retain(|message| shown.is_none_or(|shown| message.info.id() > shown));
        Ok(past)
    }

    /// Returns the name of the agent that answers in a session.
    pub async fn agent(&mut self, id: &SessionId) -> String {
        match self {
            Self::Own { engine, place } => {
                let chosen = engine.asking().session_agent(id).await;
                place.workspace.loaded().agent_name(chosen.as_deref()).to_owned()
            }
            Self::Remote { remote, choices, agent, unstored_agent, .. } => {
                // A turn may have had another agent go on. The next prompt reports a server that does not answer.
                let path = format!("/session/{id}");
                let asked = timeout(AGENT_LIMIT, remote.http.get::<Session>(&path)).await;
                if let Ok(Ok(session)) = asked {
                    *agent = session.agent;
                }
                let mut names = choices.agents.iter().map(|(name, _)| name);
                // The list begins with the default agent.
                let first = names.clone().next().cloned().unwrap_or_default();
                let chosen = unstored_agent.clone().or(agent.clone());
                chosen.filter(|chosen| names.any(|name| name == chosen)).unwrap_or(first)
            }
        }
    }

    /// Chooses the agent of a session.
    pub async fn choose_agent(&mut self, id: &SessionId, name: &str) -> Result<(), Failure> {
        match self {
            Self::Own { engine, place } => {
                open::check_agent(&place.workspace.loaded(), name)?;
                Ok(engine.sessions().select(id, Some(name.to_owned()), None).await?)
            }
            Self::Remote { remote, choices, agent, unstored_agent, .. } => {
                choices.check_agent(name)?;
                let path = format!("/api/session/{id}/agent");
                let is_stored = remote.http.post_if_known(&path, &json!({ "agent": name })).await?;
                let name = Some(name.to_owned());
                (*agent, *unstored_agent) = if is_stored { (name, None) } else { (agent.take(), name) };
                Ok(())
            }
        }
    }

    /// Chooses the model of a session, and of the prompts that follow.
    pub async fn choose_model(&mut self, id: &SessionId, name: &str) -> Result<ModelRef, Failure> {
        let chosen = match self {
            Self::Own { engine, place } => {
                let chosen = open::parse_model(&place.workspace.loaded(), name)?;
                engine.sessions().select(id, None, Some(chosen.clone())).await?;
                place.model.insert(chosen)
            }
            Self::Remote { remote, choices, model, .. } => {
                let chosen = open::model_name(name)?;
                let ModelRef { provider_id, model_id, variant } = &chosen;
                let choice = json!({"providerID": provider_id, "id": model_id, "variant": variant});
                let path = format!("/api/session/{id}/model");
                // It goes with each prompt, also where it is not stored.
                let is_stored = remote.http.post_if_known(&path, &json!({ "model": choice })).await?;
                if !is_stored && !choices.models.contains(&format!("{provider_id}/{model_id}")) {
                    return Err(Failure::Misuse(format!(
                        "The server has no model {name}; `/model` lists its models."
                    )));
                }
                model.insert(chosen)
            }
        };
        Ok(chosen.clone())
    }

    /// Fails if no model can answer; a server says so when it is prompted.
    pub fn answering(&self) -> Result<(), Failure> {
        match self {
            Self::Own { place, .. } => place.answering().map(|_| ()),
            Self::Remote { .. } => Ok(()),
        }
    }

    /// Returns true if there is no provider, no model and no key at all.
    pub fn is_unconfigured(&self) -> bool {
        match self {
            Self::Own { place, .. } => {
                let loaded = place.workspace.loaded();
                let answering = loaded.answering(loaded.default_agent(), place.model.as_ref());
                answering.is_err_and(|unusable| unusable.is_unconfigured())
            }
            Self::Remote { .. } => false,
        }
    }

    /// Uses keys that were stored meanwhile.
    pub async fn read_keys_again(&self) -> Result<(), Failure> {
        match self {
            Self::Own { engine, .. } => Ok(engine.accounts().log_in().await?),
            Self::Remote { .. } => Ok(()),
        }
    }

    /// Changes the user's own settings.
    pub async fn change_user_settings(&self, settings: Map<String, Value>) -> Result<(), Failure> {
        match self {
            Self::Own { engine, .. } => {
                engine.workspaces().patch_user_config(settings).await?;
                // The directory's configuration has them from now on.
                self.read_keys_again().await
            }
            Self::Remote { .. } => Ok(()),
        }
    }

    /// Returns the fault of the configuration that may be why there is no such command.
    pub fn fault_of_command(&self, name: &str) -> String {
        match self {
            Self::Own { place, .. } => place.workspace.loaded().before("command", name),
            Self::Remote { .. } => String::new(),
        }
    }

    /// Returns the command that a line begins with. The demo model has commands of its own.
    pub fn slash<'a>(&self, line: &'a str) -> Option<Slash<'a>> {
        let commands = self.choices().commands;
        let slash = Slash::read(line, |name| commands.iter().any(|command| command.name == name))?;
        let is_demo = slash == Slash::Unknown("demo")
            && matches!(self, Self::Own { place, .. } if place.answering().is_ok_and(|it| it.is_demo()));
        (!is_demo).then_some(slash)
    }

    /// Returns a shell command for the session.
    pub fn shell(&self, command: &str) -> PromptInput {
        self.input(vec![text(command)], Invocation::Shell)
    }

    /// Returns a line with the files that it names by `@`, and the subagents.
    pub fn prompt(&self, line: &str, directory: &Path) -> Result<PromptInput, Failure> {
        let (words, invocation) = match (self, self.slash(line)) {
            // A server takes a command's name apart from its arguments.
            (Self::Remote { .. }, Some(Slash::Known(name))) => {
                let rest = line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
                (rest, Invocation::Named(name.to_owned()))
            }
            (Self::Own { .. } | Self::Remote { .. }, _) => (line, Invocation::Slash),
        };
        let mut parts = files(words, directory)?;
        if let Self::Own { place, .. } = self {
            place.check_files(&parts)?;
        }
        let pictures: Vec<PromptPart> =
            dropped::pictures(words).iter().filter_map(|path| attach::attach(path).ok()).collect();
        // A model that takes none may still read them by their paths.
        let are_taken = match self {
            Self::Own { place, .. } => place.check_files(&pictures).is_ok(),
            Self::Remote { .. } => true,
        };
        if are_taken {
            parts.extend(pictures);
        }
        parts.push(text(words));
        parts.extend(engine::mentions(words, &self.choices().subagents));
        Ok(self.input(parts, invocation))
    }

    fn input(&self, parts: Vec<PromptPart>, invocation: Invocation) -> PromptInput {
        let (agent, model) = match self {
            Self::Own { place, .. } => (None, place.model.clone()),
            // A server of OpenCode answers by its default agent where a prompt names none.
            Self::Remote { agent, unstored_agent, model, .. } => {
                (unstored_agent.clone().or(agent.clone()), model.clone())
            }
        };
        PromptInput { parts, agent, model, invocation, ..PromptInput::default() }
    }

    /// Waits until the last answers have reached a server.
    pub async fn finish(&self) {
        match self {
            Self::Own { .. } => {}
            Self::Remote { remote, .. } => remote.finish().await,
        }
    }
}

impl Choices {
    fn check_agent(&self, name: &str) -> Result<(), Failure> {
        let names: Vec<&str> = self.agents.iter().map(|(name, _)| name.as_str()).collect();
        open::check_agent_name(&names, name, "")
    }

    /// Reads the names that a server offers in the directory.
    async fn read(remote: &Remote) -> Result<Self, Failure> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let named = |value: &Value| text(&value["name"]).unwrap_or_default();
        let commands: Vec<Value> = remote.http.get("/command").await?;
        let commands = commands.iter().map(|it| CommandChoice {
            name: named(it),
            description: text(&it["description"]).unwrap_or_default(),
            hint: None,
        });
        let mut agents: Vec<Value> = remote.http.get("/agent").await?;
        agents.retain(|agent| agent["hidden"] != true);
        let chosen = agents.iter().filter(|agent| agent["mode"] != "subagent");
        let subagents = agents.iter().filter(|agent| agent["mode"] != "primary");
        let (models, names) = Self::models(remote).await?;
        Ok(Self {
            commands: commands.collect(),
            agents: chosen.map(|agent| (named(agent), text(&agent["description"]))).collect(),
            subagents: subagents.map(named).collect(),
            models,
            names,
        })
    }

    async fn models(remote: &Remote) -> Result<(Vec<String>, HashMap<String, (String, u64)>), Failure> {
        if let Ok(models) = remote.http.get::<Value>("/api/model").await {
            let models = models["data"].as_array().into_iter().flatten();
            let id = |it: &Value| Some(format!("{}/{}", it["providerID"].as_str()?, it["id"].as_str()?));
            let name = |it: &Value| {
                let context = it["limit"]["context"].as_u64().unwrap_or_default();
                Some((id(it)?, (it["name"].as_str()?.to_owned(), context)))
            };
            return Ok((models.clone().filter_map(id).collect(), models.filter_map(name).collect()));
        }
        // A server of OpenCode may lack that list; its providers name their models.
        let providers: Value = remote.http.get("/config/providers").await?;
        let providers = providers["providers"].as_array().into_iter().flatten();
        let models = providers.flat_map(|provider| {
            let of = provider["id"].as_str().unwrap_or_default();
            let models = provider["models"].as_object().into_iter().flatten();
            models.map(move |(model, _)| format!("{of}/{model}"))
        });
        let mut models: Vec<String> = models.collect();
        models.sort();
        Ok((models, HashMap::new()))
    }
}

/// Returns the words that a person said in a message.
fn words_of(message: &MessageWithParts) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.kind {
        PartKind::Text(text) if text.synthetic != Some(true) => Some(text.text.as_str()),
        _other => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Attaches the files that a line names by `@`.
fn files(line: &str, directory: &Path) -> Result<Vec<PromptPart>, Failure> {
    let mut files = Vec::new();
    for name in line.split_whitespace().filter_map(|word| word.strip_prefix('@')) {
        let bare = name.trim_end_matches([',', '.', ';', ':', '?', '!', ')']);
        let named = [name, bare].into_iter().find(|name| !name.is_empty() && directory.join(name).exists());
        if let Some(name) = named {
            files.push(attach::attach(&directory.join(name))?);
        }
    }
    Ok(files)
}

fn text(text: &str) -> PromptPart {
    PromptPart::Text { text: text.to_owned(), is_synthetic: false, is_ignored: false }
}
