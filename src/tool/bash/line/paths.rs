//! Finds the words of a command that are files.

use super::word::Word;

/// Commands whose operands are files.
#[rustfmt::skip]
const FILE_COMMANDS: [&str; 30] = [
    "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat", "chgrp", "head", "install", "less", "ln", "ls",
    "more", "readlink", "realpath", "rmdir", "rsync", "shred", "source", "stat", "tail", "tee", "tree", "truncate",
    "unlink", "du", ".", "wc",
];

/// The words that name files, as written.
pub fn named(name: &str, words: &[Word]) -> Vec<String> {
    let operands = words.iter().skip(1).filter(|word| !word.text.starts_with('-'));
    let texts = |words: &mut dyn Iterator<Item = &Word>| words.map(|word| word.text.clone()).collect();
    match name {
        _ if FILE_COMMANDS.contains(&name) => texts(&mut operands.into_iter()),
        "dd" => {
            let values =
                operands.filter_map(|it| it.text.strip_prefix("of=").or(it.text.strip_prefix("if=")));
            values.map(str::to_owned).collect()
        }
        // The starting points stand before the expression.
        "find" => {
            let words = words.iter().skip(1).skip_while(|it| matches!(it.value(), "-L" | "-P" | "-H"));
            texts(&mut words.take_while(|it| !it.text.starts_with(['-', '(', '!', '\\'])))
        }
        _ => Vec::new(),
    }
}

/// The path that a word names, as far as its text tells: up to the first glob or expansion. `$HOME` is `~`.
pub fn text(written: &str) -> Option<String> {
    let unquoted = written.trim_start_matches('"');
    for home in ["$HOME", "${HOME}"] {
        if let Some(rest) =
            unquoted.strip_prefix(home).filter(|rest| rest.is_empty() || rest.starts_with(['/', '"']))
        {
            return text(&format!("~{}", rest.trim_end_matches('"')));
        }
    }
    let is_known = |word: &Word| word.literal.clone();
    if let Some(literal) = is_known(&Word::new(written)) {
        let is_file = !literal.is_empty() && literal != "-";
        return is_file.then_some(literal);
    }
    let end = written.find(['*', '?', '[', '$', '`', '{'])?;
    let before = Word::new(written.get(..end)?).literal?;
    let directory = before.rfind('/').map(|at| before[..=at].to_owned())?;
    Some(directory)
}
