//! The last request for each thing that is refreshed from time to time.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use windlass_base::lock::lock;
use windlass_core::config::remote::Entry;

/// Things that are refreshed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refreshed {
    /// Organisations' configurations.
    Organisations,
    /// The catalog of models.
    Catalog,
    /// The models of the server at an address.
    Server(String),
    /// The age of tool outputs.
    ToolOutputs,
}

/// The times of the last requests.
#[derive(Debug, Default)]
pub struct Freshness {
    begun: Mutex<HashMap<Refreshed, Instant>>,
    /// The organisations that the credentials named at the last request.
    organisations: Mutex<Vec<Entry>>,
}

impl Freshness {
    /// Begins a refresh unless one began within the period; returns true if it did.
    pub fn begin(&self, refreshed: Refreshed, period: Duration) -> bool {
        let mut begun = lock(&self.begun);
        let is_due = begun.get(&refreshed).is_none_or(|at| at.elapsed() >= period);
        if is_due {
            begun.insert(refreshed, Instant::now());
        }
        is_due
    }

    /// Replaces the known organisations; returns true if they are different ones.
    pub fn replace_organisations(&self, organisations: Vec<Entry>) -> bool {
        let mut known = lock(&self.organisations);
        let before = std::mem::replace(&mut *known, organisations);
        before != *known
    }

    #[cfg(test)]
    pub fn forget(&self, refreshed: &Refreshed) {
        lock(&self.begun).remove(refreshed);
    }
}
