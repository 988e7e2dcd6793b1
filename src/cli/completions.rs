//! `windlass completions` and `windlass man`: the completions and pages of the command line, made from it.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Args, Command};
use clap_complete::Shell;

use super::output;

mod sections;
pub mod values;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for each command into this directory instead of printing the first.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the script by which a shell asks windlass itself how a line goes on.
pub fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut script = Vec::new();
    let name = args.shell.to_string();
    let written = values::shell(&name).map(|shell| {
        shell.write_registration(values::VARIABLE, "windlass", "windlass", "windlass", &mut script)
    });
    match written {
        Some(Ok(())) => output::print_answer(String::from_utf8_lossy(&script).trim_end()),
        Some(Err(_)) | None => output::fail(&format!("There is no script for {name}.")),
    }
}

/// Prints the manual page of the whole program, or writes the pages of all commands.
pub fn man(command: Command, args: &ManArgs) -> ExitCode {
    let Some(directory) = &args.out else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        page.extend(sections::sections().into_bytes());
        return match rendered {
            Ok(()) => output::print_answer(String::from_utf8_lossy(&page).trim_end()),
            Err(error) => output::fail(&format!("The page was not written: {error}.")),
        };
    };
    let written = fs::create_dir_all(directory).and_then(|()| {
        clap_mangen::generate_to(command, directory)?;
        let first = directory.join("windlass.1");
        let page = fs::read_to_string(&first)?;
        fs::write(first, page + &sections::sections())
    });
    match written {
        Ok(()) => output::print_answer(&format!("The pages are in {}.", directory.display())),
        Err(error) => output::fail(&format!("{} was not written: {error}.", directory.display())),
    }
}
