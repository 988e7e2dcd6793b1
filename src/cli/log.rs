//! `windlass log`: shows the log's files, the oldest line first, and the lines added to them.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use serde_json::json;
use tracing::Level;
use windlass_base::{clock, text::visible_line};
use windlass_core::config::Environment;

use super::{
    LogLevel, logging,
    options::{Format, FormatArgs},
    output, runtime,
};

/// Interval of looking for new lines: a growing file that is open for writing sends no event.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Bytes of a line that is not the log's own.
const MAX_LINE_BYTES: u64 = 64 << 10;

#[derive(Debug, Args)]
pub struct LogArgs {
    /// Keep printing new lines until interrupted.
    #[arg(long, short)]
    follow: bool,
    /// Show only lines of this level and above.
    #[arg(long, value_name = "LEVEL", ignore_case = true)]
    level: Option<LogLevel>,
    /// Show at most this many existing lines.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
    lines: usize,
    #[command(flatten)]
    format: FormatArgs,
}

/// Shows the log. A level for every command, `--log-level`, counts where `--level` says nothing.
pub fn run(environment: &Environment, log_level: Option<LogLevel>, args: &LogArgs) -> ExitCode {
    let directory = logging::log_directory(environment);
    let least = args.level.or(log_level).unwrap_or(LogLevel::Trace);
    let mut position = ReadPosition::default();
    let found = match position.read_all(&directory) {
        Ok(lines) => lines,
        Err(error) => {
            return output::fail(&format!("The log in {} cannot be read: {error}.", directory.display()));
        }
    };
    let mut entries = found.iter().filter_map(|line| Entry::of(line, least)).collect::<Vec<_>>();
    entries.drain(..entries.len().saturating_sub(args.lines));
    if entries.is_empty() && !args.follow && args.lines > 0 {
        let place = directory.display();
        output::note(&if found.is_empty() {
            format!("The log in {place} is empty.")
        } else {
            format!("No line of the log in {place} is of this level or above.")
        });
        return ExitCode::SUCCESS;
    }
    if let Err(code) = show(&entries, args.format.get()) {
        return code;
    }
    if !args.follow {
        return ExitCode::SUCCESS;
    }
    runtime::block_on(async {
        let following = async {
            let mut ticks = tokio::time::interval(LOOK_EVERY);
            loop {
                ticks.tick().await;
                let lines = match position.read_more(&directory) {
                    Ok(lines) => lines,
                    Err(error) => return output::fail(&format!("The log cannot be read any more: {error}.")),
                };
                let entries = lines.iter().filter_map(|line| Entry::of(line, least)).collect::<Vec<_>>();
                if let Err(code) = show(&entries, args.format.get()) {
                    return code;
                }
            }
        };
        tokio::select! {
            code = following => code,
            // Interrupting is the way to end it.
            _ = runtime::signalled() => ExitCode::SUCCESS,
        }
    })
}

/// Says the lines; an error is the exit code with which to end.
fn show(entries: &[Entry<'_>], format: Format) -> Result<(), ExitCode> {
    if entries.is_empty() {
        return Ok(());
    }
    let today = clock::local_day(clock::now_ms());
    let lines = entries.iter().map(|entry| match format {
        Format::Text => entry.for_people(&today),
        Format::Json => entry.json(),
    });
    output::print(&lines.collect::<Vec<_>>().join("\n"))
}

/// A line of the log, or a foreign line in its file.
struct Entry<'a> {
    time: &'a str,
    level: Option<Level>,
    process: &'a str,
    text: &'a str,
}

impl<'a> Entry<'a> {
    /// Takes a line apart; `None` when its level is below `least`.
    fn of(line: &'a str, least: LogLevel) -> Option<Self> {
        let (time, rest) = line.split_once(' ').unwrap_or(("", line));
        let (level, rest) = rest.split_at_checked(5).unwrap_or(("", rest));
        let entry = match (level.trim_end().parse::<Level>(), rest.trim_start().split_once(' ')) {
            (Ok(level), Some((process, text))) => Self { time, level: Some(level), process, text },
            (Ok(_) | Err(_), _) => Self { time: "", level: None, process: "", text: line },
        };
        let is_wanted = match entry.level {
            Some(level) => least.filter() >= level,
            None => least == LogLevel::Trace,
        };
        is_wanted.then_some(entry)
    }

    /// Returns the line with the local time, and with the date where that is not today.
    fn for_people(&self, today: &str) -> String {
        let Some(level) = self.level else { return visible_line(self.text).into_owned() };
        let time = match clock::local(self.time) {
            Some((day, time)) if day == today => time,
            Some((day, time)) => format!("{day} {time}"),
            None => self.time.to_owned(),
        };
        format!("{time} {level:<5} {}", visible_line(self.text))
    }

    fn json(&self) -> String {
        let level = self.level.map(|level| level.as_str().to_lowercase());
        let process = self.process.parse::<u32>().ok();
        json!({"time": self.time, "level": level, "process": process, "text": self.text}).to_string()
    }
}

/// The place up to which the current file was read.
#[derive(Default)]
struct ReadPosition {
    inode: u64,
    offset: u64,
}

impl ReadPosition {
    /// Returns the lines of both files, the older one's first.
    fn read_all(&mut self, directory: &Path) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        if let Some(file) = open(&logging::rotated(directory))? {
            read_lines(&file, 0, &mut lines)?;
        }
        lines.extend(self.read_more(directory)?);
        Ok(lines)
    }

    /// Returns the whole lines that were added since.
    fn read_more(&mut self, directory: &Path) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let Some(file) = open(&logging::current(directory))? else { return Ok(lines) };
        let metadata = file.metadata()?;
        if metadata.ino() != self.inode {
            // Lines that were added before the rotation are in the older file now.
            if let Some(older) = open(&logging::rotated(directory))?
                && older.metadata()?.ino() == self.inode
            {
                read_lines(&older, self.offset, &mut lines)?;
            }
            *self = Self { inode: metadata.ino(), offset: 0 };
        } else if metadata.len() < self.offset {
            self.offset = 0;
        }
        self.offset += read_lines(&file, self.offset, &mut lines)?;
        Ok(lines)
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match fs::File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads whole lines from `offset` on and returns how many bytes they take.
fn read_lines(mut file: &File, offset: u64, lines: &mut Vec<String>) -> io::Result<u64> {
    file.seek(SeekFrom::Start(offset))?;
    let mut reader = BufReader::new(file);
    let mut n_read = 0;
    loop {
        let mut line = Vec::new();
        let n_bytes = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        let is_whole = line.ends_with(b"\n") || n_bytes as u64 == MAX_LINE_BYTES;
        if !is_whole {
            return Ok(n_read);
        }
        n_read += n_bytes as u64;
        lines.push(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
    }
}

#[cfg(test)]
mod tests;
