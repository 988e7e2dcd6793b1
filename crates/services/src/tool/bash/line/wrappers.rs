//! Knows commands that run another command: one row of data for each.

/// A command that takes options and then the command it runs.
#[derive(Debug, Clone, Copy)]
pub struct Wrapper {
    pub name: &'static str,
    /// Single letters without a value.
    pub flags: &'static str,
    /// Single letters with a value, which is the rest of the word or the next word.
    pub values: &'static str,
    /// Long options without a value; with `=` at the end those with one.
    pub long: &'static [&'static str],
    /// Words between the options and the command.
    pub n_operands: usize,
    /// `NAME=value` may stand before the command.
    pub has_assignments: bool,
    /// Letters after which nothing runs.
    pub harmless: &'static str,
    /// The letter of the option with shell text as its value.
    pub text: Option<char>,
    /// The remaining words are joined to shell text.
    pub is_joined: bool,
}

const PLAIN: Wrapper = Wrapper {
    name: "",
    flags: "",
    values: "",
    long: &[],
    n_operands: 0,
    has_assignments: false,
    harmless: "",
    text: None,
    is_joined: false,
};

const ARCHITECTURE: Wrapper = Wrapper { name: "setarch", flags: "BFILRSTXZ3v", ..PLAIN };

#[rustfmt::skip]
const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "-", ..PLAIN },
    Wrapper { name: "builtin", ..PLAIN },
    Wrapper { name: "emulate", flags: "LR", n_operands: 1, text: Some('c'), ..PLAIN },
    Wrapper { name: "busybox", ..PLAIN },
    Wrapper { name: "caffeinate", flags: "dimsu", values: "tw", ..PLAIN },
    Wrapper { name: "chronic", flags: "ve", ..PLAIN },
    Wrapper { name: "chroot", long: &["--userspec=", "--groups=", "--skip-chdir"], n_operands: 1, ..PLAIN },
    Wrapper { name: "chrt", flags: "abfimoprR", values: "TPD", n_operands: 1, ..PLAIN },
    Wrapper { name: "choom", values: "np", long: &["--adjust=", "--pid="], ..PLAIN },
    Wrapper { name: "command", flags: "p", harmless: "vV", ..PLAIN },
    Wrapper { name: "coproc", ..PLAIN },
    Wrapper { name: "dbus-run-session", long: &["--config-file=", "--dbus-daemon="], ..PLAIN },
    Wrapper { name: "doas", flags: "nL", values: "uC", has_assignments: true, ..PLAIN },
    Wrapper { name: "entr", flags: "acdnprxz", text: Some('s'), ..PLAIN },
    Wrapper { name: "env", flags: "i0v", values: "uCa", long: &["--ignore-environment", "--null", "--unset=", "--chdir=", "--argv0=", "--debug", "--default-signal", "--ignore-signal", "--block-signal"], has_assignments: true, text: Some('S'), ..PLAIN },
    Wrapper { name: "exec", flags: "cl", values: "a", ..PLAIN },
    Wrapper { name: "fakeroot", flags: "u", values: "lsib", ..PLAIN },
    Wrapper { name: "flock", flags: "seuxnoFv", values: "wE", long: &["--shared", "--exclusive", "--unlock", "--nonblock", "--nb", "--close", "--no-fork", "--wait=", "--timeout=", "--conflict-exit-code=", "--verbose"], n_operands: 1, text: Some('c'), ..PLAIN },
    Wrapper { name: "ionice", flags: "t", values: "cnpPu", long: &["--ignore", "--class=", "--classdata=", "--pid=", "--pgid=", "--uid="], ..PLAIN },
    Wrapper { name: "ltrace", flags: "cCfhiLrStTV", values: "aAeDFlnopsuxXw", ..PLAIN },
    Wrapper { name: "nice", values: "n", long: &["--adjustment="], ..PLAIN },
    Wrapper { name: "nocorrect", ..PLAIN },
    Wrapper { name: "noglob", ..PLAIN },
    Wrapper { name: "nohup", ..PLAIN },
    Wrapper { name: "nsenter", flags: "amuinpCUTFrZ", values: "tSGwW", long: &["--all", "--target=", "--setuid=", "--setgid=", "--mount", "--uts", "--ipc", "--net", "--pid", "--user", "--preserve-credentials"], ..PLAIN },
    Wrapper { name: "parallel", flags: "kXmqtv0", values: "jnNLIaPSd", long: &["--jobs=", "--keep-order", "--bar", "--halt=", "--null", "--colsep=", "--arg-file=", "--no-notice", "--will-cite", "--progress", "--eta", "--line-buffer", "--tag", "--dry-run"], is_joined: true, ..PLAIN },
    Wrapper { name: "pkexec", long: &["--user=", "--disable-internal-agent", "--keep-cwd"], ..PLAIN },
    Wrapper { name: "prlimit", values: "p", long: &["--nofile=", "--nproc=", "--as=", "--cpu=", "--core=", "--stack=", "--pid="], ..PLAIN },
    Wrapper { name: "repeat", n_operands: 1, ..PLAIN },
    Wrapper { name: "setarch", flags: "BFILRSTXZ3", long: &["--addr-no-randomize", "--3gb", "--4gb", "--verbose"], n_operands: 1, ..PLAIN },
    Wrapper { name: "runuser", flags: "fmp", values: "lugGsw", long: &["--user=", "--login=", "--group=", "--shell="], text: Some('c'), ..PLAIN },
    Wrapper { name: "script", flags: "aefq", values: "BIOTEmot", long: &["--append", "--flush", "--quiet", "--return"], n_operands: 1, text: Some('c'), ..PLAIN },
    Wrapper { name: "setpriv", long: &["--reuid=", "--regid=", "--clear-groups", "--init-groups", "--keep-groups", "--groups=", "--no-new-privs", "--inh-caps=", "--bounding-set=", "--reset-env"], ..PLAIN },
    Wrapper { name: "setsid", flags: "cfw", long: &["--ctty", "--fork", "--wait"], ..PLAIN },
    Wrapper { name: "sg", n_operands: 1, text: Some('c'), is_joined: true, ..PLAIN },
    Wrapper { name: "stdbuf", values: "ioe", long: &["--input=", "--output=", "--error="], ..PLAIN },
    Wrapper { name: "strace", flags: "cCdDfFhiknNqrtTvVwxyYzZ", values: "aeEIoOpPsSuUXb", long: &["--output=", "--trace=", "--follow-forks", "--summary", "--summary-only"], ..PLAIN },
    Wrapper { name: "su", flags: "flmp", values: "gGsw", long: &["--login", "--shell="], text: Some('c'), n_operands: 1, ..PLAIN },
    Wrapper { name: "sudo", flags: "AbBEHinNPsSk", values: "ugpChrtTUDR", long: &["--user=", "--group=", "--prompt=", "--chdir=", "--chroot=", "--preserve-env", "--preserve-env=", "--non-interactive", "--login", "--shell", "--stdin", "--set-home", "--background", "--askpass", "--host=", "--command-timeout="], harmless: "lvKVh", has_assignments: true, ..PLAIN },
    Wrapper { name: "systemd-run", flags: "rtdPGqS", values: "pEuHM", long: &["--user", "--scope", "--wait", "--pipe", "--pty", "--collect", "--quiet", "--property=", "--setenv=", "--unit=", "--uid=", "--gid=", "--nice=", "--working-directory=", "--slice=", "--description="], ..PLAIN },
    Wrapper { name: "taskset", flags: "ac", long: &["--all-tasks", "--cpu-list"], n_operands: 1, harmless: "p", ..PLAIN },
    Wrapper { name: "time", flags: "apqv", values: "fo", long: &["--format=", "--output=", "--append", "--portability", "--verbose", "--quiet"], ..PLAIN },
    Wrapper { name: "timeout", flags: "fpv", values: "sk", long: &["--signal=", "--kill-after=", "--foreground", "--preserve-status", "--verbose"], n_operands: 1, ..PLAIN },
    Wrapper { name: "toybox", ..PLAIN },
    Wrapper { name: "unbuffer", flags: "p", ..PLAIN },
    Wrapper { name: "unshare", flags: "muinpCUTfrc", values: "SGRw", long: &["--mount", "--uts", "--ipc", "--net", "--pid", "--user", "--cgroup", "--fork", "--map-root-user", "--mount-proc", "--kill-child", "--root=", "--wd=", "--setuid=", "--setgid=", "--propagation="], ..PLAIN },
    Wrapper { name: "watch", flags: "bcdegprtwx", values: "nq", long: &["--interval=", "--color", "--beep", "--differences", "--errexit", "--chgexit", "--no-title", "--no-wrap", "--exec", "--precise"], is_joined: true, ..PLAIN },
    Wrapper { name: "xargs", flags: "0rtpxo", values: "aEdILnPsi", long: &["--null", "--no-run-if-empty", "--verbose", "--interactive", "--exit", "--open-tty", "--arg-file=", "--delimiter=", "--max-args=", "--max-procs=", "--max-lines=", "--max-chars=", "--replace", "--replace=", "--eof="], ..PLAIN },
];

/// Programs that run shell text.
#[rustfmt::skip]
pub const SHELLS: [&str; 21] = [
    "bash", "sh", "zsh", "dash", "ksh", "ash", "mksh", "fish", "rbash", "csh", "tcsh", "yash", "oksh", "posh", "osh",
    "sash", "rc", "es", "hush", "lksh", "scsh",
];

/// Options of `find` and `fd` that are followed by a command.
pub const FIND_COMMANDS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];
pub const FD_COMMANDS: [&str; 4] = ["-x", "-X", "--exec", "--exec-batch"];

/// Options of `git` before its subcommand: those with a value in the next word, and flags.
#[rustfmt::skip]
pub const GIT_VALUES: [&str; 8] =
    ["-C", "-c", "--attr-source", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree"];

/// Variables with values that a shell runs or reads commands from.
#[rustfmt::skip]
pub const STEERING: [&str; 11] = [
    "BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "SHELLOPTS", "BASHOPTS", "BASH_CMDS", "BASH_ALIASES",
];

/// Other names of `setarch` that are themselves the architecture.
const ARCHITECTURES: [&str; 5] = ["i386", "linux32", "linux64", "uname26", "x86_64"];

/// Returns the row of a wrapper, also of one that has a `g` before its name where GNU's programs are not the system's.
pub fn find(name: &str) -> Option<&'static Wrapper> {
    if ARCHITECTURES.contains(&name) {
        return Some(&ARCHITECTURE);
    }
    let of = |name: &str| WRAPPERS.iter().find(|wrapper| wrapper.name == name);
    of(name).or_else(|| of(name.strip_prefix('g')?))
}
