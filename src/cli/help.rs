//! The help of the whole program: its commands by their use, and the usual ones as examples.

use std::fmt::Write;

use clap::Command;

/// The commands, in the order in which people meet them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Work", &["chat", "run", "web", "attach", "demo"]),
    ("Sessions", &["session", "stats", "export", "import", "worktree", "fleet"]),
    (
        "Set up",
        &[
            "auth",
            "models",
            "config",
            "agent",
            "permission",
            "trust",
            "mcp",
            "lsp",
            "plugin",
            "editor",
            "completions",
            "man",
            "upgrade",
        ],
    ),
    ("Serve", &["acp", "serve", "account", "audit", "login", "logout", "whoami"]),
    ("Look into", &["doctor", "log", "trace", "debug", "db"]),
];

/// Lines to type, and their effects.
pub const EXAMPLES: [(&str, &str); 7] = [
    ("windlass", "chat in this directory"),
    ("windlass run \"fix the failing test\"", "one prompt, one answer"),
    ("git diff | windlass run \"review this\"", "with text that is piped"),
    ("windlass run --continue --auto \"go on\"", "the same session, without questions"),
    ("windlass auth login", "log in at a provider, or store its key"),
    ("windlass web", "in a browser"),
    ("windlass acp", "for an editor, which starts it itself"),
];

/// Gives the program the help of [`GROUPS`].
pub fn grouped(command: Command) -> Command {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{heading}:\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<12} {about}");
        }
    }
    text.push_str("\nExamples:\n");
    for (line, what) in EXAMPLES {
        let _ = writeln!(text, "  {line:<40} {what}");
    }
    text.push_str("\nOptions:\n{options}{after-help}");
    command.help_template(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::{super::Cli, *};

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|it| !it.is_hide_set()).map(Command::get_name);
        let shown: BTreeSet<&str> = shown.filter(|name| *name != "help").collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(grouped.len(), shown.len());
    }
}
