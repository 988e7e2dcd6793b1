//! Visits all messages and calls of the store, one row at a time, for statistics.

use serde::{Deserialize, de::IgnoredAny};
use windlass_protocol::opencode::{id::SessionId, message::Tokens, session::Session};

use super::{Storage, StorageError, decode_session};
use crate::base::text;

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
    /// Provider and model of an answer; `None` for a prompt.
    pub model: Option<(&'a str, &'a str)>,
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
                    "SELECT data FROM message WHERE session_id = ?1
                     UNION ALL SELECT data FROM spent_message WHERE session_id = ?1",
                )?;
                let mut parts = connection.prepare_cached("SELECT data FROM part WHERE session_id = ?1")?;
                for session in &sessions {
                    let mut rows = messages.query([session.as_str()])?;
                    while let Some(row) = rows.next()? {
                        let data = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
                        let row: MessageRow<'_> = serde_json::from_str(data)?;
                        let is_answer = text::head(data, 40).contains(r#""role":"assistant""#);
                        let model = row.provider_id.as_ref().zip(row.model_id.as_ref());
                        count(
                            &mut counts,
                            Counted::Message(CountedMessage {
                                session_id: session.as_str(),
                                created: row.time.created,
                                model: model
                                    .filter(|_| is_answer)
                                    .map(|(provider, model)| (&*provider.0, &*model.0)),
                                cost: row.cost,
                                tokens: row.tokens,
                            }),
                        );
                    }
                    let mut rows = parts.query([session.as_str()])?;
                    while let Some(row) = rows.next()? {
                        let data = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
                        if !text::head(data, 400).contains(r#""type":"tool""#) {
                            continue;
                        }
                        let row: CallRow<'_> = serde_json::from_str(data)?;
                        count(
                            &mut counts,
                            Counted::Call(CountedCall {
                                session_id: session.as_str(),
                                tool: &row.tool.0,
                                start: row.state.time.map(|time| time.start),
                                has_failed: row.state.status.0 == "error",
                            }),
                        );
                    }
                }
                Ok(counts)
            })
            .await
    }
}
