//! Adds up the usage of the stored sessions: by day, model, project and tool.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
};

use windlass_base::{clock::Zone, money};
use windlass_core::storage::counts::{Counted, CountedCall, CountedMessage};
use windlass_protocol::opencode::{id::SessionId, session::Session, tokens::Tokens};

use crate::{EngineError, Sessions};

/// The usage to add up.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Beginning of the time to count, in milliseconds since the epoch.
    pub since: i64,
    /// Only the project with this id, root directory or name of that.
    pub project: Option<String>,
    /// Time zone in which days begin.
    pub zone: Zone,
}

/// Sums of a day, a model, a project or everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Sessions of the user; those of subagents belong to them.
    pub n_sessions: usize,
    pub n_prompts: usize,
    pub n_answers: usize,
    pub cost: f64,
    pub tokens: Tokens,
    sessions: HashSet<SessionId>,
}

/// Calls of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    pub n_calls: usize,
    pub n_failed: usize,
}

/// Usage and its purpose.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    pub total: Counts,
    /// Tokens of the session in the middle.
    pub median_tokens: u64,
    /// By date (`2026-11-03`), the first first.
    pub days: Vec<(String, Counts)>,
    /// By `provider/model`, the dearest first.
    pub models: Vec<(String, Counts)>,
    /// By root directory, the dearest first.
    pub projects: Vec<(PathBuf, Counts)>,
    /// By name, the most called first.
    pub tools: Vec<(String, Calls)>,
}

struct Adding {
    scope: Scope,
    owners: HashMap<String, Owner>,
    total: Counts,
    days: BTreeMap<String, Counts>,
    models: HashMap<String, Counts>,
    projects: HashMap<PathBuf, Counts>,
    tools: HashMap<String, Calls>,
    /// Tokens of each of the user's sessions.
    tokens: HashMap<SessionId, u64>,
}

/// Session and project to which the messages of a session count.
struct Owner {
    /// The user's session: itself, or the one that it works for.
    session: SessionId,
    /// The directory its project is in.
    root: PathBuf,
    /// Older messages were copied from another session, and count there.
    created: i64,
}

impl Counts {
    /// Adds up the tokens, read and written.
    pub fn n_tokens(&self) -> u64 {
        n_tokens(&self.tokens)
    }

    fn add(&mut self, session: &SessionId, message: &CountedMessage<'_>) {
        if !self.sessions.contains(session) {
            self.sessions.insert(session.clone());
            self.n_sessions += 1;
        }
        self.n_answers += usize::from(message.model.is_some());
        // A model's message to a subagent is no prompt of the user's.
        self.n_prompts += usize::from(message.is_prompt && message.session_id == session.as_str());
        self.cost = money::sum(self.cost, message.cost);
        self.tokens.add(&message.tokens);
    }
}

fn n_tokens(tokens: &Tokens) -> u64 {
    tokens.context() + tokens.output + tokens.reasoning
}

impl Sessions<'_> {
    /// Adds up the usage of the stored sessions.
    pub async fn stats(self, scope: Scope) -> Result<Stats, EngineError> {
        let sessions = self.engine.0.storage.sessions_since(scope.since).await?;
        let parents: HashMap<&SessionId, &SessionId> =
            sessions.iter().filter_map(|it| Some((&it.id, it.parent_id.as_ref()?))).collect();
        let mut owners = HashMap::new();
        let mut wanted = Vec::new();
        for session in &sessions {
            let root = project_root(session);
            if scope.project.as_deref().is_some_and(|project| !is_project(project, session, &root)) {
                continue;
            }
            let mut top = &session.id;
            while let Some(parent) = parents.get(top) {
                top = parent;
            }
            let owner = Owner { session: top.clone(), root, created: session.time.created };
            owners.insert(session.id.as_str().to_owned(), owner);
            wanted.push(session.id.clone());
        }
        let adding = Adding {
            scope,
            owners,
            total: Counts::default(),
            days: BTreeMap::new(),
            models: HashMap::new(),
            projects: HashMap::new(),
            tools: HashMap::new(),
            tokens: HashMap::new(),
        };
        let added = self.engine.0.storage.count(wanted, adding, |adding, counted| match counted {
            Counted::Message(message) => adding.message(&message),
            Counted::Call(call) => adding.call(&call),
        });
        Ok(added.await?.ended())
    }
}

impl Adding {
    fn message(&mut self, message: &CountedMessage<'_>) {
        let Some(Owner { session, root, created }) = self.owners.get(message.session_id) else { return };
        if message.created < self.scope.since.max(*created) {
            return;
        }
        self.total.add(session, message);
        self.days.entry(self.scope.zone.date(message.created)).or_default().add(session, message);
        if let Some((provider, model)) = message.model {
            self.models.entry(format!("{provider}/{model}")).or_default().add(session, message);
        }
        self.projects.entry(root.clone()).or_default().add(session, message);
        *self.tokens.entry(session.clone()).or_default() += n_tokens(&message.tokens);
    }

    fn call(&mut self, call: &CountedCall<'_>) {
        let Some(Owner { created, .. }) = self.owners.get(call.session_id) else { return };
        if call.start.is_some_and(|start| start < self.scope.since.max(*created)) {
            return;
        }
        let calls = self.tools.entry(call.tool.to_owned()).or_default();
        calls.n_calls += 1;
        calls.n_failed += usize::from(call.has_failed);
    }

    fn ended(self) -> Stats {
        let mut tokens: Vec<u64> = self.tokens.into_values().collect();
        tokens.sort_unstable();
        let mut tools: Vec<(String, Calls)> = self.tools.into_iter().collect();
        tools.sort_by(|(a, one), (b, other)| other.n_calls.cmp(&one.n_calls).then_with(|| a.cmp(b)));
        Stats {
            total: self.total,
            median_tokens: tokens.get(tokens.len() / 2).copied().unwrap_or_default(),
            days: self.days.into_iter().collect(),
            models: dearest_first(self.models),
            projects: dearest_first(self.projects),
            tools,
        }
    }
}

fn dearest_first<K: Ord>(counts: HashMap<K, Counts>) -> Vec<(K, Counts)> {
    let mut counts: Vec<(K, Counts)> = counts.into_iter().collect();
    counts.sort_by(|(a, one), (b, other)| {
        let by_cost = other.cost.total_cmp(&one.cost);
        by_cost.then_with(|| other.n_tokens().cmp(&one.n_tokens())).then_with(|| a.cmp(b))
    });
    counts
}

/// Returns the directory of the repository that a session works in, or its own.
fn project_root(session: &Session) -> PathBuf {
    let directory = Path::new(&session.directory);
    let below = session.path.as_deref().filter(|path| !path.is_empty()).map(Path::new);
    let root = below.and_then(|below| {
        let is_below = directory.ends_with(below);
        is_below.then(|| directory.ancestors().nth(below.components().count())).flatten()
    });
    root.filter(|root| *root != Path::new("/")).unwrap_or(directory).to_owned()
}

fn is_project(project: &str, session: &Session, root: &Path) -> bool {
    let name = root.file_name().is_some_and(|name| name == project);
    name || session.project_id == project || root == Path::new(project)
}

#[cfg(test)]
mod tests;
