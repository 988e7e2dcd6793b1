//! The conversation in a terminal: `windlass chat`, `windlass run -i` and `windlass attach`.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, OnceLock},
};

use clap::Args;
use nix::sys::termios::tcgetattr;
use windlass_base::figures;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, PromptInput};
use windlass_protocol::opencode::{
    id::SessionId,
    message::{Message, MessageWithParts},
    session::Session,
};

use super::{
    daemon::sessions::{Past, Sessions},
    output,
    run::{
        args::{Format, RunArgs, TalkArgs},
        failure::Failure,
        shown::{Happened, Shown},
    },
    runtime::{self, Interrupts},
    view::{self, Draw, line, look::Look},
    worktree,
};

mod clipboard;
mod editor;
mod external;
mod first_run;
mod lines;
mod names;
mod own;
mod reflow;
mod texts;
mod words;

use editor::{Editor, Typed, Wish};
use first_run::Offer;
use lines::{Beside, Line};
use words::Words;

/// Says that a question has come while a line is typed.
const WAITING: &str = "A question waits for your answer: press Enter.";
/// Says that another client prompts the session while a line is typed.
const ELSEWHERE: &str =
    "Another client prompts this session. Its turn is shown when it has ended; Enter shows it at once.";

#[derive(Debug, Default, Args)]
pub struct ChatArgs {
    /// Words of the first prompt.
    pub message: Vec<String>,
    /// The first prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "message")]
    pub prompt: Option<String>,
    #[command(flatten)]
    pub talk: TalkArgs,
}

impl From<RunArgs> for ChatArgs {
    fn from(mut args: RunArgs) -> Self {
        Self { message: args.given().words, prompt: None, talk: args.talk }
    }
}

pub fn run(mut environment: Environment, mut args: ChatArgs) -> ExitCode {
    args.talk.bound(&mut environment);
    if !is_at_terminal() {
        let reason =
            "A chat needs a terminal on standard input and output; `windlass run` takes prompts from pipes.";
        return output::misuse(reason);
    }
    let paths = Paths::new(&environment);
    let look = Look::new(&environment, true, PathBuf::new());
    runtime::block_on(async move {
        let engine = Engine::new(environment.clone(), paths);
        runtime::serve_plugins(&engine);
        let worktree = match worktree::enter(&engine, &mut args.talk, runtime::signalled()).await {
            Ok(worktree) => worktree,
            Err(code) => {
                engine.abort().await;
                return code;
            }
        };
        let first = args.prompt.unwrap_or_else(|| args.message.join(" "));
        let sessions = Sessions::own(&engine, &args.talk);
        let leave = async {
            if let Some(worktree) = worktree {
                worktree::leave(worktree).await;
            }
        };
        match converse(sessions, &args.talk, first, look, environment).await {
            Ok(id) => {
                engine.finish().await;
                leave.await;
                if let Some(id) = id {
                    output::note(&format!("Continue with: windlass chat -s {id}"));
                }
                ExitCode::SUCCESS
            }
            Err(code) => {
                engine.abort().await;
                leave.await;
                code
            }
        }
    })
}

/// Returns true if a chat can be shown and typed.
pub fn is_at_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Runs the conversation. Returns the session if something was said in it; the error is the exit code of a failure, an
/// interrupt or a signal.
pub async fn converse(
    sessions: impl Future<Output = Result<Sessions, Failure>>,
    talk: &TalkArgs,
    first: String,
    look: Look,
    environment: Environment,
) -> Result<Option<SessionId>, ExitCode> {
    let mut interrupts = Interrupts::caught();
    let talked = async {
        let opened = async { Chat::open(sessions.await?, talk, first, look, environment).await };
        let mut chat = tokio::select! {
            chat = opened => chat?,
            () = interrupts.next() => return Ok(Err(ExitCode::from(128 + 2))),
        };
        chat.begin(&mut interrupts).await?;
        let result = chat.talk(&mut interrupts).await;
        if !chat.is_begun {
            chat.leave().await?;
        }
        chat.sessions.finish().await;
        result.map(|()| Ok(chat.is_begun.then_some(chat.id)))
    };
    tokio::select! {
        biased;
        signal = runtime::ended() => Err(ExitCode::from(128 + signal)),
        talked = talked => talked.unwrap_or_else(|failure: Failure| Err(failure.report())),
    }
}

/// Returns true if the terminal has gone, of which SIGHUP tells.
fn is_gone() -> bool {
    tcgetattr(io::stdin()).is_err()
}

/// A conversation at the terminal.
struct Chat {
    sessions: Sessions,
    shown: Shown,
    editor: Editor,
    /// Has the session's folder.
    look: Look,
    id: SessionId,
    first: Option<String>,
    /// Text that the next line begins with.
    begun: String,
    /// Prompts of the last turn if it was stopped here, so that a key takes them back.
    n_stopped: usize,
    environment: Environment,
    /// Ways to a model, where none is configured.
    offers: Vec<Offer>,
    /// Something was said in the session.
    is_begun: bool,
    /// Another client's turn has begun, and its end was not seen.
    is_elsewhere: bool,
    /// The session was made here.
    is_new: bool,
}

impl Chat {
    async fn open(
        mut sessions: Sessions,
        talk: &TalkArgs,
        first: String,
        look: Look,
        environment: Environment,
    ) -> Result<Self, Failure> {
        let history = Paths::new(&environment).chat_history();
        let mut shown = Shown::new(&sessions.daemon(), Format::Default, talk, look.clone());
        let (session, is_new) = sessions.open(talk, &first).await?;
        let editor = Editor::start(&history).map_err(Failure::Output)?;
        shown.keep_typed(editor.ahead());
        Ok(Self {
            sessions,
            shown,
            editor,
            look: Look { directory: PathBuf::from(session.directory), ..look },
            id: session.id,
            first: Some(first).filter(|first| !first.trim().is_empty()),
            begun: String::new(),
            n_stopped: 0,
            environment,
            offers: Vec::new(),
            is_begun: false,
            is_elsewhere: false,
            is_new,
        })
    }

    /// Shows the session that was opened, and why no model can answer in it.
    async fn begin(&mut self, interrupts: &mut Interrupts) -> Result<(), Failure> {
        self.shown.attend(&self.id);
        self.shown.rest().await?;
        self.greet(interrupts).await?;
        if self.first.is_none() && self.sessions.is_unconfigured() {
            return self.offer().await;
        }
        self.report(self.sessions.answering()).await
    }

    /// Shows the last messages, or how the chat works.
    async fn greet(&mut self, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let place = self.sessions.place(&self.look.directory, self.environment.home.as_ref());
        self.shown.print_wrapped(&place).await?;
        self.catch_up(interrupts).await?;
        let (waiting, n_left) = self.sessions.take_waiting(&self.id).await;
        if !waiting.is_empty() {
            let prompts = figures::counted(waiting.len(), "prompt");
            let verb = if waiting.len() == 1 { "is" } else { "are" };
            let text = format!("Not begun before the session ended, and in the line again {verb} {prompts}.");
            self.shown.print_wrapped(&text).await?;
            self.begun = waiting.join("\n");
        }
        if n_left > 0 {
            let prompts = figures::counted(n_left, "prompt");
            let text =
                format!("With the next prompt, {prompts} with files will go on that did not begin before.");
            self.shown.print_wrapped(&text).await?;
        }
        if !self.is_begun {
            self.shown.print_wrapped("/help lists the commands, Ctrl-D leaves.").await?;
        }
        Ok(())
    }

    /// Shows the session's last messages since it was shown, and a turn of another client to its end.
    async fn catch_up(&mut self, interrupts: &mut Interrupts) -> Result<(), Failure> {
        // Before the messages are read: everything behind it comes as events.
        let running = self.sessions.daemon().running(&self.id, &self.look.directory).await;
        let mut past = self.sessions.past(&self.id, self.shown.newest()).await?;
        let unfinished = past.messages.pop_if(|last| running.is_some() && is_unfinished(last));
        self.is_begun |= running.is_some() || past.is_begun;
        if past.n_earlier > 0 {
            self.shown.print_wrapped(&format!("… {} earlier messages", past.n_earlier)).await?;
        }
        if let Some(text) = draw(&past, &mut self.shown, &self.look) {
            self.shown.print(&text).await?;
        }
        if let Some(end) = running {
            self.shown.follow(&self.id, end, unfinished, interrupts).await?;
            self.shown.rest().await?;
        }
        Ok(())
    }

    /// Returns the text before a line.
    async fn label(&mut self) -> String {
        format!("{} › ", self.sessions.agent(&self.id).await)
    }

    /// Reads a line. Older questions are answered first; a notice tells of those that come meanwhile.
    async fn line(&mut self, interrupts: &mut Interrupts) -> io::Result<Typed> {
        self.shown.settle().await?;
        let prompt = self.label().await;
        let listed = Arc::new(OnceLock::new());
        let words = Words::new(&self.look.directory, self.sessions.choices(), listed.clone(), names::names());
        let reading = self.editor.read(prompt, std::mem::take(&mut self.begun), words);
        let mut reading = std::pin::pin!(reading);
        // A store of thousands of sessions does not hold the line up.
        let mut listing = std::pin::pin!(self.sessions.ids());
        let mut is_told = false;
        let typed = loop {
            let happened = tokio::select! {
                biased;
                typed = &mut reading => break typed,
                // There is nothing to interrupt. One that comes behind Enter is for the turn that begins.
                () = interrupts.next() => continue,
                ids = &mut listing, if listed.get().is_none() => {
                    // It is set here alone.
                    let _ = listed.set(ids);
                    continue;
                }
                happened = self.shown.happened() => happened,
            };
            match happened {
                Happened::Asked => self.editor.notice(&line::wrapped_text(WAITING, output::columns())),
                // A turn that a plugin began.
                Happened::Begun | Happened::Ended if !self.sessions.is_shared() => {}
                Happened::Begun if is_told => {}
                Happened::Begun => {
                    (is_told, self.is_begun, self.is_elsewhere) = (true, true, true);
                    self.n_stopped = 0;
                    self.editor.notice(&line::wrapped_text(ELSEWHERE, output::columns()));
                }
                Happened::Ended => {
                    (is_told, self.is_elsewhere) = (false, false);
                    // The next prompt reports a server that has gone.
                    let past = self.sessions.past(&self.id, self.shown.newest()).await;
                    if let Some(text) = past.ok().and_then(|past| draw(&past, &mut self.shown, &self.look)) {
                        self.is_begun = true;
                        self.editor.notice(&text);
                    }
                }
            }
        };
        if matches!(typed, Typed::Line(_)) {
            self.shown.settle().await?;
        }
        Ok(typed)
    }

    /// Reads lines and has them answered until the person leaves.
    async fn talk(&mut self, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let mut was_interrupted = false;
        loop {
            let line = match self.first.take() {
                Some(first) => first,
                None if let Some(line) = self.shown.next_line() => {
                    let draw = Draw { look: &self.look, width: output::columns() };
                    let rows = view::text(&view::prompt(&line, &draw), &self.look);
                    self.shown.print(&rows).await?;
                    line
                }
                None => match self.line(interrupts).await? {
                    Typed::Line(line) => line,
                    Typed::Wish(wish, line) => {
                        let done = self.carry_out(wish, line, interrupts).await;
                        self.report(done).await?;
                        continue;
                    }
                    Typed::Interrupted if was_interrupted => return Ok(()),
                    Typed::Interrupted => {
                        was_interrupted = true;
                        self.shown.print_wrapped("Ctrl-C again, or Ctrl-D, leaves.").await?;
                        continue;
                    }
                    Typed::End | Typed::Failed(_) if is_gone() => return std::future::pending().await,
                    Typed::End => return Ok(()),
                    Typed::Failed(error) => return Err(Failure::Output(error)),
                },
            };
            was_interrupted = false;
            if let Some(offer) = self.chosen_offer(&line) {
                let done = self.take_offer(offer).await;
                self.report(done).await?;
                continue;
            }
            let done = match lines::read(&self.sessions, &line) {
                Line::Nothing if self.sessions.is_shared() => self.catch_up(interrupts).await,
                Line::Nothing => Ok(()),
                Line::Leave => return Ok(()),
                Line::Own(name, rest) => self.own(name, rest, interrupts).await,
                Line::Joined(name) => {
                    self.begun.clone_from(&line);
                    Err(Failure::Misuse(texts::joined(name)))
                }
                Line::Unknown(name) => Err(Failure::Misuse(lines::unknown(&self.sessions, name))),
                Line::Shell(command) => {
                    let input = self.sessions.shell(command);
                    self.say(input, interrupts).await
                }
                Line::Prompt if self.is_to_choose(&line) => {
                    self.begun.clone_from(&line);
                    self.offer().await
                }
                Line::Prompt if let Some(words) = lines::wanted_undo(&line) => {
                    self.undo_one(words, interrupts).await
                }
                Line::Prompt => match self.sessions.prompt(&line, &self.look.directory) {
                    Ok(input) if line.split_whitespace().next() == Some("/undo") => {
                        self.undo(input, interrupts).await
                    }
                    Ok(input) => {
                        if let Some(text) = lines::pictures_of(&line, &input) {
                            self.shown.print_wrapped(&text).await?;
                        }
                        self.say(input, interrupts).await
                    }
                    Err(failure) => Err(failure),
                },
            };
            self.report(done).await?;
        }
    }

    /// Carries the wish of a key out; typed text is in the next line.
    async fn carry_out(
        &mut self,
        wish: Wish,
        line: String,
        interrupts: &mut Interrupts,
    ) -> Result<(), Failure> {
        self.begun.clone_from(&line);
        match wish {
            Wish::NextAgent => self.next_agent().await,
            Wish::Edit => {
                // Its own line is not the editor's.
                let modes = self.editor.ahead().and_then(|ahead| ahead.leave());
                let written = external::edit(&self.environment, &line).await;
                if let (Some(ahead), Some(modes)) = (self.editor.ahead(), modes) {
                    ahead.come_back(&modes);
                }
                self.begun = written.map_err(Failure::Failed)?;
                Ok(())
            }
            Wish::Paste => {
                let path = clipboard::picture(&self.environment).await.map_err(Failure::Misuse)?;
                let gap = if line.is_empty() || line.ends_with(char::is_whitespace) { "" } else { " " };
                self.begun = format!("{line}{gap}'{}' ", path.display());
                Ok(())
            }
            Wish::TakeBack => {
                let n_stopped = std::mem::take(&mut self.n_stopped);
                if n_stopped == 0 {
                    return Ok(());
                }
                let input = self.sessions.prompt(&format!("/undo {n_stopped}"), &self.look.directory)?;
                self.undo(input, interrupts).await
            }
        }
    }

    /// Has a prompt answered, or a command run.
    async fn say(&mut self, input: PromptInput, interrupts: &mut Interrupts) -> Result<(), Failure> {
        if !self.sessions.is_unconfigured() {
            self.offers.clear();
        }
        if std::mem::take(&mut self.is_elsewhere) {
            // The server takes one prompt after another; the answer to the other client's is shown first.
            self.catch_up(interrupts).await?;
        }
        self.is_begun = true;
        let label = self.label().await;
        let beside = Beside { sessions: &self.sessions, directory: &self.look.directory, label };
        let mut last = self.shown.turn(&self.id, input, Some(&beside), interrupts).await?;
        // Behind a turn that was stopped, the prompts that waited are in the line again.
        while let Some(next) = self.shown.next_turn(&self.id, &beside, interrupts).await? {
            last = next;
        }
        self.n_stopped = if last.is_interrupted { 1 + last.n_steered } else { 0 };
        Ok(self.shown.rest().await?)
    }

    /// Takes the prompt with these words back, with all behind it, or lists those that have them.
    async fn undo_one(&mut self, words: &str, interrupts: &mut Interrupts) -> Result<(), Failure> {
        match own::pick_prompt(self.sessions.prompts(&self.id).await?, words)? {
            own::Picked::One(id) => {
                let input = self.sessions.prompt(&format!("/undo {id}"), &self.look.directory)?;
                self.undo(input, interrupts).await
            }
            own::Picked::List(list) => Ok(self.shown.print_wrapped(&list).await?),
        }
    }

    /// Takes prompts back, the last of them into the line.
    async fn undo(&mut self, input: PromptInput, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let before = self.sessions.undone(&self.id).await;
        self.say(input, interrupts).await?;
        let undone = self.sessions.undone(&self.id).await.filter(|undone| before.as_ref() != Some(undone));
        let words = undone.map(|(_, words)| words).unwrap_or_default();
        self.begun = words + &std::mem::take(&mut self.begun);
        Ok(())
    }

    /// Says why something was not done, and goes on.
    async fn report(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(Failure::Misuse(reason) | Failure::Failed(reason)) => {
                Ok(self.shown.print_wrapped(&reason).await?)
            }
            Err(Failure::Output(error)) => Err(Failure::Output(error)),
        }
    }

    /// Leaves the session for one that was opened.
    async fn enter(&mut self, session: Session, is_new: bool) -> Result<(), Failure> {
        // A question that the closed session leaves goes to one that somebody attends.
        self.shown.attend(&session.id);
        if session.id != self.id {
            self.leave().await?;
            self.shown.leave(&self.id);
            (self.id, self.is_new) = (session.id, is_new);
        }
        self.look.directory = PathBuf::from(session.directory);
        (self.is_begun, self.is_elsewhere, self.n_stopped) = (false, false, 0);
        Ok(())
    }

    /// Closes the session; one in which nothing was said does not stay in any list.
    async fn leave(&self) -> Result<(), Failure> {
        self.sessions.leave(&self.id, self.is_new && !self.is_begun).await
    }
}

/// Returns true for an answer that is being written.
fn is_unfinished(message: &MessageWithParts) -> bool {
    match &message.info {
        Message::User(_) => false,
        Message::Assistant(answer) => answer.time.completed.is_none() && answer.error.is_none(),
    }
}

/// Draws messages, if there are any; they count as shown from now on.
fn draw(past: &Past, shown: &mut Shown, look: &Look) -> Option<String> {
    shown.note_shown(past.messages.last()?.info.id());
    Some(view::transcript(&past.messages, &past.children, look, output::columns()))
}
