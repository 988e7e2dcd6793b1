//! Finds the words of a command that are files.

use super::word::Word;

/// Commands with files as operands.
#[rustfmt::skip]
const FILE_COMMANDS: [&str; 61] = [
    ".", "base64", "cat", "chgrp", "chmod", "chown", "cmp", "comm", "cp", "cut", "diff", "du", "file", "git", "head",
    "install", "join", "less", "ln", "ls", "md5sum", "mkdir", "more", "mv", "nl", "od", "paste", "patch",
    "rev", "rm", "rmdir", "rsync", "sha1sum", "sha256sum", "shred", "shuf", "sort", "source", "split", "stat",
    "strings", "tac", "tail", "tar", "tee", "touch", "tree", "truncate", "uniq", "unlink", "unzip", "vi", "vim", "wc", "xxd",
    "zip", "gunzip", "gzip", "nano", "code", "zcat",
];

/// Commands with a pattern or a program as the first operand, unless an option gives that.
const AFTER_A_PATTERN: [&str; 9] = ["awk", "egrep", "fgrep", "gawk", "grep", "jq", "rg", "sed", "yq"];
const PATTERN_OPTIONS: [&str; 5] = ["-e", "-f", "--expression", "--file", "--regexp"];

/// Returns the words that name files, as written.
pub fn named<'w>(name: &str, words: &'w [Word]) -> Vec<&'w str> {
    let words = &words[1..];
    let is_option = |word: &&Word| word.text.starts_with('-');
    let operands = words.iter().filter(|it| !is_option(it)).map(|it| it.text.as_str());
    let of_options = words.iter().filter(is_option).filter_map(|it| it.text.split_once('=')).map(|it| it.1);
    match name {
        // A message or a revision is no file.
        "git" => operands.filter(|it| it.starts_with(['/', '~', '.'])).chain(of_options).collect(),
        _ if FILE_COMMANDS.contains(&name) => operands.chain(of_options).collect(),
        _ if AFTER_A_PATTERN.contains(&name) => {
            let is_given = words.iter().any(|it| PATTERN_OPTIONS.contains(&it.value()));
            operands.skip(usize::from(!is_given)).collect()
        }
        "dd" => operands.filter_map(|it| it.strip_prefix("of=").or(it.strip_prefix("if="))).collect(),
        // The starting points stand before the expression.
        "find" => {
            let words = words.iter().skip_while(|it| matches!(it.value(), "-L" | "-P" | "-H"));
            let is_start = |it: &&Word| !it.text.starts_with(['-', '(', '!', '\\']);
            words.take_while(is_start).map(|it| it.text.as_str()).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the path that a word names, as far as its text tells: up to the first glob or expansion. `$HOME` is `~`.
pub fn text(written: &str) -> Option<String> {
    let unquoted = written.trim_start_matches('"');
    for home in ["$HOME", "${HOME}"] {
        if let Some(rest) =
            unquoted.strip_prefix(home).filter(|rest| rest.is_empty() || rest.starts_with(['/', '"']))
        {
            return text(&format!("~{}", rest.trim_end_matches('"')));
        }
    }
    if let Some(literal) = Word::new(written).literal {
        let is_file = !literal.is_empty() && literal != "-";
        return is_file.then_some(literal);
    }
    let end = written.find(['*', '?', '[', '$', '`', '{'])?;
    let before = Word::new(written.get(..end)?.trim_start_matches('"')).literal?;
    let directory = before.rfind('/').map(|at| before[..=at].to_owned())?;
    Some(directory)
}

/// Returns a word that is a path with globs and nothing else that the shell expands.
pub fn glob(written: &str) -> Option<String> {
    let is_glob = written.contains(['*', '?', '[']);
    (is_glob && !written.contains(['$', '`', '{', '\'', '"', '\\'])).then(|| written.to_owned())
}
