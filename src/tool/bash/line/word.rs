//! Reads one shell word: its text without quotes, and where only the shell knows more.

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As written.
    pub text: String,
    /// The text that the command gets; none where the shell expands something.
    pub literal: Option<String>,
    /// May become several words, or none: an expansion outside of quotes, a glob, braces, `"$@"`.
    pub may_split: bool,
    /// A literal ending behind the last slash, where only the directory is expanded.
    pub base: Option<String>,
    /// Variables that are expanded.
    pub variables: Vec<String>,
}

impl Word {
    pub fn new(text: &str) -> Self {
        let mut reading = Reading { chars: text.chars().collect(), at: 0, word: Accumulated::default() };
        reading.read();
        let Accumulated { literal, is_expanded, may_split, after_expansion, variables } = reading.word;
        let base = after_expansion.rsplit_once('/').map(|(_, base)| base.to_owned());
        Self {
            text: text.to_owned(),
            literal: (!is_expanded && !may_split).then_some(literal),
            may_split,
            base: base.filter(|base| !base.is_empty()),
            variables,
        }
    }

    /// The literal, or nothing: for comparing with known words.
    pub fn value(&self) -> &str {
        self.literal.as_deref().unwrap_or_default()
    }
}

#[derive(Default)]
struct Accumulated {
    literal: String,
    is_expanded: bool,
    may_split: bool,
    /// The literal text behind the last expansion.
    after_expansion: String,
    variables: Vec<String>,
}

struct Reading {
    chars: Vec<char>,
    at: usize,
    word: Accumulated,
}

impl Reading {
    fn next(&mut self) -> Option<char> {
        let next = self.chars.get(self.at).copied();
        self.at += 1;
        next
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn push(&mut self, c: char) {
        self.word.literal.push(c);
        self.word.after_expansion.push(c);
    }

    fn read(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(escaped) => self.push(escaped),
                },
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(),
                '$' => match self.peek() {
                    Some('\'') => {
                        self.at += 1;
                        self.ansi_quoted();
                    }
                    Some('"') => {
                        self.at += 1;
                        self.double_quoted();
                    }
                    _ => self.expansion(false),
                },
                '`' => {
                    self.skip_backquotes();
                    self.expanded(true);
                }
                '*' | '?' | '[' => self.expanded_as(c, true),
                '{' if self.is_brace_list() => self.expanded_as(c, true),
                '<' | '>' if self.peek() == Some('(') => {
                    self.at += 1;
                    self.skip_parentheses();
                    self.expanded(false);
                }
                c => self.push(c),
            }
        }
    }

    fn expanded(&mut self, may_split: bool) {
        self.word.is_expanded = true;
        self.word.may_split |= may_split;
        self.word.after_expansion.clear();
    }

    fn expanded_as(&mut self, c: char, may_split: bool) {
        self.expanded(may_split);
        self.word.literal.push(c);
    }

    fn is_brace_list(&self) -> bool {
        let rest: String = self.chars[self.at..].iter().collect();
        let inside = rest.split('}').next().unwrap_or_default();
        rest.contains('}') && (inside.contains(',') || inside.contains(".."))
    }

    fn single_quoted(&mut self) {
        while let Some(c) = self.next().filter(|c| *c != '\'') {
            self.push(c);
        }
    }

    /// Escapes other than of quotes and backslashes spell characters that are not shown.
    fn ansi_quoted(&mut self) {
        while let Some(c) = self.next().filter(|c| *c != '\'') {
            match c {
                '\\' => match self.next() {
                    Some(c @ ('\\' | '\'' | '"')) => self.push(c),
                    Some('n') => self.push('\n'),
                    Some('t') => self.push('\t'),
                    Some(_) | None => self.word.is_expanded = true,
                },
                c => self.push(c),
            }
        }
    }

    fn double_quoted(&mut self) {
        while let Some(c) = self.next().filter(|c| *c != '"') {
            match c {
                '\\' => match self.next() {
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.push(c),
                    Some('\n') | None => {}
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '$' => self.expansion(true),
                '`' => {
                    self.skip_backquotes();
                    self.expanded(false);
                }
                c => self.push(c),
            }
        }
    }

    fn expansion(&mut self, is_quoted: bool) {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                self.skip_parentheses();
                self.expanded(!is_quoted);
            }
            Some('{') => {
                self.at += 1;
                let start = self.at;
                let mut depth = 1;
                while let Some(c) = self.next() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
                let inside: String = self.chars[start..self.at.min(self.chars.len())].iter().collect();
                let is_name = |c: char| c.is_alphanumeric() || c == '_';
                let name: String =
                    inside.trim_start_matches(['!', '#']).chars().take_while(|c| is_name(*c)).collect();
                self.word.variables.push(name);
                self.expanded(!is_quoted || inside.contains('@') || inside.contains('*'));
            }
            Some(c) if c.is_alphanumeric() || matches!(c, '_' | '@' | '*' | '#' | '?' | '$' | '!' | '-') => {
                let mut name = String::new();
                while let Some(c) = self.peek().filter(|c| c.is_alphanumeric() || *c == '_') {
                    name.push(c);
                    self.at += 1;
                }
                if name.is_empty() {
                    self.at += 1;
                }
                self.word.variables.push(name);
                self.expanded(!is_quoted || matches!(c, '@'));
            }
            Some(_) | None => self.push('$'),
        }
    }

    fn skip_parentheses(&mut self) {
        let mut depth = 1;
        while let Some(c) = self.next() {
            match c {
                '\\' => self.at += 1,
                '\'' => while self.next().is_some_and(|c| c != '\'') {},
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_backquotes(&mut self) {
        while let Some(c) = self.next().filter(|c| *c != '`') {
            if c == '\\' {
                self.at += 1;
            }
        }
    }
}
