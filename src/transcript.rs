//! Draws a stored session as a page to read or to attach to something: HTML in one file, or Markdown. No I/O.

use std::collections::HashMap;

use windlass_protocol::opencode::{
    id::SessionId,
    message::MessageWithParts,
    session::{Session, Todo},
};

use crate::base::clock::Zone;

mod call;
pub mod html;
pub mod markdown;
mod turn;

/// A session and everything said in it.
#[derive(Debug, Clone)]
pub struct Transcript<'a> {
    pub info: &'a Session,
    pub messages: &'a [MessageWithParts],
    /// The plan as it was last.
    pub todos: &'a [Todo],
    /// Messages of the session's subagents, and of theirs.
    pub children: &'a HashMap<SessionId, Vec<MessageWithParts>>,
    /// Whose clocks show the times.
    pub zone: Zone,
}

impl Transcript<'_> {
    /// `18 calls · 155k tokens · $0.48 · 12 s`: everything that was used.
    pub fn used(&self) -> String {
        let mut total = turn::Sums::default();
        turn::turns(self.messages).iter().for_each(|turn| total.add(&turn.sums(self.children)));
        total.line()
    }
}

#[cfg(test)]
mod tests;
