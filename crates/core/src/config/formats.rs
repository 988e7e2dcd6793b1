//! Formats of texts and lists in the configuration: the types name them, and the check takes them from here.

use super::{
    model::parse_model,
    remote::{is_trusted, url_problem},
};

/// Names of colours in OpenCode.
pub const COLORS: [&str; 7] = ["primary", "secondary", "accent", "success", "warning", "error", "info"];

/// The meaning of a `format` in a type's schema.
pub struct Format {
    pub name: &'static str,
    /// Returns the warning about a text, which is shown in it, that is none.
    pub problem: fn(shown: &str, text: &str) -> Option<String>,
}

/// All formats; `schema::make` has their keywords in JSON Schema. Those with texts that have no problem are checked where
/// they are used.
pub const FORMATS: [Format; 9] = [
    Format {
        name: "model",
        problem: |shown, text| {
            let is_model = parse_model(text).is_some();
            (!is_model).then(|| format!("{shown} is not a model; write \"provider/model\""))
        },
    },
    Format {
        name: "color",
        problem: |shown, text| {
            let expected = "\"#RRGGBB\" or a name of OpenCode's such as \"accent\"";
            (!is_color(text)).then(|| format!("{shown} is ignored; expected {expected}"))
        },
    },
    Format {
        name: "text",
        problem: |_, text| text.trim().is_empty().then(|| "is empty and counts as not given".to_owned()),
    },
    Format { name: "url", problem: |shown, text| Some(format!("{shown} {}", url_problem(text)?)) },
    Format {
        name: "trusted-url",
        problem: |shown, text| {
            let untrusted = || (!is_trusted(text)).then_some("is neither https nor this machine");
            Some(format!("{shown} {}", url_problem(text).or_else(untrusted)?))
        },
    },
    // A text that begins with a variable is an address once its value is there; an empty one counts as not given.
    Format {
        name: "late-url",
        problem: |shown, text| {
            let is_known = !text.is_empty() && !text.starts_with("${");
            let problem = url_problem(text).filter(|_| is_known)?;
            Some(format!("{shown} {problem}; it is ignored"))
        },
    },
    // One that is left out would be a host that is not denied, so all of the network is judged at once.
    Format { name: "host", problem: |_, _| None },
    Format { name: "program", problem: |_, _| None },
    Format { name: "by-name", problem: |_, _| None },
];

/// Returns the format of a name; `None` for those of JSON Schema's own.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Returns the reason why a name cannot be that of an agent or a command.
pub fn name_problem(name: &str) -> Option<&'static str> {
    if name.trim().is_empty() {
        return Some("its name is empty");
    }
    if name.contains(char::is_control) {
        return Some("its name has control characters");
    }
    name.split('/').find_map(|part| match part {
        "" => Some("a part of its name is empty"),
        "." => Some("a part of its name is `.`"),
        ".." => Some("a part of its name is `..`"),
        _ => None,
    })
}

fn is_color(color: &str) -> bool {
    let is_hex =
        |digits: &str| matches!(digits.len(), 3 | 6) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    color.strip_prefix('#').map_or(COLORS.contains(&color), is_hex)
}
