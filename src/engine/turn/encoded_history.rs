//! Encoded earlier answers of a turn, so that a long turn does not encode them anew at each step.

use std::collections::HashMap;

use serde_json::{Map, Value};
use windlass_protocol::opencode::id::MessageId;

use crate::provider::{Encoded, Model};

/// Encoded answers by message. They hold for one model with one set of options and one generation of the history.
#[derive(Default)]
pub struct EncodedHistoryCache {
    of: Option<(Model, Map<String, Value>, u64)>,
    answers: HashMap<MessageId, Vec<Encoded>>,
}

impl EncodedHistoryCache {
    /// Forgets answers that were encoded for another model, other options or an earlier generation.
    pub fn begin(&mut self, model: &Model, options: &Map<String, Value>, generation: u64) {
        if !self.is_for(model, options, generation) {
            let of = Some((model.clone(), options.clone(), generation));
            *self = Self { of, answers: HashMap::new() };
        }
    }

    pub fn is_for(&self, model: &Model, options: &Map<String, Value>, generation: u64) -> bool {
        self.of.as_ref().is_some_and(|of| of.0 == *model && of.1 == *options && of.2 == generation)
    }

    pub fn insert(&mut self, id: MessageId, encoded: Vec<Encoded>) {
        self.answers.insert(id, encoded);
    }

    pub fn get(&self, id: &MessageId) -> Option<&[Encoded]> {
        self.answers.get(id).map(Vec::as_slice)
    }
}
