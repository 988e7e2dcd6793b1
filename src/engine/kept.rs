//! Encoded earlier answers of a turn, so that a long turn does not encode them anew at each step.

use std::collections::HashMap;

use serde_json::{Map, Value};
use windlass_protocol::opencode::id::MessageId;

use crate::provider::{Encoded, Model};

/// Encoded answers by message. They hold for one model with one set of options.
#[derive(Default)]
pub struct KeptAnswers {
    of: Option<(Model, Map<String, Value>)>,
    answers: HashMap<MessageId, Vec<Encoded>>,
}

impl KeptAnswers {
    /// Forgets what another model, or the same with other options, was sent.
    pub fn begin(&mut self, model: &Model, options: &Map<String, Value>) {
        if !self.hold_for(model, options) {
            *self = Self { of: Some((model.clone(), options.clone())), answers: HashMap::new() };
        }
    }

    pub fn hold_for(&self, model: &Model, options: &Map<String, Value>) -> bool {
        self.of.as_ref().is_some_and(|of| of.0 == *model && of.1 == *options)
    }

    pub fn insert(&mut self, id: MessageId, encoded: Vec<Encoded>) {
        self.answers.insert(id, encoded);
    }

    pub fn get(&self, id: &MessageId) -> Option<&[Encoded]> {
        self.answers.get(id).map(Vec::as_slice)
    }
}
