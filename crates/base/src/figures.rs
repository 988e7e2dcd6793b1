//! Formatting of counts, sums of money and durations for people.

/// Formats a count with its noun: `1 call`, `18 calls`.
pub fn counted(count: usize, noun: &str) -> String {
    let ending = match (count, noun.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {noun}{ending}")
}

/// Shortens a count: `940`, `15.2k`, `155k`, `1.3M`.
pub fn short(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..99_950 => tenths(count, 1_000, "k"),
        99_950..999_500 => format!("{}k", (count + 500) / 1_000),
        999_500.. => tenths(count, 1_000_000, "M"),
    }
}

fn tenths(count: u64, unit: u64, name: &str) -> String {
    let tenths = (count + unit / 20) / (unit / 10);
    match tenths % 10 {
        0 => format!("{}{name}", tenths / 10),
        rest => format!("{}.{rest}{name}", tenths / 10),
    }
}

/// Formats a sum in dollars: `$0.48`. Sums below one cent keep their significant digits.
pub fn dollars(amount: f64) -> String {
    match amount {
        amount if amount <= 0.0 => "$0".to_owned(),
        amount if amount < 0.0001 => "<$0.0001".to_owned(),
        amount if amount < 0.01 => format!("${amount:.4}"),
        amount => format!("${amount:.2}"),
    }
}

/// Formats a duration: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`.
pub fn duration(milliseconds: i64) -> String {
    let milliseconds = milliseconds.max(0);
    let seconds = (milliseconds + 500) / 1_000;
    match seconds {
        _ if milliseconds < 9_950 => format!("{:.1} s", milliseconds as f64 / 1_000.0),
        ..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600.. => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Formats a duration without fractions, for a clock that runs.
pub fn clock(milliseconds: i64) -> String {
    match milliseconds {
        ..10_000 => format!("{} s", milliseconds.max(0) / 1_000),
        10_000.. => duration(milliseconds / 1_000 * 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::{clock, counted, dollars, duration, short};

    #[test]
    fn numbers_are_short_and_exact_enough() {
        assert_eq!(
            [0, 999, 1_000, 15_240, 155_000, 999_600, 1_260_000].map(short),
            ["0", "999", "1k", "15.2k", "155k", "1M", "1.3M"]
        );
        assert_eq!(
            [0.0, 0.00001, 0.0042, 0.476, 12.0].map(dollars),
            ["$0", "<$0.0001", "$0.0042", "$0.48", "$12.00"]
        );
        assert_eq!(
            [0, 420, 12_300, 185_000, 7_800_000].map(duration),
            ["0.0 s", "0.4 s", "12 s", "3 min 5 s", "2 h 10 min"]
        );
        assert_eq!([0, 1_900, 59_900, 60_000].map(clock), ["0 s", "1 s", "59 s", "1 min 0 s"]);
        assert_eq!(
            [(1, "call"), (2, "call"), (3, "match")].map(|(n, noun)| counted(n, noun)),
            ["1 call", "2 calls", "3 matches"]
        );
    }
}
