//! What the shell makes of a word, as far as the word's text tells.

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As written.
    pub text: String,
    /// What the command gets; `None` when only running it would tell, or when it may become several words.
    pub literal: Option<String>,
}

impl Word {
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), literal: literal(text) }
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

/// The words that the first list in braces makes of a text.
pub fn braces(text: &str) -> Vec<String> {
    let list = text.find('{').and_then(|open| Some((open, open + text[open..].find('}')?)));
    match list {
        Some((open, end)) if text[open..end].contains(',') && !text[..open].contains(['\'', '"', '$']) => {
            let alternatives = text[open + 1..end].split(',');
            alternatives.map(|it| format!("{}{it}{}", &text[..open], &text[end + 1..])).collect()
        }
        Some(_) | None => vec![text.to_owned()],
    }
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
