//! Markdown drawn while it is still being written: blocks that are finished, and the one that is not.
//!
//! A block is finished when no line to come can change it. Lines of fenced code and items of lists are finished one by
//! one, so that a long one does not wait for its end.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use self::{
    blocks::{OPTIONS, code_row, drawn},
    code::Highlighter,
};
use super::{
    line::{Line, PLAIN},
    look::Draw,
};

mod blocks;
mod code;
mod inline;
mod table;

/// A text that grows.
#[derive(Default)]
pub struct Stream {
    /// The text from the first block on that is not finished.
    source: String,
    /// Bytes of it that were looked at since a line ended.
    n_seen: usize,
    /// The code that the next lines belong to.
    fence: Option<Fence>,
    last: Last,
}

/// The block that was drawn last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Last {
    #[default]
    Nothing,
    Block,
    /// An item of a list that may go on, and whether a blank row follows it.
    Item {
        is_loose: bool,
    },
    /// A line of code that may go on.
    Code,
}

/// Fenced code that is not closed yet.
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    highlighter: Highlighter,
}

/// A block of the outermost level.
struct Block {
    range: Range<usize>,
    kind: Kind,
}

enum Kind {
    /// Ends with its line.
    Line,
    /// Ends with a blank line.
    Paragraph,
    Fenced {
        info: String,
    },
    /// Holds items, which begin here.
    List(Vec<usize>),
    /// Ends where another block begins.
    Other,
}

impl Stream {
    pub fn push(&mut self, text: &str) {
        self.source.push_str(text);
    }

    /// Rows that nothing to come can change; each is given once.
    pub fn take_finished(&mut self, draw: &Draw<'_>) -> Vec<Line> {
        let mut rows = Vec::new();
        loop {
            if self.fence.is_some() {
                if !self.take_code(draw, &mut rows) {
                    return rows;
                }
            } else if !self.take_blocks(draw, &mut rows) {
                return rows;
            }
        }
    }

    /// Returns the rest as it looks now.
    pub fn unfinished(&self, draw: &Draw<'_>) -> Vec<Line> {
        let Some(fence) = &self.fence else {
            let rest = drawn(&self.source, draw, false);
            let gap = self.gap(starts_with_list(&self.source)).filter(|_| !rest.is_empty());
            return gap.into_iter().chain(rest).collect();
        };
        let is_mark = !self.source.is_empty() && self.source.trim().chars().all(|char| char == fence.mark);
        if self.source.is_empty() || is_mark {
            Vec::new()
        } else {
            self.source.lines().flat_map(|line| code_row(Line::new(line, PLAIN), draw)).collect()
        }
    }

    /// Returns the rest, which does not grow any more.
    pub fn finish(&mut self, draw: &Draw<'_>) -> Vec<Line> {
        if !self.source.is_empty() && !self.source.ends_with('\n') {
            self.source.push('\n');
        }
        let mut rows = self.take_finished(draw);
        if self.fence.is_none() {
            let rest = drawn(&self.source, draw, true);
            if !rest.is_empty() {
                rows.extend(self.gap(starts_with_list(&self.source)));
                rows.extend(rest);
            }
        }
        *self = Self::default();
        rows
    }

    /// Returns the blank row before a block, where there is one.
    fn gap(&self, is_list: bool) -> Option<Line> {
        let is_blank = match self.last {
            Last::Nothing => false,
            Last::Block | Last::Code => true,
            Last::Item { is_loose } => is_loose || !is_list,
        };
        is_blank.then(Line::default)
    }

    /// Draws the finished part; returns true if there may be more.
    fn take_blocks(&mut self, draw: &Draw<'_>, rows: &mut Vec<Line>) -> bool {
        let fresh = self.source.get(self.n_seen..).unwrap_or_default();
        // Only whole lines tell which block they are of.
        let Some(end) = fresh.rfind('\n').map(|at| self.n_seen + at + 1) else { return false };
        self.n_seen = self.source.len();
        let complete = self.source.get(..end).unwrap_or_default();
        let blocks = blocks(complete);
        let Some(last) = blocks.last() else {
            self.drain(end);
            return false;
        };
        let after = complete.get(last.range.start..).unwrap_or_default();
        let n_line_ends = after.get(after.trim_end().len()..).unwrap_or_default().matches('\n').count();
        let (cut, next, fence) = match &last.kind {
            Kind::Line => (end, Last::Block, None),
            Kind::Paragraph if n_line_ends >= 2 => (end, Last::Block, None),
            Kind::Fenced { info } => (last.range.start, Last::Block, Some(info.clone())),
            Kind::List(items) if items.len() > 1 => {
                let cut = items.last().copied().unwrap_or(last.range.start);
                let is_loose = complete.get(..cut).is_some_and(|text| text.ends_with("\n\n"));
                (cut, Last::Item { is_loose }, None)
            }
            Kind::Paragraph | Kind::List(_) | Kind::Other => (last.range.start, Last::Block, None),
        };
        let finished = complete.get(..cut).unwrap_or_default().to_owned();
        let finished_rows = drawn(&finished, draw, true);
        if !finished_rows.is_empty() {
            rows.extend(self.gap(starts_with_list(&finished)));
            rows.extend(finished_rows);
            self.last = next;
        }
        self.drain(cut);
        match fence {
            Some(info) => {
                rows.extend(self.gap(false));
                self.open_fence(&info);
                true
            }
            None => false,
        }
    }

    /// Takes the first line of fenced code.
    fn open_fence(&mut self, info: &str) {
        let line_end = self.source.find('\n').map_or(self.source.len(), |at| at + 1);
        let line = self.source.get(..line_end).unwrap_or_default();
        let content = line.trim_start_matches(' ');
        let mark = content.chars().next().unwrap_or('`');
        self.fence = Some(Fence {
            mark,
            length: content.chars().take_while(|char| *char == mark).count(),
            indent: line.len() - content.len(),
            highlighter: Highlighter::new(info),
        });
        self.last = Last::Code;
        self.drain(line_end);
    }

    /// Draws whole lines of code; returns true if the code has ended.
    fn take_code(&mut self, draw: &Draw<'_>, rows: &mut Vec<Line>) -> bool {
        let Some(fence) = &mut self.fence else { return true };
        let mut n_taken = 0;
        let mut is_closed = false;
        while let Some(rest) = self.source.get(n_taken..)
            && let Some(length) = rest.find('\n')
        {
            let line = rest.get(..length).unwrap_or_default();
            n_taken += length + 1;
            if fence.is_closed_by(line) {
                is_closed = true;
                break;
            }
            rows.extend(code_row(fence.highlighter.line(fence.dedented(line)), draw));
        }
        self.drain(n_taken);
        if is_closed {
            self.fence = None;
            self.last = Last::Block;
        }
        is_closed
    }

    fn drain(&mut self, n_bytes: usize) {
        self.source.drain(..n_bytes);
        self.n_seen = self.n_seen.saturating_sub(n_bytes);
        if self.fence.is_none() {
            // The text behind a finished block was not parsed by itself.
            self.n_seen = if n_bytes > 0 { 0 } else { self.n_seen };
        }
    }
}

impl Fence {
    fn is_closed_by(&self, line: &str) -> bool {
        let content = line.trim_start_matches(' ');
        let marks = content.trim_end();
        line.len() - content.len() < 4
            && marks.len() >= self.length
            && marks.chars().all(|char| char == self.mark)
    }

    fn dedented<'a>(&self, line: &'a str) -> &'a str {
        let n_blanks = line.bytes().take(self.indent).take_while(|byte| *byte == b' ').count();
        line.get(n_blanks..).unwrap_or_default()
    }
}

fn starts_with_list(source: &str) -> bool {
    let first = Parser::new_ext(source, OPTIONS).next();
    matches!(first, Some(Event::Start(Tag::List(_))))
}

/// Returns the blocks of the outermost level.
fn blocks(source: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(source, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    blocks.push(Block { kind: kind(&tag), range });
                } else if depth == 1
                    && let Tag::Item = tag
                    && let Some(Block { kind: Kind::List(items), .. }) = blocks.last_mut()
                {
                    let before = source.get(..range.start).unwrap_or_default();
                    items.push(before.rfind('\n').map_or(0, |at| at + 1));
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            Event::Rule if depth == 0 => blocks.push(Block { kind: Kind::Line, range }),
            _inline => {}
        }
    }
    blocks
}

fn kind(tag: &Tag<'_>) -> Kind {
    match tag {
        Tag::Paragraph | Tag::BlockQuote(_) | Tag::Table(_) | Tag::HtmlBlock => Kind::Paragraph,
        Tag::Heading { .. } => Kind::Line,
        Tag::CodeBlock(CodeBlockKind::Fenced(info)) => Kind::Fenced { info: info.to_string() },
        Tag::List(_) => Kind::List(Vec::new()),
        _other => Kind::Other,
    }
}

#[cfg(test)]
mod tests;
