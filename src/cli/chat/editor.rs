//! The line that is being typed: edited, completed and remembered on a thread of its own, which waits for keys.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use nix::{
    sys::{
        signal::{Signal, kill, raise},
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
    },
    unistd::{getpgid, getpgrp, getppid, write},
};
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Event, EventContext, EventHandler, ExternalPrinter,
    KeyCode, KeyEvent, Modifiers, RepeatCount, error::ReadlineError, history::FileHistory,
};
use tokio::sync::oneshot;
use windlass_base::lock::lock;

use super::{reflow, words::Words};
use crate::cli::ask::ahead::{Ahead, NO_PASTE_MARKS, PASTE_MARKS};

/// Lines that are remembered.
const MAX_HISTORY: usize = 1000;
/// Milliseconds in which the rest of a key comes; Escape alone is a key then.
const KEY_MS: u16 = 50;

/// The person's action with the line.
pub enum Typed {
    /// Empty where Ctrl-C gave the line up.
    Line(String),
    /// Ctrl-C on an empty line.
    Interrupted,
    /// Ctrl-D on an empty line.
    End,
    /// A key that wants something of the chat, with the line so far.
    Wish(Wish, String),
    Failed(io::Error),
}

/// A wish of the person about the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The next agent answers.
    NextAgent,
    /// The line goes on in an editor.
    Edit,
    /// The clipboard's picture is attached.
    Paste,
    /// The last prompt comes back.
    TakeBack,
}

/// See the module's comment.
pub struct Editor {
    requests: mpsc::Sender<Request>,
    /// Gives the terminal back as it was found: the thread may wait for keys when the process ends.
    ahead: Option<Arc<Ahead>>,
    notices: Notices,
}

/// Shows lines above the one that is typed; made by the thread.
type Notices = Arc<Mutex<Option<Box<dyn ExternalPrinter + Send>>>>;

struct Request {
    prompt: String,
    /// Text that the line begins with, before all that was typed since.
    begun: String,
    words: Words,
    typed: oneshot::Sender<Typed>,
}

impl Editor {
    /// Starts the thread; lines are remembered in this file.
    pub fn start(history: &Path) -> io::Result<Self> {
        let ahead = Ahead::begin();
        let (requests, receiver) = mpsc::channel::<Request>();
        let history = history.to_owned();
        let thread = std::thread::Builder::new().name("editor".to_owned());
        let notices = Notices::default();
        let (own, typed) = (notices.clone(), ahead.clone());
        thread.spawn(move || edit(&receiver, &history, typed.as_deref(), &own))?;
        Ok(Self { requests, ahead, notices })
    }

    /// Returns the keeper of keys typed between lines; `None` where there is no terminal for it.
    pub fn ahead(&self) -> Option<Arc<Ahead>> {
        self.ahead.clone()
    }

    /// Shows lines above the one that is typed.
    pub fn notice(&self, text: &str) {
        if let Some(printer) = &mut *lock(&self.notices) {
            // A terminal that is gone shows nothing.
            let _ = printer.print(text.to_owned());
        }
    }

    /// Reads the next line, which begins with this text and all that was typed before. The terminal must have no other
    /// user until then.
    pub async fn read(&self, prompt: String, begun: String, words: Words) -> Typed {
        let (typed, answer) = oneshot::channel();
        let gone = || Typed::Failed(io::Error::other("the line editor has ended"));
        if self.requests.send(Request { prompt, begun, words, typed }).is_err() {
            return gone();
        }
        answer.await.unwrap_or_else(|_| gone())
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        if let Some(ahead) = &self.ahead {
            ahead.end();
        }
        let _ = write(io::stdout(), NO_PASTE_MARKS);
    }
}

/// Runs the thread that edits lines.
fn edit(requests: &mpsc::Receiver<Request>, history: &PathBuf, ahead: Option<&Ahead>, notices: &Notices) {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .keyseq_timeout(Some(KEY_MS))
        .history_ignore_space(true)
        .max_history_size(MAX_HISTORY);
    let config = config.map(rustyline::config::Builder::build).unwrap_or_default();
    let editor = rustyline::Editor::<Words, FileHistory>::with_config(config);
    let Ok(mut editor) = editor else { return };
    let is_given_up = Arc::new(AtomicBool::new(false));
    let wished: Wished = Arc::default();
    let newline = KeyEvent(KeyCode::Enter, Modifiers::ALT);
    editor.bind_sequence(newline, EventHandler::Simple(Cmd::Newline));
    editor
        .bind_sequence(KeyEvent::ctrl('c'), EventHandler::Conditional(Box::new(GiveUp(is_given_up.clone()))));
    editor.bind_sequence(
        KeyEvent::ctrl('z'),
        EventHandler::Conditional(Box::new(Stop { before: Mutex::new(ahead.map(Ahead::found)) })),
    );
    let wishes = [
        (vec![KeyEvent(KeyCode::BackTab, Modifiers::NONE)], Wish::NextAgent),
        (vec![KeyEvent::ctrl('g')], Wish::Edit),
        (vec![KeyEvent::ctrl('v')], Wish::Paste),
        (vec![KeyEvent::ctrl('x'), KeyEvent::ctrl('e')], Wish::Edit),
        (vec![KeyEvent(KeyCode::Esc, Modifiers::NONE)], Wish::TakeBack),
    ];
    for (keys, wish) in wishes {
        let handler = EventHandler::Conditional(Box::new(Wishes { wish, wished: wished.clone() }));
        editor.bind_sequence(Event::KeySeq(keys), handler);
    }
    if let Some(directory) = history.parent() {
        // Without it, lines are remembered for this chat alone.
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    }
    let _ = editor.load_history(history);
    let printer = editor.create_external_printer().ok();
    // The simplest of terminals edit their lines themselves.
    let is_edited = printer.is_some();
    *lock(notices) = printer.map(|it| Box::new(it) as _);
    while let Ok(Request { prompt, begun, words, typed }) = requests.recv() {
        editor.set_helper(Some(words));
        let typed_ahead = ahead.map(Ahead::take).unwrap_or_default();
        // An Enter alone, such as one behind an answer, is no line.
        let initial = begun + typed_ahead.trim_matches('\n');
        let initial = initial.as_str();
        let read = if is_edited {
            editor.readline_with_initial(prompt.as_str(), (initial, ""))
        } else {
            let _modes = ahead.and_then(Ahead::leave);
            let line = editor.readline(&format!("{prompt}{initial}"));
            if let Some(ahead) = ahead {
                ahead.keep();
            }
            line.map(|line| format!("{initial}{line}"))
        };
        let read = match read {
            Ok(line) => {
                if !line.trim().is_empty()
                    && editor.add_history_entry(line.as_str()).is_ok_and(|is_new| is_new)
                {
                    let _ = editor.append_history(history);
                }
                Typed::Line(line.replace("\\\n", "\n"))
            }
            Err(ReadlineError::Interrupted) if lock(&wished).is_some() => {
                let (wish, line) = lock(&wished).take().unwrap_or((Wish::TakeBack, String::new()));
                erase(&prompt, &line);
                Typed::Wish(wish, line)
            }
            Err(ReadlineError::Interrupted) if is_given_up.load(Ordering::Relaxed) => {
                Typed::Line(String::new())
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(ReadlineError::Eof) => Typed::End,
            Err(ReadlineError::Io(error)) => Typed::Failed(error),
            Err(error) => Typed::Failed(io::Error::other(error)),
        };
        // The chat may have ended meanwhile.
        let _ = typed.send(read);
    }
}

/// Notes for Ctrl-C whether it gives up a line or was typed on an empty one.
struct GiveUp(Arc<AtomicBool>);

impl ConditionalEventHandler for GiveUp {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, cx: &EventContext<'_>) -> Option<Cmd> {
        self.0.store(!cx.line().is_empty(), Ordering::Relaxed);
        Some(Cmd::Interrupt)
    }
}

/// A wish, and the line that it interrupts.
type Wished = Arc<Mutex<Option<(Wish, String)>>>;

/// Interrupts the line for a wish; a prompt comes back only into an empty line.
struct Wishes {
    wish: Wish,
    wished: Wished,
}

impl ConditionalEventHandler for Wishes {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, cx: &EventContext<'_>) -> Option<Cmd> {
        if self.wish == Wish::TakeBack && !cx.line().is_empty() {
            return Some(Cmd::Noop);
        }
        *lock(&self.wished) = Some((self.wish, cx.line().to_owned()));
        Some(Cmd::Interrupt)
    }
}

/// Takes the rows of a line away that was interrupted: it is drawn anew.
fn erase(prompt: &str, line: &str) {
    let n_rows = reflow::n_rows(&format!("{prompt}{line}"));
    let _ = write(io::stdout(), format!("\x1b[{n_rows}A\r\x1b[J").as_bytes());
}

/// Stops the job at Ctrl-Z, and takes the terminal back when it is continued.
///
/// The editor's own way goes on without waiting for the stop, so that its modes are set too early, and the shell's are
/// in force afterwards.
struct Stop {
    /// The terminal as it was found.
    before: Mutex<Option<Termios>>,
}

impl ConditionalEventHandler for Stop {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext<'_>) -> Option<Cmd> {
        let raw = tcgetattr(io::stdin()).ok();
        let put = |modes: &Option<Termios>| {
            if let Some(modes) = modes {
                // A terminal that is gone needs no modes.
                let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, modes);
            }
        };
        let _ = write(io::stdout(), NO_PASTE_MARKS);
        put(&lock(&self.before));
        // A script that started this process belongs to the job, and stops with it.
        let parent = getppid();
        if getpgid(Some(parent)).is_ok_and(|group| group == getpgrp()) {
            let _ = kill(parent, Signal::SIGTSTP);
        }
        // Sent to this thread: it goes on only when the process is continued.
        let _ = raise(Signal::SIGSTOP);
        put(&raw);
        let _ = write(io::stdout(), PASTE_MARKS);
        Some(Cmd::Repaint)
    }
}
