//! What the shell makes of a word, as far as the word's text tells.

use super::scan;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As written; an option without the quotes it does not need.
    pub text: String,
    /// What the command gets; `None` when only running it would tell, or when it may become several words.
    pub literal: Option<String>,
}

impl Word {
    pub fn new(text: &str) -> Self {
        let literal = literal(text);
        // Options are known by how they begin, however they are quoted.
        let text = match &literal {
            Some(option) if option.starts_with('-') && option != text => {
                let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
                let (plain, rest) = option.split_at(option.find(|c| !is_plain(c)).unwrap_or(option.len()));
                if rest.is_empty() {
                    plain.to_owned()
                } else {
                    format!("{plain}'{}'", rest.replace('\'', "'\\''"))
                }
            }
            Some(_) | None => text.to_owned(),
        };
        Self { text, literal }
    }

    /// A word that stands for exactly this.
    pub fn quoted(literal: &str) -> Self {
        Self { text: literal.to_owned(), literal: Some(literal.to_owned()) }
    }

    /// The literal, or nothing: for comparing with known words.
    pub fn value(&self) -> &str {
        self.literal.as_deref().unwrap_or_default()
    }

    /// The word without quotes it does not need, else as written.
    pub fn plain(&self) -> &str {
        let is_plain = |c: char| {
            c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '=' | ':' | '@' | '%' | '+' | ',')
        };
        match &self.literal {
            Some(literal) if !literal.is_empty() && literal.chars().all(is_plain) => literal,
            Some(_) | None => &self.text,
        }
    }
}

/// The last part of a path.
pub fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The one word that the shell makes of this text; `None` when it has expansions, globs or braces.
pub fn literal(text: &str) -> Option<String> {
    let is_brace_expansion = |rest: &str| rest.contains(',') || rest.contains("..");
    // zsh replaces `=name` by the path of the command.
    if text.starts_with('=') {
        return None;
    }
    unquote(text, |c, rest| match c {
        '*' | '?' | '[' => false,
        '{' => !is_brace_expansion(rest),
        _other => true,
    })
}

/// The literal as it would be written: in quotes when it needs them.
pub fn quote(literal: &str) -> String {
    match literal.chars().all(|c| c.is_alphanumeric() || "/._-~+=:,@%*?".contains(c)) {
        true => literal.to_owned(),
        false => format!("'{}'", literal.replace('\'', "'\\''")),
    }
}

/// Words that a text with braces becomes; more are left as they are written.
const MAX_BRACED: usize = 64;

/// The words that the lists and sequences in braces make of a text: itself when there are none, or too many.
pub fn braces(text: &str) -> Vec<String> {
    all_braces(text).unwrap_or_else(|| vec![text.to_owned()])
}

/// Whether there are too many words in braces to look at, and options may be among them.
pub fn may_hide_options(text: &str) -> bool {
    text.starts_with(['{', '-'])
        && text.contains(['-', '$', '\\', '\'', '"', '`'])
        && all_braces(text).is_none()
}

fn all_braces(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let is_bounded = text.matches('{').count() <= MAX_BRACED;
    is_bounded.then(|| expand_braces(text, &mut words))??;
    Some(words)
}

fn expand_braces(text: &str, words: &mut Vec<String>) -> Option<()> {
    let Some((list, alternatives)) = first_list(text) else {
        words.push(text.to_owned());
        return (words.len() <= MAX_BRACED).then_some(());
    };
    let mut behind = Vec::new();
    expand_braces(&text[list.end..], &mut behind)?;
    for alternative in alternatives {
        let mut inner = Vec::new();
        expand_braces(&alternative, &mut inner)?;
        for (inner, behind) in inner.iter().flat_map(|inner| behind.iter().map(move |it| (inner, it))) {
            words.push(format!("{}{inner}{behind}", &text[..list.start]));
            if words.len() > MAX_BRACED {
                return None;
            }
        }
    }
    Some(())
}

/// Where the first braces stand that are a list or a sequence, and what they stand for.
fn first_list(text: &str) -> Option<(std::ops::Range<usize>, Vec<String>)> {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with('{')
            && let Some((len, commas)) = list_in_braces(rest)
        {
            let range = at..at + len;
            if !commas.is_empty() {
                let edges = [&[0], commas.as_slice(), &[len - 1]].concat();
                let alternatives = edges.windows(2).map(|pair| rest[pair[0] + 1..pair[1]].to_owned());
                return Some((range, alternatives.collect()));
            }
            if let Some(sequence) = sequence(&rest[1..len - 1]) {
                return Some((range, sequence));
            }
        }
        at += unit_len(rest);
    }
    None
}

/// How long the braces are that a text begins with, and where their commas stand.
fn list_in_braces(text: &str) -> Option<(usize, Vec<usize>)> {
    let (mut at, mut depth, mut commas) = (1, 1, Vec::new());
    while at < text.len() {
        let rest = &text[at..];
        match rest.as_bytes()[0] {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 1 => commas.push(at),
            _other => {}
        }
        at += unit_len(rest);
        if depth == 0 {
            return Some((at, commas));
        }
    }
    None
}

/// `1..5`, `a..e`, `1..9..2`.
fn sequence(inner: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = inner.split("..").collect();
    let (first, last, step) = match parts.as_slice() {
        [first, last] => (*first, *last, 1),
        [first, last, step] => (*first, *last, step.parse::<i64>().ok()?.abs().max(1)),
        _other => return None,
    };
    let letter = |text: &str| text.chars().next().filter(|it| it.is_ascii_alphabetic() && text.len() == 1);
    let number = |text: &str| text.parse::<i64>().ok();
    let (from, to, is_letter) = match (letter(first), letter(last)) {
        (Some(from), Some(to)) => (i64::from(u32::from(from)), i64::from(u32::from(to)), true),
        _other => (number(first)?, number(last)?, false),
    };
    let n_steps = from.abs_diff(to) / step.unsigned_abs();
    let n_steps = i64::try_from(n_steps).ok().filter(|it| *it < MAX_BRACED as i64)?;
    let direction = if from <= to { step } else { -step };
    let nth = |n: i64| from + n * direction;
    let text = |value: i64| match is_letter {
        true => u8::try_from(value).map(char::from).unwrap_or_default().to_string(),
        false => value.to_string(),
    };
    Some((0..=n_steps).map(nth).map(text).collect())
}

/// How long what a text begins with is that braces are not looked for in: quotes, expansions, a character.
fn unit_len(text: &str) -> usize {
    let char_len = |text: &str| text.chars().next().map_or(1, char::len_utf8);
    let len = match text.as_bytes() {
        [b'\\', ..] => 1 + text[1..].chars().next().map_or(0, char::len_utf8),
        [b'\'', ..] => text[1..].find('\'').map_or(text.len(), |end| end + 2),
        [b'$', b'\'', ..] | [b'"', ..] => {
            let (open, quote) = if text.starts_with('"') { (1, '"') } else { (2, '\'') };
            let mut at = open;
            while at < text.len() && !text[at..].starts_with(quote) {
                at += match &text.as_bytes()[at..] {
                    [b'\\', ..] => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
                    [b'$', b'(' | b'{', ..] | [b'`', ..] if quote == '"' => scan::expansion_len(&text[at..]),
                    _other => char_len(&text[at..]),
                };
            }
            at + 1
        }
        [b'$', b'(' | b'{' | b'[', ..] | [b'`', ..] => scan::expansion_len(text),
        [b'<' | b'>', b'(', ..] => 1 + scan::expansion_len(&format!("${}", &text[1..])).saturating_sub(1),
        _other => char_len(text),
    };
    len.min(text.len())
}

/// The word without its quotes, globs and braces left as they are; `None` when it has expansions.
pub fn path_text(text: &str) -> Option<String> {
    unquote(text, |_, _| true)
}

/// `is_literal` says of an unquoted character, and what follows it, whether it stands for itself.
fn unquote(text: &str, is_literal: impl Fn(char, &str) -> bool) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => single_quoted(&mut chars, &mut out)?,
            '"' => double_quoted(&mut chars, &mut out)?,
            '$' if chars.as_str().starts_with('\'') => {
                chars.next();
                ansi_quoted(&mut chars, &mut out)?;
            }
            '$' | '`' => return None,
            '\\' => out.extend(chars.next().filter(|&escaped| escaped != '\n')),
            // A process substitution.
            '<' | '>' => return None,
            c if is_literal(c, chars.as_str()) => out.push(c),
            _expanded => return None,
        }
    }
    Some(out)
}

fn single_quoted(chars: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '\'' => return Some(()),
            c => out.push(c),
        }
    }
}

fn double_quoted(chars: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '$' | '`' => return None,
            '\\' => match chars.next()? {
                escaped @ ('"' | '\\' | '$' | '`') => out.push(escaped),
                '\n' => {}
                other => out.extend(['\\', other]),
            },
            c => out.push(c),
        }
    }
}

/// `$'…'` with the escapes of ANSI C; `None` for those that are no characters of a name.
fn ansi_quoted(chars: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    loop {
        let c = match chars.next()? {
            '\'' => return Some(()),
            '\\' => match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'a' => '\u{7}',
                'b' => '\u{8}',
                'e' | 'E' => '\u{1b}',
                'f' => '\u{c}',
                'v' => '\u{b}',
                'x' => code(chars, 16, 2)?,
                'u' => code(chars, 16, 4)?,
                'U' => code(chars, 16, 8)?,
                first @ '0'..='7' => octal(chars, first)?,
                'c' => return None,
                other @ ('\\' | '\'' | '"' | '?') => other,
                other => {
                    out.push('\\');
                    other
                }
            },
            c => c,
        };
        // A NUL ends the word for the shell.
        if c == '\0' {
            return None;
        }
        out.push(c);
    }
}

fn code(chars: &mut std::str::Chars<'_>, radix: u32, max_digits: usize) -> Option<char> {
    let n_digits = chars.as_str().chars().take(max_digits).take_while(|c| c.is_digit(radix)).count();
    let digits: String = chars.by_ref().take(n_digits).collect();
    // Bytes beyond ASCII would have to be put together to characters.
    u32::from_str_radix(&digits, radix)
        .ok()
        .filter(|code| max_digits > 2 || *code < 128)
        .and_then(char::from_u32)
}

fn octal(chars: &mut std::str::Chars<'_>, first: char) -> Option<char> {
    let n_digits = chars.as_str().chars().take(2).take_while(|c| c.is_digit(8)).count();
    let digits: String = std::iter::once(first).chain(chars.by_ref().take(n_digits)).collect();
    u32::from_str_radix(&digits, 8).ok().filter(|code| *code < 128).and_then(char::from_u32)
}
