//! Requests to a session, and ends of the turns that answer them.

use std::{collections::VecDeque, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use windlass_protocol::opencode::{
    id::{MessageId, PartId, SessionId},
    inbox::{InboxDelivery, InboxItem, InboxKind, InboxPayload},
    message::OutputFormat,
    model_ref::ModelRef,
    part::{Part, PartKind},
    session::Session,
    time::CreatedTime,
    tokens::Tokens,
};

pub use crate::prompt_part::PromptPart;

use super::prompt_key::KeyClaim;
use crate::EngineError;

/// Commands for a session's task.
pub enum Command {
    /// The prompt in this place, whichever that is by then.
    Prompt { place: Place },
    /// The agent or model for later prompts.
    Select { agent: Option<String>, model: Option<ModelRef> },
    /// A title was made for the conversation.
    Title(String),
    /// A client changed the stored settings.
    Patched,
    /// A change of the undone part.
    Revert { to: RevertTo, done: oneshot::Sender<Result<Reverted, EngineError>> },
    /// A change of a message or part.
    Edit { edit: Edit, done: oneshot::Sender<Result<(), EngineError>> },
}

/// The place of a prompt in the order of its session's. The session's task gets places and no prompts: another one may have
/// taken the place by the time it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u64);

/// A change of a message or part.
#[derive(Debug, Clone)]
pub enum Edit {
    RemoveMessage(MessageId),
    RemovePart(MessageId, PartId),
    ReplacePart(Box<Part>),
}

/// The wanted beginning of the undone part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevertTo {
    /// So many prompts more than now.
    Prompts(usize),
    /// A message, or a part of it. An answer without a part means the prompt that it answers.
    Message { message_id: MessageId, part_id: Option<PartId> },
    /// Nothing is to be undone any more.
    Nothing,
}

/// A session after a change of its undo.
#[derive(Debug, Clone)]
pub struct Reverted {
    pub info: Session,
    /// First line of the prompt that was taken out or put back; `None` where nothing changed.
    pub prompt: Option<String>,
    /// Sentences about the files, in Markdown; empty where there is nothing to say.
    pub files: String,
}

/// A user's prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptInput {
    pub parts: Vec<PromptPart>,
    /// Agent that is to answer; the session's last, or the default.
    pub agent: Option<String>,
    /// Model that is to answer; the agent's own, or the default.
    pub model: Option<ModelRef>,
    pub on_missing: OnMissing,
    pub invocation: Invocation,
    /// Form of the answer; text when there is none.
    pub format: Option<OutputFormat>,
    /// The prompt is only kept: later ones are answered with it in mind.
    pub no_reply: bool,
    /// Id that its message gets, unless messages with later ones are there already.
    pub message_id: Option<MessageId>,
    /// Set for a prompt that its client may send again.
    pub key: Option<Arc<KeyClaim>>,
    /// Ids of the parts, as far as the client chose some.
    pub part_ids: Vec<Option<PartId>>,
    /// Text for the model that goes behind the system prompt.
    pub system: Option<String>,
    pub delivery: Delivery,
    /// Set for the result of a subagent in the background, which a running turn takes in.
    pub of_task: Option<SpentBelow>,
    /// No turn behind this one is seen, so it waits for its subagents.
    pub is_only: bool,
    pub limits: Limits,
    /// The row in the store of a prompt that has waited.
    pub waiting_id: Option<MessageId>,
}

/// Limits of a turn beside those of its agent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Requests of the model.
    pub steps: Option<u32>,
    /// US dollars, of subagents too: no request is made once they are spent.
    pub cost: Option<f64>,
}

/// The time at which a session that works reads a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// A turn of its own, behind those before it.
    #[default]
    Turn,
    /// The next step of the turn that runs, which it keeps from ending; a turn of its own where none runs.
    Steer,
    /// The same; refused where no turn runs.
    SteerOnly,
}

/// Way in which a prompt begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// With a turn of its own.
    Turn,
    /// Within the turn that runs.
    Within,
}

/// A prompt that waits behind a session's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingPrompt {
    pub ticket: u64,
    /// The id that its client gave to it, or one made for it while it waits.
    pub id: MessageId,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// It waits for the next prompt: the turn before it was stopped, or its process ended.
    pub is_parked: bool,
    pub delivery: Delivery,
    /// The user's words.
    pub words: String,
    /// The prompt as it would be typed; `None` where it has more than words.
    pub line: Option<String>,
}

impl WaitingPrompt {
    /// Returns the prompt as clients of a session see it.
    pub fn item(&self, session_id: &SessionId) -> InboxItem {
        InboxItem {
            id: self.id.clone(),
            session_id: session_id.clone(),
            time: CreatedTime { created: self.created },
            kind: InboxKind::User,
            payload: InboxPayload { text: self.words.clone() },
            delivery: match self.delivery {
                Delivery::Turn => InboxDelivery::Queue,
                Delivery::Steer | Delivery::SteerOnly => InboxDelivery::Steer,
            },
            parked: self.is_parked,
        }
    }
}

impl From<InboxDelivery> for Delivery {
    fn from(delivery: InboxDelivery) -> Self {
        match delivery {
            InboxDelivery::Steer => Self::Steer,
            InboxDelivery::Queue => Self::Turn,
        }
    }
}

/// Cost and tokens of a subagent's work, which count for the session above.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpentBelow {
    /// US dollars.
    pub cost: f64,
    pub tokens: Tokens,
}

/// A client's choices for the message of a prompt.
#[derive(Debug, Default)]
pub struct Given {
    pub message_id: Option<MessageId>,
    pub key: Option<Arc<KeyClaim>>,
    pub system: Option<String>,
    pub is_only: bool,
    pub limits: Limits,
    /// The prompt's row in the store, where it waited.
    pub waiting_id: Option<MessageId>,
    /// With the kind of each part.
    pub part_ids: VecDeque<(&'static str, PartId)>,
}

impl Given {
    /// Takes the choices out of a prompt.
    pub fn take(input: &mut PromptInput) -> Self {
        let ids = std::mem::take(&mut input.part_ids);
        let kind = |part: &PromptPart| match part {
            PromptPart::Text { is_synthetic: false, .. } => Some("text"),
            PromptPart::File(_) => Some("file"),
            PromptPart::Agent { .. } => Some("agent"),
            PromptPart::Subtask { .. } => Some("subtask"),
            PromptPart::Text { .. } | PromptPart::Document { .. } => None,
        };
        let part_ids = input.parts.iter().zip(ids).filter_map(|(part, id)| Some((kind(part)?, id?)));
        Self {
            part_ids: part_ids.collect(),
            // The first message that the prompt makes has the mark of its key.
            message_id: input.key.as_ref().map(|key| key.message_id()).or(input.message_id.take()),
            key: input.key.take(),
            system: input.system.take(),
            is_only: input.is_only,
            limits: input.limits,
            waiting_id: input.waiting_id.take(),
        }
    }

    /// Returns the id that was chosen for this part; the order of each kind is that of the prompt.
    pub fn part_id(&mut self, part: &PartKind) -> Option<PartId> {
        let kind = match part {
            PartKind::Text(text) if text.synthetic != Some(true) => "text",
            PartKind::File(_) => "file",
            PartKind::Agent { .. } => "agent",
            PartKind::Subtask { .. } => "subtask",
            _other => return None,
        };
        let place = self.part_ids.iter().position(|(of, _)| *of == kind)?;
        self.part_ids.remove(place).map(|(_, id)| id)
    }
}

/// Treatment of a prompt with an agent that is gone when its turn begins, or for which no model is configured at all.
///
/// A model that was named is never replaced by another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnMissing {
    /// The prompt fails; where no agent was named, the session's last one answers.
    #[default]
    Fails,
    /// The agent that the configuration says answers, also where none was named, and the demo instead of no model.
    Fallback,
}

/// Command call of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Invocation {
    /// No command, even if the words begin like one.
    #[default]
    None,
    /// A command if the words begin with `/` and its name.
    Slash,
    /// This command; the words are its arguments.
    Named(String),
    /// The words are a shell command, which is run and not sent to a model.
    Shell,
    /// There are no words: calls are run that waited for a person's yes when the machine of the session died.
    AskAgain,
}

/// End of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutcome {
    pub stop: StopReason,
    /// Cost of the turn, over all its steps; `None` when unknown.
    pub tokens: Option<Tokens>,
    /// The last answer.
    pub message_id: Option<MessageId>,
    /// The answer in the form that was asked for.
    pub structured: Option<Value>,
    /// The prompt came before, and was not carried out again.
    pub is_repeat: bool,
}

impl TurnOutcome {
    /// Returns a turn that was stopped before it did anything.
    pub fn cancelled() -> Self {
        Self {
            stop: StopReason::Cancelled,
            tokens: None,
            message_id: None,
            structured: None,
            is_repeat: false,
        }
    }

    /// The outcome of a prompt that came before, with its message.
    pub fn repeat(message_id: MessageId) -> Self {
        let message_id = Some(message_id);
        Self { stop: StopReason::EndTurn, message_id, is_repeat: true, ..Self::cancelled() }
    }
}

/// Reason why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}

impl StopReason {
    /// Returns the word for it that ACP uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Signs of a prompt's way.
pub struct PromptWatch {
    pub on_begin: Option<TurnBegin>,
    /// Sent when a message of the user was stored and shown in the prompt's turn.
    pub on_stored: Option<oneshot::Sender<()>>,
    /// Sent when the store has a prompt that waits, or cannot have it.
    pub on_kept: Option<oneshot::Sender<()>>,
    pub on_end: TurnEnd,
    /// Nobody waits for the answer: where the turn before it is stopped, the prompt stays.
    pub is_kept: bool,
}

impl PromptWatch {
    /// Watches for the end alone.
    pub fn until_end(on_end: TurnEnd) -> Self {
        Self { on_begin: None, on_stored: None, on_kept: None, on_end, is_kept: false }
    }
}

/// Invoked when a prompt begins, before its first event; never for a prompt that is given up while it waits.
pub type TurnBegin = Box<dyn FnOnce(Begun) + Send>;

/// Invoked once with a prompt's outcome, behind the last event of its turn; never for one that stays in the store when its
/// session is closed.
pub type TurnEnd = Box<dyn FnOnce(Result<TurnOutcome, EngineError>) + Send>;
