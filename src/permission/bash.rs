//! Reads a shell command: which commands it runs, which paths they touch, which prefix `always` means.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

mod arity;
mod program;
mod word;
mod wrapper;

use word::{Word, base_name};
use wrapper::Inner;

/// Longer commands are one pattern.
const MAX_BYTES: usize = 64 * 1024;
/// How often the parser may report progress before it is stopped: far beyond any readable command.
const MAX_PROGRESS_REPORTS: usize = 10_000;
/// Syntax nested deeper is searched for commands without following the directory they run in.
const MAX_DEPTH: usize = 200;
/// Shell texts in a line (`bash -c "bash -c …"`).
const MAX_TEXTS: usize = 64;
/// Directories a command may run in, as `cd` and its failure leave it open.
const MAX_DIRECTORIES: usize = 8;

/// Commands that only move the shell: a path, but nothing to run.
const MOVES: [&str; 4] = ["cd", "chdir", "pushd", "popd"];

/// Commands whose arguments are files.
const FILE_COMMANDS: [&str; 20] = [
    "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat", "chgrp", "dd", "head", "install", "ln",
    "rmdir", "shred", "tail", "tee", "truncate", "unlink", "rsync",
];

/// Programs that run shell text.
const SHELLS: [&str; 8] = ["bash", "sh", "zsh", "dash", "ksh", "ash", "mksh", "fish"];

/// Words that begin or end something else than a command.
const RESERVED: [&str; 18] = [
    "!", "{", "}", "(", ")", "[[", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done",
    "case", "function",
];

/// Variables whose value decides which programs later commands are, or how words are split.
const STEERING: [&str; 24] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "ZDOTDIR",
    "SHELLOPTS",
    "BASHOPTS",
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
];

/// Variables whose value is a command that some program runs.
const COMMANDS: [&str; 15] = [
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
];

/// What a command line does, as far as its text tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Every command as written, its redirections included; and as the name it runs, where quotes, a path, variables
    /// or another command before it hide that.
    pub patterns: Vec<String>,
    /// What to allow from now on when the user says so.
    pub always: Vec<String>,
    pub paths: Vec<PathArgument>,
    /// Something runs that the text does not tell: it counts as any command.
    pub is_unknowable: bool,
}

/// A path as written, without quotes; relative to the working directory, or beginning with `~`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathArgument {
    pub text: String,
}

/// Why a command is not even looked at: characters that show something other than what runs.
pub fn refusal(command: &str) -> Option<String> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    // They reorder what is shown; no command needs them.
    let is_bidirectional = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_blank_alike = |c: char| {
        (c.is_whitespace() && !c.is_ascii())
            || matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
    };
    if let Some(found) = command.chars().find(|&c| is_control(c) || is_bidirectional(c)) {
        return Some(format!(
            "The command contains the character {}, which hides what runs; write it without.",
            found.escape_unicode()
        ));
    }
    let tree = command.contains(is_blank_alike).then(|| parse(command))?;
    let is_text = |at: usize| {
        let root = tree.as_ref()?.root_node();
        let mut node = root.descendant_for_byte_range(at, at + 1);
        while let Some(it) = node {
            if matches!(it.kind(), "raw_string" | "string" | "ansi_c_string" | "heredoc_body" | "comment") {
                return Some(());
            }
            node = it.parent();
        }
        None
    };
    let found = command.char_indices().find(|&(at, c)| is_blank_alike(c) && is_text(at).is_none());
    found.map(|(_, c)| {
        format!(
            "The command contains the character {} outside of quotes, which looks like a space and is none; \
             write a plain space.",
            c.escape_unicode()
        )
    })
}

/// Takes a command line apart.
///
/// What cannot be understood (broken syntax, a command whose name is computed) makes it unknowable, adds the whole
/// text as a pattern and offers nothing to allow for ever; the commands that were recognised stay in the list, so
/// that a rule that forbids one of them still meets it.
pub fn analyse(command: &str) -> Analysis {
    let whole = command.trim();
    let mut walk =
        Walk { acc: Analysis::default(), moves: false, defined: HashSet::new(), n_texts: 0, n_nested: 0 };
    walk.text(whole, &vec![String::new()]);
    let mut analysis = walk.acc;
    if analysis.is_unknowable {
        analysis.always.clear();
        analysis.patterns.retain(|pattern| pattern != whole);
        analysis.patterns.insert(0, whole.to_owned());
    } else if analysis.patterns.is_empty() && !walk.moves && has_statement(whole) {
        analysis.patterns.push(whole.to_owned());
    }
    analysis
}

fn has_statement(text: &str) -> bool {
    let Some(tree) = parse(text) else { return true };
    let root = tree.root_node();
    let mut cursor = root.walk();
    root.named_children(&mut cursor).any(|child| child.kind() != "comment")
}

fn parse(text: &str) -> Option<Tree> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut n_reports = 0;
    let mut progress = |_: &tree_sitter::ParseState| {
        n_reports += 1;
        if n_reports > MAX_PROGRESS_REPORTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = text.as_bytes();
    parser.parse_with_options(&mut |offset, _| bytes.get(offset..).unwrap_or_default(), None, Some(options))
}

/// The text with its lines joined where a backslash ends them.
fn join_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'\n') => {
                chars.next();
            }
            '\\' => {
                joined.push(c);
                joined.extend(chars.next());
            }
            c => joined.push(c),
        }
    }
    joined
}

/// Directories that a command may run in, as written; the empty one is where the line begins.
type Directories = Vec<String>;

/// Where the shell may be behind a command.
struct Flow {
    /// When it succeeded.
    success: Directories,
    /// However it ended.
    any: Directories,
}

impl Flow {
    fn stay(directories: &Directories) -> Self {
        Self { success: directories.clone(), any: directories.clone() }
    }
}

/// One text being read.
struct Source<'a> {
    text: &'a str,
    /// By command: its redirections that stand outside its node.
    redirects: HashMap<usize, Vec<Node<'a>>>,
}

impl<'a> Source<'a> {
    fn of(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }
}

struct Walk {
    acc: Analysis,
    moves: bool,
    /// Aliases and functions that the line defines.
    defined: HashSet<String>,
    n_texts: usize,
    /// Commands around the one that is being noted.
    n_nested: usize,
}

impl Walk {
    /// Reads shell text that runs in one of the directories.
    fn text(&mut self, text: &str, directories: &Directories) {
        self.n_texts += 1;
        if self.n_texts > MAX_TEXTS {
            self.unknowable(text);
            return;
        }
        if text.contains("\\\n") {
            // The grammar takes a continued line for a space even within a word. Where the shell would not join the
            // lines (a comment, quoted text) the reading as it stands is the right one, so both count.
            self.tree(&join_lines(text), directories);
        }
        self.tree(text, directories);
    }

    fn tree(&mut self, text: &str, directories: &Directories) {
        let Some(tree) = parse(text) else {
            self.unknowable(text);
            return;
        };
        let mut source = Source { text, redirects: HashMap::new() };
        if tree.root_node().has_error() {
            self.unknowable(text);
        }
        self.definitions(&source, tree.root_node());
        self.visit(&mut source, tree.root_node(), directories, 0);
    }

    fn unknowable(&mut self, text: &str) {
        self.acc.is_unknowable = true;
        push_new(&mut self.acc.patterns, text.trim().to_owned());
    }

    /// Collects what the text defines: it may be used before it is defined, in a loop.
    fn definitions(&mut self, source: &Source<'_>, root: Node<'_>) {
        each_below(root, |node| match node.kind() {
            "function_definition" => {
                if let Some(name) = node.child_by_field_name("name") {
                    self.defined.insert(source.of(name).to_owned());
                }
            }
            "command" if name_of(source, node).as_deref() == Some("alias") => {
                let mut cursor = node.walk();
                for argument in node.children_by_field_name("argument", &mut cursor) {
                    let text = source.of(argument);
                    let name = text.split('=').next().unwrap_or_default();
                    self.defined.insert(word::literal(name).unwrap_or_else(|| name.to_owned()));
                    self.acc.is_unknowable |= text.starts_with(['$', '`', '"', '\'']);
                }
            }
            _other => {}
        });
    }

    fn visit<'t>(&mut self, source: &mut Source<'t>, node: Node<'t>, at: &Directories, depth: usize) -> Flow {
        if depth > MAX_DEPTH {
            self.acc.is_unknowable = true;
            each_below(node, |below| match below.kind() {
                "command" => drop(self.command(source, below, at)),
                "file_redirect" => self.file_redirect(source, below, at),
                _other => {}
            });
            return Flow::stay(at);
        }
        match node.kind() {
            "command" => {
                let flow = self.command(source, node, at);
                self.children(source, node, at, depth);
                flow
            }
            "list" => self.list(source, node, at, depth),
            "redirected_statement" => self.redirected_statement(source, node, at, depth),
            "file_redirect" => {
                self.file_redirect(source, node, at);
                self.children(source, node, at, depth);
                Flow::stay(at)
            }
            // What runs in a process of its own moves only that.
            "subshell" | "command_substitution" | "process_substitution" => {
                self.children(source, node, at, depth);
                Flow::stay(at)
            }
            "pipeline" => {
                let mut any = at.clone();
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    // zsh runs the last one itself.
                    merge(&mut any, self.visit(source, child, at, depth + 1).any);
                }
                Flow { success: any.clone(), any }
            }
            "variable_assignment" => {
                self.assignment(source, node);
                self.children(source, node, at, depth)
            }
            "for_statement" | "select_statement" => {
                let variable = node.child_by_field_name("variable").map(|name| source.of(name));
                self.acc.is_unknowable |= variable.is_some_and(is_steering);
                self.children(source, node, at, depth)
            }
            "declaration_command" | "unset_command" => {
                // Subscripts are evaluated, and substitutions in them run, quoted or not.
                let mut cursor = node.walk();
                let runs = |it: String| it.contains("$(") || it.contains('`');
                let is_text = |child: &Node<'_>| child.kind() != "variable_assignment";
                self.acc.is_unknowable |= node
                    .named_children(&mut cursor)
                    .filter(is_text)
                    .any(|child| word::literal(source.of(child)).is_some_and(runs));
                self.children(source, node, at, depth)
            }
            // `${x@P}` runs the substitutions in the value.
            "expansion" if source.of(node).contains("@P") => {
                self.acc.is_unknowable = true;
                self.children(source, node, at, depth)
            }
            _other => self.children(source, node, at, depth),
        }
    }

    /// One after another: each may run wherever those before it have left the shell.
    fn children<'t>(
        &mut self,
        source: &mut Source<'t>,
        node: Node<'t>,
        at: &Directories,
        depth: usize,
    ) -> Flow {
        let mut here = at.clone();
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            here = self.visit(source, child, &here, depth + 1).any;
        }
        Flow { success: here.clone(), any: here }
    }

    fn list<'t>(&mut self, source: &mut Source<'t>, node: Node<'t>, at: &Directories, depth: usize) -> Flow {
        let mut cursor = node.walk();
        let parts: Vec<Node<'t>> = node.children(&mut cursor).collect();
        let mut flow = Flow::stay(at);
        let mut operator = "";
        for part in parts {
            if !part.is_named() {
                operator = source.of(part);
                continue;
            }
            let from = match operator {
                "" | "&&" => &flow.success,
                _other => &flow.any,
            };
            let next = self.visit(source, part, from, depth + 1);
            let is_or = operator == "||";
            merge(&mut flow.any, next.any);
            match is_or {
                true => merge(&mut flow.success, next.success),
                false => flow.success = next.success,
            }
        }
        flow
    }

    /// Gives the redirections to the command they belong to: the last one of a pipe or list.
    fn redirected_statement<'t>(
        &mut self,
        source: &mut Source<'t>,
        node: Node<'t>,
        at: &Directories,
        depth: usize,
    ) -> Flow {
        let mut cursor = node.walk();
        let redirects: Vec<Node<'t>> = node.children_by_field_name("redirect", &mut cursor).collect();
        let body = node.child_by_field_name("body");
        let mut owner = body;
        while let Some(list) = owner.filter(|body| matches!(body.kind(), "pipeline" | "list")) {
            owner = last_named_child(list);
        }
        match owner.filter(|body| body.kind() == "command") {
            Some(command) => drop(source.redirects.insert(command.id(), redirects.clone())),
            None => {
                // A block or nothing at all is redirected: no command would tell that a file is written.
                let is_file = |redirect: &&Node<'_>| {
                    redirect.kind() == "file_redirect" && !is_harmless(source.of(**redirect))
                };
                if let Some(first) = redirects.iter().find(is_file) {
                    let text = source.text.get(first.start_byte()..node.end_byte()).unwrap_or_default();
                    push_new(&mut self.acc.patterns, text.trim().to_owned());
                }
            }
        }
        let flow = match body {
            Some(body) => self.visit(source, body, at, depth + 1),
            None => Flow::stay(at),
        };
        let is_list = body.is_some_and(|body| body.kind() == "list");
        for redirect in redirects {
            self.visit(source, redirect, if is_list { &flow.any } else { at }, depth + 1);
        }
        flow
    }

    fn file_redirect(&mut self, source: &Source<'_>, node: Node<'_>, at: &Directories) {
        if is_harmless(source.of(node)) {
            return;
        }
        let mut cursor = node.walk();
        let destinations: Vec<&str> = node
            .children_by_field_name("destination", &mut cursor)
            .filter(|destination| destination.kind() != "process_substitution")
            .map(|destination| source.of(destination))
            .collect();
        // The grammar counts the arguments behind a redirection to it.
        if let Some(destination) = destinations.first() {
            self.path(destination, at);
        }
    }

    fn assignment(&mut self, source: &Source<'_>, node: Node<'_>) {
        let text = source.of(node);
        let Some((name, value)) = text.split_once('=') else { return };
        self.assign(name, word::literal(value).as_deref());
        // `x='$(rm y)'; echo $((x))` runs what is quoted.
        if value.starts_with(['\'', '$']) && value.contains('\'') && value.contains(['`', '$']) {
            self.acc.is_unknowable |=
                word::literal(value).is_none_or(|it| it.contains("$(") || it.contains('`'));
        }
    }

    fn assign(&mut self, name: &str, value: Option<&str>) {
        let name = name.split(['+', '[']).next().unwrap_or_default();
        if is_steering(name) {
            self.acc.is_unknowable = true;
        } else if COMMANDS.contains(&name) {
            match value {
                Some("") => {}
                Some(text) => self.text(text, &vec![String::new()]),
                None => self.acc.is_unknowable = true,
            }
        }
    }

    fn command<'t>(&mut self, source: &mut Source<'t>, node: Node<'t>, at: &Directories) -> Flow {
        let outer = source.redirects.get(&node.id()).cloned().unwrap_or_default();
        let end = outer.iter().map(Node::end_byte).fold(node.end_byte(), usize::max);
        let written = source.text.get(node.start_byte()..end).unwrap_or_default().trim();
        let Some(name) = node.child_by_field_name("name") else {
            self.unknowable(written);
            return Flow::stay(at);
        };
        let mut cursor = node.walk();
        let mut nodes: Vec<Node<'t>> = node.children_by_field_name("argument", &mut cursor).collect();
        let mut redirects: Vec<Node<'t>> = node.children_by_field_name("redirect", &mut cursor).collect();
        redirects.extend(outer);
        for redirect in redirects.iter().filter(|it| it.kind() == "file_redirect") {
            nodes.extend(redirect.children_by_field_name("destination", &mut cursor).skip(1));
        }
        nodes.sort_by_key(Node::start_byte);
        nodes.insert(0, name);
        let words: Vec<Word> = nodes.iter().map(|node| Word::new(source.of(*node))).collect();
        let own_name = base_name(words[0].value()).to_owned();
        if MOVES.contains(&own_name.as_str())
            && words[0].literal.is_some()
            && !self.defined.contains(&own_name)
        {
            let is_redirected = end != node.end_byte() || !redirects.is_empty();
            if is_redirected {
                push_new(&mut self.acc.patterns, written.to_owned());
                push_new(&mut self.acc.always, format!("{own_name} *"));
            }
            self.moves |= !is_redirected;
            return self.moved(&words, at);
        }
        // The prefix as written, up to the word with this index.
        let until = |idx: usize| {
            let end = nodes.get(idx).map_or(node.end_byte(), Node::end_byte);
            source.text.get(node.start_byte()..end).unwrap_or_default().trim()
        };
        let fed =
            Fed { texts: redirects.iter().filter_map(|redirect| fed_text(source, *redirect)).collect() };
        let prefixes = self.words(&words, Some(written), at, &fed);
        for prefix in prefixes {
            self.always(until(prefix));
        }
        Flow::stay(at)
    }

    /// Notes a command of these words; `written` is its text when it stands in the line by itself.
    ///
    /// Returns the index of the last word of each prefix that `always` may take.
    fn words(&mut self, words: &[Word], written: Option<&str>, at: &Directories, fed: &Fed) -> Vec<usize> {
        let joined = |words: &[Word]| {
            let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
            texts.join(" ")
        };
        let Some(first) = words.first() else { return Vec::new() };
        let written = written.map_or_else(|| joined(words), str::to_owned);
        push_new(&mut self.acc.patterns, written.clone());
        let Some(full_name) = first.literal.as_deref().filter(|name| !name.is_empty()) else {
            self.acc.is_unknowable = true;
            return Vec::new();
        };
        // `time { …`: the grammar took a construct for words.
        if RESERVED.contains(&first.text.as_str()) {
            self.acc.is_unknowable = true;
            return Vec::new();
        }
        let name = if has_own_place(full_name, self.moves) { full_name } else { base_name(full_name) };
        let plain_name = base_name(full_name);
        self.acc.is_unknowable |= self.defined.contains(name) || self.defined.contains(plain_name);
        let named = |words: &[Word]| {
            let rest: Vec<&str> = words[1..].iter().map(Word::plain).collect();
            let name = if name.contains(char::is_whitespace) { first.text.as_str() } else { name };
            std::iter::once(name).chain(rest).collect::<Vec<_>>().join(" ")
        };
        let normal = named(words);
        let is_normal = written.strip_prefix(&normal).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '&'))
        });
        if !is_normal {
            push_new(&mut self.acc.patterns, normal.clone());
        }
        self.effects(plain_name, words, at);

        if self.n_nested > wrapper::MAX_NESTED {
            self.acc.is_unknowable = true;
            return Vec::new();
        }
        self.n_nested += 1;
        // Prefixes by the index of their last word; the inner command's decide.
        let mut prefixes = Vec::new();
        match wrapper::inner(plain_name, words) {
            Inner::None => {
                if wrapper::is_wrapper(plain_name) && arity::arity(plain_name, None) == 1 {
                    self.exactly(&written, &normal, is_normal);
                } else {
                    let arity = arity::arity(plain_name, words.get(1).map(Word::value));
                    prefixes.push(arity.min(words.len()) - 1);
                }
            }
            Inner::Unknowable => self.acc.is_unknowable = true,
            Inner::Words(ranges) if plain_name == "git" => {
                for (from, to) in ranges {
                    let is_git = words[from - 1].value() != "run";
                    let mut inner = if is_git { vec![Word::new("git")] } else { Vec::new() };
                    inner.extend_from_slice(&words[from..to]);
                    let skipped = usize::from(is_git);
                    for prefix in self.words(&inner, None, at, &Fed::default()) {
                        prefixes.push((prefix + from).saturating_sub(skipped));
                    }
                }
            }
            Inner::Words(ranges) => {
                for (from, to) in ranges {
                    let inner = self.words(&words[from..to], None, at, fed);
                    prefixes.extend(inner.into_iter().map(|prefix| from + prefix));
                }
                if prefixes.is_empty() {
                    self.exactly(&written, &normal, is_normal);
                }
            }
            Inner::Texts(texts) => {
                for text in texts {
                    self.text(&text, at);
                }
                self.exactly(&written, &normal, is_normal);
            }
            Inner::Elsewhere(text) => {
                // Its paths are those of the other machine.
                let paths = self.acc.paths.clone();
                self.text(&text, at);
                self.acc.paths = paths;
                self.exactly(&written, &normal, is_normal);
            }
            Inner::Stdin => {
                match fed.texts.as_slice() {
                    [] => self.acc.is_unknowable = true,
                    texts => {
                        for text in texts {
                            match text {
                                Some(text) => self.text(text, at),
                                None => self.acc.is_unknowable = true,
                            }
                        }
                    }
                }
                self.exactly(&written, &normal, is_normal);
            }
        }
        self.n_nested -= 1;
        for &prefix in &prefixes {
            let prefix = &words[..=prefix];
            if !is_normal {
                self.always(&named(prefix));
            }
            self.always(&joined(prefix));
        }
        prefixes
    }

    /// What a command does to files and variables.
    fn effects(&mut self, name: &str, words: &[Word], at: &Directories) {
        let arguments = &words[1..];
        if FILE_COMMANDS.contains(&name) {
            let mut is_operand = false;
            for argument in arguments {
                match argument.text.as_str() {
                    "--" => is_operand = true,
                    text if text.starts_with('(') => {}
                    text if !is_operand && text.starts_with('-') => {
                        // `--target-directory=/x`, `-t/x`.
                        let value = text.split_once('=').map(|it| it.1).or(text.get(2..));
                        if let Some(value) = value.filter(|it| it.starts_with(['/', '~', '.'])) {
                            self.path(value, at);
                        }
                    }
                    text if name == "dd" => {
                        let value = text.strip_prefix("of=").or(text.strip_prefix("if="));
                        value.into_iter().for_each(|value| self.path(value, at));
                    }
                    text => self.path(text, at),
                }
            }
        }
        for path in program::path_options(name, words) {
            self.path(&path, at);
        }
        if matches!(name, "sed" | "gsed")
            && let Some(script) = program::sed_script(words)
        {
            script.paths.iter().for_each(|path| self.path(path, at));
        }
        match name {
            "git" => {
                let place = arguments.iter().zip(arguments.iter().skip(1));
                for (option, value) in place.take_while(|(option, _)| option.value() != "--") {
                    if matches!(option.value(), "-C" | "--git-dir" | "--work-tree") {
                        self.path(&value.text, at);
                    }
                }
            }
            "read" | "printf" | "getopts" => {
                self.acc.is_unknowable |= arguments.iter().any(|word| is_steering(word.value()));
            }
            _other => {
                for argument in arguments {
                    if let Some((variable, _)) =
                        argument.text.split_once('=').filter(|_| name == "env" || name == "sudo")
                    {
                        let value =
                            argument.literal.as_deref().and_then(|it| it.split_once('=')).map(|it| it.1);
                        self.assign(variable, value);
                    }
                }
            }
        }
    }

    fn moved(&mut self, words: &[Word], at: &Directories) -> Flow {
        let mut target = None;
        let mut n_targets = 0;
        for argument in words[1..].iter().filter(|it| !it.text.starts_with('(')) {
            if argument.text.starts_with('-') && argument.text != "-" {
                continue;
            }
            n_targets += 1;
            if argument.text != "-" {
                self.path(&argument.text, at);
            }
            target = path_of(&argument.text).filter(|target| target != "-");
        }
        let target = match (n_targets, words[0].value()) {
            (0, "cd" | "chdir") => Some("~".to_owned()),
            _ => target,
        };
        let success: Directories = match target {
            Some(target) => at.iter().map(|base| below(base, &target)).collect(),
            None => at.clone(),
        };
        let mut any = at.clone();
        merge(&mut any, success.clone());
        Flow { success, any }
    }

    fn path(&mut self, written: &str, at: &Directories) {
        let Some(text) = path_of(written) else { return };
        let text = match text.find(['?', '*', '[']) {
            // Behind a `..` the rest matters more than what the glob may match.
            Some(glob) if !text[glob..].contains("..") => &text[..glob],
            Some(_) | None => &text,
        };
        let mut texts = vec![text];
        if text.contains('{') {
            // Alternatives of a brace expansion that begin a path of their own.
            texts.extend(
                text.split(['{', ',', '}']).skip(1).filter(|piece| piece.starts_with(['/', '~', '.'])),
            );
        }
        for text in texts.into_iter().filter(|text| !text.is_empty()) {
            for base in at {
                let path = PathArgument { text: below(base, text) };
                if !self.acc.paths.contains(&path) {
                    self.acc.paths.push(path);
                }
            }
        }
    }

    /// Offers a prefix with any arguments.
    fn always(&mut self, prefix: &str) {
        // A star in the prefix would allow more than was seen.
        if !prefix.contains(['*', '?', '\n']) {
            push_new(&mut self.acc.always, format!("{prefix} *"));
        }
    }

    /// Offers a text and nothing else: with any arguments it could run anything.
    fn exactly(&mut self, written: &str, normal: &str, is_normal: bool) {
        for text in [written, normal].into_iter().take(if is_normal { 1 } else { 2 }) {
            if !text.contains(['*', '?']) {
                push_new(&mut self.acc.always, text.to_owned());
            }
        }
    }
}

/// What a command gets on its standard input by the text of the line.
#[derive(Default)]
struct Fed {
    /// `None` for one that is computed.
    texts: Vec<Option<String>>,
}

/// The here-document or here-string of a redirection; nothing for one of a file.
fn fed_text(source: &Source<'_>, redirect: Node<'_>) -> Option<Option<String>> {
    let mut cursor = redirect.walk();
    match redirect.kind() {
        "herestring_redirect" => {
            let value = redirect.named_children(&mut cursor).last()?;
            Some(word::literal(source.of(value)))
        }
        "heredoc_redirect" => {
            let mut start = "";
            let mut body = "";
            for child in redirect.named_children(&mut cursor) {
                match child.kind() {
                    "heredoc_start" => start = source.of(child),
                    "heredoc_body" => body = source.of(child),
                    _other => {}
                }
            }
            let is_quoted = start.contains(['\'', '"', '\\']);
            Some((is_quoted || !body.contains(['$', '`', '\\'])).then(|| body.to_owned()))
        }
        "file_redirect"
            if source.of(redirect).trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('<') =>
        {
            Some(None)
        }
        _other => None,
    }
}

/// Whether a name with a path is a program of its own: below the working directory, where only the project can be.
fn has_own_place(name: &str, has_moved: bool) -> bool {
    !has_moved
        && name.contains('/')
        && !name.starts_with(['/', '~'])
        && !name.split('/').any(|part| part == "..")
}

fn name_of(source: &Source<'_>, command: Node<'_>) -> Option<String> {
    let name = word::literal(source.of(command.child_by_field_name("name")?))?;
    Some(base_name(&name).to_owned())
}

fn is_steering(name: &str) -> bool {
    let is_configuration = |prefix: &str| name.starts_with(prefix) && name.len() > prefix.len();
    STEERING.contains(&name) || is_configuration("GIT_CONFIG_KEY_") || is_configuration("BASH_FUNC_")
}

/// Another descriptor, or a device that keeps nothing.
fn is_harmless(redirect: &str) -> bool {
    let text = redirect.trim_start_matches(|c: char| c.is_ascii_digit());
    let operator_len = text.find(|c: char| !matches!(c, '<' | '>' | '&' | '|')).unwrap_or(text.len());
    let (operator, target) = text.split_at(operator_len);
    let target = target.trim();
    let is_descriptor = matches!(operator, ">&" | "<&")
        && target.trim_end_matches('-').chars().all(|digit| digit.is_ascii_digit());
    is_descriptor
        || operator.ends_with("&-")
        || matches!(target, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/tty")
}

/// A written path without quotes; `None` when it has expansions other than the home and working directories.
fn path_of(written: &str) -> Option<String> {
    let unquoted = written.strip_prefix('"').unwrap_or(written);
    for (variable, place) in [("$HOME", "~"), ("${HOME}", "~"), ("$PWD", "."), ("${PWD}", ".")] {
        let Some(rest) = unquoted.strip_prefix(variable) else { continue };
        if rest.is_empty() || rest.starts_with(['/', '"']) {
            let rest = word::path_text(&rest.replacen('"', "", 1))?;
            return Some(format!("{place}{rest}"));
        }
    }
    let text = word::path_text(written)?;
    // A quoted tilde is a file of that name.
    Some(if text.starts_with('~') && !written.starts_with('~') { format!("./{text}") } else { text })
}

fn below(base: &str, path: &str) -> String {
    match base.is_empty() || path.starts_with(['/', '~']) {
        true => path.to_owned(),
        false => format!("{}/{path}", base.trim_end_matches('/')),
    }
}

fn merge(into: &mut Directories, more: Directories) {
    for directory in more {
        if !into.contains(&directory) && into.len() < MAX_DIRECTORIES {
            into.push(directory);
        }
    }
}

fn last_named_child(node: Node<'_>) -> Option<Node<'_>> {
    let count = node.named_child_count();
    u32::try_from(count.checked_sub(1)?).ok().and_then(|idx| node.named_child(idx))
}

/// Calls `look` for a node and everything below it.
fn each_below<'t>(root: Node<'t>, mut look: impl FnMut(Node<'t>)) {
    let mut cursor = root.walk();
    loop {
        look(cursor.node());
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

fn push_new(list: &mut Vec<String>, text: String) {
    if !text.is_empty() && !list.contains(&text) {
        list.push(text);
    }
}

#[cfg(test)]
mod tests;
