//! `windlass session export`: writes a stored session as Markdown, HTML or JSON.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::hint;
use crate::{
    base::clock::Zone,
    cli::output,
    engine::{Engine, Record},
    transcript::{Transcript, html, markdown},
};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Session id, or its beginning or end.
    id: String,
    /// Markdown unless the name of the file says otherwise.
    #[arg(long, short = 'f', value_enum)]
    format: Option<Format>,
    /// Write to this file instead of standard output, which `-` means too.
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    #[value(alias = "markdown")]
    Md,
    Html,
    Json,
}

pub async fn run(engine: &Engine, args: ExportArgs) -> Result<ExitCode, String> {
    let read = async { engine.record(&engine.find_session(&args.id).await?).await };
    let record = read.await.map_err(|error| format!("The session was not exported: {}", hint(&error)))?;
    let format = args.format.or_else(|| format_of(args.output.as_deref()?)).unwrap_or(Format::Md);
    let text = draw(record, format);
    match args.output.filter(|path| path != Path::new("-")) {
        None => Ok(output::print_answer(text.trim_end())),
        Some(path) => {
            write(&path, &text).map_err(|error| {
                format!("The session was not exported: {} cannot be written: {error}.", path.display())
            })?;
            output::note(&format!("Written to {}.", path.display()));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the format that a file's name asks for.
fn format_of(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "md" | "markdown" => Some(Format::Md),
        "html" | "htm" => Some(Format::Html),
        "json" => Some(Format::Json),
        _other => None,
    }
}

fn draw(record: Record, format: Format) -> String {
    if format == Format::Json {
        // As OpenCode exports and imports it.
        let json = json!({"info": record.info, "messages": record.messages});
        return format!("{json:#}\n");
    }
    let record = record.without_undone();
    let transcript = Transcript {
        info: &record.info,
        messages: &record.messages,
        todos: &record.todos,
        children: &record.children,
        zone: Zone::local(),
    };
    match format {
        Format::Html => html::page(&transcript),
        Format::Md | Format::Json => markdown::document(&transcript),
    }
}

/// Writes a file that only its user can read, as the store is: it holds what was said and the contents of files.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;

    let mut file =
        std::fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}
