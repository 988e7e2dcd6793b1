//! Programs that run commands or code given in their arguments, in ways of their own.

use super::{sed, word::Word, wrapper::Inner};

/// Interpreters, and the options whose value is code. Code can do anything.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("python", &["-c"]),
    ("pypy", &["-c"]),
    ("perl", &["-e", "-E", "-ne", "-pe", "-ie", "-i"]),
    ("ruby", &["-e", "-ne", "-pe"]),
    ("node", &["-e", "--eval", "-p", "--print", "-pe"]),
    ("bun", &["-e", "--eval", "-p", "--print", "eval"]),
    ("deno", &["eval"]),
    ("php", &["-r", "-B", "-R", "-E"]),
    ("lua", &["-e"]),
    ("luajit", &["-e"]),
    ("Rscript", &["-e"]),
    ("R", &["-e"]),
    ("julia", &["-e", "--eval", "-E", "--print"]),
    ("osascript", &["-e"]),
    ("tclsh", &["-"]),
    ("expect", &["-c"]),
    ("groovy", &["-e"]),
    ("scala", &["-e"]),
    ("elixir", &["-e", "--eval"]),
    ("erl", &["-eval"]),
    ("ghc", &["-e"]),
    ("guile", &["-c"]),
    ("jshell", &["-"]),
    ("ghci", &["-e"]),
    ("nu", &["-c", "--commands"]),
    ("elvish", &["-c"]),
    ("xonsh", &["-c"]),
    ("pwsh", &["-c", "-Command", "-EncodedCommand", "-e", "-ec"]),
    ("powershell", &["-c", "-Command", "-EncodedCommand", "-e", "-ec"]),
    ("dc", &["-e", "--expression"]),
    ("ipython", &["-c"]),
    ("irb", &["-e"]),
    ("pry", &["-e"]),
];

/// Options of interpreters whose value is the next word, and which are followed by others.
const INTERPRETER_VALUES: &[(&str, &[&str])] = &[
    ("python", &["-W", "-X"]),
    ("perl", &["-I"]),
    ("ruby", &["-r", "-I", "-C"]),
    ("node", &["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"]),
    ("bun", &["-r", "--preload"]),
    ("php", &["-c", "-d", "-z"]),
    ("lua", &["-l"]),
];

/// Modules of Python that run code given in their arguments or on standard input.
const PYTHON_RUNNERS: [&str; 5] = ["timeit", "pdb", "code", "profile", "cProfile"];

/// Options whose value is shell text or a program: short ones, long ones.
const VALUED: &[(&str, &[&str], &[&str])] = &[
    ("ack", &[], &["--pager"]),
    ("ag", &[], &["--pager"]),
    ("bat", &[], &["--pager"]),
    ("delta", &[], &["--pager"]),
    ("dpkg", &[], &["--pre-invoke", "--post-invoke", "--status-logger"]),
    ("emulate", &["-c"], &[]),
    ("fzf", &[], &["--preview", "--bind", "--reload"]),
    ("go", &[], &["-exec", "-toolexec", "-vettool", "--exec", "--toolexec", "--vettool"]),
    ("iptables", &[], &["--modprobe"]),
    ("man", &["-P", "-H"], &["--pager", "--html"]),
    ("nc", &["-e", "-c"], &[]),
    ("ncat", &["-e", "-c"], &["--exec", "--sh-exec", "--lua-exec"]),
    ("netcat", &["-e", "-c"], &[]),
    ("nix", &["-c"], &["--command"]),
    ("nix-shell", &[], &["--run", "--command"]),
    ("nodemon", &["-x"], &["--exec"]),
    ("rg", &[], &["--pre", "--hostname-bin"]),
    ("rsync", &["-e"], &["--rsh", "--rsync-path"]),
    ("sort", &[], &["--compress-program"]),
    ("split", &[], &["--filter"]),
    ("tcpdump", &["-z"], &[]),
    ("wget", &[], &["--use-askpass"]),
    ("zip", &["-TT"], &["--unzip-command"]),
];

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
    if let Some((known, options)) = INTERPRETERS.iter().find(|(known, _)| is_version_of(name, known)) {
        let values = INTERPRETER_VALUES.iter().find(|(it, _)| it == known);
        return Some(interpreter(words, options, values.map_or(&[], |it| it.1)));
    }
    if let Some((_, short, long)) = VALUED.iter().find(|(known, ..)| name == *known) {
        return Some(valued(words, short, long));
    }
    let found = match name {
        "awk" | "gawk" | "mawk" | "nawk" => awk(words),
        "sed" | "gsed" => match sed::script(words).map(|script| script.is_plain) {
            Some(true) => Inner::None,
            Some(false) | None => Inner::Unknowable,
        },
        "tar" | "gtar" | "bsdtar" if words.get(1).is_some_and(|it| !it.text.starts_with('-')) => {
            return inner(name, &unbundled(words));
        }
        "tar" | "gtar" | "bsdtar" => valued(
            words,
            &["-I", "-F"],
            &[
                "--to-command",
                "--use-compress-program",
                "--info-script",
                "--new-volume-script",
                "--rsh-command",
                "--checkpoint-action",
            ],
        ),
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
        "gcc" | "g++" | "cc" | "c++" | "clang" => {
            if has(words, |it| it == "-wrapper") {
                Inner::Unknowable
            } else {
                Inner::None
            }
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
                word.is_none_or(|it| it.literal.as_deref().is_some_and(|it| !super::wrapper::is_stdin(it)))
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
                    || attached.is_some_and(|file| file == "-" || super::wrapper::is_stdin(file))
                    || it.contains("$(shell")
            };
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
        }
        "screen" => screen(words),
        "ansible" => {
            let module = words.iter().position(|word| matches!(word.value(), "-m" | "--module-name"));
            let module = module.and_then(|at| words.get(at + 1)).map(Word::value);
            match module {
                None | Some("" | "shell" | "command" | "raw" | "script" | "expect") => {
                    valued(words, &["-a"], &["--args"])
                }
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
        "npm" | "pnpm" | "yarn" => {
            let runs = |it: &str| it == "-c" || it == "--call" || it.starts_with("--call=");
            if has(words, runs) { Inner::Unknowable } else { Inner::None }
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
        _other => return None,
    };
    Some(found)
}

/// `tar cfI FILE PROGRAM …` with its letters as options of their own.
fn unbundled(words: &[Word]) -> Vec<Word> {
    let mut behind = words[2..].iter();
    let mut acc = vec![words[0].clone()];
    for letter in words[1].literal.as_deref().unwrap_or_default().chars() {
        acc.push(Word::quoted(&format!("-{letter}")));
        if "bCfFgHIKLNTVX".contains(letter) {
            acc.extend(behind.next().cloned());
        }
    }
    acc.extend(behind.cloned());
    acc
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

/// `python3.12` is a `python`.
fn is_version_of(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Whether some argument is like this; one that begins with an expansion may be.
fn has(words: &[Word], is_like: impl Fn(&str) -> bool) -> bool {
    words[1..].iter().any(|word| match &word.literal {
        Some(literal) => is_like(literal),
        None => word.text.trim_start_matches('"').starts_with(['$', '`']),
    })
}

fn interpreter(words: &[Word], options: &[&str], values: &[&str]) -> Inner {
    let mut idx = 1;
    while let Some(word) = words.get(idx) {
        idx += 1;
        let Some(literal) = word.literal.as_deref() else { return Inner::Unknowable };
        // `-c`, `-Bc`, `--eval=…`.
        let is_code = options.iter().any(|option| {
            let is_cluster = option.len() == 2
                && literal.starts_with('-')
                && !literal.starts_with("--")
                && option
                    .chars()
                    .nth(1)
                    .is_some_and(|letter| letter.is_alphabetic() && literal.contains(letter));
            literal == *option || literal.starts_with(&format!("{option}=")) || is_cluster
        });
        if literal == "-v" && words.len() == 2 {
            return Inner::None;
        }
        // A module that stands in the line itself.
        let next = words.get(idx).map(Word::value).unwrap_or_default();
        let is_module =
            literal.contains("=data:") || (values.contains(&literal) && next.starts_with("data:"));
        if is_code || is_module || literal == "-" {
            return Inner::Unknowable;
        }
        if literal == "-m" && words.get(idx).is_some_and(|module| PYTHON_RUNNERS.contains(&module.value())) {
            return Inner::Unknowable;
        }
        idx += usize::from(values.contains(&literal));
        if literal == "-m" || literal == "--version" || literal == "-V" || literal == "--help" {
            return Inner::None;
        }
        if !literal.starts_with('-') {
            return if super::wrapper::is_stdin(literal) {
                Inner::Unknowable
            } else {
                Inner::Script(idx - 1)
            };
        }
    }
    // Code from standard input.
    Inner::Unknowable
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

/// Shell text in the values of these options. Long ones may be abbreviated.
pub fn valued(words: &[Word], short: &[&str], long: &[&str]) -> Inner {
    let mut texts = Vec::new();
    let mut idx = 1;
    while let Some(word) = words.get(idx) {
        idx += 1;
        let written = word.text.trim_start_matches(['"', '\'']);
        let name = written.split('=').next().unwrap_or_default();
        let is_long = |option: &&&str| {
            name == **option || (option.starts_with("--") && name.len() > 4 && option.starts_with(name))
        };
        let is_short = |option: &&&str| written.starts_with(**option) && !written.starts_with("--");
        // An option in a cluster (`-xzI prog`) takes the next word as well.
        let in_cluster = |option: &&&str| {
            option.len() == 2
                && written.len() > 2
                && !written.starts_with("--")
                && written.starts_with('-')
                && written.ends_with(&option[1..])
        };
        let value = if long.iter().any(|option| is_long(&option)) {
            match word.literal.as_deref().and_then(|literal| literal.split_once('=')) {
                Some((_, value)) => Some(value.to_owned()),
                None if written.contains('=') => None,
                None => {
                    idx += 1;
                    words.get(idx - 1).and_then(|next| next.literal.clone())
                }
            }
        } else if let Some(option) = short.iter().find(is_short) {
            match written.len() > option.len() {
                true => word.literal.as_deref().and_then(|it| it.get(option.len()..)).map(str::to_owned),
                false => {
                    idx += 1;
                    words.get(idx - 1).and_then(|next| next.literal.clone())
                }
            }
        } else if short.iter().any(|option| in_cluster(&option)) {
            idx += 1;
            words.get(idx - 1).and_then(|next| next.literal.clone())
        } else {
            continue;
        };
        let Some(value) = value else { return Inner::Unknowable };
        match value.strip_prefix("exec=") {
            Some(text) => texts.push(text.to_owned()),
            // Other checkpoint actions (`dot`, `echo=…`) run nothing.
            None if written.starts_with("--checkpoint-action") => {}
            None => texts.push(value),
        }
    }
    if texts.is_empty() { Inner::None } else { Inner::Texts(texts) }
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
                Some(script) if super::wrapper::is_stdin(script) => return Inner::Unknowable,
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
