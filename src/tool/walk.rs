//! Walks a directory the way ripgrep does: ignore rules honoured, `.git` left out, on several threads.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ignore::{
    DirEntry, WalkBuilder, WalkState,
    overrides::{Override, OverrideBuilder},
};

use super::ToolError;

/// Where to walk.
pub(crate) struct Walk<'a> {
    pub root: &'a Path,
    /// Whether files and directories whose name begins with a dot are seen.
    pub is_hidden_included: bool,
    /// Globs of what to leave out, besides what ignore files say.
    pub excluded: &'a Override,
}

/// Calls `visit` for every file, on several threads at once and in no order.
///
/// A new visitor is made for each thread by `make_visitor`. A directory that `is_wanted` does not want is not entered.
pub(crate) fn files<V>(
    walk: &Walk<'_>,
    stopped: &AtomicBool,
    is_wanted: impl Fn(&Path) -> bool + Sync,
    make_visitor: impl Fn() -> V + Sync,
) where
    V: FnMut(&DirEntry) -> ControlFlow<()> + Send,
{
    let excluded = walk.excluded.clone();
    let mut builder = WalkBuilder::new(walk.root);
    builder.hidden(!walk.is_hidden_included).add_custom_ignore_filename(".rgignore");
    builder.filter_entry(move |entry| {
        let is_directory = || entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_excluded = || excluded.matched(entry.path(), is_directory()).is_ignore();
        entry.depth() == 0 || (entry.file_name() != ".git" && (excluded.is_empty() || !is_excluded()))
    });
    builder.build_parallel().run(|| {
        let (mut visit, is_wanted) = (make_visitor(), &is_wanted);
        Box::new(move |entry| {
            if stopped.load(Ordering::Relaxed) {
                return WalkState::Quit;
            }
            // What cannot be read is passed over, as ripgrep does after a complaint.
            let Ok(entry) = entry else { return WalkState::Continue };
            match entry.file_type() {
                Some(kind) if kind.is_file() => {}
                Some(kind) if kind.is_dir() && !is_wanted(entry.path()) => return WalkState::Skip,
                Some(_) | None => return WalkState::Continue,
            }
            match visit(&entry) {
                ControlFlow::Continue(()) => WalkState::Continue,
                ControlFlow::Break(()) => WalkState::Quit,
            }
        })
    });
}

/// A matcher that says of paths below `root` whether they match a glob, in gitignore's syntax.
pub(crate) fn matcher(root: &Path, globs: &[&str]) -> Result<Override, ToolError> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        let bad =
            |error: ignore::Error| ToolError::Model(format!("Invalid glob pattern \"{glob}\": {error}"));
        builder.add(glob).map_err(bad)?;
    }
    builder.build().map_err(|error| ToolError::Model(format!("Invalid glob pattern: {error}")))
}

/// Tells work on another thread to stop once nobody waits for it any more.
#[derive(Default)]
pub(crate) struct StopOnDrop(Arc<AtomicBool>);

impl StopOnDrop {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
