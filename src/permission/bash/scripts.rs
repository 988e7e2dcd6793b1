//! Which files a line both writes and runs: what they hold by then, their names do not tell.

use super::{
    Directories, Walk,
    options::{self, What, is_version_of},
    outputs::Destination,
    word::{self, Word, base_name},
    wrapper::is_stdin,
};

/// A file that is found: it may be any.
const FOUND: &str = "{}";
/// Endings of files that nobody runs.
const DATA: [&str; 7] = [".log", ".txt", ".out", ".json", ".csv", ".md", ".xml"];

/// Files by their normalised paths.
#[derive(Debug, Default)]
pub struct Scripts {
    outputs: Vec<Output>,
    run: Vec<String>,
    /// What compilers make, by the file that they make it of.
    compiled: Vec<(String, String)>,
    /// Directories that code is looked up in.
    searched: Vec<String>,
    /// Programs that are looked up.
    programs: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Output {
    path: String,
    /// Whether what lies below may be written with it.
    is_tree: bool,
    /// Whether that may have any name.
    is_open: bool,
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
    ("pytest", &["conftest.py", "pytest.ini", "setup.cfg", "pyproject.toml", "tox.ini"]),
    ("pip", &["setup.py"]),
    ("vagrant", &["Vagrantfile"]),
    ("scons", &["SConstruct"]),
    ("waf", &["wscript"]),
    ("ant", &["build.xml"]),
    ("mvn", &["pom.xml"]),
    ("ninja", &["build.ninja"]),
    ("meson", &["meson.build"]),
    ("nox", &["noxfile.py"]),
    ("tox", &["tox.ini"]),
    ("gulp", &["gulpfile.js"]),
    ("grunt", &["Gruntfile.js"]),
    ("mix", &["mix.exs"]),
    ("bundle", &["Gemfile"]),
    ("gdb", &[".gdbinit"]),
    ("vim", &[".exrc", ".vimrc"]),
    ("direnv", &[".envrc"]),
    ("pre-commit", &[".pre-commit-config.yaml"]),
    ("docker-compose", &["docker-compose.yml", "compose.yaml"]),
];

/// Files that a command of these words takes for code, as written; those without a place by their name alone.
pub fn code(name: &str, words: &[Word]) -> (Vec<String>, Vec<String>) {
    let arguments = options::arguments(name, words);
    let named = arguments.that_are(&[What::Code, What::CodeFirst]).map(str::to_owned).collect();
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

/// Programs whose output does what their input says.
const COMPILERS: [&str; 22] = [
    "gcc", "g++", "cc", "c++", "clang", "clang++", "gfortran", "gnat", "gccgo", "gdc", "tcc", "ld", "gold",
    "lld", "mold", "as", "nasm", "yasm", "rustc", "go", "javac", "tsc",
];

/// Whether what runs from a program's output is what its sources say.
pub fn is_compiler(name: &str) -> bool {
    COMPILERS.iter().any(|known| is_version_of(name, known))
}

impl Walk {
    /// A compiler is asked to make something of its operands.
    pub(super) fn compiles(&mut self, name: &str, words: &[Word], at: &Directories) {
        let arguments = options::arguments(name, words);
        let mut outputs: Vec<String> =
            arguments.that_are(&[What::Output, What::Tree]).map(str::to_owned).collect();
        if outputs.is_empty() {
            let stems = arguments.operands.iter().filter_map(|it| Some(it.rsplit_once('.')?.0));
            outputs = stems.flat_map(|stem| [stem.to_owned(), format!("{stem}.o")]).collect();
            outputs.push("a.out".to_owned());
        }
        let outputs: Vec<String> = outputs.iter().flat_map(|it| self.places(it, at)).collect();
        // A source on standard input is not known any more than what a line writes.
        for source in arguments.operands.iter().filter(|it| *it == "-" || is_stdin(it)) {
            self.scripts.outputs.push(Output { path: source.clone(), is_tree: false, is_open: false });
        }
        for source in &arguments.operands {
            let mut sources = self.places(source, at);
            sources.extend(Some(source.clone()).filter(|it| *it == "-" || is_stdin(it)));
            let pairs =
                outputs.iter().flat_map(|it| sources.iter().map(move |source| (it.clone(), source.clone())));
            self.scripts.compiled.extend(pairs);
        }
    }

    /// A file that the line writes.
    pub(super) fn output_of_line(&mut self, destination: &Destination, at: &Directories) {
        for path in self.places(&destination.text, at) {
            let output = Output { path, is_tree: destination.is_tree, is_open: destination.is_open };
            if !self.scripts.outputs.contains(&output) {
                self.scripts.outputs.push(output);
            }
        }
    }

    /// A file that the line runs, or has run.
    pub(super) fn run_file(&mut self, script: &str, at: &Directories) {
        if script.contains("{}") {
            self.scripts.run.push(FOUND.to_owned());
            return;
        }
        let places = self.places(script, at);
        self.scripts.run.extend(places);
    }

    /// A directory that code is looked up in.
    pub(super) fn run_tree(&mut self, directory: &str, at: &Directories) {
        let places = self.places(directory, at);
        self.scripts.searched.extend(places);
    }

    /// A program that is looked up.
    pub(super) fn run_program(&mut self, name: &str) {
        self.scripts.programs.push(name.to_owned());
    }

    /// A file of this name is run, wherever it lies.
    pub(super) fn run_file_anywhere(&mut self, name: &str) {
        self.scripts.run.push(format!("*/{name}"));
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

impl Scripts {
    fn is_searched(&self, path: &str) -> bool {
        let is_below = |directory: &String| match directory.as_str() {
            "" => !path.starts_with(['/', '~']),
            directory => {
                path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        };
        !DATA.iter().any(|ending| path.ends_with(ending)) && self.searched.iter().any(is_below)
    }

    /// Whether something runs that the line writes. The order does not matter: there are loops and jobs.
    pub fn runs_what_it_writes(&self) -> bool {
        let is_program = |path: &str| {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            directory.ends_with("bin") && self.programs.iter().any(|it| it == name)
        };
        let mut run = self.run.clone();
        for (output, source) in self.compiled.iter().rev().chain(&self.compiled) {
            let made = Output { path: output.clone(), is_tree: true, is_open: false };
            if run.iter().any(|run| is_same(&made, run)) {
                run.push(source.clone());
            }
        }
        run.iter().any(|run| self.outputs.iter().any(|output| is_same(output, run)))
            || self.outputs.iter().any(|output| is_program(&output.path) || self.is_searched(&output.path))
    }
}

fn is_same(output: &Output, run: &str) -> bool {
    let path = output.path.as_str();
    if run == FOUND {
        return !DATA.iter().any(|ending| path.ends_with(ending));
    }
    let begins_so = |begin: &str| run.starts_with(begin) && !begin.is_empty();
    if path == run || path.strip_suffix('*').is_some_and(begins_so) {
        return true;
    }
    if output.is_open && run.starts_with("*/") {
        return true;
    }
    let is_below = match path {
        "" => !run.starts_with(['/', '~']),
        path => run.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')),
    };
    if output.is_tree && is_below {
        return true;
    }
    // One path begins where the other does not: they may be the same.
    let start = |path: &str| path.chars().next().filter(|c| matches!(c, '/' | '~' | '*' | '.'));
    let differs = start(path) != start(run) || path.starts_with("*/");
    differs && base_name(path) == base_name(run) && !base_name(path).is_empty()
}

/// The path without `.`, and without `..` where the part before it is known.
pub fn normal(path: &str) -> String {
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
