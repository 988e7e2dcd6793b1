//! Variables that decide what runs.

use tree_sitter::Node;

use super::{
    Source, Walk,
    command::value_of,
    tree::spans,
    word::{self, Word},
};

/// Variables whose value decides which programs later commands are, or how words are split.
const STEERING: [&str; 37] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "ZDOTDIR",
    "SHELLOPTS",
    "BASHOPTS",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "CDPATH",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "GIT_EXEC_PATH",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_TEMPLATE_DIR",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "PERL5DB",
    "BASH_ALIASES",
    "BASH_CMDS",
    "BASH_LOADABLES_PATH",
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "PERL5LIB",
    "RIPGREP_CONFIG_PATH",
    "RUBYOPT",
    "TAR_OPTIONS",
];

/// Variables whose value is a command that some program runs.
pub const COMMANDS: [&str; 28] = [
    "PAGER",
    "MANPAGER",
    "GIT_PAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "GIT_PROXY_COMMAND",
    "RSYNC_RSH",
    "SVN_SSH",
    "CVS_RSH",
    "SUDO_EDITOR",
    "SUDO_ASKPASS",
    "FCEDIT",
    "SHELL",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CC",
    "CXX",
];

/// Whether a value of this variable has a program load or run something.
pub fn is_loading(name: &str, value: Option<&str>) -> bool {
    let marks: &[&str] = match name {
        "NODE_OPTIONS" => &["-r", "require", "import", "loader"],
        "MAKEFLAGS" | "GNUMAKEFLAGS" => &["eval", "SHELL", "-f", "file"],
        "JAVA_TOOL_OPTIONS" => &["agent", "-X"],
        "LESS" => &["!", "+"],
        _other => return false,
    };
    value.is_none_or(|value| marks.iter().any(|mark| value.contains(mark)))
}

/// Whether later commands or words mean something else once this variable is set.
pub fn is_steering(name: &str) -> bool {
    let is_configuration = |prefix: &str| name.starts_with(prefix) && name.len() > prefix.len();
    STEERING.contains(&name) || is_configuration("GIT_CONFIG_KEY_") || is_configuration("BASH_FUNC_")
}

/// Whether a value of this variable may decide what runs.
fn is_deciding(name: &str) -> bool {
    is_steering(name) || COMMANDS.contains(&name) || is_loading(name, None)
}

/// The words that are no options, nor values of these; `-a NAME` names a variable as well.
pub fn operands<'a>(arguments: &'a [Word], values: &str) -> Vec<&'a Word> {
    let mut found = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        match word.text.strip_prefix('-').filter(|options| !options.is_empty()) {
            Some("-") => {}
            Some(options) => {
                let at = options.find(|c| values.contains(c));
                if at.is_some_and(|at| at + 1 == options.len()) {
                    arguments.next();
                }
            }
            None => found.push(word),
        }
    }
    found
}

impl Walk {
    /// What a written word may be, as a variable's name and perhaps its value; `None` when only running it would tell.
    fn name_and_value(&self, written: &str) -> Vec<Option<(String, Option<String>)>> {
        let readings = self.values.known(written);
        let texts = readings.iter().flat_map(|reading| word::braces(reading));
        let read = |text: String| {
            let whole = word::literal(&text);
            let (name, value) = match (&whole, text.split_once('=')) {
                (Some(whole), _) => match whole.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (whole.clone(), None),
                },
                (None, Some((name, _))) => (name.replace(['"', '\'', '\\'], ""), None),
                (None, None) => return None,
            };
            let end = name.find('[').unwrap_or(name.len());
            let name = name.get(..end).unwrap_or_default().trim_end_matches('+').to_owned();
            (!name.contains(['$', '`', '*', '?'])).then_some((name, value))
        };
        texts.map(read).collect()
    }

    /// A word by which a command gives a variable a value of its own making.
    pub(super) fn names_variable(&mut self, written: &str) {
        for found in self.name_and_value(written) {
            self.acc.is_unknowable |= found.is_none_or(|(name, _)| is_deciding(&name));
        }
    }

    /// `NAME=value` as a command's argument, quoted or not.
    fn argument_assigns(&mut self, written: &str) {
        for (name, value) in self.name_and_value(written).into_iter().flatten() {
            if written.contains('=') || value.is_some() {
                self.assign(&name, value.as_deref());
                let text = written.split_once('=').map(|it| it.1).unwrap_or_default();
                self.values.add(&name, value_of(text));
            }
        }
    }

    pub(super) fn assignments(&mut self, arguments: &[Word]) {
        arguments.iter().for_each(|argument| self.argument_assigns(&argument.text));
    }

    /// `declare`, `export`, `unset` and their like, for the words that the grammar takes for no assignment.
    pub(super) fn declaration(&mut self, source: &Source<'_>, node: Node<'_>) {
        let mut cursor = node.walk();
        let plain: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let is_unset = node.kind() == "unset_command";
        let spans = spans(plain);
        let texts: Vec<&str> =
            spans.iter().filter_map(|(start, end)| source.text.get(*start..*end)).collect();
        let is_reference = !source.of(node).starts_with("export")
            && !is_unset
            && texts.iter().any(|text| text.starts_with('-') && text.contains('n'));
        for text in texts.into_iter().filter(|text| !text.starts_with(['-', '+'])) {
            if is_unset {
                // Without it programs are looked for in the working directory.
                let removes = |it: &Option<(String, _)>| it.as_ref().is_some_and(|(name, _)| name == "PATH");
                self.acc.is_unknowable |= self.name_and_value(text).iter().any(removes);
                continue;
            }
            if is_reference {
                match text.split_once('=') {
                    Some((_, name)) => self.names_variable(name),
                    None => self.acc.is_unknowable = true,
                }
                continue;
            }
            self.acc.is_unknowable |= self.name_and_value(text).iter().any(Option::is_none);
            self.argument_assigns(text);
        }
    }
}
