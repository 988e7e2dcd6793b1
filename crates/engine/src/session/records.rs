//! Stored sessions for front ends that only look: whole records, texts with their places, and names people can read.

use std::{collections::HashMap, path::Path};

use windlass_base::{git::repository::Repository, lock::lock};
use windlass_core::storage::found::SearchPage;
pub use windlass_core::storage::found::{Found, FoundLine, SearchQuery};
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
    message::MessageWithParts,
    session::{ArchiveFilter, Session, Todo},
};

use super::{request::Command, revert, title};
use crate::{EngineError, EngineErrorKind, Sessions};

/// Sessions that are read at once.
const PAGE: usize = 200;
/// Characters of a title that a user chooses.
const MAX_TITLE: usize = 200;

/// Everything that is stored of a session, as it is: nothing is opened, and messages left open by a killed daemon stay
/// open.
#[derive(Debug, Clone)]
pub struct Record {
    pub info: Session,
    /// All messages, the undone ones too.
    pub messages: Vec<MessageWithParts>,
    pub todos: Vec<Todo>,
    /// Messages of the session's subagents, and of theirs.
    pub children: HashMap<SessionId, Vec<MessageWithParts>>,
}

impl Record {
    /// Leaves out the undone part.
    pub fn without_undone(mut self) -> Self {
        self.messages = revert::without_undone(&self.info, self.messages);
        self
    }
}

impl Sessions<'_> {
    /// Reads a stored session without opening it.
    pub async fn record(self, id: &SessionId) -> Result<Record, EngineError> {
        self.engine.fleet().claim_to_read(id).await?;
        let stored = self.engine.0.storage.load(id.clone()).await?;
        let mut stored = stored.ok_or_else(|| EngineError::session_not_found(id))?;
        self.entitle([&mut stored.info]).await?;
        let children = self.engine.0.storage.descendants(id.clone()).await?;
        Ok(Record { info: stored.info, messages: stored.messages, todos: stored.todos, children })
    }

    /// Lists up to `limit` root sessions of the project around a directory, and of its worktrees, the latest first.
    pub async fn of_project(
        self,
        directory: &Path,
        archived: ArchiveFilter,
        limit: usize,
    ) -> Result<Vec<Session>, EngineError> {
        // The list here serves as well.
        let _ = self.engine.fleet().refresh(Some(directory)).await;
        let root = self.engine.workspaces().project_root(directory);
        let repository = Repository::of(&root).ok().map(|repository| repository.common_dir);
        let worktrees = self.engine.worktrees();
        let is_here = |session: &Session| {
            let directory = Path::new(&session.directory);
            let is_worktree = || worktrees.repository_of(directory).is_some_and(|it| Some(it) == repository);
            directory.starts_with(&root) || is_worktree()
        };
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.list(None, archived, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some((last.time.updated, last.id.as_str().to_owned()));
            for session in page.into_iter().filter(is_here) {
                if found.len() == limit {
                    return Ok(found);
                }
                found.push(session);
            }
        }
    }

    /// Returns the session with this id, or with an id that begins or ends with this; `latest` is the one of the project
    /// around a directory that changed last.
    pub async fn find(self, piece: &str, directory: &Path) -> Result<SessionId, EngineError> {
        let invalid = |message: String| EngineError::new(EngineErrorKind::InvalidInput, message);
        if piece == "latest" {
            let latest = self.of_project(directory, ArchiveFilter::Exclude, 1).await?.into_iter().next();
            return latest
                .map(|session| session.id)
                .ok_or_else(|| invalid("there are no sessions here".to_owned()));
        }
        let refreshed = self.engine.fleet().refresh(Some(directory)).await;
        if let Ok(id) = SessionId::parse(piece)
            && self.engine.0.storage.session(id.clone()).await?.is_some()
        {
            return Ok(id);
        }
        // The prefix alone, or a letter or two, says nothing.
        let says_something = (4..=80).contains(&piece.len()) && piece != "ses_";
        let found =
            if says_something { self.engine.0.storage.ids_like(piece.to_owned()).await? } else { Vec::new() };
        match found.as_slice() {
            [id] => Ok(id.clone()),
            // It may be in the shared store alone.
            [] => {
                let shown = piece.chars().take(80).collect::<String>();
                refreshed.and(Err(invalid(format!("no such session: {shown}"))))
            }
            _ => Err(invalid(format!("more than one session has an id that begins or ends with {piece}"))),
        }
    }

    /// Looks through a page of root sessions.
    pub async fn search(self, query: SearchQuery) -> Result<SearchPage, EngineError> {
        let mut page = self.engine.0.storage.search(query).await?;
        for found in &mut page.found {
            entitle(&mut found.session, found.first.as_ref().and_then(title::of_first));
        }
        Ok(page)
    }

    /// Gives a session the title its user wants; it is kept by any process that has the session open.
    pub async fn rename(self, id: &SessionId, title: &str) -> Result<Session, EngineError> {
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        let refused = |reason: String| Err(EngineError::new(EngineErrorKind::InvalidInput, reason));
        if title.is_empty() {
            return refused("the title is empty; give at least one word".to_owned());
        }
        if title.chars().count() > MAX_TITLE {
            return refused(format!("the title is longer than {MAX_TITLE} characters; give a shorter one"));
        }
        self.engine.fleet().claim(id, None).await?;
        if !self.engine.0.storage.rename(id.clone(), title.clone()).await? {
            return Err(EngineError::session_not_found(id));
        }
        let task = lock(&self.engine.0.sessions.open)
            .get(id)
            .and_then(|open| Some(open.task.as_ref()?.inbox.clone()));
        if let Some(inbox) = task {
            // A session that takes no more finds the title in the store.
            let _ = inbox.send(Command::Title(title)).await;
        }
        let info = self.get(id).await?;
        let event = SessionInfo { session_id: id.clone(), info: info.clone().into() };
        self.engine.0.bus.publish(EventPayload::SessionUpdated(event));
        Ok(info)
    }

    /// Gives sessions that never got a title the first words that were said in them.
    pub(crate) async fn entitle(
        self,
        sessions: impl IntoIterator<Item = &mut Session>,
    ) -> Result<(), EngineError> {
        let sessions: Vec<&mut Session> = sessions.into_iter().collect();
        let untitled = sessions.iter().filter(|session| title::is_default(&session.title));
        let first =
            self.engine.0.storage.first_said(untitled.map(|session| session.id.clone()).collect()).await?;
        for session in sessions {
            entitle(session, first.get(&session.id).and_then(title::of_first));
        }
        Ok(())
    }
}

fn entitle(session: &mut Session, words: Option<String>) {
    if title::is_default(&session.title)
        && let Some(words) = words
    {
        session.title = words;
    }
}
