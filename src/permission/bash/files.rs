//! Which of a command's words are files.

use super::{
    options::{self, What},
    sed,
    word::{self, Word},
    wrapper::{is_assignment, is_stdin},
};

/// Commands whose arguments are files.
const FILE_COMMANDS: [&str; 29] = [
    "rm",
    "cp",
    "mv",
    "mkdir",
    "touch",
    "chmod",
    "chown",
    "cat",
    "chgrp",
    "dd",
    "head",
    "install",
    "ln",
    "rmdir",
    "shred",
    "tail",
    "tee",
    "truncate",
    "unlink",
    "rsync",
    "link",
    "mkfifo",
    "chattr",
    "lsattr",
    "mknod",
    "mktemp",
    "setfacl",
    "getfacl",
    "fallocate",
];

/// What is a path of the words of a program.
const FILES: [What; 7] =
    [What::Path, What::PathFirst, What::Output, What::Tree, What::Code, What::CodeFirst, What::Settings];

/// The files and directories that a command names, as written.
pub fn named(name: &str, words: &[Word]) -> Vec<String> {
    let mut paths = Vec::new();
    if FILE_COMMANDS.contains(&name) {
        paths.extend(arguments(name, words));
    } else {
        let mut found = options::arguments(name, words);
        match name {
            "source" | "." => found.all.truncate(1),
            "awk" | "gawk" | "mawk" | "nawk" => found.all.retain(|it| !is_assignment(&it.text)),
            // `host:path` is elsewhere.
            "scp" | "sftp" => {
                found.all.retain(|it| !it.text.split('/').next().unwrap_or_default().contains(':'))
            }
            "less" | "more" | "vim" | "vi" | "nvim" | "view" => {
                found.all.retain(|it| !it.text.starts_with('+'))
            }
            _other => {}
        }
        paths.extend(found.that_are(&FILES).map(str::to_owned));
        // `python -m json.tool FILE`: what a module makes of its words only it knows.
        if found.that_are(&[What::Module]).next().is_some() {
            paths.extend(found.operands.into_iter().filter(|it| is_place(it)));
        }
    }
    match name {
        "sed" => match sed::script(words) {
            Some(script) => paths.extend(script.paths),
            None => {
                let operands = words[1..].iter().filter(|word| !word.text.starts_with('-')).skip(1);
                paths.extend(operands.map(|word| word.text.clone()));
            }
        },
        "git" => paths.extend(places_of_git(words)),
        "find" => {
            let mut idx = 1;
            while let Some(word) = words.get(idx).filter(|it| matches!(it.value(), "-L" | "-P" | "-H" | "-D"))
            {
                idx += 1 + usize::from(word.text == "-D");
            }
            let starts = words[idx..].iter().take_while(|word| !word.text.starts_with(['-', '(', '!', '\\']));
            paths.extend(starts.map(|word| word.text.clone()));
        }
        // `-d @FILE`, `-F name=@FILE`, `file:///…`.
        "curl" => {
            for word in &words[1..] {
                let text = word.plain().trim_start_matches(['"', '\'']);
                let file = text.split_once("=@").or(text.split_once("=<")).map(|it| it.1);
                let file = file.or(text.strip_prefix("-d@")).or(text.strip_prefix('@'));
                paths.extend(file.or(text.strip_prefix("file://")).map(str::to_owned));
            }
        }
        _other => {}
    }
    // `-` is standard input or output.
    paths.retain(|path| path != "-" && path != "." && !is_stdin(path));
    paths
}

/// What `find` finds, as globs: `**` stands for directories.
pub fn found(words: &[Word]) -> Vec<String> {
    let is_expression = |word: &&Word| word.text.starts_with(['-', '(', '!', '\\']);
    let starts = words[1..].iter().take_while(|word| !is_expression(word)).map(|word| word.text.as_str());
    let mut starts: Vec<&str> = starts.collect();
    if starts.is_empty() || words[0].value() != "find" {
        starts = vec!["."];
    }
    let is_name = |pair: &&[Word]| matches!(pair[0].value(), "-name" | "-iname");
    let mut names = words.windows(2).filter(is_name).filter_map(|pair| word::path_text(&pair[1].text));
    let is_open = words
        .iter()
        .any(|word| matches!(word.value(), "-o" | "-or" | "!" | "-not" | "-path" | "-regex" | ","));
    let name = names.next().filter(|_| !is_open).unwrap_or_else(|| "*".to_owned());
    starts.into_iter().map(|start| format!("{}/**/{name}", start.trim_end_matches('/'))).collect()
}

/// Whether a command reads what the links below its directories lead to.
pub fn follows_links(name: &str, words: &[Word]) -> bool {
    let (letters, long): (&str, &[&str]) = match name {
        "grep" | "egrep" | "fgrep" | "ggrep" => ("R", &["--dereference-recursive"]),
        "rgrep" => return true,
        "rg" | "find" | "fd" | "fdfind" | "du" => ("L", &["--follow", "--dereference"]),
        "ag" => ("f", &["--follow"]),
        "diff" => ("r", &["--recursive"]),
        "tar" | "bsdtar" => ("h", &["--dereference"]),
        "cp" | "rsync" => ("L", &["--dereference", "--copy-links"]),
        "zip" => ("r", &["--recurse-paths"]),
        "scp" => ("r", &[]),
        _other => return false,
    };
    words[1..].iter().map(Word::value).any(|text| {
        long.contains(&text)
            || text
                .strip_prefix('-')
                .is_some_and(|rest| !rest.starts_with('-') && rest.contains(|c| letters.contains(c)))
    })
}

/// Whether a word leads out of the working directory, or may.
fn is_place(text: &str) -> bool {
    let text = text.trim_start_matches(['"', '\'']);
    text.starts_with(['/', '$', '`']) || text.starts_with("~/") || text.starts_with("../") || text == ".."
}

/// What git names outside of its work tree: revisions and paths within begin otherwise.
fn places_of_git(words: &[Word]) -> Vec<String> {
    let is_grep = words.get(1).is_some_and(|word| word.value() == "grep");
    let pattern = words.iter().skip(2).position(|word| is_grep && !word.text.starts_with('-'));
    let mut places = Vec::new();
    for (idx, word) in
        words.iter().enumerate().skip(1).filter(|(idx, _)| Some(*idx) != pattern.map(|it| it + 2))
    {
        let is_place = match words[idx - 1].value() {
            "-m" | "--message" | "--grep" | "-S" | "-G" | "--format" | "--pretty" | "-c" => false,
            "-o" | "-F" => true,
            _other => is_place(&word.text),
        };
        if is_place {
            places.push(word.text.clone());
        }
    }
    places
}

fn arguments(name: &str, words: &[Word]) -> Vec<String> {
    let mut paths = Vec::new();
    let mut is_operand = false;
    for argument in &words[1..] {
        match argument.text.as_str() {
            "--" => is_operand = true,
            text if text.starts_with('(') => {}
            text if !is_operand && text.starts_with('-') => {
                // `--target-directory=/x`, `-t/x`.
                let value = text.split_once('=').map(|it| it.1).or(text.get(2..));
                paths.extend(value.filter(|it| it.starts_with(['/', '~', '.', '$', '"'])).map(str::to_owned));
            }
            text if name == "dd" => {
                paths.extend(text.strip_prefix("of=").or(text.strip_prefix("if=")).map(str::to_owned));
            }
            text => paths.push(text.to_owned()),
        }
    }
    paths
}
