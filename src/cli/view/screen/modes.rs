//! The modes of a terminal: typed text is not shown while pictures are drawn, and everything is put back afterwards.

use std::{
    fs::File,
    sync::{Arc, Mutex, OnceLock},
};

use nix::{
    sys::{
        signal::{Signal, raise},
        termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr},
    },
    unistd::{getpgrp, tcgetpgrp},
};
use windlass_base::lock::lock;

use crate::cli::ask::ahead::Ahead;

/// The modes of one terminal.
pub struct Modes {
    terminal: File,
    /// The modes that it had, while they are others.
    saved: Mutex<Option<Termios>>,
    /// Has modes of its own, in which nothing is shown, for as long as it keeps typed keys.
    ahead: OnceLock<Arc<Ahead>>,
}

impl Modes {
    pub fn new(terminal: File) -> Self {
        Self { terminal, saved: Mutex::new(None), ahead: OnceLock::new() }
    }

    /// Has typed keys kept here, and taken out of the terminal before the process stops.
    pub fn keep_typed(&self, ahead: Arc<Ahead>) {
        // It is the only one that this process has.
        let _ = self.ahead.set(ahead);
    }

    /// Returns true if another job has the terminal: its screen is not ours, nor are its modes.
    pub fn is_background(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group != getpgrp())
    }

    /// Keeps typed keys from being shown in the middle of a picture.
    pub fn quiet(&self) {
        if let Some(ahead) = self.ahead.get() {
            ahead.keep();
            return;
        }
        let mut saved = lock(&self.saved);
        if saved.is_some() {
            return;
        }
        let Ok(modes) = tcgetattr(&self.terminal) else { return };
        let mut quiet = modes.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        if tcsetattr(&self.terminal, SetArg::TCSANOW, &quiet).is_ok() {
            *saved = Some(modes);
        }
    }

    /// Puts the modes back.
    pub fn restore(&self) {
        if let Some(modes) = lock(&self.saved).take()
            && !self.is_background()
        {
            // A terminal that is gone needs no modes.
            let _ = tcsetattr(&self.terminal, SetArg::TCSANOW, &modes);
        }
    }

    /// Stops the process, with the terminal in the modes that the shell had; returns when it is continued.
    pub fn stop(&self) {
        let ahead = self.ahead.get();
        let modes = ahead.and_then(|ahead| ahead.leave());
        // The process goes on behind this once it is continued.
        let _ = raise(Signal::SIGSTOP);
        if let (Some(ahead), Some(modes)) = (ahead, modes) {
            ahead.come_back(&modes);
        }
    }
}
