//! Which files decide what a session may do, by their names: where rules, agents and servers are looked for, and what git obeys.

use super::bash;

/// Directories within a `.opencode` whose files decide something; what is said to a model there decides nothing.
const DIRECTORIES: [&str; 8] = ["agent", "agents", "mode", "modes", "plugin", "plugins", "tool", "tools"];
const FILES: [&str; 4] = ["opencode.json", "opencode.jsonc", "config.json", "config.jsonc"];

/// Whether what is written there may change what is allowed, or be run without a question. A tree is a directory that
/// anything may be written into.
pub fn is_obeyed(path: &str, is_tree: bool) -> bool {
    bash::is_gits(path, is_tree) || is_configuration(path, is_tree)
}

fn is_configuration(path: &str, is_tree: bool) -> bool {
    let path = path.to_lowercase();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.last().is_some_and(|last| FILES[..2].contains(last)) {
        return true;
    }
    let starts = parts.iter().enumerate().filter(|(idx, part)| {
        let is_global = **part == "opencode" && *idx > 0 && parts.get(idx - 1) == Some(&".config");
        **part == ".opencode" || is_global
    });
    let mut below = starts.filter_map(|(idx, _)| parts.get(idx + 1..));
    below.any(|below| match below {
        [] => is_tree,
        [file] if FILES.contains(file) => true,
        [directory, rest @ ..] => DIRECTORIES.contains(directory) && (is_tree || !rest.is_empty()),
    })
}

/// Whether a pattern of the user's names such files, rather than files of any kind.
pub fn is_named(pattern: &str) -> bool {
    let pattern = pattern.to_lowercase();
    let parts: Vec<&str> = pattern.trim_start_matches('*').split('/').collect();
    let is_name = |part: &&str| matches!(*part, ".git" | ".opencode") || part.starts_with("opencode.json");
    parts.iter().any(is_name) || parts.windows(2).any(|pair| pair == [".config", "opencode"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_is_told_from_what_is_only_said() {
        let deciding = [
            "opencode.json",
            "/p/sub/opencode.jsonc",
            "/p/.opencode/agent/build.md",
            "/p/.opencode/agents/a/b.md",
            "/p/.OpenCode/mode/x.md",
            "/p/.opencode/config.json",
            "/home/u/.config/opencode/plugin/x.ts",
            "/home/u/.config/opencode/config.json",
            "/p/.git/hooks/pre-commit",
            "/p/.git/config",
        ];
        for path in deciding {
            assert!(is_obeyed(path, false), "{path}");
        }
        let said = [
            "src/opencode.rs",
            "config.json",
            "/p/opencode/config.json",
            "/p/.opencode/plans/a.md",
            "/p/.opencode/command/a.md",
            "/p/.opencode/skill/a/SKILL.md",
            "/p/.opencode/agent",
            "/p/agent/build.md",
            "/p/.git/COMMIT_EDITMSG",
            "/p/AGENTS.md",
        ];
        for path in said {
            assert!(!is_obeyed(path, false), "{path}");
        }
        for tree in ["/p/.opencode", "/p/.opencode/agent", "/p/.git/hooks"] {
            assert!(is_obeyed(tree, true), "{tree}");
        }
        assert!(!is_obeyed("/p/src", true));
    }

    #[test]
    fn a_rule_names_them_or_any_file() {
        assert!(is_named(".opencode/agent/*") && is_named("*/opencode.json") && is_named(".git/config"));
        assert!(is_named("*.opencode/*") && !is_named("*/proj.git/*"));
        assert!(!is_named("*") && !is_named("*.json") && !is_named("src/*"));
    }
}
