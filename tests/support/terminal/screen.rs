//! The content of a terminal: rows of cells with their colours, and the rows that have scrolled away.

use std::fmt;

use alacritty_terminal::{
    Term,
    grid::Dimensions,
    index::{Column, Line},
    term::{
        TermMode,
        cell::{Cell as TermCell, Flags},
    },
    vte::ansi::{Color, NamedColor},
};

/// One cell of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The character with any combining ones; empty in the second half of a wide one.
    pub text: String,
    /// Colours and attributes in words, such as `bold green on black`; empty for plain text.
    pub style: String,
    /// The target of a link.
    pub link: Option<String>,
}

/// A screen at one moment.
#[derive(Debug, Clone)]
pub struct Screen {
    /// Rows that have scrolled away, the oldest first.
    pub history: Vec<Vec<Cell>>,
    /// The visible rows.
    pub rows: Vec<Vec<Cell>>,
    /// The row and column of the cursor.
    pub cursor: (usize, usize),
    pub is_cursor_shown: bool,
}

impl Screen {
    pub(super) fn of<T>(term: &Term<T>) -> Self {
        let grid = term.grid();
        let row = |line: i32| -> Vec<Cell> {
            (0..grid.columns()).map(|column| cell(&grid[Line(line)][Column(column)])).collect()
        };
        let (first, last) = (grid.topmost_line().0, grid.bottommost_line().0);
        let point = grid.cursor.point;
        Self {
            history: (first..0).map(row).collect(),
            rows: (0..=last).map(row).collect(),
            cursor: (usize::try_from(point.line.0).unwrap(), point.column.0),
            is_cursor_shown: term.mode().contains(TermMode::SHOW_CURSOR),
        }
    }

    /// Returns the visible rows as text, without trailing blanks.
    pub fn lines(&self) -> Vec<String> {
        self.rows.iter().map(|row| line(row)).collect()
    }

    /// Returns everything from the first row that scrolled away to the last one that is not empty.
    pub fn all_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.history.iter().chain(&self.rows).map(|row| line(row)).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// Returns true if a row, visible or scrolled away, contains this text.
    pub fn contains(&self, text: &str) -> bool {
        self.history.iter().chain(&self.rows).any(|row| line(row).contains(text))
    }

    /// Returns the first row that contains this text.
    pub fn row_with(&self, text: &str) -> &[Cell] {
        let row = self.history.iter().chain(&self.rows).find(|row| line(row).contains(text));
        row.unwrap_or_else(|| panic!("no row contains `{text}`:\n{self}"))
    }

    /// Returns the style of the first cell of this text.
    pub fn style_of(&self, text: &str) -> &str {
        &self.first_cell(text).style
    }

    /// Returns the link of this text.
    pub fn link_of(&self, text: &str) -> Option<&str> {
        self.first_cell(text).link.as_deref()
    }

    fn first_cell(&self, text: &str) -> &Cell {
        let row = self.row_with(text);
        let start = line(row).find(text).unwrap();
        let mut length = 0;
        let at = row.iter().position(|cell| {
            let is_there = length >= start && !cell.text.is_empty();
            length += cell.text.len();
            is_there
        });
        &row[at.unwrap()]
    }

    /// Returns everything as text in which each run of a style is between `‹style:` and `›`.
    pub fn styled(&self) -> String {
        let mut rows: Vec<String> = self.history.iter().chain(&self.rows).map(|row| styled(row)).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows.join("\n")
    }
}

impl fmt::Display for Screen {
    /// Writes all rows, with the edge of the terminal as a bar, so that trailing blanks and wraps are visible.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.history.iter().chain(&self.rows);
        let n_rows = self.all_lines().len();
        for row in rows.take(n_rows) {
            let text: String = row.iter().map(|cell| cell.text.as_str()).collect();
            writeln!(f, "{text}│")?;
        }
        Ok(())
    }
}

fn line(row: &[Cell]) -> String {
    let text: String = row.iter().map(|cell| cell.text.as_str()).collect();
    text.trim_end().to_owned()
}

fn styled(row: &[Cell]) -> String {
    let mut text = String::new();
    for run in row.chunk_by(|one, other| one.style == other.style) {
        let shown: String = run.iter().map(|cell| cell.text.as_str()).collect();
        match run.first() {
            Some(cell) if !cell.style.is_empty() => text += &format!("‹{}:{shown}›", cell.style),
            Some(_) | None => text += &shown,
        }
    }
    text.trim_end().to_owned()
}

fn cell(cell: &TermCell) -> Cell {
    let is_half = cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER);
    let mut text = String::new();
    if !is_half {
        text.push(cell.c);
        text.extend(cell.zerowidth().unwrap_or_default());
    }
    Cell { text, style: style(cell), link: cell.hyperlink().map(|link| link.uri().to_owned()) }
}

fn style(cell: &TermCell) -> String {
    let names = [
        (Flags::BOLD, "bold"),
        (Flags::DIM, "dim"),
        (Flags::ITALIC, "italic"),
        (Flags::UNDERLINE, "underline"),
        (Flags::INVERSE, "inverse"),
        (Flags::STRIKEOUT, "strike"),
        (Flags::HIDDEN, "hidden"),
    ];
    let mut words: Vec<String> = names
        .into_iter()
        .filter(|(flag, _)| cell.flags.contains(*flag))
        .map(|(_, name)| name.to_owned())
        .collect();
    if cell.fg != Color::Named(NamedColor::Foreground) {
        words.push(color(cell.fg));
    }
    if cell.bg != Color::Named(NamedColor::Background) {
        words.push(format!("on {}", color(cell.bg)));
    }
    words.join(" ")
}

fn color(color: Color) -> String {
    match color {
        Color::Named(name) => format!("{name:?}").to_lowercase(),
        Color::Spec(rgb) => format!("#{:02x}{:02x}{:02x}", rgb.r, rgb.g, rgb.b),
        Color::Indexed(index) => format!("color{index}"),
    }
}
