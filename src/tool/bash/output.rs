//! What a command said: the end of it in memory, all of it in a file once it is long.

use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
};

use tokio::sync::{mpsc, oneshot};

use crate::{
    config::ToolOutputLimits,
    tool::{path::display, truncate},
};

const MAX_LIVE_CHARS: usize = 30_000;
/// A runaway command must not fill the disk.
const MAX_SAVED_BYTES: usize = 256 * 1024 * 1024;
/// Chunks on their way to the file.
const N_CHUNKS_AHEAD: usize = 4;

pub(super) struct Output {
    limits: ToolOutputLimits,
    directory: PathBuf,
    /// The last bytes.
    tail: Vec<u8>,
    n_bytes: usize,
    n_newlines: usize,
    saving: Option<Saving>,
    unsaved: Vec<u8>,
}

/// The thread that writes the file.
struct Saving {
    sender: mpsc::Sender<Vec<u8>>,
    task: oneshot::Receiver<io::Result<PathBuf>>,
}

/// What remains once the command has ended.
pub(super) struct Finished {
    /// For the model, within the limits.
    pub text: String,
    pub is_truncated: bool,
    pub saved: Option<PathBuf>,
}

impl Output {
    pub(super) fn new(limits: ToolOutputLimits, directory: PathBuf) -> Self {
        Self {
            limits,
            directory,
            tail: Vec::new(),
            n_bytes: 0,
            n_newlines: 0,
            saving: None,
            unsaved: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let n_kept = self.limits.max_bytes.saturating_mul(2);
        self.n_bytes += bytes.len();
        self.n_newlines += bytes.iter().filter(|byte| **byte == b'\n').count();
        self.tail.extend_from_slice(bytes);
        match &self.saving {
            Some(_) => self.unsaved.extend_from_slice(bytes),
            None if self.n_bytes > n_kept => self.start_saving(),
            None => {}
        }
        let n_surplus = self.tail.len().saturating_sub(n_kept);
        self.tail.drain(..n_surplus);
    }

    /// Hands what has come since to the file. Dropping it loses nothing.
    pub(super) async fn save(&mut self) {
        let Some(saving) = self.saving.as_ref().filter(|_| !self.unsaved.is_empty()) else { return };
        if let Ok(permit) = saving.sender.reserve().await {
            permit.send(std::mem::take(&mut self.unsaved));
        } else {
            // The file failed; its error is reported at the end.
            self.unsaved.clear();
        }
    }

    /// The end of the output, for the user to watch.
    pub(super) fn live(&self) -> String {
        let text = self.tail_text();
        match text.char_indices().rev().nth(MAX_LIVE_CHARS - 1) {
            Some((start, _)) => text[start..].to_owned(),
            None => text,
        }
    }

    pub(super) async fn finish(mut self) -> Finished {
        let ends_within_line = self.tail.last().is_some_and(|byte| *byte != b'\n');
        let n_lines = self.n_newlines + usize::from(ends_within_line);
        let is_truncated = self.n_bytes > self.limits.max_bytes || n_lines > self.limits.max_lines;
        if is_truncated && self.saving.is_none() {
            self.start_saving();
        }
        self.save().await;
        let text = self.tail_text();
        if !is_truncated {
            return Finished { text, is_truncated, saved: None };
        }
        let saved = match self.saving {
            Some(Saving { sender, task }) => {
                drop(sender);
                task.await.map_err(io::Error::other).flatten()
            }
            None => Err(io::Error::other("was never begun")),
        };
        let kept = truncate::tail(&text, self.limits);
        match saved {
            Ok(path) => Finished {
                text: format!("...output truncated...\n\nFull output saved to: {}\n\n{kept}", display(&path)),
                is_truncated,
                saved: Some(path),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot save a command's output");
                Finished { text: format!("...output truncated...\n\n{kept}"), is_truncated, saved: None }
            }
        }
    }

    fn tail_text(&self) -> String {
        // A cut may have gone through a character.
        let n_torn = match self.n_bytes > self.tail.len() {
            true => self.tail.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count(),
            false => 0,
        };
        String::from_utf8_lossy(&self.tail[n_torn..]).into_owned()
    }

    /// Must be called while everything said so far is in `tail`.
    fn start_saving(&mut self) {
        let (sender, mut chunks) = mpsc::channel::<Vec<u8>>(N_CHUNKS_AHEAD);
        let directory = self.directory.clone();
        let (ended, task) = oneshot::channel();
        // A thread of its own: the command may go on for long, and the pool serves everybody's files and pipes.
        let mut saving = move || {
            let (path, mut file) = truncate::create(&directory)?;
            let mut n_left = MAX_SAVED_BYTES;
            while let Some(chunk) = chunks.blocking_recv() {
                append(&mut file, &chunk, &mut n_left)?;
            }
            Ok(path)
        };
        // Without a thread the receiver sees the channel closed, which is reported with the output.
        let _ =
            std::thread::Builder::new().name("save-output".to_owned()).spawn(move || ended.send(saving()));
        self.saving = Some(Saving { sender, task });
        self.unsaved = self.tail.clone();
    }
}

fn append(file: &mut File, chunk: &[u8], n_left: &mut usize) -> io::Result<()> {
    if *n_left == 0 {
        return Ok(());
    }
    let (kept, dropped) = chunk.split_at(chunk.len().min(*n_left));
    *n_left -= kept.len();
    file.write_all(kept)?;
    if !dropped.is_empty() {
        *n_left = 0;
    }
    if *n_left == 0 {
        file.write_all(format!("\n[output beyond {MAX_SAVED_BYTES} bytes was not saved]\n").as_bytes())?;
    }
    Ok(())
}
