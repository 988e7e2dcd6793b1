//! Markdown drawn while it is still being written: blocks that are finished, and the one that is not.

use super::{
    Draw,
    line::{Line, PLAIN},
};

/// A text that grows.
#[derive(Debug, Default)]
pub struct Stream {
    /// What was not drawn for good yet.
    source: String,
}

impl Stream {
    pub fn push(&mut self, text: &str) {
        self.source.push_str(text);
    }

    /// Rows that nothing to come can change; each is given once.
    pub fn take_finished(&mut self, draw: &Draw<'_>) -> Vec<Line> {
        let end = self.source.rfind('\n').map_or(0, |at| at + 1);
        let finished: String = self.source.drain(..end).collect();
        rows(&finished, draw)
    }

    /// The rest as it looks now.
    pub fn unfinished(&self, draw: &Draw<'_>) -> Vec<Line> {
        rows(&self.source, draw)
    }

    /// The rest, which does not grow any more.
    pub fn finish(&mut self, draw: &Draw<'_>) -> Vec<Line> {
        rows(&std::mem::take(&mut self.source), draw)
    }
}

fn rows(source: &str, draw: &Draw<'_>) -> Vec<Line> {
    source.lines().flat_map(|line| Line::new(line, PLAIN).wrap(draw.width)).collect()
}
