//! Options that several commands share, each with one spelling.

use clap::{Args, ValueEnum};

/// The form in which a command prints its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[value(alias = "table", alias = "default")]
    Text,
    Json,
}

/// `--format`.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormatArgs {
    /// Show lines for people, or JSON.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The older spelling.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,
}

impl FormatArgs {
    pub fn get(self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}
