//! Builds the model's message from deltas: parts in the state, changes in the journal.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_base::{clock, ids, text};
use windlass_protocol::opencode::part::{PartKind, PartTime, ReasoningPart, TextPart, ToolPart, ToolState};
use windlass_provider::{Delta, Finish, Usage};

use crate::session::state::{Journal, SessionState};

/// Bytes that a block counts for by itself: even an empty one takes memory and a row of the store.
const BLOCK_BYTES: usize = 256;

/// One answer as far as it has come.
pub struct Answer {
    /// Bytes of texts, thoughts and arguments that may still come.
    n_left: usize,
    /// True once there was more than may come; the rest was dropped.
    pub is_cut: bool,
    /// Part index of each open block.
    open: BTreeMap<u32, usize>,
    /// Tool calls in order.
    pub calls: Vec<Call>,
    pub usage: Usage,
    pub finish: Option<Finish>,
    /// True once the user has read words of this answer, which must not come twice.
    pub has_text: bool,
}

/// A tool call the model made.
#[derive(Debug, Clone)]
pub struct Call {
    /// Index of its part in the message.
    pub part: usize,
    pub call_id: String,
    pub tool: String,
    /// The arguments' JSON text.
    pub raw: String,
}

impl Answer {
    /// Begins an answer of at most `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            n_left: max_bytes,
            is_cut: false,
            open: BTreeMap::new(),
            calls: Vec::new(),
            usage: Usage::default(),
            finish: None,
            has_text: false,
        }
    }

    /// Applies the deltas of one network read.
    pub fn apply(&mut self, deltas: &mut Vec<Delta>, state: &mut SessionState, journal: &mut Journal) {
        for delta in merge(deltas.drain(..)) {
            if self.is_cut {
                return;
            }
            match delta {
                Delta::TextStart { block } => self.start(block, new_text(), state, journal),
                Delta::ReasoningStart { block } => self.start(block, new_reasoning(), state, journal),
                Delta::Text { block, text: delta } => {
                    if !self.open.contains_key(&block) {
                        self.start(block, new_text(), state, journal);
                    }
                    self.has_text |= !delta.trim().is_empty();
                    self.append(block, delta, state, journal);
                }
                Delta::Reasoning { block, text } => {
                    if !self.open.contains_key(&block) {
                        self.start(block, new_reasoning(), state, journal);
                    }
                    self.append(block, text, state, journal);
                }
                Delta::Signature { block, signature } => self.sign(block, signature, state),
                Delta::ToolCallStart { block, call_id, name } => {
                    self.start_call(block, call_id, name, state, journal);
                }
                Delta::ToolCallInput { block, json } => self.extend_call(block, &json),
                Delta::BlockEnd { block } => self.end(block, state, journal),
                Delta::Usage(usage) => self.count(usage),
                Delta::Finish(finish) => self.finish = Some(finish),
            }
        }
    }

    /// Ends the blocks that the provider left open.
    pub fn end_all(&mut self, state: &mut SessionState, journal: &mut Journal) {
        for block in self.open.keys().copied().collect::<Vec<_>>() {
            self.end(block, state, journal);
        }
    }

    fn start(&mut self, block: u32, kind: PartKind, state: &mut SessionState, journal: &mut Journal) {
        if !self.spend(BLOCK_BYTES) {
            return;
        }
        let index = state.push_part(kind, journal);
        self.open.insert(block, index);
    }

    fn start_call(
        &mut self,
        block: u32,
        call_id: String,
        tool: String,
        state: &mut SessionState,
        journal: &mut Journal,
    ) {
        let call_id = unique(call_id, state);
        let kind = PartKind::Tool(Box::new(ToolPart {
            call_id: call_id.clone(),
            tool: tool.clone(),
            state: ToolState::Pending { input: Value::Object(Map::new()), raw: String::new() },
            metadata: None,
        }));
        self.start(block, kind, state, journal);
        let Some(&part) = self.open.get(&block) else { return };
        self.calls.push(Call { part, call_id, tool, raw: String::new() });
    }

    fn extend_call(&mut self, block: u32, json: &str) {
        let Some(index) = self.open.get(&block) else { return };
        let Some(call) = self.calls.iter_mut().find(|call| call.part == *index) else { return };
        let fitting = text::head(json, self.n_left);
        call.raw.push_str(fitting);
        self.spend(json.len());
    }

    fn append(&mut self, block: u32, mut delta: String, state: &mut SessionState, journal: &mut Journal) {
        let n_fitting = text::head(&delta, self.n_left).len();
        self.spend(delta.len());
        delta.truncate(n_fitting);
        let Some(part) = self.open.get(&block).and_then(|index| state.part_mut(*index)) else { return };
        let Some(text) = part.kind.text_mut() else { return };
        let offset = text.len();
        text.push_str(&delta);
        journal.text(part, offset, delta);
    }

    fn sign(&mut self, block: u32, signature: String, state: &mut SessionState) {
        if !self.spend(signature.len()) {
            return;
        }
        let Some(part) = self.open.get(&block).and_then(|index| state.part_mut(*index)) else { return };
        let metadata = match &mut part.kind {
            PartKind::Reasoning(reasoning) => Some(&mut reasoning.metadata),
            PartKind::Tool(tool) => Some(&mut tool.metadata),
            _other => None,
        };
        if let Some(metadata) = metadata {
            let metadata = metadata.get_or_insert_default();
            let old = metadata.get("signature").and_then(Value::as_str).unwrap_or_default();
            let signature = format!("{old}{signature}");
            metadata.insert("signature".to_owned(), Value::String(signature));
        }
    }

    /// Counts the bytes that came; returns false and cuts the answer off if there is no room for all of it.
    fn spend(&mut self, n_bytes: usize) -> bool {
        self.is_cut |= n_bytes > self.n_left;
        self.n_left = self.n_left.saturating_sub(n_bytes);
        !self.is_cut
    }

    fn end(&mut self, block: u32, state: &mut SessionState, journal: &mut Journal) {
        let Some(part) = self.open.remove(&block).and_then(|index| state.part_mut(index)) else { return };
        let now = clock::now_ms();
        if let PartKind::Text(text) = &mut part.kind {
            text.time.get_or_insert_default().end = Some(now);
        } else if let PartKind::Reasoning(reasoning) = &mut part.kind {
            reasoning.time.end = Some(now);
        } else {
            // A call's part is written again when the tool starts.
            return;
        }
        journal.part(part);
    }

    fn count(&mut self, usage: Usage) {
        self.usage = Usage {
            input: self.usage.input.max(usage.input),
            output: self.usage.output.max(usage.output),
            reasoning: self.usage.reasoning.max(usage.reasoning),
            cache_read: self.usage.cache_read.max(usage.cache_read),
            cache_write: self.usage.cache_write.max(usage.cache_write),
        };
    }
}

/// Returns a call id that no other call of the session has (facts: ACP §1.4.8); some servers count from zero
/// every time.
fn unique(call_id: String, state: &SessionState) -> String {
    let mut parts = state.history.iter().flat_map(|message| &message.parts);
    if parts.any(|part| matches!(&part.kind, PartKind::Tool(tool) if tool.call_id == call_id)) {
        format!("{call_id}_{}", ids::random(8))
    } else {
        call_id
    }
}

/// Joins neighbouring text of one block: the text of one read is stored and shown as one piece.
fn merge(deltas: impl Iterator<Item = Delta>) -> Vec<Delta> {
    let mut merged: Vec<Delta> = Vec::new();
    for delta in deltas {
        match (merged.last_mut(), &delta) {
            (Some(Delta::Text { block: a, text }), Delta::Text { block: b, text: more }) if *a == *b => {
                text.push_str(more);
            }
            (Some(Delta::Reasoning { block: a, text }), Delta::Reasoning { block: b, text: more })
                if *a == *b =>
            {
                text.push_str(more);
            }
            (Some(_) | None, _) => merged.push(delta),
        }
    }
    merged
}

fn new_text() -> PartKind {
    let time = PartTime { start: clock::now_ms(), end: None };
    PartKind::Text(TextPart { time: Some(time), ..TextPart::default() })
}

fn new_reasoning() -> PartKind {
    let time = PartTime { start: clock::now_ms(), end: None };
    PartKind::Reasoning(ReasoningPart { text: String::new(), time, metadata: None })
}

#[cfg(test)]
mod tests;
