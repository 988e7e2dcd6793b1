//! Applies a patch to several files at once, completely or not at all.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_base::{diff, file_change, path::real, text};
use windlass_protocol::opencode::tool_metadata::{AskedPatch, FileChange, Patched, PatchedFile, encode};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    blocking,
    diagnostics::{self, Diagnosed},
    file::{self, BOM, Before, Swap, Texts},
    format,
    patch_text::{self, Hunk},
    path::{self, Target, display},
    row::Offer,
};

const NO_TEXT: &str = "patchText is required";
/// Maximum bytes of a title that names the files.
const MAX_TITLE: usize = 200;

/// The patch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The whole patch, from "*** Begin Patch" to "*** End Patch".
    #[serde(alias = "patch", alias = "input")]
    pub patch_text: String,
}

pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    offer.writes_patches()
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    if ["patchText", "patch", "input"].iter().all(|name| input.get(name).is_none_or(Value::is_null)) {
        return Err(ToolError::Model(NO_TEXT.to_owned()));
    }
    let args: Args = arguments("apply_patch", input)?;
    let hunks = read(&args.patch_text)?;
    let targets = targets(cx, &hunks).await?;
    ask_outside(cx, &targets).await?;
    // Locked in one order everywhere, so that two patches cannot wait for each other.
    let in_order: BTreeMap<&PathBuf, &Target> =
        targets.values().map(|target| (&target.real, target)).collect();
    let (mut turns, mut guards) = (Vec::new(), Vec::new());
    for target in in_order.values() {
        turns.push(file::turn(cx, target).await);
    }
    let in_order: Vec<PathBuf> = in_order.into_keys().cloned().collect();
    let mut files = BTreeMap::new();
    for (name, target) in targets {
        files.insert(name, (Before::new(cx, &target).await, target));
    }
    for real in &in_order {
        guards.push(file::lock(real).await);
    }
    let mut plan = blocking(move || {
        let _guards = guards;
        Plan::new(files, &hunks)
    })
    .await?;
    if plan.changes.is_empty() {
        return Err(unverified("the patch changes nothing"));
    }
    let names: Vec<String> = plan.changes.iter().map(Change::name).collect();
    let kinds = plan.changes.iter().map(|change| change.kind).zip(names.iter().map(String::as_str));
    let summary = file_change::summary(kinds);
    ask_edit(cx, &plan, &names.join(", "), &summary).await?;
    let lines: Vec<String> = plan.changes.iter().map(Change::line).collect();
    let title = match text::head(&summary, MAX_TITLE) {
        head if head.len() < summary.len() => format!("{head}…"),
        head => head.to_owned(),
    };
    let swaps = std::mem::take(&mut plan.swaps);
    let written: Vec<(PathBuf, Option<Vec<u8>>, Vec<u8>)> = swaps
        .iter()
        .filter(|swap| !format::matching(cx.config, &swap.path).is_empty())
        .filter_map(|swap| Some((swap.path.clone(), swap.before.clone(), swap.after.clone()?)))
        .collect();
    file::put(cx, swaps).await?;
    for (path, before, after) in written {
        plan.format(cx, &path, before, &after).await;
    }
    drop(turns);
    let kept = plan.changes.iter().filter(|change| change.kind != FileChange::Delete);
    let kept: Vec<&Target> = kept.map(|change| &change.to).collect();
    let Diagnosed { metadata, words } = diagnostics::behind(cx, &kept).await;
    let (diff, shown) = (plan.diff(), plan.shown());
    Ok(ToolOutput {
        title,
        output: format!("Success. Updated the following files:\n{}{words}", lines.join("\n")),
        metadata: encode(&Patched { diff: &diff, files: &shown, diagnostics: metadata }),
        attachments: Vec::new(),
    })
}

/// Returns the files that the patch names, by these names.
async fn targets(cx: &ToolCx<'_>, hunks: &[Hunk]) -> Result<BTreeMap<String, Target>, ToolError> {
    let mut targets = BTreeMap::new();
    for name in hunks.iter().flat_map(names) {
        file::check_name(name)?;
        if !targets.contains_key(name) {
            let is_old = hunks.iter().any(
                |hunk| matches!(hunk, Hunk::Update { path, .. } | Hunk::Delete { path } if path == name),
            );
            let target = if is_old {
                path::resolve_existing(cx, name).await?
            } else {
                path::resolve(cx, name).await?
            };
            targets.insert(name.to_owned(), target);
        }
    }
    Ok(targets)
}

/// Asks for each directory outside of the project that the patch reaches into.
async fn ask_outside(cx: &ToolCx<'_>, targets: &BTreeMap<String, Target>) -> Result<(), ToolError> {
    let mut asked = Vec::new();
    for target in targets.values().filter(|target| !target.is_inside) {
        if !asked.contains(&target.directory()) {
            path::ask_outside(cx, target).await?;
            asked.push(target.directory());
        }
    }
    Ok(())
}

/// Asks for all changes at once; fails if a path leads elsewhere after the answer.
async fn ask_edit(cx: &ToolCx<'_>, plan: &Plan, paths: &str, summary: &str) -> Result<(), ToolError> {
    let touched: Vec<&Target> = plan.changes.iter().flat_map(|change| [&change.from, &change.to]).collect();
    let mut patterns: Vec<String> = Vec::new();
    let mut resolved: Vec<String> = Vec::new();
    for target in &touched {
        let new = target.patterns.iter().filter(|pattern| !patterns.contains(pattern)).cloned();
        let new: Vec<String> = new.collect();
        patterns.extend(new);
        resolved.extend(target.resolved().filter(|it| !resolved.contains(it)));
    }
    let resolved = (!resolved.is_empty()).then(|| resolved.join(", "));
    let (diff, shown) = (plan.diff(), plan.shown());
    let metadata = encode(&AskedPatch {
        filepath: paths,
        changes: summary,
        diff: &diff,
        files: &shown,
        resolved: resolved.as_deref(),
    });
    file::ask_edit(cx, &touched, patterns, metadata).await?;
    for target in touched {
        path::unmoved(cx, target).await?;
    }
    Ok(())
}

fn unverified(reason: &str) -> ToolError {
    ToolError::Model(format!("apply_patch verification failed: {reason}"))
}

fn read(patch_text: &str) -> Result<Vec<Hunk>, ToolError> {
    if patch_text.trim().is_empty() {
        return Err(ToolError::Model(NO_TEXT.to_owned()));
    }
    let hunks = patch_text::parse(patch_text).map_err(|reason| unverified(&reason))?;
    if !hunks.is_empty() {
        return Ok(hunks);
    }
    let mut lines = patch_text.trim().lines().map(str::trim);
    match (lines.next(), lines.next(), lines.next()) {
        (Some("*** Begin Patch"), Some("*** End Patch"), None) => {
            Err(ToolError::Model("patch rejected: empty patch".to_owned()))
        }
        _other => Err(unverified("no hunks found")),
    }
}

fn names(hunk: &Hunk) -> Vec<&str> {
    match hunk {
        Hunk::Add { path, .. } | Hunk::Delete { path } => vec![path],
        Hunk::Update { path, move_to, .. } => {
            std::iter::once(path).chain(move_to).map(String::as_str).collect()
        }
    }
}

/// The changes to show and to write.
struct Plan {
    changes: Vec<Change>,
    swaps: Vec<Swap>,
}

/// One file of a patch, before and after.
struct State {
    target: Target,
    before: Option<Vec<u8>>,
    now: Option<Vec<u8>>,
    /// The file with the content that was moved here.
    moved_from: Option<PathBuf>,
    /// Set if a section of the patch was about it.
    is_touched: bool,
    /// The identity of the file, independent of its name.
    inode: Option<(u64, u64)>,
}

impl Plan {
    /// Applies the hunks to the files' texts in memory, one after the other. Blocks.
    fn new(files: BTreeMap<String, (Before, Target)>, hunks: &[Hunk]) -> Result<Self, ToolError> {
        let mut states: Vec<State> = Vec::new();
        for hunk in hunks {
            match hunk {
                Hunk::Add { path, content } => {
                    let idx = open(&mut states, &files, path)?;
                    let state = &mut states[idx];
                    // Content that another section of this patch put there must not vanish unseen.
                    if state.is_touched && state.now.is_some() {
                        let path = state.target.path.display();
                        return Err(unverified(&format!("Cannot add {path}: the patch changes it already")));
                    }
                    state.now = Some(content.clone().into_bytes());
                    state.is_touched = true;
                }
                Hunk::Delete { path } => {
                    let idx = open(&mut states, &files, path)?;
                    states[idx].is_touched = true;
                    if states[idx].now.take().is_none() {
                        let path = states[idx].target.path.display();
                        return Err(unverified(&format!("Failed to read file to delete: {path}")));
                    }
                }
                Hunk::Update { path, move_to, chunks } => {
                    let from = open(&mut states, &files, path)?;
                    let file_path = states[from].target.path.clone();
                    let Some(bytes) = &states[from].now else {
                        let path = file_path.display();
                        return Err(unverified(&format!("Failed to read file to update: {path}")));
                    };
                    let after =
                        if chunks.is_empty() { bytes.clone() } else { updated(&file_path, bytes, chunks)? };
                    let to = match move_to {
                        Some(move_to) => open(&mut states, &files, move_to)?,
                        None => from,
                    };
                    if to != from {
                        if states[to].now.is_some() {
                            let (path, to) = (file_path.display(), states[to].target.path.display());
                            return Err(unverified(&format!("Cannot move {path} to {to}: it exists")));
                        }
                        states[from].now = None;
                        states[from].is_touched = true;
                        states[to].moved_from = Some(states[from].target.real.clone());
                    }
                    states[to].now = Some(after);
                    states[to].is_touched = true;
                }
            }
        }
        check_places(&states)?;
        Ok(Self::of(states))
    }

    fn diff(&self) -> String {
        self.changes.iter().map(|change| change.unified.patch.as_str()).collect()
    }

    fn shown(&self) -> Vec<PatchedFile<'_>> {
        self.changes.iter().map(Change::shown).collect()
    }

    /// Formats a file that was written, and shows it as it is then.
    async fn format(&mut self, cx: &ToolCx<'_>, path: &Path, before: Option<Vec<u8>>, written: &[u8]) {
        let Some(change) = self.changes.iter_mut().find(|change| change.to.path == path) else { return };
        let Some(text) = file::formatted(cx, &change.to, written).await else { return };
        let before = before.or_else(|| change.texts.before()?.map(|text| text.as_bytes().to_vec()));
        let name = change.to_path.clone();
        let compared = blocking(move || {
            let old = String::from_utf8_lossy(before.as_deref().unwrap_or_default()).into_owned();
            let unified = diff::unified(&name, &old, &text);
            Ok((unified, Texts::of(before.as_deref(), Some(text.as_bytes()))))
        });
        if let Ok((unified, texts)) = compared.await {
            (change.unified, change.texts) = (unified, texts);
        }
    }

    fn of(mut states: Vec<State>) -> Self {
        states.retain(|state| state.before != state.now);
        let origin = |state: &State| {
            let real = state.moved_from.as_ref().filter(|_| state.before.is_none())?;
            states.iter().find(|other| other.target.real == *real && other.now.is_none())
        };
        let is_origin = |state: &State| {
            states.iter().any(|other| origin(other).is_some_and(|it| it.target.real == state.target.real))
        };
        let shown = states.iter().filter(|state| !is_origin(state));
        let changes = shown.map(|state| Change::new(origin(state).unwrap_or(state), state)).collect();
        let swaps = states.into_iter().map(|state| {
            let real = match &state.now {
                Some(_) => state.target.real,
                None => place_of(&state.target),
            };
            Swap {
                path: state.target.path,
                real,
                before: state.before,
                after: state.now,
                like: state.moved_from,
            }
        });
        Self { changes, swaps: swaps.collect() }
    }
}

/// Returns the path of the directory entry itself, with the links in its directory followed: deleting a link
/// must not delete its target.
fn place_of(target: &Target) -> PathBuf {
    match (target.path.parent(), target.path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _other => target.real.clone(),
    }
}

/// Returns the state of a named file, which is read from disk the first time.
fn open(
    states: &mut Vec<State>,
    files: &BTreeMap<String, (Before, Target)>,
    name: &str,
) -> Result<usize, ToolError> {
    let Some((gate, target)) = files.get(name) else {
        return Err(ToolError::Internal(format!("{name} was not resolved")));
    };
    let inode = fs::metadata(&target.path).ok().map(|it| (it.dev(), it.ino()));
    for (idx, state) in states.iter().enumerate() {
        let is_same = state.target.real == target.real || (inode.is_some() && state.inode == inode);
        if is_same && state.target.path == target.path {
            return Ok(idx);
        }
        if is_same {
            let (path, other) = (target.path.display(), state.target.path.display());
            return Err(unverified(&format!("{path} and {other} are the same file; name it in one way")));
        }
    }
    let before = gate.load(target)?;
    let (target, now) = (target.clone(), before.clone());
    states.push(State { target, now, before, moved_from: None, is_touched: false, inode });
    Ok(states.len() - 1)
}

/// Refuses a file where another one needs a directory, before or after the patch.
fn check_places(states: &[State]) -> Result<(), ToolError> {
    for (file, below) in states.iter().flat_map(|file| states.iter().map(move |below| (file, below))) {
        let is_below =
            file.target.real != below.target.real && below.target.real.starts_with(&file.target.real);
        if is_below && below.now.is_some() && (file.now.is_some() || file.before.is_some()) {
            let (file, below) = (file.target.path.display(), below.target.path.display());
            return Err(unverified(&format!("{file} is a file, so {below} cannot be below it")));
        }
    }
    Ok(())
}

fn updated(path: &Path, bytes: &[u8], chunks: &[patch_text::Chunk]) -> Result<Vec<u8>, ToolError> {
    let text = file::text(path, bytes)?;
    let (bom, body) = match text.strip_prefix(BOM) {
        Some(body) => (BOM, body),
        None => ("", text),
    };
    let body = patch_text::apply(&display(path), body, chunks).map_err(|reason| unverified(&reason))?;
    Ok(format!("{bom}{body}").into_bytes())
}

/// One file's change as a client draws it.
struct Change {
    from: Target,
    to: Target,
    kind: FileChange,
    unified: diff::Unified,
    texts: Texts,
    from_path: String,
    to_path: String,
}

impl Change {
    fn new(from: &State, to: &State) -> Self {
        let (before, after) = (from.before.as_deref(), to.now.as_deref());
        let kind = match (before, after) {
            _ if from.target.real != to.target.real => FileChange::Move,
            (None, _) => FileChange::Add,
            (Some(_), None) => FileChange::Delete,
            (Some(_), Some(_)) => FileChange::Update,
        };
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let unified = diff::unified(&display(&to.target.path), &text(before), &text(after));
        let (from, to) = (from.target.clone(), to.target.clone());
        let (from_path, to_path) = (display(&from.path), display(&to.path));
        Self { from, to, kind, unified, texts: Texts::of(before, after), from_path, to_path }
    }

    fn shown(&self) -> PatchedFile<'_> {
        PatchedFile {
            file_path: &self.from_path,
            relative_path: Some(&self.to.relative),
            change: self.kind,
            patch: &self.unified.patch,
            additions: self.unified.additions as u64,
            deletions: self.unified.deletions as u64,
            move_path: (self.kind == FileChange::Move).then_some(&*self.to_path),
            before: self.texts.before(),
            after: self.texts.after(),
        }
    }

    /// Returns the name for the user; for a moved file, with the old name.
    fn name(&self) -> String {
        match self.kind {
            FileChange::Move => format!("{} → {}", self.from.relative, self.to.relative),
            FileChange::Add | FileChange::Update | FileChange::Delete => self.to.relative.clone(),
        }
    }

    fn line(&self) -> String {
        let letter = match self.kind {
            FileChange::Add => 'A',
            FileChange::Update | FileChange::Move => 'M',
            FileChange::Delete => 'D',
        };
        format!("{letter} {}", self.to.relative)
    }
}

#[cfg(test)]
mod tests;
