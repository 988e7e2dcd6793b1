//! Formatting of times for people.

use super::{Zone, weekday};

/// 2026-09-21T14:13:20Z, a Monday.
const NOW: i64 = 1_790_000_000_000;
const HOUR: i64 = 3_600_000;

#[test]
fn a_time_is_as_short_as_it_can_be() {
    let short = |ms: i64| Zone::utc().short(ms, NOW);
    for (ms, expected) in [
        (NOW, "today 14:13"),
        (NOW - 14 * HOUR, "today 00:13"),
        (NOW - 15 * HOUR, "yesterday 23:13"),
        (NOW - 48 * HOUR, "19 Sep 14:13"),
        (NOW - 365 * 24 * HOUR, "21 Sep 2025"),
        (NOW + 24 * HOUR, "22 Sep 14:13"),
        (i64::MAX, ""),
    ] {
        assert_eq!(short(ms), expected, "{ms}");
    }
    assert_eq!(Zone::utc().full(NOW), "21 Sep 2026, 14:13");
    assert_eq!(
        (Zone::utc().date(NOW), weekday("2026-09-21")),
        ("2026-09-21".to_owned(), "Mon 21 Sep".to_owned())
    );
}

#[test]
fn days_begin_at_midnight() {
    assert_eq!(Zone::utc().days_ago(0, NOW), NOW - NOW.rem_euclid(24 * HOUR));
    assert_eq!(Zone::utc().days_ago(6, NOW), NOW - NOW.rem_euclid(24 * HOUR) - 6 * 24 * HOUR);
}
