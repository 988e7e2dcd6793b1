//! What the variables of a line hold, as far as its text tells.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use super::{scan, word};

/// Readings of one word that are followed.
const MAX_READINGS: usize = 256;
/// Variables that hold variables.
const MAX_STEPS: usize = 4;

/// Variables by name; positional parameters by their number, `@` for all of them.
#[derive(Debug, Default)]
pub struct Values {
    possible: BTreeMap<String, Vec<Value>>,
    /// Variables that arithmetic looks into.
    evaluated: BTreeSet<String>,
    /// Variables that hold lines of input, which may look like options.
    read: BTreeSet<String>,
    /// There are more readings than are followed.
    is_cut: Cell<bool>,
}

/// One of the things that a variable may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// What the shell makes of this text.
    Text(String),
    /// A number, whatever it is.
    Number,
    /// What comes from outside of the line's text: input, names of files.
    Outside,
}

impl Values {
    pub fn add(&mut self, name: &str, value: Value) {
        let all = self.possible.entry(name.to_owned()).or_default();
        if all.contains(&value) {
            return;
        }
        match all.len() < MAX_READINGS {
            true => all.push(value),
            false => self.is_cut.set(true),
        }
    }

    /// Whether something may be what nobody looked at.
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// A line of input is put into a variable, and it may begin with anything.
    pub fn add_read(&mut self, name: &str) {
        self.read.insert(name.to_owned());
    }

    /// Whether a word begins with what a line of input or the name of some file begins with: an option, perhaps.
    pub fn may_be_option_by_name(&self, written: &str) -> bool {
        let is_read = |text: &str| {
            let reference = Reference::at(text.trim_start_matches('"')).filter(|_| !text.starts_with('\\'));
            text.trim_start_matches('"').starts_with('$')
                && reference.is_some_and(|it| self.read.contains(it.name))
        };
        self.known(written).iter().any(|text| begins_with_glob(text) || is_read(text))
    }

    /// Arithmetic is done with this text.
    pub fn evaluate(&mut self, text: &str) {
        self.evaluated.extend(names_in(text));
    }

    /// The variables in this text are names of others, perhaps with subscripts.
    pub fn evaluate_names(&mut self, text: &str) {
        let names = text.split('$').skip(1).flat_map(|rest| names_in(rest).next());
        self.evaluated.extend(names);
        text.split('[')
            .skip(1)
            .for_each(|subscript| self.evaluate(subscript.split(']').next().unwrap_or_default()));
    }

    /// What a word may be once the variables that are known are replaced; the word itself when none is.
    pub fn known(&self, written: &str) -> Vec<String> {
        let mut readings = vec![written.to_owned()];
        for _ in 0..MAX_STEPS {
            let next = readings.iter().flat_map(|reading| self.replaced(reading));
            let next: Vec<String> = next.take(MAX_READINGS + 1).collect();
            let is_done = next == readings;
            readings = next;
            if readings.len() > MAX_READINGS {
                self.is_cut.set(true);
                readings.truncate(MAX_READINGS);
            }
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
                '`' => {
                    let Some((words, len)) = echoed(&written[at..]) else { return vec![written.to_owned()] };
                    return around(written, at, len, &words, is_quoted);
                }
                '$' if written[at..].starts_with("$(") => {
                    if let Some((words, len)) = echoed(&written[at..]) {
                        return around(written, at, len, &words, is_quoted);
                    }
                    // Quotes begin anew within.
                    let len = scan::expansion_len(&written[at..]);
                    let end = (at + len).saturating_sub(1).max(at + 2);
                    let inner = written.get(at + 2..end).unwrap_or_default();
                    let replaced = self.replaced(inner);
                    if replaced != [inner] {
                        let put = |it: &String| format!("{}{it}{}", &written[..at + 2], &written[end..]);
                        return replaced.iter().map(put).collect();
                    }
                    chars.by_ref().find(|it| it.0 + 1 >= at + len);
                }
                '$' => {
                    let Some(found) = Reference::at(&written[at..]) else { continue };
                    let values = self.values_of(&found);
                    if values.is_empty() {
                        continue;
                    }
                    let values: Vec<String> =
                        values.iter().flat_map(|value| pieces(value, is_quoted)).collect();
                    return around(written, at, found.len, &values, is_quoted);
                }
                _other => {}
            }
        }
        vec![written.to_owned()]
    }

    fn values_of(&self, found: &Reference<'_>) -> Vec<String> {
        let of = |name: &str| {
            self.possible.get(name).into_iter().flatten().filter_map(|value| match value {
                Value::Text(value) => Some(value.clone()),
                Value::Number | Value::Outside => None,
            })
        };
        let mut values: Vec<String> = of(found.name).collect();
        if found.is_indirect {
            let named: Vec<String> = values.iter().filter_map(|name| word::path_text(name)).collect();
            values = named.iter().flat_map(|name| of(name)).collect();
        }
        // Exact for literal patterns; with others the value stands for what remains of it.
        for value in &mut values {
            let rest = match found.operation.split_at_checked(1) {
                Some(("#", pattern)) => value.strip_prefix(pattern.trim_start_matches('#')),
                Some(("%", pattern)) => value.strip_suffix(pattern.trim_start_matches('%')),
                Some(_) | None => None,
            };
            if let Some(rest) = rest.map(str::to_owned) {
                *value = rest;
            }
        }
        values.extend(found.default.map(str::to_owned));
        values
    }

    /// Whether arithmetic looks into something that is not known to be a number: a subscript in it runs commands.
    pub fn evaluates_input(&self) -> bool {
        let mut ahead: Vec<String> = self.evaluated.iter().cloned().collect();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        while let Some(name) = ahead.pop() {
            if name == "_" {
                return true;
            }
            for value in self.possible.get(&name).map(Vec::as_slice).unwrap_or_default() {
                match value {
                    Value::Number => {}
                    Value::Outside => return true,
                    Value::Text(text) if is_open(text) => return true,
                    Value::Text(text) => ahead.extend(names_in(text).filter(|name| !seen.contains(name))),
                }
            }
            seen.insert(name);
        }
        false
    }
}

/// The word with these in the place of a part of it.
fn around<T: AsRef<str>>(written: &str, at: usize, len: usize, values: &[T], is_quoted: bool) -> Vec<String> {
    let (before, after) = (&written[..at], &written[at + len..]);
    let put = |value: &T| match (is_quoted, value.as_ref()) {
        // A tilde is expanded where the variable is set.
        (true, value) if before == "\"" && value.starts_with('~') => format!("{value}\"{after}"),
        (true, value) => format!("{before}\"{value}\"{after}"),
        (false, value) => format!("{before}{value}{after}"),
    };
    values.iter().map(put).collect()
}

/// What the `$(echo …)` writes that the text begins with, and how long that is.
fn echoed(text: &str) -> Option<(Vec<String>, usize)> {
    const NAMES: [&str; 6] = ["echo", "printf", "dirname", "realpath", "readlink", "ls"];
    let start = if text.starts_with('`') { 1 } else { 2 };
    let end = scan::expansion_len(text).checked_sub(1)?;
    // It runs nothing but tells what a variable tells.
    let inner = text.get(start..end)?.replace("$(pwd)", "$PWD");
    // Words are taken apart by their spaces alone.
    let is_whole = |word: &str| ['"', '\''].iter().all(|quote| word.matches(*quote).count() % 2 == 0);
    if inner.contains('\\') || !inner.split_whitespace().all(is_whole) {
        return None;
    }
    let is_plain = !inner.contains(['|', ';', '&', '<', '>', '`', '(', '\n']);
    let mut words = inner.split_whitespace();
    let name = words.next()?;
    let is_echo = is_plain && NAMES.contains(&name);
    let parent = |path: &str| {
        let path = path.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(path);
        path.rsplit_once('/').map_or(path, |(parent, _)| parent).to_owned()
    };
    let is_own_option = |word: &str| match name {
        "printf" => word == "--",
        "echo" => matches!(word, "-n" | "-e" | "-ne" | "-en" | "-E"),
        _other => word.starts_with('-'),
    };
    let words = words.filter(|word| !is_own_option(word));
    let arguments: Vec<String> =
        words.map(|word| if name == "dirname" { parent(word) } else { word.to_owned() }).collect();
    (is_echo && !arguments.is_empty()).then_some((arguments, end + 1))
}

/// A variable in a word.
struct Reference<'a> {
    name: &'a str,
    default: Option<&'a str>,
    /// What is cut from the value or replaced in it.
    operation: &'a str,
    is_indirect: bool,
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
            let name = &text[1..1 + len];
            return Some(Self { name, default: None, operation: "", is_indirect: false, len: 1 + len });
        };
        let end = inner.find('}')?;
        let is_indirect = inner.starts_with('!');
        let inner = &inner[usize::from(is_indirect)..];
        let end = end.checked_sub(usize::from(is_indirect))?;
        let len = name_len(inner)?;
        let operation = inner.get(len..end)?;
        let subscript = operation.strip_prefix('[').and_then(|it| it.split_once(']'));
        let operation = subscript.map_or(operation, |it| it.1);
        let default = operation.trim_start_matches(':');
        let default = default.strip_prefix(['-', '=', '+']).filter(|word| !word.is_empty());
        let len_all = 2 + usize::from(is_indirect) + end + 1;
        Some(Self { name: &inner[..len], default, operation, is_indirect, len: len_all })
    }
}

/// The words that a value becomes; within double quotes it stays one.
fn pieces(value: &str, is_quoted: bool) -> Vec<String> {
    let is_array = value.starts_with('(') && value.ends_with(')');
    if is_quoted && !is_array && !value.contains(['$', '`', '"', '\'', '\\']) {
        return vec![word::quote(value)];
    }
    let Some(literal) = word::path_text(value).filter(|_| !is_array) else {
        let elements = value.trim_start_matches('(').trim_end_matches(')');
        return match is_array {
            true => elements.split_whitespace().map(str::to_owned).collect(),
            false => vec![value.to_owned()],
        };
    };
    match literal.contains(char::is_whitespace) && !is_quoted {
        true => literal.split_whitespace().map(word::quote).collect(),
        false => vec![word::quote(&literal)],
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
            let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
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
    let is_substitution = |text: &str| text.contains("$(") || text.contains('`') || text.contains("[$");
    let in_single = written.split('\'').skip(1).step_by(2).any(is_substitution);
    has_quoted || in_single || written.contains("${!") || repeats_text(written)
}

/// Whether a value is what a command writes that repeats text as it is.
pub fn repeats_text(written: &str) -> bool {
    const PASSING: [&str; 19] = [
        "ls", "find", "cat", "head", "tail", "base64", "base32", "xxd", "rev", "tr", "curl", "wget", "sort",
        "uniq", "tac", "echo", "printf", "sed", "cut",
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

/// Whether a word begins with what a command writes that repeats text: an option, perhaps.
pub fn may_be_option(written: &str) -> bool {
    let unquoted = written.trim_start_matches('"');
    if let Some(found) = Reference::at(unquoted).filter(|_| unquoted.starts_with("${")) {
        return found.default.is_some_and(|it| it.starts_with(['-', '$', '`', '"', '\'', '\\']));
    }
    let Some(inner) = unquoted.strip_prefix("$(").or(unquoted.strip_prefix('`')) else { return false };
    let name = inner.split_whitespace().next().unwrap_or_default();
    match word::base_name(name) {
        "echo" | "printf" => inner.contains(['-', '\\', '$']) || inner.matches('`').count() > 1,
        _other => repeats_text(&unquoted[..scan::expansion_len(unquoted)]),
    }
}

/// Whether a file whose name begins with a dash may be one of those that a glob finds.
fn begins_with_glob(written: &str) -> bool {
    // What is empty in quotes leaves the rest what it is.
    let written = written.trim_start_matches("\"\"").trim_start_matches("''");
    let Some(set) = written.strip_prefix('[') else {
        return written.starts_with(['*', '?'])
            || ["@(", "!(", "+("].iter().any(|it| written.starts_with(it));
    };
    let Some((set, _)) = set.split_once(']') else { return false };
    // `[a-z]`, `[0-9A-F]`: none of them is a dash.
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let mut chars = set.chars().peekable();
    let mut before = None;
    while let Some(c) = chars.next() {
        let is_range =
            c == '-' && before.is_some_and(is_plain) && chars.peek().is_some_and(|it| is_plain(*it));
        if !is_plain(c) && !is_range {
            return true;
        }
        before = Some(c);
    }
    false
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
            "$#", "$?", "$$", "$!", "${#", "$((", "$RANDOM", "$SECONDS", "$LINENO", "$UID", "$EUID",
            "$BASHPID", "$(seq ", "$(wc ",
        ];
        NUMBERS.iter().any(|it| text.starts_with(it)) && !text[2..].contains(['|', ';', '&', '`', '\''])
    };
    is_digits(text.trim_start_matches(['-', '+'])) || is_range() || is_own()
}

/// Whether a word has an expansion outside of quotes that may become several words.
pub fn may_split(written: &str) -> bool {
    const PLACES: [&str; 7] = ["$HOME", "${HOME}", "$PWD", "${PWD}", "$OLDPWD", "$((", "$#"];
    let (mut at, mut is_quoted) = (0, false);
    while let Some(rest) = written.get(at..).filter(|rest| !rest.is_empty()) {
        let first_len = rest.chars().next().map_or(1, char::len_utf8);
        at += match rest.as_bytes() {
            [b'\\', ..] => first_len + rest[first_len..].chars().next().map_or(0, char::len_utf8),
            [b'"', ..] => {
                is_quoted = !is_quoted;
                1
            }
            [b'\'', ..] if !is_quoted => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            [b'$', b'(' | b'{' | b'[', ..] | [b'`', ..] => {
                if !is_quoted && !PLACES.iter().any(|it| rest.starts_with(it)) {
                    return true;
                }
                scan::expansion_len(rest)
            }
            [b'$', next, ..] if next.is_ascii_alphanumeric() || b"_@*".contains(next) => {
                if !is_quoted && !PLACES.iter().any(|it| rest.starts_with(it)) {
                    return true;
                }
                1
            }
            _other => first_len,
        };
    }
    false
}
