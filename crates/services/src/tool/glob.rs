//! Finds files by name.

use std::{
    collections::BinaryHeap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use ignore::overrides::Override;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_base::lock::lock;
use windlass_core::permission::Ask;
use windlass_protocol::opencode::{
    tool_metadata::Counts,
    tool_metadata::{AskedPattern, encode},
};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    blocking,
    path::{self, Target, one_line},
    truncate,
    walk::{self, Included, StopOnDrop, Unread, Walk},
};

const LIMIT: usize = 100;
/// Time for a search in path order before several threads search in any order.
const HEAD_START: Duration = Duration::from_millis(1);

/// The search.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The glob, such as `**/*.ts` or `src/**/test_*.py`.
    pub pattern: String,
    /// The directory to search; leave it out for the working directory.
    pub path: Option<String>,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("glob", input)?;
    if args.pattern.is_empty() {
        return Err(ToolError::Model("pattern is required".to_owned()));
    }
    let (base, pattern) = split_absolute(&args);
    let target = path::resolve_existing(cx, base.unwrap_or(".")).await?;
    path::ask_outside(cx, &target).await?;
    cx.host
        .ask(Ask {
            permission: "glob".to_owned(),
            patterns: vec![args.pattern.clone()],
            always: vec!["*".to_owned()],
            metadata: encode(&AskedPattern {
                pattern: &args.pattern,
                path: args.path.as_deref(),
                include: None,
            }),
        })
        .await?;
    path::unmoved(cx, &target).await?;
    let pattern = pattern.to_owned();
    let stop = StopOnDrop::default();
    let stopped = stop.flag();
    let search = blocking(move || find(&target, &pattern, &stopped));
    let Found { files, is_truncated, unread } = tokio::select! {
        found = search => found?,
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
    };
    let mut output: Vec<String> = files.iter().map(|path| one_line(path)).collect();
    if output.is_empty() {
        output.push("No files found".to_owned());
    }
    if is_truncated {
        output.push(format!(
            "\n(Results are truncated: showing first {LIMIT} results. Consider using a more specific path or pattern.)"
        ));
    }
    let output = output.join("\n") + &unread;
    Ok(ToolOutput {
        title: args.pattern,
        metadata: truncate::marked(
            cx,
            Counts { count: Some(files.len() as u64), ..Counts::default() },
            is_truncated,
            &output,
        ),
        output,
        attachments: Vec::new(),
    })
}

/// Splits an absolute pattern into its directory, everything before the first wildcard, and the rest.
fn split_absolute(args: &Args) -> (Option<&str>, &str) {
    let pattern = args.pattern.as_str();
    if args.path.is_some() || !pattern.starts_with('/') {
        return (args.path.as_deref().filter(|path| !path.is_empty()), pattern);
    }
    let literal = &pattern[..pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len())];
    match literal.rfind('/') {
        // In gitignore's syntax, a slash at the beginning excludes subdirectories.
        None | Some(0) => (None, pattern),
        Some(slash) => (Some(&pattern[..slash]), &pattern[slash..]),
    }
}

struct Found {
    /// The first files in path order.
    files: Vec<PathBuf>,
    /// Set if there are more files.
    is_truncated: bool,
    /// The paths that could not be searched, as a note for the model.
    unread: String,
}

fn find(target: &Target, pattern: &str, stopped: &AtomicBool) -> Result<Found, ToolError> {
    let root = target.path.as_path();
    if !target.is_directory {
        let message = if root.exists() {
            format!("glob path must be a directory: {}", root.display())
        } else {
            format!("glob path does not exist: {}", root.display())
        };
        return Err(ToolError::Model(message));
    }
    let included = Included::by(root, pattern)?;
    let is_hidden_included = pattern.split(['/', '{', ',']).any(|name| name.starts_with('.') && name != ".");
    let unread = Unread::default();
    let walk =
        Walk { root, unread: &unread, is_hidden_included, included: &included, excluded: &Override::empty() };
    let found = Mutex::new(BinaryHeap::new());
    let frontier = walk::first_files(&walk, stopped, HEAD_START, |entry| {
        let mut found = lock(&found);
        found.push(entry.path().to_owned());
        if found.len() > LIMIT { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(frontier) = frontier {
        let is_early = |path: &Path| !frontier.is_behind(path) && is_early(&lock(&found), path);
        walk::files(&walk, stopped, is_early, || {
            |entry: &ignore::DirEntry| {
                let path = entry.path();
                if is_early(path) {
                    keep_first(&mut lock(&found), path);
                }
                ControlFlow::Continue(())
            }
        });
    }
    let mut files = found.into_inner().unwrap_or_else(PoisonError::into_inner).into_sorted_vec();
    let is_truncated = files.len() > LIMIT;
    files.truncate(LIMIT);
    if let Some(last) = files.last().filter(|_| is_truncated) {
        unread.forget_behind(last);
    }
    target.retain_unmoved(&mut files);
    Ok(Found { files, is_truncated, unread: unread.note() })
}

/// Returns true if the path, or one below it, could be among the first.
fn is_early(found: &BinaryHeap<PathBuf>, path: &Path) -> bool {
    found.len() <= LIMIT || found.peek().is_none_or(|last| path < last.as_path())
}

/// Keeps one more file than the limit: threads find files in any order, but the answer must not depend on it.
fn keep_first(found: &mut BinaryHeap<PathBuf>, path: &Path) {
    found.push(path.to_owned());
    if found.len() > LIMIT + 1 {
        found.pop();
    }
}

#[cfg(test)]
mod tests;
