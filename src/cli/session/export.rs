//! `windlass session export`: writes a stored session as Markdown, HTML or JSON.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use serde_json::json;
use windlass_base::{clock::Zone, text::visible_json};
use windlass_engine::{
    Engine, EngineError, Record,
    transcript::{Transcript, html, markdown},
};
use windlass_protocol::opencode::id::SessionId;

use super::{hint, meant};
use crate::cli::{output, progress::Progress};

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
    /// Leave out texts and contents of files; JSON only.
    #[arg(long)]
    sanitize: bool,
}

/// Arguments of `windlass export`.
#[derive(Debug, Args)]
pub struct ExportJsonArgs {
    /// Session id, or its beginning or end; the latest session of this repository unless given.
    id: Option<String>,
    /// Leave out texts and contents of files.
    #[arg(long)]
    sanitize: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    #[value(alias = "markdown")]
    Md,
    Html,
    Json,
}

pub async fn run(engine: &Engine, args: ExportArgs) -> Result<ExitCode, String> {
    let unnamed = if args.sanitize { Format::Json } else { Format::Md };
    let file = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let named = file.and_then(format_of);
    if let (None, None, Some(extension)) = (args.format, named, file.and_then(Path::extension)) {
        return Ok(output::misuse(&format!(
            "Nothing is exported as `.{}`: name the file `….md`, `….html` or `….json`, or say which by `--format`.",
            extension.display()
        )));
    }
    let format = args.format.or(named).unwrap_or(unnamed);
    if args.sanitize && format != Format::Json {
        return Ok(output::misuse(
            "`--sanitize` is for JSON: leave out `--format` and name the file `….json`.",
        ));
    }
    let progress = Progress::of("Exporting");
    let read = async {
        let id = super::named(engine, &args.id).await?;
        match format {
            Format::Json => json(engine, &id, args.sanitize).await,
            Format::Md | Format::Html => Ok(draw(engine.sessions().record(&id).await?, format)),
        }
    };
    let text = read.await.map_err(|error| format!("The session was not exported: {}", hint(&error)))?;
    drop(progress);
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

/// Writes a session to a file in the form that its name asks for; the error is a sentence.
pub async fn to_file(engine: &Engine, id: &SessionId, path: &Path) -> Result<(), String> {
    let Some(format) = format_of(path) else {
        return Err(format!("{} names no form: end it by `.md`, `.html` or `.json`.", path.display()));
    };
    let text = match format {
        Format::Json => json(engine, id, false).await,
        Format::Md | Format::Html => engine.sessions().record(id).await.map(|record| draw(record, format)),
    };
    let text = text.map_err(|error| format!("The session was not exported: {}", hint(&error)))?;
    write(path, &text).map_err(|error| format!("{} cannot be written: {error}.", path.display()))
}

/// Prints a session as OpenCode's `export` does.
pub async fn run_json(engine: &Engine, args: ExportJsonArgs) -> Result<ExitCode, String> {
    let refused = |error: EngineError| format!("The session was not exported: {}", hint(&error));
    let id = match &args.id {
        Some(id) => super::named(engine, id).await.map_err(refused)?,
        None => {
            let latest = meant(engine, false, 1).await.map_err(refused)?.pop();
            latest.ok_or("There are no sessions here; name one of `windlass session list --all`.")?.id
        }
    };
    let progress = Progress::of("Exporting");
    let text = json(engine, &id, args.sanitize).await.map_err(refused)?;
    drop(progress);
    Ok(output::print_answer(text.trim_end()))
}

/// Returns a session as OpenCode exports and imports it, with the fields that only windlass reads behind it.
async fn json(engine: &Engine, id: &SessionId, is_sanitized: bool) -> Result<String, EngineError> {
    let mut file = engine.sessions().export(id).await?;
    if is_sanitized {
        file.redact();
    }
    Ok(visible_json(&format!("{:#}\n", json!(file))))
}

/// Returns the format that a file's name asks for.
fn format_of(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "md" | "markdown" | "txt" => Some(Format::Md),
        "html" | "htm" => Some(Format::Html),
        "json" => Some(Format::Json),
        _other => None,
    }
}

fn draw(record: Record, format: Format) -> String {
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

/// Writes a file that only its user can read, as the store is: it holds texts and the contents of files.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;

    let mut file =
        std::fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}
