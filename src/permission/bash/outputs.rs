//! Which files the options and operands of a program have it write, and which of them git takes programs from.

use super::{
    files,
    options::{self, Arguments, Operands, What},
    scan, sed,
    word::{Word, base_name},
};

/// Where a command puts what it writes, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub text: String,
    /// Whether it stands for what lies below it, too.
    pub is_tree: bool,
    /// Whether what is written below may have any name, `.git` among them.
    pub is_open: bool,
    /// What gives it its name below that: a path, a URL or a glob, as written.
    pub named_by: Option<String>,
    /// It becomes a link, or gets another name by one.
    pub is_link: bool,
    /// It is not written: it is taken away, or gets another name or other permissions.
    pub is_removed: bool,
}

impl Destination {
    pub fn file(text: &str) -> Self {
        let text = text.to_owned();
        Self { text, is_tree: false, is_open: false, named_by: None, is_link: false, is_removed: false }
    }

    pub fn tree(text: &str) -> Self {
        Self { is_tree: true, ..Self::file(text) }
    }

    /// A directory that gets what an archive, a patch or another directory holds.
    pub fn open(text: &str) -> Self {
        Self { is_open: true, ..Self::tree(text) }
    }

    /// A file that is called what this is called, in a directory.
    fn named_by(directory: &str, source: &str) -> Self {
        Self { named_by: Some(source.to_owned()), ..Self::file(directory) }
    }

    fn removed(text: &str, is_tree: bool) -> Self {
        Self { is_tree, is_removed: true, ..Self::file(text) }
    }
}

/// Where a command of these words writes, by its options and by the place of its operands.
pub fn destinations(name: &str, words: &[Word]) -> Vec<Destination> {
    let arguments = options::arguments(name, words);
    let mut found: Vec<Destination> = arguments.that_are(&[What::Output]).map(Destination::file).collect();
    found.extend(arguments.that_are(&[What::Tree]).map(Destination::tree));
    found.extend(arguments.that_are(&[What::Prefix]).map(|it| Destination::file(&format!("{it}*"))));
    found.extend(unpacked(name, words, &arguments).map(|it| Destination::open(&it)));
    found.extend(removed(name, words));
    let operands = &arguments.operands;
    let given = arguments.that_are(&[What::Tree]).last();
    let directory = given.unwrap_or(".");
    if options::program_of(name, words).is_some_and(|(program, _)| program.operands == Operands::Copied) {
        let target = arguments.that_are(&[What::Tree]).next();
        found.extend(copied(name, words, operands, target));
    }
    let subcommand = words.get(1).map(Word::value).unwrap_or_default();
    match name {
        "dd" => {
            found.extend(words.iter().filter_map(|it| it.text.strip_prefix("of=")).map(Destination::file))
        }
        "sed" | "perl" => {
            let script = sed::script(words).map(|script| script.paths).unwrap_or_default();
            let is_edited = arguments.all.iter().any(|it| matches!(it.option, Some("-i?" | "--in-place?")));
            found.extend(
                script
                    .iter()
                    .filter(|path| is_edited || path.starts_with('\''))
                    .map(|it| Destination::file(it)),
            );
        }
        "awk" | "gawk" | "mawk" | "nawk" => {
            found.extend(operands.first().into_iter().flat_map(|script| printed_to(script)));
        }
        // Named by the server.
        "curl" => {
            // `-o '#1'` takes its name from the URL.
            found.iter_mut().for_each(|it| it.text = it.text.replace('#', "*"));
            let is_named =
                has_short(words, 'O') || words.iter().any(|it| it.text.starts_with("--remote-name"));
            let is_free = has_short(words, 'J')
                || words.iter().any(|it| it.text == "--remote-header-name")
                || (is_named && operands.is_empty());
            if is_named {
                found.extend(operands.iter().flat_map(|it| downloaded(it, directory)));
            }
            if is_free {
                found.extend([Destination::tree(directory), Destination::named_by(directory, "*")]);
            }
            let outputs = arguments.all.iter().filter(|it| matches!(it.option, Some("-o" | "--output")));
            let below = outputs.filter(|it| given.is_some() && !it.text.starts_with(['/', '~']));
            found.extend(below.map(|it| Destination::file(&format!("{directory}/{}", it.text))));
        }
        // Named by the server as well.
        "aria2c" => {
            found.extend(operands.iter().flat_map(|it| downloaded(it, directory)));
            if !arguments.all.iter().any(|it| matches!(it.option, Some("-o" | "--out"))) {
                found.push(Destination::named_by(directory, "*"));
            }
        }
        "wget" => {
            let begins =
                |it: &Word, options: &[&str]| options.iter().any(|option| it.text.starts_with(option));
            let is_tree = words[1..].iter().any(|it| begins(it, &["-r", "-m", "--rec", "--mirror"]));
            let is_fed = |it: &Word| begins(it, &["-i", "--inp", "--content-d", "--trust"]);
            let tells = |it: &Word| matches!(it.value(), "--help" | "-h" | "--version" | "-V");
            let is_given =
                !arguments.all.iter().any(|it| matches!(it.option, Some("-O" | "--output-document")));
            if is_given {
                found.extend(operands.iter().flat_map(|it| downloaded(it, directory)));
            }
            let is_free = is_tree
                || words[1..].iter().any(is_fed)
                || operands.iter().any(|it| it.contains('%'))
                || (operands.is_empty() && !words.iter().any(tells));
            if is_free && is_given {
                let named = Destination::named_by(directory, "*");
                found.extend([Destination::tree(directory), Destination { is_tree, ..named }]);
            }
        }
        "rename" | "prename" | "file-rename" | "perl-rename" | "mmv" => {
            let is_named = words[1..].iter().any(|it| it.text.contains("opencode"));
            found.extend(Some(Destination::file("opencode.json")).filter(|_| is_named));
        }
        "gzip" | "gunzip" | "bunzip2" | "unxz" | "zstd" | "unzstd" | "bzip2" | "xz" | "lz4" => {
            let unpacked = operands.iter().filter_map(|it| it.rsplit_once('.'));
            found.extend(unpacked.map(|(unpacked, _)| Destination::file(unpacked)));
        }
        "split" => {
            found.push(Destination::file(&format!("{}*", operands.get(1).map_or("x", String::as_str))))
        }
        "yq" if has_short(words, 'i') || words.iter().any(|it| it.text == "--inplace") => {
            found.extend(operands.iter().map(|it| Destination::file(it)));
        }
        "sqlite3" | "duckdb" => {
            found.extend(words[1..].iter().filter_map(exported_to));
            found.extend(operands.first().map(|it| Destination::file(it)));
        }
        "tar" | "gtar" | "bsdtar" if unpacked(name, words, &arguments).is_none() => {
            let archives = arguments.all.iter().filter(|it| matches!(it.option, Some("-f" | "--file")));
            let is_listed =
                has_short(words, 't') || words.get(1).is_some_and(|it| it.value().starts_with('t'));
            found.extend(archives.filter(|_| !is_listed).map(|it| Destination::file(&it.text)));
        }
        "git" if subcommand == "config" => {
            let is_file = |word: &Word| matches!(word.value(), "-f" | "--file");
            let given = words.windows(2).filter(|pair| is_file(&pair[0])).map(|pair| pair[1].text.as_str());
            let attached = words.iter().filter_map(|it| it.text.strip_prefix("--file="));
            found.extend(given.chain(attached).map(Destination::file));
        }
        "csplit" if arguments.that_are(&[What::Prefix]).next().is_none() => {
            found.push(Destination::file("xx*"));
        }
        "git" if subcommand == "bundle" && words.get(2).is_some_and(|verb| verb.value() == "create") => {
            found.extend(
                words[3..].iter().find(|it| !it.text.starts_with('-')).map(|it| Destination::file(&it.text)),
            );
        }
        "git" if subcommand == "worktree" && words.get(2).is_some_and(|verb| verb.value() == "add") => {
            found.extend(
                words[3..]
                    .iter()
                    .filter(|it| !it.text.starts_with('-'))
                    .map(|it| Destination::tree(&it.text)),
            );
        }
        "git" if subcommand == "merge-file" => {
            found.extend(
                words[2..].iter().find(|it| !it.text.starts_with('-')).map(|it| Destination::file(&it.text)),
            );
        }
        _other => {}
    }
    found.retain(|destination| !destination.text.is_empty() && destination.text != "-");
    found
}

/// The directory that a command fills with what an archive, a patch or a repository holds.
fn unpacked(name: &str, words: &[Word], arguments: &Arguments) -> Option<String> {
    let has_long =
        |texts: &[&str]| words[1..].iter().any(|it| texts.iter().any(|long| it.text.starts_with(long)));
    let first = words.get(1).map(Word::value).unwrap_or_default();
    let verb = words.get(2).map(Word::value).unwrap_or_default();
    let is_unpacking = match name {
        "tar" | "gtar" | "bsdtar" => {
            let is_old = !first.is_empty() && !first.starts_with('-') && first.contains('x');
            is_old || has_short(words, 'x') || has_long(&["--ext", "--get"])
        }
        "unzip" => !['l', 't', 'p', 'Z', 'v', 'z'].iter().any(|letter| has_short(words, *letter)),
        "7z" | "7za" | "7zr" | "7zz" | "unrar" | "rar" | "ar" => first.starts_with(['x', 'e']),
        _python if name.starts_with("python") => {
            let module = words.windows(2).find(|pair| pair[0].value() == "-m").map(|pair| pair[1].value());
            matches!(module, Some("zipfile" | "tarfile")) && has_long(&["-e", "--extract"])
        }
        "jar" => first.trim_start_matches('-').starts_with('x') || has_long(&["--ext"]),
        "cpio" | "pax" => {
            ['i', 'p', 'r'].iter().any(|letter| has_short(words, *letter)) || has_long(&["--ext", "--pass"])
        }
        "unar" | "dtrx" | "atool" | "aunpack" => true,
        "patch" => arguments.operands.is_empty() && !has_long(&["--dry-run"]),
        "git" => {
            matches!((first, verb), ("clone" | "am", _))
                || (first == "apply" && !has_long(&["--check", "--stat", "--numstat"]))
        }
        "gh" => matches!((first, verb), ("repo" | "gist", "clone") | ("release" | "run", "download")),
        "svn" => matches!(first, "co" | "checkout" | "export" | "up" | "update"),
        "hg" => matches!(first, "clone" | "pull"),
        "docker" | "podman" | "kubectl" => first == "cp",
        "aws" => first == "s3",
        "gsutil" => matches!(first, "cp" | "rsync" | "mv"),
        "rclone" => matches!(first, "copy" | "sync" | "copyto" | "move" | "moveto" | "bisync"),
        _other => false,
    };
    if !is_unpacking {
        return None;
    }
    if name == "git" && first == "clone" {
        let url = arguments.operands.first()?;
        let own = base_name(url.trim_end_matches(['/', '"', '\''])).trim_end_matches(".git").to_owned();
        return Some(arguments.operands.get(1).cloned().unwrap_or(own));
    }
    if matches!(name, "svn" | "hg" | "docker" | "podman" | "kubectl" | "aws" | "gsutil" | "rclone")
        || name.starts_with("python")
    {
        let last = words[1..].iter().rev().find(|it| !it.text.starts_with('-') && !it.text.contains("://"));
        return last.map(|it| it.text.clone());
    }
    let given = arguments.that_are(&[What::Tree]).last().map(str::to_owned);
    Some(given.unwrap_or_else(|| ".".to_owned()))
}

/// `.output FILE`, `.once FILE` for `sqlite3`.
fn exported_to(word: &Word) -> Option<Destination> {
    let rest = word.value().trim_start().strip_prefix(".o")?;
    Some(Destination::file(rest.split_whitespace().nth(1)?.trim_matches(['"', '\''])))
}

fn has_short(words: &[Word], letter: char) -> bool {
    let is_it = |word: &Word| {
        word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(letter)
    };
    words[1..].iter().any(is_it)
}

fn downloaded(url: &str, directory: &str) -> [Destination; 2] {
    let own = base_name(url.trim_matches(['"', '\'']));
    [Destination::file(own), Destination::named_by(directory, url)]
}

/// What a command takes away, or lets be reached by another name.
fn removed(name: &str, words: &[Word]) -> Vec<Destination> {
    let subcommand = words.get(1).map(Word::value).unwrap_or_default();
    if name == "find" && words.iter().any(|it| it.value() == "-delete") {
        return files::found(words).iter().map(|it| Destination::removed(it, false)).collect();
    }
    let has_long = |start: &str| words.iter().any(|it| it.value().starts_with(start));
    let from = match (name, subcommand) {
        ("rm" | "unlink" | "rmdir" | "chmod", _) => 1,
        ("git", "rm" | "mv") => 2,
        // Archivers that take away what they have packed.
        ("tar", _) if has_long("--rem") => 1,
        ("zip", _) if has_short(words, 'm') || has_long("--mov") => 1,
        _other => return Vec::new(),
    };
    let mut is_behind = false;
    let mut operands: Vec<&Word> = Vec::new();
    for word in words.iter().skip(from) {
        is_behind |= word.value() == "--";
        if (is_behind && word.value() != "--") || !word.text.starts_with('-') {
            operands.push(word);
        }
    }
    let n_modes = usize::from(name == "chmod");
    let found = operands.into_iter().skip(n_modes);
    found.map(|word| Destination::removed(&word.text, name != "chmod")).collect()
}

/// Files that an awk script prints to.
fn printed_to(script: &str) -> impl Iterator<Item = Destination> + '_ {
    let names =
        script.split('>').skip(1).filter_map(|rest| rest.trim_start_matches(['>', ' ']).strip_prefix('"'));
    names.filter_map(|rest| Some(Destination::file(rest.split_once('"')?.0)))
}

/// Links by name that a command makes: what they are called, and where they lead.
pub fn links(name: &str, words: &[Word]) -> Vec<(String, String)> {
    if name != "ln" || !(has_short(words, 's') || words.iter().any(|it| it.value() == "--symbolic")) {
        return Vec::new();
    }
    let text = |it: &String| super::command::path_of(it).unwrap_or_default();
    let operands: Vec<String> = options::arguments(name, words).operands.iter().map(text).collect();
    let (targets, link) = match operands.split_last() {
        Some((link, [])) => (vec![link.clone()], base_name(link).to_owned()),
        Some((link, targets)) => (targets.to_vec(), link.clone()),
        None => return Vec::new(),
    };
    let mut found = Vec::new();
    for target in targets.iter().filter(|it| !it.is_empty()) {
        // In a directory it is called what its target is called; relative ones begin where the link is.
        let inside = format!("{link}/{}", base_name(target));
        for link in [link.clone(), inside] {
            let place = link.rsplit_once('/').map_or(String::new(), |(place, _)| place.to_owned());
            found.push((link, super::command::below(&place, target)));
        }
    }
    found
}

/// What `cp`, `mv`, `ln` and their like make.
fn copied(name: &str, words: &[Word], operands: &[String], target: Option<&str>) -> Vec<Destination> {
    let has_recursive = || ['r', 'R', 'a'].into_iter().any(|letter| has_short(words, letter));
    let is_tree = matches!(name, "ln" | "mv" | "rsync" | "ditto" | "scp")
        || has_recursive()
        || words.iter().any(|it| it.text.starts_with("--r"));
    let has_long = |texts: &[&str]| words[1..].iter().any(|it| texts.contains(&it.value()));
    // The target itself is what the source is; or the source's whole path is made below it.
    let is_whole = has_short(words, 'T') || has_long(&["--no-target-directory", "--parents", "--relative"]);
    let is_whole =
        (is_whole && name != "rsync" && name != "scp") || (name == "rsync" && has_short(words, 'R'));
    let is_link = (name == "ln" && !has_short(words, 's') && !has_long(&["--symbolic"]))
        || (name == "cp" && (has_short(words, 'l') || has_long(&["--link"])));
    let mut found = Vec::new();
    // `host:path` is elsewhere.
    let is_remote = |it: &str| matches!(name, "scp" | "rsync") && it.contains(':');
    let (sources, target) = match (target, operands.split_last()) {
        (Some(target), Some(_)) => (operands, target),
        // Sources come from elsewhere.
        (Some(target), None) => {
            found.extend([
                Destination::tree(target),
                Destination { is_tree, ..Destination::named_by(target, "*") },
            ]);
            return found;
        }
        (None, Some((target, sources))) if !sources.is_empty() => {
            found.push(Destination { is_tree, ..Destination::file(target) });
            (sources, target.as_str())
        }
        (None, Some(_)) if name == "ln" => (operands, "."),
        (None, _) => return found,
    };
    if is_whole {
        found.push(Destination { is_tree, is_open: true, ..Destination::file(target) });
    }
    if name == "mv" {
        found.extend(sources.iter().map(|it| Destination::removed(it, true)));
    }
    // Another name of the same file: what is written there is written here.
    let linked = sources.iter().filter(|_| is_link);
    let linked: Vec<Destination> =
        linked.map(|it| Destination { is_link: true, ..Destination::removed(it, false) }).collect();
    for source in sources {
        // What lies below is copied, whatever it is called.
        let holds = |it: &str| it.ends_with("/.") || it == "." || (name == "rsync" && it.ends_with('/'));
        if is_tree && holds(source.trim_matches(['"', '\''])) {
            found.push(Destination::open(target));
            continue;
        }
        let source = source.trim_end_matches('/');
        let base = base_name(source.trim_matches(['"', '\'']));
        let base = if is_remote(source) { base.rsplit(':').next().unwrap_or(base) } else { base };
        // A source that is not known leaves it open what it is called.
        match source.contains(['$', '`', '*', '?', '[', '{']) {
            true => found.extend([
                Destination::tree(target),
                Destination { is_tree, ..Destination::named_by(target, source) },
            ]),
            false => found.push(Destination { is_tree, ..Destination::file(&format!("{target}/{base}")) }),
        }
    }
    found.iter_mut().for_each(|it| it.is_link = name == "ln");
    found.extend(linked);
    found.retain(|it: &Destination| !is_remote(&it.text) || it.text.starts_with('.'));
    found
}

/// What a path or URL is called, with a star in the place of what only running would tell.
pub fn name_of(written: &str) -> String {
    let text = written.replace("{}", "*");
    let text = text.trim_end_matches(['"', '\'', '/']);
    let (mut at, mut known_from) = (0, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '*');
        let len = match rest.as_bytes() {
            [b'$', b'(' | b'{' | b'[', ..] | [b'`', ..] => scan::expansion_len(rest).max(1),
            [b'$', ..] => 1 + rest[1..].find(|c| !is_name(c)).unwrap_or(rest.len() - 1),
            _other => {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            }
        };
        at += len;
        known_from = at;
    }
    let known = text.get(known_from..).unwrap_or_default();
    let known = known.replace(['"', '\'', '\\'], "");
    let name = match known.rsplit_once('/') {
        Some((_, name)) => name.to_owned(),
        None if known_from > 0 => format!("*{known}"),
        None => known,
    };
    if matches!(name.as_str(), "" | "." | "..") || name.contains('{') { "*".to_owned() } else { name }
}

/// Whether git runs what is written there, or what it says: hooks, settings, and all that a repository is made of.
pub fn is_gits(path: &str, is_tree: bool) -> bool {
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
pub fn is_likely_gits(written: &str, is_tree: bool) -> bool {
    const WAYS: [&str; 6] =
        ["rev-parse", "git-dir", "git-common-dir", "git-path", "GIT_DIR", "GIT_COMMON_DIR"];
    let text = written.replace(['"', '\'', '\\'], "");
    let asks_git = WAYS.iter().any(|way| text.contains(way));
    let is_named = text.contains("config") || text.contains("hooks") || is_tree;
    (asks_git && is_named) || is_gits(&text, is_tree)
}
