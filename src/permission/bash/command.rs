//! What one command of a line does: the names it runs under, what it runs besides, its files and variables.

use tree_sitter::Node;

use super::{
    Directories, Flow, PathArgument, Source, Walk, arity, git, merge, program, push_new, sed,
    variables::is_steering,
    word::{self, Word, base_name},
    wrapper::{self, Inner},
};

/// Commands that only move the shell: a path, but nothing to run.
const MOVES: [&str; 4] = ["cd", "chdir", "pushd", "popd"];

/// Commands whose arguments are files.
const FILE_COMMANDS: [&str; 20] = [
    "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat", "chgrp", "dd", "head", "install", "ln",
    "rmdir", "shred", "tail", "tee", "truncate", "unlink", "rsync",
];

/// Those of them, and others, that write what they name.
const WRITERS: [&str; 9] = ["cp", "mv", "dd", "install", "ln", "tee", "truncate", "rsync", "touch"];

/// Commands that take variables among their arguments.
const TAKES_VARIABLES: [&str; 5] = ["env", "sudo", "doas", "cross-env", "make"];

/// Words that begin or end something else than a command.
const RESERVED: [&str; 18] = [
    "!", "{", "}", "(", ")", "[[", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done",
    "case", "function",
];

impl Walk {
    pub(super) fn command<'t>(&mut self, source: &mut Source<'t>, node: Node<'t>, at: &Directories) -> Flow {
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
        // `0<file`: the grammar takes the descriptor for an argument.
        let is_descriptor = |node: &Node<'_>| {
            let behind = source.text.get(node.end_byte()..).unwrap_or_default();
            behind.starts_with(['<', '>']) && source.of(*node).chars().all(|c| c.is_ascii_digit())
        };
        nodes.retain(|node| !is_descriptor(node));
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
        let (name, plain_name) = match wrapper::unprefixed(plain_name) {
            unprefixed if unprefixed != plain_name => (unprefixed, unprefixed),
            _same => (name, plain_name),
        };
        self.acc.is_unknowable |= self.defined.contains(name) || self.defined.contains(plain_name);
        let named = |words: &[Word]| {
            let rest: Vec<&str> = words[1..].iter().map(Word::plain).collect();
            let name = if name.contains(char::is_whitespace) { first.text.as_str() } else { name };
            std::iter::once(name).chain(rest).collect::<Vec<_>>().join(" ")
        };
        let normal = named(words);
        let is_normal = written
            .strip_prefix(&normal)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if !is_normal {
            push_new(&mut self.acc.patterns, normal.clone());
        }
        self.effects(plain_name, words, at);
        if plain_name == "git" {
            let besides = git::besides(words);
            self.acc.is_unknowable |= besides.is_unknowable;
            for text in besides.texts {
                self.text(&text, at);
            }
        }

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
                let moved =
                    wrapper::directory(plain_name, words).map(|directory| self.entered(directory, at));
                let at = moved.as_ref().unwrap_or(at);
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
            && let Some(script) = sed::script(words)
        {
            script.paths.iter().for_each(|path| self.path(path, at));
        }
        if WRITERS.contains(&name) || (name == "sed" && arguments.iter().any(|it| it.text.starts_with("-i")))
        {
            for argument in arguments.iter().filter(|it| !it.text.starts_with('-')) {
                self.written(argument.text.strip_prefix("of=").unwrap_or(&argument.text), at);
            }
        }
        match name {
            "printf" => {
                let names = arguments.iter().zip(arguments.iter().skip(1));
                let mut names =
                    names.filter(|(option, _)| option.value() == "-v").map(|(_, name)| name.value());
                self.acc.is_unknowable |=
                    names.any(|name| is_steering(name) || name.contains("$(") || name.contains('`'));
            }
            "read" | "getopts" => {
                self.acc.is_unknowable |= arguments.iter().any(|word| is_steering(word.value()));
            }
            _other => {
                for argument in arguments {
                    if let Some((variable, _)) =
                        argument.text.split_once('=').filter(|_| TAKES_VARIABLES.contains(&name))
                    {
                        let value =
                            argument.literal.as_deref().and_then(|it| it.split_once('=')).map(|it| it.1);
                        self.assign(variable, value);
                    }
                }
            }
        }
    }

    /// Where a wrapper's command runs that is given a directory.
    fn entered(&mut self, directory: &str, at: &Directories) -> Directories {
        self.path(directory, at);
        match path_of(directory) {
            Some(directory) => at.iter().map(|base| below(base, &directory)).collect(),
            None => at.clone(),
        }
    }

    /// A file that is written. Where git looks for programs, that decides what runs later.
    pub(super) fn written(&mut self, written: &str, at: &Directories) {
        let Some(text) = path_of(written) else { return };
        for base in at {
            let path = below(base, &text).replace("/./", "/").replace("//", "/").to_lowercase();
            let path = format!("/{path}");
            let is_trigger =
                path.contains("/.git/hooks") || path.ends_with("/.git/config") || path.ends_with("/.git");
            self.acc.is_unknowable |= is_trigger;
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

    pub(super) fn path(&mut self, written: &str, at: &Directories) {
        let Some(text) = path_of(written).or_else(|| known_directory(written)) else { return };
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

/// A written path without quotes; `None` when it has expansions other than the home and working directories.
fn path_of(written: &str) -> Option<String> {
    let unquoted = written.strip_prefix('"').unwrap_or(written);
    let places = [
        ("$HOME", "~"),
        ("${HOME}", "~"),
        ("$PWD", "."),
        ("${PWD}", "."),
        ("$OLDPWD", "~-"),
        ("${OLDPWD}", "~-"),
    ];
    for (variable, place) in places {
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

/// The directory that a path begins with which is computed further on; `None` when that says nothing.
fn known_directory(written: &str) -> Option<String> {
    let computed = written.find(['$', '`'])?;
    let (directory, _) = written[..computed].trim_start_matches('"').rsplit_once('/')?;
    let directory = word::path_text(directory)?;
    Some(format!("{directory}/"))
}

fn below(base: &str, path: &str) -> String {
    match base.is_empty() || path.starts_with(['/', '~']) {
        true => path.to_owned(),
        false => format!("{}/{path}", base.trim_end_matches('/')),
    }
}
