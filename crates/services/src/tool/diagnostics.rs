//! Errors that language servers find in files that were changed, as the model and the client are told.

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use serde_json::{Map, Value};
use windlass_base::{lock::lock, text};
use windlass_core::permission::{self, Ask, Verdict};

use super::{
    FileStamp, ToolCx,
    path::{Target, display},
};
use crate::lsp::Later;

/// Errors of one file that the model is told (facts: OpenCode §12.1).
const MAX_ERRORS: usize = 20;
/// Other files with errors that it is told of.
const MAX_OTHERS: usize = 5;
/// Bytes of the errors of one file, so that those of others have room in an answer.
const MAX_OF_FILE: usize = 6000;
/// Files that servers have still to tell of; those that changed first are given up.
const MAX_LATE: usize = 50;
/// Files with errors that came late, in one answer.
const MAX_TOLD_LATE: usize = 3;
/// Bytes of an error's text.
const MAX_MESSAGE: usize = 1000;
/// The protocol's number of an error.
const ERROR: u64 = 1;

/// Findings behind a change.
pub(super) struct Diagnosed {
    /// The diagnostics by file, as the servers gave them.
    pub metadata: Map<String, Value>,
    /// Goes behind the tool's answer; empty without errors.
    pub words: String,
}

/// Errors that servers had not told in time of the files that a session has changed. Shared with the calls of a step.
#[derive(Clone, Default)]
pub struct LateErrors(Arc<Mutex<Vec<Late>>>);

struct Late {
    /// The file's name for the model.
    name: String,
    /// The file as it was changed; `None` if it could not be looked at.
    stamp: Option<FileStamp>,
    later: Later,
}

impl LateErrors {
    /// Notes the errors that are still to come behind a change of files. Those of the older texts are given up.
    async fn note(&self, changed: &[&Target], later: Vec<Later>) {
        let mut new = Vec::new();
        for later in later {
            let Some(target) = changed.iter().find(|target| target.real == later.path) else { continue };
            let stamp = stamp(&target.real).await;
            new.push(Late { name: target.relative.clone(), stamp, later });
        }
        let mut late = lock(&self.0);
        late.retain(|before| changed.iter().all(|target| target.real != before.later.path));
        late.extend(new);
        let n_surplus = late.len().saturating_sub(MAX_LATE);
        late.drain(..n_surplus);
    }

    /// Returns the errors that have come since, once, as they go behind an answer. Those of a file that is no longer as it
    /// was changed are left out.
    pub async fn take(&self) -> String {
        let paths: Vec<PathBuf> = {
            let late = lock(&self.0);
            let come = late.iter().filter(|it| it.later.has_come()).take(MAX_TOLD_LATE);
            come.map(|it| it.later.path.clone()).collect()
        };
        let mut stamps = HashMap::new();
        for path in paths {
            let stamp = stamp(&path).await;
            stamps.insert(path, stamp);
        }
        // Nothing waits from here on: errors that are taken are told.
        let is_taken = |it: &mut Late| it.later.has_come() && stamps.contains_key(&it.later.path);
        let come: Vec<Late> = lock(&self.0).extract_if(.., is_taken).collect();
        let mut words = String::new();
        for Late { name, stamp: before, later } in come {
            let now = stamps.get(&later.path).copied().flatten();
            let is_as_changed = before.zip(now).is_some_and(|(before, now)| before.is_same(&now));
            if let Some(errors) = errors(&name, &later.take()).filter(|_| is_as_changed) {
                let _ = write!(words, "\n\nLSP errors found since in {name}, please fix:\n{errors}");
            }
        }
        words
    }
}

async fn stamp(path: &std::path::Path) -> Option<FileStamp> {
    tokio::fs::metadata(path).await.ok().map(|metadata| FileStamp::of(&metadata))
}

/// Looks for errors in files that were changed just now, and in others of the directory. Costs nothing where no server
/// is configured.
pub(super) async fn behind(cx: &ToolCx<'_>, changed: &[&Target]) -> Diagnosed {
    let paths: Vec<PathBuf> = changed.iter().map(|target| target.real.clone()).collect();
    let (mut found, later) = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Diagnosed { metadata: Map::new(), words: String::new() },
        found = cx.lsp.diagnose(cx.config, &paths) => found,
    };
    if let Some(late) = cx.host.late_errors() {
        late.note(changed, later).await;
    }
    let mut diagnosed = Diagnosed { metadata: Map::new(), words: String::new() };
    for target in changed {
        let Some(diagnostics) = found.remove(&target.real) else { continue };
        if let Some(errors) = errors(&target.relative, &diagnostics) {
            let heading = if changed.len() == 1 { "this file".to_owned() } else { target.relative.clone() };
            let _ = write!(diagnosed.words, "\n\nLSP errors detected in {heading}, please fix:\n{errors}");
        }
        diagnosed.metadata.insert(display(&target.path), diagnostics.into());
    }
    let (root, policy) = (&cx.config.directory, cx.host.policy());
    let others = found.into_iter().filter_map(|(path, diagnostics)| {
        let name = display(path.strip_prefix(root).ok()?);
        // A server reads files that the model may not.
        let ask = Ask {
            permission: "read".to_owned(),
            patterns: vec![name.clone()],
            always: Vec::new(),
            metadata: Map::new(),
        };
        let may_read = permission::evaluate_all(&ask, &policy, &[]) == Verdict::Allow;
        let errors = errors(&name, &diagnostics).filter(|_| may_read)?;
        Some((path, diagnostics, errors))
    });
    for (idx, (path, diagnostics, errors)) in others.take(MAX_OTHERS).enumerate() {
        let heading = if idx == 0 { "\n\nLSP errors detected in other files:" } else { "" };
        let _ = write!(diagnosed.words, "{heading}\n{errors}");
        diagnosed.metadata.insert(display(&path), diagnostics.into());
    }
    diagnosed
}

/// Returns the errors of a file, if it has any.
fn errors(name: &str, diagnostics: &[Value]) -> Option<String> {
    let is_error = |it: &&Value| it.get("severity").and_then(Value::as_u64).unwrap_or(ERROR) == ERROR;
    let errors: Vec<&Value> = diagnostics.iter().filter(is_error).collect();
    if errors.is_empty() {
        return None;
    }
    let mut acc = format!("<diagnostics file=\"{name}\">\n");
    let mut n_told = 0;
    for error in errors.iter().take(MAX_ERRORS) {
        if acc.len() >= MAX_OF_FILE {
            break;
        }
        n_told += 1;
        let start = error.pointer("/range/start");
        let place = |key: &str| start.and_then(|it| it.get(key)).and_then(Value::as_u64).unwrap_or(0) + 1;
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        let message = text::head(message, MAX_MESSAGE);
        let _ = writeln!(acc, "ERROR [{}:{}] {message}", place("line"), place("character"));
    }
    if errors.len() > n_told {
        let _ = writeln!(acc, "... and {} more", errors.len() - n_told);
    }
    acc.push_str("</diagnostics>");
    Some(acc)
}
