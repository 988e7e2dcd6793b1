//! How long to wait before a failed request is sent again (facts: OpenCode §6.5).

use std::time::Duration;

#[cfg(test)]
mod tests;

/// After so many tries more the error is final.
pub const MAX_RETRIES: u32 = 5;

const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);
const JITTER: f64 = 0.25;

/// The wait before retry number `attempt`, counted from 1.
///
/// `after` is what the provider asked for and holds as it is. `random` is from 0 to 1 and keeps many sessions that
/// failed together from coming back together.
pub fn delay(attempt: u32, after: Option<Duration>, random: f64) -> Duration {
    if let Some(after) = after {
        return after;
    }
    let doubled = FIRST.saturating_mul(2u32.saturating_pow(attempt.saturating_sub(1))).min(LONGEST);
    let jittered = doubled.as_secs_f64() * (1.0 + JITTER * random.clamp(0.0, 1.0));
    Duration::try_from_secs_f64(jittered).unwrap_or(doubled).min(LONGEST)
}
