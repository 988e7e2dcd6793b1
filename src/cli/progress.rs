//! The progress of long work, as a line of a terminal that goes again; nothing anywhere else.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use windlass_base::lock::lock;

use super::{output, view::line::width};

/// Time in which work is done without a word.
const SILENCE: Duration = Duration::from_millis(400);
/// Time between two drawings.
const PAUSE: Duration = Duration::from_millis(200);

/// See the module's comment. The line goes with it.
pub struct Progress {
    shared: Arc<(Mutex<State>, Condvar)>,
    drawing: Option<JoinHandle<()>>,
}

struct State {
    text: String,
    is_drawn: bool,
    is_over: bool,
}

impl Progress {
    /// Shows on a terminal from now on that this is being done.
    pub fn of(text: impl Into<String>) -> Self {
        Self::shown(text.into(), io::stderr().is_terminal())
    }

    fn shown(text: String, is_terminal: bool) -> Self {
        let state = State { text, is_drawn: false, is_over: false };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let own = shared.clone();
        // A thread of its own: the work may block the others.
        let drawing = is_terminal.then(|| std::thread::spawn(move || draw(&own)));
        Self { shared, drawing }
    }

    /// Has the line show this from now on.
    pub fn say(&self, text: impl Into<String>) {
        lock(&self.shared.0).text = text.into();
    }

    /// Prints above the line.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        let mut state = lock(&self.shared.0);
        clear(&mut state);
        print()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        lock(&self.shared.0).is_over = true;
        self.shared.1.notify_all();
        if let Some(drawing) = self.drawing.take() {
            // It has no way to panic.
            let _ = drawing.join();
        }
    }
}

/// Draws until the work is over.
fn draw(shared: &(Mutex<State>, Condvar)) {
    let begun = Instant::now();
    let mut state = lock(&shared.0);
    let mut pause = SILENCE;
    while !state.is_over {
        let waited = shared.1.wait_timeout(state, pause);
        state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        if state.is_over || begun.elapsed() < SILENCE {
            continue;
        }
        pause = PAUSE;
        let line = line(&state.text, begun.elapsed(), output::columns());
        state.is_drawn = true;
        // Progress that cannot be shown holds nothing up.
        let _ = io::stderr().write_all(format!("\r{line}\x1b[K").as_bytes());
    }
    clear(&mut state);
}

fn clear(state: &mut State) {
    if std::mem::take(&mut state.is_drawn) {
        let _ = io::stderr().write_all(b"\r\x1b[K");
    }
}

/// Returns the line, which is never as wide as the terminal: it would wrap.
fn line(text: &str, elapsed: Duration, columns: usize) -> String {
    let time = format!(" … {} s", elapsed.as_secs());
    let room = columns.saturating_sub(time.chars().count() + 1);
    let (mut shown, mut n_columns) = (String::new(), 0);
    for char in output::plain(text).chars() {
        n_columns += width(char.encode_utf8(&mut [0; 4]));
        if n_columns > room {
            break;
        }
        shown.push(char);
    }
    shown + &time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_into_its_terminal() {
        let after = |columns| line("Importing 3 of 200 sessions", Duration::from_secs(12), columns);
        assert_eq!(after(80), "Importing 3 of 200 sessions … 12 s");
        assert_eq!(after(20), "Importing 3  … 12 s");
        assert_eq!(line("読み込み中", Duration::ZERO, 12), "読み … 0 s");
    }
}
