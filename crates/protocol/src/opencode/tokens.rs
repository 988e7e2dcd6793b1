//! Counts of tokens.

use serde::{Deserialize, Serialize};

/// Token counts of one answer, or running totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tokens {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Input that was not read from or written to the cache.
    pub input: u64,
    /// Output without reasoning.
    pub output: u64,
    pub reasoning: u64,
    pub cache: CacheTokens,
}

/// Tokens read from and written to the provider's prompt cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheTokens {
    pub read: u64,
    pub write: u64,
}

impl Tokens {
    /// Adds another answer's counts to running totals.
    pub fn add(&mut self, other: &Tokens) {
        self.input += other.input;
        self.output += other.output;
        self.reasoning += other.reasoning;
        self.cache.read += other.cache.read;
        self.cache.write += other.cache.write;
    }

    /// Returns what has been added since other totals.
    pub fn since(&self, before: &Tokens) -> Tokens {
        let mut since = *self;
        since.input = self.input.saturating_sub(before.input);
        since.output = self.output.saturating_sub(before.output);
        since.reasoning = self.reasoning.saturating_sub(before.reasoning);
        since.cache.read = self.cache.read.saturating_sub(before.cache.read);
        since.cache.write = self.cache.write.saturating_sub(before.cache.write);
        since
    }

    /// Returns the number of tokens that the model read: the size of its context.
    pub fn context(&self) -> u64 {
        self.input + self.cache.read + self.cache.write
    }
}
