//! Output of a command: its end in memory, all of it in a file once it is long.

use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
};

use tokio::sync::{mpsc, oneshot};
use windlass_base::text;
use windlass_core::config::ToolOutputLimits;
use windlass_protocol::opencode::part::MAX_LIVE_CHARS;

use crate::tool::{path::display, truncate};

/// Bytes that the last characters may take.
const MAX_LIVE_BYTES: usize = 4 * MAX_LIVE_CHARS;
/// A runaway command must not fill the disk.
const MAX_SAVED_BYTES: usize = 256 * 1024 * 1024;
/// Chunks on their way to the file.
const N_CHUNKS_AHEAD: usize = 4;

pub(super) struct Output {
    limits: ToolOutputLimits,
    directory: PathBuf,
    /// The last bytes.
    tail: Vec<u8>,
    /// The same as text for the user to watch, which never changes once it is shown.
    live: String,
    /// Bytes of all that text.
    n_printed: usize,
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

/// Output that remains once the command has ended.
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
            live: String::new(),
            n_printed: 0,
            n_bytes: 0,
            n_newlines: 0,
            saving: None,
            unsaved: Vec::new(),
        }
    }

    /// Takes more of the output, whole characters of it.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        self.n_printed += text.len();
        // Front parts are dropped rarely, so that each byte is moved about once.
        if self.live.len() > 2 * MAX_LIVE_BYTES {
            self.live = text::tail(&self.live, MAX_LIVE_BYTES).to_owned();
        }
        self.live.push_str(&text);
        let n_kept = self.limits.max_bytes.saturating_mul(2);
        self.n_bytes += bytes.len();
        self.n_newlines += bytes.iter().filter(|byte| **byte == b'\n').count();
        self.tail.extend_from_slice(bytes);
        match &self.saving {
            Some(_) => self.unsaved.extend_from_slice(bytes),
            None if self.n_bytes > n_kept => self.start_saving(),
            None => {}
        }
        if self.tail.len() > n_kept.saturating_mul(2) {
            self.tail.drain(..self.tail.len() - n_kept);
        }
    }

    /// Hands the text that has come since to the file. Dropping it loses nothing.
    pub(super) async fn save(&mut self) {
        let Some(saving) = self.saving.as_ref().filter(|_| !self.unsaved.is_empty()) else { return };
        if let Ok(permit) = saving.sender.reserve().await {
            permit.send(std::mem::take(&mut self.unsaved));
        } else {
            // The file failed; its error is reported at the end.
            self.unsaved.clear();
        }
    }

    /// Returns the end of the output, for the user to watch.
    pub(super) fn live(&self) -> &str {
        let start = self.live.char_indices().rev().nth(MAX_LIVE_CHARS - 1);
        &self.live[start.map_or(0, |(start, _)| start)..]
    }

    /// Bytes of the text of which [`Output::live`] is the end.
    pub(super) fn n_printed(&self) -> usize {
        self.n_printed
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
                let text = format!(
                    "...output truncated...\n\nThe full output could not be saved: {error}\n\n{kept}"
                );
                Finished { text, is_truncated, saved: None }
            }
        }
    }

    fn tail_text(&self) -> String {
        // A cut may have gone through a character.
        let n_torn = if self.n_bytes > self.tail.len() {
            self.tail.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count()
        } else {
            0
        };
        String::from_utf8_lossy(&self.tail[n_torn..]).into_owned()
    }

    /// Starts the file; must be called while all output so far is in `tail`.
    fn start_saving(&mut self) {
        let (sender, mut chunks) = mpsc::channel::<Vec<u8>>(N_CHUNKS_AHEAD);
        let directory = self.directory.clone();
        let (ended, task) = oneshot::channel();
        // A thread of its own: the command may go on for long, and the pool serves everybody's files and pipes.
        let mut saving = move || {
            let (path, mut file) = truncate::create(&directory)?;
            let mut n_left = MAX_SAVED_BYTES;
            while let Some(chunk) = chunks.blocking_recv() {
                if let Err(error) = append(&mut file, &chunk, &mut n_left) {
                    // A file that is not reported must not take the room that is left.
                    let _ = std::fs::remove_file(&path);
                    return Err(error);
                }
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
