//! The options of `windlass run`, and those that it shares with the chat.

use std::{path::PathBuf, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum, value_parser};
use windlass_core::config::Environment;

use super::super::daemon::http::CredentialArgs;

/// The id of `--file`.
const FILE: &str = "file";

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Words of the prompt; piped standard input is added to them.
    message: Vec<String>,
    /// Words of the prompt that look like options, files or commands.
    #[arg(last = true, value_name = "WORDS")]
    rest: Vec<String>,
    /// Run this slash command; the words are its arguments.
    #[arg(long, value_name = "NAME")]
    pub command: Option<String>,
    /// Continue as `windlass chat`.
    #[arg(long, short = 'i', conflicts_with_all = ["command", "format", "file", "schema"])]
    pub interactive: bool,
    /// Format of the answer.
    #[arg(long, value_enum, default_value_t = Format::Default)]
    pub format: Format,
    /// Part of the answer that is printed.
    #[arg(long, value_enum, value_name = "PART", conflicts_with = "format")]
    output: Option<Printed>,
    /// Time after which the run is cancelled, such as 90, 15m or 2h (seconds without a unit).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Requests of the model in this run, at most.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..), conflicts_with = "attach")]
    pub max_steps: Option<u32>,
    /// US dollars that this run may cost: none is begun beyond it.
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true, conflicts_with = "attach")]
    pub max_cost: Option<f64>,
    /// Keep nothing of the session: its store is a directory that is gone at the end.
    #[arg(long, conflicts_with_all = ["attach", "interactive", "is_continued", "session"])]
    pub ephemeral: bool,
    /// File with the JSON schema of an object: the answer is such an object, which alone is printed.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Send the prompt to the server at this address.
    #[arg(long, value_name = "URL", conflicts_with = "interactive")]
    pub attach: Option<String>,
    #[command(flatten)]
    pub credential: CredentialArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

/// The session to talk in, the agent and model that answer, and their permissions.
#[derive(Debug, Clone, Default, Args)]
pub struct TalkArgs {
    /// Model to use, as `provider/model`.
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
    /// Variant of the model, such as its reasoning effort.
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Agent to use.
    #[arg(long)]
    pub agent: Option<String>,
    /// Continue the latest session of the directory, if there is one.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub is_continued: bool,
    /// Continue this session: its id, the beginning or end of that, or `latest`.
    #[arg(long, short, value_name = "ID")]
    pub session: Option<String>,
    /// Continue in a copy of the session (with `--continue` or `--session`).
    #[arg(long = "fork")]
    pub is_forked: bool,
    /// Title of the new session; if empty, the beginning of the prompt.
    #[arg(long, conflicts_with_all = ["is_continued", "session"])]
    pub title: Option<String>,
    /// Directory to work in.
    #[arg(long, alias = "cwd", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Work in a git worktree of its own, which is removed if nothing was changed in it; `--worktree=NAME` returns to one.
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub worktree: Option<String>,
    /// Show the model's thoughts.
    #[arg(long)]
    pub thinking: bool,
    /// Allow everything that is not denied instead of asking, but for commands that would leave their sandbox.
    #[arg(long)]
    pub auto: bool,
    /// With `--auto`: let commands that their sandbox refused something run again outside of it.
    #[arg(long, requires = "auto")]
    pub leave_sandbox: bool,
    /// Let commands run without a sandbox, against the settings; one that is required stays.
    #[arg(long, conflicts_with = "leave_sandbox")]
    pub no_sandbox: bool,
    /// Never ask, even at a terminal: refuse instead.
    #[arg(long, conflicts_with = "auto")]
    pub no_ask: bool,
    /// End the run at the first refusal, by a rule or by you.
    #[arg(long)]
    pub strict: bool,
    /// File whose text takes the place of the agent's own instructions, for the session from now on.
    #[arg(long, value_name = "FILE", conflicts_with = "append_system_prompt")]
    pub system_prompt: Option<PathBuf>,
    /// File whose text is added to the agent's own instructions, for the session from now on.
    #[arg(long, value_name = "FILE")]
    pub append_system_prompt: Option<PathBuf>,
    /// Write a page of the session for others, and print its link.
    #[arg(long)]
    pub share: bool,
}

impl TalkArgs {
    /// Says in the environment which sandbox these options ask for: commands that run unasked are bounded.
    pub fn bound(&self, environment: &mut Environment) {
        if self.no_sandbox {
            environment.use_no_sandbox();
        } else if self.auto {
            environment.use_sandbox();
        }
    }
}

impl RunArgs {
    /// Returns the form in which the run is shown.
    pub fn shown_as(&self) -> Format {
        match self.output {
            Some(Printed::Final) if self.schema.is_some() => Format::Object,
            Some(Printed::Final) => Format::Final,
            Some(Printed::Json) => Format::Result,
            _ if self.schema.is_some() => Format::Object,
            Some(Printed::Stream) | None => self.format,
        }
    }

    /// Returns the arguments of a prompt of these words, shown as usual.
    pub fn of_words(words: &str, talk: TalkArgs) -> Self {
        Self {
            message: vec![words.to_owned()],
            rest: Vec::new(),
            command: None,
            interactive: false,
            format: Format::Default,
            output: None,
            timeout: None,
            max_steps: None,
            max_cost: None,
            ephemeral: false,
            schema: None,
            attach: None,
            credential: CredentialArgs::default(),
            files: FileArgs::default(),
            talk,
        }
    }
}

/// The values of each `--file`. The derive would join them, and the end of each decides which arguments are words.
#[derive(Debug, Default)]
struct FileArgs(Vec<Vec<PathBuf>>);

impl FromArgMatches for FileArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let occurrences = matches.get_occurrences::<PathBuf>(FILE).into_iter().flatten();
        Ok(Self(occurrences.map(|values| values.cloned().collect()).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FileArgs {
    fn augment_args(command: Command) -> Command {
        command.arg(
            Arg::new(FILE)
                .long("file")
                .short('f')
                .value_name("FILE")
                .help("Attach files or directories; may be repeated")
                .num_args(1..)
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf)),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The text on standard output, all else on standard error.
    Default,
    /// JSON objects on standard output, one a line.
    Json,
    /// No text: the answer is an object that is printed at the end.
    #[value(skip)]
    Object,
    /// The last message alone, at the end.
    #[value(skip)]
    Final,
    /// One object about the whole run, at the end.
    #[value(skip)]
    Result,
}

/// Part of the answer that is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Printed {
    /// The last message alone, at the end.
    Final,
    /// All texts as they come.
    Stream,
    /// One JSON object at the end: answer, session, cost, tokens, files, refusals and reason.
    Json,
}

/// Reads a time.
fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, factor) = match text.char_indices().last() {
        Some((end, 's')) => (&text[..end], 1.0),
        Some((end, 'm')) => (&text[..end], 60.0),
        Some((end, 'h')) => (&text[..end], 3600.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * factor).filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "write a number of seconds, or a time such as 90s, 15m or 2h".to_owned())
}

/// Reads an amount of money.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim().trim_start_matches('$').parse::<f64>().ok();
    amount
        .filter(|amount| *amount > 0.0 && amount.is_finite())
        .ok_or_else(|| "write an amount such as 0.50".to_owned())
}

/// The words and the files of a prompt.
#[derive(Debug, PartialEq, Eq)]
pub struct Given {
    pub words: Vec<String>,
    /// The words stand behind `--`, so they are words, also those that look like options.
    pub is_literal: bool,
    pub files: Vec<PathBuf>,
}

impl RunArgs {
    /// Tells words from files: OpenCode's users name several files behind one `-f`, and then words.
    ///
    /// The first value of each `-f` is a file, and so are the others where words stand elsewhere; else the
    /// words begin
    /// at the first value that does not exist.
    pub fn given(&mut self) -> Given {
        let is_literal = !self.rest.is_empty() && self.message.is_empty();
        let mut words = std::mem::take(&mut self.message);
        words.append(&mut self.rest);
        let mut files = Vec::new();
        let may_hold_words = words.is_empty();
        for group in std::mem::take(&mut self.files.0) {
            let n_files = if may_hold_words {
                group.iter().skip(1).take_while(|value| value.exists()).count() + 1
            } else {
                group.len()
            };
            let mut values = group.into_iter();
            files.extend(values.by_ref().take(n_files));
            words.extend(values.map(|word| word.to_string_lossy().into_owned()));
        }
        Given { words, is_literal, files }
    }
}

#[cfg(test)]
mod tests;
