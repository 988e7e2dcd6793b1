//! Serde's messages in the words of a person that writes JSON.

use windlass_base::text::head;

/// Beginnings of serde's names of values, and the words that are shown for them.
const VALUES: [(&str, &str); 7] = [
    ("string ", ""),
    ("integer ", ""),
    ("floating point ", ""),
    ("boolean ", ""),
    ("sequence", "a list"),
    ("map", "an object"),
    ("unit value", "null"),
];

/// Serde's names of expected types, and the words of JSON for them.
const EXPECTED: [(&str, &str); 8] = [
    ("a map", "an object"),
    ("a sequence", "a list"),
    ("a boolean", "true or false"),
    ("usize", "a whole number"),
    ("u64", "a whole number"),
    ("u32", "a whole number"),
    ("u16", "a whole number below 65536"),
    ("f64", "a number"),
];

/// Allowed shapes of a value that has several, by the name of its type.
const EITHER: [(&str, &str); 4] = [
    ("Programs", "true, false or an object of programs"),
    ("AutoUpdate", "true, false or \"notify\""),
    ("McpOauth", "false or an object"),
    ("PluginSpec", "\"package@version\" or [\"package\", {options}]"),
];

/// Rewords a message of serde as the value and the kind expected in its place.
pub fn plain(message: &str) -> String {
    if let Some(key) = message.strip_prefix("missing field ") {
        return match key {
            "`type`" => "has no `type`; write \"local\" or \"remote\"".to_owned(),
            key => format!("has no {key}"),
        };
    }
    if let Some((_, name)) = message.split_once("did not match any variant of untagged enum ") {
        let expected = EITHER.iter().find(|(of, _)| *of == name).map_or("another value", |(_, it)| it);
        return format!("cannot be used; expected {expected}");
    }
    let kinds = ["invalid type: ", "invalid value: ", "unknown variant ", "invalid length "];
    let said = kinds.iter().find_map(|kind| message.strip_prefix(kind));
    let Some((value, expected)) = said.and_then(|said| said.rsplit_once(", expected ")) else {
        return cut(message, 200);
    };
    let shown = VALUES.iter().find_map(|(kind, shown)| {
        let rest = value.strip_prefix(kind)?;
        Some(format!("{shown}{}", rest.trim_matches('`')))
    });
    // Serde quotes the value, however long it is.
    let value = cut(shown.as_deref().unwrap_or(value), 100);
    // A user cannot know the name of one of our types.
    let expected = if expected.starts_with("struct ") { "a map" } else { expected };
    let expected = EXPECTED.iter().find(|(theirs, _)| *theirs == expected).map_or(expected, |(_, ours)| ours);
    format!("{value} cannot be used; expected {expected}")
}

/// Returns the beginning of a text that is too long.
pub fn cut(text: &str, max_bytes: usize) -> String {
    let kept = head(text, max_bytes);
    if kept.len() < text.len() { format!("{kept}…") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn values_are_named_as_they_are_written() {
        let long = format!("invalid type: string \"{}\", expected u64", "x".repeat(500));
        let shown = format!("\"{}… cannot be used; expected a whole number", "x".repeat(99));
        for (message, expected) in [
            ("invalid type: string \"5\", expected usize", "\"5\" cannot be used; expected a whole number"),
            ("invalid type: map, expected a sequence", "an object cannot be used; expected a list"),
            ("invalid type: sequence, expected struct Hidden", "a list cannot be used; expected an object"),
            ("invalid value: integer `-1`, expected u32", "-1 cannot be used; expected a whole number"),
            ("unknown variant `a`, expected `b` or `c`", "`a` cannot be used; expected `b` or `c`"),
            ("missing field `url`", "has no `url`"),
            (
                "data did not match any variant of untagged enum McpOauth",
                "cannot be used; expected false or an object",
            ),
            (long.as_str(), shown.as_str()),
        ] {
            assert_eq!(plain(message), expected);
        }
    }
}
