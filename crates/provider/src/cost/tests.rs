//! Costs are those that one calculates by hand from the prices.

use serde_json::{Value, json};

use super::{super::Usage, of};

fn cost(prices: Value, usage: Usage) -> f64 {
    of(&serde_json::from_value(prices).unwrap(), usage)
}

fn usage(input: u64, output: u64, reasoning: u64, cache_read: u64, cache_write: u64) -> Usage {
    Usage { input, output, reasoning, cache_read, cache_write }
}

#[test]
fn each_kind_of_token_has_its_price() {
    let sonnet = json!({"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75});
    assert_eq!(cost(sonnet.clone(), usage(1_000, 500, 0, 100_000, 2_000)), 0.048);
    assert_eq!(cost(sonnet, usage(7, 3, 2, 1, 1)), 0.000_100_05);
    let nano = json!({"input": 0.05, "output": 0.4, "cache_read": 0.005});
    assert_eq!(cost(nano, usage(1, 0, 1, 1, 1_000)), 0.000_000_455);
    assert_eq!(cost(json!({}), usage(1_000, 1_000, 0, 0, 0)), 0.0);
}

#[test]
fn a_long_context_is_billed_whole_at_its_own_prices() {
    let prices = json!({
        "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75,
        "context_over_200k": {"input": 6, "output": 22.5, "cache_read": 0.6, "cache_write": 7.5},
    });
    assert_eq!(cost(prices.clone(), usage(200_000, 1_000, 0, 0, 0)), 0.615);
    assert_eq!(cost(prices.clone(), usage(200_001, 1_000, 0, 0, 0)), 1.222_506);
    // Tokens that the cache holds are part of the context.
    assert_eq!(cost(prices, usage(1, 0, 0, 200_000, 0)), 0.120_006);
}

#[test]
fn the_highest_tier_that_is_exceeded_holds() {
    let tier = |size: u64, input: u64| json!({"input": input, "output": 0, "tier": {"type": "context", "size": size}});
    let prices = json!({"input": 1, "output": 0, "tiers": [tier(400_000, 4), tier(128_000, 2)]});
    assert_eq!(cost(prices.clone(), usage(128_000, 0, 0, 0, 0)), 0.128);
    assert_eq!(cost(prices.clone(), usage(130_000, 0, 0, 0, 0)), 0.26);
    assert_eq!(cost(prices, usage(500_000, 0, 0, 0, 0)), 2.0);
}
