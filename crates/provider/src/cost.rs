//! The cost of an answer, from a model's prices and the tokens that were used (facts: OpenCode §1.6).

use windlass_base::money::Money;
use windlass_protocol::opencode::config::{LongContextCost, ModelCost};

use super::Usage;

#[cfg(test)]
mod tests;

/// Tokens beyond which `context_over_200k` holds.
const LONG_CONTEXT: u64 = 200_000;

/// Returns the cost in US dollars. Reasoning is billed as output.
///
/// A request with a long context is billed whole at the prices of the highest tier that it exceeds.
pub fn of(prices: &ModelCost, usage: Usage) -> f64 {
    let context = usage.input + usage.cache_read + usage.cache_write;
    let tiers = prices.tiers.iter().filter(|tier| tier.tier.kind == "context" && context > tier.tier.size);
    let highest = tiers.max_by_key(|tier| tier.tier.size);
    let long = prices.context_over_200k.filter(|_| context > LONG_CONTEXT);
    let LongContextCost { input, output, cache_read, cache_write } = match (highest, long) {
        (Some(tier), _) => LongContextCost {
            input: tier.input,
            output: tier.output,
            cache_read: tier.cache_read,
            cache_write: tier.cache_write,
        },
        (None, Some(long)) => long,
        (None, None) => LongContextCost {
            input: prices.input,
            output: prices.output,
            cache_read: prices.cache_read,
            cache_write: prices.cache_write,
        },
    };
    let per_million = [
        (usage.input, input),
        (usage.output + usage.reasoning, output),
        (usage.cache_read, cache_read),
        (usage.cache_write, cache_write),
    ];
    let whole = per_million
        .into_iter()
        .fold(Money::default(), |whole, (n_tokens, price)| whole + Money::from_dollars(price) * n_tokens);
    (whole / 1_000_000).dollars()
}
