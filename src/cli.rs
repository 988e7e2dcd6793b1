//! The command line: one file per command.

use std::{collections::BTreeSet, ffi::OsString, io::IsTerminal, process::ExitCode};

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use tracing_subscriber::filter::LevelFilter;
use windlass_base::{process, sandbox, text};
use windlass_core::config::{Environment, data_directory, paths::Paths};

mod account;
mod acp;
mod agent;
mod ask;
mod attach;
mod auth;
mod chat;
mod completions;
mod config;
mod daemon;
mod db;
mod debug;
mod demo;
mod doctor;
mod editor;
mod environment;
mod fleet;
mod help;
mod import;
mod input;
mod log;
mod logging;
mod login;
mod lsp;
mod mcp;
mod models;
mod options;
mod other_agents;
mod output;
mod people;
mod permission;
mod plugin;
mod progress;
mod reap;
mod run;
mod runtime;
mod serve;
mod server_keys;
mod servers;
mod session;
mod stats;
mod stdio;
mod trace;
mod trust;
mod upgrade;
mod view;
mod worktree;

use auth::LoginArgs;
use serve::Purpose;

/// A coding agent in one binary, for the terminal, editors and pipes; it works by the configuration of OpenCode.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    after_help = "Without a command windlass chats in the terminal; with piped standard input it is `windlass acp`.",
    disable_version_flag = true
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    /// Print the version.
    #[arg(long, short = 'v', short_alias = 'V')]
    version: bool,
    /// Print the commit and the system that it was built for too.
    #[arg(long, requires = "version")]
    verbose: bool,
    /// Store a provider key (editors use this for their login).
    #[arg(long)]
    login: bool,
    #[command(flatten)]
    bare: Bare,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Options of the chat that stand without its name, as OpenCode's users type them.
#[derive(Debug, Default, PartialEq, Eq, Args)]
struct Bare {
    /// Model of the chat, as `provider/model`.
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// Agent of the chat.
    #[arg(long)]
    agent: Option<String>,
    /// Continue the latest session of the directory in the chat.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    is_continued: bool,
    /// Continue this session in the chat.
    #[arg(long, short, value_name = "ID")]
    session: Option<String>,
    /// First prompt of the chat.
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Answer this prompt as `windlass run` does, with its options, and end.
    #[arg(long, short, value_name = "PROMPT", conflicts_with = "prompt")]
    print: Option<String>,
}

impl Cli {
    /// Returns the arguments of `windlass acp`, as editors start it. The parser of all commands takes a tenth of a start,
    /// and is not made for that.
    fn of_editor(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let is_plain = arguments.into_iter().skip(1).eq(["acp"]);
        is_plain.then(|| Self {
            global: Global::default(),
            version: false,
            verbose: false,
            login: false,
            bare: Bare::default(),
            command: Some(Command::Acp(acp::AcpArgs::default())),
        })
    }
}

impl Cli {
    /// Reads the arguments of this process.
    fn parsed() -> Result<Self, clap::Error> {
        let mut command = help::grouped(Cli::command());
        let matches = command.try_get_matches_from_mut(with_run(std::env::args_os().collect()))?;
        let cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        Ok(cli.with_prompt_as_command())
    }

    /// Makes `windlass --print=PROMPT` and `windlass -pPROMPT` the command that they mean.
    fn with_prompt_as_command(mut self) -> Self {
        if self.command.is_none()
            && let Some(prompt) = self.bare.print.take()
        {
            let talk = std::mem::take(&mut self.bare).talk();
            self.command = Some(Command::Run(run::args::RunArgs::of_words(&prompt, talk)));
        }
        self
    }
}

/// Puts `run` in the place of a `-p` that no command is named before: its options may be on both sides.
fn with_run(arguments: Vec<OsString>) -> Vec<OsString> {
    let taking = takes_value();
    let mut is_value = false;
    let place = arguments.iter().skip(1).position(|argument| {
        let text = argument.to_string_lossy();
        let is_option = text.starts_with('-') && text != "-" && text != "--";
        let ends = !is_option && !std::mem::take(&mut is_value);
        is_value = taking.contains(&*text);
        ends || text == "-p" || text == "--print"
    });
    let is_print = |place: &usize| arguments[*place] == "-p" || arguments[*place] == "--print";
    let Some(place) = place.map(|place| place + 1).filter(is_print) else { return arguments };
    let mut before = arguments;
    let mut behind = before.split_off(place + 1);
    before.truncate(place);
    // A prompt that is `-` or empty is that of the standard input.
    if behind.first().is_some_and(|next| next == "-" || next.is_empty()) {
        behind.remove(0);
    }
    before.insert(1, "run".into());
    before.extend(behind);
    before
}

/// Returns the options of `windlass` and of `windlass run` that have a value behind them.
fn takes_value() -> BTreeSet<String> {
    let command = run::args::RunArgs::augment_args(Cli::command());
    let options = command.get_arguments().filter(|argument| argument.get_action().takes_values());
    options
        .filter(|argument| argument.get_id() != "print" && !argument.is_require_equals_set())
        .flat_map(|argument| {
            let long = argument.get_long().map(|name| format!("--{name}"));
            long.into_iter().chain(argument.get_short().map(|name| format!("-{name}")))
        })
        .collect()
}

impl From<Bare> for chat::ChatArgs {
    fn from(bare: Bare) -> Self {
        let prompt = bare.prompt.clone();
        Self { message: Vec::new(), prompt, talk: bare.talk() }
    }
}

impl Bare {
    fn talk(self) -> run::args::TalkArgs {
        let Self { model, agent, is_continued, session, .. } = self;
        run::args::TalkArgs { model, agent, is_continued, session, ..Default::default() }
    }
}

/// Flags of every command.
#[derive(Debug, Clone, Default, Args)]
struct Global {
    /// Print the log to standard error too.
    #[arg(long, global = true)]
    print_logs: bool,
    /// Leave all plugins out, as OPENCODE_PURE=1 does.
    #[arg(long, global = true)]
    pure: bool,
    /// Let everything act that the projects bring, as WINDLASS_TRUST=1 does.
    #[arg(long, global = true)]
    trust: bool,
    /// Lowest level to log.
    #[arg(long, global = true, value_name = "LEVEL", ignore_case = true)]
    log_level: Option<LogLevel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Speak the Agent Client Protocol on standard input and output.
    Acp(acp::AcpArgs),
    /// Serve OpenCode's HTTP API.
    Serve(serve::ServeArgs),
    /// Serve a page for a browser: sessions, prompts and their questions.
    Web(serve::WebArgs),
    /// Send one prompt and print the answer.
    Run(run::args::RunArgs),
    /// Chat in the terminal with the sessions of a running server.
    Attach(attach::AttachArgs),
    /// Show a tour in the terminal, without a key or a network.
    Demo(demo::DemoArgs),
    /// Chat in the terminal.
    Chat(chat::ChatArgs),
    /// List the models that can be used here.
    Models(models::ModelsArgs),
    /// List agents and make new ones.
    Agent(agent::AgentArgs),
    /// Show the request of an agent's turn, or the sandbox of its commands.
    Debug(debug::DebugArgs),
    /// List, show, search, export, rename, delete and prune sessions.
    Session(session::SessionArgs),
    /// Write a session as OpenCode's JSON.
    Export(session::export::ExportJsonArgs),
    /// Bring in an exported session, or OpenCode's history.
    Import(import::ImportArgs),
    /// Find, check and repair the store.
    Db(db::DbArgs),
    /// List, merge and throw away the worktrees of tasks.
    Worktree(worktree::WorktreeArgs),
    /// Show the machines that share sessions.
    Fleet(fleet::FleetArgs),
    /// Log in at a server with accounts.
    Login(login::LoginArgs),
    /// Log out there.
    Logout(login::ServerArgs),
    /// Show your account there.
    Whoami(login::ServerArgs),
    /// Manage the accounts of this machine's server.
    Account(account::AccountArgs),
    /// Show the logins, requests and answers of people at this machine's server.
    Audit(account::AuditArgs),
    /// Show token use and cost by day, model, project and tool.
    Stats(stats::StatsArgs),
    /// Manage provider keys.
    Auth(auth::AuthArgs),
    /// Show and check the configuration.
    Config(config::ConfigArgs),
    /// List and revoke a project's remembered answers.
    Permission(permission::PermissionArgs),
    /// Show the programs and settings that a project brings, and let them act.
    Trust(trust::TrustArgs),
    /// Check everything that a session needs; exits with 1 when something is wrong.
    Doctor(doctor::DoctorArgs),
    /// Start the MCP servers and list their tools or errors.
    Mcp(mcp::McpArgs),
    /// List language servers, and install those that npm has.
    Lsp(lsp::LspArgs),
    /// Show, install and update plugins.
    Plugin(plugin::PluginArgs),
    /// Print an editor's entry for windlass, or write it into the editor's settings.
    Editor(editor::EditorArgs),
    /// Print a shell completion script.
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write one page per command.
    Man(completions::ManArgs),
    /// Show the log of all windlass processes of this user.
    Log(log::LogArgs),
    /// Show a recorded trace of the protocol readably.
    Trace(trace::TraceArgs),
    /// Install another release, by the way that this one was installed.
    Upgrade(upgrade::UpgradeArgs),
}

/// Returns the version, in words for a report of a fault if they are asked for.
fn version(is_verbose: bool) -> String {
    let short = concat!("windlass ", env!("CARGO_PKG_VERSION"));
    if !is_verbose {
        return short.to_owned();
    }
    let commit = option_env!("BUILT_COMMIT").unwrap_or("unknown: not a release build of a repository");
    let (target, profile) =
        (env!("BUILT_FOR"), if cfg!(debug_assertions) { "without optimization" } else { "release" });
    format!("{short}\ncommit: {commit}\nsystem: {target}\nbuild: {profile}")
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    // First of all: a reaper is to be small.
    if let Some(daemon) = reap::daemon(std::env::args_os()) {
        return reap::run(&daemon);
    }
    if let Some(code) = sandbox::launch(std::env::args_os()) {
        return code;
    }
    let mut environment = environment::read();
    if let Some(shell) = environment.get(completions::values::VARIABLE) {
        let words = std::env::args_os().collect();
        return completions::values::answer(&environment, shell, Cli::command(), words);
    }
    let parsed = match Cli::of_editor(std::env::args_os()) {
        Some(cli) => Ok(cli),
        None => Cli::parsed(),
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let error = with_command(error);
            // Help and version go to standard output, mistakes to standard error.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    if cli.version {
        return output::print_answer(&version(cli.verbose));
    }
    if cli.global.pure {
        environment.variables.insert("OPENCODE_PURE".to_owned(), "1".to_owned());
    }
    environment.trusts_projects |= cli.global.trust;
    if cli.global.trust && matches!(cli.command, Some(Command::Run(_))) {
        environment.use_sandbox();
    }
    // Before the log is opened, which is in it.
    let keeps_data =
        !matches!(cli.command, Some(Command::Completions(_) | Command::Man(_) | Command::Trace(_)));
    if let Err(reason) = data_directory::check(&Paths::new(&environment).data)
        && keeps_data
    {
        return output::fail(&reason);
    }
    let least = match &cli.command {
        // Their answers name the faults.
        Some(Command::Doctor(_) | Command::Lsp(_) | Command::Mcp(_) | Command::Plugin(_)) => LevelFilter::OFF,
        Some(_) | None => LevelFilter::WARN,
    };
    let talks = matches!(
        cli.command,
        Some(Command::Run(_) | Command::Chat(_) | Command::Attach(_) | Command::Demo(_))
    ) || cli.command.is_none() && std::io::stdin().is_terminal();
    // They name the faults of the configuration themselves: all of them, or why they cannot begin.
    let shown_by_command = talks.then_some(windlass_base::log::CONFIGURED);
    let log = logging::start(&cli.global, &environment, least, shown_by_command);
    process::child_table::open(environment.get(process::tree::CHILD_TAG));
    sandbox::open();
    // A client with a password is known by that, and keeps it to itself.
    if !is_client(&cli.command) || environment.get(process::SERVER_PASSWORD).is_some() {
        process::hide();
    }
    let code = command(cli, environment);
    log.finish();
    code
}

/// Returns true for a command that only speaks to a server, which sees by the process that it is one of its user. It
/// holds no more than the shell that started it.
fn is_client(command: &Option<Command>) -> bool {
    match command {
        Some(Command::Attach(_)) => true,
        Some(Command::Run(args)) => args.attach.is_some(),
        Some(Command::Acp(args)) => args.is_client(),
        Some(_) | None => false,
    }
}

fn command(cli: Cli, environment: Environment) -> ExitCode {
    if cli.command.is_some() && cli.bare != Bare::default() {
        return output::misuse("Put options such as `--model` behind the command: `windlass run --model …`.");
    }
    match cli.command {
        _ if cli.login => auth::login(environment, LoginArgs::default()),
        Some(Command::Acp(args)) if args.login => auth::login(environment, LoginArgs::default()),
        Some(Command::Acp(args)) => acp::run(environment, args),
        Some(Command::Serve(args)) => serve::run(environment, args, Purpose::Programs),
        Some(Command::Web(args)) => serve::run_for_browser(environment, args),
        Some(Command::Attach(args)) => attach::run(environment, args),
        Some(Command::Agent(args)) => agent::run(environment, args),
        Some(Command::Demo(args)) => demo::run(environment, args),
        Some(Command::Debug(args)) => debug::run(environment, args),
        Some(Command::Auth(args)) => auth::run(environment, args),
        Some(Command::Config(args)) => config::run(environment, args),
        Some(Command::Doctor(args)) => doctor::run(environment, &args),
        Some(Command::Mcp(args)) => mcp::run(environment, args),
        Some(Command::Lsp(args)) => lsp::run(environment, args),
        Some(Command::Plugin(args)) => plugin::run(environment, args),
        Some(Command::Editor(args)) => editor::run(&environment, &args),
        Some(Command::Completions(args)) => completions::completions(&args),
        Some(Command::Man(args)) => completions::man(Cli::command(), &args),
        Some(Command::Log(args)) => log::run(&environment, cli.global.log_level, &args),
        Some(Command::Trace(args)) => trace::run(&args),
        Some(Command::Upgrade(args)) => upgrade::run(environment, args),
        Some(Command::Permission(args)) => permission::run(&environment, args),
        Some(Command::Trust(args)) => trust::run(environment, args),
        Some(Command::Run(args)) if args.interactive => chat::run(environment, args.into()),
        Some(Command::Run(args)) => match args.attach.clone() {
            Some(url) => attach::prompt::run(environment, &url, args),
            None => run::run(environment, args),
        },
        Some(Command::Chat(args)) => chat::run(environment, args),
        Some(Command::Models(args)) => models::run(environment, args),
        Some(Command::Session(args)) => session::run(environment, args),
        Some(Command::Export(args)) => session::export_json(environment, args),
        Some(Command::Import(args)) => import::run(environment, args),
        Some(Command::Db(args)) => db::run(environment, args),
        Some(Command::Worktree(args)) => worktree::run(environment, args),
        Some(Command::Fleet(args)) => fleet::run(environment, &args),
        Some(Command::Login(args)) => login::run(environment, args),
        Some(Command::Logout(args)) => login::log_out(environment, args),
        Some(Command::Whoami(args)) => login::who_am_i(environment, args),
        Some(Command::Account(args)) => account::run(environment, args),
        Some(Command::Audit(args)) => account::audit(environment, args),
        Some(Command::Stats(args)) => stats::run(environment, args),
        // A client that spawns a bare call with a pipe speaks JSON-RPC.
        None if cli.bare == Bare::default() && !std::io::stdin().is_terminal() => {
            acp::run(environment, acp::AcpArgs::bare())
        }
        None => chat::run(environment, cli.bare.into()),
    }
}

/// Words that other agents have, and what does the same here.
const WORDS_OF_OTHERS: [(&str, &str); 8] = [
    (".", "to chat in a directory, use 'windlass chat --dir DIR'"),
    ("continue", "to go on with the latest session, use 'windlass --continue'"),
    ("exec", "to send a prompt, use 'windlass run PROMPT'"),
    ("init", "to have AGENTS.md written, type '/init' in 'windlass chat'"),
    ("providers", "to see providers and keys, use 'windlass auth list' and 'windlass models'"),
    ("resume", "to go on with a session, use 'windlass --continue' or 'windlass --session ID'"),
    ("tui", "to chat, use 'windlass chat'"),
    ("update", "to install another release, use 'windlass upgrade'"),
];

/// Adds the commands that an unknown one may stand for. The parser itself does not see swapped letters, nor a prompt.
fn with_command(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if let Some((_, tip)) = WORDS_OF_OTHERS.iter().find(|(word, _)| word == typed) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*tip).into()]));
        return error;
    }
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let command = Cli::command();
    let near = text::nearest(typed, command.get_subcommands().map(clap::Command::get_name));
    if let Some(near) = near {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near.to_owned()]));
    } else if typed.contains(char::is_whitespace) {
        let tip = "to send a prompt, use 'windlass run PROMPT'".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_an_editor_mean_what_the_parser_makes_of_them() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let plain = words(&["windlass", "acp"]);
        let of_editor = Cli::of_editor(plain.clone()).expect("it is plain");
        assert_eq!(
            format!("{of_editor:?}"),
            format!("{:?}", Cli::try_parse_from(plain).expect("it is known"))
        );
        for other in [&["windlass"][..], &["windlass", "acp", "--login"], &["windlass", "serve"]] {
            assert!(Cli::of_editor(words(other)).is_none());
        }
    }

    #[test]
    fn a_prompt_behind_its_flag_is_a_run_with_all_of_its_options() {
        let rewritten = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            let words = with_run(words).into_iter().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("windlass -p hello", "windlass run hello"),
            ("windlass -p hello --output json", "windlass run hello --output json"),
            ("windlass -p --output json hello", "windlass run --output json hello"),
            ("windlass -m a/b -c -p hello", "windlass run -m a/b -c hello"),
            ("windlass --output json --dir d -p hello", "windlass run --output json --dir d hello"),
            ("windlass --print=-c", "windlass --print=-c"),
            ("windlass -p -", "windlass run"),
            ("windlass run -p hello", "windlass run -p hello"),
            ("windlass auth login -p x", "windlass auth login -p x"),
            ("windlass --agent plan", "windlass --agent plan"),
        ] {
            assert_eq!(rewritten(line), expected, "{line}");
        }
    }
}
