//! Answers of the user that are remembered for a project: allowed or rejected from now on.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use windlass_base::{clock, lock::lock};
use windlass_core::{
    config::{Environment, paths::Paths, worktree::worktree},
    storage::{Storage, answers::StoredAnswer},
};
use windlass_protocol::opencode::permission::Rule;

use crate::{Engine, EngineError};

/// The remembered answers of a project. Cloning it shares it.
///
/// The store is the truth, because another process may add an answer or the user revoke one at any time; memory holds
/// the answers that were read last and those that are not stored yet.
#[derive(Clone, Default)]
pub struct Approvals {
    /// The store and the project's directory there.
    place: Option<(Storage, String)>,
    state: Arc<Mutex<State>>,
    /// The rules of one session's client; never stored.
    granted: Arc<[Rule]>,
}

#[derive(Default)]
struct State {
    stored: Vec<Rule>,
    unsaved: Vec<Rule>,
    /// Answers that were stored from here: several calls may be storing the same ones at once.
    n_saved: usize,
    /// Number of readings that were begun; `latest` is the one that gave `stored`.
    n_begun: u64,
    latest: u64,
}

/// One storing and reading under way.
struct Syncing {
    unsaved: Vec<Rule>,
    n_before: usize,
    order: u64,
}

/// The remembered answers of a project: those of each person, and those of sessions that are nobody's.
#[derive(Default)]
pub struct ByPerson {
    nobody: Approvals,
    persons: Mutex<HashMap<String, Approvals>>,
}

impl ByPerson {
    /// Returns the answers for a directory within a worktree, which is `/` when there is none.
    pub fn new(storage: Storage, directory: &Path, worktree: &Path) -> Self {
        Self { nobody: Approvals::new(storage, directory, worktree), ..Self::default() }
    }

    /// Returns the answers of a person.
    pub fn of(&self, person: Option<String>) -> Approvals {
        let Some(person) = person else { return self.nobody.clone() };
        let place = self.nobody.place.clone();
        let place = place.map(|(storage, project)| (storage, format!("{project}#{person}")));
        let own = || Approvals { place, ..Approvals::default() };
        lock(&self.persons).entry(person).or_insert_with(own).clone()
    }
}

impl State {
    fn begin(&mut self) -> Syncing {
        self.n_begun += 1;
        Syncing { unsaved: self.unsaved.clone(), n_before: self.n_saved, order: self.n_begun }
    }

    /// Takes the answers of a reading. One that was begun before the reading in force may lack the newest answers.
    fn end(&mut self, syncing: &Syncing, answers: Vec<Rule>) {
        if syncing.order > self.latest {
            self.latest = syncing.order;
            self.stored = answers;
        }
        // Rows that were added meanwhile are behind the written ones; another call may have been faster.
        let n_new = (syncing.n_before + syncing.unsaved.len()).saturating_sub(self.n_saved);
        self.unsaved.drain(..n_new);
        self.n_saved += n_new;
    }
}

impl Approvals {
    /// Returns the answers for a directory within a worktree, which is `/` when there is none.
    pub fn new(storage: Storage, directory: &Path, worktree: &Path) -> Self {
        Self { place: Some((storage, project_key(directory, worktree))), ..Self::default() }
    }

    /// Returns the answers as they were read last, oldest first.
    pub fn rules(&self) -> Vec<Rule> {
        let state = self.lock();
        self.granted.iter().chain(&state.stored).chain(&state.unsaved).cloned().collect()
    }

    /// Returns the same answers behind those that a session's client has given for it.
    pub fn with_grants(&self, granted: Arc<[Rule]>) -> Self {
        Self { granted, ..self.clone() }
    }

    /// Adds answers; they hold at once and are stored by the next [`Approvals::sync`].
    pub fn remember(&self, rules: Vec<Rule>) {
        self.lock().unsaved.extend(rules);
    }

    /// Returns true if both are the answers of one project in this process.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Returns true if something was added that is not stored yet.
    pub fn has_unsaved(&self) -> bool {
        self.place.is_some() && !self.lock().unsaved.is_empty()
    }

    /// Returns the name of the project in the store.
    pub fn project(&self) -> Option<&str> {
        self.place.as_ref().map(|(_, project)| project.as_str())
    }

    /// Stores new answers and reads those that others have added or revoked.
    pub async fn sync(&self) {
        let Some((storage, project)) = &self.place else { return };
        let syncing = self.lock().begin();
        let synced = async {
            if !syncing.unsaved.is_empty() {
                storage.add_answers(project.clone(), syncing.unsaved.clone(), clock::now_ms()).await?;
            }
            storage.answers(Some(project.clone())).await
        };
        match synced.await {
            Ok(answers) => {
                self.lock().end(&syncing, answers.into_iter().map(|answer| answer.rule).collect());
            }
            Err(error) => tracing::warn!(%error, "remembered permissions were not stored or read"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A remembered answer as a user manages it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Counted from 1, as listed.
    pub number: usize,
    pub rule: Rule,
    /// Milliseconds since the epoch.
    pub created: i64,
}

/// The answer to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    Number(usize),
    Rule { permission: String, pattern: String },
}

/// Returns the remembered answers of the project that a directory belongs to, oldest first.
pub async fn list(environment: &Environment, directory: &Path) -> Result<Vec<Approval>, EngineError> {
    let (storage, project) = open(environment, directory);
    Ok(numbered(storage.answers(Some(project)).await?))
}

/// Forgets an answer, in running daemons too, and returns it; `None` when there is no such answer.
pub async fn revoke(
    environment: &Environment,
    directory: &Path,
    which: &Which,
) -> Result<Option<Approval>, EngineError> {
    let engine = Engine::new(environment.clone(), Paths::new(environment));
    let worktree = worktree(environment, directory);
    let (storage, project) = (engine.storage(), project_key(directory, &worktree));
    let answers = numbered(storage.answers(Some(project.clone())).await?);
    let found = answers.into_iter().find(|answer| match which {
        Which::Number(number) => answer.number == *number,
        Which::Rule { permission, pattern } => {
            answer.rule.permission == *permission && answer.rule.pattern == *pattern
        }
    });
    let Some(found) = found else { return Ok(None) };
    let rule = found.rule.clone();
    storage.remove_answer(project.clone(), rule.permission, rule.pattern).await?;
    // It is taken back here in any case, and there with the next exchange.
    if let Err(error) = engine.fleet().tell_revoked(&project, &worktree).await {
        tracing::warn!(%error, "the other nodes were not told yet that a permission was taken back");
    }
    engine.fleet().end(Duration::ZERO).await;
    Ok(Some(found))
}

fn open(environment: &Environment, directory: &Path) -> (Storage, String) {
    let worktree = worktree(environment, directory);
    (Storage::new(Paths::new(environment).database()), project_key(directory, &worktree))
}

fn project_key(directory: &Path, worktree: &Path) -> String {
    let project = if worktree == Path::new("/") { directory } else { worktree };
    project.display().to_string()
}

fn numbered(answers: Vec<StoredAnswer>) -> Vec<Approval> {
    let approval = |(idx, answer): (usize, StoredAnswer)| Approval {
        number: idx + 1,
        rule: answer.rule,
        created: answer.created,
    };
    answers.into_iter().enumerate().map(approval).collect()
}

#[cfg(test)]
mod tests {
    use windlass_protocol::opencode::permission::Action;

    use super::*;

    #[test]
    fn a_reading_that_is_overtaken_takes_no_answer_back() {
        let rule = Rule { permission: "bash".to_owned(), pattern: "ls".to_owned(), action: Action::Allow };
        let mut state = State::default();
        let early = state.begin();
        state.unsaved.push(rule.clone());
        let late = state.begin();
        state.end(&late, vec![rule.clone()]);
        state.end(&early, Vec::new());
        assert_eq!((&state.stored, &state.unsaved), (&vec![rule], &Vec::new()));
    }
}
