//! Shell text read character by character, for what the grammar loses: backquotes in backquotes, here-documents, `$'…'` and backslashes in front.

use std::ops::Range;

use super::word;

/// What stands in a text.
#[derive(Debug, Default)]
pub struct Found {
    /// Commands between backquotes, their escapes resolved.
    pub backquoted: Vec<String>,
    /// Where they stand, the quotes included.
    pub backquotes: Vec<Range<usize>>,
    pub documents: Vec<HereDocument>,
    /// A backquote has no partner, or a single quote in `"${…}"`, where it quotes for bash and the grammar but not for
    /// other shells.
    pub is_open: bool,
    /// Backslashes that begin a line and its first word.
    pub leading_backslashes: Vec<usize>,
    /// Texts in `$'…'`.
    pub ansi_texts: Vec<Range<usize>>,
    /// Where `$(…)`, `${…}`, `$((…))`, `<(…)` and `>(…)` stand, also within patterns.
    pub expansions: Vec<Range<usize>>,
}

/// What a command reads from the line itself.
#[derive(Debug, Clone)]
pub struct HereDocument {
    /// Where its `<<` stands.
    pub at: usize,
    /// Where its delimiter ends.
    pub word_end: usize,
    /// Where its lines stand, the delimiter's included.
    pub lines: Range<usize>,
    pub body: String,
    /// Whether the shell expands nothing in it.
    pub is_quoted: bool,
}

impl Found {
    /// The text without what the grammar stumbles over: backslashes at the beginning of lines, which it takes for
    /// the end of the line before, and, where it has lost them, here-documents and quotes of ANSI C.
    pub fn plain(&self, text: &str, is_lost: bool) -> String {
        let mut edits: Vec<(Range<usize>, String)> =
            self.leading_backslashes.iter().map(|&at| (at..at + 1, String::new())).collect();
        if is_lost {
            for range in &self.ansi_texts {
                let literal = text.get(range.clone()).and_then(word::literal);
                let quoted = literal.map(|literal| format!("'{}'", literal.replace('\'', "'\\''")));
                edits.push((range.clone(), quoted.unwrap_or_else(|| "\"$TEXT\"".to_owned())));
            }
            for document in &self.documents {
                let is_plain = document.is_quoted || !document.body.contains(['$', '`', '\\']);
                let content = match is_plain {
                    true => format!("<<<'{}'", document.body.replace('\'', "'\\''")),
                    false => "<<<\"$DOCUMENT\"".to_owned(),
                };
                edits.push((document.at..document.word_end, content));
                edits.push((document.lines.clone(), String::new()));
            }
        }
        edits.sort_by_key(|(range, _)| range.start);
        let mut plain = String::with_capacity(text.len());
        let mut at = 0;
        for (range, content) in edits.into_iter().filter(|(range, _)| range.start <= range.end) {
            plain.push_str(text.get(at..range.start).unwrap_or_default());
            plain.push_str(&content);
            at = at.max(range.end);
        }
        plain.push_str(text.get(at..).unwrap_or_default());
        plain
    }
}

impl Found {
    /// The text with `$(…)` for its backquotes.
    pub fn without_backquotes(&self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        let mut at = 0;
        for (range, inner) in self.backquotes.iter().zip(&self.backquoted) {
            plain.push_str(text.get(at..range.start).unwrap_or_default());
            // A comment within would hide the end.
            let end = if inner.contains('#') { "\n)" } else { ")" };
            plain.push_str(&format!("$({inner}{end}"));
            at = range.end;
        }
        plain.push_str(text.get(at..).unwrap_or_default());
        plain
    }
}

/// Finds what the shell would, however it is nested.
pub fn scan(text: &str) -> Found {
    let mut scanner = Scanner {
        text,
        at: 0,
        stack: Vec::new(),
        opened: Vec::new(),
        pending: Vec::new(),
        found: Found::default(),
    };
    while scanner.at < text.len() {
        scanner.step();
    }
    let open = std::mem::take(&mut scanner.opened);
    scanner.found.expansions.extend(open.into_iter().flatten().map(|start| start..text.len()));
    scanner.found.expansions.sort_by_key(|range| range.start);
    scanner.found
}

/// The expansions of a here-document's body that may run something, as written.
pub fn expansions(body: &str) -> Vec<&str> {
    let mut expansions = Vec::new();
    let mut at = 0;
    while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
        let len = match rest.as_bytes() {
            [b'\\', ..] => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            [b'$', b'(' | b'{' | b'[', ..] | [b'`', ..] => {
                let len = expansion_len(rest);
                expansions.push(&rest[..len]);
                len
            }
            _other => rest.chars().next().map_or(1, char::len_utf8),
        };
        at += len;
    }
    expansions
}

/// How long the expansion is that the text begins with; all of it when it does not end.
pub fn expansion_len(text: &str) -> usize {
    let mut scanner = Scanner {
        text,
        at: 0,
        stack: vec![Context::Quotes],
        opened: vec![None],
        pending: Vec::new(),
        found: Found::default(),
    };
    scanner.step();
    while scanner.at < text.len() && scanner.stack.len() > 1 {
        scanner.step();
    }
    scanner.at.min(text.len())
}

/// What the scanner is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    /// `( … )`, `$( … )`, `<( … )`.
    Commands,
    /// `" … "`.
    Quotes,
    /// `${ … }`; within double quotes a single quote is nothing special.
    Braces { is_quoted: bool },
    /// `(( … ))`, `$(( … ))`.
    Arithmetic,
    /// `$[ … ]`.
    Brackets,
    /// `( … )` within arithmetic.
    Group,
}

struct Document {
    at: usize,
    word_end: usize,
    delimiter: String,
    is_quoted: bool,
    has_tabs: bool,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    stack: Vec<Context>,
    /// Where each of the stack began that is an expansion.
    opened: Vec<Option<usize>>,
    /// Here-documents whose bodies begin with the next line.
    pending: Vec<Document>,
    found: Found,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes the next piece of text.
    fn step(&mut self) {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else {
            self.at = self.text.len();
            return;
        };
        let context = self.stack.last().copied().unwrap_or(Context::Commands);
        let is_quoted = matches!(context, Context::Quotes | Context::Braces { is_quoted: true });
        let is_commands = context == Context::Commands;
        match c {
            '\\' => self.at += 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '`' => self.backquoted(is_quoted),
            '$' if rest.starts_with("$((") => self.push(Context::Arithmetic, 3),
            '$' if rest.starts_with("$(") => self.push(Context::Commands, 2),
            '$' if rest.starts_with("${") => self.push(Context::Braces { is_quoted }, 2),
            '$' if rest.starts_with("$[") => self.push(Context::Brackets, 2),
            '$' if rest.starts_with("$'") && !is_quoted => self.ansi_quoted(),
            '"' if context == Context::Quotes => self.pop(1),
            '"' => self.push(Context::Quotes, 1),
            '\'' if !is_quoted && !matches!(context, Context::Arithmetic | Context::Brackets) => {
                self.at += 1 + rest[1..].find('\'').map_or(rest.len(), |end| end + 1);
            }
            '}' if matches!(context, Context::Braces { .. }) => self.pop(1),
            ']' if context == Context::Brackets => self.pop(1),
            ')' if context == Context::Arithmetic => self.pop(if rest.starts_with("))") { 2 } else { 1 }),
            ')' if context == Context::Group || (is_commands && !self.stack.is_empty()) => self.pop(1),
            '(' if context == Context::Arithmetic || context == Context::Group => {
                self.push(Context::Group, 1)
            }
            '(' if is_commands && rest.starts_with("((") => self.push(Context::Arithmetic, 2),
            '(' if is_commands => self.push(Context::Commands, 1),
            '#' if is_commands && self.begins_word() => {
                self.at += rest.find('\n').unwrap_or(rest.len());
            }
            '<' | '>'
                if rest[1..].starts_with('(')
                    && (is_commands || context == Context::Braces { is_quoted: false }) =>
            {
                self.push(Context::Commands, 2);
            }
            '<' if rest.starts_with("<<<") => self.at += 3,
            '<' if rest.starts_with("<<") && (is_commands || context == Context::Arithmetic) => {
                self.document(is_commands);
            }
            '\n' if is_commands => {
                self.at += 1;
                self.bodies();
                let line = self.rest();
                let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
                let mut word = line[blank..].chars();
                if word.next() == Some('\\')
                    && word.next().is_some_and(|c| c.is_alphanumeric() || "/._~".contains(c))
                {
                    self.found.leading_backslashes.push(self.at + blank);
                }
            }
            c => self.at += c.len_utf8(),
        }
    }

    fn push(&mut self, context: Context, len: usize) {
        let is_expansion = self.rest().starts_with(['$', '<', '>']) && context != Context::Brackets;
        self.opened.push(is_expansion.then_some(self.at));
        self.stack.push(context);
        self.at += len;
    }

    fn pop(&mut self, len: usize) {
        let context = self.stack.pop();
        self.at += len;
        if let Some(start) = self.opened.pop().flatten() {
            let range = start..self.at.min(self.text.len());
            let n_quotes = self.text[range.clone()].matches('\'').count();
            self.found.is_open |= context == Some(Context::Braces { is_quoted: true }) && n_quotes % 2 == 1;
            self.found.expansions.push(range);
        }
    }

    fn begins_word(&self) -> bool {
        let before = self.text[..self.at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')'))
    }

    fn ansi_quoted(&mut self) {
        let mut chars = self.text[self.at + 2..].char_indices();
        let mut len = self.text.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                '\'' => {
                    len = at + 1;
                    break;
                }
                _other => {}
            }
        }
        let end = (self.at + 2 + len).min(self.text.len());
        self.found.ansi_texts.push(self.at..end);
        self.at = end;
    }

    fn backquoted(&mut self, is_quoted: bool) {
        let mut inner = String::new();
        let mut chars = self.text[self.at + 1..].char_indices();
        let end = loop {
            match chars.next() {
                None => break None,
                Some((at, '`')) => break Some(at),
                Some((_, '\\')) => match chars.next() {
                    Some((_, c @ ('`' | '\\' | '$'))) => inner.push(c),
                    Some((_, '"')) if is_quoted => inner.push('"'),
                    Some((_, c)) => inner.extend(['\\', c]),
                    None => break None,
                },
                Some((_, c)) => inner.push(c),
            }
        };
        match end {
            Some(end) => {
                self.found.backquoted.push(inner);
                self.found.backquotes.push(self.at..self.at + 1 + end + 1);
                self.at += 1 + end + 1;
            }
            None => {
                self.found.is_open = true;
                self.at = self.text.len();
            }
        }
    }

    /// Notes the here-document that begins here. In arithmetic `<<` shifts, unless there is a body after all.
    fn document(&mut self, is_certain: bool) {
        let mut rest = &self.text[self.at + 2..];
        let has_tabs = rest.starts_with('-');
        rest = rest.strip_prefix('-').unwrap_or(rest).trim_start_matches([' ', '\t']);
        let start = self.text.len() - rest.len();
        let (mut delimiter, mut is_quoted, mut quote) = (String::new(), false, None);
        let mut chars = rest.char_indices();
        let mut len = rest.len();
        while let Some((at, c)) = chars.next() {
            match (c, quote) {
                (c, Some(open)) if c == open => quote = None,
                (c, Some(_)) => delimiter.push(c),
                ('\'' | '"', None) => {
                    (quote, is_quoted) = (Some(c), true);
                }
                ('$', None) if chars.as_str().starts_with(['\'', '"']) => is_quoted = true,
                ('\\', None) => {
                    is_quoted = true;
                    delimiter.extend(chars.next().map(|it| it.1));
                }
                (c, None) if c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')') => {
                    len = at;
                    break;
                }
                (c, None) => delimiter.push(c),
            }
        }
        let ends = |line: &str| line.trim_start_matches('\t') == delimiter;
        if is_certain || (!delimiter.is_empty() && rest.lines().skip(1).any(ends)) {
            self.pending.push(Document {
                at: self.at,
                word_end: start + len,
                delimiter,
                is_quoted,
                has_tabs,
            });
        }
        self.at = start + len;
    }

    fn bodies(&mut self) {
        for document in std::mem::take(&mut self.pending) {
            let start = self.at;
            let mut body = String::new();
            let mut lines = self.rest().split_inclusive('\n');
            let mut len = 0;
            // A line that ends in a backslash goes on, also past what looks like the delimiter.
            let mut goes_on = false;
            for line in lines.by_ref() {
                len += line.len();
                let content = line.strip_suffix('\n').unwrap_or(line);
                let content = if document.has_tabs { content.trim_start_matches('\t') } else { content };
                if !goes_on && content == document.delimiter {
                    break;
                }
                let n_backslashes = content.chars().rev().take_while(|&c| c == '\\').count();
                goes_on = !document.is_quoted && n_backslashes % 2 == 1;
                body.push_str(content);
                body.push('\n');
            }
            self.at += len;
            let is_ended = self.text[..self.at].ends_with('\n');
            let lines = start..self.at - usize::from(is_ended);
            let body = if document.is_quoted { body } else { super::join_lines(&body) };
            let Document { at, word_end, is_quoted, .. } = document;
            self.found.documents.push(HereDocument { at, word_end, lines, body, is_quoted });
        }
    }
}
