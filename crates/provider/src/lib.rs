//! Language models: the request (`Prompt`), the answer (`Delta`) and the wires in between.

use std::{borrow::Cow, fmt, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Map, Value, value::RawValue};
use windlass_protocol::opencode::{
    config::{ModelCost, ModelLimit},
    model_ref::ModelRef,
};

pub mod anthropic;
pub mod auth;
pub mod aws;
pub mod bedrock;
pub mod catalog;
pub mod cost;
pub mod demo;
pub mod event_stream;
pub mod google;
pub mod http;
pub mod login;
pub mod openai_chat;
pub mod openai_responses;
pub mod plugin_options;
pub mod retry;
pub mod small;
pub mod unusable;

/// The protocol a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    OpenAiChat,
    OpenAiResponses,
    Anthropic,
    Google,
    /// Amazon Bedrock's Converse.
    Bedrock,
    /// The built-in demo: no network, no key.
    Demo,
}

impl Wire {
    /// Returns the name by which `windlass.wire` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Wire::OpenAiChat => "chat",
            Wire::OpenAiResponses => "responses",
            Wire::Anthropic => "anthropic",
            Wire::Google => "google",
            Wire::Bedrock => "bedrock",
            Wire::Demo => "demo",
        }
    }
}

/// A model with everything needed to ask it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub provider_id: String,
    pub provider_name: String,
    /// The id of the model in the configuration.
    pub id: String,
    /// The id that is sent to the provider.
    pub api_id: String,
    pub name: String,
    pub wire: Wire,
    /// The base URL without a trailing slash; the wire appends its path.
    pub base_url: String,
    /// True if only the project names the address.
    pub is_foreign: bool,
    pub api_key: Option<Secret>,
    /// True if the token of the provider's login is sent instead of a key.
    pub has_login: bool,
    /// The variable that may hold the key, for messages.
    pub key_variable: Option<Arc<str>>,
    /// The way to the token of a request, where neither the key nor the login is sent itself.
    pub exchange: Option<Exchange>,
    pub auth: Auth,
    /// The account that signs requests if there is no key.
    pub aws: Option<Arc<aws::Account>>,
    /// Peculiarities of the provider.
    pub quirks: Quirks,
    /// Extra request headers.
    pub headers: Vec<(String, String)>,
    /// The plugin that sends the requests in our place.
    pub fetch: Option<http::fetch::Fetch>,
    pub limit: ModelLimit,
    pub cost: ModelCost,
    pub takes_images: bool,
    pub takes_pdf: bool,
    pub takes_tools: bool,
    pub takes_temperature: bool,
    /// True for a model that thinks before it answers.
    pub reasons: bool,
    pub sampling: Sampling,
    /// Extra fields of the request body.
    pub options: Map<String, Value>,
    /// Named sets of extra fields, applied over the model's and the agent's options.
    pub variants: Vec<(String, Map<String, Value>)>,
    pub timeouts: Timeouts,
}

impl Model {
    /// Returns the extra fields of a variant; `None` if the model has none of that name.
    pub fn variant(&self, name: &str) -> Option<&Map<String, Value>> {
        self.variants.iter().find(|(variant, _)| variant == name).map(|(_, options)| options)
    }

    /// Returns true for the built-in demo.
    pub fn is_demo(&self) -> bool {
        self.wire == Wire::Demo
    }

    /// Returns true if the provider has a peculiarity.
    pub fn has(&self, quirk: Quirk) -> bool {
        self.quirks.has(quirk)
    }

    /// Returns the reference to the model.
    pub fn reference(&self) -> ModelRef {
        ModelRef { provider_id: self.provider_id.clone(), model_id: self.id.clone(), variant: None }
    }
}

/// The way in which a request carries its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// `authorization: Bearer <key>`.
    Bearer,
    /// The key alone in a header of this name.
    Header(&'static str),
    /// `<name>: Bearer <key>`.
    BearerIn(&'static str),
}

/// A way to a token for the models, which holds for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchange {
    /// An address of GitLab's that gives one for the key or login.
    Gitlab(String),
    /// Azure's program, which has one of Microsoft Entra's for this scope.
    Azure { program: PathBuf, scope: &'static str },
    /// Google's application default credentials: a file, or the server of the machine.
    Google { file: Option<PathBuf>, server: String },
}

/// A peculiarity of a provider (facts: provider requests §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// Refuses `stream_options`.
    NoStreamOptions,
    /// Reports token counts only if `usage` asks for them.
    AsksForUsage,
    /// Names the output limit `max_completion_tokens`.
    MaxCompletionTokens,
    /// Takes no output limit.
    NoOutputLimit,
    /// Routes by `prompt_cache_key`.
    CacheKey,
    /// Takes no `prompt_cache_key`, on the wire where it is the rule.
    NoCacheKey,
    /// Looks for `cache_control` on the parts of messages in the chat form, rather than on the messages.
    CacheControl,
    /// Takes `cache_control` for models that are not Anthropic's too.
    MarksAll,
    /// Takes contents as parts only, never empty (Venice).
    Parts,
    /// Takes no text beside a call.
    NullContent,
    /// Wants its thoughts back under `reasoning`.
    ReasoningField,
    /// Wants its thoughts back under `reasoning` and `reasoning_details`.
    ReasoningDetails,
    /// Wants `reasoning_content` on every answer, even if it is empty.
    EmptyReasoning,
    /// Takes no thoughts back.
    NoReasoning,
    /// Takes the effort as `reasoning: {effort}`.
    ReasoningObject,
    /// Wants the tool's name on its result.
    NamedResults,
    /// Takes call ids of nine letters and digits only, images as plain URLs, and no user message behind a result.
    Mistral,
    /// Calls the author of instructions `system` for reasoning models too.
    SystemRole,
    /// Calls the author of instructions `developer` in the chat form.
    DeveloperRole,
    /// Takes no summary of thoughts.
    NoSummary,
    /// Wants ids and states on the calls that go back.
    ItemIds,
    /// Takes nothing beside a reference in a schema.
    PlainReferences,
    /// Takes the system prompt as `instructions`.
    Instructions,
    /// Sends arguments while they are written if each tool asks for it.
    EagerInput,
    /// Serves Claude under Vertex's address, with the version in the body.
    Vertex,
    /// Wants the session's id as `session-id`.
    SessionHeader,
    /// Wants to know whether a user or an agent asks, and about images (GitHub Copilot).
    Initiator,
    /// Refuses a conversation with calls unless it offers a tool.
    NeedsTools,
}

/// A set of peculiarities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quirks(u32);

impl Model {
    /// Returns the setting by which the model takes another kind of input besides.
    pub fn taking(&self, kind: &str) -> String {
        let known = [("text", true), ("image", self.takes_images), ("pdf", self.takes_pdf)];
        let known = known.into_iter().filter(|(name, is_taken)| *is_taken && *name != kind);
        let kinds: Vec<String> =
            known.map(|(name, _)| name).chain([kind]).map(|it| format!("{it:?}")).collect();
        let (provider, model) = (&self.provider_id, &self.id);
        let kinds = kinds.join(", ");
        format!("`provider.{provider}.models.{model}.modalities` to `{{\"input\": [{kinds}]}}`")
    }
}

impl Quirks {
    pub const fn of(quirks: &[Quirk]) -> Quirks {
        let mut bits = 0;
        let mut at = 0;
        // Iterators are not constant.
        while at < quirks.len() {
            bits |= 1 << quirks[at] as u32;
            at += 1;
        }
        Quirks(bits)
    }

    pub fn has(self, quirk: Quirk) -> bool {
        self.0 & (1 << quirk as u32) != 0
    }

    /// Returns the members of either set.
    pub fn and(self, others: Quirks) -> Quirks {
        Quirks(self.0 | others.0)
    }
}

/// Sampling settings that a model's maker recommends, for agents that set none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<u64>,
}

/// A key that is hidden in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Maximum durations of a provider's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the response headers.
    pub headers: Duration,
    /// Between two pieces of the stream.
    pub chunk: Duration,
    /// For the whole request.
    pub total: Option<Duration>,
}

impl Timeouts {
    /// OpenCode's limits (facts: OpenCode §6.5).
    pub const DEFAULT: Timeouts =
        Timeouts { headers: Duration::from_secs(300), chunk: Duration::from_secs(300), total: None };
}

/// One request to a model, borrowed from the session's history.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prompt<'a> {
    /// System texts, the most stable first.
    pub system: Vec<Cow<'a, str>>,
    pub messages: Vec<PromptMessage<'a>>,
    pub tools: Vec<ToolSpec<'a>>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<u64>,
    pub max_output_tokens: Option<u64>,
    /// Fields of the agent's `options`, added to the body over the model's own.
    pub options: Map<String, Value>,
    /// An id that is stable per session, for providers that route by cache.
    pub cache_key: Option<&'a str>,
    /// Headers that replace all others of their names.
    pub headers: Vec<(String, String)>,
    /// Ids that go along as headers.
    pub ids: PromptIds<'a>,
}

/// The places that a request belongs to, beside its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromptIds<'a> {
    pub session: Option<&'a str>,
    /// The session that started a subagent's.
    pub parent_session: Option<&'a str>,
    pub project: Option<&'a str>,
    /// The user's message that is answered.
    pub message: Option<&'a str>,
    /// True for a request that no person asked for: a title, a summary, the work of a subagent.
    pub is_agents: bool,
}

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptMessage<'a> {
    User(Vec<UserContent<'a>>),
    Assistant(Vec<AssistantContent<'a>>),
    /// Results of the tool calls in the preceding assistant message, in the same order.
    ToolResults(Vec<ToolResult<'a>>),
    /// Messages encoded by [`encoded`].
    Encoded(&'a [Encoded]),
}

impl PromptMessage<'_> {
    /// Returns true if the message holds calls of tools, or their results.
    fn has_calls(&self) -> bool {
        match self {
            PromptMessage::ToolResults(_) => true,
            PromptMessage::Encoded(pieces) => pieces.iter().any(|piece| piece.has_calls),
            PromptMessage::Assistant(contents) => {
                contents.iter().any(|content| matches!(content, AssistantContent::ToolCall { .. }))
            }
            PromptMessage::User(_) => false,
        }
    }
}

/// A piece of a wire's conversation that is sent again unchanged.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// True if the model said it, rather than the user.
    is_models: bool,
    /// True for the first piece of messages that hold calls.
    has_calls: bool,
    /// The wire's own unit: a message, or a block of one.
    json: Box<RawValue>,
}

impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        (self.is_models, self.json.get()) == (other.is_models, other.json.get())
    }
}

/// A part of a user message.
#[derive(Debug, Clone, PartialEq)]
pub enum UserContent<'a> {
    Text(Cow<'a, str>),
    Media(Media<'a>),
}

/// An image or document, inline.
#[derive(Debug, Clone, PartialEq)]
pub struct Media<'a> {
    pub mime: &'a str,
    pub filename: Option<&'a str>,
    /// Base64, without the `data:` prefix.
    pub base64: &'a str,
}

/// A part of an assistant message.
#[derive(Debug, Clone, PartialEq)]
pub enum AssistantContent<'a> {
    Text(Cow<'a, str>),
    /// Thinking; sent back only with the signature of the same provider.
    Reasoning {
        text: Cow<'a, str>,
        signature: Option<&'a str>,
    },
    ToolCall {
        call_id: &'a str,
        name: &'a str,
        input: &'a Value,
        /// Like that of a thought.
        signature: Option<&'a str>,
    },
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult<'a> {
    pub call_id: &'a str,
    pub name: &'a str,
    pub output: Cow<'a, str>,
    pub is_error: bool,
    pub media: Vec<Media<'a>>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec<'a> {
    pub name: Cow<'a, str>,
    pub description: Cow<'a, str>,
    /// JSON schema of the arguments.
    pub schema: Cow<'a, Value>,
}

/// A piece of a model's answer. Blocks are numbered in the order they begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    TextStart {
        block: u32,
    },
    Text {
        block: u32,
        text: String,
    },
    ReasoningStart {
        block: u32,
    },
    Reasoning {
        block: u32,
        text: String,
    },
    /// A signature that is needed to send the thought or call back.
    Signature {
        block: u32,
        signature: String,
    },
    ToolCallStart {
        block: u32,
        call_id: String,
        name: String,
    },
    /// A fragment of the arguments' JSON text.
    ToolCallInput {
        block: u32,
        json: String,
    },
    /// The end of a text, thought or tool call.
    BlockEnd {
        block: u32,
    },
    Usage(Usage),
    Finish(Finish),
}

/// Token counts; a later report replaces an earlier one field by field where it is larger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input: u64,
    /// Output without reasoning.
    pub output: u64,
    pub reasoning: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// The reason that the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
    /// It paused in the middle of a long turn, and goes on when it is asked again.
    Paused,
    Unknown,
}

impl Finish {
    /// Returns OpenCode's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop | Finish::Paused => "stop",
            Finish::ToolCalls => "tool-calls",
            Finish::Length => "length",
            Finish::ContentFilter => "content-filter",
            Finish::Unknown => "unknown",
        }
    }
}

/// A failure of a request to a provider.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProviderError {
    #[error("{message}")]
    Auth { message: String },
    #[error("{message}")]
    RateLimited { message: String, status: u16, after: Option<Duration> },
    /// The prompt does not fit the model's context.
    #[error("{message}")]
    Overflow { message: String },
    /// The provider is busy or failed for a moment; worth another try.
    #[error("{message}")]
    Overloaded { message: String, status: Option<u16>, after: Option<Duration> },
    /// The provider refused the request for good.
    #[error("{message}")]
    Api { message: String, status: Option<u16>, body: Option<String> },
    /// The connection failed or broke.
    #[error("{message}")]
    Transport { message: String },
    /// Nothing listens at an address of this machine.
    #[error("{message}")]
    NotRunning { message: String },
    /// The provider fell silent, or sent nothing but signs of life, for as long as it may.
    #[error("{message}")]
    Silent { message: String },
    /// A hook of a plugin failed, so that the request was not sent.
    #[error("{message}")]
    Unsent { message: String },
}

impl ProviderError {
    /// Returns true if the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            ProviderError::RateLimited { after, .. } | ProviderError::Overloaded { after, .. } => {
                after.is_none_or(|after| after <= retry::LONGEST_ASKED)
            }
            ProviderError::Transport { .. }
            | ProviderError::NotRunning { .. }
            | ProviderError::Silent { .. } => true,
            ProviderError::Auth { .. }
            | ProviderError::Overflow { .. }
            | ProviderError::Api { .. }
            | ProviderError::Unsent { .. } => false,
        }
    }

    /// Returns the delay that the provider asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ProviderError::RateLimited { after, .. } | ProviderError::Overloaded { after, .. } => *after,
            ProviderError::Auth { .. }
            | ProviderError::Overflow { .. }
            | ProviderError::Api { .. }
            | ProviderError::Transport { .. }
            | ProviderError::NotRunning { .. }
            | ProviderError::Silent { .. }
            | ProviderError::Unsent { .. } => None,
        }
    }

    /// Returns the number of retries after which the error is final. Silence has taken minutes already, and a server on
    /// this machine that does not run is started by its user.
    pub fn max_retries(&self) -> u32 {
        if let ProviderError::Silent { .. } | ProviderError::NotRunning { .. } = self {
            retry::FEW_RETRIES
        } else {
            retry::MAX_RETRIES
        }
    }
}

/// An answer being received.
pub enum Stream {
    Http(Box<http::Stream>),
    Demo(demo::Stream),
}

impl Stream {
    /// Appends the deltas of one network read to `deltas`. Returns false when the answer is complete.
    pub async fn next(&mut self, deltas: &mut Vec<Delta>) -> Result<bool, ProviderError> {
        match self {
            Stream::Http(stream) => stream.next(deltas).await,
            Stream::Demo(stream) => stream.next(deltas).await,
        }
    }
}

/// Sends a prompt to a model. Dropping the future or the stream ends the request.
pub async fn stream(
    client: &http::Client,
    model: &Model,
    prompt: &Prompt<'_>,
) -> Result<Stream, ProviderError> {
    match model.wire {
        Wire::OpenAiChat | Wire::OpenAiResponses | Wire::Anthropic | Wire::Google | Wire::Bedrock => {
            Ok(Stream::Http(Box::new(http::stream(client, model, prompt).await?)))
        }
        Wire::Demo => Ok(Stream::Demo(demo::stream(prompt))),
    }
}

/// Encodes messages for the model's wire; `None` for a wire that sends none.
///
/// In a prompt, the result replaces the messages as long as neither they nor the model nor the options change.
pub fn encoded(
    model: &Model,
    options: &Map<String, Value>,
    messages: &[PromptMessage<'_>],
) -> Option<Vec<Encoded>> {
    let mut pieces = match model.wire {
        Wire::OpenAiChat => openai_chat::encoded(model, options, messages),
        Wire::OpenAiResponses => openai_responses::encoded(model, messages),
        Wire::Anthropic => anthropic::encoded(model, messages),
        Wire::Google => google::encoded(model, messages),
        Wire::Bedrock => bedrock::encoded(model, messages),
        Wire::Demo => return None,
    };
    if let Some(piece) = pieces.first_mut() {
        piece.has_calls = messages.iter().any(PromptMessage::has_calls);
    }
    Some(pieces)
}

/// Maximum bytes of an answer that is requested as a whole.
const MAX_TEXT: usize = 1 << 20;

/// Sends a prompt to a model and waits for the whole text of its answer.
pub async fn text(
    client: &http::Client,
    model: &Model,
    prompt: &Prompt<'_>,
) -> Result<String, ProviderError> {
    let mut stream = stream(client, model, prompt).await?;
    let mut answer = String::new();
    let mut deltas = Vec::new();
    loop {
        let has_more = stream.next(&mut deltas).await?;
        for delta in deltas.drain(..) {
            if let Delta::Text { text, .. } = delta {
                answer.push_str(&text);
            }
        }
        if !has_more || answer.len() > MAX_TEXT {
            return Ok(answer);
        }
    }
}
