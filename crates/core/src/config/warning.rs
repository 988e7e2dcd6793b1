//! Problems in a configuration, each with its place.

use windlass_base::text;

use super::secrets;

/// Something in a configuration source that was ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// File or variable.
    pub source: String,
    /// 1-based, where known.
    pub line: Option<usize>,
    /// 1-based, where known.
    pub column: Option<usize>,
    pub message: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Text of others must not steer the terminal, nor look like lines of ours.
        f.write_str(&text::visible_line(&secrets::text(&self.source)))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}", text::visible_line(&self.shown_message()))
    }
}

impl Warning {
    /// Returns the message as it may be shown: without secrets, and without numbers of system errors.
    pub fn shown_message(&self) -> String {
        text::without_number(&secrets::text(&self.message)).into_owned()
    }
}

/// Problems that were found while reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Something is ignored that was meant.
    pub warnings: Vec<Warning>,
    /// Everything holds as it was meant, but could be said better.
    pub notes: Vec<Warning>,
}
