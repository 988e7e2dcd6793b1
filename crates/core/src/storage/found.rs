//! Searches for sessions: by a part of their id, and by the words in them.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use windlass_base::{text, words::Words};
use windlass_protocol::opencode::{
    id::SessionId,
    part::{Part, PartKind},
    session::Session,
};

use super::{Storage, StorageError, decode_session};

/// Maximum bytes of a line that are shown around the words in it.
const MAX_LINE: usize = 2000;
/// Maximum bytes of a text that are searched.
const MAX_TEXT: usize = 1024 * 1024;

/// The sessions to search: root sessions, most recently changed first.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    pub words: Words,
    /// Restricts the search to sessions of this directory or below it.
    pub root: Option<String>,
    /// Continues behind this session: time of its last change, and its id.
    pub after: Option<(i64, String)>,
    /// Number of sessions to search.
    pub n_sessions: usize,
    /// Maximum number of lines to show of one session.
    pub n_lines: usize,
}

/// The sessions of a page that contain the words.
#[derive(Debug, Clone)]
pub struct SearchPage {
    pub found: Vec<Found>,
    /// The start of the next page; `None` for the last.
    pub next: Option<(i64, String)>,
}

/// A session that contains the words in its title or its messages.
#[derive(Debug, Clone)]
pub struct Found {
    pub session: Session,
    /// The first text or file of the user, for a session without a title.
    pub first: Option<PartKind>,
    pub lines: Vec<FoundLine>,
    /// The number of texts with all the words, including those without a line in `lines`.
    pub n_texts: usize,
}

/// The line of a text that has the most words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLine {
    pub is_users: bool,
    pub text: String,
}

impl Storage {
    /// Returns the sessions with ids that begin or end with `piece`, at most two.
    pub async fn ids_like(&self, piece: String) -> Result<Vec<SessionId>, StorageError> {
        self.reader
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT id FROM session WHERE substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) = ?1 \
                     LIMIT 2",
                )?;
                let ids = statement.query_map([piece], |row| row.get::<_, String>(0))?;
                let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
                Ok(ids.into_iter().map(SessionId::from_trusted).collect())
            })
            .await
    }

    /// Returns the first text or file of the user in each of these sessions.
    pub async fn first_said(
        &self,
        ids: Vec<SessionId>,
    ) -> Result<HashMap<SessionId, PartKind>, StorageError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        self.reader
            .read(move |connection| {
                // One for all, because each has the file locked and unlocked.
                let connection = &connection.unchecked_transaction()?;
                let mut found = HashMap::new();
                for id in ids {
                    if let Some(kind) = first_said(connection, &id)? {
                        found.insert(id, kind);
                    }
                }
                Ok(found)
            })
            .await
    }

    /// Searches a page of sessions.
    pub async fn search(&self, query: SearchQuery) -> Result<SearchPage, StorageError> {
        self.reader.read(move |connection| search(connection, &query)).await
    }
}

fn first_said(connection: &Connection, id: &SessionId) -> Result<Option<PartKind>, StorageError> {
    let mut statement = connection.prepare_cached(
        "SELECT part.data FROM part JOIN message ON message.id = part.message_id \
         WHERE part.session_id = ?1 AND json_extract(part.data, '$.type') IN ('text', 'file') \
         AND json_extract(part.data, '$.synthetic') IS NULL AND json_extract(message.data, '$.role') = 'user' \
         ORDER BY part.id LIMIT 1",
    )?;
    let data: Option<String> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    let part: Option<Part> = data.map(|data| serde_json::from_str(&data)).transpose()?;
    Ok(part.map(|part| part.kind))
}

fn search(connection: &Connection, query: &SearchQuery) -> Result<SearchPage, StorageError> {
    let (updated, id) = query.after.clone().unwrap_or((i64::MAX, String::new()));
    let mut statement = connection.prepare_cached(
        "SELECT project_id, data, chosen_title, chosen_agent, chosen_model, patch FROM session WHERE parent_id IS NULL \
         AND (?1 IS NULL OR directory = ?1 OR substr(directory, 1, length(?1) + 1) = ?1 || '/') \
         AND (updated, id) < (?2, ?3) ORDER BY updated DESC, id DESC LIMIT ?4",
    )?;
    let limit = i64::try_from(query.n_sessions).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![query.root, updated, id, limit])?;
    let mut page = SearchPage { found: Vec::new(), next: None };
    let mut n_sessions = 0;
    while let Some(row) = rows.next()? {
        let session = decode_session(row)?;
        n_sessions += 1;
        if n_sessions == query.n_sessions {
            page.next = Some((session.time.updated, session.id.as_str().to_owned()));
        }
        let mut found = Found { session, first: None, lines: Vec::new(), n_texts: 0 };
        search_in(connection, query, &mut found)?;
        if found.n_texts > 0 || query.words.are_in(&found.session.title) {
            found.first = first_said(connection, &found.session.id)?;
            page.found.push(found);
        }
    }
    Ok(page)
}

/// Searches the texts of one session.
fn search_in(connection: &Connection, query: &SearchQuery, found: &mut Found) -> Result<(), StorageError> {
    let mut statement = connection.prepare_cached(
        "SELECT part.data, message.data FROM part JOIN message ON message.id = part.message_id \
         WHERE part.session_id = ?1 ORDER BY part.id",
    )?;
    let mut rows = statement.query([found.session.id.as_str()])?;
    while let Some(row) = rows.next()? {
        let data = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        // Outputs of tools make up most of a store; a part's type comes directly behind its ids.
        if !text::head(data, 400).contains(r#""type":"text""#) || !query.words.may_be_in(data) {
            continue;
        }
        let part: Part = serde_json::from_str(data)?;
        let PartKind::Text(said) = part.kind else { continue };
        let whole = text::head(&said.text, MAX_TEXT);
        if said.synthetic == Some(true) || !query.words.are_in(whole) {
            continue;
        }
        found.n_texts += 1;
        if found.lines.len() < query.n_lines
            && let Some(line) = query.words.best_line(whole)
        {
            let message = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            let is_users = text::head(message, 40).contains(r#""role":"user""#);
            found.lines.push(FoundLine { is_users, text: around(line, &query.words).to_owned() });
        }
    }
    Ok(())
}

/// Shortens a long line to the part around its first word.
fn around<'a>(line: &'a str, words: &Words) -> &'a str {
    if line.len() <= MAX_LINE {
        return line;
    }
    let first = words.spans(line).first().map(|span| span.start).unwrap_or_default();
    let start = line.floor_char_boundary(first.saturating_sub(MAX_LINE / 4));
    text::head(&line[start..], MAX_LINE)
}
