//! Programs that run commands or code given in their arguments, in ways of their own.

use super::{
    options::{self, Argument, Arguments, Operands, What},
    sed,
    word::Word,
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
];

/// Programs that take commands from standard input, some of which run others.
pub const OBEDIENT: [&str; 15] = [
    "sqlite3", "psql", "mysql", "mariadb", "ftp", "lftp", "m4", "gdb", "lldb", "gnuplot", "ex", "vi", "vim",
    "nvim", "view",
];

/// Whether a program that takes commands runs something for this text.
pub fn is_obeyed(name: &str, text: &str) -> bool {
    let lower = text.to_lowercase();
    let marks: &[&str] = match name {
        "sqlite3" => &[".sh", ".sy", "edit(", "load_extension", ".load", "|", ".read"],
        "psql" => &["\\!", "program", "\\o", "\\g", "\\w", "`"],
        "mysql" | "mariadb" => &["\\!", "system", "source", "\\.", "pager", "edit"],
        "ftp" | "lftp" => &["!", "shell"],
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
    let arguments = options::arguments(name, words);
    let operands = options::program_of(name, words).map(|(program, _)| program.operands);
    let found = match name {
        "awk" | "gawk" | "mawk" | "nawk" => awk(words),
        "sed" | "gsed" => match sed::script(words).map(|script| script.is_plain) {
            Some(true) => Inner::None,
            Some(false) | None => Inner::Unknowable,
        },
        "ssh" | "autossh" => ssh(words),
        "socat" => {
            let runs = |it: &str| {
                let it = it.to_lowercase();
                it.contains("exec:") || it.contains("system:")
            };
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
        }
        // Each operand is a command line.
        "hyperfine" | "concurrently" | "pee" | "mispipe" => {
            let operands = words[1..].iter().filter(|word| !word.text.starts_with('-'));
            match operands.map(|word| word.literal.clone()).collect::<Option<Vec<String>>>() {
                Some(texts) if texts.is_empty() => Inner::None,
                Some(texts) => Inner::Texts(texts),
                None => Inner::Unknowable,
            }
        }
        "direnv" | "rustup"
            if words.get(1).is_some_and(|it| matches!(it.value(), "exec" | "run")) && words.len() > 3 =>
        {
            Inner::Words(vec![(3, words.len())])
        }
        "cargo" => {
            let runs = |it: &str| it.starts_with("--config") || it == "watch";
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
        }
        // What they run stands somewhere among their own options.
        "abduco" | "alacritty" | "bwrap" | "byobu" | "capsh" | "cgexec" | "cpulimit" | "daemonize"
        | "dtach" | "gnome-terminal" | "kitty" | "konsole" | "launchctl" | "mosh" | "mpiexec" | "mpirun"
        | "pssh" | "rr" | "srun" | "start-stop-daemon" | "systemd-nspawn" | "watchexec" | "xterm"
        | "sched" | "zpty"
            if words.len() > 1 =>
        {
            Inner::Unknowable
        }
        "print" if has(words, |it| it.starts_with('-') && it.contains('z')) => Inner::Unknowable,
        "sftp" if has(words, |it| it.starts_with("-D")) => Inner::Unknowable,
        "scp" | "sftp" => match has(words, |it| it.starts_with("-S") || it.starts_with("-o")) {
            true => Inner::Unknowable,
            false => Inner::None,
        },
        "vim" | "vi" | "nvim" | "view" | "ex" | "vimdiff" | "less" | "more" => {
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
        "emacs" => match has(words, |it| {
            ["eval", "execute", "funcall", "load", "script"]
                .iter()
                .any(|option| it.trim_start_matches('-').starts_with(option))
                || matches!(it, "-f" | "-l")
        }) {
            true => Inner::Unknowable,
            false => Inner::None,
        },
        "gdb" | "lldb" if words.iter().any(|word| matches!(word.value(), "--args" | "-args")) => {
            let at = words.iter().position(|word| matches!(word.value(), "--args" | "-args"));
            Inner::Words(at.map(|at| (at + 1, words.len())).into_iter().collect())
        }
        "gdb" | "lldb" => {
            let runs = |it: &str| {
                it.starts_with("-ex") || it.starts_with("--ex") || it.starts_with("--eval") || it == "-o"
            };
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
        }
        "sqlite3" => {
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
        "psql" | "mysql" | "mariadb" | "ftp" => {
            let runs =
                |it: &str| [".shell", ".system", "\\!", "system "].iter().any(|command| it.contains(command));
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
        }
        "make" | "gmake" => {
            let is_known = |word: Option<&Word>| {
                word.is_none_or(|it| it.literal.as_deref().is_some_and(|it| !is_stdin(it)))
            };
            // Long options may be abbreviated.
            let is_file = |option: &str| {
                option.len() > 2 && ["--file", "--makefile"].iter().any(|it| it.starts_with(option))
            };
            let mut files =
                words.iter().enumerate().filter(|(_, word)| word.value() == "-f" || is_file(word.value()));
            if !files.all(|(idx, _)| is_known(words.get(idx + 1))) {
                return Some(Inner::Unknowable);
            }
            let runs = |it: &str| {
                let (option, value) = it.split_once('=').unwrap_or((it, ""));
                let attached = it.strip_prefix("-f").or(is_file(option).then_some(value));
                it.starts_with("--ev")
                    || it.starts_with("-E")
                    || it.starts_with("SHELL=")
                    || it == "-"
                    || attached.is_some_and(|file| file == "-" || is_stdin(file))
                    || it.contains("$(shell")
            };
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
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
        "tmux" => {
            let runs = |it: &str| {
                it.starts_with("new")
                    || it.ends_with("-window")
                    || it.ends_with("-pane")
                    || matches!(
                        it,
                        "send-keys"
                            | "send"
                            | "run-shell"
                            | "run"
                            | "if-shell"
                            | "if"
                            | "-X"
                            | "-c"
                            | "pipep"
                            | "popup"
                            | "display-popup"
                            | "neww"
                            | "splitw"
                            | "respawnp"
                            | "respawnw"
                    )
            };
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
        }
        // They read commands, or take them up again.
        "at" | "batch" | "crontab" | "ed" | "fc" | "compgen" => Inner::Unknowable,
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

/// What the values of options run.
pub fn options_run(arguments: &Arguments) -> Inner {
    if arguments.that_are(&[What::Unknowable]).next().is_some() {
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

/// `python3.12` is a `python`, `gcc-12` a `gcc`.
pub fn is_version_of(name: &str, known: &str) -> bool {
    let version = name.strip_prefix(known).map(|it| it.strip_prefix('-').unwrap_or(it));
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
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
    let tells = |it: &Word| matches!(it.value(), "--version" | "-V" | "--help" | "-version");
    if words.get(1).is_some_and(|it| tells(it) || (words.len() == 2 && matches!(it.value(), "-v" | "-h"))) {
        return Inner::None;
    }
    // Code, or a module that stands in the line itself.
    let is_code = |it: &Argument| it.what == What::Unknowable || it.text.contains("data:");
    if arguments.all.iter().any(is_code) {
        return Inner::Unknowable;
    }
    let script = arguments.all.iter().find(|it| it.what == What::Code && it.option.is_none());
    let script_at = script.and_then(|script| words.iter().position(|word| word.text == script.text));
    let before = &words[1..script_at.unwrap_or(words.len())];
    if let Some(module) = arguments.that_are(&[What::Module]).next() {
        let is_runner = PYTHON_RUNNERS.contains(&module) || module.contains(['$', '`']);
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

fn runner(words: &[Word]) -> Inner {
    if let Some(at) = words.iter().position(|word| word.value() == "--") {
        return if at + 1 < words.len() { Inner::Words(vec![(at + 1, words.len())]) } else { Inner::None };
    }
    match words.get(2).map(|word| word.value()) {
        None => Inner::None,
        // Which words are values of its options only the runner knows.
        Some(option) if option.starts_with('-') => Inner::Unknowable,
        Some(_command) => Inner::Words(vec![(2, words.len())]),
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

fn awk(words: &[Word]) -> Inner {
    let mut idx = 1;
    while let Some(word) = words.get(idx) {
        let Some(literal) = word.literal.as_deref() else { return Inner::Unknowable };
        match literal {
            "-F" | "-v" | "--assign" | "--field-separator" => idx += 2,
            // A script file is known by its name.
            "-f" | "--file" => match words.get(idx + 1).map(Word::value) {
                Some("" | "-") | None => return Inner::Unknowable,
                Some(script) if is_stdin(script) => return Inner::Unknowable,
                Some(_) => return Inner::None,
            },
            "-e" | "--source" | "-i" | "-l" | "--include" | "--load" | "-E" | "--exec" => {
                return Inner::Unknowable;
            }
            "--" => {
                idx += 1;
                break;
            }
            option if option.starts_with('-') && option.len() > 1 => idx += 1,
            _program => break,
        }
    }
    let Some(program) = words.get(idx) else { return Inner::None };
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
