//! Blocks that the events of an answer name by an index, as those of Anthropic's and of Amazon's protocol do.

use super::decode::Answer;
use crate::Delta;

/// The blocks that have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    index: u64,
    block: u32,
    /// The arguments of a call if no fragment of them follows.
    input: Option<String>,
}

impl Blocks {
    /// Begins a block with the delta that `start` makes of its number.
    pub(crate) fn begin(
        &mut self,
        answer: &mut Answer,
        index: u64,
        deltas: &mut Vec<Delta>,
        start: impl FnOnce(u32) -> Delta,
    ) -> u32 {
        let block = answer.next_block();
        deltas.push(start(block));
        self.open.push(Open { index, block, input: None });
        block
    }

    /// Begins a call; `input` is its arguments if no fragment of them follows.
    pub(crate) fn begin_call(
        &mut self,
        answer: &mut Answer,
        index: u64,
        deltas: &mut Vec<Delta>,
        (call_id, name, input): (Option<String>, String, String),
    ) {
        let call_id = call_id.filter(|id| !id.is_empty());
        self.begin(answer, index, deltas, |block| {
            let call_id = call_id.unwrap_or_else(|| format!("call_{block}"));
            Delta::ToolCallStart { block, call_id, name }
        });
        if let Some(open) = self.open.last_mut() {
            open.input = Some(input);
        }
        answer.has_calls = true;
    }

    /// Returns the number of an open block.
    pub(crate) fn find(&self, index: u64) -> Option<u32> {
        self.open.iter().find(|open| open.index == index).map(|open| open.block)
    }

    /// Appends a fragment of a call's arguments.
    pub(crate) fn call_input(&mut self, index: u64, json: String, deltas: &mut Vec<Delta>) {
        if let Some(open) = self.open.iter_mut().find(|open| open.index == index)
            && !json.is_empty()
        {
            open.input = None;
            deltas.push(Delta::ToolCallInput { block: open.block, json });
        }
    }

    pub(crate) fn end(&mut self, index: u64, deltas: &mut Vec<Delta>) {
        if let Some(at) = self.open.iter().position(|open| open.index == index) {
            self.open.remove(at).end(deltas);
        }
    }

    pub(crate) fn end_all(&mut self, deltas: &mut Vec<Delta>) {
        for open in self.open.drain(..) {
            open.end(deltas);
        }
    }
}

impl Open {
    fn end(self, deltas: &mut Vec<Delta>) {
        let Open { index: _, block, input } = self;
        deltas.extend(input.map(|json| Delta::ToolCallInput { block, json }));
        deltas.push(Delta::BlockEnd { block });
    }
}
