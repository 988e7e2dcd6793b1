//! `windlass demo`: the demo model's tour in the terminal, in a directory that is removed afterwards.

use std::{
    fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use windlass_base::ids;
use windlass_core::config::Environment;

use super::{
    output,
    run::{
        self,
        args::{RunArgs, TalkArgs},
    },
    view::line,
};

const README: &str = "# Scratch\n\nA directory for the demo of windlass; it is removed afterwards.\n";
/// At a terminal, changes are asked about, as a careful user's rules have it.
const ASKING: &str = "{ \"permission\": { \"edit\": \"ask\" } }\n";
const NEXT: &str = "That was the demo model in a directory that is removed now. Next: `windlass auth login` stores a key for a \
                    real one, `windlass` is a chat, and `windlass doctor` says what is missing.";

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Directory to show the tour in, instead of one that is removed afterwards; its permissions hold.
    #[arg(long, alias = "cwd", value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the tour as `windlass run -m windlass/demo "/demo tour"` does.
pub fn run(mut environment: Environment, args: DemoArgs) -> ExitCode {
    let tour = |dir: PathBuf, auto: bool| {
        let model = Some("windlass/demo".to_owned());
        let talk = TalkArgs { model, auto, dir: Some(dir), ..TalkArgs::default() };
        RunArgs::of_words("/demo tour", talk)
    };
    if let Some(dir) = args.dir {
        return run::run(environment, tour(dir, false));
    }
    let is_attended = io::stdin().is_terminal() && io::stderr().is_terminal();
    let scratch = match Scratch::make(&environment, is_attended) {
        Ok(scratch) => scratch,
        Err(error) => return output::fail(&format!("No directory for the demo can be made: {error}.")),
    };
    // Nothing of it is to stay, nor its session.
    let state = scratch.0.join("state").display().to_string();
    environment.variables.insert("WINDLASS_HOME".to_owned(), state);
    let code = run::run(environment, tour(scratch.work(), !is_attended));
    output::note(&line::wrapped_text(NEXT, output::columns()));
    code
}

/// A directory of the demo's own.
struct Scratch(PathBuf);

impl Scratch {
    fn make(environment: &Environment, is_asking: bool) -> io::Result<Self> {
        let root = environment.get("TMPDIR").map_or(Path::new("/tmp"), Path::new);
        let root = root.canonicalize()?;
        let scratch = Self(root.join(format!("windlass-demo-{}", ids::session())));
        fs::create_dir(&scratch.0)?;
        fs::create_dir(scratch.work())?;
        fs::write(scratch.work().join("README.md"), README)?;
        if is_asking {
            fs::write(scratch.work().join("opencode.json"), ASKING)?;
        }
        Ok(scratch)
    }

    fn work(&self) -> PathBuf {
        self.0.join("work")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "the demo's directory {} was not removed", self.0.display());
        }
    }
}
