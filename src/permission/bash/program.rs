//! Programs that run commands or code given in their arguments, in ways of their own.

use super::{
    marks,
    options::{self, Argument, Arguments, Operands, What},
    sed, values,
    word::{Word, base_name},
    wrapper::{Inner, is_stdin},
};

/// Modules of Python that run code given in their arguments or on standard input.
const PYTHON_RUNNERS: [&str; 5] = ["timeit", "pdb", "code", "profile", "cProfile"];

/// `NAME SUBCOMMAND [command…]`.
const RUNNERS: &[(&str, &str)] = &[
    ("asdf", "exec"),
    ("aws-vault", "exec"),
    ("bun", "x"),
    ("bundle", "exec"),
    ("chamber", "exec"),
    ("conda", "run"),
    ("doppler", "run"),
    ("mise", "exec"),
    ("mise", "x"),
    ("nodenv", "exec"),
    ("npm", "exec"),
    ("npm", "x"),
    ("op", "run"),
    ("pdm", "run"),
    ("perf", "record"),
    ("perf", "stat"),
    ("perf", "trace"),
    ("pipenv", "run"),
    ("pipx", "run"),
    ("pnpm", "dlx"),
    ("pnpm", "exec"),
    ("poetry", "run"),
    ("pyenv", "exec"),
    ("rbenv", "exec"),
    ("rye", "run"),
    ("uv", "run"),
    ("cabal", "exec"),
    ("fnm", "exec"),
    ("foreman", "run"),
    ("hatch", "run"),
    ("honcho", "run"),
    ("infisical", "run"),
    ("mamba", "run"),
    ("micromamba", "run"),
    ("nvm", "exec"),
    ("opam", "exec"),
    ("pixi", "run"),
    ("stack", "exec"),
    ("teller", "run"),
    ("tox", "exec"),
    ("volta", "run"),
    ("yarn", "dlx"),
    ("yarn", "exec"),
    ("buildah", "unshare"),
    ("composer", "exec"),
    ("composer", "run-script"),
    ("flatpak", "run"),
    ("gprofng", "collect"),
    ("lerna", "exec"),
    ("podman", "unshare"),
    ("spack", "build-env"),
    ("toolbox", "run"),
    ("uvx", "run"),
    ("xdotool", "exec"),
];

/// Programs that take commands from standard input, some of which run others.
#[rustfmt::skip]
pub const OBEDIENT: [&str; 32] = [
    "sqlite3", "duckdb", "psql", "usql", "pgcli", "mysql", "mariadb", "mycli", "ftp", "tnftp", "lftp", "sftp", "ncftp", "smbclient", "telnet", "m4",
    "gdb", "lldb", "gnuplot", "ex", "vi", "vim", "nvim", "view", "rvim", "rview", "dc", "mail", "mailx", "gp", "tdbtool", "debugfs",
];

/// Whether a program that takes commands runs something for this text.
pub fn is_obeyed(name: &str, text: &str) -> bool {
    let lower = text.to_lowercase();
    let marks: &[&str] = match name {
        "sqlite3" | "duckdb" => &[".sh", ".sy", "edit(", "load_extension", ".load", "|", ".read"],
        "psql" | "usql" | "pgcli" => &["\\!", "program", "\\o", "\\g", "\\w", "`"],
        "mysql" | "mariadb" | "mycli" => &["\\!", "system", "source", "\\.", "pager", "edit"],
        "dc" => &["!"],
        "mail" | "mailx" => &["~"],
        "ftp" | "tnftp" | "lftp" | "sftp" | "ncftp" | "smbclient" | "telnet" | "gp" | "tdbtool"
        | "debugfs" => &["!", "shell"],
        "m4" => &["sys"],
        "gnuplot" => &["system", "!", "`", "<", "|"],
        _debugger => &[""],
    };
    marks.iter().any(|mark| lower.contains(mark))
}

/// What runs besides the program itself; `None` when this module knows nothing of it.
pub fn inner(name: &str, words: &[Word]) -> Option<Inner> {
    let subcommand = words.get(1).map(Word::value).unwrap_or_default();
    if RUNNERS.iter().any(|(known, runs)| name == *known && subcommand == *runs) {
        return Some(runner(words));
    }
    if marks::runs_unknown(name, words) {
        return Some(Inner::Unknowable);
    }
    let arguments = options::arguments(name, words);
    let program = options::program_of(name, words).map(|(program, _)| program);
    let operands = program.map(|it| it.operands);
    // The first letters of `tar` need no dash.
    let is_bundle_unknown = matches!(name, "tar" | "bsdtar")
        && words.get(1).is_some_and(|it| it.literal.is_none() && !it.option_text().starts_with('-'));
    if is_bundle_unknown || may_give_options(name, words, &arguments) {
        return Some(Inner::Unknowable);
    }
    let found = match name {
        "awk" | "gawk" | "mawk" | "nawk" => awk(&arguments),
        "sed" | "gsed" => match sed::script(words).map(|script| script.is_plain) {
            Some(true) => Inner::None,
            Some(false) | None => Inner::Unknowable,
        },
        "ssh" | "autossh" => ssh(words),
        // Each operand is a command line.
        "hyperfine" | "concurrently" | "pee" | "mispipe" | "cross-env-shell" | "run-p" | "run-s" => {
            let texts = words[1..].iter().map(|word| match word.literal.as_deref() {
                Some(option) if option.starts_with('-') => {
                    Some(option.split_once('=').map(|it| it.1.to_owned()))
                }
                literal => literal.map(|it| Some(it.to_owned())),
            });
            let texts: Option<Vec<Option<String>>> = texts.collect();
            match texts.map(|texts| texts.into_iter().flatten().collect::<Vec<String>>()) {
                Some(texts) if texts.is_empty() => Inner::None,
                Some(texts) => Inner::Texts(texts),
                None => Inner::Unknowable,
            }
        }
        "npm" | "pnpm" if subcommand == "explore" => explored(words),
        "cmake" => cmake(words).unwrap_or(Inner::None),
        "rename" | "prename" | "file-rename" | "perl-rename" => renaming(words),
        "service" if subcommand.contains('/') => Inner::Words(vec![(1, words.len())]),
        "direnv" | "rustup"
            if words.get(1).is_some_and(|it| matches!(it.value(), "exec" | "run")) && words.len() > 3 =>
        {
            Inner::Words(vec![(3, words.len())])
        }
        "vim" | "vi" | "nvim" | "view" | "ex" | "vimdiff" | "gvim" | "gvimdiff" | "rvim" | "rview"
        | "rgvim" | "evim" | "eview" | "less" | "more" => {
            let is_editor = !matches!(name, "less" | "more");
            let runs = |it: &str| {
                let is_cluster = it.starts_with('-') && !it.starts_with("--");
                (is_editor && (it == "--cmd" || (is_cluster && it.contains(['c', 'S', 's', 'l']))))
                    || it.strip_prefix('+').is_some_and(|line| {
                        !matches!(line, "" | "G" | "F" | "g") && line.parse::<u64>().is_err()
                    })
            };
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
        }
        "gdb" | "lldb" if words.iter().any(|word| matches!(word.value(), "--args" | "-args")) => {
            let at = words.iter().position(|word| matches!(word.value(), "--args" | "-args"));
            Inner::Words(at.map(|at| (at + 1, words.len())).into_iter().collect())
        }
        "sqlite3" | "duckdb" => {
            if has(words, |it| it.lines().any(runs_in_sqlite)) {
                Inner::Unknowable
            } else {
                Inner::None
            }
        }
        "apt" | "apt-get" | "apt-cache" | "aptitude" => {
            let runs = |it: &str| {
                let it = it.to_lowercase();
                let marks =
                    ["invoke", "dir::", "install-pkgs", "command", "auto-detect", "::solver", "::planner"];
                (it.contains("::") && marks.iter().any(|mark| it.contains(mark)))
                    || it.starts_with("-c")
                    || it.starts_with("--config-file")
            };
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
        }
        // A file of rules that is computed, or read from standard input.
        "make" => {
            let is_known = |text: &str| Word::new(text).literal.is_some_and(|it| it != "-" && !is_stdin(&it));
            let is_given = |it: &Word| it.text == "-";
            match arguments.that_are(&[What::Code]).all(is_known) && !words.iter().any(is_given) {
                true => Inner::None,
                false => Inner::Unknowable,
            }
        }
        "screen" => screen(words),
        "ansible" => {
            let module = words.iter().position(|word| matches!(word.value(), "-m" | "--module-name"));
            let module = module.and_then(|at| words.get(at + 1)).map(Word::value);
            match module {
                None | Some("" | "shell" | "command" | "raw" | "script" | "expect") => ansible(words),
                Some(_other) => Inner::None,
            }
        }
        "dotenv" => {
            let mut idx = 1;
            while words.get(idx).is_some_and(|word| word.text.starts_with('-') && word.text != "--") {
                idx += 1 + usize::from(matches!(words[idx].value(), "-e" | "-f" | "-q" | "-p" | "--file"));
            }
            match words.get(idx).map(Word::value) {
                None | Some("list" | "get" | "set" | "unset") => Inner::None,
                Some("--" | "run") => {
                    let is_dashed = words.get(idx + 1).is_some_and(|word| word.text == "--");
                    Inner::Words(vec![(idx + 1 + usize::from(is_dashed), words.len())])
                }
                Some(_command) => Inner::Words(vec![(idx, words.len())]),
            }
        }
        // Subscripts in their arguments are evaluated, substitutions in them too.
        "let" | "declare" | "typeset" | "local" | "readonly" | "test" | "[" | "unset" | "wait" | "read"
        | "getopts" => {
            let runs = |it: &str| it.contains("$(") || it.contains('`');
            if words[1..].iter().any(|word| word.literal.as_deref().is_some_and(runs)) {
                Inner::Unknowable
            } else {
                Inner::None
            }
        }
        _ if RUNNERS.iter().any(|(known, _)| name == *known) && subcommand.starts_with('-') => {
            // Which words are values of its options only the runner knows.
            match words.iter().any(|word| RUNNERS.contains(&(name, word.value()))) {
                true => Inner::Unknowable,
                false => Inner::None,
            }
        }
        "nix" => match words.iter().position(|word| matches!(word.value(), "-c" | "--command" | "--run")) {
            Some(at) if at + 1 < words.len() => Inner::Words(vec![(at + 1, words.len())]),
            Some(_) => Inner::Stdin,
            None => Inner::None,
        },
        _other if operands == Some(Operands::Script) => match options_run(&arguments) {
            Inner::None => interpreter(words, &arguments),
            found => found,
        },
        _other => options_run(&arguments),
    };
    Some(if found == Inner::None { options_run(&arguments) } else { found })
}

/// Whether names of files, or what is read, may be options that run something: those of the words that it would take
/// for options.
pub fn exposed(name: &str, words: &[Word]) -> Vec<String> {
    // A script may be an option's value, and scripts run commands.
    let is_sed = matches!(name, "sed" | "gsed");
    let runs =
        options::program_of(name, words).is_some_and(|(program, _)| is_sed || program.runs_by_options());
    // Nothing behind the program's text is an option of it.
    let is_first_only = matches!(name, "awk" | "gawk" | "mawk" | "nawk");
    // What `find` runs stands in words of its own, which the end of a glob may rule out.
    const ACTIONS: [&str; 8] =
        ["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls"];
    let may_match = |word: &String| {
        let end = word.rsplit(['*', '?', ']', ')']).next().unwrap_or_default();
        name != "find" || word.contains('$') || ACTIONS.iter().any(|action| action.ends_with(end))
    };
    let exposed = options::arguments(name, words).exposed.into_iter().filter(|it| runs && may_match(it));
    exposed.take(if is_first_only { 1 } else { usize::MAX }).collect()
}

/// Whether a computed word may be an option that runs something.
pub fn may_give_options(name: &str, words: &[Word], arguments: &Arguments) -> bool {
    let Some((program, _)) = options::program_of(name, words) else { return false };
    program.runs_by_options()
        && (arguments.exposed.iter().any(|it| values::may_be_option(it))
            || words.iter().any(|word| program.is_option_unknown(word)))
}

/// What the values of options run.
pub fn options_run(arguments: &Arguments) -> Inner {
    if arguments.that_are(&[What::Unknowable, What::Settings]).next().is_some() {
        return Inner::Unknowable;
    }
    // Other checkpoint actions (`dot`, `echo=…`) run nothing.
    let runs = |it: &&Argument| {
        it.what == What::Shell && (it.option != Some("--checkpoint-action") || it.text.contains("exec="))
    };
    let text_of = |it: &Argument| {
        let text = Word::new(&it.text).literal?;
        Some(text.strip_prefix("exec=").map(str::to_owned).unwrap_or(text))
    };
    let texts: Option<Vec<String>> = arguments.all.iter().filter(runs).map(text_of).collect();
    match texts {
        Some(texts) if texts.is_empty() => Inner::None,
        Some(texts) => Inner::Texts(texts),
        None => Inner::Unknowable,
    }
}

/// `tar cfI FILE PROGRAM …` with its letters as options of their own.
pub fn unbundled(name: &str, words: &[Word]) -> Option<Vec<Word>> {
    let letters = words.get(1).map(Word::value).filter(|it| !it.is_empty() && !it.starts_with('-'))?;
    if !matches!(name, "tar" | "gtar" | "bsdtar") {
        return None;
    }
    let mut behind = words[2..].iter();
    let mut acc = vec![words[0].clone()];
    for letter in letters.chars() {
        acc.push(Word::quoted(&format!("-{letter}")));
        if "bCfFgHIKLNTVX".contains(letter) {
            acc.extend(behind.next().cloned());
        }
    }
    acc.extend(behind.cloned());
    Some(acc)
}

/// Whether a line for `sqlite3` runs something: commands begin with a point and may be abbreviated.
fn runs_in_sqlite(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    let Some(command) = line.strip_prefix('.') else {
        let packed: String = line.split_whitespace().collect();
        return packed.contains("edit(") || packed.contains("load_extension(");
    };
    let name = command.split_whitespace().next().unwrap_or_default();
    let is_short = |whole: &str| name.len() > 1 && whole.starts_with(name);
    ["shell", "system", "load", "excel", "www"].iter().any(|it| is_short(it))
        || command.contains('|')
        || (is_short("once") && command.contains(['-']))
}

/// Whether some argument is like this; one that begins with an expansion may be.
fn has(words: &[Word], is_like: impl Fn(&str) -> bool) -> bool {
    words[1..].iter().any(|word| match &word.literal {
        Some(literal) => is_like(literal),
        None => word.text.trim_start_matches('"').starts_with(['$', '`']),
    })
}

/// What an interpreter runs: a file, code in its arguments or from standard input.
fn interpreter(words: &[Word], arguments: &Arguments) -> Inner {
    let tells = |it: &Word| matches!(it.value(), "--version" | "-V" | "--help" | "-version" | "--test");
    if words.get(1).is_some_and(|it| tells(it) || (words.len() == 2 && matches!(it.value(), "-v" | "-h"))) {
        return Inner::None;
    }
    // Code, or a module that stands in the line itself.
    let is_code = |it: &Argument| it.what == What::Unknowable || it.text.contains("data:");
    if arguments.all.iter().any(is_code) {
        return Inner::Unknowable;
    }
    let script = arguments.all.iter().find(|it| it.what == What::Code && it.option.is_none());
    let script_at = script.and_then(|script| (1..words.len()).find(|&at| words[at].text == script.text));
    let before = &words[1..script_at.unwrap_or(words.len())];
    if let Some(module) = arguments.that_are(&[What::Module]).next() {
        let module = Word::new(module).literal;
        let is_runner = module.is_none_or(|it| PYTHON_RUNNERS.contains(&it.as_str()));
        return if is_runner { Inner::Unknowable } else { Inner::None };
    }
    if let Some(file) = arguments.that_are(&[What::CodeFirst]).next() {
        let is_known = Word::new(file).literal.is_some_and(|it| it != "-" && !is_stdin(&it));
        return if is_known { Inner::None } else { Inner::Unknowable };
    }
    if before.iter().any(|word| word.literal.is_none()) || before.iter().any(|word| word.text == "-") {
        return Inner::Unknowable;
    }
    match script_at {
        Some(at)
            if words[at].literal.is_none() || is_stdin(words[at].value()) || words[at].value() == "-" =>
        {
            Inner::Unknowable
        }
        Some(at) => Inner::Script(at),
        // Code from standard input.
        None => Inner::Unknowable,
    }
}

fn screen(words: &[Word]) -> Inner {
    let mut idx = 1;
    while let Some(word) = words.get(idx) {
        let Some(literal) = word.literal.as_deref() else { return Inner::Unknowable };
        match literal.strip_prefix('-') {
            Some("ls" | "list" | "wipe" | "v" | "r" | "x" | "R" | "RR") => return Inner::None,
            // Commands of its own, a file of them, another shell.
            Some("X" | "c" | "s") => return Inner::Unknowable,
            Some(options) if options.ends_with(['S', 't', 'p', 'e', 'h', 'T']) => idx += 2,
            Some(_options) => idx += 1,
            None => return Inner::Words(vec![(idx, words.len())]),
        }
    }
    Inner::None
}

/// Runners whose first operand says for whom or with what; the command stands behind `--`.
const NAMING: [&str; 12] = [
    "aws-vault",
    "chamber",
    "doppler",
    "flatpak",
    "infisical",
    "lerna",
    "mise",
    "op",
    "teller",
    "toolbox",
    "tox",
    "volta",
];

fn runner(words: &[Word]) -> Inner {
    let first = words.get(2).map(Word::value);
    let dashes = words.iter().position(|word| word.value() == "--");
    let names = words.first().is_some_and(|it| NAMING.contains(&base_name(it.value())));
    if let Some(at) = dashes.filter(|_| names || first.is_some_and(|it| it.starts_with('-'))) {
        return if at + 1 < words.len() { Inner::Words(vec![(at + 1, words.len())]) } else { Inner::None };
    }
    match first {
        None => Inner::None,
        // Which words are values of its options only the runner knows.
        Some(option) if option.starts_with('-') => Inner::Unknowable,
        // Put together to shell text.
        Some(text) if text.contains(char::is_whitespace) => Inner::Unknowable,
        Some(_command) => Inner::Words(vec![(2, words.len())]),
    }
}

/// `npm explore PACKAGE [-- command…]`.
fn explored(words: &[Word]) -> Inner {
    let from = 3 + usize::from(words.get(3).is_some_and(|word| word.value() == "--"));
    if words.len() > from { Inner::Words(vec![(from, words.len())]) } else { Inner::None }
}

/// `cmake -E env|time|chdir … command…`.
fn cmake(words: &[Word]) -> Option<Inner> {
    let at = words.iter().position(|word| word.value() == "-E")?;
    let mut from = match words.get(at + 1)?.value() {
        "chdir" => at + 3,
        "time" => at + 2,
        "env" => {
            let is_setting = |word: &Word| word.text.contains('=') || word.text.starts_with("--");
            at + 2 + words[at + 2..].iter().take_while(|word| is_setting(word)).count()
        }
        "" => return Some(Inner::Unknowable),
        _other => return None,
    };
    from += usize::from(words.get(from).is_some_and(|word| word.value() == "--"));
    Some(if from < words.len() { Inner::Words(vec![(from, words.len())]) } else { Inner::None })
}

/// A script for Perl's `rename`: Perl itself.
fn renaming(words: &[Word]) -> Inner {
    let is_flag = |word: &&Word| !word.text.starts_with('-') || word.text.starts_with("-e");
    let Some(script) = words[1..].iter().find(is_flag) else { return Inner::None };
    let is_plain = |script: &str| {
        let is_name = script.chars().all(|c| c.is_alphanumeric() || "._- ".contains(c));
        is_name
            || (sed::is_plain(script)
                && !["(?{", "(??{", "@{", "${", "`"].iter().any(|it| script.contains(it)))
    };
    match script.literal.as_deref() {
        Some(script) if !script.starts_with('-') && is_plain(script) => Inner::None,
        Some(_) | None => Inner::Unknowable,
    }
}

/// What `ansible -a` runs on other hosts.
fn ansible(words: &[Word]) -> Inner {
    let at = words.iter().position(|word| matches!(word.value(), "-a" | "--args"));
    match at.and_then(|at| words.get(at + 1)).map(|word| word.literal.clone()) {
        Some(Some(text)) => Inner::Texts(vec![text]),
        Some(None) => Inner::Unknowable,
        None if words.iter().any(|it| it.text.starts_with("-a") || it.text.starts_with("--a")) => {
            Inner::Unknowable
        }
        None => Inner::None,
    }
}

/// What runs on the other host, and what its options run on this one.
fn ssh(words: &[Word]) -> Inner {
    const VALUES: &str = "BbcDEeFIiJLlmOopQRSWw";
    let mut idx = 1;
    while let Some(word) = words.get(idx) {
        let Some(literal) = word.literal.as_deref() else { return Inner::Unknowable };
        if literal == "--" {
            idx += 1;
            break;
        }
        if !literal.starts_with('-') {
            break;
        }
        let value = literal.find(|c| VALUES.contains(c));
        let is_separate = value.is_some_and(|at| at + 1 == literal.len());
        if value.is_some_and(|at| literal[at..].starts_with(['o', 'F'])) {
            let next = words.get(idx + 1).map(Word::value).filter(|_| is_separate);
            let setting = format!("{literal} {}", next.unwrap_or_default()).to_lowercase();
            if ["command", "-f ", "include", "provider", "helper", "xauth"]
                .iter()
                .any(|it| setting.contains(it))
            {
                return Inner::Unknowable;
            }
        }
        if literal.contains('N') && !is_separate {
            return Inner::None;
        }
        idx += 1 + usize::from(is_separate);
    }
    let texts: Option<Vec<&str>> =
        words.get(idx + 1..).unwrap_or_default().iter().map(|word| word.literal.as_deref()).collect();
    match texts {
        None => Inner::Unknowable,
        Some(texts) if texts.is_empty() => Inner::Stdin,
        Some(texts) => Inner::Elsewhere(texts.join(" ")),
    }
}

fn awk(arguments: &Arguments) -> Inner {
    if arguments.that_are(&[What::Unknowable]).next().is_some() {
        return Inner::Unknowable;
    }
    // A script file is known by its name.
    if let Some(file) = arguments.that_are(&[What::CodeFirst]).next() {
        let is_known =
            Word::new(file).literal.is_some_and(|it| it != "-" && !it.is_empty() && !is_stdin(&it));
        return if is_known { Inner::None } else { Inner::Unknowable };
    }
    let Some(program) = arguments.operands.first().map(|it| Word::new(it)) else { return Inner::None };
    // `system(…)`, pipes, files that are written, and what calls functions by name.
    let is_plain = |program: &str| {
        let without = program.replace("||", "");
        let writes =
            |statement: &str| statement.split_once("print").is_some_and(|(_, printed)| printed.contains('>'));
        !["system", "|", "getline", "@"].iter().any(|it| without.contains(it))
            && !without.split(['{', '}', ';', '\n']).any(writes)
    };
    match program.literal.as_deref() {
        Some(program) if is_plain(program) => Inner::None,
        Some(_) | None => Inner::Unknowable,
    }
}
