//! The calls that a server works on: how far each has come, and the way to its caller.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::{Notify, mpsc};
use windlass_base::{lock::lock, text};

use super::{
    Progress,
    wishes::{Completion, Wish},
};

/// Bytes of a report of progress that are shown.
const MAX_MESSAGE: usize = 200;

/// Numbers the calls.
static NEXT_CALL: AtomicU64 = AtomicU64::new(0);

/// Pages of one server that may be open.
const MAX_PAGES: usize = 64;

/// Waiting calls, by the token under which the server reports their progress.
#[derive(Debug, Default)]
pub(super) struct WatchedCalls {
    calls: Mutex<HashMap<ProgressToken, Arc<Watched>>>,
    /// Number of questions that the server asks at the moment.
    n_asking: AtomicUsize,
    /// Pages that the user opens or has opened, by the server's ids.
    pages: Mutex<HashMap<String, Option<Completion>>>,
}

/// A page of a server that the user is asked to open.
pub(super) struct AskedPage<'a> {
    pages: &'a Mutex<HashMap<String, Option<Completion>>>,
    id: String,
}

impl AskedPage<'_> {
    /// Notes that the user has opened it, and the completion to run when the server has done with it.
    pub(super) fn opened(self, completion: Completion) {
        lock(self.pages).insert(self.id.clone(), Some(completion));
    }
}

impl Drop for AskedPage<'_> {
    fn drop(&mut self) {
        let mut pages = lock(self.pages);
        if pages.get(&self.id).is_some_and(Option::is_none) {
            pages.remove(&self.id);
        }
    }
}

/// Counts one thing that the server wants to know, until it is dropped.
pub(super) struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WatchedCalls {
    /// Returns the way to the newest call's caller. A server does not say which of its calls it asks for, so there is
    /// none while it works for several sessions: no session is shown another's requests.
    pub(super) fn newest(&self) -> Option<mpsc::Sender<Wish>> {
        let calls = lock(&self.calls);
        let callers = || calls.values().filter_map(|call| Some((call.order, call.caller.as_ref()?)));
        let (_, (session, wishes)) = callers().max_by_key(|(order, _)| *order)?;
        callers().all(|(_, (other, _))| other == session).then(|| wishes.clone())
    }

    /// Notes that the server wants to know something, until the guard is dropped.
    pub(super) fn asks(&self) -> Asking<'_> {
        self.n_asking.fetch_add(1, Ordering::Relaxed);
        Asking(&self.n_asking)
    }

    /// Notes that the user is asked to open a page; `None` if it is open already, or if too many are.
    pub(super) fn page(&self, id: &str) -> Option<AskedPage<'_>> {
        let mut pages = lock(&self.pages);
        if pages.len() >= MAX_PAGES || pages.contains_key(id) {
            return None;
        }
        pages.insert(id.to_owned(), None);
        Some(AskedPage { pages: &self.pages, id: id.to_owned() })
    }

    /// Passes on that the server has done with a page that the user has opened.
    pub(super) fn page_completed(&self, id: &str) {
        let completion = {
            let mut pages = lock(&self.pages);
            let is_open = pages.get(id).is_some_and(Option::is_some);
            if is_open { pages.remove(id).flatten() } else { None }
        };
        if let Some(Completion(complete)) = completion {
            complete();
        }
    }

    /// Returns true while the server waits for an answer.
    pub(super) fn is_asking(&self) -> bool {
        self.n_asking.load(Ordering::Relaxed) > 0
    }

    pub(super) fn insert(&self, token: ProgressToken, call: Arc<Watched>) {
        lock(&self.calls).insert(token, call);
    }

    pub(super) fn remove(&self, token: &ProgressToken) {
        lock(&self.calls).remove(token);
    }

    pub(super) fn progressed(&self, progress: ProgressNotificationParam) {
        if let Some(call) = lock(&self.calls).get(&progress.progress_token) {
            let ProgressNotificationParam { progress: done, total, message, .. } = progress;
            let message = message.map(|message| text::head(&message, MAX_MESSAGE).to_owned());
            *lock(&call.newest) = Progress { done, total, message };
            call.changed.notify_one();
        }
    }
}

/// One call: its newest sign of progress, and the way to its caller.
#[derive(Debug)]
pub(super) struct Watched {
    order: u64,
    newest: Mutex<Progress>,
    changed: Notify,
    /// The session that made it, and the way there.
    caller: Option<(String, mpsc::Sender<Wish>)>,
}

impl Watched {
    /// `caller` is the session that makes the call, and the way there.
    pub(super) fn new(caller: Option<(String, mpsc::Sender<Wish>)>) -> Self {
        Self {
            order: NEXT_CALL.fetch_add(1, Ordering::Relaxed),
            newest: Mutex::default(),
            changed: Notify::new(),
            caller,
        }
    }

    /// Waits for a sign of progress.
    pub(super) async fn next(&self) -> Progress {
        self.changed.notified().await;
        lock(&self.newest).clone()
    }
}
