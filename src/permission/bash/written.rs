//! Which files a line both writes and runs: what they hold by then, their names do not tell.

use super::{
    Directories, Walk, sed,
    word::{self, Word, base_name},
};

/// A file that is found: it may be any.
const FOUND: &str = "{}";
/// Endings of files that nobody runs.
const DATA: [&str; 7] = [".log", ".txt", ".out", ".json", ".csv", ".md", ".xml"];

/// Files by their normalised paths.
#[derive(Debug, Default)]
pub struct Files {
    written: Vec<Written>,
    run: Vec<String>,
    /// Programs that are looked up.
    names: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Written {
    path: String,
    /// Whether what lies below may be written with it.
    is_tree: bool,
}

/// Where a command puts what it writes, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub text: String,
    pub is_tree: bool,
}

/// Files that a program takes its commands from without being told so.
const IMPLICIT: &[(&str, &[&str])] = &[
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
    ("bun", &["package.json"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
    ("rake", &["Rakefile", "rakefile"]),
    ("cargo", &["build.rs", "config.toml"]),
    ("gradle", &["build.gradle", "build.gradle.kts", "settings.gradle"]),
    ("gradlew", &["build.gradle", "build.gradle.kts", "settings.gradle"]),
    ("cmake", &["CMakeLists.txt"]),
    ("pytest", &["conftest.py"]),
];

/// Options whose value is a file of commands or code.
const OPTIONS: &[(&str, &[&str])] = &[
    ("make", &["-f", "--file", "--makefile"]),
    ("sed", &["-f", "--file"]),
    ("awk", &["-f", "--file", "-i", "--include"]),
    ("gawk", &["-f", "--file", "-i", "--include"]),
    ("mawk", &["-f"]),
    ("nawk", &["-f"]),
    ("gdb", &["-x", "--command", "-command"]),
    ("lldb", &["-s", "--source"]),
    ("psql", &["-f", "--file"]),
    ("sqlite3", &["-init"]),
    ("just", &["-f", "--justfile"]),
    ("rake", &["-f", "--rakefile"]),
    ("node", &["-r", "--require", "--import", "--loader", "--experimental-loader"]),
    ("ruby", &["-r"]),
    ("bash", &["--rcfile", "--init-file"]),
    ("jq", &["-f", "--from-file"]),
];

/// Programs whose first operand is code, behind these words.
const OPERANDS: &[(&str, &[&str])] = &[
    ("ansible-playbook", &[]),
    ("bun", &["run"]),
    ("dc", &[]),
    ("deno", &["run"]),
    ("gnuplot", &[]),
    ("go", &["run"]),
    ("java", &[]),
    ("m4", &[]),
    ("ts-node", &[]),
    ("tsx", &[]),
    ("uv", &["run"]),
];

/// Files that a command of these words takes for code, as written; those without a place by their name alone.
pub fn code(name: &str, words: &[Word]) -> (Vec<String>, Vec<String>) {
    let mut named = Vec::new();
    if let Some((_, options)) = OPTIONS.iter().find(|(known, _)| *known == name) {
        for (idx, word) in words.iter().enumerate().skip(1) {
            for option in *options {
                if word.text == *option {
                    named.extend(words.get(idx + 1).map(|next| next.text.clone()));
                } else if let Some(value) = word.text.strip_prefix(option) {
                    let value = if option.starts_with("--") { value.strip_prefix('=') } else { Some(value) };
                    named.extend(value.map(str::to_owned));
                }
            }
        }
    }
    if let Some((_, before)) = OPERANDS.iter().find(|(known, _)| *known == name)
        && before.iter().enumerate().all(|(idx, word)| words.get(idx + 1).is_some_and(|it| it.text == *word))
    {
        let operand = words[1 + before.len()..].iter().find(|word| !word.text.starts_with('-'));
        named.extend(operand.map(|word| word.text.clone()));
    }
    let implicit = IMPLICIT.iter().find(|(known, _)| *known == name);
    let mut anywhere: Vec<String> =
        implicit.map(|(_, names)| names.iter().map(|&it| it.to_owned()).collect()).unwrap_or_default();
    if name.starts_with("python")
        && let Some(module) = words.iter().position(|word| word.text == "-m").and_then(|at| words.get(at + 1))
    {
        let last = module.value().rsplit('.').next().unwrap_or_default();
        anywhere.extend([format!("{last}.py"), "__main__.py".to_owned()]);
    }
    (named, anywhere)
}

/// Where a command of these words writes.
pub fn destinations(name: &str, words: &[Word]) -> Vec<Destination> {
    let expanded: Vec<Word> =
        words.iter().flat_map(|word| word::braces(&word.text)).map(|text| Word::new(&text)).collect();
    let words = expanded.as_slice();
    let has_short = |letter: char| {
        let is_it = |word: &Word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(letter)
        };
        words[1..].iter().any(is_it)
    };
    let plain = |text: &str| Destination { text: text.to_owned(), is_tree: false };
    match name {
        "tee" | "touch" | "truncate" | "shred" | "sponge" => {
            operands(words, "s").0.into_iter().map(plain).collect()
        }
        "dd" => words.iter().filter_map(|word| word.text.strip_prefix("of=")).map(plain).collect(),
        "sed" | "perl"
            if words.iter().any(|it| it.text.starts_with("-i") || it.text.starts_with("--in-")) =>
        {
            let paths = sed::script(words).map(|script| script.paths).unwrap_or_default();
            paths.iter().map(|path| plain(path)).collect()
        }
        "sed" => {
            let script = sed::script(words).map(|script| script.paths).unwrap_or_default();
            script.iter().filter(|path| path.starts_with('\'')).map(|path| plain(path)).collect()
        }
        "curl" | "sort" => {
            let mut found = Vec::new();
            for (idx, word) in words.iter().enumerate().skip(1) {
                let text = word.text.as_str();
                let is_cluster = text.starts_with('-') && !text.starts_with("--") && text.ends_with('o');
                if is_cluster || text == "--output" {
                    found.extend(words.get(idx + 1).map(|next| plain(&next.text)));
                } else if let Some(value) = text.strip_prefix("--output=").or(text.strip_prefix("-o")) {
                    found.push(plain(value));
                } else if name == "curl" && text.contains("://") && (has_short('O') || has_short('J')) {
                    found.push(plain(base_name(text.trim_matches(['"', '\'']))));
                }
            }
            found
        }
        "wget" => {
            let mut found = Vec::new();
            for (idx, word) in words.iter().enumerate().skip(1) {
                let text = word.text.as_str();
                let is_cluster = text.starts_with('-') && !text.starts_with("--") && text.ends_with('O');
                if is_cluster || text == "--output-document" {
                    found.extend(words.get(idx + 1).map(|next| plain(&next.text)));
                } else if let Some(value) =
                    text.strip_prefix("--output-document=").or(text.strip_prefix("-O"))
                {
                    found.push(plain(value));
                } else if !text.starts_with('-') {
                    found.push(plain(base_name(text.trim_matches(['"', '\'']))));
                }
            }
            found
        }
        "xxd" | "uniq" => operands(words, "cglosfw").0.get(1).map(|text| plain(text)).into_iter().collect(),
        "cp" | "mv" | "ln" | "install" | "rsync" | "link" | "gzip" | "gunzip" => {
            let values = if name == "install" { "mogS" } else { "S" };
            let (mut sources, target) = operands(words, values);
            let is_tree = name == "ln" || name == "mv" || name == "rsync" || has_short('r') || has_short('R');
            let is_tree = is_tree || has_short('a') || words.iter().any(|it| it.text.starts_with("--r"));
            if name.starts_with('g') {
                let ends = |text: &&&str| text.ends_with(".gz");
                return sources.iter().filter(ends).map(|it| plain(it.trim_end_matches(".gz"))).collect();
            }
            let mut found = Vec::new();
            let target = match target {
                Some(target) => target,
                None if sources.len() > 1 => {
                    let target = sources.pop().unwrap_or_default();
                    found.push(Destination { text: target.to_owned(), is_tree });
                    target
                }
                None if name == "ln" => ".",
                None => return found,
            };
            for source in sources {
                let source = source.trim_end_matches('/');
                let name = base_name(source.trim_matches(['"', '\'']));
                // A source that is not known leaves it open what it is called.
                match source.contains(['$', '`', '*', '?', '[', '{']) {
                    true => found.push(Destination { text: target.to_owned(), is_tree: true }),
                    false => found.push(Destination { text: format!("{target}/{name}"), is_tree }),
                }
            }
            found
        }
        _other => Vec::new(),
    }
}

/// Words that are no options nor the values of these short ones; and the value of `-t`.
pub(super) fn operands<'a>(words: &'a [Word], values: &str) -> (Vec<&'a str>, Option<&'a str>) {
    let (mut found, mut target) = (Vec::new(), None);
    let mut idx = 1;
    let mut is_operand = false;
    while let Some(word) = words.get(idx) {
        idx += 1;
        let text = word.text.as_str();
        if is_operand || !text.starts_with('-') || text == "-" {
            found.push(text);
        } else if text == "--" {
            is_operand = true;
        } else if let Some(value) = text.strip_prefix("--t").and_then(|rest| rest.split_once('=')) {
            target = Some(value.1);
        } else if text.starts_with("--") {
            let next = words.get(idx).map(|word| word.text.as_str());
            if text.starts_with("--target") {
                target = next;
                idx += 1;
            }
        } else if let Some(at) = text.find('t').filter(|_| values != "s") {
            match text.get(at + 1..).filter(|rest| !rest.is_empty()) {
                Some(rest) => target = Some(rest),
                None => {
                    target = words.get(idx).map(|word| word.text.as_str());
                    idx += 1;
                }
            }
        } else if text.ends_with(|c| values.contains(c)) {
            idx += 1;
        }
    }
    (found, target)
}

impl Walk {
    /// A file that the line writes.
    pub(super) fn writes(&mut self, destination: &Destination, at: &Directories) {
        for path in self.places(&destination.text, at) {
            let written = Written { path, is_tree: destination.is_tree };
            if !self.files.written.contains(&written) {
                self.files.written.push(written);
            }
        }
    }

    /// A file that the line runs, or has run.
    pub(super) fn runs(&mut self, script: &str, at: &Directories) {
        if script.contains("{}") {
            self.files.run.push(FOUND.to_owned());
            return;
        }
        let places = self.places(script, at);
        self.files.run.extend(places);
    }

    /// A program that is looked up.
    pub(super) fn runs_program(&mut self, name: &str) {
        self.files.names.push(name.to_owned());
    }

    /// A file of this name is run, wherever it lies.
    pub(super) fn runs_anywhere(&mut self, name: &str) {
        self.files.run.push(format!("*/{name}"));
    }

    /// Normalised paths of a file that is known by what is written.
    fn places(&self, written: &str, at: &Directories) -> Vec<String> {
        let mut places = Vec::new();
        for text in self.values.known(written) {
            let braces = word::braces(&text);
            for text in braces.iter().filter_map(|text| super::command::path_of(text)) {
                places.extend(at.iter().map(|base| normal(&super::command::below(base, &text))));
            }
            if super::command::path_of(&text).is_none() {
                // The directory is computed, the name is not.
                let name = text.rsplit('/').next().filter(|_| text.contains('/')).and_then(word::path_text);
                places.extend(name.filter(|it| !it.is_empty()).map(|name| format!("*/{name}")));
            }
        }
        places
    }
}

impl Files {
    /// Whether something runs that the line writes. The order does not matter: there are loops and jobs.
    pub fn runs_what_it_writes(&self) -> bool {
        let is_program = |path: &str| {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            directory.ends_with("bin") && self.names.iter().any(|it| it == name)
        };
        self.run.iter().any(|run| self.written.iter().any(|written| is_same(written, run)))
            || self.written.iter().any(|written| is_program(&written.path))
    }
}

fn is_same(written: &Written, run: &str) -> bool {
    let path = written.path.as_str();
    if run == FOUND {
        return !DATA.iter().any(|ending| path.ends_with(ending));
    }
    if path == run {
        return true;
    }
    let is_below = match path {
        "" => !run.starts_with(['/', '~']),
        path => run.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')),
    };
    if written.is_tree && is_below {
        return true;
    }
    // One path begins where the other does not: they may be the same.
    let start = |path: &str| path.chars().next().filter(|c| matches!(c, '/' | '~' | '*' | '.'));
    let differs = start(path) != start(run) || path.starts_with("*/");
    differs && base_name(path) == base_name(run) && !base_name(path).is_empty()
}

/// The path without `.`, and without `..` where the part before it is known.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| !matches!(*last, ".." | "~")) => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if path.starts_with('/') { format!("/{joined}") } else { joined }
}
