//! The blank rows between drawn parts: none between calls, one between everything else.

use super::line::Line;

/// Content of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Prompt,
    Text,
    Call,
    Notice,
    Closing,
}

/// The kind of row that was drawn last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spacing {
    last: Option<Kind>,
    is_inside: bool,
}

impl Spacing {
    /// Returns the spacing of rows indented below a call, which has no blank rows.
    pub fn inside() -> Self {
        Self { last: None, is_inside: true }
    }

    /// Adds the blank row that belongs before something of this kind.
    pub fn before(&mut self, kind: Kind, rows: &mut Vec<Line>) {
        if self.is_blank_before(kind) {
            rows.push(Line::default());
        }
        self.last = Some(kind);
    }

    pub fn is_blank_before(&self, kind: Kind) -> bool {
        match self.last {
            _ if self.is_inside => false,
            None => false,
            Some(last) => last != kind || matches!(kind, Kind::Prompt | Kind::Text),
        }
    }
}
