//! Renders a stored session as a page to read or to attach to something: HTML in one file, or Markdown. No I/O.

use std::collections::HashMap;

use windlass_base::clock::Zone;
use windlass_protocol::opencode::{
    id::SessionId,
    message::MessageWithParts,
    session::{Session, Todo},
};

mod call;
pub mod html;
pub mod markdown;
mod turn;

/// A session and its whole conversation.
#[derive(Debug, Clone)]
pub struct Transcript<'a> {
    pub info: &'a Session,
    pub messages: &'a [MessageWithParts],
    /// The last state of the plan.
    pub todos: &'a [Todo],
    /// Messages of all subagents' sessions, at any depth.
    pub children: &'a HashMap<SessionId, Vec<MessageWithParts>>,
    /// The time zone of the times on the page.
    pub zone: Zone,
}

impl Transcript<'_> {
    /// Formats the totals: `18 calls · 155k tokens · $0.48 · 12 s`.
    pub fn used(&self) -> String {
        let mut total = turn::Sums::default();
        turn::turns(self.messages).iter().for_each(|turn| total.add(&turn.sums(self.children)));
        total.line()
    }
}

#[cfg(test)]
mod tests;
