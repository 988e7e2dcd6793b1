//! The terminal while a turn runs: finished rows go to the scrollback once, the others are redrawn below.
//!
//! Events are handed over without waiting; a thread of its own draws them and waits for the terminal. A terminal that
//! is not read holds up that thread alone, until the events that wait for it reach [`HIGH_WATER`].

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, IsTerminal},
    os::fd::AsFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{errno::Errno, sys::signal::Signal};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Notify, oneshot},
    task::AbortHandle,
};
use windlass_base::lock::lock;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    part::{PartKind, ToolState},
};

use self::{modes::Modes, pen::Pen};
use super::{below::Below, look::Look, progress::Closing};
use crate::cli::ask::ahead::Ahead;

mod modes;
mod pen;

/// Bytes of events that may wait for the terminal before the turn does.
const HIGH_WATER: usize = 1024 * 1024;
/// Bytes that an event takes beside its text, roughly.
const EVENT_SIZE: usize = 512;
/// The shortest time between two pictures.
const FRAME: Duration = Duration::from_millis(40);
/// The longest, while something is shown that moves.
const TICK: Duration = Duration::from_millis(100);
/// The same while nothing moves.
const REST: Duration = Duration::from_secs(3600);
/// Time that a terminal may take for its last picture when the process is about to stop or end.
const LAST_LIMIT: Duration = Duration::from_millis(200);

/// The error of a terminal that is not there any more.
const GONE: i32 = Errno::EIO as i32;

/// A terminal that is drawn on. Dropping it leaves the terminal as it was found.
pub struct Screen {
    shared: Arc<Shared>,
    modes: Arc<Modes>,
    thread: Option<JoinHandle<()>>,
    stopping: Option<AbortHandle>,
}

/// Keeps the screen from drawing until it is dropped, so that its owner can ask something.
pub struct Suspended {
    shared: Arc<Shared>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    drained: Notify,
}

#[derive(Default)]
struct Inbox {
    orders: VecDeque<Order>,
    weight: usize,
    is_closed: bool,
    n_suspended: usize,
    /// The system's number of the error after which nothing can be drawn.
    error: Option<i32>,
    is_ended: bool,
}

enum Order {
    Begin(SessionId),
    Event(Arc<Event>),
    Notice(String),
    Said(String),
    Below(Option<Below>),
    Thoughts(bool),
    End(Closing),
    /// Everything before is drawn, and nothing moves.
    Settle(oneshot::Sender<()>),
    /// Drawing goes on.
    Resume,
}

impl Screen {
    /// Begins to draw on standard output; nothing is shown before [`Screen::begin`].
    pub fn open(look: Look) -> io::Result<Self> {
        let terminal = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let modes = Arc::new(Modes::new(terminal.try_clone()?));
        let shared =
            Arc::new(Shared { inbox: Mutex::default(), arrived: Condvar::new(), drained: Notify::new() });
        let is_terminal = terminal.is_terminal();
        let (drawn, drawn_modes) = (shared.clone(), modes.clone());
        let thread = std::thread::Builder::new().name("terminal".to_owned());
        let thread = thread.spawn(move || drawn.draw(Pen::new(terminal, look, drawn_modes)))?;
        let stopping =
            is_terminal.then(|| tokio::spawn(stop_orderly(shared.clone(), modes.clone())).abort_handle());
        Ok(Self { shared, modes, thread: Some(thread), stopping })
    }

    /// Has typed keys kept here: none is left to the shell when the process is stopped.
    pub fn keep_typed(&self, ahead: Arc<Ahead>) {
        self.modes.keep_typed(ahead);
    }

    /// Shows a turn of this session, and of the subagents below it, from now on.
    pub fn begin(&self, session_id: &SessionId) {
        self.shared.push(Order::Begin(session_id.clone()), EVENT_SIZE);
    }

    /// Notes an event; never waits.
    pub fn event(&self, event: &Arc<Event>) {
        self.shared.push(Order::Event(event.clone()), weight(&event.payload));
    }

    /// Shows a sentence of ours between the others.
    pub fn notice(&self, text: &str) {
        self.shared.push(Order::Notice(text.to_owned()), EVENT_SIZE + text.len());
    }

    /// Shows a prompt that was typed before it begins.
    pub fn said(&self, text: &str) {
        self.shared.push(Order::Said(text.to_owned()), EVENT_SIZE + text.len());
    }

    /// Shows thoughts from now on, or shows them no more.
    pub fn show_thoughts(&self, is_shown: bool) {
        self.shared.push(Order::Thoughts(is_shown), 0);
    }

    /// Shows these rows below the turn's, at once.
    pub fn set_below(&self, below: Option<Below>) {
        self.shared.push(Order::Below(below), 0);
    }

    /// Ends when the terminal is not far behind, or fails when it is gone.
    pub async fn room(&self) -> io::Result<()> {
        self.shared.room().await
    }

    /// Draws everything noted so far, takes away the moving rows and gives the terminal back to its owner.
    pub async fn suspend(&self) -> io::Result<Suspended> {
        lock(&self.shared.inbox).n_suspended += 1;
        let suspended = Suspended { shared: self.shared.clone() };
        self.shared.settle().await?;
        Ok(suspended)
    }

    /// Shows how the turn ended, and waits until everything is on the terminal.
    pub async fn end(&self, closing: Closing) -> io::Result<()> {
        self.shared.push(Order::End(closing), EVENT_SIZE);
        self.shared.settle().await
    }
}

/// Returns true if a write failed because the terminal's window was closed.
pub fn is_hangup(error: &io::Error) -> bool {
    error.raw_os_error() == Some(GONE)
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(stopping) = &self.stopping {
            stopping.abort();
        }
        {
            let mut inbox = lock(&self.shared.inbox);
            inbox.is_closed = true;
            self.shared.arrived.notify_all();
            // A terminal that does not read by now loses the rest.
            let waiting = |inbox: &mut Inbox| !inbox.is_ended;
            let _ended = self.shared.arrived.wait_timeout_while(inbox, LAST_LIMIT, waiting);
        }
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(thread) = self.thread.take()
        {
            // A panic was reported by its hook.
            let _ = thread.join();
        }
        // The thread may still wait for a terminal that is not read.
        self.modes.restore();
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        lock(&self.shared.inbox).n_suspended -= 1;
        self.shared.push(Order::Resume, 0);
    }
}

impl Shared {
    fn push(&self, order: Order, weight: usize) {
        let mut inbox = lock(&self.inbox);
        if inbox.error.is_none() && !inbox.is_closed {
            inbox.orders.push_back(order);
            inbox.weight += weight;
        }
        drop(inbox);
        self.arrived.notify_all();
    }

    async fn room(&self) -> io::Result<()> {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Registers before the check, so that a drain in between is not missed.
            drained.as_mut().enable();
            {
                let inbox = lock(&self.inbox);
                if let Some(error) = inbox.error {
                    return Err(io::Error::from_raw_os_error(error));
                }
                if inbox.weight < HIGH_WATER {
                    return Ok(());
                }
            }
            drained.await;
        }
    }

    async fn settle(&self) -> io::Result<()> {
        let (sender, settled) = oneshot::channel();
        self.push(Order::Settle(sender), 0);
        match settled.await {
            Ok(()) => Ok(()),
            Err(_) => Err(io::Error::from_raw_os_error(lock(&self.inbox).error.unwrap_or(GONE))),
        }
    }

    /// Runs the thread: carries out orders and draws at most once per [`FRAME`].
    fn draw(&self, mut pen: Pen) {
        let mut orders = VecDeque::new();
        let mut settled: Vec<oneshot::Sender<()>> = Vec::new();
        let mut drawn = Instant::now().checked_sub(FRAME).unwrap_or_else(Instant::now);
        let mut is_moving = false;
        loop {
            let due = drawn + if is_moving { TICK } else { REST };
            let (is_closed, is_suspended) = self.wait(&mut orders, drawn, due);
            for order in orders.drain(..) {
                match order {
                    Order::Begin(session_id) => pen.begin(&session_id),
                    Order::Event(event) => pen.event(&event),
                    Order::Notice(text) => pen.notice(&text),
                    Order::Said(text) => pen.said(&text),
                    Order::Thoughts(is_shown) => pen.show_thoughts(is_shown),
                    Order::Below(below) => pen.set_below(below),
                    Order::End(closing) => pen.end(closing),
                    Order::Settle(sender) => settled.push(sender),
                    Order::Resume => {}
                }
            }
            let is_still = is_closed || is_suspended;
            drawn = Instant::now();
            let result = pen.draw(is_still);
            is_moving = matches!(result, Ok(true));
            for sender in settled.drain(..) {
                // The caller may have stopped waiting.
                let _ = sender.send(());
            }
            if let Err(error) = &result {
                self.lock().error = Some(error.raw_os_error().unwrap_or(GONE));
            }
            self.drained.notify_waiters();
            if is_closed || result.is_err() {
                break;
            }
        }
        drop(pen);
        let mut inbox = self.lock();
        inbox.is_ended = true;
        inbox.orders.clear();
        drop(inbox);
        self.arrived.notify_all();
        self.drained.notify_waiters();
    }

    /// Waits for orders or for the next picture; says whether the screen is closed and whether it is suspended.
    fn wait(&self, orders: &mut VecDeque<Order>, drawn: Instant, due: Instant) -> (bool, bool) {
        let mut inbox = self.lock();
        loop {
            inbox = match inbox.pause(Instant::now(), drawn, due) {
                Pause::None => {
                    orders.append(&mut inbox.orders);
                    inbox.weight = 0;
                    return (inbox.is_closed, inbox.n_suspended > 0);
                }
                Pause::For(time) => match self.arrived.wait_timeout(inbox, time) {
                    Ok((inbox, _)) => inbox,
                    Err(poisoned) => poisoned.into_inner().0,
                },
                Pause::UntilOrdered => self.arrived.wait(inbox).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }
}

/// The time for which the thread has nothing to do.
#[derive(Debug, PartialEq, Eq)]
enum Pause {
    None,
    For(Duration),
    /// The terminal belongs to the caller that suspended the screen.
    UntilOrdered,
}

impl Inbox {
    /// Returns the pause after the picture of `drawn`, when the next one is `due` without any order.
    fn pause(&self, now: Instant, drawn: Instant, due: Instant) -> Pause {
        let is_pressing = |order: &Order| matches!(order, Order::Settle(_) | Order::Begin(_));
        if self.is_closed || self.orders.iter().any(is_pressing) {
            return Pause::None;
        }
        if self.n_suspended > 0 {
            return Pause::UntilOrdered;
        }
        // Typed text is seen at once.
        if self.orders.iter().any(|order| matches!(order, Order::Below(_))) {
            return Pause::None;
        }
        let until = if self.orders.is_empty() { due } else { drawn + FRAME };
        if now >= until { Pause::None } else { Pause::For(until - now) }
    }
}

/// Leaves the terminal in order whenever its user stops the process by Ctrl-Z, and draws again afterwards.
async fn stop_orderly(shared: Arc<Shared>, modes: Arc<Modes>) {
    let Ok(mut stops) = signal(SignalKind::from_raw(Signal::SIGTSTP as i32)) else { return };
    while stops.recv().await.is_some() {
        shared.lock().n_suspended += 1;
        let _ = tokio::time::timeout(LAST_LIMIT, shared.settle()).await;
        modes.stop();
        drop(Suspended { shared: shared.clone() });
    }
}

fn weight(payload: &EventPayload) -> usize {
    let text = match payload {
        EventPayload::PartDelta { delta, .. } => delta.len(),
        EventPayload::PartUpdated { part, .. } => match &part.kind {
            PartKind::Text(text) => text.text.len(),
            PartKind::Reasoning(reasoning) => reasoning.text.len(),
            PartKind::Tool(tool) => match &tool.state {
                ToolState::Completed { output, .. } => 2 * output.len(),
                ToolState::Running { metadata, .. } => {
                    let output = metadata.as_ref().and_then(|metadata| metadata.get("output"));
                    output.and_then(serde_json::Value::as_str).map_or(0, str::len)
                }
                ToolState::Error { error, .. } => error.len(),
                ToolState::Pending { raw, .. } => raw.len(),
            },
            _ => 0,
        },
        _ => 0,
    };
    EVENT_SIZE + text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspended_screen_sleeps_whatever_arrives() {
        let now = Instant::now();
        let (drawn, due) = (now - FRAME * 2, now + REST);
        let mut inbox = Inbox::default();
        assert_eq!(inbox.pause(now, drawn, due), Pause::For(REST));
        inbox.orders.push_back(Order::Notice("a title came late".to_owned()));
        assert_eq!(inbox.pause(now, drawn, due), Pause::None);
        assert_eq!(inbox.pause(now, now, due), Pause::For(FRAME));
        inbox.n_suspended = 1;
        assert_eq!(inbox.pause(now, drawn, due), Pause::UntilOrdered);
        assert_eq!(inbox.pause(now, drawn, drawn), Pause::UntilOrdered);
        inbox.is_closed = true;
        assert_eq!(inbox.pause(now, drawn, due), Pause::None);
    }
}
