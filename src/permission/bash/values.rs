//! What the variables of a line hold, as far as its text tells.

use std::collections::{BTreeMap, BTreeSet};

use super::word;

/// Readings of one word that are followed.
const MAX_READINGS: usize = 16;
/// Variables that hold variables.
const MAX_STEPS: usize = 4;

/// Variables by name; positional parameters by their number, `@` for all of them.
#[derive(Debug, Default)]
pub struct Values {
    held: BTreeMap<String, Vec<Held>>,
    /// Variables that arithmetic looks into.
    evaluated: BTreeSet<String>,
}

/// One of the things that a variable may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// What the shell makes of this text.
    Written(String),
    /// A number, whatever it is.
    Number,
    /// What comes from outside of the line's text: input, names of files.
    Input,
}

impl Values {
    pub fn hold(&mut self, name: &str, held: Held) {
        let all = self.held.entry(name.to_owned()).or_default();
        if !all.contains(&held) && all.len() < 64 {
            all.push(held);
        }
    }

    /// Arithmetic is done with this text.
    pub fn evaluate(&mut self, text: &str) {
        self.evaluated.extend(names_in(text));
    }

    /// The variables in this text are names of others, perhaps with subscripts.
    pub fn evaluate_names(&mut self, text: &str) {
        let names = text.split('$').skip(1).flat_map(|rest| names_in(rest).next());
        self.evaluated.extend(names);
    }

    /// What a word may be once the variables that are known are replaced; the word itself when none is.
    pub fn known(&self, written: &str) -> Vec<String> {
        let mut readings = vec![written.to_owned()];
        for _ in 0..MAX_STEPS {
            let next: Vec<String> = readings.iter().flat_map(|reading| self.replaced(reading)).collect();
            let is_done = next == readings;
            readings = next;
            readings.truncate(MAX_READINGS);
            if is_done {
                break;
            }
        }
        readings
    }

    /// Replaces the first variable that is known.
    fn replaced(&self, written: &str) -> Vec<String> {
        let mut is_quoted = false;
        let mut chars = written.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                '"' => is_quoted = !is_quoted,
                '\'' if !is_quoted => {
                    chars.by_ref().find(|it| it.1 == '\'');
                }
                '$' if written[at..].starts_with("$(") => {
                    let Some((words, len)) = echoed(&written[at..]) else { continue };
                    let (before, after) = (&written[..at], &written[at + len..]);
                    return words.iter().map(|word| format!("{before}{word}{after}")).collect();
                }
                '$' => {
                    let Some(found) = Reference::at(&written[at..]) else { continue };
                    let held = self.held.get(found.name).map(Vec::as_slice).unwrap_or_default();
                    let values = held.iter().filter_map(|held| match held {
                        Held::Written(value) => Some(value.as_str()),
                        Held::Number | Held::Input => None,
                    });
                    let values: Vec<&str> = values.chain(found.default).collect();
                    if values.is_empty() {
                        continue;
                    }
                    let (before, after) = (&written[..at], &written[at + found.len..]);
                    return values
                        .iter()
                        .flat_map(|value| pieces(value, is_quoted))
                        .map(|value| match is_quoted {
                            // A tilde is expanded where the variable is set.
                            true if before == "\"" && value.starts_with('~') => format!("{value}\"{after}"),
                            true => format!("{before}\"{value}\"{after}"),
                            false => format!("{before}{value}{after}"),
                        })
                        .collect();
                }
                _other => {}
            }
        }
        vec![written.to_owned()]
    }

    /// Whether arithmetic looks into something that is not known to be a number: a subscript in it runs commands.
    pub fn evaluates_input(&self) -> bool {
        let mut ahead: Vec<String> = self.evaluated.iter().cloned().collect();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        while let Some(name) = ahead.pop() {
            if name == "_" {
                return true;
            }
            for held in self.held.get(&name).map(Vec::as_slice).unwrap_or_default() {
                match held {
                    Held::Number => {}
                    Held::Input => return true,
                    Held::Written(text) if is_open(text) => return true,
                    Held::Written(text) => ahead.extend(names_in(text).filter(|name| !seen.contains(name))),
                }
            }
            seen.insert(name);
        }
        false
    }
}

/// What the `$(echo …)` writes that the text begins with, and how long that is.
fn echoed(text: &str) -> Option<(Vec<&str>, usize)> {
    let end = text.find(')')?;
    let inner = text.get(2..end)?;
    let words: Vec<&str> = inner.split_whitespace().collect();
    let is_plain = !inner.contains(['|', ';', '&', '<', '>', '`', '(', '\n']);
    let (&name, arguments) = words.split_first()?;
    let is_echo = is_plain && matches!(name, "echo" | "printf") && !arguments.is_empty();
    is_echo.then(|| (arguments.to_vec(), end + 1))
}

/// A variable in a word.
struct Reference<'a> {
    name: &'a str,
    default: Option<&'a str>,
    len: usize,
}

impl<'a> Reference<'a> {
    /// The text begins with `$`.
    fn at(text: &'a str) -> Option<Self> {
        let name_len = |text: &str| {
            let first = text.chars().next()?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            match first {
                '@' | '*' => Some(1),
                first if first.is_ascii_digit() => Some(1),
                first if is_name(first) => Some(text.find(|c| !is_name(c)).unwrap_or(text.len())),
                _other => None,
            }
        };
        let Some(inner) = text.strip_prefix("${") else {
            let len = name_len(&text[1..])?;
            return Some(Self { name: &text[1..1 + len], default: None, len: 1 + len });
        };
        let len = name_len(inner)?;
        let end = inner.find('}')?;
        let operation = inner.get(len..end)?;
        let subscript = operation.strip_prefix('[').and_then(|it| it.split_once(']'));
        let operation = subscript.map_or(operation, |it| it.1);
        let default = operation.trim_start_matches(':');
        let default = default.strip_prefix(['-', '=', '+']).filter(|word| !word.is_empty());
        Some(Self { name: &inner[..len], default, len: 2 + end + 1 })
    }
}

/// The words that a value becomes; within double quotes it stays one.
fn pieces(value: &str, is_quoted: bool) -> Vec<String> {
    let is_array = value.starts_with('(') && value.ends_with(')');
    let Some(literal) = word::path_text(value).filter(|_| !is_array) else {
        let elements = value.trim_start_matches('(').trim_end_matches(')');
        return match is_array {
            true => elements.split_whitespace().map(str::to_owned).collect(),
            false => vec![value.to_owned()],
        };
    };
    let quote = |text: &str| match text.chars().all(|c| c.is_alphanumeric() || "/._-~+=:,@%*?".contains(c)) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    };
    match literal.contains(char::is_whitespace) && !is_quoted {
        true => literal.split_whitespace().map(quote).collect(),
        false => vec![quote(&literal)],
    }
}

/// Names of variables that stand in a text, and positional parameters.
fn names_in(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'))?;
            // Digits before a letter are a number of another base.
            let before = rest[..start].chars().next_back();
            rest = &rest[start..];
            if let Some(behind) = rest.strip_prefix('$') {
                let behind = behind.strip_prefix('{').unwrap_or(behind);
                let behind = behind.strip_prefix('!').unwrap_or(behind);
                rest = behind;
                let digits = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                if digits > 0 {
                    rest = &behind[digits..];
                    return Some(behind[..digits].to_owned());
                }
                if behind.starts_with(['@', '*']) {
                    rest = &behind[1..];
                    return Some("@".to_owned());
                }
                continue;
            }
            let len =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let name = &rest[..len];
            rest = &rest[len..];
            if !before.is_some_and(|c| c.is_ascii_digit()) {
                return Some(name.to_owned());
            }
        }
    })
}

/// Whether a written value may bring a substitution into arithmetic: by quoted text, or by what a command writes.
pub fn is_open(written: &str) -> bool {
    if let Some(literal) = word::path_text(written) {
        return literal.contains(['$', '`']);
    }
    let has_quoted = written.contains("\\$") || written.contains("\\`") || written.contains("$'");
    let in_single = written.split('\'').skip(1).step_by(2).any(|piece| piece.contains(['$', '`']));
    has_quoted || in_single || repeats_text(written)
}

/// Whether a value is what a command writes that repeats text as it is.
pub fn repeats_text(written: &str) -> bool {
    const PASSING: [&str; 17] = [
        "cat", "head", "tail", "base64", "base32", "xxd", "rev", "tr", "curl", "wget", "sort", "uniq", "tac", "echo",
        "printf", "sed", "cut",
    ];
    let unquoted = written.trim_matches('"');
    let Some(inner) = unquoted.strip_prefix("$(").or(unquoted.strip_prefix('`')) else { return false };
    let inner = inner.trim_end_matches([')', '`']).trim();
    if inner.starts_with('<') {
        return true;
    }
    let mut names = inner.split('|').map(|part| part.split_whitespace().next().unwrap_or_default());
    let is_plain_echo = matches!(names.clone().next(), Some("echo" | "printf"));
    names.all(|name| PASSING.contains(&word::base_name(name))) && !is_plain_echo
}

/// Whether a word is a number wherever it is used.
pub fn is_number(written: &str) -> bool {
    let text = written.trim_matches('"');
    let is_digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let is_range = || {
        let inner = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        inner.is_some_and(|it| it.split(['.', ',']).filter(|it| !it.is_empty()).all(is_digits))
    };
    let is_own = || {
        const NUMBERS: [&str; 14] = [
            "$#", "$?", "$$", "$!", "${#", "$((", "$RANDOM", "$SECONDS", "$LINENO", "$UID", "$EUID", "$BASHPID",
            "$(seq ", "$(wc ",
        ];
        NUMBERS.iter().any(|it| text.starts_with(it)) && !text[2..].contains(['|', ';', '&', '`', '\''])
    };
    is_digits(text.trim_start_matches(['-', '+'])) || is_range() || is_own()
}
