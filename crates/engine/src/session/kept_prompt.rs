//! Prompts that wait for their turn, as the store keeps them: a sudden end of the process loses none.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use windlass_base::clock;
use windlass_core::storage::Storage;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::OutputFormat,
    model_ref::ModelRef,
};

use super::request::{Delivery, Invocation, OnMissing, PromptInput, PromptPart};

/// A prompt as its row has it.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    parts: Vec<PromptPart>,
    agent: Option<String>,
    model: Option<ModelRef>,
    on_missing: OnMissing,
    invocation: Invocation,
    format: Option<OutputFormat>,
    system: Option<String>,
    delivery: Delivery,
    no_reply: bool,
    /// The mark of the key by which its client may send it again.
    key: Option<String>,
    /// Milliseconds since the epoch.
    created: i64,
    /// Rows are read in the order of this; the time at which it came where there is none.
    #[serde(default)]
    rank: Option<i64>,
}

/// The fate of a row.
enum Wish {
    /// It is to be so; without a value, it is there already.
    Keep(Option<Value>),
    Forget,
}

/// The row of a prompt that waits. Where it is dropped without [`KeptPrompt::forget`], the row stays.
pub struct KeptPrompt {
    pub id: MessageId,
    /// It was read from the store.
    pub is_restored: bool,
    /// Behind the number of wishes.
    wish: watch::Sender<(u64, Wish)>,
    /// The number of wishes that the store has heard.
    n_heard: watch::Receiver<u64>,
}

/// The way to learn when the store agrees with what was done to a prompt.
pub struct Settling {
    /// None for a prompt that the store does not have.
    kept: Option<(Wishes, watch::Receiver<u64>)>,
}

/// The last wish about a row, behind the number of wishes.
type Wishes = watch::Receiver<(u64, Wish)>;

/// The owner of a row, until it is forgotten or nobody can forget it.
pub struct Keeper {
    session_id: SessionId,
    id: MessageId,
    wishes: Wishes,
    n_heard: watch::Sender<u64>,
    on_kept: Option<oneshot::Sender<()>>,
}

impl KeptPrompt {
    /// Keeps a prompt from now on; `None` for one that is worth nothing after a restart.
    pub fn new(session_id: &SessionId, id: &MessageId, input: &PromptInput) -> Option<(Self, Keeper)> {
        let is_users = input.of_task.is_none() && input.delivery != Delivery::SteerOnly;
        let row = is_users.then(|| row(input, clock::now_ms(), None)).flatten()?;
        Some(Self::with(session_id, id, Wish::Keep(Some(row))))
    }

    /// Takes the row of a prompt over that is in the store.
    pub fn stored(session_id: &SessionId, id: &MessageId) -> (Self, Keeper) {
        Self::with(session_id, id, Wish::Keep(None))
    }

    fn with(session_id: &SessionId, id: &MessageId, wish: Wish) -> (Self, Keeper) {
        let is_restored = matches!(wish, Wish::Keep(None));
        let (wish, wishes) = watch::channel((1, wish));
        let (hearing, n_heard) = watch::channel(0);
        let (session_id, id) = (session_id.clone(), id.clone());
        let kept = Self { id: id.clone(), is_restored, wish, n_heard };
        (kept, Keeper { session_id, id, wishes, n_heard: hearing, on_kept: None })
    }

    /// The prompt has begun, or was taken back.
    pub fn forget(&self) {
        self.say(Wish::Forget);
    }

    /// The prompt was changed.
    pub fn rewrite(&self, input: &PromptInput, created: i64, rank: i64) {
        if let Some(row) = row(input, created, Some(rank)) {
            self.say(Wish::Keep(Some(row)));
        }
    }

    fn say(&self, wish: Wish) {
        self.wish.send_modify(|said| *said = (said.0 + 1, wish));
    }
}

impl Settling {
    /// Returns the way for a prompt that may be in the store.
    pub fn of(kept: Option<&KeptPrompt>) -> Self {
        Self { kept: kept.map(|kept| (kept.wish.subscribe(), kept.n_heard.clone())) }
    }

    /// Waits until the store has heard all that was wished by now, or cannot.
    pub async fn settled(self) {
        let Some((wishes, mut n_heard)) = self.kept else { return };
        let n_wishes = wishes.borrow().0;
        // One that has ended hears no more.
        _ = n_heard.wait_for(|n_heard| *n_heard >= n_wishes).await;
    }
}

impl Keeper {
    /// Tells when the row is there, or cannot be.
    pub fn telling(self, on_kept: Option<oneshot::Sender<()>>) -> Self {
        Self { on_kept, ..self }
    }

    pub async fn run(mut self, storage: Storage) {
        loop {
            let (n_wishes, row, is_forgotten) = match &*self.wishes.borrow_and_update() {
                (n_wishes, Wish::Keep(row)) => (*n_wishes, row.clone(), false),
                (n_wishes, Wish::Forget) => (*n_wishes, None, true),
            };
            let done = match row {
                Some(row) => storage.keep_prompt(self.session_id.clone(), self.id.clone(), row).await,
                None if is_forgotten => storage.forget_prompt(self.session_id.clone(), self.id.clone()).await,
                None => Ok(()),
            };
            if let Err(error) = done {
                tracing::warn!(session = %self.session_id, %error, "a prompt that waits is not kept in the store");
            }
            self.n_heard.send_replace(n_wishes);
            if let Some(on_kept) = self.on_kept.take() {
                // The one that asked may have gone.
                let _ = on_kept.send(());
            }
            if is_forgotten || self.wishes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// A prompt that was read from the store.
pub struct Restored {
    pub input: PromptInput,
    /// The mark of its key.
    pub key: Option<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
    pub rank: i64,
}

/// Reads the prompt of a row; `None` for one of a newer version's form.
pub fn read(id: &MessageId, row: Value) -> Option<Restored> {
    let Row {
        parts,
        agent,
        model,
        on_missing,
        invocation,
        format,
        system,
        delivery,
        no_reply,
        key,
        created,
        rank,
    } = serde_json::from_value(row).ok()?;
    let input = PromptInput {
        parts,
        agent,
        model,
        on_missing,
        invocation,
        format,
        system,
        delivery,
        no_reply,
        // A retry finds the message by it.
        message_id: Some(id.clone()),
        ..PromptInput::default()
    };
    Some(Restored { input, key, created, rank: rank.unwrap_or(created) })
}

fn row(input: &PromptInput, created: i64, rank: Option<i64>) -> Option<Value> {
    let row = Row {
        parts: input.parts.clone(),
        agent: input.agent.clone(),
        model: input.model.clone(),
        on_missing: input.on_missing,
        invocation: input.invocation.clone(),
        format: input.format.clone(),
        system: input.system.clone(),
        delivery: input.delivery,
        no_reply: input.no_reply,
        key: input.key.as_ref().map(|key| key.mark().to_owned()),
        created,
        rank,
    };
    serde_json::to_value(row).ok()
}
