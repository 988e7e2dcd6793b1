//! Reads a shell line: the commands that it asks the shell to run, the paths they name, and whether that is all.

use std::collections::HashSet;

use tree_sitter::Node;

mod arity;
mod characters;
mod inner;
mod paths;
mod tree;
mod word;
mod wrappers;

pub use characters::refusal;

use tree::{
    each_below, has_lost_substitution, hides_text, is_fed, is_subscript_code, parse, spans,
    words_behind_redirections,
};
use word::Word;
use wrappers::STEERING;

/// Shell texts in a line (`bash -c "bash -c …"`); more is not plain.
const MAX_TEXTS: usize = 32;
/// Commands within commands (`sudo env nice …`); more is not plain.
const MAX_NESTED: usize = 6;
/// Syntax nested deeper is not plain.
const MAX_DEPTH: usize = 200;

/// Words that begin syntax, which the grammar takes for a command behind `time` and its like.
const KEYWORDS: [&str; 12] =
    ["!", "{", "}", "(", "[[", "if", "for", "while", "until", "case", "select", "function"];

/// Builtins that set the variables that their words name.
const SETTING: [&str; 5] = ["read", "mapfile", "readarray", "printf", "getopts"];

/// The commands that a line asks the shell to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Every command as written, its redirections included; and by its plain name where quotes, a path, assignments or
    /// another command before it hide that.
    pub patterns: Vec<String>,
    /// Patterns to allow from now on when the user says so; none of a line that is not plain.
    pub always: Vec<String>,
    /// Paths as written without quotes, behind the `cd`s before them.
    pub paths: Vec<String>,
    /// The same of paths with `*`, `?` or `[`, which may match links.
    pub globs: Vec<String>,
    /// Files that redirections write, as written where the line does not spell out where they are.
    pub written: Vec<String>,
    /// False where the shell may run something that the line does not spell out.
    pub is_plain: bool,
}

/// Reads a line.
pub fn read(text: &str) -> Line {
    let whole = text.trim();
    let line = Line { is_plain: true, ..Line::default() };
    let mut reader = Reader { line, directory: Some(String::new()), ..Reader::default() };
    reader.text(whole);
    let mut line = reader.line;
    if !line.is_plain {
        line.always.clear();
        line.patterns.insert(0, whole.to_owned());
    }
    for list in [&mut line.patterns, &mut line.always, &mut line.paths, &mut line.globs, &mut line.written] {
        let mut seen = HashSet::new();
        list.retain(|text| !text.is_empty() && seen.insert(text.clone()));
    }
    line
}

/// The words of a command that name its action.
enum Reach {
    /// The words that count for every command of its name.
    Name,
    /// The words up to the command that it runs.
    Words(usize),
    /// All words: the command that it runs is somewhere in them.
    Whole,
}

#[derive(Default)]
struct Reader {
    line: Line,
    n_texts: usize,
    /// Variables that the line sets.
    assigned: HashSet<String>,
    /// The directory that `cd` led to, as written, and empty before; none where that is not known.
    directory: Option<String>,
    /// Texts that stand for words from elsewhere within a command of `find` or `xargs`.
    placeholders: Vec<String>,
    /// The command that is read gets more words from its standard input.
    is_appended_to: bool,
}

impl Reader {
    fn text(&mut self, text: &str) {
        self.n_texts += 1;
        let tree = if self.n_texts > MAX_TEXTS { None } else { parse(text) };
        let Some(tree) = tree else {
            self.line.patterns.push(text.trim().to_owned());
            self.line.is_plain = false;
            return;
        };
        let root = tree.root_node();
        self.line.is_plain &= !root.has_error() && !hides_text(text);
        self.survey(text, root);
        self.visit(text, root, 0);
    }

    /// Finds the variables that a text sets, and the parts that the grammar does not see as the shell does.
    fn survey(&mut self, text: &str, root: Node<'_>) {
        let has_arithmetic = text.contains("((") || text.contains("[[");
        each_below(root, |node| {
            let of = text.get(node.byte_range()).unwrap_or_default();
            let is_odd = match node.kind() {
                "variable_assignment" | "for_statement" | "select_statement" => {
                    let name = node.child_by_field_name("name").or(node.child_by_field_name("variable"));
                    let name = name.and_then(|it| text.get(it.byte_range())).unwrap_or_default();
                    let name = name.split('[').next().unwrap_or_default();
                    self.assigned.insert(name.to_owned());
                    STEERING.contains(&name)
                }
                "command" => {
                    let mut words = of.split_whitespace();
                    let sets = words.next().is_some_and(|name| SETTING.contains(&name));
                    let names: Vec<&str> = words.filter(|_| sets).collect();
                    self.assigned.extend(names.iter().map(|&name| name.to_owned()));
                    names.iter().any(|name| STEERING.contains(name))
                }
                "expansion" => {
                    let sets_steering = of.contains('=') && STEERING.iter().any(|name| of.contains(name));
                    sets_steering
                        || of.contains("@P")
                        || of.contains('\'')
                        || has_lost_substitution(text, node)
                }
                "heredoc_body" | "string" => {
                    has_lost_substitution(text, node) || is_subscript_code(of, has_arithmetic)
                }
                "raw_string" | "ansi_c_string" => is_subscript_code(of, false),
                // The grammar joins neighbours of these, and does not look into them again.
                "command_substitution" => of.starts_with('`'),
                "heredoc_start" => of.contains(['<', '>', '|', '&', ';', '(', ')', '$', '`']),
                // Words behind a document's name in its line belong to the command.
                "heredoc_redirect" => node.child_by_field_name("argument").is_some(),
                _ => false,
            };
            self.line.is_plain &= !is_odd;
        });
    }

    fn visit(&mut self, text: &str, node: Node<'_>, depth: usize) {
        if depth > MAX_DEPTH {
            self.line.is_plain = false;
            return;
        }
        let is_apart =
            matches!(node.kind(), "subshell" | "command_substitution" | "process_substitution" | "pipeline");
        let before = is_apart.then(|| self.directory.clone());
        match node.kind() {
            "command" => self.command(text, node),
            "file_redirect" => self.redirect(text, node),
            _ => {}
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            self.visit(text, child, depth + 1);
        }
        if let Some(before) = before {
            self.directory = before;
        }
    }

    fn command(&mut self, text: &str, node: Node<'_>) {
        let mut cursor = node.walk();
        let is_word = |child: &Node<'_>| {
            let kind = child.kind();
            !kind.ends_with("_redirect") && !matches!(kind, "variable_assignment" | "comment")
        };
        // Digits that touch a redirection are its descriptor.
        let is_descriptor = |&(start, end): &(usize, usize)| {
            let word = text.get(start..end).unwrap_or_default();
            word.chars().all(|c| c.is_ascii_digit())
                && text.get(end..).is_some_and(|it| it.starts_with(['<', '>']))
        };
        let mut spans = spans(node.children(&mut cursor).filter(is_word));
        spans.retain(|span| !is_descriptor(span));
        let statement = node.parent().filter(|it| it.kind() == "redirected_statement");
        spans.extend(statement.into_iter().flat_map(words_behind_redirections));
        let Some(&(start, _)) = spans.first() else { return };
        let words = spans.iter().filter_map(|&(start, end)| text.get(start..end));
        let words: Vec<Word> = words.map(Word::new).collect();
        let whole = statement.unwrap_or(node);
        let written = text.get(whole.byte_range()).unwrap_or_default();
        let written = (written, start.saturating_sub(whole.start_byte()));
        self.run(&words, Some(written), is_fed(text, node), 0);
    }

    /// Reads one command, as written and with the bytes before its first word: notes its name, and goes on to
    /// the command that it runs in turn. Returns how many words name its action; none where only all of them do.
    fn run(
        &mut self,
        words: &[Word],
        written: Option<(&str, usize)>,
        is_fed: bool,
        depth: usize,
    ) -> Option<usize> {
        let first = words.first()?;
        let joined = joined(words);
        let written = written.unwrap_or((&joined, 0));
        let Some(name) = self.name(first).filter(|_| depth <= MAX_NESTED) else {
            self.line.is_plain = false;
            self.line.patterns.push(written.0.to_owned());
            return None;
        };
        let has_brace = words.iter().any(|it| matches!(&*it.text, "{" | "}"));
        if has_brace || KEYWORDS.contains(&name.as_str()) || self.has_placeholder(&name) {
            self.line.is_plain = false;
        }
        if matches!(name.as_str(), "cd" | "chdir" | "pushd" | "popd") {
            self.change_directory(&name, words);
            return None;
        }
        self.line.patterns.push(written.0.to_owned());
        let plain = format!("{name}{}", joined.get(first.text.len()..).unwrap_or_default());
        let rest = written.0.strip_prefix(&plain);
        let is_spelled = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        if !is_spelled {
            self.line.patterns.push(plain);
        }
        for path in paths::named(&name, words) {
            self.push_path(path);
        }
        let n_words = match self.inner(&name, words, is_fed, depth) {
            Reach::Name => Some(arity::arity(&name, words.get(1).map(Word::value)).min(words.len())),
            Reach::Words(n_words) => Some(n_words),
            Reach::Whole => None,
        };
        self.offer(&name, words, written, n_words);
        n_words
    }

    /// Adds the patterns that `always` allows: the command's beginning, by its plain name and as written, or its text.
    fn offer(&mut self, name: &str, words: &[Word], (text, n_before): (&str, usize), n_words: Option<usize>) {
        let is_literal = |text: &str| !text.contains(['*', '?']);
        let beginning = joined(words.get(..n_words.unwrap_or(usize::MAX)).unwrap_or(words));
        let rest = words.first().and_then(|first| beginning.get(first.text.len()..)).unwrap_or_default();
        let plain = format!("{name}{rest}");
        let exact = Some(text.to_owned()).filter(|text| is_literal(text));
        if n_words.is_none() {
            self.line.always.extend(Some(plain).filter(|text| is_literal(text)).into_iter().chain(exact));
        } else if is_literal(&beginning) {
            let (before, body) = text.split_at_checked(n_before).unwrap_or(("", text));
            let behind = body.strip_prefix(&beginning).filter(|_| is_literal(before));
            let is_evenly_spaced = behind.is_some_and(|it| it.is_empty() || it.starts_with(' '));
            let written = if is_evenly_spaced { Some(format!("{before}{beginning} *")) } else { exact };
            self.line.always.extend(std::iter::once(format!("{plain} *")).chain(written));
        }
    }

    /// Returns the name that a command runs under; none where the shell computes it.
    fn name(&self, word: &Word) -> Option<String> {
        match (&word.literal, &word.base) {
            // zsh reads `=rm` as the path of `rm`.
            (Some(literal), _) if literal.starts_with('=') => None,
            (Some(literal), _) if literal.starts_with(['/', '~']) || literal.starts_with("../") => {
                literal.rsplit('/').next().map(str::to_owned)
            }
            (Some(literal), _) => {
                let is_in_bin = self.directory.as_ref().is_some_and(|it| it.ends_with("bin"));
                let name = literal.strip_prefix("./").filter(|_| is_in_bin);
                Some(name.unwrap_or(literal).to_owned())
            }
            // Only the directory is computed, as in `"$VENV/bin/pip"`.
            (None, Some(base)) if !word.is_made_up && !word.variables.is_empty() => {
                let is_safe = !word.may_split || word.variables.iter().all(|it| !self.is_set(it));
                is_safe.then(|| base.clone())
            }
            (None, _) => None,
        }
    }

    /// Returns true if the line makes up a word: by a substitution, a glob, braces, or a variable that it sets.
    fn is_computed(&self, word: &Word) -> bool {
        word.literal.is_none()
            && (word.is_made_up
                || word.variables.is_empty()
                || word.variables.iter().any(|it| self.is_set(it)))
    }

    fn is_set(&self, variable: &str) -> bool {
        // `$@` and `$1` are the words of `set` or of a function's caller.
        variable.chars().all(|c| c.is_ascii_digit()) || self.assigned.contains(variable)
    }

    fn has_placeholder(&self, text: &str) -> bool {
        self.placeholders.iter().any(|it| text.contains(it.as_str()))
    }

    fn change_directory(&mut self, name: &str, words: &[Word]) {
        let operand = words[1..].iter().find(|it| !it.value().starts_with('-') || it.value() == "-");
        self.directory = match operand {
            _ if name == "popd" => None,
            None => Some("~".to_owned()),
            Some(word) => paths::text(&word.text).and_then(|path| self.resolved(path)),
        };
        if operand.is_some() {
            self.line.paths.extend(self.directory.clone());
        }
    }

    fn redirect(&mut self, text: &str, node: Node<'_>) {
        let mut cursor = node.walk();
        let is_descriptor =
            node.children(&mut cursor).any(|it| matches!(it.kind(), ">&" | "<&" | ">&-" | "<&-"));
        let destination = node.child_by_field_name("destination");
        let Some(destination) = destination.and_then(|it| text.get(it.byte_range())) else { return };
        if !is_descriptor || !destination.chars().all(|c| c.is_ascii_digit() || c == '-') {
            self.push_path(destination);
            if node.children(&mut cursor).any(|it| it.kind().contains('>')) {
                let path = paths::text(destination).and_then(|path| self.resolved(path));
                self.line.written.push(path.unwrap_or_else(|| destination.to_owned()));
            }
        }
    }

    /// Returns a path behind the `cd`s before it; none where those are not known.
    fn resolved(&self, path: String) -> Option<String> {
        match self.directory.as_deref() {
            _ if path.starts_with(['/', '~']) => Some(path),
            Some("") => Some(path),
            Some(directory) => Some(format!("{}/{path}", directory.trim_end_matches('/'))),
            None => None,
        }
    }

    fn push_path(&mut self, written: &str) {
        let path = paths::text(written).and_then(|path| self.resolved(path));
        let glob = paths::glob(written).and_then(|glob| self.resolved(glob));
        self.line.paths.extend(path);
        self.line.globs.extend(glob);
    }
}

fn joined(words: &[Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
