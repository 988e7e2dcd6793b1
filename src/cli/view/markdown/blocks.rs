//! Blocks of Markdown as rows: paragraphs, headings, lists, quotes, code, tables.

use std::{ops::Range, vec::IntoIter};

use anstyle::Style;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::{
    super::{
        line::{CYAN, DIM, Line, PLAIN},
        look::Draw,
    },
    code::Highlighter,
    inline::{self, Inline},
    table,
};

/// Dialect of the Markdown that is read: GitHub's.
pub const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Prose is not wider than this, for the eye to find the next row; tables and code are.
const PROSE: usize = 100;
/// Depth of nested blocks below which the rest is left out.
const MAX_DEPTH: usize = 16;

/// Returns all blocks of a text, with blank rows between them. Code has colours once it is final.
pub fn drawn(source: &str, draw: &Draw<'_>, is_final: bool) -> Vec<Line> {
    if source.trim().is_empty() {
        return Vec::new();
    }
    let events: Vec<(Event<'_>, Range<usize>)> =
        Parser::new_ext(source, OPTIONS).into_offset_iter().collect();
    let mut reader = Reader { source, events: events.into_iter(), draw: *draw, is_final, depth: 0 };
    reader.blocks(draw.width, false)
}

/// Returns a line of code, set off from the text.
pub fn code_row(line: Line, draw: &Draw<'_>) -> Vec<Line> {
    let indent = Line::new("  ", PLAIN);
    let rows = line.fold(draw.width.saturating_sub(2).max(8));
    rows.into_iter().map(|row| row.behind(&indent)).collect()
}

struct Reader<'a> {
    source: &'a str,
    events: IntoIter<(Event<'a>, Range<usize>)>,
    draw: Draw<'a>,
    is_final: bool,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Blocks up to the end of the one that holds them.
    fn blocks(&mut self, width: usize, is_item: bool) -> Vec<Line> {
        let mut rows: Vec<Line> = Vec::new();
        let mut text = Inline::new(self.draw.look, PLAIN);
        let mut last_was_paragraph = false;
        while let Some((event, _)) = self.events.next() {
            if text.event(&event) {
                continue;
            }
            let line = std::mem::replace(&mut text, Inline::new(self.draw.look, PLAIN));
            if !line.is_empty() {
                rows.extend(wrapped(line, width));
                last_was_paragraph = false;
            }
            let (drawn, is_paragraph, is_list) = match event {
                Event::Start(tag) => {
                    let is_paragraph = matches!(tag, Tag::Paragraph);
                    let is_list = matches!(tag, Tag::List(_));
                    (self.block(tag, width), is_paragraph, is_list)
                }
                Event::Rule => (vec![Line::new(&"─".repeat(width.min(PROSE)), DIM)], false, false),
                Event::End(_) => return rows,
                _inline => continue,
            };
            // Within an item only paragraphs are set apart.
            let is_apart = !is_item || last_was_paragraph && !is_list;
            if !rows.is_empty() && !drawn.is_empty() && is_apart {
                rows.push(Line::default());
            }
            rows.extend(drawn);
            last_was_paragraph = is_paragraph;
        }
        if !text.is_empty() {
            rows.extend(wrapped(text, width));
        }
        rows
    }

    fn block(&mut self, tag: Tag<'a>, width: usize) -> Vec<Line> {
        self.depth += 1;
        let rows = match tag {
            _ if self.depth > MAX_DEPTH => {
                self.skip();
                Vec::new()
            }
            Tag::Heading { level, .. } => {
                let is_styled = self.draw.look.has_attributes;
                let marks = format!("{} ", "#".repeat(level as usize));
                let lines = self.text(inline::heading(level)).lines().into_iter();
                let lines =
                    lines.map(|line| if is_styled { line } else { line.behind(&Line::new(&marks, PLAIN)) });
                lines.flat_map(|line| line.wrap(width.min(PROSE))).collect()
            }
            Tag::BlockQuote(_) => {
                let bar = Line::new("▎ ", DIM);
                let inner = self.blocks(width.saturating_sub(2), false);
                inner.into_iter().map(|row| row.styled(DIM).behind(&bar)).collect()
            }
            Tag::CodeBlock(kind) => self.code(&kind, width),
            Tag::List(first) => self.list(first, width),
            Tag::Table(alignments) => {
                let rows = self.table();
                table::drawn(&rows, &alignments, width)
            }
            Tag::HtmlBlock => {
                let mut lines = Vec::new();
                for line in self.raw_text().lines() {
                    lines.extend(Line::new(line, DIM).wrap(width));
                }
                lines
            }
            Tag::Paragraph => wrapped(self.text(PLAIN), width),
            _other => self.blocks(width, false),
        };
        self.depth -= 1;
        rows
    }

    /// Reads the text up to the end of its block.
    fn text(&mut self, style: Style) -> Inline<'a> {
        let mut text = Inline::new(self.draw.look, style);
        for (event, _) in self.events.by_ref() {
            if !text.event(&event) {
                break;
            }
        }
        text
    }

    /// Reads the text as it is, up to the end of its block.
    fn raw_text(&mut self) -> String {
        let mut text = String::new();
        for (event, _) in self.events.by_ref() {
            match event {
                Event::Text(piece) | Event::Html(piece) => text.push_str(&piece),
                Event::End(_) => break,
                _other => {}
            }
        }
        text
    }

    fn skip(&mut self) {
        let mut depth = 1;
        for (event, _) in self.events.by_ref() {
            match event {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth -= 1,
                _inline => {}
            }
            if depth == 0 {
                break;
            }
        }
    }

    fn code(&mut self, kind: &CodeBlockKind<'_>, width: usize) -> Vec<Line> {
        let text = self.raw_text();
        let info = match kind {
            CodeBlockKind::Fenced(info) if self.is_final => info.as_ref(),
            CodeBlockKind::Fenced(_) | CodeBlockKind::Indented => "",
        };
        let mut highlighter = Highlighter::new(info);
        let draw = Draw { look: self.draw.look, width };
        text.lines().flat_map(|line| code_row(highlighter.line(line), &draw)).collect()
    }

    fn list(&mut self, first: Option<u64>, width: usize) -> Vec<Line> {
        let mut number = first;
        let mut rows = Vec::new();
        while let Some((event, range)) = self.events.next() {
            match event {
                Event::Start(Tag::Item) => {
                    let before = self.source.get(..range.start).unwrap_or_default().trim_end_matches(' ');
                    if before.ends_with("\n\n") && !rows.is_empty() {
                        rows.push(Line::default());
                    }
                }
                Event::End(TagEnd::List(_)) => break,
                _other => continue,
            }
            let mark = match &mut number {
                Some(number) => {
                    let mark = format!("{number}. ");
                    *number += 1;
                    mark
                }
                None => "• ".to_owned(),
            };
            let indent = Line::new(&" ".repeat(mark.chars().count()), PLAIN);
            let mark = Line::new(&mark, CYAN);
            let item = self.blocks(width.saturating_sub(mark.width()).max(8), true);
            let item = if item.is_empty() { vec![Line::default()] } else { item };
            let item = item.into_iter().enumerate();
            rows.extend(item.map(|(idx, row)| row.behind(if idx == 0 { &mark } else { &indent })));
        }
        rows
    }

    fn table(&mut self) -> Vec<Vec<Line>> {
        let mut rows: Vec<Vec<Line>> = Vec::new();
        while let Some((event, _)) = self.events.next() {
            match event {
                Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    let lines = self.text(PLAIN).lines();
                    let mut cell = Line::default();
                    for (idx, line) in lines.into_iter().enumerate() {
                        cell.push(if idx == 0 { "" } else { " " }, PLAIN);
                        cell.append(line);
                    }
                    if let Some(row) = rows.last_mut() {
                        row.push(cell);
                    }
                }
                Event::End(TagEnd::Table) => break,
                _other => {}
            }
        }
        rows
    }
}

fn wrapped(text: Inline<'_>, width: usize) -> Vec<Line> {
    text.lines().into_iter().flat_map(|line| line.wrap(width.min(PROSE))).collect()
}
