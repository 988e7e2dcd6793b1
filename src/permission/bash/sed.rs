//! What a `sed` script does.

use super::{
    options::{self, What},
    word::Word,
    wrapper::is_stdin,
};

/// What a `sed` command line writes, and whether that is all it does.
pub struct Script {
    pub is_plain: bool,
    /// Files that are read or written, as written.
    pub paths: Vec<String>,
}

/// `None` when the script is not known.
pub fn script(words: &[Word]) -> Option<Script> {
    let arguments = options::arguments("sed", words);
    let literal = |text: &str| Word::new(text).literal;
    let scripts: Option<Vec<String>> = arguments.that_are(&[What::TextFirst]).map(literal).collect();
    let mut scripts = scripts?;
    let mut paths = Vec::new();
    for file in arguments.that_are(&[What::CodeFirst]) {
        // Lines that are computed or read may run anything.
        literal(file).filter(|it| *it != "-" && !is_stdin(it))?;
        paths.push(file.to_owned());
    }
    let mut operands = arguments.operands.iter();
    if scripts.is_empty() && paths.is_empty() {
        scripts.push(literal(operands.next()?)?);
        // `-i ''`, as others than GNU's have it.
        if scripts[0].is_empty() {
            scripts.extend(operands.clone().next().map(|it| literal(it).unwrap_or_default()));
        }
    }
    paths.extend(operands.cloned());
    let mut is_plain = true;
    for script in &scripts {
        is_plain &= read(script, &mut paths);
    }
    Some(Script { is_plain, paths })
}

/// Whether a script does no more than change text.
pub fn is_plain(script: &str) -> bool {
    let mut paths = Vec::new();
    read(script, &mut paths) && paths.is_empty()
}

/// Reads one script. False when it runs something or is not understood.
fn read(script: &str, paths: &mut Vec<String>) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | '{' | '}'));
        // Addresses: numbers, `$`, `/…/`, `\c…c`, with steps and ranges.
        loop {
            rest = rest.trim_start_matches(|c: char| {
                c.is_ascii_digit() || c.is_whitespace() || matches!(c, ',' | '$' | '~' | '+' | '!')
            });
            let mut chars = rest.chars();
            let delimiter = match chars.next() {
                Some('/') => '/',
                Some('\\') => match chars.next() {
                    Some(delimiter) => delimiter,
                    None => return false,
                },
                Some(_) | None => break,
            };
            let Some(after) = behind_regex(chars.as_str(), delimiter) else { return false };
            rest = after.trim_start_matches(['I', 'M']);
        }
        rest = rest.trim_start_matches('{');
        let mut chars = rest.chars();
        let Some(command) = chars.next() else { return true };
        rest = chars.as_str();
        match command {
            'p' | 'd' | 'D' | 'n' | 'N' | 'P' | 'h' | 'H' | 'g' | 'G' | 'x' | '=' | 'l' | 'q' | 'Q' | 'z'
            | 'F' => {
                rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                if !rest.is_empty() && !rest.starts_with([';', '\n', '}', '#']) {
                    return false;
                }
            }
            '{' | '}' => {}
            '#' => rest = rest.find('\n').map_or("", |at| &rest[at..]),
            // A label ends at a blank.
            ':' | 'b' | 't' | 'T' => {
                let label = rest.trim_start_matches([' ', '\t']);
                let end = label.find(|c: char| c.is_whitespace() || matches!(c, ';' | '}'));
                rest = end.map_or("", |at| &label[at..]);
            }
            'a' | 'i' | 'c' => rest = rest.find('\n').map_or("", |at| &rest[at..]),
            's' | 'y' => {
                let mut chars = rest.chars();
                let Some(delimiter) = chars.next() else { return false };
                let first = if command == 's' { behind_regex } else { behind };
                let Some(replacement) = first(chars.as_str(), delimiter) else { return false };
                let Some(flags) = behind(replacement, delimiter) else { return false };
                let end =
                    flags.find(|c: char| !c.is_ascii_digit() && !"gpiImM".contains(c)).unwrap_or(flags.len());
                rest = &flags[end..];
                match rest.chars().next() {
                    None | Some(';' | '\n' | '}' | ' ' | '#') => {}
                    Some('w') => {
                        paths.push(file_name(&rest[1..]));
                        return !rest[1..].contains('\n');
                    }
                    Some(_) => return false,
                }
            }
            'r' | 'R' | 'w' | 'W' => {
                paths.push(file_name(rest));
                rest = rest.find('\n').map_or("", |at| &rest[at..]);
            }
            _other => return false,
        }
    }
}

/// What stands behind the next delimiter that is not escaped and not within brackets.
fn behind_regex(text: &str, delimiter: char) -> Option<&str> {
    let mut rest = text;
    loop {
        let mut chars = rest.chars();
        match chars.next()? {
            '\\' => {
                chars.next();
                rest = chars.as_str();
            }
            c if c == delimiter => return Some(chars.as_str()),
            '[' => {
                let inner = chars.as_str();
                let inner = inner.strip_prefix('^').unwrap_or(inner);
                rest = behind_brackets(inner.strip_prefix(']').unwrap_or(inner))?;
            }
            _other => rest = chars.as_str(),
        }
    }
}

/// What stands behind a list in brackets; classes in it have brackets of their own.
fn behind_brackets(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let at = rest.find(['[', ']'])?;
        let (bracket, behind) = rest[at..].split_at(1);
        if bracket == "]" {
            return Some(behind);
        }
        let class = behind.chars().next().filter(|c| matches!(c, ':' | '.' | '='));
        rest = match class.and_then(|mark| behind[1..].split_once(&format!("{mark}]"))) {
            Some((_, behind)) => behind,
            None => behind,
        };
    }
}

/// What stands behind the next delimiter that is not escaped.
fn behind(text: &str, delimiter: char) -> Option<&str> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == delimiter {
            return text.get(at + c.len_utf8()..);
        }
    }
    None
}

/// The file name that ends a script line, quoted as the shell would need it.
fn file_name(rest: &str) -> String {
    let name = rest.lines().next().unwrap_or_default().trim();
    format!("'{}'", name.replace('\'', ""))
}
