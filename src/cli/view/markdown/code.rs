//! Colours of code by its language; the grammars are loaded with the first code that has one.

use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use super::super::line::{DIM, Line, PLAIN, color};

/// Longer lines, and lines behind so much code, have no colours: they are no text that a person reads.
const MAX_LINE: usize = 2_000;
const MAX_BYTES: usize = 256 * 1024;

/// Styles by the beginning of a scope's name; the first that fits holds.
const STYLES: [(&str, Style); 16] = [
    ("comment", DIM.italic()),
    ("punctuation.definition.comment", DIM.italic()),
    ("string", color(AnsiColor::Green)),
    ("constant.character.escape", color(AnsiColor::Cyan)),
    ("constant", color(AnsiColor::Yellow)),
    ("storage", color(AnsiColor::Magenta)),
    ("keyword.operator", PLAIN),
    ("keyword", color(AnsiColor::Magenta)),
    ("entity.name.function", color(AnsiColor::Blue)),
    ("support.function", color(AnsiColor::Blue)),
    ("entity.name.tag", color(AnsiColor::Magenta)),
    ("entity.name", color(AnsiColor::Cyan)),
    ("support", color(AnsiColor::Cyan)),
    ("variable.language", color(AnsiColor::Magenta)),
    ("markup.inserted", color(AnsiColor::Green)),
    ("markup.deleted", color(AnsiColor::Red)),
];

struct Grammars {
    syntaxes: SyntaxSet,
    styles: Vec<(Scope, Style)>,
}

/// Reads the lines of one piece of code in their order.
pub struct Highlighter {
    state: Option<(ParseState, ScopeStack)>,
    n_bytes: usize,
}

impl Highlighter {
    /// Returns a highlighter for the language that the words behind a fence name, such as `rust` or `ts
    /// title="a.ts"`.
    pub fn new(info: &str) -> Self {
        let name = info.split([' ', ',', '{']).next().unwrap_or_default().trim();
        if name.is_empty() || matches!(name, "text" | "txt" | "plain" | "plaintext") {
            return Self { state: None, n_bytes: 0 };
        }
        let syntax = grammars().syntaxes.find_syntax_by_token(name);
        let state = syntax.map(|syntax| (ParseState::new(syntax), ScopeStack::new()));
        Self { state, n_bytes: 0 }
    }

    pub fn line(&mut self, text: &str) -> Line {
        self.n_bytes += text.len();
        if text.len() > MAX_LINE || self.n_bytes > MAX_BYTES {
            self.state = None;
        }
        let Some((state, stack)) = &mut self.state else { return Line::new(text, PLAIN) };
        let grammars = grammars();
        let whole = format!("{text}\n");
        let Ok(changes) = state.parse_line(&whole, &grammars.syntaxes) else {
            self.state = None;
            return Line::new(text, PLAIN);
        };
        let mut line = Line::default();
        let mut start = 0;
        for (at, change) in changes {
            let at = at.min(text.len());
            line.push(text.get(start..at).unwrap_or_default(), style(stack, &grammars.styles));
            start = at;
            if stack.apply(&change).is_err() {
                break;
            }
        }
        line.push(text.get(start..).unwrap_or_default(), style(stack, &grammars.styles));
        line
    }
}

/// Returns the style of the innermost scope that has one.
fn style(stack: &ScopeStack, styles: &[(Scope, Style)]) -> Style {
    let of_scope = |scope: &Scope| styles.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
    stack.as_slice().iter().rev().find_map(of_scope).map_or(PLAIN, |(_, style)| *style)
}

fn grammars() -> &'static Grammars {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        let styles = STYLES.iter().filter_map(|(name, style)| Some((Scope::new(name).ok()?, *style)));
        Grammars { syntaxes: two_face::syntax::extra_newlines(), styles: styles.collect() }
    })
}
