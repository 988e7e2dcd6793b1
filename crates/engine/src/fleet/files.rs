//! The files of shared sessions: sent to a git remote behind each step that changed some, and brought to the next machine.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;
use windlass_base::{figures, lock::lock};
use windlass_core::{
    config::secrets,
    snapshot::{Commit, Difference, Draft, Remote, RemoteError, Restored, SnapshotError, Snapshots},
    storage::outlet::SharedError,
};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::SessionId,
    message::MessageWithParts,
    part::PartKind,
    service::ToastVariant,
    tool_metadata::{AskedConfig, encode},
};
use windlass_shared::Shared;

use super::Fleet;
use crate::{
    Answerable,
    asking::asks::Confirmation,
    git::{Git, GitError},
    session::context::SessionCx,
    tools::FILES,
};

/// Trees that wait to be sent at most; of more, the oldest are left out.
const MAX_WAITING: usize = 64;
/// Commits behind each other; then the next begins anew.
const MAX_COMMITS: usize = 500;
/// Time for which a session waits for its files before it is given to another node.
const SENT_LIMIT: Duration = Duration::from_secs(5);
/// Time in which the files of a session have to come.
const BROUGHT_LIMIT: Duration = Duration::from_secs(30);
/// Time for which no prompt and no end waits for a remote that was too slow.
const SLOW_PAUSE: Duration = Duration::from_secs(5 * 60);
/// Questions about one coming of files: the directory may change while one waits.
const MAX_QUESTIONS: usize = 3;
/// Files that a message names.
const MAX_NAMED: usize = 5;
/// Notes beside a worktree's snapshots: it has the files of a session, another machine has them, or the user wants none
/// of those.
const HERE: &str = "here";
const ELSEWHERE: &str = "elsewhere";
const UNWANTED: &str = "unwanted";

/// The files of the sessions that are open here.
#[derive(Default)]
pub struct FilesState {
    sessions: Mutex<HashMap<SessionId, Files>>,
    sent: Notify,
    /// The time until which the remote counts as too slow.
    slow_until: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Files {
    /// They are in the worktree here: steps are sent. It is known with the first prompt.
    are_here: bool,
    trees: VecDeque<String>,
    is_sending: bool,
    chain: Option<Chain>,
    /// Everything that the user was told, or will be.
    told: HashSet<String>,
    /// Words for the user, for the time of a turn: editors show nothing outside of one.
    to_tell: Vec<String>,
}

/// The commits of a session, as this process sent or fetched them.
#[derive(Debug, Clone)]
struct Chain {
    newest: String,
    base: String,
    n_commits: usize,
    /// The tree of the newest, before files were left out of it.
    snapshot: String,
}

/// The lines in the message of a commit.
#[derive(Debug, PartialEq, Eq)]
struct Label {
    /// The tree of the step, of which the commit may lack files.
    snapshot: String,
    base: String,
    node: String,
}

/// The reason for which files did not travel.
#[derive(Debug, thiserror::Error)]
enum FilesError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Shared(#[from] SharedError),
    #[error("the user's commit is not known: {0}")]
    Head(#[from] GitError),
    #[error("{0} was not written by a node of the fleet")]
    Foreign(String),
    #[error("the remote does not answer in time")]
    Slow,
    #[error("the session is not shared any more")]
    Gone,
}

impl From<SnapshotError> for FilesError {
    fn from(error: SnapshotError) -> Self {
        Self::Remote(error.into())
    }
}

/// The end of bringing files.
enum Brought {
    /// They are here; the words say how.
    Here(String),
    /// The user wants those of the directory.
    Unwanted(String),
    /// They are still elsewhere.
    Not(String),
}

impl Fleet<'_> {
    /// Returns true if the files of a session are sent from here.
    pub(crate) fn sends_files(self, id: &SessionId) -> bool {
        self.remote(id).is_some() && lock(&self.files().sessions).get(id).is_some_and(|files| files.are_here)
    }

    /// Sends the files of a session behind a step, beside the work: `trees` are those before and behind it.
    pub(crate) fn send_files(self, id: &SessionId, snapshots: &Arc<Snapshots>, trees: [&str; 2]) {
        // The step of a subagent is part of its parent's, which alone is known here.
        if !self.sends_files(id) || !self.found().is_some_and(|shared| shared.holds(id)) {
            return;
        }
        let mut sessions = lock(&self.files().sessions);
        let Some(files) = sessions.get_mut(id) else { return };
        let last = files.trees.back().or(files.chain.as_ref().map(|chain| &chain.snapshot));
        if last.map_or(trees[0] == trees[1], |last| *last == trees[1]) {
            return;
        }
        let is_new = last.is_none_or(|last| *last != trees[0]);
        files.trees.extend(is_new.then(|| trees[0].to_owned()));
        files.trees.push_back(trees[1].to_owned());
        while files.trees.len() > MAX_WAITING {
            files.trees.pop_front();
        }
        if !std::mem::replace(&mut files.is_sending, true) {
            let (engine, id, snapshots) = (self.engine.clone(), id.clone(), snapshots.clone());
            self.engine
                .0
                .background_tasks
                .run(async move { engine.fleet().send_waiting(&id, &snapshots).await });
        }
    }

    fn files(&self) -> &FilesState {
        &self.engine.0.fleet.files
    }

    /// Returns the place of a session's files, if they are to come along.
    fn remote(self, id: &SessionId) -> Option<Remote> {
        let settings = &self.engine.0.fleet.setting.get()?.settings;
        let url = settings.worktrees.clone().filter(|url| !url.is_empty())?;
        // It is part of a path, and may come from elsewhere.
        SessionId::parse(id.as_str()).ok()?;
        Some(Remote { url, reference: format!("refs/windlass/{id}") })
    }

    async fn send_waiting(self, id: &SessionId, snapshots: &Snapshots) {
        loop {
            let (trees, chain) = {
                let mut sessions = lock(&self.files().sessions);
                let Some(files) = sessions.get_mut(id) else { return };
                if files.trees.is_empty() {
                    files.is_sending = false;
                    self.files().sent.notify_waiters();
                    return;
                }
                (std::mem::take(&mut files.trees), files.chain.take())
            };
            let sent = self.send(id, snapshots, trees.into(), chain).await;
            let told = match &sent {
                Ok((_, left_out)) if left_out.is_empty() => None,
                Ok((_, left_out)) => {
                    let names = named(left_out);
                    Some(format!("Files that usually hold secrets stay on this machine: {names}."))
                }
                Err(error) => {
                    Some(format!("The files of this session were not sent along: {}.", shown(error)))
                }
            };
            if let Some(files) = lock(&self.files().sessions).get_mut(id) {
                files.chain = sent.ok().map(|(chain, _)| chain);
                if let Some(told) = told.filter(|told| files.told.insert(told.clone())) {
                    tracing::warn!(session = %id, "{told}");
                    files.to_tell.push(told);
                }
            }
        }
    }

    /// Sends trees, each as a commit behind the last.
    async fn send(
        self,
        id: &SessionId,
        snapshots: &Snapshots,
        trees: Vec<String>,
        chain: Option<Chain>,
    ) -> Result<(Chain, Vec<PathBuf>), FilesError> {
        let shared = self.found().ok_or(FilesError::Gone)?;
        let remote = self.remote(id).ok_or(FilesError::Gone)?;
        let head = self.user_commit(snapshots.worktree()).await?;
        let known = match chain {
            Some(chain) => Some(chain),
            None => self.fetch(shared, snapshots, id, &remote, &head).await?.map(|(commits, label)| Chain {
                newest: commits.first().map(|commit| commit.id.clone()).unwrap_or_default(),
                base: label.base,
                n_commits: commits.len(),
                snapshot: label.snapshot,
            }),
        };
        let last = known.as_ref().map(|chain| chain.newest.clone());
        let mut chain = match known {
            Some(chain) if chain.n_commits < MAX_COMMITS => chain,
            _ => {
                let base = snapshots.find_base(&remote, &head).await?;
                Chain { newest: base.clone(), base, n_commits: 0, snapshot: String::new() }
            }
        };
        let mut left_out = Vec::new();
        let n_trees = trees.len();
        for (at, snapshot) in trees.into_iter().enumerate() {
            let draft = match snapshots.draft(&snapshot, &head, &chain.newest).await {
                // A file that has gone since need not be there.
                Err(RemoteError::Key { .. }) if at + 1 < n_trees => continue,
                draft => draft?,
            };
            let Draft { tree, left_out: of_tree } = draft;
            left_out = of_tree;
            let label = Label {
                snapshot: snapshot.clone(),
                base: chain.base.clone(),
                node: shared.name().to_owned(),
            };
            let text = label.text(id, &tree, &chain.newest);
            let seal = shared.seal(&text).await?;
            let message = format!("{text}Seal: {seal}\n");
            chain.newest = snapshots.make_commit(&tree, &chain.newest, &message).await?;
            chain.snapshot = snapshot;
            chain.n_commits += 1;
        }
        shared.check(id)?;
        let pushed = snapshots.push(&remote, &chain.newest, last.as_deref()).await;
        if let Err(RemoteError::Snapshot(SnapshotError::Slow)) = &pushed {
            self.note_slow();
        }
        pushed?;
        Ok((chain, left_out))
    }

    /// Returns the commits of a session, the newest first, if nodes of this fleet have made them.
    async fn fetch(
        self,
        shared: &Shared,
        snapshots: &Snapshots,
        id: &SessionId,
        remote: &Remote,
        head: &str,
    ) -> Result<Option<(Vec<Commit>, Label)>, FilesError> {
        let Some(newest) = snapshots.fetch(remote, head).await? else { return Ok(None) };
        let foreign = || FilesError::Foreign(remote.reference.clone());
        let label = self.label(shared, id, &newest).await?.ok_or_else(foreign)?;
        let commits = snapshots.read_chain(&newest.id, &label.base).await?;
        for commit in &commits {
            let of_commit = self.label(shared, id, commit).await?.ok_or_else(foreign)?;
            if of_commit.base != label.base {
                return Err(foreign());
            }
        }
        Ok(Some((commits, label)))
    }

    /// Returns the label of a commit that a node of this fleet has made.
    async fn label(
        self,
        shared: &Shared,
        id: &SessionId,
        commit: &Commit,
    ) -> Result<Option<Label>, SharedError> {
        let (text, seal) = commit.message.split_once("Seal: ").unwrap_or((&commit.message, ""));
        let is_own = shared.is_sealed(text, seal.trim()).await?;
        Ok(Label::read(text, id, commit).filter(|_| is_own))
    }

    /// Returns the commit that the user has checked out.
    async fn user_commit(self, worktree: &Path) -> Result<String, FilesError> {
        let git = Git::open(&self.engine.0.git, worktree, &self.engine.0.paths.cache()).await?;
        Ok(git.line(&["rev-parse", "--verify", "HEAD^{commit}"]).await?)
    }

    fn note_slow(self) {
        *lock(&self.files().slow_until) = Some(Instant::now() + SLOW_PAUSE);
    }

    fn is_slow(self) -> bool {
        lock(&self.files().slow_until).is_some_and(|until| Instant::now() < until)
    }

    /// Waits until the files of a session, or of all, are sent, for a time.
    pub(super) async fn files_sent(self, id: Option<&SessionId>, limit: Duration) {
        let files = self.files();
        let is_idle = || {
            let sessions = lock(&files.sessions);
            sessions.iter().all(|(of, files)| id.is_some_and(|id| id != of) || !files.is_sending)
        };
        let idle = async {
            loop {
                let notified = files.sent.notified();
                if is_idle() {
                    return;
                }
                notified.await;
            }
        };
        let limit = if self.is_slow() { Duration::ZERO } else { limit };
        if timeout(limit, idle).await.is_err() {
            self.note_slow();
            tracing::warn!("the files of a session were not sent in time");
        }
    }

    pub(super) async fn files_of_session_sent(self, id: &SessionId) {
        self.files_sent(Some(id), SENT_LIMIT).await;
    }

    /// Forgets the commits of a session that is another node's from now on.
    pub(super) fn forget_files(self, id: &SessionId) {
        let mut sessions = lock(&self.files().sessions);
        if let Some(Files { to_tell, .. }) = sessions.remove(id).filter(|files| !files.to_tell.is_empty()) {
            sessions.insert(id.clone(), Files { to_tell, ..Files::default() });
        }
    }

    /// Notes that a session's files are elsewhere, until they have come.
    pub(super) async fn files_are_elsewhere(self, id: &SessionId) {
        if let (Some(_), Some(snapshots)) = (self.remote(id), self.snapshots_of(id).await) {
            write_note(&snapshots, id, ELSEWHERE);
        }
    }

    /// Returns true if a session's files have still to come here.
    pub(crate) fn has_files_elsewhere(self, id: &SessionId, snapshots: &Snapshots) -> bool {
        self.remote(id).is_some() && snapshots.read_note(id.as_str()).as_deref() == Some(ELSEWHERE)
    }

    /// Removes the files of a session that is being deleted.
    pub(super) async fn remove_files(self, id: &SessionId) {
        let Some(remote) = self.remote(id) else { return };
        let Some(snapshots) = self.snapshots_of(id).await else { return };
        self.files_of_session_sent(id).await;
        snapshots.remove_note(id.as_str());
        if self.is_slow() {
            return;
        }
        match timeout(SENT_LIMIT, snapshots.remove(&remote)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = secrets::text(&error.to_string());
                tracing::warn!(error, "the files of the deleted session stay at the remote");
            }
            Err(_) => {
                tracing::warn!("the files of the deleted session stay at the remote, which is too slow")
            }
        }
    }

    async fn snapshots_of(self, id: &SessionId) -> Option<Arc<Snapshots>> {
        let info = self.engine.storage().session(id.clone()).await.ok()??;
        let worktree = self.engine.workspaces().project_root(Path::new(&info.directory));
        Some(self.engine.snapshots(&worktree))
    }

    /// Brings the files of a session that was another machine's, before a prompt. Returns words about it for the model.
    pub(crate) async fn bring_files(
        self,
        cx: &SessionCx,
        snapshots: &Snapshots,
        history: &[MessageWithParts],
        is_undone: bool,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let shared = self.found().filter(|shared| shared.root(&cx.id).as_ref() == Some(&cx.id))?;
        let remote = self.remote(&cx.id)?;
        self.tell_of_files(&cx.id);
        let note = snapshots.read_note(cx.id.as_str());
        let (last, has_changes) = last_snapshot(history);
        if note.as_deref() == Some(UNWANTED) {
            return None;
        }
        let was_elsewhere = note.as_deref() == Some(ELSEWHERE);
        let Some(last) = last.filter(|_| note.as_deref() != Some(HERE)) else {
            self.note_here(&cx.id, snapshots);
            return None;
        };
        let brought = async {
            if self.is_slow() {
                return Err(FilesError::Slow);
            }
            let fetched = async {
                let head = self.user_commit(snapshots.worktree()).await?;
                self.fetch(shared, snapshots, &cx.id, &remote, &head).await
            };
            let fetched = timeout(BROUGHT_LIMIT, fetched).await.unwrap_or_else(|_| {
                self.note_slow();
                Err(FilesError::Slow)
            });
            match fetched? {
                Some((commits, label)) => {
                    let brought = self.put(cx, snapshots, &commits, &label).await?;
                    let is_late = label.snapshot != last && !is_undone;
                    let late = is_late.then(|| {
                        format!(
                            " What the last step at {} changed had not been sent when it ended.",
                            label.node
                        )
                    });
                    Ok(match brought {
                        Brought::Here(words) => Brought::Here(words + late.as_deref().unwrap_or_default()),
                        brought => brought,
                    })
                }
                None if has_changes && was_elsewhere => {
                    Ok(Brought::Here("No files of this session came along: the remote has none.".to_owned()))
                }
                None => Ok(Brought::Here(String::new())),
            }
        };
        let brought = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                self.engine.0.asking.asks.withdraw_apart(&cx.id);
                return None;
            }
            brought = brought => brought,
        };
        let words = match brought {
            Ok(Brought::Here(words)) => {
                self.note_here(&cx.id, snapshots);
                words
            }
            Ok(Brought::Unwanted(words)) => {
                write_note(snapshots, &cx.id, UNWANTED);
                words
            }
            Ok(Brought::Not(words)) => words,
            Err(error) => format!("The files of this session did not come along: {}.", shown(&error)),
        };
        let words = words.trim().to_owned();
        if words.is_empty() {
            return None;
        }
        self.tell(&cx.id, words.clone());
        Some(format!("<session-files>{words}</session-files>"))
    }

    /// Notes that a worktree has the files of a session, so that its steps are sent from there.
    fn note_here(self, id: &SessionId, snapshots: &Snapshots) {
        if snapshots.read_note(id.as_str()).as_deref() != Some(HERE) {
            write_note(snapshots, id, HERE);
        }
        lock(&self.files().sessions).entry(id.clone()).or_default().are_here = true;
    }

    /// Puts the files of the newest commit into the worktree. It asks where they have changes that no commit has.
    async fn put(
        self,
        cx: &SessionCx,
        snapshots: &Snapshots,
        commits: &[Commit],
        label: &Label,
    ) -> Result<Brought, FilesError> {
        let Some(newest) = commits.first() else { return Ok(Brought::Here(String::new())) };
        let mut allowed: Vec<PathBuf> = Vec::new();
        for _ in 0..=MAX_QUESTIONS {
            let now = snapshots.track_all().await?;
            let Difference { mut behind, own } = snapshots.compare(commits, &label.base, &now).await?;
            let (to_ask, given): (Vec<_>, Vec<_>) = own.into_iter().partition(|path| !allowed.contains(path));
            if to_ask.is_empty() {
                behind.extend(given);
                if behind.is_empty() {
                    return Ok(Brought::Here(String::new()));
                }
                return Ok(Brought::Here(told_of(&snapshots.put(behind, newest, &now).await?, label)));
            }
            let names = named(&to_ask);
            let stayed = |why: &str| {
                let node = &label.node;
                format!(
                    "The files of this session stayed at {node}{why}: this directory has changes of its own in {names}."
                )
            };
            if !cx.engine.clients().can_answer(&cx.id, Answerable::Everything) {
                return Ok(Brought::Not(stayed(", since nobody can be asked")));
            }
            let changes = format!(
                "put the files of this session from {} over changes of this directory, for good: {names}",
                label.node
            );
            let metadata = encode(&AskedConfig { changes: &changes, prompt: &lines(&to_ask) });
            match cx.engine.asks().confirm(&cx.id, FILES, metadata).await {
                // The directory may have changed since.
                Confirmation::Yes => allowed.extend(to_ask),
                Confirmation::No => return Ok(Brought::Unwanted(stayed(""))),
                Confirmation::Withdrawn => return Ok(Brought::Not(stayed(", since nobody has answered"))),
            }
        }
        Ok(Brought::Not(
            "The files of this session did not come along: the directory changes all the time.".to_owned(),
        ))
    }

    /// Looks whether the remote of the files can be reached; `None` where there is none.
    pub async fn files_remote(self, worktree: &Path) -> Option<Result<String, String>> {
        let remote = self.remote(&SessionId::from_trusted("ses_none"))?;
        let snapshots = self.engine.snapshots(worktree);
        let looked = async {
            let head = self.user_commit(worktree).await?;
            Ok(snapshots.find_base(&remote, &head).await?)
        };
        let looked = timeout(SENT_LIMIT, looked).await.unwrap_or(Err(FilesError::Slow));
        let url = secrets::text(&remote.url);
        Some(looked.map(|_| url.clone()).map_err(|error| format!("{url}: {}", shown(&error))))
    }

    /// Tells the user of files that were not sent. A turn has to run.
    pub(crate) fn tell_of_files(self, id: &SessionId) {
        let to_tell =
            lock(&self.files().sessions).get_mut(id).map(|files| std::mem::take(&mut files.to_tell));
        for told in to_tell.into_iter().flatten() {
            self.tell(id, told);
        }
    }

    fn tell(self, id: &SessionId, title: String) {
        self.engine.bus().publish(EventPayload::Toast {
            session_id: id.clone(),
            title,
            message: String::new(),
            variant: ToastVariant::Info,
        });
    }
}

impl Label {
    /// Returns the lines of a message, but for its seal.
    fn text(&self, id: &SessionId, tree: &str, parent: &str) -> String {
        let Self { snapshot, base, node } = self;
        let node = node.replace('\n', " ");
        format!(
            "The files of a session\n\nSession: {id}\nTree: {tree}\nParent: {parent}\nSnapshot: {snapshot}\n\
             Base: {base}\nNode: {node}\n"
        )
    }

    /// Reads the lines of a message, which have to be about this commit of the session.
    fn read(text: &str, id: &SessionId, commit: &Commit) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
        };
        let own = [("Session", id.as_str()), ("Tree", &commit.tree), ("Parent", &commit.parent)];
        own.iter().all(|(name, value)| field(name).as_deref() == Some(value)).then_some(())?;
        Some(Self { snapshot: field("Snapshot")?, base: field("Base")?, node: field("Node")? })
    }
}

/// Returns the newest tree of a history, and whether any step of it changed files.
fn last_snapshot(history: &[MessageWithParts]) -> (Option<&str>, bool) {
    let parts = || history.iter().rev().flat_map(|message| message.parts.iter().rev());
    let last = parts().find_map(|part| match &part.kind {
        PartKind::StepStart { snapshot } | PartKind::StepFinish { snapshot, .. } => snapshot.as_deref(),
        _other => None,
    });
    let has_changes =
        parts().any(|part| matches!(&part.kind, PartKind::Patch { files, .. } if !files.is_empty()));
    (last, has_changes)
}

fn write_note(snapshots: &Snapshots, id: &SessionId, text: &str) {
    if let Err(error) = snapshots.write_note(id.as_str(), text) {
        tracing::warn!(%error, "it is not noted where the files of a session are");
    }
}

fn told_of(restored: &Restored, label: &Label) -> String {
    let Restored { changed, skipped } = restored;
    if changed.is_empty() && skipped.is_empty() {
        return String::new();
    }
    let count = figures::counted(changed.len(), "file");
    let mut told = format!("{count} of this session came along from {}.", label.node);
    if !skipped.is_empty() {
        let names = named(skipped);
        told.push_str(&format!(" Others are in their place, which no snapshot holds, and stay: {names}."));
    }
    told
}

/// Returns the words of an error without passwords of the remote's URL.
fn shown(error: &FilesError) -> String {
    secrets::text(&error.to_string())
}

fn named(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().take(MAX_NAMED).map(|path| path.display().to_string()).collect();
    let rest = files.len().saturating_sub(MAX_NAMED);
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    names.join(", ") + &rest
}

fn lines(files: &[PathBuf]) -> String {
    files.iter().map(|path| format!("{}\n", path.display())).collect()
}
