//! The state that the decoders of all wires share, and their common end.

use windlass_base::sse;

use super::body;
use crate::{Delta, Finish, ProviderError, Usage};

/// A decoder of the events of one answer.
pub trait Decode {
    /// Appends the deltas of `event` to `deltas`.
    fn push(&mut self, event: &sse::Event, deltas: &mut Vec<Delta>) -> Result<(), ProviderError>;

    fn answer(&mut self) -> &mut Answer;

    /// Ends the blocks that are open.
    fn end_blocks(&mut self, deltas: &mut Vec<Delta>);

    /// Ends the answer.
    fn end(&mut self, deltas: &mut Vec<Delta>) {
        self.end_blocks(deltas);
        self.answer().end(deltas);
    }

    /// Completes the answer at the end of the connection; returns an error if the answer is incomplete.
    fn finish(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        if self.answer().is_done {
            return Ok(());
        }
        if self.answer().finish.is_none() {
            return Err(body::cut_off());
        }
        self.end(deltas);
        Ok(())
    }
}

/// The state of an answer.
#[derive(Debug, Default)]
pub struct Answer {
    n_blocks: u32,
    /// Set once the model has called a tool.
    pub has_calls: bool,
    /// The reason that the model stopped, once it is known.
    pub finish: Option<Finish>,
    usage: Usage,
    /// Set by the last event.
    pub is_done: bool,
}

impl Answer {
    pub(crate) fn next_block(&mut self) -> u32 {
        self.n_blocks += 1;
        self.n_blocks - 1
    }

    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Reports token counts that changed.
    pub(crate) fn count(&mut self, usage: Usage, deltas: &mut Vec<Delta>) {
        if usage != self.usage {
            self.usage = usage;
            deltas.push(Delta::Usage(usage));
        }
    }

    fn end(&mut self, deltas: &mut Vec<Delta>) {
        let finish = match self.finish {
            Some(Finish::Stop | Finish::Unknown) | None if self.has_calls => Finish::ToolCalls,
            Some(finish) => finish,
            None => Finish::Unknown,
        };
        deltas.push(Delta::Finish(finish));
        self.is_done = true;
    }
}
