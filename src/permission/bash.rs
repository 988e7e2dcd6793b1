//! Reads a shell command: which commands it runs, which paths they touch, which prefix `always` means.

/// What a shell command does, as far as permission is concerned.
pub struct Analysis {
    /// Source text of each command to ask for.
    pub patterns: Vec<String>,
    /// What `always` allows.
    pub always: Vec<String>,
    pub paths: Vec<PathArgument>,
}

/// A path that a command names.
pub struct PathArgument {
    pub text: String,
}

/// Reads one command line.
pub fn analyse(command: &str) -> Analysis {
    let name = command.split_whitespace().next().unwrap_or_default();
    Analysis { patterns: vec![command.to_owned()], always: vec![format!("{name} *")], paths: Vec::new() }
}
