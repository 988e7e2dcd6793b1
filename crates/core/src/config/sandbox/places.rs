//! Places in a home directory that a sandbox treats in a way of its own: credentials of other programs, and caches.

use std::path::{Path, PathBuf};

use crate::config::Environment;

/// Files and directories below the home directory that hold keys, logins and their like.
const CREDENTIALS: [&str; 34] = [
    ".ssh",
    ".gnupg",
    ".password-store",
    ".local/share/keyrings",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/doctl",
    ".docker/config.json",
    ".kube",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".databrickscfg",
    ".pgpass",
    ".my.cnf",
    ".codex/auth.json",
    ".claude/.credentials.json",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
];
/// Parts of them that hold no secret and that programs need.
const SHOWN: [&str; 2] = [".ssh/known_hosts", ".ssh/config"];
/// Caches that builds fill.
const CACHES: [&str; 20] = [
    ".cargo/registry",
    ".cargo/git",
    ".npm/_cacache",
    ".npm/_logs",
    ".npm/_npx",
    ".yarn/berry/cache",
    ".bun/install/cache",
    ".local/share/pnpm/store",
    ".cache/pnpm",
    ".cache/yarn",
    ".cache/node",
    ".cache/deno",
    ".cache/pip",
    ".cache/uv",
    ".cache/pypoetry",
    ".cache/go-build",
    "go/pkg/mod",
    ".gradle/caches",
    ".m2/repository",
    ".nuget/packages",
];
/// Variables that name such a cache, and the parts of the named directory that are one.
const NAMED_CACHES: [(&str, &[&str]); 9] = [
    ("CARGO_HOME", &["registry", "git"]),
    ("npm_config_cache", &["_cacache", "_logs", "_npx"]),
    ("PIP_CACHE_DIR", &[""]),
    ("UV_CACHE_DIR", &[""]),
    ("YARN_CACHE_FOLDER", &[""]),
    ("GOCACHE", &[""]),
    ("GOMODCACHE", &[""]),
    ("GRADLE_USER_HOME", &["caches"]),
    ("NUGET_PACKAGES", &[""]),
];

/// Returns the places of other programs' credentials.
pub(super) fn credentials(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    below(&environment.home, &CREDENTIALS)
}

/// Returns the parts of them that stay readable.
pub(super) fn shown(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    below(&environment.home, &SHOWN)
}

/// Returns the caches of package managers, which a command may fill.
pub(super) fn caches(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let named = NAMED_CACHES.iter().filter_map(|(name, parts)| Some((environment.get(name)?, parts)));
    let named =
        named.flat_map(|(directory, parts)| parts.iter().map(move |part| Path::new(directory).join(part)));
    // A relative one would be in every directory that a command enters.
    below(&environment.home, &CACHES).chain(named.filter(|it| it.is_absolute()))
}

fn below(home: &Path, names: &'static [&str]) -> impl Iterator<Item = PathBuf> {
    names.iter().map(move |name| home.join(name))
}
