//! Commands that run another one: where in their words that one begins.

use super::{
    SHELLS, git, options, program,
    word::{Word, base_name},
};

/// Commands within commands (`sudo env nice …`); more is nothing a person writes.
pub const MAX_NESTED: usize = 6;

/// What a command runs besides itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inner {
    /// Nothing.
    None,
    /// Only running it would tell.
    Unknowable,
    /// The words from the first index up to the second; several with `find -exec … -exec …`.
    Words(Vec<(usize, usize)>),
    /// Shell text.
    Texts(Vec<String>),
    /// Shell text that runs on another machine.
    Elsewhere(String),
    /// A shell that reads its commands from standard input.
    Stdin,
    /// The word with this index is a file of code.
    Script(usize),
}

/// A command that is followed by options and then by the command it runs.
struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word.
    short_values: &'static str,
    long_values: &'static [&'static str],
    /// Words between the options and the command.
    n_positional: usize,
    /// Options after which nothing is run.
    harmless: &'static str,
    /// Whether `NAME=value` may stand before the command.
    has_assignments: bool,
    /// The option whose value is shell text.
    text: Option<char>,
}

const PLAIN: Wrapper = Wrapper {
    name: "",
    short_values: "",
    long_values: &[],
    n_positional: 0,
    harmless: "",
    has_assignments: false,
    text: None,
};

#[rustfmt::skip]
const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "-", ..PLAIN },
    Wrapper { name: "aa-exec", short_values: "pn", long_values: &["--profile", "--namespace"], ..PLAIN },
    Wrapper { name: "bear", short_values: "o", long_values: &["--output", "--config"], ..PLAIN },
    Wrapper { name: "bunx", ..PLAIN },
    Wrapper { name: "catatonit", ..PLAIN },
    Wrapper { name: "catchsegv", ..PLAIN },
    Wrapper { name: "ccache", ..PLAIN },
    Wrapper { name: "chpst", short_values: "uUben/lLmdopfcrt", ..PLAIN },
    Wrapper { name: "cross-env", has_assignments: true, ..PLAIN },
    Wrapper { name: "choom", short_values: "np", long_values: &["--adjust", "--pid"], ..PLAIN },
    Wrapper { name: "dbus-launch", ..PLAIN },
    Wrapper { name: "debconf", short_values: "fop", long_values: &["--frontend", "--owner", "--priority"], ..PLAIN },
    Wrapper { name: "debconf-apt-progress", ..PLAIN },
    Wrapper { name: "gpg-agent", long_values: &["--options", "--homedir", "--log-file"], ..PLAIN },
    Wrapper { name: "i486", ..PLAIN },
    Wrapper { name: "i586", ..PLAIN },
    Wrapper { name: "i686", ..PLAIN },
    Wrapper { name: "logsave", n_positional: 1, ..PLAIN },
    Wrapper { name: "x86_64", ..PLAIN },
    Wrapper { name: "distcc", ..PLAIN },
    Wrapper { name: "dumb-init", short_values: "r", long_values: &["--rewrite"], ..PLAIN },
    Wrapper { name: "eatmydata", ..PLAIN },
    Wrapper { name: "envdir", n_positional: 1, ..PLAIN },
    Wrapper { name: "fakechroot", short_values: "lecbd", long_values: &["--lib", "--elfloader", "--environment", "--config-dir", "--bindir"], ..PLAIN },
    Wrapper { name: "faketime", n_positional: 1, ..PLAIN },
    Wrapper { name: "gosu", n_positional: 1, ..PLAIN },
    Wrapper { name: "heaptrack", short_values: "op", long_values: &["--output", "--pid"], ..PLAIN },
    Wrapper { name: "i386", ..PLAIN },
    Wrapper { name: "pnpx", short_values: "p", long_values: &["--package"], text: Some('c'), ..PLAIN },
    Wrapper { name: "pexec", ..PLAIN },
    Wrapper { name: "grc", short_values: "c", long_values: &["--config"], ..PLAIN },
    Wrapper { name: "zrun", ..PLAIN },
    Wrapper { name: "lckdo", short_values: "W", n_positional: 1, ..PLAIN },
    Wrapper { name: "envchain", n_positional: 1, ..PLAIN },
    Wrapper { name: "with-lock-ex", n_positional: 1, ..PLAIN },
    Wrapper { name: "scriptlive", ..PLAIN },
    Wrapper { name: "fakeroot-ng", ..PLAIN },
    Wrapper { name: "box64", ..PLAIN },
    Wrapper { name: "wine", ..PLAIN },
    Wrapper { name: "npx", short_values: "pw", long_values: &["--package", "--workspace", "--prefix", "--cache", "--registry", "--userconfig", "--shell"], text: Some('c'), ..PLAIN },
    Wrapper { name: "nsenter", short_values: "tSGW", long_values: &["--target", "--setuid", "--setgid", "--wdns"], ..PLAIN },
    Wrapper { name: "prlimit", short_values: "p", long_values: &["--pid"], ..PLAIN },
    Wrapper { name: "proot", short_values: "rbwRSqv", ..PLAIN },
    Wrapper { name: "repeat", n_positional: 1, ..PLAIN },
    Wrapper { name: "runcon", short_values: "urtl", n_positional: 1, ..PLAIN },
    Wrapper { name: "s6-envdir", n_positional: 1, ..PLAIN },
    Wrapper { name: "s6-setuidgid", n_positional: 1, ..PLAIN },
    Wrapper { name: "sccache", ..PLAIN },
    Wrapper { name: "setpriv", long_values: &["--reuid", "--regid", "--groups", "--inh-caps", "--ambient-caps", "--bounding-set", "--securebits", "--pdeathsig", "--ptracer", "--selinux-label", "--apparmor-profile", "--landlock-access", "--landlock-rule", "--ruid", "--euid", "--rgid", "--egid", "--seccomp-filter"], ..PLAIN },
    Wrapper { name: "setuidgid", n_positional: 1, ..PLAIN },
    Wrapper { name: "ssh-agent", short_values: "aEt", ..PLAIN },
    Wrapper { name: "sshpass", short_values: "pfdP", ..PLAIN },
    Wrapper { name: "su-exec", n_positional: 1, ..PLAIN },
    Wrapper { name: "tini", short_values: "pe", ..PLAIN },
    Wrapper { name: "torify", ..PLAIN },
    Wrapper { name: "trickle", short_values: "dusLlwtnN", ..PLAIN },
    Wrapper { name: "tsocks", ..PLAIN },
    Wrapper { name: "uname26", ..PLAIN },
    Wrapper { name: "uvx", short_values: "p", long_values: &["--from", "--with", "--python"], ..PLAIN },
    Wrapper { name: "with-contenv", ..PLAIN },
    Wrapper { name: "builtin", ..PLAIN },
    Wrapper { name: "busybox", ..PLAIN },
    Wrapper { name: "chronic", ..PLAIN },
    Wrapper { name: "dbus-run-session", long_values: &["--config-file", "--dbus-daemon"], ..PLAIN },
    Wrapper { name: "firejail", ..PLAIN },
    Wrapper { name: "ifne", ..PLAIN },
    Wrapper { name: "linux32", ..PLAIN },
    Wrapper { name: "linux64", ..PLAIN },
    Wrapper { name: "ltrace", short_values: "aAeDFlnopsuxXw", long_values: &["--output", "--library", "--align", "--indent", "--config", "--where"], ..PLAIN },
    Wrapper { name: "numactl", short_values: "mNCpPi", long_values: &["--interleave", "--cpunodebind", "--physcpubind", "--membind", "--preferred", "--weighted-interleave", "--preferred-many"], ..PLAIN },
    Wrapper { name: "pkexec", long_values: &["--user"], ..PLAIN },
    Wrapper { name: "proxychains", short_values: "f", ..PLAIN },
    Wrapper { name: "proxychains4", short_values: "f", ..PLAIN },
    Wrapper { name: "rlwrap", short_values: "bCDefHlMOPqsStwz", long_values: &["--break-chars", "--command-name", "--history-no-dupes", "--extra-char-after-completion", "--file", "--history-filename", "--logfile", "--only-cook", "--pre-given", "--quote-characters", "--histsize", "--substitute-prompt", "--wait-before-prompt", "--filter"], ..PLAIN },
    Wrapper { name: "systemd-run", short_values: "pEuHM", long_values: &["--property", "--setenv", "--unit", "--uid", "--gid", "--nice", "--working-directory", "--slice", "--description", "--on-active", "--on-boot", "--on-startup", "--on-unit-active", "--on-unit-inactive", "--on-calendar", "--timer-property", "--path-property", "--socket-property", "--machine", "--host", "--service-type", "--background", "--job-mode"], ..PLAIN },
    Wrapper { name: "torsocks", ..PLAIN },
    Wrapper { name: "unbuffer", ..PLAIN },
    Wrapper { name: "unshare", short_values: "SGRwl", long_values: &["--setuid", "--setgid", "--root", "--wd", "--map-user", "--map-users", "--map-group", "--map-groups", "--propagation", "--setgroups", "--boottime", "--monotonic", "--load-interp"], ..PLAIN },
    Wrapper { name: "gamemoderun", ..PLAIN },
    Wrapper { name: "mangohud", ..PLAIN },
    Wrapper { name: "nocache", short_values: "n", ..PLAIN },
    Wrapper { name: "optirun", ..PLAIN },
    Wrapper { name: "pasuspender", ..PLAIN },
    Wrapper { name: "pgrphack", ..PLAIN },
    Wrapper { name: "prime-run", ..PLAIN },
    Wrapper { name: "primusrun", ..PLAIN },
    Wrapper { name: "qemu-aarch64", ..PLAIN },
    Wrapper { name: "qemu-x86_64", ..PLAIN },
    Wrapper { name: "run-one", ..PLAIN },
    Wrapper { name: "run-this-one", ..PLAIN },
    Wrapper { name: "setlock", n_positional: 1, ..PLAIN },
    Wrapper { name: "softlimit", short_values: "acdflmoprst", ..PLAIN },
    Wrapper { name: "systemd-cat", short_values: "tp", long_values: &["--identifier", "--priority", "--stderr-priority", "--level-prefix", "--namespace"], ..PLAIN },
    Wrapper { name: "systemd-inhibit", long_values: &["--what", "--who", "--why", "--mode"], ..PLAIN },
    Wrapper { name: "vglrun", short_values: "dc", ..PLAIN },
    Wrapper { name: "xcrun", long_values: &["--sdk", "--toolchain"], ..PLAIN },
    Wrapper { name: "xvfb-run", short_values: "efnpsw", long_values: &["--error-file", "--auth-file", "--server-num", "--xauth-protocol", "--server-args", "--wait"], ..PLAIN },
    Wrapper { name: "caffeinate", short_values: "tw", ..PLAIN },
    Wrapper { name: "chroot", long_values: &["--userspec", "--groups"], n_positional: 1, ..PLAIN },
    Wrapper { name: "chrt", short_values: "TPD", long_values: &["--sched-runtime", "--sched-period", "--sched-deadline"], n_positional: 1, ..PLAIN },
    Wrapper { name: "command", harmless: "vV", ..PLAIN },
    Wrapper { name: "coproc", ..PLAIN },
    Wrapper { name: "doas", short_values: "uC", has_assignments: true, ..PLAIN },
    Wrapper { name: "env", short_values: "uCa", long_values: &["--unset", "--chdir", "--argv0"], has_assignments: true, ..PLAIN },
    Wrapper { name: "exec", short_values: "a", ..PLAIN },
    Wrapper { name: "fakeroot", short_values: "lsib", long_values: &["--lib", "--faked"], ..PLAIN },
    Wrapper { name: "flock", short_values: "wE", long_values: &["--wait", "--timeout", "--conflict-exit-code", "--start", "--length"], n_positional: 1, text: Some('c'), ..PLAIN },
    Wrapper { name: "ionice", short_values: "cnpPu", long_values: &["--class", "--classdata", "--pid", "--pgid", "--uid"], ..PLAIN },
    Wrapper { name: "nice", short_values: "n", long_values: &["--adjustment"], ..PLAIN },
    Wrapper { name: "nocorrect", ..PLAIN },
    Wrapper { name: "noglob", ..PLAIN },
    Wrapper { name: "nohup", ..PLAIN },
    Wrapper { name: "runuser", short_values: "ugGsw", long_values: &["--user", "--group", "--supp-group", "--shell", "--session-command", "--whitelist-environment"], text: Some('c'), ..PLAIN },
    Wrapper { name: "setsid", ..PLAIN },
    Wrapper { name: "stdbuf", short_values: "ioe", long_values: &["--input", "--output", "--error"], ..PLAIN },
    Wrapper { name: "strace", short_values: "aeEIoOpPsSuUXb", long_values: &["--output", "--trace", "--trace-path", "--user", "--string-limit", "--attach", "--env", "--argv0", "--signals", "--status", "--summary-columns", "--summary-sort-by", "--interruptible", "--columns", "--const-print-style", "--inject", "--fault", "--abbrev", "--verbose", "--raw", "--read", "--write", "--kvm", "--detach-on", "--syscall-limit"], ..PLAIN },
    Wrapper { name: "sudo", short_values: "ugpChrtTUDR", long_values: &["--user", "--group", "--prompt", "--close-from", "--host", "--role", "--type", "--command-timeout", "--other-user", "--chdir", "--chroot", "--auth-type"], harmless: "lv", has_assignments: true, ..PLAIN },
    Wrapper { name: "taskset", n_positional: 1, ..PLAIN },
    Wrapper { name: "time", short_values: "fo", long_values: &["--format", "--output"], ..PLAIN },
    Wrapper { name: "timeout", short_values: "sk", long_values: &["--signal", "--kill-after"], n_positional: 1, ..PLAIN },
    Wrapper { name: "toybox", ..PLAIN },
    Wrapper { name: "valgrind", ..PLAIN },
    Wrapper { name: "xargs", short_values: "aEdILnPs", long_values: &["--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars", "--process-slot-var"], ..PLAIN },
];

/// What the command of these words runs besides itself. The first word's literal is its name, path left off.
pub fn inner(name: &str, words: &[Word]) -> Inner {
    inner_at(name, words, 0)
}

/// The directory that a wrapper has its command run in, as written.
pub fn directory<'a>(name: &str, words: &'a [Word]) -> Option<&'a str> {
    let (short, long) = match unprefixed(name) {
        "env" => ("-C", "--chdir"),
        "sudo" => ("-D", "--chdir"),
        _other => return None,
    };
    let mut found = None;
    for (idx, word) in words.iter().enumerate().skip(1).take_while(|(_, word)| word.text != "--") {
        let text = word.text.as_str();
        if text == short || text == long {
            found = words.get(idx + 1).map(|word| word.text.as_str());
        } else if let Some(value) = text.strip_prefix(long).and_then(|rest| rest.strip_prefix('=')) {
            found = Some(value);
        } else if let Some(value) = text.strip_prefix(short) {
            found = Some(value);
        }
    }
    found
}

/// The name without the `g` that GNU's programs have where they are guests.
pub fn unprefixed(name: &str) -> &str {
    #[rustfmt::skip]
    const GUESTS: [&str; 76] = [
        "awk", "base32", "base64", "basename", "cat", "chgrp", "chmod", "chown", "chroot", "cksum", "comm", "cp",
        "csplit", "cut", "date", "dd", "df", "dirname", "du", "echo", "egrep", "env", "expand", "expr", "fgrep",
        "find", "fmt", "fold", "grep", "head", "install", "join", "kill", "link", "ln", "ls", "make", "md5sum",
        "mkdir", "mkfifo", "mknod", "mktemp", "mv", "nice", "nl", "nohup", "od", "paste", "pr", "printf", "readlink",
        "realpath", "rm", "rmdir", "sed", "seq", "sha256sum", "shred", "shuf", "sort", "split", "stat", "stdbuf",
        "tac", "tail", "tar", "tee", "time", "timeout", "touch", "tr", "truncate", "uniq", "unlink", "wc", "xargs",
    ];
    match name.strip_prefix('g') {
        Some(rest) if GUESTS.contains(&rest) => rest,
        Some(_) | None => name,
    }
}

fn inner_at(name: &str, words: &[Word], depth: usize) -> Inner {
    if depth > MAX_NESTED {
        return Inner::Unknowable;
    }
    let name = unprefixed(name);
    match name {
        _ if SHELLS.contains(&name) => shell(words),
        "eval" => joined(&words[operands_at(words)..]),
        "source" | "." => match words.get(operands_at(words)) {
            Some(script) if script.literal.is_none() || is_stdin(script.value()) => Inner::Unknowable,
            Some(_script) => Inner::Script(operands_at(words)),
            None => Inner::None,
        },
        "trap" if words.get(1).is_some_and(|word| word.value() == "--") => trap(words.get(2)),
        "trap" => match words.get(1).map(|word| (word.value(), word.literal.is_some())) {
            Some(("-l" | "-p", true)) => Inner::None,
            Some(_) | None => trap(words.get(1)),
        },
        "setarch" => architecture(words),
        "jobs" => match words.iter().position(|word| word.text.starts_with('-') && word.text.contains('x')) {
            Some(at) => Inner::Words(vec![(at + 1, words.len())]),
            None => Inner::None,
        },
        "find" => find(words, depth),
        "fd" | "fdfind" => fd(words, depth),
        "git" => git::inner(words),
        "su" | "script" | "newgrp" => text_option(words),
        "sg" => match words.iter().any(|word| word.value() == "-c") {
            true => text_option(words),
            // A shell that reads its commands.
            false if words.len() < 3 || words[1].value() == "-" => text_option(words),
            false => joined(&words[2..]),
        },
        // With a user as an option it runs a command, else a shell.
        "runuser"
            if !words.iter().any(|word| word.text.starts_with("-u") || word.text.starts_with("--u")) =>
        {
            text_option(words)
        }
        "ld.so" => loader(words),
        _ if name.starts_with("ld-linux") || name.starts_with("ld-musl") => loader(words),
        "ip" if words.get(1).is_some_and(|it| it.value() == "netns") => match words.get(2).map(Word::value) {
            Some("exec") if words.len() > 4 => Inner::Words(vec![(4, words.len())]),
            Some(_) | None => Inner::None,
        },
        "watch" => watch(words),
        // Text, arguments and input are put together to shell text.
        "parallel" | "rush" | "entr" => Inner::Unknowable,
        // Names another program as a command, a builtin or a completion.
        "hash" | "enable" | "mapfile" | "readarray" | "bind" | "complete"
            if words.iter().any(|word| {
                word.literal.as_deref().is_none_or(|it| matches!(it, "-p" | "-f" | "-C" | "-x" | "-F"))
            }) =>
        {
            Inner::Unknowable
        }
        _ => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => wrapped(wrapper, words, depth),
            None => program::inner(name, words).unwrap_or(Inner::None),
        },
    }
}

/// Where the operands begin of a command that has no options but `--`.
fn operands_at(words: &[Word]) -> usize {
    if words.get(1).is_some_and(|word| word.value() == "--") { 2 } else { 1 }
}

/// Programs that start a shell when they are given nothing to run.
const STARTS_SHELL: [&str; 14] = [
    "chroot",
    "fakechroot",
    "fakeroot",
    "firejail",
    "i386",
    "i486",
    "i586",
    "i686",
    "linux32",
    "linux64",
    "nsenter",
    "proot",
    "unshare",
    "x86_64",
];

/// What a wrapper without a command runs.
fn alone(name: &str, words: &[Word]) -> Inner {
    let tells = |word: &Word| matches!(word.value(), "--help" | "--version" | "-h" | "-V" | "--list");
    let is_shell = |word: &Word| {
        let value = word.value();
        matches!(value, "--shell" | "--login")
            || (value.starts_with('-') && !value.starts_with("--") && value.ends_with(['s', 'i']))
    };
    let starts = STARTS_SHELL.contains(&name)
        || matches!(name, "uname26" | "setarch")
        || (matches!(name, "sudo" | "doas") && words[1..].iter().any(is_shell));
    if starts && !words[1..].iter().any(tells) { Inner::Stdin } else { Inner::None }
}

/// Whether parameters of a command come from outside of the line: names of found files.
pub fn is_fed_by_files(words: &[Word]) -> bool {
    words.iter().any(|word| word.value() == "{}")
}

/// Whether `always` must not take this command's name alone: it would allow whatever it runs.
pub fn is_wrapper(name: &str) -> bool {
    const OTHERS: [&str; 15] = [
        "eval",
        "source",
        ".",
        "trap",
        "su",
        "script",
        "watch",
        "parallel",
        "rush",
        "entr",
        "find",
        "fd",
        "sg",
        "newgrp",
        "hyperfine",
    ];
    let name = unprefixed(name);
    SHELLS.contains(&name) || OTHERS.contains(&name) || WRAPPERS.iter().any(|wrapper| wrapper.name == name)
}

fn wrapped(wrapper: &Wrapper, words: &[Word], depth: usize) -> Inner {
    let mut idx = 1;
    let mut n_positional = 0;
    // `runcon CONTEXT command`, or `runcon -t type command`.
    let has_options = words.get(1).is_some_and(|word| word.text.starts_with('-'));
    let n_before = if wrapper.name == "runcon" && has_options { 0 } else { wrapper.n_positional };
    let mut replaced = None;
    while let Some(word) = words.get(idx) {
        let Some(literal) = &word.literal else { return Inner::Unknowable };
        if literal == "-" && wrapper.name == "env" {
            idx += 1;
            continue;
        }
        let is_option = n_positional == 0 && literal.len() > 1 && literal.starts_with('-');
        if is_option && literal == "--" {
            idx += 1;
            // What follows is the positional words and the command, whatever it looks like.
            idx += n_before;
            break;
        }
        if is_option {
            let next = words.get(idx + 1);
            if let Some(text) = text_of(wrapper, literal, next) {
                return text;
            }
            if literal.starts_with("--") {
                if wrapper.name == "env" && literal.starts_with("--s") {
                    // Also abbreviated: no other option begins so.
                    return split_string(literal.split_once('=').map(|it| it.1), &words[idx + 1..]);
                }
                if wrapper.name == "xargs" && literal.starts_with("--replace") {
                    replaced = Some(literal.split_once('=').map_or("{}", |it| it.1).to_owned());
                }
                // Long options may be abbreviated.
                let is_it = |option: &&&str| {
                    option.starts_with(literal.as_str()) && literal.len() > 2 && literal != "--summary"
                };
                idx += 1 + usize::from(wrapper.long_values.iter().any(|option| is_it(&option)));
                continue;
            }
            if literal.contains(|c| wrapper.harmless.contains(c)) {
                return Inner::None;
            }
            if wrapper.name == "env" && literal.contains('S') {
                let text = literal.split_once('S').map(|it| it.1).filter(|text| !text.is_empty());
                return split_string(text, &words[idx + 1..]);
            }
            let value = literal.find(|c| wrapper.short_values.contains(c));
            let is_separate = value.is_some_and(|at| at + 1 == literal.len());
            if wrapper.name == "xargs" && literal.starts_with("-I") {
                let given = if is_separate { next.map(Word::value) } else { literal.get(2..) };
                replaced = given.map(str::to_owned);
            } else if wrapper.name == "xargs" && literal.starts_with("-i") {
                replaced = Some(literal.get(2..).filter(|it| !it.is_empty()).unwrap_or("{}").to_owned());
            }
            idx += 1 + usize::from(is_separate);
            continue;
        }
        // `env` takes any name.
        let is_name = wrapper.name == "env" && literal.find('=').is_some_and(|at| at > 0);
        if wrapper.has_assignments && (is_name || is_assignment(literal)) {
            idx += 1;
            continue;
        }
        if n_positional > 0 && literal.starts_with('-') {
            // `flock FILE -c text`.
            if let Some(text) = text_of(wrapper, literal, words.get(idx + 1)) {
                return text;
            }
        }
        if n_positional == n_before {
            break;
        }
        n_positional += 1;
        idx += 1;
    }
    if idx >= words.len() {
        return alone(wrapper.name, words);
    }
    // Put together to shell text.
    let is_text = |word: &Word| word.value().contains(char::is_whitespace);
    if matches!(wrapper.name, "npx" | "pnpx" | "bunx") && is_text(&words[idx]) {
        return Inner::Unknowable;
    }
    if wrapper.name == "xargs" && is_fed(&words[idx..], replaced.as_deref(), depth) {
        return Inner::Unknowable;
    }
    Inner::Words(vec![(idx, words.len())])
}

/// `env -S text words…`: the text is taken apart much as a shell would, without its operators.
fn split_string(attached: Option<&str>, after: &[Word]) -> Inner {
    let attached = attached.map(Word::quoted);
    let words: Vec<Word> = attached.into_iter().chain(after.iter().cloned()).collect();
    match joined(&words) {
        Inner::Texts(texts) if texts.iter().any(|text| text.contains(['$', '\\', '`', '#'])) => {
            Inner::Unknowable
        }
        // More options of `env` itself.
        Inner::Texts(texts) => {
            let whole = |text: String| {
                let first = text.split_whitespace().next().unwrap_or_default();
                if first.starts_with('-') || first.contains('=') { format!("env {text}") } else { text }
            };
            Inner::Texts(texts.into_iter().map(whole).collect())
        }
        other => other,
    }
}

fn text_of(wrapper: &Wrapper, option: &str, next: Option<&Word>) -> Option<Inner> {
    let letter = wrapper.text?;
    let long = option.split_once('=').map_or(option, |it| it.0);
    let is_long = long.len() > 3 && ["--command", "--call"].iter().any(|it| it.starts_with(long));
    let is_text = (is_long && long == option) || (!option.starts_with("--") && option.ends_with(letter));
    if !is_text {
        let attached = match option.starts_with("--") {
            true => option.split_once('=').filter(|_| is_long).map(|it| it.1),
            false => option.split_once(letter).map(|it| it.1),
        };
        return attached.map(|text| Inner::Texts(vec![text.to_owned()]));
    }
    Some(match next.and_then(|word| word.literal.clone()) {
        Some(text) => Inner::Texts(vec![text]),
        None => Inner::Unknowable,
    })
}

/// Whether what comes from outside (input lines, found files) decides which command runs.
fn is_fed(words: &[Word], replaced: Option<&str>, depth: usize) -> bool {
    let Some(name) = words.first().and_then(|word| word.literal.as_deref()) else { return true };
    let has_replaced =
        |text: &str| replaced.is_some_and(|replaced| !replaced.is_empty() && text.contains(replaced));
    if has_replaced(name) {
        return true;
    }
    let name = base_name(name);
    match inner_at(name, words, depth + 1) {
        Inner::Words(ranges) => {
            ranges.iter().any(|(from, to)| is_fed(&words[*from..*to], replaced, depth + 1))
        }
        Inner::Texts(texts) => name == "eval" || texts.iter().any(|text| has_replaced(text)),
        Inner::Elsewhere(text) => has_replaced(&text),
        Inner::Unknowable | Inner::Stdin => true,
        // `xargs sudo`, `xargs env A=1`: the command comes from the input.
        Inner::Script(_) => false,
        Inner::None => (is_wrapper(name) && words.len() == 1) || WRAPPERS.iter().any(|it| it.name == name),
    }
}

/// `setarch [architecture] [options] command`: an unknown first word may be either.
fn architecture(words: &[Word]) -> Inner {
    let skip_options =
        |from: usize| (from..words.len()).find(|at| !words[*at].text.starts_with('-')).unwrap_or(words.len());
    let first = skip_options(1);
    let Some(word) = words.get(first) else { return alone("setarch", words) };
    let is_known = matches!(word.value(), "x86_64" | "amd64" | "aarch64" | "arm64" | "linux32" | "linux64")
        || matches!(word.value(), "uname26" | "i386" | "i486" | "i586" | "i686" | "athlon");
    let mut ranges = vec![(skip_options(first + 1), words.len())];
    if !is_known {
        ranges.push((first, words.len()));
    }
    ranges.retain(|(from, to)| from < to);
    if is_known && ranges.is_empty() { alone("setarch", words) } else { Inner::Words(ranges) }
}

/// The dynamic linker runs the program that it is given.
fn loader(words: &[Word]) -> Inner {
    match words.iter().skip(1).position(|word| !word.text.starts_with('-')) {
        Some(0) => Inner::Words(vec![(1, words.len())]),
        Some(_) => Inner::Unknowable,
        None => Inner::None,
    }
}

fn trap(text: Option<&Word>) -> Inner {
    match text.map(|word| word.literal.as_deref()) {
        None | Some(Some("-")) => Inner::None,
        Some(Some(text)) => Inner::Texts(vec![text.to_owned()]),
        Some(None) => Inner::Unknowable,
    }
}

fn shell(words: &[Word]) -> Inner {
    let mut has_text = false;
    let mut reads_stdin = false;
    let mut idx = 1;
    while let Some(word) = words.get(idx) {
        let Some(literal) = word.literal.as_deref() else { return Inner::Unknowable };
        match literal {
            "--version" | "--help" => return Inner::None,
            "--rcfile" | "--init-file" => return Inner::Unknowable,
            "--" | "-" => {
                idx += 1;
                break;
            }
            option if option.starts_with("--") => idx += 1,
            option if option.len() > 1 && option.starts_with(['-', '+']) => {
                has_text |= option.starts_with('-') && option.contains('c');
                reads_stdin |= option.contains('s');
                idx += 1 + usize::from(option.contains(['o', 'O']));
            }
            _script => break,
        }
    }
    match words.get(idx) {
        Some(word) if has_text => match &word.literal {
            Some(text) => Inner::Texts(vec![text.clone()]),
            None => Inner::Unknowable,
        },
        None if has_text => Inner::Unknowable,
        _ if reads_stdin => Inner::Stdin,
        Some(script) if script.literal.is_none() || is_stdin(script.value()) => Inner::Unknowable,
        Some(_script) => Inner::Script(idx),
        None => Inner::Stdin,
    }
}

fn joined(words: &[Word]) -> Inner {
    let texts: Option<Vec<&str>> = words.iter().map(|word| word.literal.as_deref()).collect();
    match texts {
        Some(texts) => Inner::Texts(vec![texts.join(" ")]),
        None => Inner::Unknowable,
    }
}

fn find(words: &[Word], depth: usize) -> Inner {
    let mut ranges = Vec::new();
    let mut idx = 1;
    // Words that are not known may be the beginning of what `;` ends, or all of it.
    let (mut n_unknown, mut may_run) = (0, false);
    while let Some(word) = words.get(idx) {
        idx += 1;
        may_run |= n_unknown > 0 && matches!(word.value(), ";" | "+");
        n_unknown = if word.literal.is_none() { n_unknown + 1 } else { n_unknown };
        if !["-exec", "-execdir", "-ok", "-okdir"].contains(&word.value()) {
            continue;
        }
        let rest = &words[idx..];
        let n_words = rest.iter().position(|word| matches!(word.value(), ";" | "+")).unwrap_or(rest.len());
        if is_fed(&rest[..n_words], Some("{}"), depth) {
            return Inner::Unknowable;
        }
        ranges.push((idx, idx + n_words));
        idx += n_words + 1;
    }
    let in_a_row = words.windows(3).any(|three| three.iter().all(|word| word.literal.is_none()));
    if may_run || in_a_row {
        return Inner::Unknowable;
    }
    if ranges.is_empty() { Inner::None } else { Inner::Words(ranges) }
}

fn fd(words: &[Word], depth: usize) -> Inner {
    let is_action = |word: &Word| {
        let value = word.value();
        matches!(value, "--exec" | "--exec-batch")
            || (value.starts_with('-') && !value.starts_with("--") && value.ends_with(['x', 'X']))
    };
    let is_attached = |word: &Word| ["--exec", "-x", "-X"].iter().any(|it| word.value().starts_with(it));
    match words.iter().position(is_action) {
        None if words.iter().any(is_attached) => Inner::Unknowable,
        None => Inner::None,
        Some(at) if is_fed(&words[at + 1..], Some("{}"), depth) => Inner::Unknowable,
        Some(at) => Inner::Words(vec![(at + 1, words.len())]),
    }
}

/// `su -c text`, `script -c text`: the text may stand behind other words.
fn text_option(words: &[Word]) -> Inner {
    let is_text = |word: &Word| {
        let value = word.value();
        matches!(value, "--command")
            || (value.starts_with('-') && !value.starts_with("--") && value.ends_with('c'))
    };
    match words.iter().position(is_text) {
        Some(at) => match words.get(at + 1).and_then(|word| word.literal.clone()) {
            Some(text) => Inner::Texts(vec![text]),
            None => Inner::Unknowable,
        },
        // A shell that reads its commands.
        None => Inner::Unknowable,
    }
}

fn watch(words: &[Word]) -> Inner {
    let command = options::arguments("watch", words).operands;
    let command: Vec<Word> = command.iter().map(|text| Word::new(text)).collect();
    if command.is_empty() { Inner::None } else { joined(&command) }
}

pub fn is_stdin(path: &str) -> bool {
    matches!(path, "/dev/stdin" | "/dev/stdout" | "/dev/stderr")
        || path.starts_with("/dev/fd/")
        || path.starts_with("/proc/self/fd/")
}

/// `NAME=value`.
pub fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
