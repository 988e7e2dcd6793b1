//! Lines that are typed during a turn: they become prompts of the engine, or wait here until the turn is over.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot::{self, error::TryRecvError};
use windlass_engine::{Begun, Delivery, PromptInput, StopReason, TurnBegin};
use windlass_protocol::opencode::{id::SessionId, model_ref::ModelRef};

use super::{
    super::{
        ask::{
            ahead::Ahead,
            beside::{Beside, Wish},
        },
        daemon::{
            Daemon,
            turn_end::{OnEnd, TurnEnd, TurnResult},
        },
        output::Output,
        view::below::Below,
    },
    printer::Printer,
};

const NOT_NOW: &str =
    "That key does something between turns alone: what you type goes on when this one is over.";

/// Reads lines that are typed during a turn.
pub trait Lines {
    /// The text before the line.
    fn label(&self) -> &str;

    fn meaning(&self, line: &str) -> Meaning;

    /// Returns the name of a model, and the tokens that its context takes; zero where that is not known.
    fn model(&self, model: &ModelRef) -> Option<(String, u64)>;
}

/// Meaning of a line that is typed during a turn.
pub enum Meaning {
    /// Words, which the running turn can take in.
    Words(Box<PromptInput>),
    /// A turn of its own, such as a command.
    Turn(Box<PromptInput>),
    /// It is read again when the turn is over.
    Later,
    /// It cannot be sent, with the reason.
    Refused(String),
}

/// See the module's comment.
pub struct Waiting {
    ahead: Arc<Ahead>,
    typed: Beside,
    label: String,
    prompts: VecDeque<Prompt>,
    /// Prompts that the turn took in.
    pub n_within: usize,
    /// The rows that the screen has.
    shown: Option<Below>,
    /// It was said in this turn that a key does nothing now.
    is_told: bool,
}

struct Prompt {
    words: String,
    place: Place,
    /// It is being taken back, where a server has it.
    withdrawn: Option<oneshot::Receiver<bool>>,
}

enum Place {
    Engine {
        ticket: u64,
        is_steer: bool,
        begun: oneshot::Receiver<Begun>,
        end: oneshot::Receiver<TurnEnd>,
    },
    /// Behind everything that the engine has.
    Here,
}

/// The turn that runs, and the places that lines go to.
pub struct Turn<'a> {
    pub daemon: &'a Daemon,
    pub id: &'a SessionId,
    pub lines: &'a dyn Lines,
    pub printer: &'a mut Printer,
    pub output: &'a mut Output,
}

impl Waiting {
    pub fn new(ahead: Arc<Ahead>) -> Self {
        let (typed, label, prompts) = (Beside::default(), String::new(), VecDeque::new());
        Self { ahead, typed, label, prompts, n_within: 0, shown: None, is_told: false }
    }

    /// Shows the line below a turn that begins, with the text that was typed before.
    pub fn begin(&mut self, label: &str, printer: &Printer) {
        label.clone_into(&mut self.label);
        (self.n_within, self.is_told) = (0, false);
        self.ahead.mark_pastes(true);
        self.typed.end_paste();
        self.typed.line.set(self.ahead.take().trim_start_matches('\n'));
        self.show(printer);
    }

    /// Leaves the keys to a dialogue, which may take the end of a paste too.
    pub fn pause(&mut self) {
        self.typed.end_paste();
    }

    /// Takes the line away; its text begins the next one.
    pub fn end(&mut self, printer: &Printer) {
        self.ahead.mark_pastes(false);
        self.ahead.put_back(&self.typed.line.take());
        self.shown = None;
        printer.set_below(None);
    }

    /// Takes the typed keys; returns true if they ask for the end of the turn.
    pub fn take_typed(&mut self, turn: &mut Turn<'_>) -> bool {
        let keys = self.ahead.keys();
        if keys.is_empty() {
            // A line of a megabyte is not copied for each event.
            return false;
        }
        let mut is_stopped = false;
        for key in keys {
            match self.typed.key(key) {
                Some(Wish::Stop) => is_stopped = true,
                Some(Wish::Steer(line)) => self.send(turn, line, true),
                Some(Wish::Queue(line)) => self.send(turn, line, false),
                Some(Wish::TakeBack) => self.take_back(turn.daemon, turn.id),
                Some(Wish::NotNow) if !std::mem::replace(&mut self.is_told, true) => {
                    turn.printer.remark(NOT_NOW, turn.output);
                }
                Some(Wish::NotNow) => {}
                None => {}
            }
        }
        self.show(turn.printer);
        is_stopped
    }

    fn send(&mut self, turn: &mut Turn<'_>, line: String, is_steer: bool) {
        let (input, is_steer) = match turn.lines.meaning(&line) {
            Meaning::Words(input) => (Some(input), is_steer),
            Meaning::Turn(input) => (Some(input), false),
            Meaning::Later => (None, false),
            Meaning::Refused(reason) => return self.refuse(turn, &line, &reason),
        };
        // Nothing overtakes a line that waits here.
        let is_first_here = !self.prompts.iter().any(|prompt| matches!(prompt.place, Place::Here));
        let mut place = Place::Here;
        if let Some(mut input) = input.filter(|_| is_steer || is_first_here) {
            input.delivery = if is_steer { Delivery::Steer } else { Delivery::Turn };
            let ((on_begin, begun), (on_end, mut end)) = (oneshot::channel(), oneshot::channel());
            // The receivers are dropped once the prompt is shown.
            let on_begin: TurnBegin = Box::new(move |how| _ = on_begin.send(how));
            let on_end: OnEnd = Box::new(move |ended| _ = on_end.send(ended));
            let ticket = turn.daemon.prompt_beside(turn.id, *input, on_begin, on_end);
            // A session that takes no more says so at once.
            if let Ok(Err(reason)) = end.try_recv() {
                return self.refuse(turn, &line, &reason);
            }
            if let Some(ticket) = ticket {
                place = Place::Engine { ticket, is_steer, begun, end };
            }
        }
        self.prompts.push_back(Prompt { words: line, place, withdrawn: None });
    }

    /// Says why a line cannot be sent, and puts it back.
    fn refuse(&mut self, turn: &mut Turn<'_>, line: &str, reason: &str) {
        turn.printer.remark(reason, turn.output);
        self.typed.line.set(line);
    }

    /// Takes the last prompt back into the line.
    fn take_back(&mut self, daemon: &Daemon, id: &SessionId) {
        let at = self.prompts.iter().rposition(|prompt| prompt.withdrawn.is_none());
        let Some(prompt) = at.and_then(|at| self.prompts.get_mut(at)) else { return };
        match prompt.place {
            Place::Engine { ticket, .. } => prompt.withdrawn = Some(daemon.withdraw(id, ticket)),
            Place::Here => {
                let (taken_back, answer) = oneshot::channel();
                // It is this one that waits.
                let _ = taken_back.send(true);
                prompt.withdrawn = Some(answer);
            }
        }
        self.note_withdrawn();
    }

    /// Puts the prompts into the line that are taken back by now, before its text; returns true if there was one.
    fn note_withdrawn(&mut self) -> bool {
        let mut words = Vec::new();
        self.prompts.retain_mut(|prompt| {
            let Some(answer) = &mut prompt.withdrawn else { return true };
            match answer.try_recv() {
                Ok(true) => {
                    words.push(std::mem::take(&mut prompt.words));
                    return false;
                }
                Ok(false) | Err(TryRecvError::Closed) => prompt.withdrawn = None,
                Err(TryRecvError::Empty) => {}
            }
            true
        });
        if words.is_empty() {
            return false;
        }
        words.push(self.typed.line.take());
        words.retain(|text| !text.is_empty());
        self.typed.line.set(&words.join("\n"));
        true
    }

    /// Shows the prompts that have begun within the turn, and forgets them.
    pub fn note_begun(&mut self, printer: &Printer) {
        let n_before = self.prompts.len();
        self.prompts.retain_mut(|prompt| {
            let Place::Engine { begun, is_steer: true, .. } = &mut prompt.place else { return true };
            let is_within = matches!(begun.try_recv(), Ok(Begun::Within));
            if is_within {
                self.n_within += 1;
                printer.said(&prompt.words);
            }
            !is_within
        });
        if self.note_withdrawn() || self.prompts.len() != n_before {
            self.show(printer);
        }
    }

    /// Returns true if a turn of a prompt that waits follows the running one.
    pub fn has_turn(&self) -> bool {
        self.prompts.iter().any(|prompt| matches!(prompt.place, Place::Engine { .. }))
    }

    /// Takes the next prompt that the engine has: its words, and the end of its turn.
    pub fn next_turn(&mut self) -> Option<(String, oneshot::Receiver<TurnEnd>)> {
        let at = self.prompts.iter().position(|prompt| matches!(prompt.place, Place::Engine { .. }))?;
        let prompt = self.prompts.remove(at)?;
        match prompt.place {
            Place::Engine { end, .. } => Some((prompt.words, end)),
            Place::Here => None,
        }
    }

    /// Takes the next line that waited here for the turn's end.
    pub fn next_line(&mut self) -> Option<String> {
        self.prompts.pop_front().map(|prompt| prompt.words)
    }

    /// Takes all that has not begun back into the line, behind a turn that did not come to its end.
    pub fn give_back(&mut self, daemon: &Daemon, id: &SessionId, printer: &Printer) {
        let mut words = Vec::new();
        self.prompts.retain_mut(|prompt| {
            let is_kept = match &mut prompt.place {
                Place::Here => false,
                // A server has ended those that waited with the turn, and answers to the withdrawal later.
                Place::Engine { ticket, .. } if daemon.withdraw(id, *ticket).try_recv() != Ok(false) => false,
                Place::Engine { end, .. } => match end.try_recv() {
                    Ok(Ok(TurnResult { stop: StopReason::Cancelled, .. })) => false,
                    // It came to its end meanwhile.
                    Ok(_) => return false,
                    Err(_) => true,
                },
            };
            if !is_kept {
                words.push(std::mem::take(&mut prompt.words));
            }
            is_kept
        });
        words.push(self.typed.line.take());
        words.retain(|text| !text.is_empty());
        self.typed.line.set(&words.join("\n"));
        self.show(printer);
    }

    fn show(&mut self, printer: &Printer) {
        let what = |prompt: &Prompt| match prompt.place {
            Place::Engine { is_steer: true, .. } => "next step",
            Place::Engine { .. } | Place::Here => "queued",
        };
        let below = Below {
            waiting: self.prompts.iter().map(|prompt| (what(prompt), prompt.words.clone())).collect(),
            label: self.label.clone(),
            chars: self.typed.line.chars().to_vec(),
            cursor: self.typed.line.cursor(),
        };
        if self.shown.as_ref() != Some(&below) {
            printer.set_below(Some(below.clone()));
            self.shown = Some(below);
        }
    }
}
