//! How a program's words are read: what the values of its options are, and what its operands are.

use super::{
    program,
    word::{self, Word},
};

mod table;

/// What a word is to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Text that names no file and runs nothing.
    Text,
    /// The same, standing for the first operand: a pattern, a script.
    TextFirst,
    /// A file or directory that is used.
    Path,
    /// The same, standing for the first operand.
    PathFirst,
    /// A file that is written.
    Output,
    /// A directory that files are written to.
    Tree,
    /// What the names of files begin with that are written.
    Prefix,
    /// A file of commands or code.
    Code,
    /// The same, standing for the first operand.
    CodeFirst,
    /// A module of code; what follows it is given to that.
    Module,
    /// A file that more options are read from: what runs or is written, only that tells.
    Settings,
    /// Shell text that is run.
    Shell,
    /// Something is run that only running would tell.
    Unknowable,
}

/// What the operands of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operands {
    Texts,
    /// Files, behind so many texts.
    Files(usize),
    /// Files, of which the one at this place is written.
    OutputAt(usize),
    /// All are written.
    Outputs,
    /// All are code.
    Scripts,
    /// A file, then texts.
    FileFirst,
    /// Files that are copied to the last of them.
    Copied,
    /// The first is code; what follows it is given to that.
    Script,
    /// The first begins a command, whose options are not the program's.
    Command,
    /// Any of them counts as any command.
    Unknowable,
}

/// How programs of these names read their words. `git archive` is `git` with that subcommand.
pub struct Program {
    names: &'static [&'static str],
    pub operands: Operands,
    /// What the values of options are, and the options apart by spaces; what matters most stands first, because long
    /// options may be abbreviated. `?` at the end says that the value is never the next word,
    /// `+` that it is the second one from there.
    options: &'static [(What, &'static str)],
    /// Whether options of one letter may stand together (`-so FILE`).
    has_clusters: bool,
}

const fn row(
    names: &'static [&'static str],
    operands: Operands,
    options: &'static [(What, &'static str)],
) -> Program {
    Program { names, operands, options, has_clusters: true }
}

/// A program whose options have one dash, however long they are.
const fn row_of_words(
    names: &'static [&'static str],
    operands: Operands,
    options: &'static [(What, &'static str)],
) -> Program {
    Program { names, operands, options, has_clusters: false }
}

/// A word, or the value of an option, as it would be written by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub what: What,
    pub text: String,
    /// The option that it is the value of, as the table has it.
    pub option: Option<&'static str>,
}

/// What stands in a program's words.
#[derive(Debug, Default)]
pub struct Arguments {
    /// Values of options and operands, in their order.
    pub all: Vec<Argument>,
    /// The operands alone.
    pub operands: Vec<String>,
    /// Those that the program would take for options if they looked like some.
    pub exposed: Vec<String>,
}

impl Arguments {
    /// What has this meaning.
    pub fn that_are<'a>(&'a self, what: &'a [What]) -> impl Iterator<Item = &'a str> {
        self.all.iter().filter(|it| what.contains(&it.what)).map(|it| it.text.as_str())
    }
}

/// The row that says how a command of these words is read.
pub fn program_of(name: &str, words: &[Word]) -> Option<(&'static Program, usize)> {
    let subcommand = words.get(1).map(Word::value).filter(|it| !it.is_empty());
    let is_named = |known: &str| match (known.split_once(' '), subcommand) {
        (Some((first, second)), Some(subcommand)) => first == name && second == subcommand,
        (Some(_), None) => false,
        (None, _) => is_version_of(name, known),
    };
    let is_whole = |row: &&Program| row.names.iter().any(|it| it.contains(' ') && is_named(it));
    let whole = table::PROGRAMS.iter().find(is_whole).map(|row| (row, 2));
    whole.or_else(|| {
        table::PROGRAMS.iter().find(|row| row.names.iter().any(|it| is_named(it))).map(|row| (row, 1))
    })
}

/// Reads a command's words; nothing when the program is not known.
pub fn arguments(name: &str, words: &[Word]) -> Arguments {
    let unbundled = program::unbundled(name, words);
    let words = unbundled.as_deref().unwrap_or(words);
    program_of(name, words).map(|(program, from)| program.read(words, from)).unwrap_or_default()
}

impl Program {
    /// Reads the words from this one on.
    pub fn read(&self, words: &[Word], from: usize) -> Arguments {
        let mut acc = Arguments::default();
        let mut idx = from;
        let mut are_operands = false;
        let mut n_texts = if let Operands::Files(n_texts) = self.operands { n_texts } else { 0 };
        let mut at_operands = Vec::new();
        let mut has_script = false;
        while let Some(word) = words.get(idx) {
            idx += 1;
            let text = word.option_text();
            if are_operands || !text.starts_with('-') || text == "-" {
                at_operands.push(acc.all.len());
                acc.exposed.extend(Some(word.text.clone()).filter(|_| !are_operands));
                acc.all.push(Argument { what: What::Text, text: word.text.clone(), option: None });
                are_operands |= matches!(self.operands, Operands::Script | Operands::Command);
                continue;
            }
            if text == "--" {
                are_operands = true;
                continue;
            }
            let Some(Given { what, option, attached }) = self.given(text) else { continue };
            if matches!(what, What::TextFirst | What::PathFirst | What::CodeFirst) {
                n_texts = 0;
            }
            // What follows is given to the code.
            if self.operands == Operands::Script && matches!(what, What::CodeFirst | What::Module) {
                (has_script, are_operands) = (true, true);
            }
            let value = match attached {
                Some(at) => word.behind(at),
                None if option.ends_with('?') => String::new(),
                None => {
                    idx += if option.ends_with('+') { 2 } else { 1 };
                    words.get(idx - 1).map(|next| next.text.clone()).unwrap_or_default()
                }
            };
            if !value.is_empty() || what == What::Unknowable || option.ends_with('?') {
                acc.all.push(Argument { what, text: value, option: Some(option) });
            }
        }
        for (nth, at) in at_operands.into_iter().enumerate() {
            let argument = &mut acc.all[at];
            argument.what = match self.operands {
                Operands::Texts | Operands::Command => What::Text,
                Operands::Files(_) if nth < n_texts => What::Text,
                Operands::OutputAt(place) if nth == place => What::Output,
                Operands::Files(_) | Operands::OutputAt(_) | Operands::Copied => What::Path,
                Operands::FileFirst if nth == 0 => What::Path,
                Operands::FileFirst => What::Text,
                Operands::Outputs => What::Output,
                Operands::Scripts => What::Code,
                Operands::Script if nth == 0 && !has_script => What::Code,
                Operands::Script => What::Text,
                Operands::Unknowable => What::Unknowable,
            };
            acc.operands.push(argument.text.clone());
        }
        acc
    }

    /// Whether some of its options run something.
    pub fn runs_by_options(&self) -> bool {
        self.names.contains(&"find")
            || self.options.iter().any(|(what, _)| matches!(what, What::Shell | What::Unknowable))
    }

    /// Whether a word is an option whose name is computed.
    pub fn is_option_unknown(&self, word: &Word) -> bool {
        let text = word.option_text();
        let name = text.split('=').next().unwrap_or_default();
        word.literal.is_none()
            && text.starts_with('-')
            && name.contains(['$', '`', '*', '?', '['])
            && self.given(text).is_none()
    }

    fn each_option(&self) -> impl Iterator<Item = (What, &'static str)> {
        self.options.iter().flat_map(|(what, names)| names.split(' ').map(move |name| (*what, name)))
    }

    /// The options with values that a word gives, beginning with a dash.
    fn given(&self, text: &str) -> Option<Given> {
        let (name, value_at) = match text.find('=') {
            Some(at) => (&text[..at], Some(at + 1)),
            None => (text, None),
        };
        let is_long = |option: &str| option.trim_end_matches(['?', '+']).len() > 2;
        let is_exact =
            |(_, option): &(What, &str)| is_long(option) && option.trim_end_matches(['?', '+']) == name;
        let is_short_form = |(what, option): &(What, &str)| {
            let n_least = if matches!(what, What::Text | What::Path) { 5 } else { 3 };
            is_long(option) && option.starts_with("--") && name.len() >= n_least && option.starts_with(name)
        };
        let found = self.each_option().find(is_exact).or_else(|| self.each_option().find(is_short_form));
        if let Some((what, option)) = found {
            return Some(Given { what, option, attached: value_at });
        }
        if text.starts_with("--") {
            return None;
        }
        // `-so FILE`, `-soFILE`: letters of other options come before.
        let n_letters = if self.has_clusters { text.len() } else { 1 };
        text.char_indices().skip(1).take(n_letters).find_map(|(at, letter)| {
            let is_it = |(_, option): &(What, &str)| !is_long(option) && option[1..].starts_with(letter);
            let (what, option) = self.each_option().find(is_it)?;
            let behind = at + letter.len_utf8();
            Some(Given { what, option, attached: Some(behind).filter(|at| *at < text.len()) })
        })
    }
}

/// An option with a value.
struct Given {
    what: What,
    option: &'static str,
    /// Where its value begins in the word.
    attached: Option<usize>,
}

/// `python3.12` is a `python`, `gcc-12` a `gcc`.
pub fn is_version_of(name: &str, known: &str) -> bool {
    let version = name.strip_prefix(known).map(|it| it.strip_prefix('-').unwrap_or(it));
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

impl Word {
    /// What an option is recognised by: the word, or what it begins with when the rest is computed.
    pub fn option_text(&self) -> &str {
        self.literal.as_deref().unwrap_or_else(|| self.text.trim_start_matches(['"', '\'']))
    }

    /// What stands behind this place of `option_text`, as it would be written by itself.
    fn behind(&self, at: usize) -> String {
        match &self.literal {
            Some(literal) if literal == &self.text => self.text[at..].to_owned(),
            Some(literal) => word::quote(&literal[at..]),
            None => {
                let stripped = self.text.trim_start_matches(['"', '\'']);
                let rest = &stripped[at..];
                if self.text.starts_with('"') { format!("\"{rest}") } else { rest.to_owned() }
            }
        }
    }
}
