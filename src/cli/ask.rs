//! Asks the person at the terminal what waits for an answer: one dialogue at a time, settled ones go away.

use std::collections::VecDeque;

use windlass_protocol::opencode::{
    event::EventPayload,
    id::{PermissionId, QuestionId, SessionId},
    permission::{PermissionRequest, Reply},
    question::QuestionRequest,
};

mod keyboard;
mod permission;
mod question;

use crate::engine::Engine;
use keyboard::{Key, Keyboard, Raw};
use permission::PermissionDialog;
use question::QuestionDialog;

/// What waits for an answer.
#[derive(Debug)]
enum Asked {
    Permission(PermissionRequest),
    Question(QuestionRequest),
}

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// There is more to type; the text is shown.
    More(String),
    /// The dialogue is over; the text ends its line.
    Done(String, Answer),
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Permission {
        reply: Reply,
        feedback: Option<String>,
    },
    /// One list for each question; `None` when the person does not want to answer.
    Question(Option<Vec<Vec<String>>>),
}

/// The dialogue that is on the screen.
struct Open {
    dialog: Dialog,
    session_id: SessionId,
    /// Typed keys come as they are while it lives.
    _raw: Raw,
}

enum Dialog {
    Permission(PermissionId, PermissionDialog),
    Question(QuestionId, QuestionDialog),
}

/// The person at the terminal.
pub struct Person {
    engine: Engine,
    keyboard: Keyboard,
    waiting: VecDeque<Asked>,
    open: Option<Open>,
}

/// What a person's keys came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// What is to be shown.
    Text(String),
    /// The turn of this session is to be cancelled.
    Interrupted(String, SessionId),
    /// The terminal has gone.
    Gone,
}

impl Person {
    /// The person at the terminal that this process works for; `None` where there is none.
    pub fn find(engine: &Engine) -> Option<Self> {
        let keyboard = Keyboard::open()?;
        Some(Self { engine: engine.clone(), keyboard, waiting: VecDeque::new(), open: None })
    }

    /// Returns true while a dialogue is on the screen.
    pub fn is_asked(&self) -> bool {
        self.open.is_some()
    }

    /// Shows a text where the outputs are no terminal.
    pub fn show(&self, text: &str) {
        self.keyboard.show(text);
    }

    /// Notes what an event asks or settles; the text to show, if any.
    pub fn event(&mut self, payload: &EventPayload) -> Option<String> {
        if let EventPayload::PermissionAsked(request) = payload {
            self.waiting.push_back(Asked::Permission(request.clone()));
        } else if let EventPayload::QuestionAsked(request) = payload {
            self.waiting.push_back(Asked::Question(request.clone()));
        } else if let EventPayload::PermissionReplied { request_id, .. } = payload {
            self.waiting.retain(|it| !matches!(it, Asked::Permission(request) if request.id == *request_id));
            let is_open = |open: &Open| matches!(&open.dialog, Dialog::Permission(id, _) if id == request_id);
            return self.settled(is_open);
        } else if let EventPayload::QuestionReplied { request_id, .. }
        | EventPayload::QuestionRejected { request_id, .. } = payload
        {
            self.waiting.retain(|it| !matches!(it, Asked::Question(request) if request.id == *request_id));
            let is_open = |open: &Open| matches!(&open.dialog, Dialog::Question(id, _) if id == request_id);
            return self.settled(is_open);
        }
        self.next()
    }

    /// Takes the dialogue away that was settled elsewhere, and opens the next.
    fn settled(&mut self, is_settled: impl Fn(&Open) -> bool) -> Option<String> {
        let gone = self.open.take_if(|open| is_settled(open)).map(|_| "(settled)\n".to_owned());
        match (gone, self.next()) {
            (Some(gone), Some(next)) => Some(gone + &next),
            (gone, next) => gone.or(next),
        }
    }

    /// Opens the next dialogue when none is open; the text that shows it.
    fn next(&mut self) -> Option<String> {
        while self.open.is_none() {
            let asked = self.waiting.pop_front()?;
            let (dialog, session_id, text) = match asked {
                Asked::Permission(request) if self.engine.is_permission_waiting(&request.id) => {
                    let (dialog, text) = PermissionDialog::new(&request);
                    (Dialog::Permission(request.id, dialog), request.session_id, text)
                }
                Asked::Question(request) if self.engine.is_question_waiting(&request.id) => {
                    let (dialog, text) = QuestionDialog::new(request.questions);
                    (Dialog::Question(request.id, dialog), request.session_id, text)
                }
                // That it is settled is on its way behind it.
                Asked::Permission(_) | Asked::Question(_) => continue,
            };
            let Some(raw) = self.keyboard.raw() else {
                // A terminal that has gone answers nothing.
                self.refuse(&dialog);
                continue;
            };
            self.open = Some(Open { dialog, session_id, _raw: raw });
            return Some(text);
        }
        None
    }

    fn refuse(&self, dialog: &Dialog) {
        match dialog {
            Dialog::Permission(id, _) => self.engine.reply_permission(id, Reply::Reject, None),
            Dialog::Question(id, _) => self.engine.reject_question(id),
        };
    }

    /// Ends with what the next keys came to; never while no dialogue is open. Dropping this loses no key.
    pub async fn typed(&mut self) -> Typed {
        if self.open.is_none() {
            return std::future::pending().await;
        }
        let keys = self.keyboard.read().await;
        let Some(Open { dialog, session_id, .. }) = &mut self.open else { return Typed::Text(String::new()) };
        let Some(keys) = keys else {
            let Some(open) = self.open.take() else { return Typed::Gone };
            self.refuse(&open.dialog);
            return Typed::Gone;
        };
        if keys.contains(&Key::Interrupt) {
            let session_id = session_id.clone();
            self.open = None;
            self.waiting.clear();
            return Typed::Interrupted("^C\n".to_owned(), session_id);
        }
        let step = match dialog {
            Dialog::Permission(_, dialog) => dialog.keys(&keys),
            Dialog::Question(_, dialog) => dialog.keys(&keys),
        };
        match step {
            Step::More(text) => Typed::Text(text),
            Step::Done(text, answer) => {
                let Some(open) = self.open.take() else { return Typed::Text(text) };
                match (open.dialog, answer) {
                    (Dialog::Permission(id, _), Answer::Permission { reply, feedback }) => {
                        self.engine.reply_permission(&id, reply, feedback);
                    }
                    (Dialog::Question(id, _), Answer::Question(Some(answers))) => {
                        self.engine.reply_question(&id, answers);
                    }
                    (Dialog::Question(id, _), Answer::Question(None)) => _ = self.engine.reject_question(&id),
                    (Dialog::Permission(..), Answer::Question(_))
                    | (Dialog::Question(..), Answer::Permission { .. }) => {}
                }
                Typed::Text(text)
            }
        }
    }
}
