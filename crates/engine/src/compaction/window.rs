//! The part of a model's context that a conversation may fill, from the model's limits and the configuration. Pure.

use windlass_core::config::Config;
use windlass_provider::Model;

use crate::turn::prompt;

/// Tokens that stay free where the limit of the input is known, unless `compaction.reserved` says otherwise.
const RESERVED: u64 = 20_000;

/// The room for a conversation in a model's context, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The limit of the model's input.
    pub whole: u64,
    /// The part of it that leaves room for an answer.
    pub usable: u64,
}

impl Window {
    /// Returns `None` when the limits are not known, or leave no room at all.
    pub fn of(model: &Model, config: &Config) -> Option<Self> {
        let max_output = prompt::max_output(config);
        let output = match model.limit.output {
            0 => max_output,
            limit => limit.min(max_output),
        };
        let (whole, kept_free) = match model.limit.input {
            Some(input) => {
                let reserved = config.settings.compaction.reserved;
                (input, reserved.unwrap_or(output.min(RESERVED)))
            }
            None => (model.limit.context, output),
        };
        let usable = whole.saturating_sub(kept_free);
        (usable > 0).then_some(Self { whole, usable })
    }
}

/// Returns true unless `compaction.auto` is false.
pub fn is_automatic(config: &Config) -> bool {
    config.settings.compaction.auto != Some(false)
}
