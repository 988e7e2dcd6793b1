//! Routes that make a session work: prompts, commands, shell lines, summaries, and the end of it all.

use axum::{extract::State, http::StatusCode};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Map;
use tokio::sync::oneshot;
use windlass_base::{clock, ids};
use windlass_engine::{
    Delivery, EngineError, Invocation, Loaded, PromptInput, PromptPart, SessionPatch, TurnOutcome,
};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{MessageId, PartId, SessionId},
    inbox::InboxDelivery,
    message::{Message, MessageError, MessageWithParts, OutputFormat, UserMessage},
    model_ref::ModelRef,
    part::FilePart,
    session::SessionModel,
    time::CreatedTime,
};

use super::{
    body::{self, Answer, Id, Payload},
    by::{By, forbidden},
    error::{Failure, Piece},
    routes::{Routes, post},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/session/{id}/message", post(prompt))
        .route("/session/{id}/prompt_async", post(prompt_async))
        .route("/session/{id}/command", post(command))
        .route("/session/{id}/shell", post(shell))
        .route("/session/{id}/summarize", post(summarize))
        .route("/session/{id}/init", post(init))
        .route("/session/{id}/abort", post(abort))
}

/// A prompt.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PromptBody {
    parts: Vec<PartInput>,
    #[serde(rename = "messageID", default, deserialize_with = "body::message_id")]
    message_id: Option<MessageId>,
    model: Option<ModelRef>,
    agent: Option<String>,
    variant: Option<String>,
    #[serde(default)]
    no_reply: bool,
    system: Option<String>,
    #[serde(default, deserialize_with = "in_order")]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, bool>"))]
    tools: Vec<(String, bool)>,
    format: Option<OutputFormat>,
    /// Ours: the time at which a session that works reads it.
    delivery: Option<InboxDelivery>,
}

/// Reads an object in its order, in which the last rule decides.
fn in_order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, bool)>, D::Error> {
    let tools = Map::deserialize(deserializer)?.into_iter();
    let tools = tools.map(|(tool, is_on)| match is_on.as_bool() {
        Some(is_on) => Ok((tool, is_on)),
        None => Err(D::Error::custom(format!("expected true or false for the tool {tool}, got {is_on}"))),
    });
    tools.collect()
}

impl PromptBody {
    /// Returns a prompt of these parts, answered as the session's last one.
    pub fn of_parts(parts: Vec<PartInput>, message_id: MessageId) -> Self {
        Self {
            parts,
            message_id: Some(message_id),
            model: None,
            agent: None,
            variant: None,
            no_reply: false,
            system: None,
            tools: Vec::new(),
            format: None,
            delivery: None,
        }
    }
}

/// A piece of a prompt, as a client sends it.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PartInput {
    Text {
        id: Option<PartId>,
        text: String,
        #[serde(default)]
        synthetic: bool,
        #[serde(default)]
        ignored: bool,
    },
    File {
        id: Option<PartId>,
        #[serde(flatten)]
        file: FilePart,
    },
    Agent {
        id: Option<PartId>,
        name: String,
    },
    Subtask {
        id: Option<PartId>,
        prompt: String,
        description: String,
        agent: String,
        model: Option<ModelRef>,
    },
}

impl PartInput {
    fn split(self) -> (Option<PartId>, PromptPart) {
        match self {
            Self::Text { id, text, synthetic, ignored } => {
                (id, PromptPart::Text { text, is_synthetic: synthetic, is_ignored: ignored })
            }
            Self::File { id, file } => (id, PromptPart::File(file)),
            Self::Agent { id, name } => (id, PromptPart::Agent { name }),
            Self::Subtask { id, prompt, description, agent, model } => {
                (id, PromptPart::Subtask { prompt, description, agent, model })
            }
        }
    }
}

/// Answers with the last message of the turn, once that is over. The turn outlives its client.
async fn prompt(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<SessionId>,
    Payload(body): Payload<PromptBody>,
) -> Result<Answer<MessageWithParts>, Failure> {
    if let Some(message_id) = &body.message_id
        && is_repeated(&server, &id, message_id).await?
    {
        return answer_again(&server, &id, message_id).await;
    }
    let mut input = accepted(&server, &id, body.given_by(&by, &id)).await?;
    if input.no_reply && server.engine.sessions().is_working(&id) {
        // The turn that runs takes it in at its next step, and may wait for the caller: a hook or a tool.
        let noted = noted(&server, &id, &mut input).await?;
        server.engine.sessions().prompt_until_stored(&id, input).await?;
        return Ok(Answer(noted));
    }
    answer(&server, &id, run(&server, &id, input)).await
}

/// Returns true if a prompt came before, by the id that its client gave to it: one that is sent again is carried out once.
pub async fn is_repeated(server: &Shared, id: &SessionId, message_id: &MessageId) -> Result<bool, Failure> {
    server.open(id).await?;
    let sessions = server.engine.sessions();
    Ok(sessions.is_under_way(id, message_id) || sessions.message_of_prompt(id, message_id).await?.is_some())
}

/// Answers a prompt that came before with the last message of its turn, once that is over.
async fn answer_again(
    server: &Shared,
    id: &SessionId,
    message_id: &MessageId,
) -> Result<Answer<MessageWithParts>, Failure> {
    let sessions = server.engine.sessions();
    if let Some(ended) = sessions.end_of_prompt(id, message_id) {
        // It fails when the prompt is answered.
        let _ = ended.await;
    }
    let gone = || Failure::not_found("The prompt of this messageID was withdrawn or taken back.");
    let prompt = sessions.message_of_prompt(id, message_id).await?.ok_or_else(gone)?;
    let answers = |message: &&MessageWithParts| match &message.info {
        Message::Assistant(answer) => answer.parent_id == prompt,
        Message::User(_) => false,
    };
    let messages = sessions.last_messages(id, None, None).await?;
    let answer = messages.iter().rfind(answers);
    // A prompt that is only kept has none.
    let told = answer.or_else(|| messages.iter().find(|message| *message.info.id() == prompt));
    told.cloned().map(Answer).ok_or_else(gone)
}

/// Returns a message as it will be stored, without its parts.
async fn noted(
    server: &Shared,
    id: &SessionId,
    input: &mut PromptInput,
) -> Result<MessageWithParts, Failure> {
    let session = server.session(id).await?;
    let model = input.model.clone().or(session.model.map(reference));
    let none = || ModelRef { provider_id: String::new(), model_id: String::new(), variant: None };
    let info = UserMessage {
        id: input.message_id.get_or_insert_with(ids::message).clone(),
        session_id: id.clone(),
        time: CreatedTime { created: clock::now_ms() },
        agent: input.agent.clone().or(session.agent).unwrap_or_default(),
        model: model.unwrap_or_else(none),
        system: input.system.clone(),
        format: None,
        summary: None,
    };
    Ok(MessageWithParts { info: Message::User(info), parts: Vec::new() })
}

/// Answers at once; a later failure is an event.
async fn prompt_async(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<SessionId>,
    Payload(body): Payload<PromptBody>,
) -> Result<StatusCode, Failure> {
    if let Some(message_id) = &body.message_id
        && is_repeated(&server, &id, message_id).await?
    {
        return Ok(StatusCode::NO_CONTENT);
    }
    let input = accepted(&server, &id, body.given_by(&by, &id)).await?;
    server.engine.sessions().prompt_until_stored(&id, input).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl PromptBody {
    /// Leaves out the tools that somebody else than the session's owner allows: they would be asked about no more.
    fn given_by(mut self, by: &By, id: &SessionId) -> Self {
        self.tools.retain(|(_, is_allowed)| !*is_allowed || by.owns(id));
        self
    }
}

/// Opens the session and turns a prompt into the engine's types; refuses one that cannot be answered.
pub async fn accepted(server: &Shared, id: &SessionId, body: PromptBody) -> Result<PromptInput, Failure> {
    let loaded = server.open(id).await?.loaded();
    let PromptBody { parts, message_id, model, agent, variant, no_reply, system, tools, format, delivery } =
        body;
    let (part_ids, parts): (Vec<_>, Vec<_>) = parts.into_iter().map(PartInput::split).unzip();
    let ids: Vec<PartId> = part_ids.iter().flatten().cloned().collect();
    require_free(server, message_id.as_ref(), &ids).await?;
    let (agent, model) = choose(server, id, &loaded, agent, model, variant).await?;
    // OpenCode makes them into rules of the session as well.
    server.engine.sessions().patch(id, SessionPatch { tools, ..SessionPatch::default() }).await?;
    Ok(PromptInput {
        parts,
        part_ids,
        message_id,
        agent,
        model,
        system,
        format,
        no_reply,
        delivery: delivery.map(Delivery::from).unwrap_or_default(),
        ..PromptInput::default()
    })
}

/// Checks the agent and model that are to answer: the named ones, else the session's last ones if they are still there.
async fn choose(
    server: &Shared,
    id: &SessionId,
    loaded: &Loaded,
    agent: Option<String>,
    model: Option<ModelRef>,
    variant: Option<String>,
) -> Result<(Option<String>, Option<ModelRef>), Failure> {
    let session = server.session(id).await?;
    let chosen = match &agent {
        Some(name) => loaded.checked_agent(name)?,
        None => {
            let last = session.agent.as_deref().and_then(|name| loaded.agent(name));
            last.unwrap_or_else(|| loaded.default_agent())
        }
    };
    let last = session.model.filter(|_| chosen.model.is_none()).map(reference);
    // A model that cannot be had any more must not keep the session from going on.
    let last = last.filter(|last| loaded.checked_model(last).is_ok() && !loaded.is_demo(last));
    let model = model.or(last);
    let usable = loaded.answering(chosen, model.as_ref()).map_err(EngineError::from)?;
    let model = match variant {
        Some(variant) => Some(ModelRef { variant: Some(variant), ..usable.reference() }),
        None => model,
    };
    Ok((agent, model))
}

fn reference(model: SessionModel) -> ModelRef {
    ModelRef { provider_id: model.provider_id, model_id: model.id, variant: model.variant }
}

/// Refuses the ids of messages and parts that exist.
async fn require_free(server: &Shared, message: Option<&MessageId>, parts: &[PartId]) -> Result<(), Failure> {
    if server.engine.sessions().is_taken(message, parts).await? {
        let message = "A message or part has this id already; leave out messageID and the parts' ids.";
        return Err(Failure::bad_request(Piece::Payload, message));
    }
    Ok(())
}

/// End of a turn on its way to the request that asked for it.
pub type Ended = oneshot::Receiver<Result<TurnOutcome, EngineError>>;

/// Gives a prompt to its session. It is answered whether its client waits for that or not.
pub fn run(server: &Shared, id: &SessionId, input: PromptInput) -> Ended {
    let (sender, ended) = oneshot::channel();
    let on_end = move |result: Result<TurnOutcome, EngineError>| {
        // The turn's events carry the result that its client does not wait for.
        let _ = sender.send(result);
    };
    server.engine.sessions().prompt(id, input, Box::new(on_end));
    ended
}

/// Waits for the end of a turn and returns its last message.
async fn answer(server: &Shared, id: &SessionId, ended: Ended) -> Result<Answer<MessageWithParts>, Failure> {
    let ended = ended.await.map_err(|_| Failure::unknown("The server ended before the turn did."))?;
    let (named, error) = match ended {
        Ok(TurnOutcome { is_repeat: true, message_id: Some(given), .. }) => {
            return answer_again(server, id, &given).await;
        }
        Ok(outcome) => (outcome.message_id, None),
        Err(error) => (None, Some(error)),
    };
    let message = match named {
        Some(message_id) => server.engine.sessions().message(id, &message_id).await?,
        None => server.engine.sessions().last_messages(id, None, Some(1)).await?.pop(),
    };
    match (message, error) {
        (Some(message), Some(error)) if !is_failed(&message) => Err(error.into()),
        (Some(message), _) => Ok(Answer(message)),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(Failure::not_found("The turn left no message.")),
    }
}

/// Returns true for an answer that says itself why it failed.
fn is_failed(message: &MessageWithParts) -> bool {
    match &message.info {
        Message::Assistant(answer) => answer.error.is_some(),
        Message::User(_) => false,
    }
}

/// A command to run.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CommandBody {
    command: String,
    arguments: String,
    agent: Option<String>,
    /// `provider/model`.
    model: Option<String>,
    variant: Option<String>,
    #[serde(rename = "messageID", default, deserialize_with = "body::message_id")]
    message_id: Option<MessageId>,
    #[serde(default)]
    parts: Vec<PartInput>,
}

async fn command(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<SessionId>,
    Payload(body): Payload<CommandBody>,
) -> Result<Answer<MessageWithParts>, Failure> {
    let CommandBody { command, arguments, agent, model, variant, message_id, parts } = body;
    match command.as_str() {
        "undo" | "redo" if !by.owns(&id) => {
            return Err(forbidden("Only the owner of a session takes its changes back."));
        }
        "share" | "unshare" if !by.owns(&id) => {
            return Err(forbidden("Only the owner of a session shares it."));
        }
        "mcp" if !arguments.trim().is_empty() && !by.administers() => {
            return Err(forbidden("Administrators alone switch the servers of a directory."));
        }
        _other => {}
    }
    let workspace = server.open(&id).await?;
    let loaded = workspace.loaded();
    let is_own = loaded.commands.contains_key(&command);
    let of_servers = if is_own { Vec::new() } else { workspace.server_commands().await };
    if !is_own && !of_servers.iter().any(|it| it.name == command) {
        let names = loaded.commands.keys().chain(of_servers.iter().map(|it| &it.name));
        let names: Vec<&str> = names.map(String::as_str).collect();
        let message = format!("Command not found: \"{command}\". Available commands: {}", names.join(", "));
        return Err(Failure::bad_request(Piece::Payload, message));
    }
    if let Some(message_id) = &message_id
        && is_repeated(&server, &id, message_id).await?
    {
        return answer_again(&server, &id, message_id).await;
    }
    require_free(&server, message_id.as_ref(), &[]).await?;
    let model = model.as_deref().map(parse_model).transpose()?;
    let (agent, model) = choose(&server, &id, &loaded, agent, model, variant).await?;
    let mut input = PromptInput {
        invocation: Invocation::Named(command.clone()),
        agent,
        model,
        message_id,
        ..PromptInput::default()
    };
    input.parts = parts.into_iter().map(|part| part.split().1).collect();
    input.parts.push(PromptPart::Text { text: arguments.clone(), is_synthetic: false, is_ignored: false });
    let answered = answer(&server, &id, run(&server, &id, input)).await?;
    let message_id = answered.0.info.id().clone();
    server.engine.bus().publish(EventPayload::CommandExecuted {
        name: command,
        session_id: id,
        arguments,
        message_id,
    });
    Ok(answered)
}

fn parse_model(text: &str) -> Result<ModelRef, Failure> {
    ModelRef::parse(text).ok_or_else(|| {
        let message = format!("Expected \"provider/model\", got {text:?}\n  at [\"model\"]");
        Failure::bad_request(Piece::Payload, message)
    })
}

/// A shell line to run.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShellBody {
    agent: Option<String>,
    command: String,
    model: Option<ModelRef>,
    #[serde(rename = "messageID", default, deserialize_with = "body::message_id")]
    message_id: Option<MessageId>,
}

async fn shell(
    State(server): State<Shared>,
    Id(id): Id<SessionId>,
    Payload(body): Payload<ShellBody>,
) -> Result<Answer<MessageWithParts>, Failure> {
    let ShellBody { agent, command, model, message_id } = body;
    let loaded = server.open(&id).await?.loaded();
    server.require_idle(&id)?;
    require_free(&server, message_id.as_ref(), &[]).await?;
    if let Some(agent) = &agent {
        loaded.checked_agent(agent)?;
    }
    let text = PromptPart::Text { text: command, is_synthetic: false, is_ignored: false };
    let invocation = Invocation::Shell;
    let input =
        PromptInput { parts: vec![text], agent, model, message_id, invocation, ..PromptInput::default() };
    answer(&server, &id, run(&server, &id, input)).await
}

/// The model that is to summarise.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SummarizeBody {
    #[serde(rename = "providerID")]
    provider_id: String,
    #[serde(rename = "modelID")]
    model_id: String,
}

async fn summarize(
    State(server): State<Shared>,
    Id(id): Id<SessionId>,
    Payload(body): Payload<SummarizeBody>,
) -> Result<Answer<bool>, Failure> {
    run_command(&server, &id, "compact", body).await
}

async fn init(
    State(server): State<Shared>,
    Id(id): Id<SessionId>,
    Payload(body): Payload<SummarizeBody>,
) -> Result<Answer<bool>, Failure> {
    run_command(&server, &id, "init", body).await
}

async fn run_command(
    server: &Shared,
    id: &SessionId,
    name: &str,
    body: SummarizeBody,
) -> Result<Answer<bool>, Failure> {
    let loaded = server.open(id).await?.loaded();
    let model = ModelRef { provider_id: body.provider_id, model_id: body.model_id, variant: None };
    let (agent, model) = choose(server, id, &loaded, None, Some(model), None).await?;
    let invocation = Invocation::Named(name.to_owned());
    let input = PromptInput { invocation, agent, model, ..PromptInput::default() };
    let answered = answer(server, id, run(server, id, input)).await?;
    match answered.0.info {
        Message::Assistant(message) => match message.error {
            Some(error) => Err(Failure::unknown(reason(&error))),
            None => Ok(Answer(true)),
        },
        Message::User(_) => Ok(Answer(true)),
    }
}

/// Returns why an answer failed.
fn reason(error: &MessageError) -> String {
    let written = serde_json::to_value(error).unwrap_or_default();
    written["data"]["message"].as_str().or(written["name"].as_str()).unwrap_or_default().to_owned()
}

async fn abort(State(server): State<Shared>, Id(id): Id<SessionId>) -> Result<Answer<bool>, Failure> {
    server.session(&id).await?;
    server.engine.sessions().cancel(&id);
    Ok(Answer(true))
}
