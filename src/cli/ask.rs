//! Asks the person at the terminal the open questions: one dialogue at a time, settled ones go away.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use windlass_core::config::policy::REACH_HOST;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{PermissionId, QuestionId, SessionId},
    permission::{PermissionRequest, Reply},
    question::QuestionRequest,
};

pub mod ahead;
pub mod beside;
mod keyboard;
mod line_edit;
mod permission;
mod question;
mod step;
mod typing;

use super::{
    daemon::Daemon,
    view::{Draw, look::Look},
};

use ahead::Ahead;
use keyboard::{Key, Keyboard, Raw};
use permission::PermissionDialog;
use question::QuestionDialog;
use step::{Answer, Step};

/// A request that waits for an answer.
#[derive(Debug)]
enum Asked {
    Permission(PermissionRequest),
    Question(QuestionRequest),
}

struct Open {
    dialog: Dialog,
    /// The session whose turn ends with a refusal.
    ends: Option<SessionId>,
}

enum Dialog {
    Permission(PermissionId, PermissionDialog),
    Question(QuestionId, QuestionDialog),
}

/// A letter that answers unless more of a word follow.
struct Held {
    keys: Vec<Key>,
    bytes: Vec<u8>,
    until: tokio::time::Instant,
}

/// The person at the terminal.
pub struct Person {
    daemon: Daemon,
    keyboard: Keyboard,
    look: Look,
    waiting: VecDeque<Asked>,
    /// The dialogue that is on the screen.
    open: Option<Open>,
    /// Typed keys come as they are while it lives.
    raw: Option<Raw>,
    /// Keeps the text that was typed before a dialogue was shown, where it is for a line behind it.
    ahead: Option<Arc<Ahead>>,
    /// When the last letter of a text was typed that was not meant for a dialogue, where nothing keeps it.
    text_at: Option<Instant>,
    /// Only where lines are typed beside the dialogue.
    held: Option<Held>,
    /// The answer that was typed, until it is given.
    typed_answer: Option<(Dialog, Answer)>,
}

/// Result of a person's keys.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// Text to show.
    Text(String),
    /// Text to show; the answer is given by [`Person::answer`].
    Answered {
        text: String,
        /// The session whose turn it ends.
        ended: Option<SessionId>,
    },
    /// The turn is to be cancelled.
    Interrupted(String),
    /// The terminal has gone.
    Gone,
}

impl Person {
    /// Returns the person at the terminal that this process works for; `None` where there is none.
    pub fn find(daemon: &Daemon, look: Look) -> Option<Self> {
        let keyboard = Keyboard::open()?;
        Some(Self {
            daemon: daemon.clone(),
            keyboard,
            look,
            waiting: VecDeque::new(),
            open: None,
            raw: None,
            ahead: None,
            text_at: None,
            held: None,
            typed_answer: None,
        })
    }

    /// Has keys typed before a dialogue kept here; they are no answer.
    pub fn keep_typed(&mut self, ahead: Arc<Ahead>) {
        self.ahead = Some(ahead);
    }

    /// Returns true while a dialogue is on the screen.
    pub fn is_asked(&self) -> bool {
        self.open.is_some()
    }

    /// Shows a dialogue's text, and listens to its keys from then on. The terminal must have no other user by
    /// now.
    pub fn show(&mut self, text: &str) {
        if self.open.is_some() && self.raw.is_none() {
            self.raw = self.keyboard.raw();
            // Keys typed before the person could see the dialogue are no answer to it.
            match &self.ahead {
                Some(ahead) => _ = ahead.take_in(),
                None if self.keyboard.discard() => self.text_at = Some(Instant::now()),
                None => {}
            }
            if self.raw.is_none() {
                // A terminal that has gone answers nothing.
                self.give_up();
            }
        }
        self.keyboard.show(text);
        if self.open.is_none() {
            self.raw = None;
        }
    }

    /// Notes the question that an event asks or settles; returns the text to show, if any.
    pub fn event(&mut self, payload: &EventPayload) -> Option<String> {
        if let EventPayload::PermissionAsked(request) = payload {
            self.waiting.push_back(Asked::Permission(request.clone()));
        } else if let EventPayload::QuestionAsked(request) = payload {
            self.waiting.push_back(Asked::Question(request.clone()));
        } else if let EventPayload::PermissionReplied { request_id, .. } = payload {
            self.waiting.retain(|it| !matches!(it, Asked::Permission(request) if request.id == *request_id));
            let is_open = |open: &Dialog| matches!(open, Dialog::Permission(id, _) if id == request_id);
            return self.settled(is_open);
        } else if let EventPayload::QuestionReplied { request_id, .. }
        | EventPayload::QuestionRejected { request_id, .. } = payload
        {
            self.waiting.retain(|it| !matches!(it, Asked::Question(request) if request.id == *request_id));
            let is_open = |open: &Dialog| matches!(open, Dialog::Question(id, _) if id == request_id);
            return self.settled(is_open);
        }
        self.next()
    }

    /// Takes the dialogue away that was settled elsewhere, and opens the next.
    fn settled(&mut self, is_settled: impl Fn(&Dialog) -> bool) -> Option<String> {
        let gone = self.open.take_if(|open| is_settled(&open.dialog)).map(|_| "(settled)\n".to_owned());
        if gone.is_some() {
            self.release();
        }
        match (gone, self.next()) {
            (Some(gone), Some(next)) => Some(gone + &next),
            (gone, next) => gone.or(next),
        }
    }

    /// Opens the next dialogue when none is open; the text that shows it.
    fn next(&mut self) -> Option<String> {
        while self.open.is_none() {
            let asked = self.waiting.pop_front()?;
            let draw = Draw { look: &self.look, width: self.keyboard.columns() };
            let (dialog, text, ends) = match asked {
                Asked::Permission(request) if self.daemon.is_permission_waiting(&request.id) => {
                    let (dialog, text) = PermissionDialog::new(&request, &draw);
                    // A program that may not reach a host goes on, and a change of the configuration has no turn.
                    let is_call = request.tool.is_some() && request.permission != REACH_HOST;
                    (
                        Dialog::Permission(request.id, dialog),
                        text,
                        Some(request.session_id).filter(|_| is_call),
                    )
                }
                Asked::Question(request) if self.daemon.is_question_waiting(&request.id) => {
                    let (dialog, text) = QuestionDialog::new(request.questions, draw.width);
                    // Nor has a wish of an MCP server.
                    let ends = request.tool.map(|_| request.session_id);
                    (Dialog::Question(request.id, dialog), text, ends)
                }
                // The event that settles it is already on its way.
                Asked::Permission(_) | Asked::Question(_) => continue,
            };
            self.open = Some(Open { dialog, ends });
            return Some(text);
        }
        None
    }

    /// Takes away the questions without an answer; returns the text that says so.
    pub fn put_away(&mut self) -> Option<String> {
        self.waiting.clear();
        self.release();
        self.open.take().map(|_| "(not answered)\n".to_owned())
    }

    /// Gives a letter to the line whose dialogue has gone: it answers no other.
    fn release(&mut self) {
        if let Some(held) = self.held.take()
            && let Some(ahead) = &self.ahead
        {
            ahead.add(&held.bytes);
        }
    }

    fn refuse(&self, dialog: &Dialog) {
        match dialog {
            Dialog::Permission(id, _) => self.daemon.reply_permission(id, Reply::Reject, None),
            Dialog::Question(id, _) => self.daemon.reject_question(id),
        };
    }

    /// Refuses everything that waits: the terminal has gone.
    fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            self.refuse(&open.dialog);
        }
        for asked in self.waiting.drain(..) {
            match asked {
                Asked::Permission(request) => {
                    self.daemon.reply_permission(&request.id, Reply::Reject, None);
                }
                Asked::Question(request) => self.daemon.reject_question(&request.id),
            }
        }
    }

    /// Ends with the outcome of the next keys; never while no dialogue is open. Dropping this loses no key.
    pub async fn typed(&mut self) -> Typed {
        if self.raw.is_none() {
            return std::future::pending().await;
        }
        let read = match &self.held {
            Some(held) => tokio::time::timeout_at(held.until, self.keyboard.read()).await,
            None => Ok(self.keyboard.read().await),
        };
        let held = self.held.take();
        let was_held = held.is_some();
        let (mut keys, mut bytes) = held.map(|held| (held.keys, held.bytes)).unwrap_or_default();
        let Some(Open { dialog, .. }) = &mut self.open else { return Typed::Text(String::new()) };
        match read {
            // The letter is taken back.
            Ok(Some(more)) if was_held && matches!(more[..], [Key::Backspace | Key::Clear]) => {
                return Typed::Text(String::new());
            }
            Ok(Some(more)) => {
                let is_word = more == [Key::Enter] || more.iter().any(|key| matches!(key, Key::Char(_)));
                if was_held && !is_word {
                    // Such as Escape, which is an answer of its own.
                    if let Some(ahead) = &self.ahead {
                        ahead.add(&bytes);
                    }
                    (keys, bytes) = (Vec::new(), Vec::new());
                }
                keys.extend(more);
                bytes.extend_from_slice(self.keyboard.bytes());
            }
            Ok(None) => {
                self.give_up();
                return Typed::Gone;
            }
            // Nothing follows the letter.
            Err(_) => {}
        }
        let is_typed = self.text_at.is_some_and(|at| at.elapsed() < ahead::IN_ONE_GO)
            || self.ahead.as_ref().is_some_and(|ahead| ahead.is_typed_now());
        let is_text = match dialog {
            Dialog::Permission(_, dialog) => dialog.is_text(&keys, is_typed),
            Dialog::Question(_, dialog) => dialog.is_text(&keys, is_typed),
        };
        let is_interrupted = keys.contains(&Key::Interrupt);
        if is_text {
            // Letters of a text answer nothing: it is for the line behind the turn.
            match &self.ahead {
                Some(ahead) => ahead.add(&bytes),
                None => self.text_at = Some(Instant::now()),
            }
            if !is_interrupted {
                return Typed::Text(String::new());
            }
        }
        if is_interrupted {
            self.open = None;
            // All other requests go away with the turn.
            self.waiting.clear();
            return Typed::Interrupted("^C\n".to_owned());
        }
        let is_unsure = match dialog {
            Dialog::Permission(_, dialog) => dialog.may_begin_word(&keys),
            Dialog::Question(..) => false,
        };
        if is_unsure && self.ahead.is_some() && !was_held {
            let until = tokio::time::Instant::now() + ahead::IN_ONE_GO;
            self.held = Some(Held { keys, bytes, until });
            return Typed::Text(String::new());
        }
        let step = match dialog {
            Dialog::Permission(_, dialog) => dialog.keys(&keys),
            Dialog::Question(_, dialog) => dialog.keys(&keys),
        };
        match step {
            Step::More(text) => Typed::Text(text),
            Step::Done(text, answer) => {
                let is_refusal = match &answer {
                    Answer::Permission { reply, feedback } => *reply == Reply::Reject && feedback.is_none(),
                    Answer::Question(answers) => answers.is_none(),
                };
                let Some(Open { dialog, ends }) = self.open.take() else { return Typed::Text(text) };
                self.typed_answer = Some((dialog, answer));
                Typed::Answered { text, ended: ends.filter(|_| is_refusal) }
            }
        }
    }

    /// Gives the answer that was typed.
    pub fn answer(&mut self) {
        match self.typed_answer.take() {
            Some((Dialog::Permission(id, _), Answer::Permission { reply, feedback })) => {
                self.daemon.reply_permission(&id, reply, feedback);
            }
            Some((Dialog::Question(id, _), Answer::Question(Some(answers)))) => {
                self.daemon.reply_question(&id, answers);
            }
            Some((Dialog::Question(id, _), Answer::Question(None))) => self.daemon.reject_question(&id),
            Some(
                (Dialog::Permission(..), Answer::Question(_))
                | (Dialog::Question(..), Answer::Permission { .. }),
            )
            | None => {}
        }
    }
}
