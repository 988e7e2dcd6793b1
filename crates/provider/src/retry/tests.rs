//! Delays double up to a limit that only the provider may exceed.

use std::time::Duration;

use super::{MAX_RETRIES, delay};

#[test]
fn waits_double_up_to_thirty_seconds() {
    let waits: Vec<u64> = (1..=MAX_RETRIES + 1).map(|attempt| delay(attempt, None, 0.0).as_secs()).collect();
    assert_eq!(waits, [2, 4, 8, 16, 30, 30]);
    assert_eq!(delay(u32::MAX, None, 1.0).as_secs(), 30);
}

#[test]
fn jitter_adds_a_quarter_at_most() {
    assert_eq!(delay(1, None, 1.0), Duration::from_millis(2500));
    assert_eq!(delay(3, None, 0.5), Duration::from_secs(9));
    assert_eq!(delay(5, None, 1.0), Duration::from_secs(30));
    assert_eq!(delay(1, None, f64::INFINITY), Duration::from_millis(2500));
}

#[test]
fn the_providers_delay_is_used_unchanged() {
    assert_eq!(delay(1, Some(Duration::from_secs(120)), 1.0), Duration::from_secs(120));
    assert_eq!(delay(5, Some(Duration::ZERO), 1.0), Duration::ZERO);
}
