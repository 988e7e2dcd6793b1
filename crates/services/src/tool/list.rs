//! Shows the files below a directory as a tree.

use std::{
    collections::{BTreeMap, BinaryHeap},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, atomic::AtomicBool},
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_base::lock::lock;
use windlass_core::permission::Ask;
use windlass_protocol::opencode::{
    tool_metadata::Counts,
    tool_metadata::{AskedList, encode},
};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    blocking,
    path::{self, Target, display, one_line},
    truncate,
    walk::{self, Included, StopOnDrop, Unread, Walk},
};

const LIMIT: usize = 100;
/// Directories of generated files, which say nothing about a project even if no ignore file names them.
const NOISE: &[&str] = &[
    "!node_modules/",
    "!__pycache__/",
    "!.git/",
    "!target/",
    "!dist/",
    "!build/",
    "!coverage/",
    "!.venv/",
    "!venv/",
    "!.cache/",
    "!.idea/",
    "!.vscode/",
    "!.zig-cache/",
    "!zig-out/",
];

/// The directory to list.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The directory to list; leave it out for the working directory.
    pub path: Option<String>,
    /// Globs of files and directories to leave out, such as `*.snap` or `docs/`.
    pub ignore: Option<Vec<String>>,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("list", input)?;
    let path = args.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
    let target = path::resolve_existing(cx, path).await?;
    path::ask_outside(cx, &target).await?;
    cx.host
        .ask(Ask {
            permission: "list".to_owned(),
            patterns: target.patterns.clone(),
            always: vec!["*".to_owned()],
            metadata: encode(&AskedList { path: &display(&target.path) }),
        })
        .await?;
    path::unmoved(cx, &target).await?;
    let title = one_line(Path::new(&target.relative));
    let stop = StopOnDrop::default();
    let stopped = stop.flag();
    let listing = blocking(move || list(&target, &args.ignore.unwrap_or_default(), &stopped));
    let (output, n_files, is_truncated) = tokio::select! {
        listed = listing => listed?,
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
    };
    Ok(ToolOutput {
        title,
        metadata: truncate::marked(
            cx,
            Counts { count: Some(n_files as u64), ..Counts::default() },
            is_truncated,
            &output,
        ),
        output,
        attachments: Vec::new(),
    })
}

fn list(
    target: &Target,
    ignored: &[String],
    stopped: &AtomicBool,
) -> Result<(String, usize, bool), ToolError> {
    let root = target.path.as_path();
    if !target.is_directory {
        let message = if root.exists() {
            format!("list path must be a directory: {}", root.display())
        } else {
            format!("list path does not exist: {}", root.display())
        };
        return Err(ToolError::Model(message));
    }
    let ignored: Vec<String> = ignored.iter().map(|glob| format!("!{glob}")).collect();
    let globs: Vec<&str> = NOISE.iter().copied().chain(ignored.iter().map(String::as_str)).collect();
    let unread = Unread::default();
    let walk = Walk {
        root,
        unread: &unread,
        is_hidden_included: false,
        included: &Included::all(),
        excluded: &walk::matcher(root, &globs)?,
    };
    // Nearest first, so that a deep directory does not displace the files next to it.
    let found: Mutex<BinaryHeap<(usize, PathBuf)>> = Mutex::default();
    walk::files(
        &walk,
        stopped,
        |_| true,
        || {
            |entry: &ignore::DirEntry| {
                let mut found = lock(&found);
                found.push((entry.depth(), entry.path().to_owned()));
                if found.len() > LIMIT + 1 {
                    found.pop();
                }
                ControlFlow::Continue(())
            }
        },
    );
    let files = found.into_inner().unwrap_or_else(PoisonError::into_inner).into_sorted_vec();
    let is_truncated = files.len() > LIMIT;
    let mut files: Vec<PathBuf> = files.into_iter().take(LIMIT).map(|(_, path)| path).collect();
    target.retain_unmoved(&mut files);
    let mut tree = Tree::default();
    files.iter().filter_map(|path| path.strip_prefix(root).ok()).for_each(|path| tree.insert(path));
    let mut output = format!("{}/\n", one_line(root).trim_end_matches('/'));
    tree.show(&mut output, 1);
    if is_truncated {
        output.push_str(&format!(
            "\n(Results are truncated: showing the nearest {LIMIT} files. Consider a more specific path.)\n"
        ));
    }
    output.push_str(&unread.note());
    Ok((output, files.len(), is_truncated))
}

/// The directories and files of one directory.
#[derive(Default)]
struct Tree {
    directories: BTreeMap<String, Tree>,
    files: Vec<String>,
}

impl Tree {
    fn insert(&mut self, path: &Path) {
        let mut names = path.iter().map(|name| one_line(Path::new(name)));
        let Some(file) = names.next_back() else { return };
        let mut tree = self;
        for name in names {
            tree = tree.directories.entry(name).or_default();
        }
        tree.files.push(file);
    }

    fn show(&self, output: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        for (name, tree) in &self.directories {
            output.push_str(&format!("{indent}{name}/\n"));
            tree.show(output, depth + 1);
        }
        for name in &self.files {
            output.push_str(&format!("{indent}{name}\n"));
        }
    }
}

#[cfg(test)]
mod tests;
