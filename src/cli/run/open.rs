//! Finds the place of a conversation, session, agent and model, and opens it once all of them are known to exist.

use std::{
    fmt::Display,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use windlass_base::{mime, sandbox::level, text};
use windlass_core::config::sandbox;
use windlass_engine::{
    ClientPrompt, Engine, EngineErrorKind, Loaded, Model, NewSession, Opened, PromptPart, Workspace,
};
use windlass_protocol::opencode::{
    model_ref::ModelRef,
    session::{ArchiveFilter, Session},
    settings::{SandboxAtStart, SandboxMode},
};

use super::{
    super::{output, session::share::allow_unasked},
    args::TalkArgs,
    failure::Failure,
};

/// Time that the first request of a conversation waits for MCP servers.
pub const MCP_LIMIT: Duration = Duration::from_secs(5);
/// The same for a single request, which cannot use tools that come later; each server has a limit of its own.
pub const LONG_MCP_LIMIT: Duration = Duration::from_secs(120);
/// Time that the first request waits for plugins that are being installed, for the same reason.
const INSTALL_LIMIT: Duration = Duration::from_secs(60);
/// Characters of the prompt that become the title when `--title` is empty.
const TITLE_LENGTH: usize = 50;

/// The place that the options name, read and checked; nothing is made yet.
pub struct Place {
    directory: PathBuf,
    pub workspace: Arc<Workspace>,
    /// The session to go on with.
    continued: Option<Session>,
    /// Instructions for the session from now on.
    client_prompt: Option<ClientPrompt>,
    agent: Option<String>,
    /// The model that is to answer; the agent's or the default when there is none.
    pub model: Option<ModelRef>,
}

impl Place {
    /// Reads the directory's files and finds the session, agent and model.
    pub async fn find(engine: &Engine, args: &TalkArgs) -> Result<Self, Failure> {
        check(args)?;
        let client_prompt = client_prompt(args)?;
        let directory = directory(args)?;
        if args.share {
            allow_unasked().map_err(Failure::Misuse)?;
            engine.shares().check_in(&directory).await?;
        }
        let workspace = engine.workspaces().workspace(&directory).await?;
        if !engine.plugins().installed(Duration::ZERO).await {
            output::note("Plugins are being installed; they are waited for.");
            engine.plugins().installed(INSTALL_LIMIT).await;
        }
        if let Some(agent) = &args.agent {
            if workspace.loaded().agent(agent).is_none() {
                // It may be one of a server that was never asked before.
                engine.remote().listed_settled().await;
            }
            check_agent(&workspace.loaded(), agent)?;
        }
        let loaded = workspace.loaded();
        let chosen = args.model.as_deref().map(|model| parse_model(&loaded, model)).transpose();
        // The model may be missing because of a fault.
        let chosen = chosen.inspect_err(|_| warn(&loaded))?;
        let continued = match &args.session {
            Some(id) => Some(known(engine, id, &directory).await?),
            None if args.is_continued => {
                let latest = engine
                    .sessions()
                    .list(Some(directory.display().to_string()), ArchiveFilter::Exclude, None, 1)
                    .await?;
                latest.into_iter().next()
            }
            None => None,
        };
        let agent = args.agent.clone().or(continued.as_ref().and_then(|session| session.agent.clone()));
        let model = chosen.or_else(|| {
            let own = agent.as_deref().and_then(|name| loaded.agent(name)?.model.as_ref());
            let last = continued.as_ref()?.model.clone().filter(|_| args.agent.is_none() || own.is_none())?;
            Some(ModelRef { provider_id: last.provider_id, model_id: last.id, variant: last.variant })
        });
        let mut place = Self { directory, workspace, continued, client_prompt, agent, model };
        if let Some(variant) = &args.variant {
            place.model = Some(with_variant(&place.answering()?, variant)?);
        }
        Ok(place)
    }

    /// Returns true if no session is continued.
    pub fn is_new(&self) -> bool {
        self.continued.is_none()
    }

    /// Prints the problems of the configuration, unless one keeps the model from answering: then that reason is
    /// printed alone.
    pub fn warn(&self) {
        if self.answering().is_ok() {
            warn(&self.workspace.loaded());
        }
    }

    /// Says how commands are held, where that is because of how the process was started.
    pub async fn tell_sandbox(&self) {
        let loaded = self.workspace.loaded();
        let settings = &loaded.config.settings.windlass.sandbox;
        let wanted = sandbox::wanted(settings, loaded.agent_name(self.agent.as_deref()));
        let is_asked_for = !matches!(settings.at_start, SandboxAtStart::Unsaid | SandboxAtStart::Off);
        if !is_asked_for || !wanted.is_default || wanted.mode == SandboxMode::Off {
            return;
        }
        let found = level().await;
        output::note(&if found.level.is_full() {
            let mode = wanted.mode.name();
            format!("Commands run in the sandbox {mode} (level full); --no-sandbox runs them without.")
        } else {
            let reason = found.reason.as_deref().unwrap_or("no reason is known");
            format!("Commands run without a sandbox, because this machine cannot hold all of it: {reason}.")
        });
    }

    /// Returns the model that answers, unless it cannot be had.
    pub fn answering(&self) -> Result<Model, Failure> {
        let loaded = self.workspace.loaded();
        let agent = loaded.agent(loaded.agent_name(self.agent.as_deref()));
        let agent = agent.unwrap_or_else(|| loaded.default_agent());
        let answering = loaded.answering(agent, self.model.as_ref());
        answering.map_err(|unusable| Failure::Failed(unusable.to_string()))
    }

    /// Refuses files that the answering model cannot take, before a call is spent on it.
    pub fn check_files(&self, files: &[PromptPart]) -> Result<(), Failure> {
        let Ok(model) = self.answering() else { return Ok(()) };
        let reference = model.reference();
        for file in files {
            let PromptPart::File(file) = file else { continue };
            let (kind, is_taken) = match held(&file.url) {
                Some("application/pdf") => (("PDF files", "pdf"), model.takes_pdf),
                Some(_) => (("images", "image"), model.takes_images),
                None => continue,
            };
            if !is_taken {
                let name = file.filename.as_deref().unwrap_or(&file.url);
                let (kind, modality) = kind;
                let setting = model.taking(modality);
                return Err(Failure::Misuse(format!(
                    "{reference} takes no {kind}, such as {name}: choose another model by `--model`, leave the file out, or, \
                     if it takes them, set {setting}."
                )));
            }
        }
        Ok(())
    }

    /// Opens the session, a copy of it, or a new one, which may have `words` as its title. Waits for MCP servers.
    pub async fn open(
        &self,
        engine: &Engine,
        args: &TalkArgs,
        words: &str,
        mcp_limit: Duration,
    ) -> Result<Opened, Failure> {
        let opened = match &self.continued {
            Some(session) => {
                let mut id = session.id.clone();
                if args.is_forked {
                    id = engine.sessions().fork(&self.workspace, &id, None).await?.id;
                }
                engine.sessions().open_in(self.workspace.clone(), &id, Vec::new()).await?
            }
            None => {
                let (directory, title) = (self.directory.clone(), title(args, words));
                let new = NewSession { directory, title, ..NewSession::default() };
                engine.sessions().create_in(self.workspace.clone(), new).await?
            }
        };
        if let Some(prompt) = &self.client_prompt {
            engine.sessions().set_client_prompt(&opened.info.id, prompt.clone()).await?;
        }
        if args.share {
            let shared = engine.shares().share(&opened.info.id).await?;
            output::note(&shared.share.map(|share| share.url).unwrap_or_default());
        }
        self.workspace.mcp().settled(mcp_limit).await;
        engine.remote().listed_settled().await;
        engine.workspaces().watch(&self.workspace);
        Ok(opened)
    }
}

/// Reads the instructions that the options name.
fn client_prompt(args: &TalkArgs) -> Result<Option<ClientPrompt>, Failure> {
    let (file, is_override) = match (&args.system_prompt, &args.append_system_prompt) {
        (Some(file), _) => (file, true),
        (None, Some(file)) => (file, false),
        (None, None) => return Ok(None),
    };
    let unread = |reason: &dyn Display| {
        Failure::Misuse(format!("The instructions in {} cannot be read: {reason}.", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|error| unread(&error))?;
    if text.trim().is_empty() && is_override {
        return Err(unread(
            &"the file is empty, and so there is nothing to take the place of the agent's own",
        ));
    }
    Ok(Some(ClientPrompt { is_override, text }))
}

/// Names the faults of the configuration.
fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        output::note(&format!("warning: {warning}"));
    }
}

/// Returns the title that the options name; an empty one is the beginning of the words.
pub fn title(args: &TalkArgs, words: &str) -> Option<String> {
    args.title.as_deref().map(|title| match title.trim() {
        "" => output::plain(words).chars().take(TITLE_LENGTH).collect(),
        title => title.to_owned(),
    })
}

/// Refuses options that make no sense together.
pub fn check(args: &TalkArgs) -> Result<(), Failure> {
    if args.is_forked && !args.is_continued && args.session.is_none() {
        let reason =
            "`--fork` copies a session: name it by `--session ID`, or take the latest by `--continue`.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    Ok(())
}

fn with_variant(model: &Model, variant: &str) -> Result<ModelRef, Failure> {
    let (known, reference) = (&model.variants, model.reference());
    if known.iter().any(|(name, _)| name == variant) {
        return Ok(ModelRef { variant: Some(variant.to_owned()), ..reference });
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let way_out = if names.is_empty() {
        let ModelRef { provider_id, model_id, .. } = &reference;
        format!(
            "it has none, unless `provider.{provider_id}.models.{model_id}.variants` in opencode.json adds some"
        )
    } else {
        format!("it has {}", offered(variant, &names))
    };
    Err(Failure::Misuse(format!("{reference} has no variant `{variant}`; {way_out}.")))
}

/// Returns the known names, and the one that was probably meant.
fn offered(wanted: &str, names: &[&str]) -> String {
    let near = text::nearest(wanted, names.iter().copied());
    let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    format!("{}{near}", names.join(", "))
}

/// Returns the directory that the options name.
pub fn directory(args: &TalkArgs) -> Result<PathBuf, Failure> {
    let directory = match &args.dir {
        Some(dir) => dir.canonicalize().map_err(|error| (dir.display().to_string(), error)),
        None => std::env::current_dir().map_err(|error| ("this directory".to_owned(), error)),
    };
    directory.map_err(|(dir, error)| Failure::Misuse(format!("{dir} cannot be used: {error}.")))
}

/// Returns a stored session by its id, a piece of that, or `latest` for the project's around a directory.
pub async fn known(engine: &Engine, id: &str, directory: &Path) -> Result<Session, Failure> {
    let hint = "`windlass session list --all` shows what there is";
    let found = async { engine.sessions().get(&engine.sessions().find(id, directory).await?).await };
    found.await.map_err(|error| match &error.kind {
        EngineErrorKind::SessionNotFound(_) => {
            Failure::Failed(format!("There is no session `{id}`; {hint}."))
        }
        EngineErrorKind::InvalidInput if !error.message.starts_with("no such") => {
            Failure::Failed(format!("`{id}`: {}; {hint}.", error.message))
        }
        EngineErrorKind::InvalidInput => Failure::Failed(format!("There is no session `{id}`; {hint}.")),
        _other => error.into(),
    })
}

/// Checks that an agent may be chosen.
pub fn check_agent(loaded: &Loaded, agent: &str) -> Result<(), Failure> {
    let choices = loaded.agent_choices();
    let names: Vec<&str> = choices.iter().map(|choice| choice.id.as_str()).collect();
    check_agent_name(&names, agent, &loaded.before("agent", agent))
}

/// Checks that an agent is one of these; a fault of the configuration may have kept it out.
pub fn check_agent_name(names: &[&str], agent: &str, fault: &str) -> Result<(), Failure> {
    if names.contains(&agent) {
        return Ok(());
    }
    Err(Failure::Misuse(format!("{fault}Unknown agent `{agent}`; known: {}.", offered(agent, names))))
}

/// Returns the model that a user named.
pub fn parse_model(loaded: &Loaded, model: &str) -> Result<ModelRef, Failure> {
    let reference = model_name(model)?;
    match loaded.checked_model(&reference) {
        Ok(_) => Ok(reference),
        Err(unusable) => Err(Failure::Failed(unusable.to_string())),
    }
}

/// Reads the name of a model.
pub fn model_name(name: &str) -> Result<ModelRef, Failure> {
    let unread = || Failure::Misuse(format!("`{name}` is not a model name: write `provider/model`."));
    ModelRef::parse(name).ok_or_else(unread)
}

/// Returns the type of the picture or document that a file holds, under any name.
fn held(url: &str) -> Option<&'static str> {
    let path = reqwest::Url::parse(url).ok()?.to_file_path().ok()?;
    let mut head = Vec::new();
    File::open(path).ok()?.take(mime::HEAD_BYTES).read_to_end(&mut head).ok()?;
    mime::of_bytes(&head)
}
