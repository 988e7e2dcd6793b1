//! Slash commands: which one a prompt calls, and its words to the model in the user's place (facts: OpenCode §6.9).

use std::{path::Path, sync::Arc};

use windlass_base::{blocking::blocking, mime};
use windlass_core::{
    config::{model::parse_model, policy::Policy},
    library::commands::{Body, BuiltinCommand, Command, template},
};
use windlass_protocol::opencode::{
    config::AgentMode,
    event::EventPayload,
    id::MessageId,
    model_ref::ModelRef,
    part::{FilePart, PartKind},
    permission::Action,
};
use windlass_services::{
    mcp::prompts::PromptAnswer,
    tool::{path::Roots, read},
};

use crate::{
    EngineError, EngineErrorKind,
    compaction::compact,
    session::{
        context::TurnCx,
        request::{Invocation, PromptInput, PromptPart, StopReason},
        state::{Journal, KnownFiles, SessionState, text_part},
    },
    turn::{
        attach, hooks, loaded_instructions::LoadedInstructions, local_reply::reply_locally, subtask_parts,
        toolbox,
    },
    workspace::loaded::Loaded,
};

pub mod builtin;
pub mod server_prompt;
mod shell;
pub mod slash;

/// A command that a prompt calls.
#[derive(Debug, Clone)]
pub struct Invoked {
    pub command: Command,
    /// Text behind the name.
    pub arguments: String,
    /// The whole typed text.
    typed: String,
    /// Other parts of the prompt.
    others: Vec<PromptPart>,
    is_subtask: bool,
}

impl Invoked {
    /// Returns the built-in command that the daemon runs by itself, without a model.
    pub fn own(&self) -> Option<BuiltinCommand> {
        match self.command.body {
            Body::Builtin(own) => Some(own),
            Body::Template(_) | Body::Skill(_) | Body::ServerPrompt(_) | Body::Compact => None,
        }
    }

    /// Returns the variant that answers, where the command asks for one; a subtask's is the subagent's affair.
    pub fn variant(&self) -> Option<&str> {
        self.command.variant.as_deref().filter(|_| !self.is_subtask)
    }
}

/// Beginning of a command.
pub enum Started {
    /// The model is to answer now.
    Prompt,
    /// There is nothing to answer any more.
    Ended(StopReason),
}

/// Takes the command out of a prompt that calls one, and lets the command's agent and model answer it.
///
/// Words that begin with a slash and name no command are words.
pub fn take(
    loaded: &Loaded,
    offered: &[Command],
    input: &mut PromptInput,
) -> Result<Option<Invoked>, EngineError> {
    let (name, arguments, typed, others) = match std::mem::take(&mut input.invocation) {
        Invocation::None | Invocation::Shell | Invocation::AskAgain => return Ok(None),
        Invocation::Slash => {
            let (typed, others) = split(&loaded.config.directory, &input.parts);
            let Some((name, arguments)) = called(loaded, offered, &typed) else { return Ok(None) };
            (name.to_owned(), arguments.to_owned(), typed, others)
        }
        Invocation::Named(name) => {
            let (words, others) = split(&loaded.config.directory, &input.parts);
            let typed = format!("/{name} {words}").trim_end().to_owned();
            (name, words, typed, others)
        }
    };
    let of_server = || offered.iter().rfind(|command| command.name == name);
    let Some(command) = loaded.commands.get(&name).or_else(of_server).cloned() else {
        let names: Vec<&str> = names(loaded, offered).collect();
        let message = format!("Command not found: \"{name}\". Available commands: {}", names.join(", "));
        return Err(EngineError::new(EngineErrorKind::InvalidInput, message));
    };
    let agent = command.agent.as_deref().map(|name| loaded.checked_agent(name)).transpose()?;
    let model = named_model(loaded, &command)?;
    let is_subagent = agent.is_some_and(|agent| agent.mode == AgentMode::Subagent);
    let is_subtask = command.subtask.unwrap_or(is_subagent);
    if !is_subtask {
        if let Some(agent) = agent {
            input.agent = Some(agent.name.clone());
            // The command's own agent brings its own model along.
            input.model = input.model.take().filter(|_| agent.model.is_none());
        }
        input.model = model.or(input.model.take());
    }
    Ok(Some(Invoked { command, arguments, typed, others, is_subtask }))
}

/// Returns true if a prompt calls a command that is not there, with a name such as prompts of servers have.
pub fn may_be_a_servers(loaded: &Loaded, offered: &[Command], input: &PromptInput) -> bool {
    let is_missing = |name: &str| name.contains(':') && !names(loaded, offered).any(|known| known == name);
    match &input.invocation {
        Invocation::None | Invocation::Shell | Invocation::AskAgain => false,
        Invocation::Named(name) => is_missing(name),
        Invocation::Slash => {
            let typed = words(&input.parts);
            let name = typed.strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
            name.is_some_and(is_missing)
        }
    }
}

/// Returns the names of all commands: those of the files, then those of servers.
pub fn names<'a>(loaded: &'a Loaded, offered: &'a [Command]) -> impl Iterator<Item = &'a str> {
    loaded.commands.keys().map(String::as_str).chain(offered.iter().map(|command| command.name.as_str()))
}

/// Returns the command that words call and the words after its name: of several names that they begin with, the
/// longest.
fn called<'a>(loaded: &Loaded, offered: &[Command], words: &'a str) -> Option<(&'a str, &'a str)> {
    let rest = words.trim_start().strip_prefix('/')?;
    // A name may have spaces: a file's may.
    let is_called = |name: &&str| {
        rest.strip_prefix(name)
            .is_some_and(|behind| behind.is_empty() || behind.starts_with(char::is_whitespace))
    };
    let n_bytes = names(loaded, offered).filter(is_called).map(str::len).max()?;
    let (name, arguments) = rest.split_at_checked(n_bytes)?;
    let mut behind = arguments.chars();
    // One space or line break parts them; all behind it is as it was typed.
    behind.next();
    Some((name, behind.as_str()))
}

/// Returns the model that a command names, which has to be there.
fn named_model(loaded: &Loaded, command: &Command) -> Result<Option<ModelRef>, EngineError> {
    let parse = |text: &str| {
        let message =
            format!("The command /{} has the model `{text}`, which is not `provider/model`.", command.name);
        parse_model(text).ok_or(EngineError::new(EngineErrorKind::InvalidInput, message))
    };
    let reference = command.model.as_deref().map(parse).transpose()?;
    loaded.named(&format!("command.{}.model", command.name), reference.as_ref()).transpose()?;
    Ok(reference.map(|reference| ModelRef {
        variant: command.variant.clone().or(reference.variant.clone()),
        ..reference
    }))
}

/// Returns a prompt's typed texts as one, and its other parts.
fn split(directory: &Path, parts: &[PromptPart]) -> (String, Vec<PromptPart>) {
    let mut typed = String::new();
    let mut others = Vec::new();
    for part in parts {
        match part {
            PromptPart::Text { text, is_synthetic: false, is_ignored: false } => typed.push_str(text),
            PromptPart::File(file) => {
                // Editors put a file that is mentioned among words between two texts.
                if typed.contains(' ') && typed.ends_with(char::is_whitespace) {
                    typed.push_str(&name_of(directory, file));
                }
                others.push(part.clone());
            }
            PromptPart::Text { .. }
            | PromptPart::Document { .. }
            | PromptPart::Agent { .. }
            | PromptPart::Subtask { .. } => others.push(part.clone()),
        }
    }
    (typed, others)
}

/// Returns the typed text.
pub fn words(parts: &[PromptPart]) -> String {
    let typed = parts.iter().filter_map(|part| match part {
        PromptPart::Text { text, is_synthetic: false, is_ignored: false } => Some(text.as_str()),
        PromptPart::Text { .. }
        | PromptPart::File(_)
        | PromptPart::Agent { .. }
        | PromptPart::Subtask { .. }
        | PromptPart::Document { .. } => None,
    });
    typed.collect()
}

fn name_of(directory: &Path, file: &FilePart) -> String {
    let path = reqwest::Url::parse(&file.url).ok().filter(|url| url.scheme() == "file");
    let Some(path) = path.and_then(|url| url.to_file_path().ok()) else { return String::new() };
    path.strip_prefix(directory).unwrap_or(&path).display().to_string()
}

/// Says a command's prompt in the user's place.
///
/// The message keeps the user's own text for the user to see; the text for the model is synthetic.
pub async fn begin(
    cx: &mut TurnCx<'_>,
    state: &mut SessionState,
    called: Invoked,
) -> Result<Started, EngineError> {
    let Invoked { command, arguments, typed, others, is_subtask } = called;
    let text = match &command.body {
        Body::Template(text) => Some(text.clone()),
        Body::Skill(_) => Some(Arc::from(skill_text(cx, &command).await?)),
        // It is asked for below, where it can be cancelled.
        Body::ServerPrompt(_) => Some(Arc::from("")),
        Body::Compact | Body::Builtin(_) => None,
    };
    let mut journal = Journal::default();
    cx.push_prompt(state, &mut journal);
    state.push_part(text_part(typed, false, true), &mut journal);
    let message_id = state.history.last().map(|message| message.info.id().clone());
    if let Some(message_id) = message_id.clone() {
        journal.event(EventPayload::CommandExecuted {
            name: command.name.clone(),
            session_id: state.info.id.clone(),
            arguments: arguments.clone(),
            message_id,
        });
    }
    cx.commit(&mut journal).await?;
    let (Some(text), Some(message_id)) = (text, message_id) else {
        return Ok(Started::Ended(compact::run(cx, state, &arguments).await?));
    };

    let (text, files) = match of_server(cx, &command, &arguments).await {
        None => (text, Vec::new()),
        Some(Ok(answer)) => (Arc::from(answer.text), answer.files),
        Some(Err(_)) if cx.cancel.is_cancelled() => return Ok(Started::Ended(StopReason::Cancelled)),
        Some(Err(reason)) => return refuse(cx, state, &command, &reason).await,
    };
    let policy = toolbox::policy(cx, state, &[]);
    let is_denied =
        matches!(command.body, Body::Skill(_)) && policy.evaluate("skill", &command.name) == Action::Deny;
    if is_denied {
        let text = format!("The skill {} was not loaded: a permission rule denies it.", command.name);
        reply_locally(cx, state, text).await?;
        return Ok(Started::Ended(StopReason::EndTurn));
    }
    let (pieces, mut parts) = expand(cx, &command, &text, &arguments, &others, &policy).await;
    let subagent = command.agent.as_deref().filter(|_| is_subtask).and_then(|name| cx.loaded.agent(name));
    let text = match shell::fill(cx, state, pieces, subagent).await? {
        shell::Filled::Whole(text) => text,
        shell::Filled::Refused(reason) => return refuse(cx, state, &command, &reason).await,
        shell::Filled::Interrupted => {
            state.close_parts(&mut journal);
            cx.commit(&mut journal).await?;
            return Ok(Started::Ended(StopReason::Cancelled));
        }
    };
    parts.extend(files.into_iter().map(PromptPart::File));
    parts.extend(others);
    let first = if is_subtask {
        subtask(cx, &command, text)?
    } else {
        PromptPart::Text { text, is_synthetic: true, is_ignored: false }
    };
    parts.insert(0, first);
    let mut parts = hooks::command::change(cx, state, &command.name, &arguments, parts).await?;
    if !parts.iter().any(says_something) {
        let text = format!(
            "/{} comes to an empty message, so the model was not asked. Type behind it what it is to say.",
            command.name
        );
        reply_locally(cx, state, text).await?;
        return Ok(Started::Ended(StopReason::EndTurn));
    }
    if let Some(idx) =
        parts.iter().position(|part| matches!(part, PromptPart::Subtask { .. })).filter(|_| is_subtask)
    {
        let task = parts.remove(idx);
        return begin_subtask(cx, state, &command, task, parts).await;
    }
    attach_parts(cx, state, &message_id, parts).await?;
    hooks::message::follow_prompt(cx, state)?;
    Ok(Started::Prompt)
}

/// Fills the arguments into a command's text; returns its pieces, and the files and agents that it mentions.
async fn expand(
    cx: &TurnCx<'_>,
    command: &Command,
    text: &str,
    arguments: &str,
    others: &[PromptPart],
    policy: &Policy,
) -> (Vec<template::Piece>, Vec<PromptPart>) {
    match &command.body {
        // A skill is read, not carried out: its author is not the author of the project's commands.
        Body::Skill(skill) if skill.location.is_some() => {
            (template::expand_words(text, arguments), Vec::new())
        }
        // The built-in one explains places.
        Body::Skill(_) => (template::append_words(text, arguments), Vec::new()),
        // Another's words are neither evaluated nor looked through for files.
        Body::ServerPrompt(_) => (template::append_words(text, ""), Vec::new()),
        Body::Template(_) | Body::Compact | Body::Builtin(_) => {
            let pieces = template::expand(text, arguments);
            let mut mentioned = mentioned_files(cx, &pieces, policy).await;
            mentioned.extend(mentioned_agents(cx, text, others));
            (pieces, mentioned)
        }
    }
}

/// Adds the parts of a command to its message.
async fn attach_parts(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    message_id: &MessageId,
    parts: Vec<PromptPart>,
) -> Result<(), EngineError> {
    let mut journal = Journal::default();
    let n_stored = state.history.last().map_or(0, |message| message.parts.len());
    let known_files = state.known_files.clone();
    let instructions = LoadedInstructions::new(&cx.instructions, state.gathered().instructions);
    let words = attach::words(&parts);
    let read = KnownFiles::default();
    let kinds = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => words,
        kinds = attach::resolve(cx, &read, &instructions, message_id, parts) => {
            // A cancelled prompt shows the model none of them.
            known_files.take_in(&read);
            kinds
        }
    };
    for kind in kinds {
        state.push_part(kind, &mut journal);
    }
    hooks::message::change_prompt(cx, state, n_stored, &mut journal).await?;
    journal.known_files(&state.info, &known_files);
    cx.commit(&mut journal).await
}

/// Says why a command was not carried out.
async fn refuse(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    command: &Command,
    reason: &str,
) -> Result<Started, EngineError> {
    let text = format!("/{} was not carried out, and the model was not asked. {reason}", command.name);
    reply_locally(cx, state, text).await?;
    Ok(Started::Ended(StopReason::EndTurn))
}

/// Returns the messages of a server's prompt; `None` for other commands.
async fn of_server(
    cx: &TurnCx<'_>,
    command: &Command,
    arguments: &str,
) -> Option<Result<PromptAnswer, String>> {
    let Body::ServerPrompt(prompt) = &command.body else { return None };
    let answer = server_prompt::ask(&cx.servers(), prompt, arguments, &cx.cancel).await;
    Some(answer.map_err(|reason| format!("{reason}.")))
}

/// Returns a skill's text, with where its files are.
async fn skill_text(cx: &TurnCx<'_>, command: &Command) -> Result<String, EngineError> {
    let Body::Skill(skill) = &command.body else { return Ok(String::new()) };
    let (skill, project_files) = (skill.clone(), cx.loaded.config.project_files.clone());
    let read = tokio::task::spawn_blocking(move || {
        let body = skill.load(&project_files)?.body;
        Ok(match skill.directory() {
            Some(directory) => format!("{body}\n\nPaths in this text start from {}", directory.display()),
            None => body,
        })
    });
    let read = read.await.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?;
    read.map_err(|reason: String| EngineError::new(EngineErrorKind::InvalidInput, reason))
}

/// Returns the files that a command's text mentions by `@path`, as attachments. A mention of no file is text.
///
/// So is a file that the rules would ask for or deny: the model may read it by `read`, which asks.
async fn mentioned_files(cx: &TurnCx<'_>, pieces: &[template::Piece], policy: &Policy) -> Vec<PromptPart> {
    let texts = pieces.iter().filter_map(words_of);
    let config = &cx.loaded.config;
    let names = texts.flat_map(template::mentions).map(|name| match name.strip_prefix("~/") {
        Some(rest) => (name.to_owned(), vec![config.environment.home.join(rest)]),
        None => {
            let bases = [&config.directory, &config.worktree];
            (name.to_owned(), bases.map(|base| base.join(name)).to_vec())
        }
    });
    let names: Vec<_> = names.collect();
    let (roots, policy) = (Roots::new(config), policy.clone());
    blocking(move || {
        let files = names.into_iter().filter_map(|(name, paths)| {
            let (path, metadata) =
                paths.into_iter().find_map(|path| Some((path.clone(), path.metadata().ok()?)))?;
            if !read::is_free(&roots, &path, &policy, &[]) {
                return None;
            }
            let mime = if metadata.is_dir() {
                "application/x-directory"
            } else {
                mime::of_path(&name).unwrap_or("text/plain")
            };
            let url = reqwest::Url::from_file_path(&path).ok()?.to_string();
            Some(PromptPart::File(FilePart {
                mime: mime.to_owned(),
                filename: Some(name),
                url,
                source: None,
            }))
        });
        files.collect::<Vec<_>>()
    })
    .await
}

/// Returns the subagents that the template itself names by `@name`.
///
/// Those in the arguments are among the prompt's `others`: text that was piped in or printed names no subagent.
fn mentioned_agents(cx: &TurnCx<'_>, template: &str, others: &[PromptPart]) -> Vec<PromptPart> {
    let name = |part: &PromptPart| match part {
        PromptPart::Agent { name } => Some(name.clone()),
        PromptPart::Text { .. }
        | PromptPart::File(_)
        | PromptPart::Document { .. }
        | PromptPart::Subtask { .. } => None,
    };
    let known: Vec<String> = others.iter().filter_map(name).collect();
    let pieces = template::expand(template, "");
    let words: Vec<&str> = pieces.iter().filter_map(words_of).collect();
    let mut agents = cx.loaded.mentions(&words.join(" "));
    agents.retain(|part| name(part).is_some_and(|name| !known.contains(&name)));
    agents
}

fn words_of(piece: &template::Piece) -> Option<&str> {
    match piece {
        template::Piece::Text(text) => Some(text),
        template::Piece::Shell(_) | template::Piece::Unfillable(_) => None,
    }
}

/// Returns true for a part that the model can read something in.
fn says_something(part: &PromptPart) -> bool {
    match part {
        PromptPart::Text { text, .. } | PromptPart::Subtask { prompt: text, .. } => !text.trim().is_empty(),
        PromptPart::File(_) | PromptPart::Document { .. } => true,
        PromptPart::Agent { .. } => false,
    }
}

/// Returns the work that a command gives to a subagent.
fn subtask(cx: &TurnCx<'_>, command: &Command, prompt: String) -> Result<PromptPart, EngineError> {
    let agent = command.agent.clone().unwrap_or_else(|| cx.agent.name.clone());
    let of_variant = command.variant.as_ref().map(|variant| {
        let own = cx.loaded.agent(&agent).and_then(|agent| agent.model.clone());
        ModelRef { variant: Some(variant.clone()), ..own.unwrap_or_else(|| cx.model.reference()) }
    });
    let model = named_model(&cx.loaded, command)?.or(of_variant);
    let description =
        if command.description.is_empty() { command.name.clone() } else { command.description.clone() };
    Ok(PromptPart::Subtask { prompt, description, agent, model })
}

/// Gives the command to a subagent; the model goes on from its answer.
async fn begin_subtask(
    cx: &mut TurnCx<'_>,
    state: &mut SessionState,
    command: &Command,
    task: PromptPart,
    attachments: Vec<PromptPart>,
) -> Result<Started, EngineError> {
    let mut journal = Journal::default();
    let n_stored = state.history.last().map_or(0, |message| message.parts.len());
    if let PromptPart::Subtask { prompt, description, agent, model } = task {
        let command = Some(command.name.clone());
        state.push_part(PartKind::Subtask { prompt, description, agent, model, command }, &mut journal);
    }
    hooks::message::change_prompt(cx, state, n_stored, &mut journal).await?;
    cx.commit(&mut journal).await?;
    hooks::message::follow_prompt(cx, state)?;

    match subtask_parts::run(cx, state, attachments).await? {
        Some(stop) => Ok(Started::Ended(stop)),
        None => Ok(Started::Prompt),
    }
}
