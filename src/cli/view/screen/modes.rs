//! The modes of a terminal: typed text is not shown while pictures are drawn, and everything is put back afterwards.

use std::{fs::File, sync::Mutex};

use nix::{
    sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr},
    unistd::{getpgrp, tcgetpgrp},
};

use crate::base::lock::lock;

/// The modes of one terminal.
pub struct Modes {
    terminal: File,
    /// The modes that it had, while they are others.
    saved: Mutex<Option<Termios>>,
}

impl Modes {
    pub fn new(terminal: File) -> Self {
        Self { terminal, saved: Mutex::new(None) }
    }

    /// Returns true if another job has the terminal: its screen is not ours, nor are its modes.
    pub fn is_background(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group != getpgrp())
    }

    /// Keeps what is typed from being shown in the middle of a picture.
    pub fn quiet(&self) {
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
}
