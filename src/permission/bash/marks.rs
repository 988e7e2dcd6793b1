//! Arguments by which a program runs something that only running would tell.

use super::{options, word::Word};

/// What an argument is like.
enum Like {
    /// One of these.
    Is(&'static [&'static str]),
    Starts(&'static [&'static str]),
    Has(&'static [&'static str]),
    /// Whatever it is: the command stands somewhere among the program's own options.
    Any,
    /// Whether there are arguments or not.
    Always,
}

use Like::{Always, Any, Has, Is, Starts};

#[rustfmt::skip]
const MARKS: &[(&[&str], Like)] = &[
    (&["abduco", "agetty", "alacritty", "asciinema", "bwrap", "byobu", "capsh", "cgexec", "chokidar", "cpulimit", "cset",
        "daemonize", "distrobox", "dotenvx", "dtach", "env-cmd", "flatpak-spawn", "foot", "forever", "ghostty", "gnome-terminal",
        "gotty", "gtester", "guix", "kgx", "kitty", "konsole", "launchctl", "lxterminal", "machinectl", "mlterm", "modd",
        "mosh", "mpiexec", "mpirun", "msgexec", "msgfilter", "multitime", "nq", "onchange", "pssh", "pueue", "reflex", "rootlesskit", "rr",
        "run-mailcap", "rxvt", "salt", "salt-call", "schedtool", "sched", "shellinaboxd", "srun", "st", "start-server-and-test",
        "start-stop-daemon", "swayidle", "sxhkd", "systemd-nspawn", "tcpserver", "tcpsvd", "terminator", "termtosvg",
        "tilix", "tmate", "tsp", "ttyd", "ttyrec", "udpsvd", "urxvt", "watchexec", "websocketd", "wezterm", "x-terminal-emulator",
        "xdg-terminal-exec", "xfce4-terminal", "xinit", "xss-lock", "xterm", "zellij", "zpty"], Any),
    // They read commands, or take them up again.
    (&["at", "batch", "crontab", "ed", "red", "fc", "compgen", "tasksh"], Always),
    (&["make"], Has(&["!=", "$(shell", "${shell", "$(eval", "$(guile", "$(file", "`", "$$("])),
    (&["make"], Starts(&["--ev", "-E", "SHELL=", ".SHELLFLAGS=", "MAKE=", "MAKEFLAGS=", "MAKEFILES="])),
    (&["gcc", "g++", "cc", "c++", "clang", "clang++", "c89", "c99", "gfortran", "gnat", "gccgo", "gdc", "tcc"],
        Is(&["-load"])),
    (&["gcc", "g++", "cc", "c++", "clang", "clang++", "c89", "c99", "gfortran", "gnat", "gccgo", "gdc", "tcc"],
        Has(&["-plugin", "-fuse-ld=/", "-fuse-ld=.", "--ld-path", "-ccc-", "--gcc-toolchain", "-no-integrated-cpp"])),
    (&["gcc", "g++", "cc", "c++", "clang", "clang++", "c89", "c99", "gfortran", "ld", "as"], Starts(&["@"])),
    (&["rustc", "rustdoc"], Has(&["linker", "link-arg", "codegen-backend", "runtool"])),
    (&["cargo"], Starts(&["--config", "watch"])),
    (&["go"], Has(&["-extld", "-exec=", "-toolexec=", "CC=", "CXX=", "FLAGS=", "PKG_CONFIG=", "GOROOT=", "GOTOOLDIR=", "AR="])),
    (&["cmake"], Has(&["LAUNCHER", "RULE_LAUNCH", "EMULATOR", "PROJECT_INCLUDE", "TOOLCHAIN_FILE=/"])),
    (&["mvn"], Has(&["exec.executable", "exec.args", "groovy"])),
    (&["sbt"], Starts(&["eval", "set ", "!", ";"])),
    (&["bazel", "bazelisk"], Has(&["--run_under", "--bazelrc", "--override_repository", "--workspace_status_command", "--shell_executable",
        "--host_jvm_args", "--package_path", "--repo_env"])),
    (&["helm"], Has(&["--post-renderer"])),
    (&["tar"], Starts(&["--rmt-command", "--rmt-c"])),
    (&["cpio"], Starts(&["--rmt-command"])),
    (&["npm", "pnpm", "yarn"], Starts(&["script-shell", "node-options", "shell=", "editor=", "viewer="])),
    (&["gh", "glab", "hub"], Starts(&["!", "--shell"])),
    (&["git"], Has(&["-callback"])),
    (&["php"], Has(&["auto_prepend_file", "auto_append_file", "extension=", "sendmail_path"])),
    (&["socat"], Has(&["exec:", "system:", "shell:", "EXEC:", "SYSTEM:", "SHELL:", "Exec:", "System:"])),
    (&["print"], Is(&["-z"])),
    (&["sftp"], Starts(&["-D"])),
    (&["scp", "sftp"], Starts(&["-S", "-o"])),
    (&["ssh"], Starts(&["-I"])),
    (&["curl"], Starts(&["--engine"])),
    (&["tmux"], Starts(&["-f"])),
    (&["ssh-add"], Starts(&["-s"])),
    (&["emacs", "emacsclient"], Has(&["-eval", "-execute", "-funcall", "-load", "-script", "--insert"])),
    (&["emacs", "emacsclient"], Is(&["-f", "-l", "-e", "-x"])),
    (&["gdb", "lldb", "cgdb"], Starts(&["-ex", "--ex", "-iex", "--iex", "-eval", "--eval", "--init-eval", "-init-eval"])),
    (&["ftp", "sftp", "lftp", "ncftp", "smbclient", "tdbtool", "telnet", "tnftp", "debugfs", "scanmem", "gp"], Has(&["!", "shell"])),
    (&["psql", "pgcli", "usql"], Has(&["\\!", "\\o", "\\g", "\\w", "\\i", "`", "program '", "PROGRAM '"])),
    (&["mysql", "mariadb", "mycli"], Has(&["\\!", "system ", "\\.", "source ", "pager ", "--default-auth", "--plugin"])),
    (&["rpm", "rpmbuild", "rpmspec", "rpmdb", "rpmquery", "rpmverify", "rpmkeys"],
        Has(&["--ev", "--pipe", "--define", "--load", "--macros", "--rcfile", "%("])),
    (&["rpm", "rpmbuild", "rpmspec", "rpmquery"], Starts(&["-E", "-D"])),
    (&["pacman", "paru", "yay"], Has(&["--config", "--hookdir", "--editor", "--makepkg", "--pager"])),
    (&["latex", "pdflatex", "xelatex", "lualatex", "tex", "luatex", "pdftex", "xetex"], Has(&["shell-escape", "write18", "directlua"])),
    (&["latexmk"], Starts(&["-e", "-latex", "-pdflatex", "-lualatex", "-xelatex", "-r", "-usepretex", "--e", "-dvips", "-pvctool"])),
    (&["dvips"], Has(&["|", "!", "`"])),
    (&["screen"], Starts(&["-X"])),
    (&["tmux"], Is(&["send-keys", "send", "run-shell", "run", "if-shell", "if", "-X", "-c", "pipep", "popup", "display-popup",
        "neww", "splitw", "respawnp", "respawnw", "source", "source-file", "set-hook", "bind", "bind-key", "confirm-before"])),
    (&["tmux"], Starts(&["new"])),
    (&["tmux"], Has(&["-window", "-pane", "#("])),
    (&["zip"], Starts(&["-rTT", "-qTT", "-rqTT", "-qrTT", "-jTT", "-rjTT", "-9TT", "-r9TT"])),
    (&["xdg-user-dir"], Has(&["}", "$", "`"])),
    (&["yarn"], Is(&["foreach"])),
    (&["lerna", "nx", "turbo"], Is(&["exec", "--"])),
    (&["git-filter-repo"], Has(&["callback"])),
    (&["octave", "octave-cli", "matlab"], Has(&["--eval", "-batch"])),
    (&["as", "gas", "nasm", "yasm"], Starts(&["@", "-@"])),
    (&["less", "more", "most", "pg"], Has(&["!"])),
    (&["busctl", "dbus-send", "gdbus"], Has(&["StartTransientUnit", "Exec"])),
];

/// Programs whose arguments are seldom computed: one that begins with an expansion may be one of those.
const SELDOM_COMPUTED: [&str; 19] = [
    "gcc", "g++", "cc", "c++", "clang", "clang++", "cargo", "make", "npm", "pnpm", "yarn", "scp", "sftp",
    "emacs", "gdb", "lldb", "socat", "tmux", "psql",
];

/// Whether some argument is one of those.
pub fn runs_unknown(name: &str, words: &[Word]) -> bool {
    let rows = MARKS.iter().filter(|(names, _)| names.iter().any(|it| options::is_version_of(name, it)));
    rows.into_iter().any(|(_, like)| {
        matches!(like, Always)
            || words[1..].iter().any(|word| match (&word.literal, like) {
                (_, Any | Always) => true,
                (Some(literal), Is(texts)) => texts.contains(&literal.as_str()),
                (Some(literal), Starts(texts)) => texts.iter().any(|it| literal.starts_with(it)),
                (Some(literal), Has(texts)) => texts.iter().any(|it| literal.contains(it)),
                (None, _) if !SELDOM_COMPUTED.contains(&name) => false,
                (None, _) => word.text.trim_start_matches('"').starts_with(['$', '`']),
            })
    })
}
