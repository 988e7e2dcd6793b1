//! Encoded earlier messages of a session, so that a step does not encode the whole conversation anew.

use serde_json::{Map, Value};
use windlass_protocol::opencode::id::MessageId;
use windlass_provider::{Encoded, Model};

/// The model and its options, the generation of the history, and the first message that the model reads.
type Basis = (Model, Map<String, Value>, u64, Option<MessageId>);

/// Encoded messages, each at its index in the history. They hold for one model with one set of options, one generation
/// of the history, and one beginning of the part that the model reads.
#[derive(Default)]
pub struct EncodedHistoryCache {
    of: Option<Basis>,
    messages: Vec<Option<Vec<Encoded>>>,
}

impl EncodedHistoryCache {
    /// Forgets messages that were encoded for another model, other options, an earlier generation or another
    /// beginning.
    pub fn begin(
        &mut self,
        model: &Model,
        options: &Map<String, Value>,
        generation: u64,
        first: Option<&MessageId>,
    ) {
        if !self.is_for(model, options, generation, first) {
            let of = Some((model.clone(), options.clone(), generation, first.cloned()));
            *self = Self { of, messages: Vec::new() };
        }
    }

    pub fn is_for(
        &self,
        model: &Model,
        options: &Map<String, Value>,
        generation: u64,
        first: Option<&MessageId>,
    ) -> bool {
        self.of.as_ref().is_some_and(|of| {
            of.0 == *model && of.1 == *options && of.2 == generation && of.3.as_ref() == first
        })
    }

    pub fn insert(&mut self, message_idx: usize, encoded: Vec<Encoded>) {
        if self.messages.len() <= message_idx {
            self.messages.resize(message_idx + 1, None);
        }
        self.messages[message_idx] = Some(encoded);
    }

    pub fn get(&self, message_idx: usize) -> Option<&[Encoded]> {
        self.messages.get(message_idx)?.as_deref()
    }
}
