//! `windlass trace view`: shows a wire trace, or any recorded lines of the protocol, a row for each message.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use windlass_base::text;

use self::view::View;
use super::output;

mod view;

#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Show a trace of `windlass acp --trace FILE`, a row for each message.
    View {
        /// The trace, or `-` for standard input.
        file: PathBuf,
        /// Show only messages of the session whose id ends with this, and those of no session.
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Show each message whole instead of its beginning.
        #[arg(long)]
        full: bool,
    },
}

pub fn run(args: &TraceArgs) -> ExitCode {
    let TraceCommand::View { file, session, full } = &args.command;
    let is_input = file == Path::new("-");
    let name = if is_input { "Standard input".to_owned() } else { file.display().to_string() };
    let reader: Box<dyn BufRead> = if is_input {
        Box::new(io::stdin().lock())
    } else {
        match File::open(file) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(error) => return output::fail(&format!("{name} cannot be read: {error}.")),
        }
    };
    match show(reader, View::new(session.clone(), *full)) {
        Ok(0) => output::fail(&format!(
            "{name} holds no message of the protocol; `windlass acp --trace FILE` writes a trace."
        )),
        Ok(_) => ExitCode::SUCCESS,
        Err(Ended::Unread(error)) => output::fail(&format!("{name} cannot be read: {error}.")),
        Err(Ended::Unwritten(code)) => code,
    }
}

/// The reason that the showing ended early.
enum Ended {
    Unread(io::Error),
    Unwritten(ExitCode),
}

/// Shows the rows as the lines are read and returns how many messages there were.
fn show(mut reader: impl BufRead, mut view: View) -> Result<usize, Ended> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(Ended::Unread)? == 0 {
            break;
        }
        print(&view.line(&text::decode(line.trim_ascii_end())))?;
    }
    print(&view.end())?;
    Ok(view.n_messages())
}

fn print(rows: &[String]) -> Result<(), Ended> {
    if rows.is_empty() {
        return Ok(());
    }
    output::print(&rows.join("\n")).map_err(Ended::Unwritten)
}
