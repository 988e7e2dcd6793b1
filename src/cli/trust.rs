//! `windlass trust`: shows a project's entries, and takes the user's word on them.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use windlass_base::text::visible_line;
use windlass_core::config::{
    Environment, layers,
    paths::Paths,
    trust::{self, Held},
    worktree::worktree,
};

use super::output;

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Directory of the project; the working directory unless given.
    directory: Option<PathBuf>,
    /// List the projects that you have spoken about.
    #[arg(long, conflicts_with_all = ["revoke", "never", "directory"])]
    list: bool,
    /// Take back your word on the project.
    #[arg(long, conflicts_with = "never")]
    revoke: bool,
    /// Let nothing of the project act, and be asked no more.
    #[arg(long)]
    never: bool,
}

pub fn run(environment: Environment, args: TrustArgs) -> ExitCode {
    let paths = Paths::new(&environment);
    if args.list {
        return list(&paths);
    }
    let directory = match args.directory.map_or_else(std::env::current_dir, std::path::absolute) {
        Ok(directory) if directory.is_dir() => directory,
        Ok(directory) => return fail(&format!("{} is not a directory.", directory.display())),
        Err(error) => return fail(&format!("The directory cannot be used: {error}.")),
    };
    let root = trust::root(&directory, &worktree(&environment, &directory));
    let shown = visible_line(&root.to_string_lossy()).into_owned();
    if args.revoke {
        return match trust::revoke(&paths, &root) {
            Ok(true) => say(&format!("Nothing that {shown} brings acts any more, until you trust it.")),
            Ok(false) => fail(&format!("You have said nothing of {shown}.")),
            Err(error) => fail(&format!("It cannot be taken back: {error}.")),
        };
    }
    if args.never {
        return match trust::refuse(&paths, &root) {
            Ok(()) => say(&format!("Nothing that {shown} brings will act.")),
            Err(error) => fail(&format!("It cannot be remembered: {error}.")),
        };
    }
    // Entries that a variable lets act are asked about all the same: the answer is for later.
    let guarded = Environment { trusts_projects: false, ..environment };
    let held = layers::load(&guarded, &paths, &directory, &[], None).0.held;
    if let Some(problem) = trust::problem(&paths) {
        output::note(&problem);
    }
    if held.entries.is_empty() {
        return say(&format!("{shown} brings nothing that waits for your trust."));
    }
    ask(&paths, &held, &shown)
}

/// Returns the held entries of a directory's project. Does blocking reads.
pub fn held(environment: &Environment, directory: &Path) -> Held {
    layers::load(environment, &Paths::new(environment), directory, &[], None).0.held
}

/// Says on standard error which entries do not act; returns true if there is something.
pub fn note_held(held: &Held) -> bool {
    let sentence = held.sentence();
    if let Some(sentence) = &sentence {
        output::note(&format!("Held back: {sentence}."));
    }
    sentence.is_some()
}

/// Trusts the entries that a person has just written by a command: all that is held since `before`. Without a
/// terminal it may be a model's command, so that it waits for the user's word.
pub fn trust_written(environment: &Environment, directory: &Path, before: &Held) {
    let mut written = held(environment, directory);
    written.entries.retain(|entry| !before.entries.contains(entry));
    if written.entries.is_empty() {
        return;
    }
    let is_remembered = has_terminal() && trust::remember(&Paths::new(environment), &written).is_ok();
    if !is_remembered {
        output::note("It acts once the project is trusted: `windlass trust`.");
    }
}

/// Asks at the terminal. Commands of a model have none, so none of them can say yes.
fn ask(paths: &Paths, held: &Held, shown: &str) -> ExitCode {
    let _ = writeln!(io::stdout(), "{shown} brings:\n{}", indented(&held.lines()));
    if !io::stdin().is_terminal() || !has_terminal() {
        return fail(
            "To trust it, run this in a terminal; where there is none, such as in CI, set WINDLASS_TRUST=1 or use \
             --trust.",
        );
    }
    let _ = write!(io::stdout(), "Trust it? [y] yes, [n] not now, [never] › ");
    let _ = io::stdout().flush();
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line).is_err() {
        return ExitCode::FAILURE;
    }
    let done = match line.trim().to_lowercase().as_str() {
        "y" | "yes" => trust::remember(paths, held).map(|()| "Trusted. A change of any of it asks again."),
        "never" => trust::refuse(paths, &held.root).map(|()| "None of it will act."),
        _ => return say("None of it acts for now."),
    };
    match done {
        Ok(text) => say(text),
        Err(error) => fail(&format!("It cannot be remembered: {error}.")),
    }
}

pub fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

fn list(paths: &Paths) -> ExitCode {
    let known = match trust::known(paths) {
        Ok(known) => known,
        Err(error) => return fail(&format!("{error}.")),
    };
    if known.is_empty() {
        return say("You have trusted no project.");
    }
    let row = |it: &trust::Known| {
        let word = if it.is_never { "never".to_owned() } else { format!("{} entries", it.n_entries) };
        format!("{word}\t{}", path(&it.root))
    };
    say(&known.iter().map(row).collect::<Vec<_>>().join("\n"))
}

fn path(path: &Path) -> String {
    visible_line(&path.to_string_lossy()).into_owned()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn say(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(text: &str) -> ExitCode {
    // If standard error has no reader, the exit code says it.
    let _ = writeln!(io::stderr(), "{text}");
    ExitCode::FAILURE
}
