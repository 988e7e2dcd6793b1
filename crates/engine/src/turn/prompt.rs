//! Puts a request to a model together from the session's history. Pure: no clock, no files, no network.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use serde_json::{Map, Value};
use windlass_base::{clock, mime};
use windlass_core::{
    config::Config,
    library::{self, Agent, InstructionBlock},
    storage::client_prompt::ClientPrompt,
};
use windlass_protocol::opencode::{
    id::MessageId,
    message::{AssistantMessage, Message, MessageError, MessageWithParts},
    part::{FilePart, Part, PartKind, ReasoningPart, ToolPart, ToolState},
};
use windlass_provider::{
    self as provider, AssistantContent, Media, Model, Prompt, PromptIds, PromptMessage, ToolResult, ToolSpec,
    UserContent,
};

use super::{
    media,
    model_request::{Draft, Params, request},
    toolbox::Toolbox,
};
use crate::{
    mention,
    session::{
        context::TurnCx,
        encoded_history::EncodedHistoryCache,
        older_messages::Gathered,
        revert,
        state::{SessionState, TOOL_ABORTED, TOOL_INTERRUPTED, TOOL_LOST},
        structured, summary,
    },
    workspace::loaded::Loaded,
};

const DEFAULT: &str = include_str!("prompt/default.txt");
const CLAUDE: &str = include_str!("prompt/claude.txt");
const GPT: &str = include_str!("prompt/gpt.txt");
const GEMINI: &str = include_str!("prompt/gemini.txt");
const LAST_STEP: &str = include_str!("prompt/last_step.txt");
/// Default where the user sets nothing (facts: OpenCode §6.3).
const MAX_OUTPUT: u64 = 32_000;

/// Ingredients of a prompt.
struct Inputs<'a> {
    loaded: &'a Loaded,
    agent: &'a Agent,
    model: &'a Model,
    variant: Option<&'a str>,
    instructions: &'a [InstructionBlock],
    /// Description of the skills that the model may load; empty when there are none.
    skills: &'a str,
    /// Instructions of MCP servers; empty when there are none.
    server_instructions: &'a str,
    state: &'a SessionState,
    tools: Vec<ToolSpec<'a>>,
    /// No step follows: the model sums up without tools.
    is_last: bool,
    /// The answer is to be given by a tool.
    is_structured: bool,
    client_prompt: Option<Arc<ClientPrompt>>,
}

/// Tokens that an answer may have when the model's own limit is larger or not known.
pub fn max_output(config: &Config) -> u64 {
    let named = config.environment.get("OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX");
    named.and_then(|number| number.parse().ok()).filter(|number| *number > 0).unwrap_or(MAX_OUTPUT)
}

/// Returns the request for the next step of a turn.
pub fn of_step<'a>(
    cx: &'a TurnCx<'_>,
    state: &'a SessionState,
    toolbox: &'a Toolbox,
    is_last: bool,
) -> Prompt<'a> {
    assemble(&Inputs {
        loaded: &cx.loaded,
        agent: &cx.agent,
        model: &cx.model,
        variant: cx.variant.as_deref(),
        instructions: &cx.instructions,
        skills: toolbox.skills(),
        server_instructions: toolbox.server_instructions(),
        state,
        tools: toolbox.specs(),
        is_last,
        is_structured: cx.structured.is_some(),
        client_prompt: cx.session.engine.sessions().client_prompt(&cx.session.id),
    })
}

fn assemble<'a>(inputs: &Inputs<'a>) -> Prompt<'a> {
    let options = options(inputs.agent, inputs.model, inputs.variant);
    let gathered = inputs.state.gathered();
    let mut messages = history(inputs, &options, &gathered);
    remind(inputs, &gathered, &mut messages);
    let mut tools = if inputs.model.takes_tools { inputs.tools.clone() } else { Vec::new() };
    if inputs.is_last {
        tools.retain(|tool| inputs.is_structured && tool.name == structured::NAME);
    }
    let draft = Draft {
        persona: match (&inputs.client_prompt, &inputs.agent.prompt) {
            (Some(client), _) if client.is_override => Cow::Owned(client.text.clone()),
            (_, Some(prompt)) => Cow::Borrowed(prompt.as_ref()),
            (_, None) => Cow::Borrowed(family(&inputs.model.api_id)),
        },
        situation: situation(inputs),
        messages,
        tools,
        params: params(inputs.agent, inputs.model, &inputs.loaded.config, options),
        cache_key: Some(inputs.state.info.id.as_str()),
        ids: ids(inputs.state),
    };
    request(inputs.model, draft)
}

fn ids(state: &SessionState) -> PromptIds<'_> {
    let mut messages = state.history.iter().rev();
    PromptIds {
        session: Some(state.info.id.as_str()),
        parent_session: state.info.parent_id.as_ref().map(|id| id.as_str()),
        project: Some(&state.info.project_id),
        message: messages.find_map(|message| match &message.info {
            Message::User(user) => Some(user.id.as_str()),
            Message::Assistant(_) => None,
        }),
        is_agents: state.info.parent_id.is_some(),
    }
}

/// Returns the parameters that an agent wishes for. An answer is bounded only where the model's own limit is known.
pub fn params(agent: &Agent, model: &Model, config: &Config, options: Map<String, Value>) -> Params {
    Params {
        temperature: agent.temperature,
        top_p: agent.top_p,
        max_output_tokens: (model.limit.output > 0).then(|| max_output(config)),
        options,
    }
}

/// Returns the options that are laid over the model's own options: the agent's, then the variant's.
fn options(agent: &Agent, model: &Model, variant: Option<&str>) -> Map<String, Value> {
    let mut options = agent.options.clone();
    let variant = variant.and_then(|variant| model.variant(variant)).into_iter().flatten();
    options.extend(variant.map(|(key, value)| (key.clone(), value.clone())));
    options
}

/// Returns the texts of the system prompt that depend on the session: its environment, instructions, those of
/// MCP servers, skills, and the user's own text.
fn situation(inputs: &Inputs<'_>) -> String {
    let mut situation = environment(inputs);
    let user_system = inputs.state.history.iter().rev().find_map(|message| match &message.info {
        Message::User(user) => Some(user.system.as_deref()),
        Message::Assistant(_) => None,
    });
    let listed = [inputs.server_instructions, inputs.skills].into_iter().filter(|text| !text.is_empty());
    let instructions = inputs.instructions.iter().map(|block| &*block.text);
    let structured = inputs.is_structured.then_some(structured::NOTICE.trim_end());
    let client = inputs.client_prompt.as_ref().filter(|client| !client.is_override);
    let client = client.map(|client| client.text.as_str());
    for text in instructions.chain(listed).chain(structured).chain(client).chain(user_system.flatten()) {
        situation.push_str("\n\n");
        situation.push_str(text);
    }
    situation
}

/// Returns the prompt for a model with an agent that has none of its own, by a piece of the model's id.
fn family(model_id: &str) -> &'static str {
    let id = model_id.to_ascii_lowercase();
    if id.contains("claude") {
        CLAUDE
    } else if id.contains("gpt") || id.contains("codex") || id.contains("o1") || id.contains("o3") {
        GPT
    } else if id.contains("gemini") {
        GEMINI
    } else {
        DEFAULT
    }
}

fn environment(inputs: &Inputs<'_>) -> String {
    let config = &inputs.loaded.config;
    let is_git = config.worktree != std::path::Path::new("/");
    // The prompt's day, not the step's: within a turn the text stays the same and the provider's cache holds.
    let asked = inputs.state.history.iter().rev().find_map(|message| match &message.info {
        Message::User(user) => Some(user.time.created),
        Message::Assistant(_) => None,
    });
    let day = clock::day(asked.unwrap_or(inputs.state.info.time.created));
    format!(
        "You are powered by the model named {}. The exact model ID is {}/{}\n\
         Here is what is known of the environment you work in:\n\
         <env>\n  Working directory: {}\n  Workspace root folder: {}\n  Is directory a git repo: {}\n  \
         Platform: {}\n  Today's date: {day}\n</env>",
        inputs.model.name,
        inputs.model.provider_id,
        inputs.model.id,
        config.directory.display(),
        config.worktree.display(),
        if is_git { "yes" } else { "no" },
        std::env::consts::OS,
    )
}

/// Encodes the messages that all later requests send again.
///
/// The newest answer is left for the next time, because wires mark the end of a conversation, and so is the newest
/// prompt, which may get reminders. A message with media stays as it is: wires number them and say that they are there.
pub fn keep(agent: &Agent, model: &Model, variant: Option<&str>, state: &mut SessionState) {
    let options = options(agent, model, variant);
    let SessionState { history, encoded: cache, older, .. } = state;
    older.advance(history);
    let visible = summary::visible_indices(history, &older.gathered(history).summaries);
    cache.begin(model, &options, history.generation(), first(history, &visible));
    let is_prompt = |idx: &usize| {
        let message = &history[*idx];
        matches!(message.info, Message::User(_)) && !user_content(model, &message.parts).is_empty()
    };
    let newest_prompt = visible.iter().rposition(is_prompt);
    let is_sent = |idx: &usize| match &history[*idx].info {
        Message::Assistant(answer) => is_usable(answer, &history[*idx].parts),
        Message::User(_) => false,
    };
    let newest_answer = visible.iter().rposition(is_sent);
    let is_left = |place| Some(place) == newest_prompt || newest_answer.is_none_or(|newest| place >= newest);
    for (_, idx) in visible.iter().enumerate().rev().filter(|(place, _)| !is_left(*place)) {
        if cache.get(*idx).is_some() {
            return;
        }
        let message = &history[*idx];
        let mut messages = Vec::new();
        match &message.info {
            Message::User(_) => push_user(model, &message.parts, &mut messages),
            Message::Assistant(answer) if is_usable(answer, &message.parts) => {
                push_answer(model, answer, &message.parts, &mut messages);
            }
            Message::Assistant(_) => {}
        }
        if !messages.iter().any(has_media) {
            let Some(encoded) = provider::encoded(model, &options, &messages) else { return };
            cache.insert(*idx, encoded);
        }
    }
}

/// Returns the first of the messages that the model reads.
fn first<'a>(history: &'a [MessageWithParts], visible: &[usize]) -> Option<&'a MessageId> {
    visible.first().map(|idx| history[*idx].info.id())
}

fn has_media(message: &PromptMessage<'_>) -> bool {
    match message {
        PromptMessage::User(contents) => contents.iter().any(|it| matches!(it, UserContent::Media(_))),
        PromptMessage::ToolResults(results) => results.iter().any(|result| !result.media.is_empty()),
        PromptMessage::Assistant(_) | PromptMessage::Encoded(_) => false,
    }
}

fn history<'a>(
    inputs: &Inputs<'a>,
    options: &Map<String, Value>,
    gathered: &Gathered,
) -> Vec<PromptMessage<'a>> {
    let history = &inputs.state.history;
    let visible = summary::visible_indices(history, &gathered.summaries);
    let is_for = |encoded: &&EncodedHistoryCache| {
        encoded.is_for(inputs.model, options, history.generation(), first(history, &visible))
    };
    let cached = Some(&inputs.state.encoded).filter(is_for);
    let mut messages = Vec::with_capacity(visible.len());
    for idx in visible {
        if !gathered.refused.is_empty() && gathered.refused.contains(prompt(&history[idx])) {
            continue;
        }
        if let Some(encoded) = cached.and_then(|cached| cached.get(idx)) {
            if !encoded.is_empty() {
                messages.push(PromptMessage::Encoded(encoded));
            }
            continue;
        }
        let message = &history[idx];
        match &message.info {
            Message::User(_) => push_user(inputs.model, &message.parts, &mut messages),
            Message::Assistant(answer) if is_usable(answer, &message.parts) => {
                push_answer(inputs.model, answer, &message.parts, &mut messages);
            }
            Message::Assistant(_) => {}
        }
    }
    messages
}

/// Returns the prompt that a message is, or answers.
fn prompt(message: &MessageWithParts) -> &MessageId {
    match &message.info {
        Message::User(user) => &user.id,
        Message::Assistant(answer) => &answer.parent_id,
    }
}

/// Returns true if an answer is sent: a failed one is left out, a cancelled one stays when it said or did something.
fn is_usable(answer: &AssistantMessage, parts: &[Part]) -> bool {
    match &answer.error {
        None => true,
        Some(MessageError::MessageAbortedError { .. }) => parts.iter().any(|part| {
            let has_text = matches!(&part.kind, PartKind::Text(text) if !text.text.is_empty());
            has_text || matches!(part.kind, PartKind::Tool(_))
        }),
        Some(_) => false,
    }
}

fn push_user<'a>(model: &Model, parts: &'a [Part], messages: &mut Vec<PromptMessage<'a>>) {
    let content = user_content(model, parts);
    if !content.is_empty() {
        messages.push(PromptMessage::User(content));
    }
}

fn user_content<'a>(model: &Model, parts: &'a [Part]) -> Vec<UserContent<'a>> {
    let mut content = Vec::new();
    for part in parts {
        match &part.kind {
            PartKind::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
                content.push(UserContent::Text(Cow::Borrowed(&text.text)));
            }
            PartKind::File(file) => content.extend(media_content(model, file)),
            PartKind::Compaction { .. } => content.push(UserContent::Text("What did we do so far?".into())),
            PartKind::Subtask { .. } => {
                content.push(UserContent::Text("The following tool was executed by the user".into()));
            }
            // The other parts are not words.
            PartKind::Text(_)
            | PartKind::Reasoning(_)
            | PartKind::Tool(_)
            | PartKind::StepStart { .. }
            | PartKind::StepFinish { .. }
            | PartKind::Snapshot { .. }
            | PartKind::Patch { .. }
            | PartKind::Agent { .. }
            | PartKind::Retry { .. } => {}
        }
    }
    content
}

fn media_content<'a>(model: &Model, file: &'a FilePart) -> Option<UserContent<'a>> {
    // It was read into parts of its own.
    if mention::resource(file).is_some() {
        return None;
    }
    let Some(media) = media(file) else {
        if is_mistaken(file) {
            return Some(UserContent::Text(media::mistaken(file).trim().to_owned().into()));
        }
        let is_by_url = file.url.starts_with("http://") || file.url.starts_with("https://");
        let name = file.filename.as_deref().unwrap_or(&file.url);
        let text = format!("ERROR: Cannot read {name} (it is given by URL, not as data). Inform the user.");
        return is_by_url.then_some(UserContent::Text(Cow::Owned(text)));
    };
    let Some(kind) = untaken(model, &media) else { return Some(UserContent::Media(media)) };
    let name = file.filename.as_deref().unwrap_or("the attachment");
    Some(UserContent::Text(Cow::Owned(format!(
        "ERROR: Cannot read {name} (this model does not support {kind} input). Inform the user."
    ))))
}

/// Returns the kind of a file that a model does not take.
fn untaken(model: &Model, media: &Media<'_>) -> Option<&'static str> {
    match media.mime {
        "application/pdf" if model.takes_pdf => None,
        "application/pdf" => Some("pdf"),
        _ if model.takes_images => None,
        _ => Some("image"),
    }
}

/// Returns a note for the user about a file of the newest prompt that the model is only told of.
pub fn untaken_note(model: &Model, parts: &[Part]) -> Option<String> {
    let untaken = parts.iter().find_map(|part| match &part.kind {
        PartKind::File(file) if mention::resource(file).is_none() => {
            let kind = untaken(model, &media(file)?)?;
            Some((file.filename.as_deref().unwrap_or("the attachment"), kind))
        }
        _no_file => None,
    });
    let (name, kind) = untaken?;
    let reference = model.reference();
    Some(format!(
        "{reference} is not known to take {kind} input, so it is only told that {name} cannot be read. If it takes it, set \
         {}.",
        model.taking(kind)
    ))
}

/// Images and documents given as data; text files were read into text before.
///
/// Older histories hold some of a wrong type, which providers refuse.
fn media(file: &FilePart) -> Option<Media<'_>> {
    let base64 = media::data(file).filter(|_| mime::is_media(&file.mime))?;
    let mime = mime::of_base64(base64).or(base64.is_empty().then_some(&*file.mime))?;
    Some(Media { mime, filename: file.filename.as_deref(), base64 })
}

/// Returns true for data that was stored as a picture or document and is none.
fn is_mistaken(file: &FilePart) -> bool {
    mime::is_media(&file.mime) && media::data(file).is_some() && media(file).is_none()
}

fn push_answer<'a>(
    model: &Model,
    answer: &'a AssistantMessage,
    parts: &'a [Part],
    messages: &mut Vec<PromptMessage<'a>>,
) {
    let is_same_model = answer.provider_id == model.provider_id && answer.model_id == model.id;
    let mut content = Vec::new();
    let mut results = Vec::new();
    for part in parts {
        match &part.kind {
            PartKind::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
                content.push(AssistantContent::Text(Cow::Borrowed(&text.text)));
            }
            PartKind::Reasoning(reasoning) => content.extend(thought(reasoning, is_same_model)),
            PartKind::Tool(tool) => {
                content.push(AssistantContent::ToolCall {
                    call_id: &tool.call_id,
                    name: &tool.tool,
                    input: tool.state.input(),
                    signature: signature(tool.metadata.as_ref()).filter(|_| is_same_model),
                });
                results.push(tool_result(tool));
            }
            // The content before is of an attempt that broke off.
            PartKind::Retry { .. } => {
                content.clear();
                results.clear();
            }
            PartKind::Text(_)
            | PartKind::File(_)
            | PartKind::StepStart { .. }
            | PartKind::StepFinish { .. }
            | PartKind::Snapshot { .. }
            | PartKind::Patch { .. }
            | PartKind::Agent { .. }
            | PartKind::Subtask { .. }
            | PartKind::Compaction { .. } => {}
        }
    }
    if !content.is_empty() {
        messages.push(PromptMessage::Assistant(content));
    }
    if !results.is_empty() {
        messages.push(PromptMessage::ToolResults(results));
    }
}

/// Returns a thought as it goes back: signed to the model that had it, as plain text to any other.
fn thought(reasoning: &ReasoningPart, is_same_model: bool) -> Option<AssistantContent<'_>> {
    let signature = signature(reasoning.metadata.as_ref());
    match (is_same_model, reasoning.text.is_empty()) {
        (true, true) if signature.is_none() => None,
        (true, _) => Some(AssistantContent::Reasoning { text: Cow::Borrowed(&reasoning.text), signature }),
        (false, true) => None,
        (false, false) => Some(AssistantContent::Text(Cow::Borrowed(&reasoning.text))),
    }
}

fn signature(metadata: Option<&Map<String, Value>>) -> Option<&str> {
    metadata?.get("signature")?.as_str()
}

fn tool_result(tool: &ToolPart) -> ToolResult<'_> {
    let (output, is_error, media) = match &tool.state {
        ToolState::Completed { time, .. } if time.compacted.is_some() => {
            (Cow::Borrowed("[Old tool result content cleared]"), false, Vec::new())
        }
        ToolState::Completed { output, attachments, .. } => {
            let files = || attachments.iter().flatten().map(|attachment| &attachment.file);
            let notes: String = files().filter(|file| is_mistaken(file)).map(media::mistaken).collect();
            let output = if notes.is_empty() { output.into() } else { (output.clone() + &notes).into() };
            (output, false, files().filter_map(media).collect())
        }
        ToolState::Error { error, metadata, .. } => (interrupted(error, metadata.as_ref()), true, Vec::new()),
        ToolState::Pending { .. } | ToolState::Running { .. } => {
            (Cow::Borrowed(TOOL_INTERRUPTED), true, Vec::new())
        }
    };
    ToolResult { call_id: &tool.call_id, name: &tool.tool, output, is_error, media }
}

/// Returns a failed tool's error, with the partial output of an interrupted one.
fn interrupted<'a>(error: &'a str, metadata: Option<&serde_json::Map<String, Value>>) -> Cow<'a, str> {
    let partial = metadata.and_then(|it| it.get("output")).and_then(Value::as_str).unwrap_or_default();
    if [TOOL_ABORTED, TOOL_INTERRUPTED, TOOL_LOST].contains(&error) && !partial.is_empty() {
        Cow::Owned(format!("{partial}\n\n{error}"))
    } else {
        Cow::Borrowed(error)
    }
}

/// Adds the reminders of the moment: plan mode, its end, or that this is the last step.
fn remind(inputs: &Inputs<'_>, gathered: &Gathered, messages: &mut Vec<PromptMessage<'_>>) {
    let mut reminders: Vec<Cow<'_, str>> = Vec::new();
    if inputs.agent.name == "plan" {
        reminders.push(library::PLAN_REMINDER.into());
        if inputs.tools.iter().any(|tool| tool.name == "plan_exit") {
            let plan = library::plan_file(&inputs.loaded.config, &inputs.state.info);
            let plan = plan.display().to_string();
            reminders.push(library::PLAN_FILE_REMINDER.replace("{plan}", &plan).into());
        }
    } else if inputs.agent.name == "build" && was_planning(&inputs.state.history, &gathered.refused) {
        reminders.push(library::BUILD_REMINDER.into());
    }
    let last_user = messages.iter_mut().rev().find_map(|message| match message {
        PromptMessage::User(content) => Some(content),
        PromptMessage::Assistant(_) | PromptMessage::ToolResults(_) | PromptMessage::Encoded(_) => None,
    });
    if let Some(content) = last_user {
        content.extend(reminders.into_iter().map(UserContent::Text));
    }
    if inputs.is_last && !inputs.is_structured {
        messages.push(PromptMessage::User(vec![UserContent::Text(LAST_STEP.into())]));
    }
}

/// Returns true if the prompt before the last one was answered by `plan`.
fn was_planning(history: &[MessageWithParts], refused: &HashSet<MessageId>) -> bool {
    let mut agents = history.iter().rev().filter_map(|message| match &message.info {
        Message::User(user) if !refused.contains(&user.id) && revert::has_model_content(&message.parts) => {
            Some(user.agent.as_str())
        }
        Message::User(_) | Message::Assistant(_) => None,
    });
    agents.next().is_some() && agents.next() == Some("plan")
}

#[cfg(test)]
mod tests;
