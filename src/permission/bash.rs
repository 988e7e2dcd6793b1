//! Reads a shell command: which commands it runs, which paths they touch, which prefix `always` means.

use std::collections::{HashMap, HashSet};

use tree_sitter::Node;

mod arithmetic;
mod arity;
mod command;
mod effects;
mod files;
mod git;
mod input;
mod marks;
mod options;
mod outputs;
mod program;
mod scan;
mod scripts;
mod sed;
mod tree;
mod values;
mod variables;
mod word;
mod wrapper;

pub use outputs::{Destination, is_gits};

use scan::{Found, HereDocument};
use tree::{each_below, has_statement, last_named_child, parse, spans};
use word::{Word, base_name};

/// Syntax nested deeper is searched for commands without following the directory they run in.
const MAX_DEPTH: usize = 200;
/// Shell texts in a line (`bash -c "bash -c …"`).
const MAX_TEXTS: usize = 64;
/// Expansions in here-documents that may run something.
const MAX_EXPANSIONS: usize = 256;
/// Directories a command may run in, as `cd` and its failure leave it open.
const MAX_DIRECTORIES: usize = 8;

/// Programs that run shell text.
const SHELLS: [&str; 21] = [
    "bash", "sh", "zsh", "dash", "ksh", "ash", "mksh", "fish", "rbash", "csh", "tcsh", "yash", "oksh",
    "posh", "osh", "sash", "rc", "es", "hush", "lksh", "scsh",
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
    /// Paths with `*`, `?` or `[`, which may match links; `/**` at the end stands for all links below.
    pub globs: Vec<String>,
    /// What is written, as far as it is known.
    pub writes: Vec<Destination>,
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
    let mut walk = Walk::default();
    walk.text(whole, &vec![String::new()]);
    walk.acc.is_unknowable |=
        walk.values.evaluates_input() || walk.values.is_cut() || walk.scripts.runs_what_it_writes();
    walk.follow_links();
    let mut analysis = walk.acc;
    if analysis.is_unknowable {
        analysis.count_as_any(whole);
    } else if analysis.patterns.is_empty() && !walk.moves && has_statement(whole) {
        analysis.patterns.push(whole.to_owned());
    }
    analysis
}

impl Analysis {
    /// The line counts as any command.
    pub fn count_as_any(&mut self, command: &str) {
        let whole = command.trim();
        self.is_unknowable = true;
        self.always.clear();
        self.patterns.retain(|pattern| pattern != whole);
        self.patterns.insert(0, whole.to_owned());
    }
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
    documents: Vec<HereDocument>,
}

impl<'a> Source<'a> {
    fn of(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }
}

#[derive(Default)]
struct Walk {
    acc: Analysis,
    moves: bool,
    /// Arrays whose subscripts are texts.
    associative: HashSet<String>,
    /// Aliases and functions that the line defines.
    defined: HashSet<String>,
    values: values::Values,
    scripts: scripts::Scripts,
    /// What comes down the pipe to what is being read.
    piped: Option<input::Piped>,
    /// What stands for `{}` within a command that `find` or `xargs` runs.
    found: Vec<String>,
    /// Links that the line makes: their names, and where they lead.
    links: Vec<(String, String)>,
    n_texts: usize,
    n_expansions: usize,
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
        let found = scan::scan(text);
        if !found.leading_backslashes.is_empty() {
            self.tree(&found.plain(text, false), directories);
            return;
        }
        let Some(tree) = parse(text) else {
            self.unknowable(text);
            return;
        };
        let mut source = Source { text, redirects: HashMap::new(), documents: found.documents.clone() };
        if has_lost_quotes(&found, tree.root_node()) || has_lost_documents(&source, tree.root_node()) {
            self.tree(&found.plain(text, true), directories);
        }
        if has_merged_backquotes(&source, tree.root_node()) {
            match found.without_backquotes(text) {
                plain if plain == text => self.unknowable(text),
                plain => return self.tree(&plain, directories),
            }
        }
        if tree.root_node().has_error() {
            self.unknowable(text);
        }
        self.definitions(&source, tree.root_node());
        self.visit(&mut source, tree.root_node(), directories, 0);
        self.lost(&found, &source, tree.root_node(), directories);
    }

    fn unknowable(&mut self, text: &str) {
        self.acc.is_unknowable = true;
        push_new(&mut self.acc.patterns, text.trim().to_owned());
    }

    /// Collects what the text defines: it may be used before it is defined, in a loop.
    fn definitions(&mut self, source: &Source<'_>, root: Node<'_>) {
        each_below(root, |node| match node.kind() {
            "variable_assignment" => self.value_of(source, node),
            "for_statement" => self.looped(source, node),
            "declaration_command" => self.declared(source, node),
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
        each_below(root, |node| {
            if node.kind() == "command"
                && name_of(source, node).is_some_and(|name| self.defined.contains(&name))
            {
                let mut cursor = node.walk();
                let parameters = node.children_by_field_name("argument", &mut cursor);
                let parameters: Vec<Word> = parameters.map(|it| Word::new(source.of(it))).collect();
                self.positional(&parameters);
            }
        });
    }

    /// Reads what the grammar takes for text or loses: backquotes within others, here-documents.
    fn lost(&mut self, found: &Found, source: &Source<'_>, root: Node<'_>, directories: &Directories) {
        self.acc.is_unknowable |= found.is_open;
        let mut seen = HashSet::new();
        each_below(root, |node| {
            if node.kind() == "command_substitution" {
                seen.insert(source.of(node).trim_matches('`'));
            }
        });
        for inner in found.backquoted.iter().filter(|inner| !seen.contains(inner.as_str())) {
            self.text(inner, directories);
        }
        self.hidden(found, source, root, directories);
        for document in found.documents.iter().filter(|document| !document.is_quoted) {
            for expansion in scan::expansions(&document.body) {
                self.expansion(expansion, directories);
            }
        }
    }

    /// Reads the expansions that the grammar takes for text: those in patterns.
    fn hidden(&mut self, found: &Found, source: &Source<'_>, root: Node<'_>, directories: &Directories) {
        let mut seen = HashSet::new();
        each_below(root, |node| {
            if node.kind().ends_with("_substitution") || node.kind().ends_with("expansion") {
                seen.insert(node.start_byte());
            }
        });
        let mut read_until = 0;
        for range in &found.expansions {
            if range.start < read_until || seen.contains(&range.start) {
                continue;
            }
            read_until = range.end;
            let text = source.text.get(range.clone()).unwrap_or_default();
            match text.strip_prefix("<(").or(text.strip_prefix(">(")) {
                Some(inner) => self.text(inner.strip_suffix(')').unwrap_or(inner), directories),
                // The text is this expansion and nothing else: reading it once more would tell no more.
                None if source.text.len() < text.len() + 5 => self.unknowable(text),
                None => self.expansion(text, directories),
            }
        }
    }

    /// Reads an expansion that stands in no command of its own.
    fn expansion(&mut self, text: &str, directories: &Directories) {
        if text.starts_with('`') {
            scan::scan(text).backquoted.iter().for_each(|inner| self.text(inner, directories));
            return;
        }
        if text.starts_with("${") && !text.contains(['(', '`', '@', '!', '[', ':']) {
            return;
        }
        self.n_expansions += 1;
        let command = format!(": \"{text}\"");
        let Some(tree) = parse(&command).filter(|_| self.n_expansions <= MAX_EXPANSIONS) else {
            self.unknowable(text);
            return;
        };
        let root = tree.root_node();
        self.acc.is_unknowable |= root.has_error();
        let found = scan::scan(&command);
        let mut source =
            Source { text: &command, redirects: HashMap::new(), documents: found.documents.clone() };
        self.definitions(&source, root);
        let mut cursor = root.walk();
        let commands: Vec<Node<'_>> = root.named_children(&mut cursor).collect();
        for argument in commands {
            match argument.child_by_field_name("argument") {
                Some(argument) => drop(self.visit(&mut source, argument, directories, 0)),
                None => self.acc.is_unknowable = true,
            }
        }
        self.lost(&found, &source, root, directories);
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
        self.arithmetic(source, node);
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
                let outer = self.piped.clone();
                for child in node.named_children(&mut cursor) {
                    // zsh runs the last one itself.
                    merge(&mut any, self.visit(source, child, at, depth + 1).any);
                    let written = source.text.get(node.start_byte()..child.end_byte()).unwrap_or_default();
                    let output = self.output_of(source, child);
                    self.piped = Some(input::Piped { output, written: written.to_owned() });
                }
                self.piped = outer;
                Flow { success: any.clone(), any }
            }
            "variable_assignment" => {
                self.assignment(source, node);
                self.children(source, node, at, depth)
            }
            "for_statement" | "select_statement" => {
                let variable = node.child_by_field_name("variable").map(|name| source.of(name));
                let mut cursor = node.walk();
                let values: Vec<Node<'_>> = node.children_by_field_name("value", &mut cursor).collect();
                if let Some(name) = variable {
                    self.acc.is_unknowable |= variables::is_steering(name);
                    let values = spans(values);
                    let values = values.iter().filter_map(|(start, end)| source.text.get(*start..*end));
                    values.for_each(|value| self.assign(name, word::literal(value).as_deref()));
                }
                self.children(source, node, at, depth)
            }
            "declaration_command" | "unset_command" => {
                // Subscripts are evaluated, and substitutions in them run, quoted or not.
                self.declaration(source, node);
                let mut cursor = node.walk();
                let runs = |it: String| it.contains("$(") || it.contains('`');
                let is_text = |child: &Node<'_>| child.kind() != "variable_assignment";
                self.acc.is_unknowable |= node
                    .named_children(&mut cursor)
                    .filter(is_text)
                    .any(|child| word::literal(source.of(child)).is_some_and(runs));
                self.children(source, node, at, depth)
            }
            // Subscripts behind `-v` and `-eq` are evaluated, and substitutions in them run, quoted or not.
            "test_command" => {
                let mut runs = false;
                each_below(node, |below| {
                    let text = source.of(below);
                    runs |= matches!(below.kind(), "raw_string" | "ansi_c_string")
                        && (text.contains("$(") || text.contains('`'));
                });
                self.acc.is_unknowable |= runs;
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
        // Here-strings behind a block have no field.
        let redirects: Vec<Node<'t>> =
            node.named_children(&mut cursor).filter(|child| child.kind().ends_with("_redirect")).collect();
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
        let outer = self.piped.clone();
        let mut feeds = redirects.iter().filter_map(|redirect| self.input_of(source, *redirect));
        if let Some(feed) = feeds.next_back().filter(|_| body.is_some_and(|body| body.kind() != "pipeline")) {
            let output = match feed {
                input::InputFrom::Text(text) => Some(text),
                input::InputFrom::File(_) | input::InputFrom::Computed => None,
            };
            self.piped = Some(input::Piped { output, written: String::new() });
        }
        let flow = match body {
            Some(body) => self.visit(source, body, at, depth + 1),
            None => Flow::stay(at),
        };
        self.piped = outer;
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
        let destinations = node
            .children_by_field_name("destination", &mut cursor)
            .filter(|destination| destination.kind() != "process_substitution");
        let destinations = spans(destinations);
        let destinations = destinations.iter().filter_map(|(start, end)| source.text.get(*start..*end));
        // The grammar counts the arguments behind a redirection to it.
        if let Some(destination) = destinations.into_iter().next() {
            self.path(destination, at);
            if source.of(node).contains('>') {
                let destination = Destination::file(destination);
                self.output(&destination, at);
                self.output_of_line(&destination, at);
            }
        }
    }

    fn assignment(&mut self, source: &Source<'_>, node: Node<'_>) {
        let text = source.of(node);
        let name = text.split('=').next().unwrap_or_default();
        // `IFS=, read a b` says how that line is split and nothing else.
        let reads = |command: Node<'_>| name_of(source, command).as_deref() == Some("read");
        if name == "IFS" && node.parent().filter(|it| it.kind() == "command").is_some_and(reads) {
            return;
        }
        self.assignment_of(text);
    }

    /// `name=value`, as written.
    fn assignment_of(&mut self, text: &str) {
        let Some((name, value)) = text.split_once('=') else { return };
        self.values.add(name.split(['+', '[']).next().unwrap_or_default(), command::value_of(value));
        self.assign(name, word::literal(value).as_deref());
        self.searches(name, value);
    }

    fn assign(&mut self, name: &str, value: Option<&str>) {
        let name = name.split(['+', '[']).next().unwrap_or_default();
        if variables::is_steering(name) || variables::is_loading(name, value) {
            self.acc.is_unknowable = true;
        } else if variables::is_command(name) {
            match value {
                Some("") => {}
                Some(text) => self.text(text, &vec![String::new()]),
                None => self.acc.is_unknowable = true,
            }
        }
    }
}

/// Whether the grammar ends a text in `$'…'` elsewhere than the shell does.
fn has_lost_quotes(found: &Found, root: Node<'_>) -> bool {
    let mut seen = Vec::new();
    if !found.ansi_texts.is_empty() {
        each_below(root, |node| {
            if node.kind() == "ansi_c_string" {
                seen.push(node.byte_range());
            }
        });
    }
    found.ansi_texts.iter().any(|text| !seen.contains(text))
}

/// Whether the grammar takes two texts in backquotes that stand side by side for one.
fn has_merged_backquotes(source: &Source<'_>, root: Node<'_>) -> bool {
    let mut is_merged = false;
    each_below(root, |node| {
        if node.kind() == "command_substitution" && source.of(node).starts_with('`') {
            let inner = source.of(node).trim_matches('`');
            is_merged |= inner.match_indices('`').any(|(at, _)| !inner[..at].ends_with('\\'));
        }
    });
    is_merged
}

/// Whether the grammar sees a here-document elsewhere than it is, and so what follows.
fn has_lost_documents(source: &Source<'_>, root: Node<'_>) -> bool {
    let mut seen = Vec::new();
    each_below(root, |node| {
        if node.kind() == "heredoc_redirect" {
            let mut cursor = node.walk();
            let end = node.named_children(&mut cursor).find(|it| it.kind() == "heredoc_end");
            let at = source.of(node).find("<<").map(|at| node.start_byte() + at);
            seen.extend(at.zip(end.map(|it| it.end_byte())));
        }
    });
    source.documents.iter().any(|document| !seen.contains(&(document.at, document.lines.end)))
}

fn name_of(source: &Source<'_>, command: Node<'_>) -> Option<String> {
    let name = word::literal(source.of(command.child_by_field_name("name")?))?;
    Some(base_name(&name).to_owned())
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

fn merge(into: &mut Directories, more: Directories) {
    for directory in more {
        if !into.contains(&directory) && into.len() < MAX_DIRECTORIES {
            into.push(directory);
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
