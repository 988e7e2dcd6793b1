//! The log: a file that is always written, and lines on standard error; never standard output.

use std::{
    fmt::{self, Write as _},
    io::{self, Write as _},
    panic::PanicHookInfo,
    path::PathBuf,
};

use clap::ValueEnum;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{LevelFilter, Targets},
    layer::{Context, SubscriberExt},
    util::SubscriberInitExt,
};
use windlass_base::{clock, log, text};
use windlass_core::config::{Environment, paths::Paths, secrets};

use super::{Global, LogLevel};

mod file;

use file::line;
pub use file::{LogFile, current, rotated};

/// Libraries that name every message and every header below a warning, and whole errors in it.
const TALKATIVE: [&str; 6] = ["rmcp", "hyper", "hyper_util", "h2", "reqwest", "rustls"];

/// Bytes of a line that are kept: text of others may be anything.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Sets the log up and returns its file, which has to be finished before the process ends.
///
/// On standard error: `WINDLASS_LOG` (a filter), else `--log-level` or `OPENCODE_LOG_LEVEL`, else lines at `least`
/// as bad, or more with `--print-logs` or `OPENCODE_PRINT_LOGS`. Into the file: at least information.
/// Events of the target `shown_by_command` reach a person in another way.
pub fn start(
    global: &Global,
    environment: &Environment,
    least: LevelFilter,
    shown_by_command: Option<&'static str>,
) -> LogFile {
    let named = environment.get("OPENCODE_LOG_LEVEL");
    let named = named.and_then(|name| LogLevel::from_str(name, true).ok());
    let wanted_level = global.log_level.or(named).map(LogLevel::filter);
    let prints_more = global.print_logs || environment.is_on("OPENCODE_PRINT_LOGS");
    let level = wanted_level.unwrap_or(if prints_more { LevelFilter::INFO } else { least });
    // Their message about a failure is debug text, and ours says it in a sentence.
    let of_libraries = if level >= LevelFilter::DEBUG { LevelFilter::WARN } else { LevelFilter::OFF };
    let quiet: String = TALKATIVE.iter().map(|library| format!(",{library}={of_libraries}")).collect();
    let fallback = format!("{level}{quiet}");
    let filter = environment.get("WINDLASS_LOG").unwrap_or(&fallback);
    let filter = EnvFilter::try_new(filter).or_else(|_| EnvFilter::try_new(&fallback)).unwrap_or_default();

    let file = LogFile::new(log_directory(environment));
    let file_level = level.max(LevelFilter::INFO);
    let kept = Targets::new().with_default(file_level);
    let kept = kept.with_targets(TALKATIVE.map(|library| (library, of_libraries)));
    let is_for_programs = prints_more || wanted_level.is_some() || environment.get("WINDLASS_LOG").is_some();
    let subscriber = tracing_subscriber::registry()
        .with(Stderr { is_for_programs, shown_by_command }.with_filter(filter))
        .with(file.clone().with_filter(kept));
    // A second start in one process keeps the first log.
    let _ = subscriber.try_init();
    std::panic::set_hook(Box::new(log_panic));
    file
}

/// Tells of a panic in the log's voice: a bug that ends a turn, a call or a request, not the process.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("no reason");
    match panic.location() {
        Some(place) => {
            tracing::error!(
                "a bug in windlass at {}:{}: {text}; please report it",
                place.file(),
                place.line()
            );
        }
        None => tracing::error!("a bug in windlass: {text}; please report it"),
    }
}

/// Returns the directory of the log's files.
pub fn log_directory(environment: &Environment) -> PathBuf {
    Paths::new(environment).log()
}

impl LogLevel {
    /// Returns the same level for a filter.
    pub fn filter(self) -> LevelFilter {
        match self {
            Self::Trace => LevelFilter::TRACE,
            Self::Debug => LevelFilter::DEBUG,
            Self::Info => LevelFilter::INFO,
            Self::Warn => LevelFilter::WARN,
            Self::Error => LevelFilter::ERROR,
        }
    }
}

/// Writes lines to standard error.
struct Stderr {
    /// With time and level as in the file; else as sentences for a person.
    is_for_programs: bool,
    /// A target of events that a person hears of in another way, beside [`log::SHOWN`].
    shown_by_command: Option<&'static str>,
}

impl<S: Subscriber> Layer<S> for Stderr {
    fn on_event(&self, event: &Event<'_>, _cx: Context<'_, S>) {
        let target = event.metadata().target();
        if !self.is_for_programs && (target == log::SHOWN || Some(target) == self.shown_by_command) {
            return;
        }
        let text = EventText::of(event);
        let line = if self.is_for_programs {
            format!(
                "{} {:>5} {}\n",
                clock::iso(clock::now_ms()),
                event.metadata().level(),
                text.with_fields()
            )
        } else {
            let kind = match *event.metadata().level() {
                Level::ERROR => "error: ",
                Level::WARN => "warning: ",
                Level::INFO | Level::DEBUG | Level::TRACE => "",
            };
            format!("{kind}{}\n", text.sentence())
        };
        // If standard error has no reader, the file has it.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

impl<S: Subscriber> Layer<S> for LogFile {
    fn on_event(&self, event: &Event<'_>, _cx: Context<'_, S>) {
        self.push(line(*event.metadata().level(), &EventText::of(event).with_fields()));
    }
}

/// The texts of an event.
#[derive(Default)]
struct EventText {
    message: String,
    /// The value of the field `error`.
    error: String,
    /// The value of the field `server`.
    server: String,
    /// The other fields, each as ` name=value`.
    fields: String,
}

impl EventText {
    fn of(event: &Event<'_>) -> Self {
        let mut text = Self::default();
        event.record(&mut text);
        text
    }

    /// Renders everything on one line.
    fn with_fields(&self) -> String {
        let mut line = format!("{}{}", self.message, self.fields);
        if !self.error.is_empty() {
            let _ = write!(line, " error={}", self.error);
        }
        shown(&line)
    }

    /// Renders one line for a person; the other fields are of no use there.
    fn sentence(&self) -> String {
        let mut sentence = self.message.clone();
        if !self.server.is_empty() && !sentence.contains(&self.server) {
            sentence = format!("{}: {sentence}", self.server);
        }
        if !self.error.is_empty() {
            let _ = write!(sentence, ": {}", self.error);
        }
        let sentence = shown(&sentence);
        text::without_number(&sentence).into_owned()
    }
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "server" {
            self.server.push_str(value);
        }
        match field.name() {
            "message" => self.message.push_str(value),
            "error" => self.error.push_str(value),
            name if value.is_empty() || value.contains([' ', '"', '=']) => {
                let _ = write!(self.fields, " {name}={value:?}");
            }
            name => {
                let _ = write!(self.fields, " {name}={value}");
            }
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Displayed values come this way too, so their text is not quoted once more.
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Returns a line as it may be shown: short, without secrets and without characters that steer a terminal.
fn shown(line: &str) -> String {
    let masked = secrets::text(text::head(line, MAX_LINE_BYTES));
    text::visible_line(&masked).into_owned()
}
