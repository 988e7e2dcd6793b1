//! Faults of the sources by the key that they are about, to be told with a failure that follows from them.

use std::collections::HashMap;

use windlass_base::text::nearest;

use super::{
    layer::{Kind, Layer},
    warning::Warning,
};

/// The first key of faults in stored credentials; a provider's id follows where one entry alone is wrong.
pub const CREDENTIALS: &str = "auth.json";

/// Everything wrong that has a key, that of the strongest source first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults(Vec<Fault>);

#[derive(Debug, Clone, PartialEq)]
struct Fault {
    path: Vec<String>,
    /// Place and problem.
    told: String,
}

impl Faults {
    /// Finds the keys that warnings are about by their places.
    pub fn of(warnings: &[Warning], layers: &[Layer]) -> Self {
        let told: HashMap<_, _> = warnings
            .iter()
            .filter_map(|it| Some(((it.source.as_str(), it.line.zip(it.column)?), it)))
            .collect();
        let mut faults = Self::default();
        // A reader cannot correct a plugin's configuration.
        for layer in layers.iter().rev().filter(|layer| layer.kind != Kind::Plugin) {
            let about = layer
                .places
                .iter()
                .filter_map(|(place, at)| Some((at, place, told.get(&(layer.source.as_str(), *at))?)));
            let mut about: Vec<_> = about.collect();
            about.sort_by_key(|(at, place, _)| (*at, *place));
            for (_, place, warning) in about {
                let keys = place.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
                faults.add(keys.collect(), warning);
            }
        }
        faults
    }

    /// Adds a fault that is weaker than those before.
    pub fn add(&mut self, path: Vec<String>, warning: &Warning) {
        self.0.push(Fault { path, told: warning.to_string() });
    }

    /// Returns place and problem of the first fault at a key, around it or below it. A key that is misspelt counts as
    /// the one that was meant; the second, which is a name of the user's own, has to be the same.
    pub fn about(&self, path: &[&str]) -> Option<&str> {
        let is_meant = |(idx, (said, wanted)): (usize, (&String, &&str))| {
            said == wanted || idx != 1 && nearest(said, std::iter::once(*wanted)).is_some()
        };
        let is_about = |fault: &&Fault| fault.path.iter().zip(path).enumerate().all(is_meant);
        self.0.iter().find(is_about).map(|fault| fault.told.as_str())
    }
}

#[cfg(test)]
mod tests;
