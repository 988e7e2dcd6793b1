//! Which of a command's words are files.

use super::{
    sed,
    word::Word,
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

/// A program that reads the files among its operands.
struct Reader {
    names: &'static [&'static str],
    /// Operands before the files: a pattern, a script.
    n_texts: usize,
    /// Letters of the options that stand in their place.
    instead: &'static str,
    /// The same, long.
    instead_long: &'static [&'static str],
    /// Letters of options whose value is no file.
    values: &'static str,
    /// Long ones whose value is the next word.
    long_values: &'static [&'static str],
}

const PLAIN: Reader =
    Reader { names: &[], n_texts: 0, instead: "", instead_long: &[], values: "", long_values: &[] };

#[rustfmt::skip]
const READERS: &[Reader] = &[
    Reader { names: &["less", "more", "zless", "pg", "most"], values: "bhjpPtTxyzDn#", ..PLAIN },
    Reader {
        names: &["grep", "egrep", "fgrep", "zgrep", "bzgrep", "xzgrep", "rgrep", "ggrep"],
        n_texts: 1, instead: "ef", instead_long: &["--regexp", "--file"], values: "mABCDde",
        long_values: &["--regexp", "--include", "--exclude", "--exclude-dir", "--max-count", "--context", "--label",
            "--after-context", "--before-context", "--binary-files", "--devices", "--directories"],
        },
    Reader {
        names: &["rg", "ag", "ack", "ugrep", "ug"],
        n_texts: 1, instead: "ef", instead_long: &["--regexp", "--file", "--files", "--type-list"], values: "eABCEMTdgjmrtG",
        long_values: &["--regexp", "--glob", "--iglob", "--type", "--type-not", "--max-count", "--replace", "--context",
            "--after-context", "--before-context", "--sort", "--sortr", "--max-depth", "--threads", "--encoding",
            "--color", "--colors", "--ignore", "--ignore-dir", "--file-search-regex", "--engine"],
    },
    Reader { names: &["fd", "fdfind"], n_texts: 1, values: "tedEScjxX", instead_long: &[], long_values: &["--type", "--extension", "--max-depth", "--exclude", "--size"], ..PLAIN },
    Reader { names: &["awk", "gawk", "mawk", "nawk"], n_texts: 1, instead: "f", instead_long: &["--file"], values: "Fvl", long_values: &["--assign", "--field-separator"] },
    Reader { names: &["jq", "yq", "gojq"], n_texts: 1, instead: "f", instead_long: &["--from-file"], values: "", long_values: &["--indent"] },
    Reader { names: &["ls", "dir", "vdir", "exa", "eza", "lsd", "tree"], values: "IwTLPoH", long_values: &["--ignore", "--hide", "--width", "--filelimit", "--charset"], ..PLAIN },
    Reader { names: &["du", "ncdu", "dust"], values: "dBtX", long_values: &["--max-depth", "--exclude", "--threshold", "--block-size"], ..PLAIN },
    Reader { names: &["stat"], values: "c", long_values: &["--format", "--printf"], ..PLAIN },
    Reader { names: &["file"], values: "FePm", long_values: &["--separator", "--exclude", "--parameter"], ..PLAIN },
    Reader { names: &["sort"], values: "ktS", long_values: &["--key", "--field-separator", "--buffer-size", "--parallel", "--batch-size"], ..PLAIN },
    Reader { names: &["uniq"], values: "fsw", ..PLAIN },
    Reader { names: &["diff", "sdiff", "diff3", "colordiff", "delta"], values: "IUCWFxL", long_values: &["--label", "--exclude", "--ignore-matching-lines", "--show-function-line", "--width"], ..PLAIN },
    Reader { names: &["cmp"], values: "in", ..PLAIN },
    Reader { names: &["od"], values: "AtjNSw", ..PLAIN },
    Reader { names: &["xxd", "hexyl"], values: "cglosn", ..PLAIN },
    Reader { names: &["hexdump", "hd"], values: "ens", ..PLAIN },
    Reader { names: &["strings"], values: "ntesUT", ..PLAIN },
    Reader { names: &["base64", "base32", "basenc", "uuencode"], values: "w", long_values: &["--wrap"], ..PLAIN },
    Reader { names: &["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum", "md5", "shasum"], values: "al", ..PLAIN },
    Reader { names: &["cut"], values: "dfbc", long_values: &["--delimiter", "--fields", "--output-delimiter"], ..PLAIN },
    Reader { names: &["paste"], values: "d", long_values: &["--delimiters"], ..PLAIN },
    Reader { names: &["join", "comm", "look"], values: "12taeoj", long_values: &["--output-delimiter"], ..PLAIN },
    Reader { names: &["rev", "wc", "tsort", "nroff", "expand", "unexpand"], ..PLAIN },
    Reader { names: &["nl", "fold", "fmt", "tac", "csplit"], values: "bdfhilnpsvwg", ..PLAIN },
    Reader { names: &["pr", "column", "shuf", "ptx"], values: "lwohsncNOR", ..PLAIN },
    Reader { names: &["split"], values: "abClnt", ..PLAIN },
    Reader { names: &["cpp", "bc", "dc", "m4", "nm", "objdump", "readelf", "ar"], values: "DIUxo", ..PLAIN },
    Reader { names: &["iconv"], values: "ft", ..PLAIN },
    Reader { names: &["zip"], values: "bnPtTxi", ..PLAIN },
    Reader { names: &["unzip", "zipinfo", "zipgrep"], values: "P", ..PLAIN },
    Reader { names: &["gzip", "gunzip", "zcat", "bzip2", "bunzip2", "bzcat", "xz", "unxz", "xzcat", "zstd", "zstdcat", "lz4", "compress", "uncompress"], values: "S", ..PLAIN },
    Reader { names: &["bat", "batcat", "vim", "vi", "nvim", "view", "nano", "emacs", "ed"], values: "lrTH", ..PLAIN },
    Reader { names: &["source", "."], ..PLAIN },
    Reader { names: &["patch"], values: "pFDVrBYzgiod", ..PLAIN },
    Reader { names: &["script"], values: "cEmoBIOT", long_values: &["--command", "--echo", "--output-limit"], ..PLAIN },
    Reader { names: &["scp", "sftp"], values: "cDFiJloPSX", ..PLAIN },
];

/// Options whose value is a file or directory, by program.
#[rustfmt::skip]
const PATH_OPTIONS: &[(&str, &[&str])] = &[
    ("curl", &["-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar", "-K", "--config", "-T",
        "--upload-file", "-b", "--cookie"]),
    ("wget", &["-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file", "-a", "--append-output",
        "-i", "--input-file", "--post-file", "--body-file"]),
    ("git", &["-C", "--git-dir", "--work-tree", "--output", "--template", "--separate-git-dir", "--output-directory",
        "--pathspec-from-file", "--reference", "--exclude-from", "--contents", "--ignore-revs-file"]),
    ("sort", &["-o", "--output", "-T", "--temporary-directory", "--files0-from"]),
    ("wc", &["--files0-from"]),
    ("diff", &["--from-file", "--to-file", "-X", "--exclude-from"]),
    ("scp", &["-F", "-i", "-S"]),
    ("shuf", &["-o", "--output"]),
    ("date", &["-f", "--file", "-r", "--reference"]),
    ("du", &["-X", "--exclude-from", "--files0-from"]),
    ("grep", &["-f", "--file", "--exclude-from"]),
    ("rg", &["-f", "--file", "--ignore-file"]),
    ("awk", &["-f", "--file"]),
    ("jq", &["-f", "--from-file", "-L"]),
    ("less", &["-o", "-O", "-k", "--log-file"]),
    ("file", &["-f", "--files-from", "-m"]),
    ("tree", &["-o", "--fromfile", "--gitfile", "--infofile"]),
    ("hexdump", &["-f"]),
    ("iconv", &["-o", "--output"]),
    ("xargs", &["-a", "--arg-file"]),
    ("find", &["-fprintf", "-fprint", "-fprint0", "-fls", "-files0-from"]),
    ("fd", &["--base-directory", "--search-path"]),
    ("tar", &["-C", "--directory", "-f", "--file", "-T", "--files-from", "-X", "--exclude-from"]),
    ("unzip", &["-d"]),
    ("patch", &["-d", "--directory", "-o", "--output", "-i", "--input"]),
    ("openssl", &["-out", "-in", "-keyout"]),
    ("ssh-keygen", &["-f"]),
    ("gcc", &["-o"]),
    ("cc", &["-o"]),
    ("clang", &["-o"]),
    ("make", &["-C", "--directory", "-f", "--file"]),
    ("script", &["-O", "--log-out", "-B", "--log-io"]),
    ("strace", &["-o", "--output"]),
    ("time", &["-o", "--output"]),
];

/// The files and directories that a command names, as written.
pub fn named(name: &str, words: &[Word]) -> Vec<String> {
    let mut paths = Vec::new();
    if FILE_COMMANDS.contains(&name) {
        paths.extend(arguments(name, words));
    }
    if let Some(reader) = READERS.iter().find(|reader| reader.names.contains(&name)) {
        let mut operands = operands(reader, words);
        match name {
            "source" | "." => operands.truncate(1),
            "awk" | "gawk" | "mawk" | "nawk" => operands.retain(|text| !is_assignment(text)),
            // `host:path` is elsewhere.
            "scp" | "sftp" => {
                operands.retain(|text| !text.split('/').next().unwrap_or_default().contains(':'))
            }
            "less" | "more" | "vim" | "vi" | "nvim" | "view" => {
                operands.retain(|text| !text.starts_with('+'))
            }
            _other => {}
        }
        paths.extend(operands);
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
        // `tar xzf FILE …`: letters without a dash, each with its value behind.
        "tar" | "bsdtar" => {
            let is_old = words.get(1).is_some_and(|word| !word.text.starts_with('-'));
            let operands = words[1..].iter().skip(usize::from(is_old));
            let mut before = "";
            for word in operands {
                let is_text = before.starts_with("--exclude") || before == "--transform" || before == "-I";
                if !word.text.starts_with('-') && !is_text {
                    paths.push(word.text.clone());
                }
                before = &word.text;
            }
        }
        "jq" => {
            let is_file = |it: &Word| matches!(it.value(), "--slurpfile" | "--rawfile" | "--argfile");
            let files = words.iter().enumerate().filter(|(_, word)| is_file(word));
            paths.extend(files.filter_map(|(idx, _)| words.get(idx + 2)).map(|word| word.text.clone()));
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
    paths.extend(of_options(name, words));
    // `-` is standard input or output.
    paths.retain(|path| path != "-" && path != "." && !is_stdin(path));
    paths
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

/// What git names outside of its work tree: revisions and paths within begin otherwise.
fn places_of_git(words: &[Word]) -> Vec<String> {
    let is_place = |text: &str| {
        let text = text.trim_start_matches(['"', '\'']);
        text.starts_with(['/', '$', '`']) || text.starts_with("~/") || text.starts_with("../") || text == ".."
    };
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

fn operands(reader: &Reader, words: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    let mut n_texts = reader.n_texts;
    let mut idx = 1;
    let mut is_operand = false;
    while let Some(word) = words.get(idx) {
        idx += 1;
        let text = word.text.as_str();
        if is_operand || !text.starts_with('-') || text == "-" {
            if !text.starts_with('(') && !text.starts_with("<(") && !text.starts_with(">(") {
                found.push(text.to_owned());
            }
        } else if text == "--" {
            is_operand = true;
        } else if text.starts_with("--") {
            let name = text.split('=').next().unwrap_or_default();
            if reader.instead_long.contains(&name) {
                n_texts = 0;
            }
            let takes_next = reader.long_values.contains(&name) || (name == "--file" && n_texts == 0);
            idx += usize::from(takes_next && !text.contains('='));
            if matches!(text, "--arg" | "--argjson" | "--slurpfile" | "--rawfile" | "--argfile") {
                idx += 2;
            }
        } else if let Some(at) = text[1..].find(|c| reader.instead.contains(c) || reader.values.contains(c)) {
            if text[1 + at..].starts_with(|c| reader.instead.contains(c)) {
                n_texts = 0;
            }
            idx += usize::from(at + 2 == text.len());
        }
    }
    found.drain(..n_texts.min(found.len()));
    found
}

/// Files that a program reads or writes by its options.
fn of_options(name: &str, words: &[Word]) -> Vec<String> {
    let name = match name {
        "egrep" | "fgrep" | "zgrep" | "ggrep" => "grep",
        "gawk" | "mawk" | "nawk" => "awk",
        name => name,
    };
    let Some((_, options)) = PATH_OPTIONS.iter().find(|(known, _)| *known == name) else { return Vec::new() };
    let mut paths = Vec::new();
    let mut idx = 1;
    while let Some(word) = words.get(idx) {
        idx += 1;
        let text = &word.text;
        for option in *options {
            let is_long = option.len() > 2;
            // `-xzf FILE`: the last of a cluster.
            let in_cluster = !is_long
                && text.len() > 2
                && text.starts_with('-')
                && !text.starts_with("--")
                && text.ends_with(&option[1..]);
            if text == option || in_cluster {
                paths.extend(words.get(idx).map(|next| next.text.clone()));
                break;
            }
            let rest = text.strip_prefix(option).unwrap_or_default();
            let value = if is_long { rest.strip_prefix('=') } else { Some(rest) };
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                paths.push(value.to_owned());
                break;
            }
        }
    }
    paths
}
