//! Visits all messages and calls of the store, one row at a time, for statistics.

use std::collections::HashMap;

use serde::{Deserialize, de::IgnoredAny};
use windlass_base::text;
use windlass_protocol::opencode::{id::SessionId, part::EXECUTED_BY_USER, session::Session, tokens::Tokens};

use super::{Storage, StorageError, decode_session};

/// An item to count.
#[derive(Debug)]
pub enum Counted<'a> {
    Message(CountedMessage<'a>),
    Call(CountedCall<'a>),
}

/// A message with its cost.
#[derive(Debug)]
pub struct CountedMessage<'a> {
    pub session_id: &'a str,
    pub created: i64,
    /// Provider and model of an answer; `None` for a message of the user.
    pub model: Option<(&'a str, &'a str)>,
    /// The user asked a model with it.
    pub is_prompt: bool,
    pub cost: f64,
    pub tokens: Tokens,
}

/// A call of a tool.
#[derive(Debug)]
pub struct CountedCall<'a> {
    pub session_id: &'a str,
    pub tool: &'a str,
    /// The start of the call; `None` if it never began.
    pub start: Option<i64>,
    pub has_failed: bool,
}

#[derive(Deserialize)]
struct MessageRow<'a> {
    time: Time,
    #[serde(rename = "providerID", borrow, default)]
    provider_id: Option<Text<'a>>,
    #[serde(rename = "modelID", borrow, default)]
    model_id: Option<Text<'a>>,
    #[serde(default)]
    cost: f64,
    #[serde(default)]
    tokens: Tokens,
}

#[derive(Deserialize)]
struct Time {
    created: i64,
}

/// A part of a message of the user.
#[derive(Deserialize)]
struct PartRow<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(default, borrow)]
    text: Option<Text<'a>>,
    #[serde(default)]
    synthetic: Option<bool>,
    #[serde(default)]
    ignored: Option<bool>,
}

impl PartRow<'_> {
    fn text(&self) -> Option<&str> {
        let text = self.text.as_ref().filter(|_| &*self.kind.0 == "text");
        text.map(|text| &*text.0).filter(|text| !text.trim().is_empty())
    }

    fn is_other(&self) -> bool {
        matches!(&*self.kind.0, "file" | "subtask")
    }

    /// Returns true for text from the user, rather than from windlass in the user's place.
    fn is_said(&self) -> bool {
        self.is_other() || self.synthetic != Some(true) && self.text().is_some()
    }

    /// Returns true for text that a model is asked about: a command of windlass or the shell asks for no answer.
    fn is_asked(&self) -> bool {
        let is_read = |text: &str| self.ignored != Some(true) && text != EXECUTED_BY_USER;
        self.is_other() || self.text().is_some_and(is_read)
    }
}

#[derive(Deserialize)]
struct CallRow<'a> {
    #[serde(borrow)]
    tool: Text<'a>,
    #[serde(borrow)]
    state: CallState<'a>,
}

#[derive(Deserialize)]
struct CallState<'a> {
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(default)]
    time: Option<Start>,
    #[serde(default, rename = "input")]
    _input: IgnoredAny,
}

#[derive(Deserialize)]
struct Start {
    start: i64,
}

/// A text that is borrowed unless it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

impl Storage {
    /// Returns every session that changed since `since`, including subagents' sessions.
    pub async fn sessions_since(&self, since: i64) -> Result<Vec<Session>, StorageError> {
        self.reader
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT project_id, data, chosen_title, chosen_agent, chosen_model, patch FROM session WHERE updated >= ?1",
                )?;
                let mut rows = statement.query([since])?;
                let mut sessions = Vec::new();
                while let Some(row) = rows.next()? {
                    sessions.push(decode_session(row)?);
                }
                Ok(sessions)
            })
            .await
    }

    /// Passes every message and call of these sessions to `count`, and returns the accumulated result.
    pub async fn count<T: Send + 'static>(
        &self,
        sessions: Vec<SessionId>,
        mut counts: T,
        count: fn(&mut T, Counted<'_>),
    ) -> Result<T, StorageError> {
        self.reader
            .read(move |connection| {
                let mut messages = connection.prepare_cached(
                    "SELECT id, data FROM message WHERE session_id = ?1
                     UNION ALL SELECT id, data FROM spent_message WHERE session_id = ?1",
                )?;
                let mut parts =
                    connection.prepare_cached("SELECT message_id, data FROM part WHERE session_id = ?1")?;
                for session in &sessions {
                    let session_id = session.as_str();
                    // The parts of a user's message say if it is a prompt.
                    let mut users: HashMap<String, (i64, bool, bool)> = HashMap::new();
                    let mut rows = messages.query([session_id])?;
                    while let Some(row) = rows.next()? {
                        let data = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
                        let MessageRow { time: Time { created }, provider_id, model_id, cost, tokens } =
                            serde_json::from_str(data)?;
                        if !text::head(data, 40).contains(r#""role":"assistant""#) {
                            users.insert(row.get(0)?, (created, false, false));
                            continue;
                        }
                        let model = provider_id.as_ref().zip(model_id.as_ref());
                        let model = model.map(|(provider, model)| (&*provider.0, &*model.0));
                        let is_prompt = false;
                        let message = CountedMessage { session_id, created, model, is_prompt, cost, tokens };
                        count(&mut counts, Counted::Message(message));
                    }
                    let mut rows = parts.query([session_id])?;
                    while let Some(row) = rows.next()? {
                        let message_id = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
                        let data = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
                        if let Some((_, is_said, is_asked)) = users.get_mut(message_id) {
                            let part: PartRow<'_> = serde_json::from_str(data)?;
                            *is_said |= part.is_said();
                            *is_asked |= part.is_asked();
                        }
                        if text::head(data, 400).contains(r#""type":"tool""#) {
                            let row: CallRow<'_> = serde_json::from_str(data)?;
                            let call = CountedCall {
                                session_id,
                                tool: &row.tool.0,
                                start: row.state.time.map(|time| time.start),
                                has_failed: row.state.status.0 == "error",
                            };
                            count(&mut counts, Counted::Call(call));
                        }
                    }
                    for (created, is_said, is_asked) in users.into_values() {
                        let is_prompt = is_said && is_asked;
                        let (model, cost, tokens) = (None, 0.0, Tokens::default());
                        let message = CountedMessage { session_id, created, model, is_prompt, cost, tokens };
                        count(&mut counts, Counted::Message(message));
                    }
                }
                Ok(counts)
            })
            .await
    }
}
