//! Wall-clock time as OpenCode writes it, milliseconds since the epoch and ISO 8601 text, and as people read it.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::{Timestamp, Zoned, civil, tz::TimeZone};

/// Returns the milliseconds since the epoch.
pub fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// Formats a time as ISO 8601, such as `2026-11-21T08:33:38.630Z`.
pub fn iso(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => String::new(),
    }
}

/// Formats a time as a date in the user's time zone, such as `Sat Nov 21 2026`.
pub fn day(ms: i64) -> String {
    Zone::local().format(ms, "%a %b %d %Y")
}

/// Formats a time for people in the user's time zone, as short as possible; see [`Zone::short`].
pub fn short(ms: i64) -> String {
    Zone::local().short(ms, now_ms())
}

/// A time zone.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// Returns the user's time zone.
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    /// Returns UTC, which is the same on every machine.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Formats a time for people: `today 14:02`, `yesterday 09:15`, `3 Nov 09:15`, or `3 Nov 2025` in another
    /// year.
    pub fn short(&self, ms: i64, now_ms: i64) -> String {
        let (Some(then), Some(now)) = (self.at(ms), self.at(now_ms)) else { return String::new() };
        let yesterday = now.date().yesterday().ok();
        if then.date() == now.date() {
            then.strftime("today %H:%M").to_string()
        } else if Some(then.date()) == yesterday {
            then.strftime("yesterday %H:%M").to_string()
        } else if then.year() == now.year() {
            then.strftime("%-d %b %H:%M").to_string()
        } else {
            then.strftime("%-d %b %Y").to_string()
        }
    }

    /// Formats a time with its full date, for a text that is read on another day: `3 Nov 2026, 09:15`.
    pub fn full(&self, ms: i64) -> String {
        self.format(ms, "%-d %b %Y, %H:%M")
    }

    /// Formats the time of day, such as `09:15`.
    pub fn time(&self, ms: i64) -> String {
        self.format(ms, "%H:%M")
    }

    /// Returns the name of the zone at a time, such as `CET` or `+03`.
    pub fn name(&self, ms: i64) -> String {
        self.format(ms, "%Z")
    }

    /// Formats the date so that it sorts by day, such as `2026-11-03`.
    pub fn date(&self, ms: i64) -> String {
        self.format(ms, "%Y-%m-%d")
    }

    /// Returns the first moment of the day that is `n_days` days before the day of `now_ms`.
    pub fn days_ago(&self, n_days: u32, now_ms: i64) -> i64 {
        let start = self.at(now_ms).and_then(|now| {
            let day = now.date().checked_sub(jiff::Span::new().try_days(i64::from(n_days)).ok()?).ok()?;
            day.to_zoned(self.0.clone()).ok()
        });
        start.map_or(i64::MIN, |start| start.timestamp().as_millisecond())
    }

    fn format(&self, ms: i64, format: &str) -> String {
        self.at(ms).map(|zoned| zoned.strftime(format).to_string()).unwrap_or_default()
    }

    fn at(&self, ms: i64) -> Option<Zoned> {
        Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(self.0.clone()))
    }
}

/// Formats a time as a date in the user's time zone, such as `2026-11-21`.
pub fn local_day(ms: i64) -> String {
    local(&iso(ms)).map(|(day, _)| day).unwrap_or_default()
}

/// Converts an ISO 8601 time to the date and time of day in the user's time zone: `2026-11-21` and `09:33:38`.
pub fn local(iso: &str) -> Option<(String, String)> {
    let timestamp: jiff::Timestamp = iso.parse().ok()?;
    let zoned = timestamp.to_zoned(jiff::tz::TimeZone::system());
    Some((zoned.strftime("%Y-%m-%d").to_string(), zoned.strftime("%H:%M:%S").to_string()))
}

/// Formats a date that [`Zone::date`] wrote with its day of the week: `Tue 3 Nov`.
pub fn weekday(date: &str) -> String {
    match date.parse::<civil::Date>() {
        Ok(date) => date.strftime("%a %-d %b").to_string(),
        Err(_) => date.to_owned(),
    }
}

#[cfg(test)]
mod tests;
