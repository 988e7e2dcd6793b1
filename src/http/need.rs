//! The rights that a route asks of an account. Pure.

use axum::http::Method;
use windlass_accounts::Level;

/// The right that a request needs where the server has accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// None: the ways in themselves, and pages with a link.
    Open,
    /// An account: the answer holds nothing of others, or its handler filters it.
    Account,
    /// An account with sessions of its own, in a directory that it may open.
    Member,
    /// A use of the session in the path.
    Session(Level),
    /// The answer to a permission that some session waits for.
    Permission,
    /// The answer to a question that some session waits for.
    Question,
    Admin,
    /// No account has it: the route knows no accounts.
    Nobody,
}

/// Ends of the routes of a session that only answer its questions.
const ANSWERS: [&str; 2] = ["reply", "reject"];
/// Routes of a session that make it work.
const WORKS: [&str; 9] =
    ["message", "prompt_async", "prompt", "command", "shell", "summarize", "init", "wake", "compact"];
/// Routes of a session that take changes back, and that bring them again.
const REVERTS: [&str; 4] = ["revert", "unrevert", "stage", "clear"];
/// Routes of a session that stop its work, or change the next.
const STEERS: [&str; 7] = ["abort", "interrupt", "inbox", "background", "agent", "model", "wait"];

/// Reads about a directory, the server, or sessions, which their handlers filter.
const READS: [&str; 14] = [
    "file",
    "find",
    "vcs",
    "path",
    "agent",
    "command",
    "skill",
    "provider",
    "config",
    "lsp",
    "formatter",
    "mcp",
    "doc",
    "project",
];

/// Returns the right for a route of the table, by its method and its path with names in braces.
pub fn of(method: &Method, route: &str) -> Need {
    let is_read = [Method::GET, Method::HEAD].contains(method);
    let (segments, is_api): (Vec<&str>, bool) = match route.trim_matches('/').split('/').collect::<Vec<_>>() {
        segments if segments.first() == Some(&"api") => (segments[1..].to_vec(), true),
        segments => (segments, false),
    };
    match segments.as_slice() {
        ["account", rest @ ..] => of_account(rest),
        ["s", "{key}"] => Need::Open,
        [""] | ["global", "health"] | ["health"] => Need::Account,
        ["acp" | "mcp-server" | "enter"] | ["page", "link"] => Need::Nobody,
        ["page", "session", _] => Need::Session(Level::Read),
        ["session", "status" | "active"] => Need::Account,
        ["session", "{id}", rest @ ..] | ["experimental", "session", "{id}", rest @ ..] => {
            of_session(method, rest)
        }
        ["session"] if !is_read => Need::Member,
        ["session"] | ["experimental", "session"] => Need::Account,
        ["permission", "{id}", _] => Need::Permission,
        ["question", "{id}", _] => Need::Question,
        ["permission" | "question", ..] if is_read => Need::Account,
        ["event"] | ["global", "event"] => Need::Account,
        ["log"] => Need::Account,
        ["vcs", "apply"] => Need::Member,
        ["global", "config"] => Need::Admin,
        // An account's own keys.
        ["auth", _] => Need::Member,
        ["integration" | "location" | "model" | "reference" | "fs", ..] if is_api && is_read => Need::Account,
        ["experimental", "capabilities" | "console" | "tool" | "worktree" | "resource" | "workspace", ..]
            if is_read =>
        {
            Need::Account
        }
        [first, ..] if is_read && READS.contains(first) => Need::Account,
        _other => Need::Admin,
    }
}

/// The effect of a request about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It makes the session work.
    Work,
    /// It changes files of the session's directory.
    Files,
    Other,
}

/// Returns the effect of a request about a session.
pub fn effect(method: &Method, route: &str) -> Effect {
    match route.rsplit('/').next().unwrap_or_default() {
        _ if method.is_safe() => Effect::Other,
        "{inbox}" if *method == Method::PATCH => Effect::Work,
        last if WORKS.contains(&last) => Effect::Work,
        last if REVERTS.contains(&last) => Effect::Files,
        _other => Effect::Other,
    }
}

fn of_account(rest: &[&str]) -> Need {
    match rest {
        [] | ["login" | "callback", _] | ["enter"] | ["device"] | ["device", "token"] => Need::Open,
        _other => Need::Account,
    }
}

fn of_session(method: &Method, rest: &[&str]) -> Need {
    let is_read = [Method::GET, Method::HEAD].contains(method);
    let level = match rest {
        // It says with whom the session is shared.
        ["access", ..] => Level::Own,
        _ if is_read => Level::Read,
        // A copy is the reader's own.
        ["fork"] => Level::Read,
        ["permissions", _] => Level::Answer,
        ["permission" | "question", _, last] if ANSWERS.contains(last) => Level::Answer,
        ["message", _, ..] => Level::Own,
        [first, ..] if WORKS.contains(first) || STEERS.contains(first) => Level::Prompt,
        ["job", _] => Level::Prompt,
        _other => Level::Own,
    };
    Need::Session(level)
}

#[cfg(test)]
mod tests;
