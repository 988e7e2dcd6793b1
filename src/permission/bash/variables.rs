//! Variables that decide what runs.

/// Variables whose value decides which programs later commands are, or how words are split.
const STEERING: [&str; 37] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "ZDOTDIR",
    "SHELLOPTS",
    "BASHOPTS",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "CDPATH",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "GIT_EXEC_PATH",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_TEMPLATE_DIR",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "PERL5DB",
    "BASH_ALIASES",
    "BASH_CMDS",
    "BASH_LOADABLES_PATH",
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "PERL5LIB",
    "RIPGREP_CONFIG_PATH",
    "RUBYOPT",
    "TAR_OPTIONS",
];

/// Variables whose value is a command that some program runs.
pub const COMMANDS: [&str; 28] = [
    "PAGER",
    "MANPAGER",
    "GIT_PAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "GIT_PROXY_COMMAND",
    "RSYNC_RSH",
    "SVN_SSH",
    "CVS_RSH",
    "SUDO_EDITOR",
    "SUDO_ASKPASS",
    "FCEDIT",
    "SHELL",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CC",
    "CXX",
];

/// Whether a value of this variable has a program load or run something.
pub fn is_loading(name: &str, value: Option<&str>) -> bool {
    let marks: &[&str] = match name {
        "NODE_OPTIONS" => &["-r", "require", "import", "loader"],
        "MAKEFLAGS" | "GNUMAKEFLAGS" => &["eval", "SHELL", "-f", "file"],
        "JAVA_TOOL_OPTIONS" => &["agent", "-X"],
        "LESS" => &["!", "+"],
        _other => return false,
    };
    value.is_none_or(|value| marks.iter().any(|mark| value.contains(mark)))
}

/// Whether later commands or words mean something else once this variable is set.
pub fn is_steering(name: &str) -> bool {
    let is_configuration = |prefix: &str| name.starts_with(prefix) && name.len() > prefix.len();
    STEERING.contains(&name) || is_configuration("GIT_CONFIG_KEY_") || is_configuration("BASH_FUNC_")
}
