//! The log: lines on standard error, never on standard output.

use std::io::{self, Stderr, Write};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use super::{Global, LogLevel};
use crate::config::{Environment, secrets};

/// Sets the log up: `WINDLASS_LOG` (a filter), else `--log-level` or `OPENCODE_LOG_LEVEL`, else warnings, or more with
/// `--print-logs` or `OPENCODE_PRINT_LOGS`.
pub fn start(global: &Global, environment: &Environment) {
    let named = environment.get("OPENCODE_LOG_LEVEL");
    let named = named.and_then(|name| LogLevel::from_str(name, true).ok());
    let level = match global.log_level.or(named) {
        Some(LogLevel::Trace) => "trace",
        Some(LogLevel::Debug) => "debug",
        Some(LogLevel::Info) => "info",
        Some(LogLevel::Warn) => "warn",
        Some(LogLevel::Error) => "error",
        None if global.print_logs || environment.is_on("OPENCODE_PRINT_LOGS") => "info",
        None => "warn",
    };
    // What the libraries say below a warning names every message and every header.
    let fallback = format!("{level},rmcp=warn,hyper=warn,hyper_util=warn,h2=warn,reqwest=warn,rustls=warn");
    let wanted = environment.get("WINDLASS_LOG").unwrap_or(&fallback);
    let filter = EnvFilter::try_new(wanted).or_else(|_| EnvFilter::try_new(&fallback));
    let builder = tracing_subscriber::fmt()
        .with_writer(|| Masked(io::stderr()))
        .with_ansi(false)
        .with_target(false)
        .with_env_filter(filter.unwrap_or_default());
    // A second start in one process keeps the first log.
    let _ = builder.try_init();
}

/// Standard error, without what is secret in the lines: addresses are in many of them.
struct Masked(Stderr);

impl Write for Masked {
    /// Takes a whole line, as the log writes them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(line) => self.0.write_all(secrets::text(line).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
