//! Reads a shell command: which commands it runs, which paths they touch, which prefix `always` means.

use std::{collections::HashMap, ops::ControlFlow};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// Longer commands are one pattern.
const MAX_BYTES: usize = 64 * 1024;

/// How often the parser may report progress before it is stopped: far beyond any readable command.
const MAX_PROGRESS_REPORTS: usize = 10_000;

/// Commands that only move the shell: a path, but nothing to run.
const MOVES: [&str; 4] = ["cd", "chdir", "pushd", "popd"];

/// Commands whose arguments are files.
const FILE_COMMANDS: [&str; 8] = ["rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat"];

/// Commands that say what they do with two words.
#[rustfmt::skip]
const TWO_WORDS: [&str; 64] = [
    "bazel", "brew", "bun", "cargo", "cdk", "cf", "cmake", "composer", "consul", "crictl", "deno", "docker",
    "eksctl", "firebase", "flyctl", "git", "go", "gradle", "helm", "heroku", "hugo", "ip", "kind", "kubectl",
    "kustomize", "make", "mc", "minikube", "mongosh", "mysql", "mvn", "ng", "npm", "nvm", "nx", "openssl", "pip",
    "pipenv", "pnpm", "poetry", "podman", "psql", "pulumi", "pyenv", "python", "rake", "rbenv", "redis-cli",
    "rustup", "serverless", "skaffold", "sls", "sst", "swift", "systemctl", "terraform", "tmux", "turbo", "ufw",
    "vault", "vercel", "volta", "wp", "yarn",
];

/// Commands that need three words.
const THREE_WORDS: [&str; 6] = ["aws", "az", "doctl", "gcloud", "gh", "sfdx"];

/// Subcommands that need a third word.
const THREE_WORDS_AFTER: [(&str, &[&str]); 19] = [
    ("bun", &["run", "x"]),
    ("cargo", &["add", "run"]),
    ("consul", &["kv"]),
    ("deno", &["task"]),
    ("docker", &["builder", "compose", "container", "image", "network", "volume"]),
    ("eksctl", &["create"]),
    ("git", &["config", "remote", "stash"]),
    ("ip", &["addr", "link", "netns", "route"]),
    ("kind", &["create"]),
    ("kubectl", &["kustomize", "rollout"]),
    ("mc", &["admin"]),
    ("npm", &["exec", "init", "run", "view"]),
    ("openssl", &["req", "x509"]),
    ("pnpm", &["dlx", "exec", "run"]),
    ("podman", &["container", "image"]),
    ("pulumi", &["stack"]),
    ("terraform", &["workspace"]),
    ("vault", &["auth", "kv"]),
    ("yarn", &["dlx", "run"]),
];

/// What a command line does, as far as its text tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Every command as written, its redirections included.
    pub patterns: Vec<String>,
    /// What to allow from now on when the user says so.
    pub always: Vec<String>,
    pub paths: Vec<PathArgument>,
}

/// A path as written, without quotes; relative to the working directory, or beginning with `~`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathArgument {
    pub text: String,
}

/// Takes a command line apart.
///
/// What cannot be understood (broken syntax, a command whose name is computed, `eval`) adds the whole text as a
/// pattern and offers nothing to allow for ever; the commands that were recognised stay in the list, so that a
/// rule that forbids one of them still meets it.
pub fn analyse(command: &str) -> Analysis {
    let whole = command.trim();
    let Some(tree) = parse(whole) else {
        return Analysis { patterns: vec![whole.to_owned()], ..Analysis::default() };
    };
    let mut walk = Walk { source: whole, ends: HashMap::new(), acc: Analysis::default(), moves: false };
    let mut is_understood = !tree.root_node().has_error();
    let mut cursor = tree.walk();
    'nodes: loop {
        let node = cursor.node();
        match node.kind() {
            "command" => is_understood &= walk.command(node),
            "redirected_statement" => walk.redirected_statement(node),
            "file_redirect" => walk.file_redirect(node),
            _ => {}
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                break 'nodes;
            }
        }
    }
    let mut analysis = walk.acc;
    let has_statement = {
        let root = tree.root_node();
        let mut cursor = root.walk();
        root.named_children(&mut cursor).any(|child| child.kind() != "comment")
    };
    if !is_understood {
        analysis.always.clear();
        analysis.patterns.retain(|pattern| pattern != whole);
        analysis.patterns.insert(0, whole.to_owned());
    } else if analysis.patterns.is_empty() && !walk.moves && has_statement {
        analysis.patterns.push(whole.to_owned());
    }
    analysis
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

struct Walk<'a> {
    source: &'a str,
    /// Commands whose redirections stand outside their node: node → end of the last redirection.
    ends: HashMap<usize, usize>,
    acc: Analysis,
    moves: bool,
}

impl<'a> Walk<'a> {
    /// False when only running it would show what it runs.
    fn command(&mut self, node: Node<'_>) -> bool {
        let Some(name_node) = node.child_by_field_name("name") else {
            self.pattern(node.start_byte(), node.end_byte());
            return false;
        };
        let end = self.ends.get(&node.id()).copied().unwrap_or(node.end_byte());
        let written_name = self.text(name_node);
        let Some(name) = unquote(written_name) else {
            self.pattern(node.start_byte(), end);
            return false;
        };
        let mut cursor = node.walk();
        let arguments: Vec<&str> = node
            .children_by_field_name("argument", &mut cursor)
            .map(|argument| self.text(argument))
            .collect();
        let is_move = MOVES.contains(&name.as_str());
        if is_move || FILE_COMMANDS.contains(&name.as_str()) {
            for argument in arguments.iter().filter(|argument| !argument.starts_with(['-', '('])) {
                self.path(argument);
            }
        }
        if is_move && end == node.end_byte() {
            self.moves = true;
            return true;
        }
        self.pattern(node.start_byte(), end);
        // A rule about `rm` must meet `\rm` and `"rm"` as well.
        if name != written_name {
            let rest = self.source.get(name_node.end_byte()..end).unwrap_or_default();
            push_new(&mut self.acc.patterns, format!("{name}{rest}").trim().to_owned());
        }
        let prefix = std::iter::once(written_name).chain(arguments.iter().copied());
        let prefix: Vec<&str> = prefix.take(arity(&name, arguments.first().copied())).collect();
        let prefix = prefix.join(" ");
        // A star in the prefix would allow more than was seen.
        if !prefix.contains(['*', '?', '\n']) {
            push_new(&mut self.acc.always, format!("{prefix} *"));
        }
        name != "eval"
    }

    /// Gives the redirections to the command they belong to: the last one of a pipe or list.
    fn redirected_statement(&mut self, node: Node<'_>) {
        let mut owner = node.child_by_field_name("body");
        while let Some(list) = owner.filter(|body| matches!(body.kind(), "pipeline" | "list")) {
            owner = last_named_child(list);
        }
        if let Some(command) = owner.filter(|body| body.kind() == "command") {
            self.ends.insert(command.id(), node.end_byte());
            return;
        }
        // A block or nothing at all is redirected: no command would tell that a file is written.
        let mut cursor = node.walk();
        let is_file =
            |redirect: &Node<'_>| redirect.kind() == "file_redirect" && !self.is_harmless(*redirect);
        let first = node.children_by_field_name("redirect", &mut cursor).find(is_file);
        if let Some(first) = first {
            self.pattern(first.start_byte(), node.end_byte());
        }
    }

    fn file_redirect(&mut self, node: Node<'_>) {
        if self.is_harmless(node) {
            return;
        }
        let mut cursor = node.walk();
        let destinations: Vec<&str> = node
            .children_by_field_name("destination", &mut cursor)
            .filter(|destination| destination.kind() != "process_substitution")
            .map(|destination| self.text(destination))
            .collect();
        for destination in destinations {
            self.path(destination);
        }
    }

    /// Another descriptor, or a device that keeps nothing.
    fn is_harmless(&self, redirect: Node<'_>) -> bool {
        let text = self.text(redirect).trim_start_matches(|c: char| c.is_ascii_digit());
        let operator_len = text.find(|c: char| !matches!(c, '<' | '>' | '&' | '|')).unwrap_or(text.len());
        let (operator, target) = text.split_at(operator_len);
        let target = target.trim();
        let is_descriptor = matches!(operator, ">&" | "<&")
            && target.trim_end_matches('-').chars().all(|digit| digit.is_ascii_digit());
        is_descriptor
            || operator.ends_with("&-")
            || matches!(target, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/tty")
    }

    fn pattern(&mut self, start: usize, end: usize) {
        let text = self.source.get(start..end).unwrap_or_default().trim();
        push_new(&mut self.acc.patterns, text.to_owned());
    }

    fn path(&mut self, written: &str) {
        if written.contains(['$', '`']) {
            return;
        }
        let Some(text) = unquote(written) else { return };
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
            let path = PathArgument { text: text.to_owned() };
            if !self.acc.paths.contains(&path) {
                self.acc.paths.push(path);
            }
        }
    }

    fn text(&self, node: Node<'_>) -> &'a str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }
}

fn last_named_child(node: Node<'_>) -> Option<Node<'_>> {
    let count = node.named_child_count();
    u32::try_from(count.checked_sub(1)?).ok().and_then(|idx| node.named_child(idx))
}

/// How many words of a command say what it does.
fn arity(name: &str, subcommand: Option<&str>) -> usize {
    let is_deep = THREE_WORDS_AFTER
        .iter()
        .any(|(command, after)| *command == name && subcommand.is_some_and(|word| after.contains(&word)));
    match () {
        () if is_deep || THREE_WORDS.contains(&name) => 3,
        () if TWO_WORDS.contains(&name) => 2,
        () => 1,
    }
}

/// The word that the shell makes of one written without expansions; `None` when it has some.
fn unquote(word: &str) -> Option<String> {
    let mut text = String::with_capacity(word.len());
    let mut chars = word.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\'', Some('\'')) | ('"', Some('"')) => quote = None,
            (_, Some('\'')) => text.push(c),
            ('$' | '`', _) => return None,
            ('\'' | '"', None) => quote = Some(c),
            ('\\', None) => text.extend(chars.next().filter(|&escaped| escaped != '\n')),
            ('\\', Some(_)) => match chars.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => text.push(escaped),
                Some('\n') => {}
                Some(other) => text.extend(['\\', other]),
                None => text.push('\\'),
            },
            ('<' | '>', None) if text.is_empty() => return None,
            _ => text.push(c),
        }
    }
    Some(text)
}

fn push_new(list: &mut Vec<String>, text: String) {
    if !text.is_empty() && !list.contains(&text) {
        list.push(text);
    }
}

#[cfg(test)]
mod tests;
