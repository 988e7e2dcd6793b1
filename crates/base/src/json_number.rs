//! Numbers in the JSON of other programs, which some write as texts.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Returns a number, or the one that a text holds.
pub fn of(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number: &f64| number.is_finite())
}

/// Reads a field by [`of`]; anything else counts as a field that is missing.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(of(&Value::deserialize(deserializer)?))
}

#[cfg(test)]
mod tests {
    //! Numbers in every form that was seen.

    use serde_json::json;

    use super::of;

    #[test]
    fn a_number_is_read_from_a_text_too() {
        for (value, expected) in [
            (json!(3600), Some(3600.0)),
            (json!(3599.5), Some(3599.5)),
            (json!("3600"), Some(3600.0)),
            (json!(" 3600 "), Some(3600.0)),
            (json!("soon"), None),
            (json!("inf"), None),
            (json!(null), None),
            (json!([3600]), None),
        ] {
            assert_eq!(of(&value), expected, "{value}");
        }
    }
}
