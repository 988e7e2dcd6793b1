//! The times at which things were last asked for, so that each is asked for now and then.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use windlass_base::lock::lock;
use windlass_core::config::remote::Entry;

/// Things that are asked for again after a while.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Asked {
    /// Organisations' configurations.
    Organisations,
    /// The catalog of models.
    Catalog,
    /// The models of the server at an address.
    Server(String),
    /// The age of tool outputs.
    ToolOutputs,
}

/// When each was asked for.
#[derive(Debug, Default)]
pub struct Freshness {
    asked: Mutex<HashMap<Asked, Instant>>,
    /// The organisations that the credentials named at the last request.
    organisations: Mutex<Vec<Entry>>,
}

impl Freshness {
    /// Returns true if something was not asked for within the time; it counts as asked for now then.
    pub fn is_due(&self, what: Asked, period: Duration) -> bool {
        let mut asked = lock(&self.asked);
        let is_due = asked.get(&what).is_none_or(|at| at.elapsed() >= period);
        if is_due {
            asked.insert(what, Instant::now());
        }
        is_due
    }

    /// Takes the organisations of now; returns true if they are others than at the last request.
    pub fn have_changed(&self, organisations: Vec<Entry>) -> bool {
        let mut known = lock(&self.organisations);
        let before = std::mem::replace(&mut *known, organisations);
        before != *known
    }

    #[cfg(test)]
    pub fn forget(&self, what: &Asked) {
        lock(&self.asked).remove(what);
    }
}
