//! Sections of the manual page that the command line itself does not know: examples, exit codes, files and variables.

use std::fmt::Write;

use super::super::help::EXAMPLES;

const EXIT_CODES: [(&str, &str); 7] = [
    ("0", "the work came to its end"),
    ("1", "it failed: a model or provider that the configuration lacks, an unknown session, the store"),
    ("2", "a mistake in the call: an unknown option, command, agent, model or file"),
    ("3", "run: something was refused because nobody could be asked, or, with --strict, by anybody"),
    ("124", "run: the time of --timeout was over"),
    ("130, 143", "ended by Ctrl-C or SIGTERM"),
    ("129, 141", "the terminal has gone, or standard output was closed"),
];

const FILES: [(&str, &str); 5] = [
    ("opencode.json, opencode.jsonc", "settings of a project, in its directory or in .opencode"),
    ("~/.config/opencode", "your own settings, agents, commands and skills"),
    ("~/.local/share/windlass/windlass.db", "sessions; WINDLASS_HOME moves them"),
    ("~/.local/share/windlass/auth.json", "keys and logins"),
    ("AGENTS.md", "instructions of a project"),
];

const VARIABLES: [(&str, &str); 9] = [
    ("OPENCODE_CONFIG", "another file with settings"),
    ("OPENCODE_CONFIG_CONTENT", "settings themselves"),
    ("OPENCODE_PERMISSION", "rules beside those of the settings"),
    ("WINDLASS_HOME", "the directory of sessions, keys and caches"),
    ("WINDLASS_TRUST", "1: lets everything act that projects bring"),
    ("WINDLASS_SANDBOX", "the sandbox of commands: workspace-write, read-only, required or off"),
    ("OPENCODE_PURE", "1: leaves plugins out"),
    ("VISUAL, EDITOR", "the editor for prompts"),
    ("NO_COLOR", "no colours"),
];

/// Returns the sections in the language of manual pages.
pub fn sections() -> String {
    let mut page = ".SH EXAMPLES\n".to_owned();
    for (line, what) in EXAMPLES {
        // Writing to a string cannot fail.
        let _ = write!(page, ".TP\n\\fB{}\\fR\n{}\n", escaped(line), escaped(what));
    }
    for (heading, rows) in [("EXIT STATUS", &EXIT_CODES[..]), ("FILES", &FILES), ("ENVIRONMENT", &VARIABLES)]
    {
        let _ = writeln!(page, ".SH \"{heading}\"");
        for (name, what) in rows {
            let _ = write!(page, ".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(what));
        }
    }
    page
}

/// Escapes the characters that the language reads: backslashes, hyphens, and dots and quotes at the beginning of a line.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
