//! Delays before a failed request is sent again (facts: OpenCode §6.5).

use std::time::Duration;

#[cfg(test)]
mod tests;

/// Number of retries after which the error is final.
pub const MAX_RETRIES: u32 = 5;

/// The same where another try is unlikely to help.
pub const FEW_RETRIES: u32 = 1;

/// The longest delay that a provider may ask for; with a longer one, the error is final.
pub const LONGEST_ASKED: Duration = Duration::from_secs(10 * 60);

const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);
const JITTER: f64 = 0.25;

/// Returns the delay before retry number `attempt`, counted from 1.
///
/// `after` is the delay that the provider asked for, and is used unchanged. `random` is from 0 to 1 and keeps
/// many sessions that failed together from retrying together.
pub fn delay(attempt: u32, after: Option<Duration>, random: f64) -> Duration {
    if let Some(after) = after {
        return after;
    }
    let doubled = FIRST.saturating_mul(2u32.saturating_pow(attempt.saturating_sub(1))).min(LONGEST);
    let jittered = doubled.as_secs_f64() * (1.0 + JITTER * random.clamp(0.0, 1.0));
    Duration::try_from_secs_f64(jittered).unwrap_or(doubled).min(LONGEST)
}
