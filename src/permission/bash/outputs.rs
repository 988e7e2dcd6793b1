//! Which files the options and operands of a program have it write, and which of them git takes programs from.

use super::{
    word::Word,
    written::{Destination, operands},
};

/// A program that writes what its options say.
struct Writer {
    names: &'static [&'static str],
    /// Letters of options whose value is a file.
    files: &'static str,
    /// The same, long.
    long_files: &'static [&'static str],
    /// Letters of options whose value is a directory.
    trees: &'static str,
    long_trees: &'static [&'static str],
}

const PLAIN: Writer = Writer { names: &[], files: "", long_files: &[], trees: "", long_trees: &[] };

#[rustfmt::skip]
const WRITERS: &[Writer] = &[
    Writer {
        names: &["curl"], files: "oDc",
        long_files: &["--output", "--dump-header", "--cookie-jar", "--trace", "--trace-ascii", "--stderr", "--etag-save",
            "--libcurl", "--hsts", "--alt-svc"],
        long_trees: &["--output-dir"], ..PLAIN
    },
    Writer {
        names: &["wget"], files: "Ooa", long_files: &["--output-document", "--output-file", "--append-output", "--save-cookies"],
        trees: "P", long_trees: &["--directory-prefix"]
    },
    Writer { names: &["shuf", "iconv", "sort", "gpg", "gpg2", "pandoc", "xmllint", "strace", "ltrace", "time", "less", "tree", "aria2c"],
        files: "o", long_files: &["--output", "--log-file"], trees: "", long_trees: &[], },
    Writer { names: &["openssl"], long_files: &["-out", "-keyout", "-writerand", "-CAserial"], ..PLAIN },
    Writer { names: &["find"], long_files: &["-fprint", "-fprint0", "-fprintf", "-fls"], ..PLAIN },
    Writer { names: &["ssh-keygen"], files: "f", ..PLAIN },
    Writer { names: &["pg_dump", "csplit"], files: "f", long_files: &["--file", "--prefix"], ..PLAIN },
    Writer { names: &["tcpdump"], files: "w", ..PLAIN },
    Writer { names: &["script"], files: "OBIT", long_files: &["--log-out", "--log-io", "--log-in", "--log-timing"], ..PLAIN },
    Writer { names: &["patch"], files: "or", long_files: &["--output", "--reject-file"], trees: "d", long_trees: &["--directory"] },
    Writer { names: &["tar", "bsdtar"], trees: "C", long_trees: &["--directory", "--cd"], ..PLAIN },
    Writer { names: &["unzip"], trees: "d", ..PLAIN },
    Writer { names: &["cpio"], trees: "D", long_trees: &["--directory"], ..PLAIN },
    Writer { names: &["7z", "7za", "7zr"], trees: "o", ..PLAIN },
];

/// Options by subcommand of git.
#[rustfmt::skip]
const GIT: &[Writer] = &[
    Writer { names: &["archive"], files: "o", long_files: &["--output"], ..PLAIN },
    Writer { names: &["format-patch"], trees: "o", long_trees: &["--output-directory"], long_files: &["--output"], ..PLAIN },
    Writer { names: &["bugreport", "diagnose"], trees: "o", long_trees: &["--output-directory"], ..PLAIN },
    Writer { names: &["checkout-index"], long_trees: &["--prefix"], ..PLAIN },
    Writer { names: &["init", "clone"], long_trees: &["--separate-git-dir"], ..PLAIN },
];

/// Any other subcommand: those that show differences.
const GIT_OTHER: Writer = Writer { long_files: &["--output"], ..PLAIN };

/// Where a command of these words writes, by its options and by the place of its operands.
pub fn outputs(name: &str, words: &[Word]) -> Vec<Destination> {
    let plain = |text: &str| Destination { text: text.to_owned(), is_tree: false };
    let nth = |values: &str, idx: usize| operands(words, values).0.get(idx).map(|text| plain(text));
    let mut found = Vec::new();
    if let Some(writer) = WRITERS.iter().find(|writer| writer.names.contains(&name)) {
        writer.add(words, &mut found);
    }
    match name {
        "git" => {
            let subcommand = words.get(1).map(Word::value).unwrap_or_default();
            let writer = GIT.iter().find(|writer| writer.names.contains(&subcommand)).unwrap_or(&GIT_OTHER);
            writer.add(words, &mut found);
            let rest = words.get(1..).unwrap_or_default();
            let operand = |idx: usize| operands(rest, "").0.get(idx).map(|text| plain(text));
            match subcommand {
                "bundle" if words.get(2).is_some_and(|verb| verb.value() == "create") => {
                    found.extend(operand(1));
                }
                "merge-file" => found.extend(operand(0)),
                _other => {}
            }
        }
        "split" => found.extend(nth("abCln", 1)),
        "patch" => found.extend(nth("pFDVrBYzgiod", 0)),
        "script" => found.extend(nth("cEmoBIOT", 0)),
        "zip" => found.extend(nth("bnPtTxi", 0)),
        "scp" => found.extend(operands(words, "cFiJloPSX").0.last().map(|text| plain(text))),
        _other => {}
    }
    found.retain(|destination| !destination.text.is_empty() && destination.text != "-");
    found
}

impl Writer {
    fn add(&self, words: &[Word], found: &mut Vec<Destination>) {
        for (idx, word) in words.iter().enumerate().skip(1) {
            let text = word.text.as_str();
            let next = || words.get(idx + 1).map(|next| next.text.as_str());
            for (options, is_tree) in [(self.long_files, false), (self.long_trees, true)] {
                let value = options.iter().find_map(|option| match text.strip_prefix(option)? {
                    "" => next(),
                    rest => rest.strip_prefix('='),
                });
                found.extend(value.map(|value| Destination { text: value.to_owned(), is_tree }));
            }
            let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
                continue;
            };
            // `-so FILE`, `-soFILE`: letters of other options come before.
            let is_ours = |c: char| self.files.contains(c) || self.trees.contains(c);
            let at = letters.find(|c: char| is_ours(c) || !c.is_ascii_alphanumeric());
            let Some((at, letter)) =
                at.and_then(|at| Some((at, letters[at..].chars().next().filter(|&c| is_ours(c))?)))
            else {
                continue;
            };
            let value = Some(&letters[at + 1..]).filter(|rest| !rest.is_empty()).or_else(next);
            let is_tree = self.trees.contains(letter);
            found.extend(value.map(|value| Destination { text: value.to_owned(), is_tree }));
        }
    }
}

/// Whether git runs what is written there, or what it says: hooks, settings, and all that a repository is made of.
pub fn is_obeyed(path: &str, is_tree: bool) -> bool {
    let is_glob = |part: &str| part.contains(['*', '?', '[']);
    let path = path.to_lowercase();
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    if !parts.any(|part| part == ".git" || (part.starts_with(".g") && is_glob(part))) {
        return false;
    }
    let below: Vec<&str> = parts.collect();
    let Some(last) = below.last() else { return true };
    let is_hook = |part: &&str| part.starts_with("hooks") || is_glob(part);
    is_tree || below.iter().any(is_hook) || matches!(*last, "config" | "config.worktree" | "commondir")
}

/// The same of a path that only running would tell, by what its text gives away.
pub fn is_likely_obeyed(written: &str, is_tree: bool) -> bool {
    const WAYS: [&str; 6] =
        ["rev-parse", "git-dir", "git-common-dir", "git-path", "GIT_DIR", "GIT_COMMON_DIR"];
    let text = written.replace(['"', '\'', '\\'], "");
    let asks_git = WAYS.iter().any(|way| text.contains(way));
    let is_named = text.contains("config") || text.contains("hooks") || is_tree;
    (asks_git && is_named) || is_obeyed(&text, is_tree)
}
