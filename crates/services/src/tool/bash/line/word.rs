//! Reads one shell word: its text without quotes, and where only the shell knows more.

use std::{iter::Peekable, str::Chars};

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// The word as written.
    pub text: String,
    /// The text that the command gets; none where the shell expands something.
    pub literal: Option<String>,
    /// May become several words, or none: an expansion outside of quotes, a glob, braces, `"$@"`.
    pub may_split: bool,
    /// A substitution, a glob or braces make it up.
    pub is_made_up: bool,
    /// A literal ending behind the last slash, where only the directory is expanded.
    pub base: Option<String>,
    /// Variables that are expanded.
    pub variables: Vec<String>,
}

impl Word {
    pub fn new(text: &str) -> Self {
        let word = Self { text: text.to_owned(), ..Self::default() };
        let mut reading = Reading {
            rest: text.chars().peekable(),
            word,
            literal: String::new(),
            n_before_ending: 0,
            is_expanded: false,
        };
        reading.read();
        let Reading { mut word, literal, n_before_ending, is_expanded, .. } = reading;
        let base = literal[n_before_ending..].rsplit_once('/').map(|(_, base)| base.to_owned());
        word.base = base.filter(|base| !base.is_empty());
        word.literal = (!is_expanded).then_some(literal);
        word
    }

    /// Returns a word that the command gets as it is.
    pub fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), literal: Some(text.to_owned()), ..Self::default() }
    }

    /// Returns the literal, or nothing: for comparing with known words.
    pub fn value(&self) -> &str {
        self.literal.as_deref().unwrap_or_default()
    }
}

struct Reading<'a> {
    rest: Peekable<Chars<'a>>,
    word: Word,
    /// All literal text.
    literal: String,
    /// Offset of the literal text behind the last expansion.
    n_before_ending: usize,
    is_expanded: bool,
}

impl Reading<'_> {
    fn read(&mut self) {
        let mut is_quoted = false;
        while let Some(c) = self.rest.next() {
            match c {
                '"' => is_quoted = !is_quoted,
                '\'' if !is_quoted => {
                    while let Some(c) = self.rest.next().filter(|c| *c != '\'') {
                        self.literal.push(c);
                    }
                }
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(c) => {
                        if is_quoted && !matches!(c, '$' | '`' | '"' | '\\') {
                            self.literal.push('\\');
                        }
                        self.literal.push(c);
                    }
                },
                '$' => match self.rest.peek() {
                    Some('\'') if !is_quoted => self.ansi_quoted(),
                    Some('"') if !is_quoted => {}
                    _ => self.expansion(is_quoted),
                },
                '`' => {
                    while self.rest.next().is_some_and(|c| c != '`') {}
                    self.made_up(!is_quoted);
                }
                '*' | '?' | '[' if !is_quoted => self.made_up(true),
                '{' if !is_quoted && self.is_brace_list() => self.made_up(true),
                '<' | '>' if !is_quoted && self.rest.next_if_eq(&'(').is_some() => {
                    self.skip_nested('(', ')');
                    self.made_up(false);
                }
                c => self.literal.push(c),
            }
        }
    }

    fn expanded(&mut self, may_split: bool) {
        self.is_expanded = true;
        self.word.may_split |= may_split;
        self.n_before_ending = self.literal.len();
    }

    fn made_up(&mut self, may_split: bool) {
        self.expanded(may_split);
        self.word.is_made_up = true;
    }

    fn is_brace_list(&self) -> bool {
        let rest: String = self.rest.clone().collect();
        let inside = rest.split('}').next().unwrap_or_default();
        rest.contains('}') && (inside.contains(',') || inside.contains(".."))
    }

    /// Escapes other than of quotes and backslashes spell characters that are not shown.
    fn ansi_quoted(&mut self) {
        self.rest.next();
        while let Some(c) = self.rest.next().filter(|c| *c != '\'') {
            if c != '\\' {
                self.literal.push(c);
                continue;
            }
            match self.rest.next() {
                Some('n') => self.literal.push('\n'),
                Some('t') => self.literal.push('\t'),
                Some(c @ ('\\' | '\'' | '"')) => self.literal.push(c),
                Some(_) | None => self.is_expanded = true,
            }
        }
    }

    fn expansion(&mut self, is_quoted: bool) {
        let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
        match self.rest.peek().copied() {
            Some('(') => {
                self.rest.next();
                self.skip_nested('(', ')');
                self.made_up(!is_quoted);
            }
            Some('{') => {
                self.rest.next();
                let inside = self.skip_nested('{', '}');
                let inside = inside.trim_start_matches('#');
                self.word.variables.push(inside.chars().take_while(is_name).collect());
                // The operand behind the name may take its place.
                self.word.is_made_up |= !inside.chars().all(|c| is_name(&c));
                self.expanded(!is_quoted || inside.contains(['@', '*']));
            }
            Some(c) if is_name(&c) || matches!(c, '@' | '*' | '#' | '?' | '$' | '!' | '-') => {
                let mut name = String::new();
                while let Some(c) = self.rest.next_if(is_name) {
                    name.push(c);
                }
                if name.is_empty() {
                    self.rest.next();
                }
                self.word.variables.push(name);
                self.expanded(!is_quoted || c == '@');
            }
            Some(_) | None => self.literal.push('$'),
        }
    }

    /// Skips the text between brackets, and returns it.
    fn skip_nested(&mut self, open: char, close: char) -> String {
        let (mut skipped, mut depth) = (String::new(), 1);
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => drop(self.rest.next()),
                '\'' if open == '(' => while self.rest.next().is_some_and(|c| c != '\'') {},
                _ if c == open => depth += 1,
                _ if c == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            skipped.push(c);
        }
        skipped
    }
}
