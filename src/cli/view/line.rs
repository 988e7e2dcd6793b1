//! Styled text: measured, wrapped, cut and written as a terminal wants it.

use std::{fmt::Write, sync::Arc};

use anstyle::{AnsiColor, Color, Effects, Style};
use unicode_width::UnicodeWidthChar;

use super::look::{Colors, Draw, Look};

/// Columns between two tab stops.
const TAB: usize = 4;
/// Joins the characters around it to one.
const JOINER: char = '\u{200d}';

pub const PLAIN: Style = Style::new();
pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const RED: Style = color(AnsiColor::Red);
pub const GREEN: Style = color(AnsiColor::Green);
pub const YELLOW: Style = color(AnsiColor::Yellow);
pub const CYAN: Style = color(AnsiColor::Cyan);

/// Returns a foreground colour alone.
pub const fn color(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(color)))
}

/// Text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Holds no control characters: see [`clean`].
    text: String,
    pub style: Style,
    pub link: Option<Arc<str>>,
}

/// A row of spans, or a paragraph that is not wrapped yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    pub spans: Vec<Span>,
}

impl Line {
    pub fn new(text: &str, style: Style) -> Self {
        let mut line = Self::default();
        line.push(text, style);
        line
    }

    /// Adds text, of which everything that would steer a terminal is made visible or left out.
    pub fn push(&mut self, text: &str, style: Style) {
        self.push_link(text, style, None);
    }

    pub fn push_link(&mut self, text: &str, style: Style, link: Option<Arc<str>>) {
        if text.is_empty() {
            return;
        }
        let column = if text.contains('\t') { self.width() } else { 0 };
        let text = clean(text, column);
        match self.spans.last_mut() {
            Some(last) if last.style == style && last.link == link => last.text += &text,
            Some(_) | None => self.spans.push(Span { text, style, link }),
        }
    }

    /// Returns the same line with more text behind it.
    pub fn with(mut self, text: &str, style: Style) -> Self {
        self.push(text, style);
        self
    }

    pub fn append(&mut self, other: Line) {
        self.spans.extend(other.spans);
    }

    /// Columns it takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Lays a style under all spans, which keep their own.
    pub fn styled(mut self, style: Style) -> Self {
        for span in &mut self.spans {
            span.style = over(style, span.style);
        }
        self
    }

    /// Returns the line behind an indentation.
    pub fn behind(self, indent: &Line) -> Self {
        let mut line = indent.clone();
        line.spans.extend(self.spans);
        line
    }

    /// Cuts the line to this many columns; a cut is marked by an ellipsis.
    pub fn cut(&self, columns: usize) -> Self {
        if self.width() <= columns {
            return self.clone();
        }
        let mut line = Self::default();
        let mut left = columns.saturating_sub(1);
        for span in &self.spans {
            let mut text = String::new();
            for char in span.text.chars() {
                let char_width = char_width(char);
                if char_width > left {
                    left = 0;
                    break;
                }
                left -= char_width;
                text.push(char);
            }
            let is_whole = text.len() == span.text.len();
            line.spans.push(Span { text, style: span.style, link: span.link.clone() });
            if !is_whole {
                break;
            }
        }
        if columns > 0 {
            line.push("…", DIM);
        }
        line
    }

    /// Breaks at blanks, within words only where they are longer than a row.
    pub fn wrap(&self, columns: usize) -> Vec<Self> {
        if self.width() <= columns {
            return vec![self.clone()];
        }
        let cells = self.cells();
        let columns = columns.max(1);
        let mut rows = Vec::new();
        let mut start = 0;
        while start < cells.len() {
            let end = row_end(&cells, start, columns);
            let mut shown = end;
            while shown > start && cells[shown - 1].char == ' ' {
                shown -= 1;
            }
            rows.push(self.row(&cells[start..shown]));
            start = end;
            while start < cells.len() && cells[start].char == ' ' {
                start += 1;
            }
        }
        rows
    }

    /// Breaks wherever a row is full: for code and output, in which blanks matter.
    pub fn fold(&self, columns: usize) -> Vec<Self> {
        if self.width() <= columns {
            return vec![self.clone()];
        }
        let cells = self.cells();
        let mut rows = Vec::new();
        let mut start = 0;
        while start < cells.len() {
            let end = full_end(&cells, start, columns.max(1));
            rows.push(self.row(&cells[start..end]));
            start = end;
        }
        rows
    }

    fn cells(&self) -> Vec<Cell> {
        let spans = self.spans.iter().enumerate();
        let cells = spans.flat_map(|(span_idx, span)| {
            span.text.chars().map(move |char| Cell { char, width: char_width(char), span_idx })
        });
        cells.collect()
    }

    fn row(&self, cells: &[Cell]) -> Self {
        let spans = cells.chunk_by(|one, other| one.span_idx == other.span_idx);
        let spans = spans.filter_map(|cells| {
            let span = self.spans.get(cells.first()?.span_idx)?;
            let text = cells.iter().map(|cell| cell.char).collect();
            Some(Span { text, style: span.style, link: span.link.clone() })
        });
        Self { spans: spans.collect() }
    }

    /// Writes the line without its end.
    pub fn encode(&self, look: &Look, bytes: &mut String) {
        for span in &self.spans {
            let style = allowed(span.style, look);
            let link = span.link.as_ref().filter(|_| look.links.is_some());
            if let Some(link) = link {
                let _ = write!(bytes, "\x1b]8;;{link}\x1b\\");
            }
            // Writing to a string cannot fail.
            let _ = write!(bytes, "{}{}{}", style.render(), span.text, style.render_reset());
            if link.is_some() {
                bytes.push_str("\x1b]8;;\x1b\\");
            }
        }
    }
}

/// Pieces side by side, in as many rows as they need; one is broken only where it alone is too long for a row.
pub fn flow(pieces: &[Line], between: &str, columns: usize) -> Vec<Line> {
    let mut rows: Vec<Line> = Vec::new();
    for piece in pieces {
        match rows.last_mut() {
            Some(row) if row.width() + width(between) + piece.width() <= columns => {
                row.push(between, DIM);
                row.append(piece.clone());
            }
            Some(_) | None => rows.extend(piece.wrap(columns)),
        }
    }
    rows
}

/// Lines of text, broken between words. The rows that an indented line goes on in are indented further.
pub fn wrapped(text: &str, columns: usize) -> Vec<Line> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let words = line.trim_start_matches(' ');
        let n_blanks = line.len() - words.len();
        let n_further = if n_blanks == 0 { 0 } else { n_blanks + 2 };
        let mut indent = " ".repeat(n_blanks);
        for row in Line::new(words, PLAIN).wrap(columns.saturating_sub(n_further)) {
            rows.push(row.behind(&Line::new(&indent, PLAIN)));
            indent = " ".repeat(n_further);
        }
    }
    rows
}

/// Returns the same as text, each line ended.
pub fn wrapped_text(text: &str, columns: usize) -> String {
    wrapped(text, columns).iter().map(|row| row.text() + "\n").collect()
}

struct Cell {
    char: char,
    width: usize,
    span_idx: usize,
}

/// Returns where a row that begins at `start` ends when it may be as long as it can.
fn full_end(cells: &[Cell], start: usize, columns: usize) -> usize {
    let mut used = 0;
    let mut end = start;
    while let Some(cell) = cells.get(end) {
        if used + cell.width > columns && end > start {
            break;
        }
        used += cell.width;
        end += 1;
    }
    end
}

/// Returns where it ends when words should stay whole.
fn row_end(cells: &[Cell], start: usize, columns: usize) -> usize {
    let full = full_end(cells, start, columns);
    if full == cells.len() {
        return full;
    }
    let may_break = |at: &usize| {
        let (before, after) = (&cells[at - 1], &cells[*at]);
        let is_joined = before.char == JOINER || after.char == JOINER;
        let is_between = before.char == ' ' || after.char == ' ' || before.width == 2 || after.width == 2;
        is_between && !is_joined
    };
    (start + 1..=full).rev().find(may_break).unwrap_or(full)
}

/// Returns `style`, completed by `under`.
fn over(under: Style, style: Style) -> Style {
    Style::new()
        .fg_color(style.get_fg_color().or(under.get_fg_color()))
        .bg_color(style.get_bg_color().or(under.get_bg_color()))
        .effects(style.get_effects() | under.get_effects())
}

/// Returns the part of a style that the terminal may be told.
fn allowed(style: Style, look: &Look) -> Style {
    let is_allowed = |color: &Color| match look.colors {
        Colors::None => false,
        Colors::Basic => matches!(color, Color::Ansi(_)),
        Colors::Full => true,
    };
    let effects = if look.has_attributes { style.get_effects() } else { Effects::new() };
    Style::new()
        .fg_color(style.get_fg_color().filter(is_allowed))
        .bg_color(style.get_bg_color().filter(is_allowed))
        .effects(effects)
}

/// Returns a text without control characters in a style, as far as the terminal has it.
pub fn painted(text: &str, style: Style, look: &Look) -> String {
    let style = allowed(style, look);
    format!("{}{text}{}", style.render(), style.render_reset())
}

/// Columns of a text without control characters.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(char_width).sum()
}

fn char_width(char: char) -> usize {
    char.width().unwrap_or_default()
}

/// Makes visible the characters that steer a terminal or turn the direction of text, and opens tabs.
///
/// Joiners stay: a joined character is at most as wide as its parts, and without them an emoji or a word of some
/// scripts falls apart. Variation selectors are left out, because some terminals draw a wider character for them, and a
/// row that is wider than its known width breaks the rows around it.
fn clean(text: &str, column: usize) -> String {
    let is_plain = |char: char| char.is_ascii() && !char.is_ascii_control();
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut column = column;
    for char in text.chars() {
        match char {
            '\t' => {
                let n_blanks = TAB - column % TAB;
                shown.extend(std::iter::repeat_n(' ', n_blanks));
                column += n_blanks;
            }
            '\u{fe00}'..='\u{fe0f}' | '\r' => {}
            '\u{200c}' | JOINER => shown.push(char),
            '\n' => {
                shown.push(' ');
                column += 1;
            }
            char => {
                let start = shown.len();
                if windlass_base::text::is_hidden(char) {
                    shown.extend(char.escape_unicode())
                } else {
                    shown.push(char)
                }
                column += width(shown.get(start..).unwrap_or_default());
            }
        }
    }
    shown
}

/// Draws a sentence of ours.
pub fn notice(text: &str, style: Style, draw: &Draw<'_>) -> Vec<Line> {
    text.trim().lines().flat_map(|line| Line::new(line, style).wrap(draw.width)).collect()
}

#[cfg(test)]
mod tests;
