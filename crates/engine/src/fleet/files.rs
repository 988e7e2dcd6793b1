//! The files of shared sessions: sent to a git remote behind each step that changed some, and brought to the next machine.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;
use windlass_base::{figures, lock::lock};
use windlass_core::{
    config::secrets,
    snapshot::{Apart, Draft, Remote, RemoteError, Restored, Snapshots, Tip},
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
use crate::{Answerable, asking::asks::Confirmation, git::Git, session::context::SessionCx, tools::FILES};

/// Trees that wait to be sent at most; of more, the oldest are left out.
const MAX_WAITING: usize = 64;
/// Commits behind each other; then the next begins anew.
const MAX_COMMITS: usize = 500;
/// Time for which a session waits for its files before it is given to another node, or the process ends.
const SENT_LIMIT: Duration = Duration::from_secs(10);
/// Time in which the files of a session have to come.
const BROUGHT_LIMIT: Duration = Duration::from_secs(30);
/// Files that a message names.
const MAX_NAMED: usize = 5;

/// The files that are being sent, and the sessions whose files came from elsewhere.
#[derive(Default)]
pub struct FilesState {
    sending: Mutex<HashMap<SessionId, Sending>>,
    /// Sessions that were another node's, until their files are here.
    to_bring: Mutex<HashSet<SessionId>>,
    sent: Notify,
}

#[derive(Default)]
struct Sending {
    trees: VecDeque<String>,
    is_running: bool,
    chain: Option<Chain>,
    /// Everything that the user was told, or will be.
    told: HashSet<String>,
    /// Words for the user, for the time of a turn: editors show nothing outside of one.
    to_tell: Vec<String>,
}

/// The commits of a session, as this process sent or fetched them.
#[derive(Debug, Clone)]
struct Chain {
    tip: String,
    base: String,
    n_commits: usize,
}

/// The message of a commit.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    /// The tree of the step, of which the commit may lack files.
    snapshot: String,
    base: String,
    node: String,
}

impl Fleet<'_> {
    /// Returns true if the files of a session travel.
    pub(crate) fn sends_files(self, id: &SessionId) -> bool {
        self.found().is_some_and(|shared| shared.holds(id)) && self.remote(id).is_some()
    }

    /// Sends the files of a session behind a step, beside the work: `trees` are those before and behind it.
    pub(crate) fn send_files(self, id: &SessionId, snapshots: &Arc<Snapshots>, trees: &[String]) {
        let (Some(shared), Some(_)) = (self.found(), self.remote(id)) else { return };
        // The step of a subagent is part of its parent's.
        if shared.root(id).as_ref() != Some(id) || !shared.holds(id) {
            return;
        }
        let mut all = lock(&self.files().sending);
        let sending = all.entry(id.clone()).or_default();
        for tree in trees {
            if sending.trees.back() != Some(tree) {
                sending.trees.push_back(tree.clone());
            }
        }
        while sending.trees.len() > MAX_WAITING {
            sending.trees.pop_front();
        }
        if !std::mem::replace(&mut sending.is_running, true) {
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
                let mut all = lock(&self.files().sending);
                let Some(sending) = all.get_mut(id) else { return };
                if sending.trees.is_empty() {
                    sending.is_running = false;
                    self.files().sent.notify_waiters();
                    return;
                }
                (std::mem::take(&mut sending.trees), sending.chain.clone())
            };
            let sent = self.send(id, snapshots, trees.into(), chain).await;
            let told = match &sent {
                Ok((_, left_out)) if left_out.is_empty() => None,
                Ok((_, left_out)) => {
                    let names = named(left_out);
                    Some(format!("Files that usually hold secrets stay on this machine: {names}."))
                }
                Err(error) => {
                    let error = secrets::text(&error.to_string());
                    Some(format!("The files of this session were not sent along: {error}."))
                }
            };
            if let Some(sending) = lock(&self.files().sending).get_mut(id) {
                sending.chain = sent.ok().map(|(chain, _)| chain);
                if let Some(told) = told.filter(|told| sending.told.insert(told.clone())) {
                    tracing::warn!(session = %id, "{told}");
                    sending.to_tell.push(told);
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
    ) -> Result<(Chain, Vec<PathBuf>), SendError> {
        let shared = self.found().ok_or(SendError::Gone)?;
        let remote = self.remote(id).ok_or(SendError::Gone)?;
        let head = self.head(snapshots.worktree()).await?;
        let known = match chain {
            Some(chain) => Some(chain),
            None => self.fetched(shared, snapshots, id, &remote, &head).await?.map(|(tip, said)| Chain {
                tip: tip.commit,
                base: said.base,
                n_commits: 0,
            }),
        };
        let last = known.as_ref().map(|chain| chain.tip.clone());
        let mut chain = match known {
            Some(chain) if chain.n_commits < MAX_COMMITS => chain,
            _ => {
                let base = snapshots.base(&remote, &head).await?;
                Chain { tip: base.clone(), base, n_commits: 0 }
            }
        };
        let mut left_out = Vec::new();
        let n_trees = trees.len();
        for (at, snapshot) in trees.into_iter().enumerate() {
            let draft = match snapshots.draft(&snapshot, &head, &chain.tip).await {
                // A file that has gone since need not be there.
                Err(RemoteError::Key { .. }) if at + 1 < n_trees => continue,
                draft => draft?,
            };
            let Draft { tree, left_out: of_tree } = draft;
            left_out = of_tree;
            let said = Said { snapshot, base: chain.base.clone(), node: shared.name().to_owned() };
            let text = said.text(id, &tree);
            let seal = shared.seal(&text).await.map_err(|error| SendError::Other(error.to_string()))?;
            let message = format!("{text}Seal: {seal}\n");
            chain.tip = snapshots.commit(&tree, &chain.tip, &message).await?;
            chain.n_commits += 1;
        }
        shared.check(id).map_err(|error| SendError::Other(error.to_string()))?;
        snapshots.push(&remote, &chain.tip, last.as_deref()).await?;
        Ok((chain, left_out))
    }

    /// Returns the newest commit of a session, if a node of this fleet has made it.
    async fn fetched(
        self,
        shared: &Shared,
        snapshots: &Snapshots,
        id: &SessionId,
        remote: &Remote,
        head: &str,
    ) -> Result<Option<(Tip, Said)>, SendError> {
        let Some(tip) = snapshots.tip(remote, head).await? else { return Ok(None) };
        let (text, seal) = tip.message.split_once("Seal: ").unwrap_or((&tip.message, ""));
        let is_own = shared.is_sealed(text, seal.trim()).await;
        let is_own = is_own.map_err(|error| SendError::Other(error.to_string()))?;
        match Said::read(text, id, &tip.tree).filter(|_| is_own) {
            Some(said) => Ok(Some((tip, said))),
            None => {
                Err(SendError::Other(format!("{} was not written by a node of the fleet", remote.reference)))
            }
        }
    }

    async fn head(self, worktree: &Path) -> Result<String, SendError> {
        let git = Git::open(&self.engine.0.git, worktree, &self.engine.0.paths.cache()).await;
        let head = async { git?.line(&["rev-parse", "--verify", "HEAD^{commit}"]).await };
        head.await.map_err(|error| SendError::Other(error.to_string()))
    }

    /// Waits until the files of a session, or of all, are sent.
    pub(super) async fn files_sent(self, id: Option<&SessionId>) {
        let files = self.files();
        let is_idle = || {
            let sending = lock(&files.sending);
            sending.iter().all(|(of, sending)| id.is_some_and(|id| id != of) || !sending.is_running)
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
        if timeout(SENT_LIMIT, idle).await.is_err() {
            tracing::warn!("the files of a session were not sent in time");
        }
    }

    /// Forgets the commits of a session that is another node's from now on.
    pub(super) fn forget_files(self, id: &SessionId) {
        let mut all = lock(&self.files().sending);
        if let Some(Sending { to_tell, .. }) = all.remove(id).filter(|sending| !sending.to_tell.is_empty()) {
            all.insert(id.clone(), Sending { to_tell, ..Sending::default() });
        }
        drop(all);
        lock(&self.files().to_bring).remove(id);
    }

    /// Notes that a session's files are elsewhere.
    pub(super) fn files_are_elsewhere(self, id: &SessionId) {
        lock(&self.files().to_bring).insert(id.clone());
    }

    /// Removes the files of a deleted session, beside the work.
    pub(super) fn remove_files(self, id: &SessionId, directory: PathBuf) {
        let Some(remote) = self.remote(id) else { return };
        let engine = self.engine.clone();
        self.engine.0.background_tasks.run(async move {
            let worktree = engine.workspaces().project_root(&directory);
            if let Err(error) = engine.snapshots(&worktree).remove(&remote).await {
                tracing::debug!(%error, "no files of the deleted session were removed");
            }
        });
    }

    /// Brings the files of a session that was another machine's, before a prompt: once for each time that it comes here.
    /// Returns words about it for the model.
    pub(crate) async fn bring_files(
        self,
        cx: &SessionCx,
        snapshots: &Snapshots,
        history: &[MessageWithParts],
        cancel: &CancellationToken,
    ) -> Option<String> {
        let shared = self.found().filter(|shared| shared.root(&cx.id).as_ref() == Some(&cx.id))?;
        self.tell_of_files(&cx.id);
        let remote = self.remote(&cx.id)?;
        let last = last_snapshot(history)?;
        let has_come = lock(&self.files().to_bring).contains(&cx.id);
        let is_here = async || {
            snapshots.noted(cx.id.as_str()).as_deref() == Some(last) || snapshots.has_tree(last).await
        };
        if !has_come && is_here().await {
            return None;
        }
        let brought = async {
            let head = self.head(snapshots.worktree()).await?;
            let fetched = timeout(BROUGHT_LIMIT, self.fetched(shared, snapshots, &cx.id, &remote, &head));
            let fetched =
                fetched.await.map_err(|_| SendError::Other("the remote takes too long".to_owned()))??;
            let Some((tip, said)) = fetched else {
                return Err(SendError::Other("the remote has none of them".to_owned()));
            };
            let told = self.put(cx, snapshots, &tip, &said).await?;
            Ok((told, said))
        };
        let brought = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                self.engine.0.asking.asks.withdraw_apart(&cx.id);
                return None;
            }
            brought = brought => brought,
        };
        let told = match brought {
            Ok((told, said)) => {
                lock(&self.files().to_bring).remove(&cx.id);
                if let Err(error) = snapshots.note(cx.id.as_str(), last) {
                    tracing::warn!(%error, "it is not noted that the files of a session have come");
                }
                let late = (said.snapshot != last).then(|| {
                    format!("What the last step at {} changed had not been sent when it ended.", said.node)
                });
                told.into_iter().chain(late).collect::<Vec<_>>().join(" ")
            }
            Err(error) => {
                let error = secrets::text(&error.to_string());
                format!("The files of this session did not come along: {error}.")
            }
        };
        if told.is_empty() {
            return None;
        }
        self.tell(&cx.id, told.clone());
        Some(told)
    }

    /// Puts the files of a commit into the worktree, and says so.
    async fn put(
        self,
        cx: &SessionCx,
        snapshots: &Snapshots,
        tip: &Tip,
        said: &Said,
    ) -> Result<Option<String>, SendError> {
        let now = snapshots.track_all().await.map_err(RemoteError::from)?;
        let Apart { behind, own } = snapshots.apart(tip, &said.base, &now).await?;
        if behind.is_empty() && own.is_empty() {
            return Ok(None);
        }
        let mut files = behind;
        if !own.is_empty() {
            let kept = if cx.engine.clients().can_answer(&cx.id, Answerable::Person) {
                let changes = format!(
                    "put the files of this session from {} over changes of this directory: {}",
                    said.node,
                    named(&own)
                );
                let metadata = encode(&AskedConfig { changes: &changes, prompt: &lines(&own) });
                let answer = cx.engine.asks().confirm(&cx.id, FILES, metadata).await;
                (answer != Confirmation::Yes).then_some("")
            } else {
                Some(", since nobody can be asked")
            };
            if let Some(reason) = kept {
                let names = named(&own);
                return Ok(Some(format!(
                    "The files of this session stayed at {}{reason}: this directory has changes of its own in {names}.",
                    said.node
                )));
            }
            files.extend(own);
        }
        let Restored { changed, skipped } =
            snapshots.put(files, tip, &now).await.map_err(RemoteError::from)?;
        let mut told = format!(
            "{} of this session came along from {}.",
            figures::counted(changed.len(), "file"),
            said.node
        );
        if !skipped.is_empty() {
            told.push_str(&format!(
                " Others are in their place, which no snapshot holds, and stay: {}.",
                named(&skipped)
            ));
        }
        Ok(Some(told))
    }

    /// Looks whether the remote of the files can be reached; `None` where there is none.
    pub async fn files_remote(self, worktree: &Path) -> Option<Result<String, String>> {
        let remote = self.remote(&SessionId::from_trusted("ses_none"))?;
        let snapshots = self.engine.snapshots(worktree);
        let looked = async {
            let head = self.head(worktree).await?;
            Ok::<_, SendError>(snapshots.base(&remote, &head).await?)
        };
        let shown = secrets::text(&remote.url);
        Some(
            looked
                .await
                .map(|_| shown.clone())
                .map_err(|error| format!("{shown}: {}", secrets::text(&error.to_string()))),
        )
    }

    /// Tells the user of files that were not sent. A turn has to run.
    pub(crate) fn tell_of_files(self, id: &SessionId) {
        let to_tell =
            lock(&self.files().sending).get_mut(id).map(|sending| std::mem::take(&mut sending.to_tell));
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

/// The reason for which files did not travel.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("{0}")]
    Remote(#[from] RemoteError),
    #[error("{0}")]
    Other(String),
    #[error("the session is not shared any more")]
    Gone,
}

impl Said {
    /// Returns the lines of a message, but for its seal.
    fn text(&self, id: &SessionId, tree: &str) -> String {
        let Self { snapshot, base, node } = self;
        let node = node.replace('\n', " ");
        format!(
            "The files of a session\n\nSession: {id}\nTree: {tree}\nSnapshot: {snapshot}\nBase: {base}\nNode: {node}\n"
        )
    }

    /// Reads the lines of a message about a tree of a session.
    fn read(text: &str, id: &SessionId, tree: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
        };
        let is_own =
            field("Session").as_deref() == Some(id.as_str()) && field("Tree").as_deref() == Some(tree);
        is_own.then_some(())?;
        Some(Self { snapshot: field("Snapshot")?, base: field("Base")?, node: field("Node")? })
    }
}

/// Returns the newest tree of a history.
fn last_snapshot(history: &[MessageWithParts]) -> Option<&str> {
    history.iter().rev().flat_map(|message| message.parts.iter().rev()).find_map(|part| match &part.kind {
        PartKind::StepStart { snapshot } | PartKind::StepFinish { snapshot, .. } => snapshot.as_deref(),
        _other => None,
    })
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
