//! Knows how many words of a command name its action; `always` remembers these (facts: OpenCode §4.4).

/// Returns how many words of a command name its action.
pub fn arity(name: &str, subcommand: Option<&str>) -> usize {
    let is_deep = THREE_WORDS_AFTER
        .iter()
        .any(|(command, after)| *command == name && subcommand.is_some_and(|word| after.contains(&word)));
    if is_deep || THREE_WORDS.contains(&name) {
        3
    } else if TWO_WORDS.contains(&name) || super::wrappers::SHELLS.contains(&name) {
        // Of a shell its script counts.
        2
    } else {
        1
    }
}

/// Commands that name their action with two words.
#[rustfmt::skip]
const TWO_WORDS: [&str; 64] = [
    "bazel", "brew", "bun", "cargo", "cdk", "cf", "cmake", "composer", "consul", "crictl", "deno", "docker",
    "eksctl", "firebase", "flyctl", "git", "go", "gradle", "helm", "heroku", "hugo", "ip", "kind", "kubectl",
    "kustomize", "make", "mc", "minikube", "mongosh", "mysql", "mvn", "ng", "npm", "nvm", "nx", "openssl", "pip",
    "pipenv", "pnpm", "poetry", "podman", "psql", "pulumi", "pyenv", "python", "rake", "rbenv", "redis-cli",
    "rustup", "serverless", "skaffold", "sls", "sst", "swift", "systemctl", "terraform", "tmux", "turbo", "ufw",
    "vault", "vercel", "volta", "wp", "yarn",
];

/// Commands that need three words.
const THREE_WORDS: [&str; 6] = ["aws", "az", "doctl", "gcloud", "gh", "sfdx"];

/// Subcommands that need a third word.
const THREE_WORDS_AFTER: [(&str, &[&str]); 19] = [
    ("bun", &["run", "x"]),
    ("cargo", &["add", "run"]),
    ("consul", &["kv"]),
    ("deno", &["task"]),
    ("docker", &["builder", "compose", "container", "image", "network", "volume"]),
    ("eksctl", &["create"]),
    ("git", &["config", "remote", "stash"]),
    ("ip", &["addr", "link", "netns", "route"]),
    ("kind", &["create"]),
    ("kubectl", &["kustomize", "rollout"]),
    ("mc", &["admin"]),
    ("npm", &["exec", "init", "run", "view"]),
    ("openssl", &["req", "x509"]),
    ("pnpm", &["dlx", "exec", "run"]),
    ("podman", &["container", "image"]),
    ("pulumi", &["stack"]),
    ("terraform", &["workspace"]),
    ("vault", &["auth", "kv"]),
    ("yarn", &["dlx", "run"]),
];
