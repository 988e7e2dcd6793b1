//! The bounds of a form's values, and the fields that ask for a secret.

use regex::RegexBuilder;
use reqwest::Url;
use serde_json::Value;

/// Bytes that a server's pattern may take when it is compiled.
const MAX_PATTERN: usize = 1 << 20;

/// Words of a field's name that stand for a secret, and pairs of them.
const SECRETS: [&str; 14] = [
    "password",
    "passwords",
    "passphrase",
    "passcode",
    "passwd",
    "pwd",
    "secret",
    "secrets",
    "token",
    "pin",
    "cvv",
    "cvc",
    "credential",
    "credentials",
];
const SECRET_PAIRS: [(&str, &str); 6] = [
    ("api", "key"),
    ("access", "key"),
    ("private", "key"),
    ("secret", "key"),
    ("credit", "card"),
    ("card", "number"),
];
const SECRETS_IN_ONE: [&str; 4] = ["apikey", "accesskey", "privatekey", "secretkey"];

/// Returns true if a name or title stands for a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let words = words(name);
    let is_one = |word: &String| SECRETS.contains(&&**word) || SECRETS_IN_ONE.contains(&&**word);
    let is_pair = |pair: &[String]| SECRET_PAIRS.contains(&(&*pair[0], &*pair[1]));
    words.iter().any(is_one) || words.windows(2).any(is_pair)
}

/// Splits a name at everything but letters and digits, and where a capital follows a small letter.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || was_small && c.is_uppercase() {
            words.push(String::new());
        }
        was_small = c.is_lowercase() || c.is_numeric();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the bound of its schema that a value breaks, worded to follow "must"; `None` if it breaks none.
pub(super) fn misfit(schema: &Value, value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
                (Some(least), _) if number < least => Some(format!("be at least {}", schema["minimum"])),
                (_, Some(most)) if number > most => Some(format!("be at most {}", schema["maximum"])),
                _ => None,
            }
        }
        Value::String(text) => {
            let n_chars = text.chars().count() as u64;
            bounds(schema, ("minLength", "maxLength"), n_chars, "characters").or_else(|| shape(schema, text))
        }
        Value::Array(values) => bounds(schema, ("minItems", "maxItems"), values.len() as u64, "options"),
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}

fn bounds(schema: &Value, (least, most): (&str, &str), n: u64, what: &str) -> Option<String> {
    match (schema[least].as_u64(), schema[most].as_u64()) {
        (Some(least), _) if n < least => Some(format!("have at least {least} {what}")),
        (_, Some(most)) if n > most => Some(format!("have at most {most} {what}")),
        _ => None,
    }
}

fn shape(schema: &Value, text: &str) -> Option<String> {
    let matches = |pattern: &str| {
        let pattern = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
        // A pattern that is not understood is left to the server.
        pattern.map_or(true, |pattern| pattern.is_match(text))
    };
    if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| !matches(pattern)) {
        return Some(format!("match {pattern}"));
    }
    let (is_met, wanted) = match schema["format"].as_str()? {
        "email" => (matches(r"^[^\s@]+@[^\s@]+\.[^\s@]+$"), "be an e-mail address"),
        "uri" => (Url::parse(text).is_ok(), "be a URI"),
        "date" => (is_date(text), "be a date such as 2026-01-31"),
        "date-time" => {
            let (date, time) = text.split_at_checked(10).unwrap_or_default();
            let time_of_day =
                r"^[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$";
            let is_time = RegexBuilder::new(time_of_day).build().is_ok_and(|pattern| pattern.is_match(time));
            (is_date(date) && is_time, "be a date and time such as 2026-01-31T12:00:00Z")
        }
        _ => return None,
    };
    (!is_met).then(|| wanted.to_owned())
}

fn is_date(text: &str) -> bool {
    let numbers: Vec<Option<u32>> = text.split('-').map(|piece| piece.parse().ok()).collect();
    let [Some(year), Some(month), Some(day)] = numbers[..] else { return false };
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 0,
    };
    text.len() == 10 && (1..=days).contains(&day)
}

#[cfg(test)]
mod tests {
    //! Values at and beyond their bounds.

    use serde_json::{Value, json};

    use super::misfit;

    #[test]
    fn a_value_beyond_a_bound_is_named() {
        let check = |schema: Value, fits: &[Value], unfit: &[(Value, &str)]| {
            for value in fits {
                assert_eq!(misfit(&schema, value), None, "{schema}: {value}");
            }
            for (value, wanted) in unfit {
                assert_eq!(misfit(&schema, value).as_deref(), Some(*wanted), "{schema}: {value}");
            }
        };
        let (least, most) = ((json!(0), "be at least 1"), (json!(9.5), "be at most 9"));
        check(json!({"minimum": 1, "maximum": 9}), &[json!(1), json!(9)], &[least, most]);
        let (short, long) =
            ((json!("\u{e9}"), "have at least 2 characters"), (json!("abcd"), "have at most 3 characters"));
        check(
            json!({"minLength": 2, "maxLength": 3}),
            &[json!("ab"), json!("\u{e9}\u{e9}\u{e9}")],
            &[short, long],
        );
        check(json!({"maxItems": 1}), &[json!(["a"])], &[(json!(["a", "b"]), "have at most 1 options")]);
        check(json!({"pattern": "^a+$"}), &[json!("aa")], &[(json!("b"), "match ^a+$")]);
        check(json!({"pattern": "(?<=x)(?!"}), &[json!("anything")], &[]);
        let mail = "be an e-mail address";
        check(json!({"format": "email"}), &[json!("a@b.c")], &[(json!("a@b"), mail), (json!("@b.c"), mail)]);
        check(json!({"format": "uri"}), &[json!("a:b")], &[(json!("b"), "be a URI")]);
        let date = "be a date such as 2026-01-31";
        let no_dates = ["2026-02-29", "2026-13-01", "26-1-1", "x"].map(|it| (json!(it), date));
        check(json!({"format": "date"}), &[json!("2024-02-29")], &no_dates);
        let time = "be a date and time such as 2026-01-31T12:00:00Z";
        let times = [json!("2026-01-31T12:00:00Z"), json!("2026-01-31T12:00:00.5+02:00")];
        let no_times = ["2026-01-31T25:00:00Z", "2026-01-31T12:00:00"].map(|it| (json!(it), time));
        check(json!({"format": "date-time"}), &times, &no_times);
        assert_eq!(misfit(&json!({"format": "date-time"}), &json!("x")).as_deref(), Some(time));
    }
}
