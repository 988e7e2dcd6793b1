//! Reads a shell line: the commands that it asks the shell to run, the paths they name, and whether that is all.

use std::collections::HashSet;

use tree_sitter::Node;

mod arity;
mod feed;
mod paths;
mod tree;
mod word;
mod wrappers;

use feed::{Feed, feed};
use tree::{each_below, has_lost_substitution, joins_words, loses_backslash, normalised, parse, spans};
use word::Word;
use wrappers::{EVALUATING, FD_COMMANDS, FIND_COMMANDS, GIT_VALUES, SHELLS, STEERING, Wrapper};

/// Shell texts in a line (`bash -c "bash -c …"`); more is not plain.
const MAX_TEXTS: usize = 32;
/// Commands within commands (`sudo env nice …`); more is not plain.
const MAX_NESTED: usize = 6;
/// Syntax nested deeper is not plain.
const MAX_DEPTH: usize = 200;

/// What a line asks the shell to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Every command as written, its redirections included; and by its plain name where quotes, a path, assignments or
    /// another command before it hide that.
    pub patterns: Vec<String>,
    /// Patterns to allow from now on when the user says so; none of a line that is not plain.
    pub always: Vec<String>,
    /// Paths as written without quotes, behind the `cd`s before them.
    pub paths: Vec<String>,
    /// False where the shell may run something that the line does not spell out.
    pub is_plain: bool,
}

/// Reads a line.
pub fn read(text: &str) -> Line {
    let mut reader = Reader { line: Line { is_plain: true, ..Line::default() }, ..Reader::default() };
    reader.text(text);
    let mut line = reader.line;
    if !line.is_plain {
        let whole = text.trim().to_owned();
        line.always.clear();
        line.patterns.retain(|pattern| *pattern != whole);
        line.patterns.insert(0, whole);
    }
    line
}

#[derive(Default)]
struct Reader {
    line: Line,
    n_texts: usize,
    /// Variables that the line sets.
    assigned: HashSet<String>,
    /// The directory that `cd` led to, as written; none where that is not known.
    directory: Directory,
    /// Texts that stand for words from elsewhere within a command of `find` or `xargs`.
    placeholders: Vec<String>,
    /// Text that stands outside of a `find` could bring it a command.
    holds_commands: bool,
    /// The command that is read gets more words from its standard input.
    is_appended_to: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Directory {
    #[default]
    Start,
    At(String),
    Unknown,
}

impl Reader {
    fn text(&mut self, text: &str) {
        self.n_texts += 1;
        let text = &normalised(text);
        let tree = if self.n_texts > MAX_TEXTS { None } else { parse(text) };
        let Some(tree) = tree else {
            self.push_pattern(text.trim());
            self.line.is_plain = false;
            return;
        };
        let root = tree.root_node();
        if root.has_error() || joins_words(text) || loses_backslash(text) {
            self.line.is_plain = false;
        }
        self.survey(text, root);
        self.visit(text, root, 0);
    }

    /// Finds the variables that a text sets, and text that arithmetic may run.
    fn survey(&mut self, text: &str, root: Node<'_>) {
        let (mut has_arithmetic, mut has_code) = (false, false);
        each_below(root, |node| {
            let of = || text.get(node.byte_range()).unwrap_or_default();
            match node.kind() {
                "variable_assignment" | "for_statement" | "select_statement" => {
                    let name = node.child_by_field_name("name").or(node.child_by_field_name("variable"));
                    let name = name.and_then(|it| text.get(it.byte_range())).unwrap_or_default();
                    let name = name.split('[').next().unwrap_or_default();
                    self.line.is_plain &= !STEERING.contains(&name);
                    self.assigned.insert(name.to_owned());
                }
                "variable_name" if is_set_by_builtin(text, node) => {
                    self.assigned.insert(of().to_owned());
                }
                "arithmetic_expansion" | "test_command" | "c_style_for_statement" | "subscript" => {
                    has_arithmetic = true
                }
                "raw_string" | "ansi_c_string" => {
                    has_code |= of().contains('[') && (of().contains("$(") || of().contains('`'));
                }
                "expansion" if of().contains("@P") || has_lost_substitution(text, node) => {
                    self.line.is_plain = false
                }
                "heredoc_body" | "string" => self.line.is_plain &= !has_lost_substitution(text, node),
                "ERROR" => self.line.is_plain = false,
                // The grammar does not look into a backquoted text again.
                "command_substitution" if of().starts_with('`') && of().contains('\\') => {
                    self.line.is_plain = false
                }
                // What follows a document's name in its line are more words of the command.
                "heredoc_redirect" => {
                    let mut cursor = node.walk();
                    let mut children = node.named_children(&mut cursor);
                    let is_word = |it: Node<'_>| {
                        matches!(
                            it.kind(),
                            "word"
                                | "string"
                                | "raw_string"
                                | "concatenation"
                                | "simple_expansion"
                                | "expansion"
                        )
                    };
                    self.line.is_plain &= !children.any(is_word);
                }
                _ => {}
            }
        });
        let (mut n_texts, mut n_words) = (text.matches("-exec").count() + text.matches("-ok").count(), 0);
        each_below(root, |node| {
            let is_plain_word =
                node.kind() == "word" && node.parent().is_some_and(|it| it.kind() == "command");
            n_words += usize::from(
                is_plain_word && FIND_COMMANDS.contains(&text.get(node.byte_range()).unwrap_or_default()),
            );
        });
        n_texts = n_texts.saturating_sub(n_words);
        self.holds_commands |= n_texts > 0 || text.contains("read ") || text.contains("set --");
        has_arithmetic |=
            text.contains("((") || EVALUATING.iter().any(|name| text.contains(&format!("{name} ")));
        self.line.is_plain &= !(has_arithmetic && has_code);
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
            "declaration_command" | "unset_command" | "test_command"
                if node.parent().is_some_and(|it| it.kind() != "command") =>
            {
                let pattern = pattern_of(text, node);
                self.push_pattern(pattern);
                let first = pattern.split_whitespace().next().unwrap_or_default();
                if node.kind() != "test_command" {
                    push_new(&mut self.line.always, format!("{first} *"));
                } else {
                    push_new(&mut self.line.always, pattern.to_owned());
                }
            }
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
            !matches!(
                child.kind(),
                "variable_assignment"
                    | "file_redirect"
                    | "herestring_redirect"
                    | "heredoc_redirect"
                    | "comment"
            )
        };
        let parts: Vec<Node<'_>> = node.children(&mut cursor).filter(is_word).collect();
        // Digits that touch a redirection are its descriptor.
        let is_descriptor = |&(start, end): &(usize, usize)| {
            let word = text.get(start..end).unwrap_or_default();
            word.chars().all(|c| c.is_ascii_digit())
                && text.get(end..).is_some_and(|it| it.starts_with(['<', '>']))
        };
        let spans = spans(parts).into_iter().filter(|span| !is_descriptor(span));
        let words = spans.filter_map(|(start, end)| text.get(start..end));
        let words: Vec<Word> = words.map(Word::new).collect();
        let written = pattern_of(text, node);
        if words.is_empty() {
            return;
        }
        let feed = feed(text, node);
        self.run(&words, Some(written), &feed, 0);
    }

    /// Reads one command: notes what it is called, and goes on to the command that it runs in turn.
    fn run(&mut self, words: &[Word], written: Option<&str>, feed: &Feed, depth: usize) {
        let Some(first) = words.first() else { return };
        let joined = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        let written = written.unwrap_or(&joined);
        let Some(name) = self.name(first) else {
            self.line.is_plain = false;
            self.push_pattern(written);
            return;
        };
        if depth > MAX_NESTED || self.placeholders.iter().any(|it| name.contains(it.as_str())) {
            self.line.is_plain = false;
        }
        if matches!(name.as_str(), "cd" | "chdir" | "pushd" | "popd") {
            self.change_directory(&name, words);
            return;
        }
        self.push_pattern(written);
        let rest = joined.get(first.text.len()..).unwrap_or_default();
        let plain = format!("{name}{rest}");
        let is_spelled =
            written.strip_prefix(&plain).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        if !is_spelled {
            self.push_pattern(&plain);
        }
        for path in paths::named(&name, words) {
            self.push_path(path);
        }
        let n_before = self.line.always.len();
        let has_inner = self.inner(&name, words, feed, depth);
        if !has_inner {
            push_new(&mut self.line.always, always(&name, words));
        } else if let Some(inner) = self.line.always.get(n_before).cloned() {
            // A wrapper is never allowed alone, only with the beginning of what it runs.
            if wrappers::find(&name).is_some() {
                push_new(&mut self.line.always, format!("{name} {inner}"));
            } else {
                push_new(&mut self.line.always, written.to_owned());
            }
        }
    }

    /// The name that a command runs under; none where the shell computes it.
    fn name(&self, word: &Word) -> Option<String> {
        let base = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
        match (&word.literal, &word.base) {
            (Some(literal), _) if literal.starts_with(['/', '~']) || literal.starts_with("../") => {
                Some(base(literal))
            }
            (Some(literal), _) => Some(literal.clone()),
            // Only the directory is computed, as in `"$VENV/bin/pip"`.
            (None, Some(base)) if !word.text.contains(['`', '*', '?', '[']) && !word.text.contains("$(") => {
                let is_safe = !word.may_split || word.variables.iter().all(|it| !self.assigned.contains(it));
                (is_safe && !word.variables.is_empty()).then(|| base.clone())
            }
            (None, _) => None,
        }
    }

    /// Reads the command or text that a command runs. False where it runs nothing of the kind.
    fn inner(&mut self, name: &str, words: &[Word], feed: &Feed, depth: usize) -> bool {
        match name {
            _ if SHELLS.contains(&name) => self.shell(words, feed),
            "eval" => {
                let words =
                    if words.get(1).is_some_and(|it| it.value() == "--") { &words[1..] } else { words };
                self.joined(&words[1..]);
                true
            }
            "source" | "." => {
                let script = words[1..].iter().find(|it| it.value() != "--");
                self.line.is_plain &= script.is_none_or(|it| {
                    it.literal.as_deref().is_some_and(|it| !is_stdin(it))
                        || (!it.may_split && !it.text.starts_with(['<', '>']))
                });
                false
            }
            "trap" => {
                let words =
                    if words.get(1).is_some_and(|it| it.value() == "--") { &words[1..] } else { words };
                match words.get(1) {
                    Some(text) if words.len() > 2 && !matches!(text.value(), "-" | "-p" | "-l") => {
                        self.joined(std::slice::from_ref(text));
                        true
                    }
                    Some(_) | None => false,
                }
            }
            "alias" => {
                for word in words[1..].iter().filter(|it| it.text.contains('=')) {
                    match word.literal.as_deref().and_then(|it| it.split_once('=')) {
                        Some((_, text)) => self.text(text),
                        None => self.line.is_plain = false,
                    }
                }
                false
            }
            "hash" | "bind" | "complete" | "compgen" | "enable" | "fc" | "jobs" | "mapfile" | "readarray" => {
                let risky = ["-p", "-x", "-C", "-F", "-W", "-f", "-e", "-s"];
                self.line.is_plain &= !words[1..].iter().any(|it| {
                    it.literal.is_none() || risky.iter().any(|risky| it.value().starts_with(risky))
                });
                false
            }
            "find" => self.find(words, &FIND_COMMANDS, feed, depth),
            "fd" | "fdfind" => self.find(words, &FD_COMMANDS, feed, depth),
            "git" => {
                self.git(words);
                false
            }
            _ => match wrappers::find(name) {
                Some(wrapper) => self.wrapper(wrapper, words, feed, depth),
                None => false,
            },
        }
    }

    fn wrapper(&mut self, wrapper: &Wrapper, words: &[Word], feed: &Feed, depth: usize) -> bool {
        let mut at = 1;
        let mut n_operands = wrapper.n_operands;
        let mut has_options = true;
        while let Some(word) = words.get(at) {
            if wrapper.has_assignments && is_assignment(&word.text) && !word.may_split {
                let variable = word.text.split('=').next().unwrap_or_default();
                self.line.is_plain &= !STEERING.contains(&variable);
                at += 1;
                continue;
            }
            let Some(literal) = word.literal.as_deref() else {
                let is_operand = !word.may_split
                    || !word.variables.is_empty()
                        && word.variables.iter().all(|it| !self.assigned.contains(it));
                if n_operands > 0 && is_operand {
                    n_operands -= 1;
                    at += 1;
                    continue;
                }
                break;
            };
            let is_empty_environment = literal == "-" && wrapper.name == "env";
            if is_empty_environment || (wrapper.has_assignments && is_assignment(literal)) {
                at += 1;
            } else if literal == "--" && has_options {
                has_options = false;
                at += 1;
            } else if literal.starts_with('-') && literal.len() > 1 && has_options {
                match self.option(wrapper, words, at) {
                    Next::At(next) => at = next,
                    Next::Nothing => return false,
                    Next::Done => return true,
                }
            } else if n_operands > 0 {
                n_operands -= 1;
                // GNU's programs stop at the first operand, `flock FILE -c TEXT` and `su USER -c TEXT` go on.
                has_options = wrapper.text == Some('c');
                at += 1;
            } else {
                break;
            }
        }
        let rest = words.get(at..).unwrap_or_default();
        if rest.is_empty() {
            let takes_input = matches!(
                wrapper.name,
                "sudo" | "su" | "doas" | "unshare" | "nsenter" | "chroot" | "parallel" | "runuser"
            );
            let is_fed = self.is_appended_to || (takes_input && *feed != Feed::Nothing);
            self.line.is_plain &= !is_fed;
            return false;
        }
        let (was_appended_to, n_placeholders) = (self.is_appended_to, self.placeholders.len());
        if matches!(wrapper.name, "xargs" | "parallel") {
            self.is_appended_to = true;
            self.placeholders.push("{}".to_owned());
            let replaced = words[..at]
                .windows(2)
                .filter(|pair| pair[0].value() == "-I")
                .map(|pair| pair[1].text.clone());
            let glued =
                words[..at].iter().filter_map(|it| it.value().strip_prefix("-I")).filter(|it| !it.is_empty());
            self.placeholders.extend(replaced.chain(glued.map(str::to_owned)).collect::<Vec<_>>());
        }
        if wrapper.is_joined {
            let end = rest.iter().position(|it| it.value().starts_with(":::")).unwrap_or(rest.len());
            self.joined(&rest[..end]);
        } else {
            self.run(rest, None, feed, depth + 1);
        }
        self.is_appended_to = was_appended_to;
        self.placeholders.truncate(n_placeholders);
        true
    }

    /// Reads one option word of a wrapper.
    fn option(&mut self, wrapper: &Wrapper, words: &[Word], at: usize) -> Next {
        let literal = words[at].value().to_owned();
        if literal.starts_with("--") {
            if matches!(literal.as_str(), "--help" | "--version") {
                return Next::Nothing;
            }
            let (name, value) = match literal.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (literal.as_str(), None),
            };
            if matches!(name, "--command" | "--split-string") && wrapper.text.is_some() {
                let text = value.map(Word::new).or_else(|| words.get(at + 1).cloned());
                self.joined(text.as_slice());
                return Next::Done;
            }
            let takes_value = wrapper.long.iter().any(|it| it.strip_suffix('=') == Some(name));
            let is_flag = wrapper.long.contains(&name);
            self.line.is_plain &= takes_value || is_flag;
            return Next::At(at + 1 + usize::from(takes_value && !is_flag && value.is_none()));
        }
        let letters: Vec<char> = literal.chars().skip(1).collect();
        for (idx, letter) in letters.iter().enumerate() {
            let rest: String = letters[idx + 1..].iter().collect();
            if wrapper.harmless.contains(*letter) {
                return Next::Nothing;
            }
            if wrapper.text == Some(*letter) {
                let text = if rest.is_empty() { words.get(at + 1).cloned() } else { Some(Word::new(&rest)) };
                let more = words.get(at + 1 + usize::from(rest.is_empty())..).unwrap_or_default();
                let is_split = *letter == 'S';
                let text: Vec<Word> =
                    text.into_iter().chain(more.iter().filter(|_| is_split).cloned()).collect();
                self.joined(&text);
                return Next::Done;
            }
            if wrapper.values.contains(*letter) {
                return Next::At(at + 1 + usize::from(rest.is_empty()));
            }
            let is_number = letter.is_ascii_digit() && matches!(wrapper.name, "nice" | "ionice" | "xargs");
            self.line.is_plain &= is_number || wrapper.flags.contains(*letter);
        }
        Next::At(at + 1)
    }

    /// Reads words that the command joins to shell text.
    fn joined(&mut self, words: &[Word]) {
        let literals: Option<Vec<&str>> = words.iter().map(|word| word.literal.as_deref()).collect();
        match literals {
            Some(literals) => self.text(&literals.join(" ")),
            None => {
                self.line.is_plain = false;
                let texts: Vec<&str> = words.iter().map(|it| it.text.trim_matches('"')).collect();
                self.text(&texts.join(" "));
            }
        }
    }

    fn shell(&mut self, words: &[Word], feed: &Feed) -> bool {
        let (mut at, mut has_text, mut reads_input) = (1, false, false);
        while let Some(word) = words.get(at) {
            let Some(literal) = word.literal.as_deref() else { break };
            match literal {
                "--" | "-" => {
                    at += 1;
                    break;
                }
                "--version" | "--help" => return false,
                "--rcfile" | "--init-file" => at += 2,
                _ if literal.starts_with("--") => at += 1,
                _ if literal.starts_with(['-', '+']) && literal.len() > 1 => {
                    has_text |= literal.starts_with('-') && literal.contains('c');
                    reads_input |= literal.contains('s');
                    at += 1 + usize::from(literal.ends_with(['o', 'O']));
                }
                _ => break,
            }
        }
        let operand = words.get(at);
        if has_text {
            match operand {
                Some(text) => self.joined(std::slice::from_ref(text)),
                None => self.line.is_plain = false,
            }
            return true;
        }
        let script = operand.filter(|it| !reads_input && !is_stdin(it.value()));
        match script {
            Some(script) => {
                let is_computed = script.text.starts_with(['<', '>'])
                    || script.may_split
                        && script.literal.is_none()
                        && script.variables.iter().any(|it| self.assigned.contains(it));
                self.line.is_plain &= !is_computed;
                false
            }
            None => match feed {
                Feed::Nothing => {
                    self.line.is_plain &= !self.is_appended_to;
                    false
                }
                Feed::Text(text) => {
                    self.text(&text.clone());
                    true
                }
                Feed::Expanded(text) => {
                    self.line.is_plain = false;
                    self.text(&text.clone());
                    true
                }
                Feed::Unknown => {
                    self.line.is_plain = false;
                    true
                }
            },
        }
    }

    fn find(&mut self, words: &[Word], options: &[&str], feed: &Feed, depth: usize) -> bool {
        let is_computed = |word: &Word| {
            let is_set = |it: &String| self.assigned.contains(it) || it.is_empty();
            word.text.contains('{') && word.may_split && word.variables.is_empty()
                || word.may_split && self.holds_commands && word.variables.iter().any(is_set)
        };
        if self.is_appended_to || words[1..].iter().any(is_computed) {
            self.line.is_plain = false;
        }
        let mut has_inner = false;
        let mut at = 1;
        while let Some(word) = words.get(at) {
            at += 1;
            if !options.contains(&word.value()) {
                continue;
            }
            let end = words[at..]
                .iter()
                .position(|it| matches!(it.value(), ";" | "+"))
                .map_or(words.len(), |it| at + it);
            let n_placeholders = self.placeholders.len();
            self.placeholders.push("{}".to_owned());
            let was_appended_to = std::mem::replace(&mut self.is_appended_to, false);
            self.run(&words[at..end], None, feed, depth + 1);
            self.is_appended_to = was_appended_to;
            self.placeholders.truncate(n_placeholders);
            has_inner = true;
            at = end;
        }
        has_inner
    }

    /// Notes git's subcommand without the options before it.
    fn git(&mut self, words: &[Word]) {
        let mut at = 1;
        while let Some(option) = words.get(at).map(Word::value).filter(|it| it.starts_with('-')) {
            at += 1 + usize::from(GIT_VALUES.contains(&option));
        }
        match words.get(at) {
            Some(subcommand) if subcommand.literal.is_none() && subcommand.may_split => {
                self.line.is_plain = false
            }
            Some(subcommand) if at > 1 || subcommand.literal.as_deref() != Some(&subcommand.text) => {
                let rest: Vec<&str> = words[at + 1..].iter().map(|it| it.text.as_str()).collect();
                let name = subcommand.literal.as_deref().unwrap_or(&subcommand.text);
                self.push_pattern(format!("git {name} {}", rest.join(" ")).trim_end());
            }
            Some(_) | None => {}
        }
    }

    fn change_directory(&mut self, name: &str, words: &[Word]) {
        let operand = words[1..].iter().find(|it| !it.value().starts_with('-') || it.value() == "-");
        self.directory = match operand {
            _ if name == "popd" => Directory::Unknown,
            None => Directory::At("~".to_owned()),
            Some(word) => match paths::text(&word.text) {
                Some(path) => {
                    let path = self.resolved(path);
                    self.line.paths.extend(path.clone().filter(|path| !self.line.paths.contains(path)));
                    path.map_or(Directory::Unknown, Directory::At)
                }
                None => Directory::Unknown,
            },
        };
    }

    fn redirect(&mut self, text: &str, node: Node<'_>) {
        let mut cursor = node.walk();
        let is_descriptor =
            node.children(&mut cursor).any(|it| matches!(it.kind(), ">&" | "<&" | ">&-" | "<&-"));
        let destination = node.child_by_field_name("destination");
        let Some(destination) = destination.and_then(|it| text.get(it.byte_range())) else { return };
        if !is_descriptor || !destination.chars().all(|c| c.is_ascii_digit() || c == '-') {
            self.push_path(destination.to_owned());
        }
    }

    /// A path behind the `cd`s before it; none where those are not known.
    fn resolved(&self, path: String) -> Option<String> {
        if path.starts_with(['/', '~']) {
            return Some(path);
        }
        match &self.directory {
            Directory::Start => Some(path),
            Directory::At(directory) => Some(format!("{}/{path}", directory.trim_end_matches('/'))),
            Directory::Unknown => None,
        }
    }

    fn push_path(&mut self, written: String) {
        if let Some(path) = paths::text(&written).and_then(|path| self.resolved(path)) {
            push_new(&mut self.line.paths, path);
        }
    }

    fn push_pattern(&mut self, pattern: &str) {
        if !pattern.is_empty() {
            push_new(&mut self.line.patterns, pattern.to_owned());
        }
    }
}

/// The place where the reading of a wrapper's options goes on.
enum Next {
    At(usize),
    /// It runs nothing.
    Nothing,
    /// What it runs was read.
    Done,
}

/// The text of a command with its redirections.
fn pattern_of<'a>(text: &'a str, node: Node<'_>) -> &'a str {
    let whole = node.parent().filter(|it| it.kind() == "redirected_statement");
    text.get(whole.unwrap_or(node).byte_range()).unwrap_or_default()
}

/// The beginning of a command that `always` remembers.
fn always(name: &str, words: &[Word]) -> String {
    let n_words = arity::arity(name, words.get(1).map(Word::value));
    let rest = words.iter().skip(1).take(n_words.saturating_sub(1)).map(|word| word.text.as_str());
    let prefix: Vec<&str> = std::iter::once(name).chain(rest).collect();
    format!("{} *", prefix.join(" "))
}

fn is_set_by_builtin(text: &str, node: Node<'_>) -> bool {
    let declared = node.parent().filter(|it| it.kind() == "declaration_command");
    declared.is_some_and(|it| text.get(it.byte_range()).is_some())
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn is_stdin(path: &str) -> bool {
    matches!(path, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

fn push_new(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}

#[cfg(test)]
mod tests;
