//! Subagents that work on behind the call that started them, or are moved there while it waits: their number, their end,
//! and the way of their results.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;
use windlass_protocol::opencode::{id::SessionId, model_ref::ModelRef};

use super::{
    EngineError, EngineErrorKind, PromptInput, PromptPart, Sessions, TurnOutcome,
    session::{request::SpentBelow, warning_log::WarningLog},
};

/// Subagents of one session that may work in the background at a time.
pub const MAX_JOBS: usize = 8;

/// The subagents in the background, by the session that they work for.
#[derive(Default)]
pub struct Background {
    jobs: Mutex<HashMap<SessionId, Vec<Job>>>,
    /// Subagents that a call waits for, and that may be moved.
    awaited: Mutex<Vec<Awaited>>,
    /// Number of results that are still to come.
    n_open: watch::Sender<usize>,
}

struct Job {
    link: SubagentLink,
    cancel: CancellationToken,
    /// Prompts that it has not answered.
    n_prompts: usize,
}

/// A subagent that a call waits for.
struct Awaited {
    link: SubagentLink,
    cancel: CancellationToken,
    moved: oneshot::Sender<Open>,
}

/// A result that is to come. Its session above may wait for it until this is dropped.
pub struct Open(watch::Sender<usize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|n_open| *n_open = n_open.saturating_sub(1));
    }
}

/// The result of a subagent, for the session that it worked for.
pub struct Report {
    /// Text for the model.
    pub text: String,
    pub spent: SpentBelow,
}

/// A subagent's session and the one that it works for.
#[derive(Clone)]
pub struct SubagentLink {
    pub parent: SessionId,
    pub child: SessionId,
    /// Everything that the subagent had spent when its last result was handed on.
    pub counted: Arc<Mutex<SpentBelow>>,
    /// Warnings that the user has seen in the session above.
    pub warning_log: WarningLog,
}

impl Background {
    /// Takes a place for another subagent; `None` if there is none left. The token ends its work.
    pub fn begin(&self, link: &SubagentLink) -> Option<(CancellationToken, Open)> {
        let mut jobs = lock(&self.jobs);
        let jobs = jobs.entry(link.parent.clone()).or_default();
        if jobs.len() >= MAX_JOBS {
            return None;
        }
        let cancel = CancellationToken::new();
        jobs.push(Job { link: link.clone(), cancel: cancel.clone(), n_prompts: 1 });
        Some((cancel, self.open()))
    }

    /// Gives a subagent that works in the background one more prompt; `None` if it does not.
    pub fn extend(
        &self,
        parent: &SessionId,
        child: &SessionId,
    ) -> Option<(SubagentLink, CancellationToken, Open)> {
        let mut jobs = lock(&self.jobs);
        let job = jobs.get_mut(parent)?.iter_mut().find(|job| job.link.child == *child)?;
        job.n_prompts += 1;
        Some((job.link.clone(), job.cancel.clone(), self.open()))
    }

    /// Lets a subagent that a call waits for be moved to the background; the receiver is told of it. The token ends its
    /// work.
    pub fn wait(&self, link: &SubagentLink, cancel: CancellationToken) -> oneshot::Receiver<Open> {
        let (moved, receiver) = oneshot::channel();
        let mut awaited = lock(&self.awaited);
        awaited.retain(|other| !other.moved.is_closed());
        awaited.push(Awaited { link: link.clone(), cancel, moved });
        receiver
    }

    /// Moves the subagents that a session's calls wait for to the background, as far as there is room; false if there
    /// is none to move.
    pub fn move_here(&self, parent: &SessionId) -> bool {
        let mut all = lock(&self.jobs);
        let n_jobs = all.get(parent).map_or(0, Vec::len);
        let mut n_free = MAX_JOBS.saturating_sub(n_jobs);
        let mut is_taken = |subagent: &mut Awaited| {
            let is_taken = n_free > 0 && subagent.link.parent == *parent && !subagent.moved.is_closed();
            n_free -= usize::from(is_taken);
            is_taken
        };
        let mut moved = Vec::new();
        for subagent in lock(&self.awaited).extract_if(.., |it| is_taken(it)) {
            // Its call may have ended in this moment.
            if subagent.moved.send(self.open()).is_ok() {
                moved.push(Job { link: subagent.link, cancel: subagent.cancel, n_prompts: 1 });
            }
        }
        if moved.is_empty() {
            return false;
        }
        all.entry(parent.clone()).or_default().extend(moved);
        true
    }

    /// Notes that a prompt was answered. True if it was the subagent's last; `None` if its work was ended from above.
    pub fn answered(&self, link: &SubagentLink) -> Option<bool> {
        let mut all = lock(&self.jobs);
        let jobs = all.get_mut(&link.parent)?;
        let idx = jobs.iter().position(|job| job.link.child == link.child)?;
        jobs[idx].n_prompts -= 1;
        if jobs[idx].n_prompts > 0 {
            return Some(false);
        }
        jobs.swap_remove(idx);
        if jobs.is_empty() {
            all.remove(&link.parent);
        }
        Some(true)
    }

    /// Ends the work for a session; returns the subagents' sessions. Their results are not handed on.
    fn end(&self, parent: &SessionId) -> Vec<SessionId> {
        let jobs = lock(&self.jobs).remove(parent).unwrap_or_default();
        jobs.iter().for_each(|job| job.cancel.cancel());
        jobs.into_iter().map(|job| job.link.child).collect()
    }

    /// Returns the subagents that work for a session in the background.
    pub fn of(&self, parent: &SessionId) -> Vec<SessionId> {
        let jobs = lock(&self.jobs);
        jobs.get(parent).into_iter().flatten().map(|job| job.link.child.clone()).collect()
    }

    /// Waits until every result has reached its session.
    pub async fn idle(&self) {
        // `self` owns the sender, so it cannot be closed.
        let _ = self.n_open.subscribe().wait_for(|n_open| *n_open == 0).await;
    }

    fn open(&self) -> Open {
        self.n_open.send_modify(|n_open| *n_open += 1);
        Open(self.n_open.clone())
    }
}

impl<'a> Sessions<'a> {
    pub(super) fn background(self) -> &'a Background {
        &self.engine.0.background
    }

    /// Moves the subagents that a session's calls wait for to the background, so that its turn goes on without them;
    /// false if there is none to move.
    pub fn move_to_background(self, parent: &SessionId) -> bool {
        self.background().move_here(parent)
    }

    /// Ends the subagents in the background of a session that is closed.
    pub(super) fn close_background(self, parent: &SessionId) -> BoxFuture<'static, ()> {
        let (engine, children) = (self.engine.clone(), self.background().end(parent));
        // They may have some of their own.
        Box::pin(async move {
            for child in children {
                engine.sessions().close(&child).await;
            }
        })
    }

    /// Ends the subagents in the background of a session that the user stops.
    pub(super) fn cancel_background(self, parent: &SessionId) {
        for child in self.background().end(parent) {
            self.cancel(&child);
            let engine = self.engine.clone();
            self.engine.0.sessions.tasks.spawn(async move { engine.sessions().close(&child).await });
        }
    }

    /// Hands the end of a subagent's turn on to the session above, once it is there: into the turn that runs there, else
    /// as the prompt of a new one.
    pub(super) fn follow(
        self,
        link: SubagentLink,
        ended: oneshot::Receiver<Result<TurnOutcome, EngineError>>,
        open: Open,
        report: impl FnOnce(Result<TurnOutcome, EngineError>) -> BoxFuture<'static, Report> + Send + 'static,
    ) {
        let engine = self.engine.clone();
        self.engine.0.sessions.tasks.spawn(async move {
            let _open = open;
            let Ok(outcome) = ended.await else { return };
            let report = report(outcome).await;
            let Some(is_last) = engine.sessions().background().answered(&link) else { return };
            if is_last {
                engine.sessions().close(&link.child).await;
            }
            engine.sessions().hand_on(&link, report).await;
        });
    }

    async fn hand_on(self, link: &SubagentLink, report: Report) {
        let stored = self.engine.0.storage.session(link.parent.clone()).await.ok().flatten();
        let model = stored.and_then(|info| info.model).map(|model| ModelRef {
            provider_id: model.provider_id,
            model_id: model.id,
            variant: model.variant,
        });
        let part = PromptPart::Text { text: report.text, is_synthetic: true, is_ignored: false };
        let input =
            PromptInput { parts: vec![part], model, of_task: Some(report.spent), ..Default::default() };
        let (bus, warning_log) = (self.engine.0.bus.clone(), link.warning_log.clone());
        // Without a request behind it, nobody else is told.
        let on_end = move |outcome: Result<TurnOutcome, EngineError>| {
            if let Err(error) = outcome
                && !matches!(error.kind, EngineErrorKind::SessionNotFound(_))
            {
                let message = error.message;
                let text = format!("The result of a subagent in the background was not answered: {message}");
                warning_log.notify_once(&bus, &text);
            }
        };
        self.prompt(&link.parent, input, Box::new(on_end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_base::ids;

    #[test]
    fn the_number_of_subagents_is_bounded_and_each_ends_with_its_last_prompt_or_from_above() {
        let background = Background::default();
        let parent = ids::session();
        let link = || SubagentLink {
            parent: parent.clone(),
            child: ids::session(),
            counted: Arc::default(),
            warning_log: WarningLog::new(parent.clone()),
        };
        let links: Vec<SubagentLink> = (0..MAX_JOBS).map(|_| link()).collect();
        let mut begun: Vec<_> = links.iter().map(|link| background.begin(link).expect("room")).collect();
        assert!(background.begin(&link()).is_none());
        assert!(background.extend(&parent, &ids::session()).is_none());
        let more = background.extend(&parent, &links[0].child).expect("it works");
        assert_eq!(*background.n_open.borrow(), MAX_JOBS + 1);
        assert_eq!(background.answered(&links[0]), Some(false));
        drop(more);
        assert_eq!(background.answered(&links[0]), Some(true));
        assert!(background.begin(&link()).is_some(), "there is room again");
        assert_eq!(background.end(&parent).len(), MAX_JOBS);
        assert!(begun[1].0.is_cancelled());
        assert_eq!(background.answered(&links[1]), None);
        begun.clear();
        assert_eq!(*background.n_open.borrow(), 0);
    }
}
