//! Wall-clock time as OpenCode writes it: milliseconds since the epoch, and ISO 8601 text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// `2026-11-21T08:33:38.630Z`.
pub fn iso(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => String::new(),
    }
}

/// The date of a moment where the user is, such as `Sat Nov 21 2026`.
pub fn day(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(timestamp) => timestamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%a %b %d %Y").to_string(),
        Err(_) => String::new(),
    }
}

/// The day of a moment where the user is, such as `2026-11-21`.
pub fn local_day(ms: i64) -> String {
    local(&iso(ms)).map(|(day, _)| day).unwrap_or_default()
}

/// The day and the time where the user is, `2026-11-21` and `09:33:38`, of an ISO 8601 time.
pub fn local(iso: &str) -> Option<(String, String)> {
    let timestamp: jiff::Timestamp = iso.parse().ok()?;
    let zoned = timestamp.to_zoned(jiff::tz::TimeZone::system());
    Some((zoned.strftime("%Y-%m-%d").to_string(), zoned.strftime("%H:%M:%S").to_string()))
}
