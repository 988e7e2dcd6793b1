//! Changes that are stored and wait for the shared log before they are shown: the work goes on meanwhile, and later
//! changes go to the log together with those that wait.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use windlass_base::lock::lock;
use windlass_core::{
    bus::Bus,
    storage::{Write, outlet::Outlet},
};
use windlass_protocol::opencode::event::EventPayload;

use crate::EngineError;

/// Changes that may wait; with more, the work waits too.
const MAX_WAITING: usize = 64;

/// The changes of one session that wait.
#[derive(Default)]
pub struct Ahead(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: Vec<Stored>,
    /// Sends them, while there are some.
    sender: Option<AbortOnDropHandle<()>>,
    /// The fault of changes that nobody waited for.
    fault: Option<EngineError>,
}

/// A journal's changes, which are stored.
pub struct Stored {
    pub writes: Vec<Write>,
    pub events: Vec<EventPayload>,
    /// Called once they are shown.
    pub on_shown: Option<Box<dyn FnOnce() + Send>>,
    /// Told how that ended, where somebody waits for it.
    pub waiter: Option<oneshot::Sender<Result<(), EngineError>>>,
}

impl Ahead {
    /// Returns true if no changes wait, so that the next may be shown without a look at others.
    pub fn is_idle(&self) -> bool {
        let state = lock(&self.0);
        state.sender.is_none() && state.fault.is_none()
    }

    /// Returns true if the work has to wait for its next changes.
    pub fn is_full(&self) -> bool {
        lock(&self.0).waiting.len() >= MAX_WAITING
    }

    /// Adds changes behind those that wait. Fails for the fault of earlier ones.
    pub fn push(&self, stored: Stored, outlet: &Outlet, bus: &Bus) -> Result<(), EngineError> {
        let mut state = lock(&self.0);
        if let Some(fault) = state.fault.take() {
            return Err(fault);
        }
        state.waiting.push(stored);
        if state.sender.is_none() {
            let (shared, outlet, bus) = (self.0.clone(), outlet.clone(), bus.clone());
            let sending = tokio::spawn(async move { send(&shared, &outlet, &bus).await });
            state.sender = Some(AbortOnDropHandle::new(sending));
        }
        Ok(())
    }
}

async fn send(state: &Mutex<State>, outlet: &Outlet, bus: &Bus) {
    while let Some(mut batch) = next(lock(state)) {
        let writes = batch.iter_mut().flat_map(|stored| std::mem::take(&mut stored.writes)).collect();
        let sent = outlet.send(writes).await.map_err(EngineError::from);
        if sent.is_err() {
            // Later changes go to the log behind these, or not at all.
            batch.append(&mut lock(state).waiting);
        }
        let is_awaited = batch.iter().any(|stored| stored.waiter.is_some());
        for Stored { events, on_shown, waiter, .. } in batch {
            if sent.is_ok() {
                events.into_iter().for_each(|event| bus.publish(event));
                on_shown.into_iter().for_each(|on_shown| on_shown());
            }
            if let Some(waiter) = waiter {
                // A turn that was dropped waits for nothing.
                let _ = waiter.send(sent.clone());
            }
        }
        if let Err(fault) = sent
            && !is_awaited
        {
            lock(state).fault = Some(fault);
        }
    }
}

/// Returns all changes that wait; `None`, and the end of the sender, if there are none.
fn next(mut state: MutexGuard<'_, State>) -> Option<Vec<Stored>> {
    if state.waiting.is_empty() {
        // It is this task.
        state.sender.take().map(AbortOnDropHandle::detach);
        return None;
    }
    Some(std::mem::take(&mut state.waiting))
}
