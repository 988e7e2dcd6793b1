//! The abilities of a terminal: colours, links, a region that is redrawn.

use std::path::PathBuf;

use windlass_core::config::Environment;

/// Colours that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    None,
    /// The sixteen that every terminal has and its user chooses.
    Basic,
    /// Also those that programs choose themselves.
    Full,
}

/// Abilities of one terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub colors: Colors,
    /// Bold, dim and underlined text.
    pub has_attributes: bool,
    /// The name of this machine in links to files; none where links are not drawn.
    pub links: Option<String>,
    /// Rows at the bottom may be redrawn while work goes on.
    pub is_live: bool,
    pub shows_thoughts: bool,
    /// Ids stand above prompts, answers and their parts.
    pub shows_ids: bool,
    /// The session's directory: paths below it are shown relative to it.
    pub directory: PathBuf,
    /// The terminal has notifications, which announce the end of a long run rather than its bell.
    pub notifies: bool,
}

impl Look {
    /// Reads the policy of a terminal, or of a file or pipe, from the environment.
    pub fn new(environment: &Environment, is_terminal: bool, directory: PathBuf) -> Self {
        let term = environment.get("TERM").unwrap_or("dumb");
        let is_able = is_terminal && term != "dumb";
        let is_forced = environment.get("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let is_refused = environment.get("NO_COLOR").is_some()
            || environment.get("CLICOLOR").is_some_and(|value| value == "0") && !is_forced;
        let is_full = term.contains("256color")
            || term.contains("direct")
            || environment.get("COLORTERM").is_some_and(|value| matches!(value, "truecolor" | "24bit"));
        let colors = match (is_refused, is_able || is_forced, is_full) {
            (true, _, _) | (_, false, _) => Colors::None,
            (false, true, true) => Colors::Full,
            (false, true, false) => Colors::Basic,
        };
        let program = environment.get("TERM_PROGRAM").unwrap_or_default();
        // These show neither links nor the text in them.
        let is_linkless = term == "linux" || term.starts_with("screen") || program == "Apple_Terminal";
        let links = (is_able && !is_linkless).then(host);
        let notifies = matches!(program, "iTerm.app" | "WezTerm" | "ghostty")
            || term.contains("kitty")
            || term.contains("ghostty");
        Self {
            colors,
            has_attributes: is_able || colors != Colors::None,
            links,
            is_live: is_able,
            shows_thoughts: false,
            shows_ids: false,
            directory,
            notifies,
        }
    }

    /// Returns the look of text alone, for files, pipes and the simplest of terminals.
    #[cfg(test)]
    pub fn plain() -> Self {
        let environment =
            Environment { trusts_projects: true, variables: Default::default(), home: PathBuf::from("/") };
        Self::new(&environment, false, PathBuf::from("/work"))
    }

    /// Returns everything that a terminal of today can do.
    #[cfg(test)]
    pub fn full() -> Self {
        let variables = [("TERM".to_owned(), "xterm-256color".to_owned())].into_iter().collect();
        let environment = Environment { trusts_projects: true, variables, home: PathBuf::from("/") };
        Self { links: Some("host".to_owned()), ..Self::new(&environment, true, PathBuf::from("/work")) }
    }
}

/// Returns the name by which a terminal tells files of this machine from those of others.
fn host() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// Place and width of a drawing.
#[derive(Debug, Clone, Copy)]
pub struct Draw<'a> {
    pub look: &'a Look,
    /// Columns.
    pub width: usize,
}
