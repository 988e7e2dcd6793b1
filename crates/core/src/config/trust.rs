//! Trust in a project: its entries act once its user has said so, one by one as they were shown.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use windlass_base::{credential_file, home, text::visible_line};
use windlass_protocol::opencode::settings::SandboxAtStart;

use super::{environment::Environment, layer::Layer, paths::Paths, rules::wildcard, warning::Warning};

mod filter;
mod scripts;

/// Entries of a warning; the rest is counted.
const MAX_NAMED: usize = 6;
/// Entries and bytes of a question. A yes is about the entries shown: the rest is asked about in the next one.
const MAX_ASKED: usize = 40;
const MAX_ASKED_BYTES: usize = 16 * 1024;

/// Something that a project brings and that does not act yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The words for its kind and its name, such as "MCP server shop".
    pub what: String,
    /// The part that people read: the command, the address, the value; without secrets.
    pub shown: String,
    /// The hash of where it stands and of all that it says; empty if there is too much of it for a word on it.
    pub hash: String,
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, shown, hash: _ } = self;
        f.write_str(&visible_line(&if shown.is_empty() { what.clone() } else { format!("{what}: {shown}") }))
    }
}

/// The part of a project that does not act.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// The project's real directory.
    pub root: PathBuf,
    pub entries: Vec<Entry>,
    /// Directories with plugins and tools that are not loaded.
    pub directories: BTreeSet<PathBuf>,
    /// The user's own language servers and formatters are off here: they run programs, plugins and build files of the
    /// project.
    pub holds_programs: bool,
    /// All of the project acts by the user's word.
    pub is_trusted: bool,
    /// The user said that nothing of this project is ever to act.
    pub is_never: bool,
}

impl Held {
    /// Returns the entries, each in a line.
    pub fn lines(&self) -> String {
        self.entries.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Returns the part that one question can show, whole entries only.
    pub fn askable(&self) -> Self {
        let mut n_bytes = 0;
        let mut entries = Vec::new();
        for entry in self.entries.iter().filter(|entry| !entry.hash.is_empty()) {
            let n_own = entry.to_string().len();
            if n_bytes + n_own <= MAX_ASKED_BYTES && entries.len() < MAX_ASKED {
                n_bytes += n_own;
                entries.push(entry.clone());
            }
        }
        Self { entries, ..self.clone() }
    }

    /// Returns the sentence about all of it; none if nothing is held.
    pub fn sentence(&self) -> Option<String> {
        if self.entries.is_empty() {
            return None;
        }
        let named: Vec<String> = self.entries.iter().take(MAX_NAMED).map(|it| it.what.clone()).collect();
        let n_more = self.entries.len().saturating_sub(MAX_NAMED);
        let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
        let named = visible_line(&named.join(", ")).into_owned();
        Some(if self.is_never {
            format!(
                "nothing that this project brings acts, as you chose ({named}{more}); `windlass trust` allows it"
            )
        } else {
            format!(
                "this project is not trusted, so this does not act: {named}{more}; `windlass trust` shows and allows it"
            )
        })
    }
}

/// The user's word on a project.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    /// All of it acts.
    All,
    /// These entries act, by their hashes.
    Entries(BTreeSet<String>),
    Never,
}

/// Holds back the parts of a project that may act, while its files are read.
#[derive(Debug)]
pub struct Gate {
    word: Word,
    held: Held,
    /// The present source as it is written, where its value is another one.
    written: Option<Map<String, Value>>,
    /// The sandbox that this process was started for.
    at_start: SandboxAtStart,
    home: PathBuf,
}

impl Gate {
    /// Looks up the user's word on the project of a directory; `layers` are the user's own. Does blocking reads.
    pub fn new(
        environment: &Environment,
        paths: &Paths,
        directory: &Path,
        worktree: &Path,
        layers: &[Layer],
    ) -> Self {
        let root = root(directory, worktree);
        let is_own = environment.trusts_projects
            || directory == environment.home
            || patterns(layers, &environment.home).iter().any(|it| wildcard(it, &root.to_string_lossy()));
        let word = if is_own { Word::All } else { word(paths, &root) };
        let is_never = word == Word::Never;
        let at_start = environment.sandbox_at_start();
        let held = Held { root, is_never, ..Held::default() };
        Self { word, held, written: None, at_start, home: environment.home.clone() }
    }

    /// Returns true if all of the project acts.
    pub fn is_open(&self) -> bool {
        self.word == Word::All
    }

    /// Returns the project's real directory.
    pub fn root(&self) -> &Path {
        &self.held.root
    }

    /// Returns the parts that were held back.
    pub fn into_held(mut self) -> Held {
        let has_word = match &self.word {
            Word::All => true,
            Word::Entries(hashes) => !hashes.is_empty(),
            Word::Never => false,
        };
        self.held.is_trusted = has_word && self.held.entries.is_empty();
        self.held
    }

    /// Holds the user's own language servers and formatters back: their programs in a project are the project's.
    pub fn own_programs<'a>(&mut self, users: impl Iterator<Item = &'a Layer> + Clone) {
        let is_on = |key: &str| {
            let last = users.clone().filter_map(|layer| layer.value.get(key)).last();
            last.is_some_and(|value| *value != Value::Bool(false) && !value.is_null())
        };
        let kinds = [("lsp", "language servers"), ("formatter", "formatters")];
        let on: Vec<&str> = kinds.into_iter().filter(|(key, _)| is_on(key)).map(|(_, words)| words).collect();
        if on.is_empty() {
            return;
        }
        let what = format!("your own {}", on.join(" and "));
        let shown = "they run programs, plugins and build files of the project".to_owned();
        self.held.holds_programs = !self.admits(what.clone(), shown, "own programs", what.as_bytes());
    }

    /// Returns true if an entry acts; notes it otherwise. `place` says where it stands, from the project's root.
    fn admits(&mut self, what: String, shown: String, place: &str, content: &[u8]) -> bool {
        let mut hasher = Sha256::new();
        for part in [place.as_bytes(), content] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let hash: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let is_admitted = match &self.word {
            Word::All => true,
            Word::Entries(hashes) => hashes.contains(&hash),
            Word::Never => false,
        };
        if !is_admitted {
            self.held.entries.push(Entry { what, shown, hash });
        }
        is_admitted
    }

    /// Returns true if a path, or the beginning of a pattern, lies below the project's root once links are followed.
    fn is_within(&self, path: &Path) -> bool {
        let is_pattern = |part: &Path| part.to_string_lossy().contains(['*', '?', '[', '{']);
        let named = path.ancestors().filter(|it| !is_pattern(it)).find_map(|it| it.canonicalize().ok());
        let is_whole = is_pattern(path) || path.exists();
        is_whole && named.is_some_and(|real| real.starts_with(&self.held.root))
    }

    /// Returns a file's path from the project's root.
    fn place(&self, file: &Path) -> String {
        file.strip_prefix(&self.held.root).unwrap_or(file).display().to_string()
    }
}

/// Takes out of the layer of plugins in a sandbox the keys that would start, send or allow something. Returns a
/// warning.
pub fn hold_hook_back(
    environment: &Environment,
    name: &str,
    layer: &mut Layer,
    before: &[Layer],
) -> Option<Warning> {
    let held = Held { root: layer.base.clone(), ..Held::default() };
    let at_start = environment.sandbox_at_start();
    let home = environment.home.clone();
    let mut gate = Gate { word: Word::Never, held, written: None, at_start, home };
    gate.hold_back(layer, None, before);
    let entries = gate.into_held().entries;
    let named: Vec<String> = entries.into_iter().take(MAX_NAMED).map(|entry| entry.what).collect();
    let message = format!(
        "runs in a sandbox (`windlass.sandbox.plugins`), so it cannot set what would act outside: {}",
        visible_line(&named.join(", "))
    );
    let warning = Warning { source: name.to_owned(), line: None, column: None, message };
    (!named.is_empty()).then_some(warning)
}

/// Returns a word of a command for people: in quotes where it would look like several.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty() && !word.contains(|it: char| it.is_whitespace() || "\"\\".contains(it));
    if is_plain { word.to_owned() } else { Value::from(word).to_string() }
}

/// Returns the real directory that stands for the project of a directory.
pub fn root(directory: &Path, worktree: &Path) -> PathBuf {
    let root = if worktree == Path::new("/") { directory } else { worktree };
    root.canonicalize().unwrap_or(root.to_owned())
}

/// Returns the patterns of `windlass.trust`, which no project can set.
fn patterns(layers: &[Layer], home: &Path) -> Vec<String> {
    let list = |layer: &Layer| layer.value.get("windlass")?.get("trust")?.as_array().cloned();
    let patterns = layers.iter().filter_map(list).flatten();
    let absolute = |it: Value| Some(home::join(home, Path::new("/"), it.as_str()?).display().to_string());
    patterns.filter_map(absolute).collect()
}

fn word(paths: &Paths, root: &Path) -> Word {
    let none = || Word::Entries(BTreeSet::new());
    let Ok(Some(file)) = read(&paths.trust()) else { return none() };
    let said = |root: &Path| -> Option<Word> {
        let said = file.get(root.to_str()?)?;
        // Another's directory in the place of the one that was trusted is another project.
        if said.get("owner")?.as_u64()? != u64::from(fs::metadata(root).ok()?.uid()) {
            return None;
        }
        if said.get("never") == Some(&Value::Bool(true)) {
            return Some(Word::Never);
        }
        let hashes = said.get("entries")?.as_array()?.iter().filter_map(Value::as_str);
        Some(Word::Entries(hashes.map(str::to_owned).collect()))
    };
    let own = said(root);
    let main = main_worktree(root).and_then(|main| said(&main));
    match (own, main) {
        (Some(Word::Entries(own)), Some(Word::Entries(main))) => Word::Entries(&own | &main),
        (Some(own), _) => own,
        (None, main) => main.unwrap_or_else(none),
    }
}

/// Returns the main worktree of a linked one. The main one has to know it: anybody may write a file `.git`.
fn main_worktree(root: &Path) -> Option<PathBuf> {
    let link = root.join(".git");
    let text = fs::symlink_metadata(&link).ok()?.is_file().then(|| fs::read_to_string(&link).ok())??;
    // Only the form that git itself writes: anything else could name a neighbour by a detour.
    let directory = PathBuf::from(text.strip_prefix("gitdir: ")?.trim_end()).canonicalize().ok()?;
    let back = fs::read_to_string(directory.join("gitdir")).ok()?;
    let back = Path::new(back.trim_end());
    let owner = |path: &Path| fs::metadata(path).ok().map(|it| it.uid());
    let (worktrees, git) = (directory.parent()?, directory.parent()?.parent()?);
    let main = git.parent()?.to_owned();
    let is_known = back.is_absolute()
        && back.canonicalize().is_ok_and(|back| back == link)
        && worktrees.file_name()? == "worktrees"
        && git.file_name()? == ".git"
        && owner(&main) == owner(root);
    is_known.then_some(main)
}

/// Reads the file of trust. One that others could have written counts as empty.
fn read(file: &Path) -> io::Result<Option<Map<String, Value>>> {
    match fs::metadata(file) {
        Ok(metadata) if metadata.mode() & 0o022 != 0 || metadata.uid() != nix::unistd::geteuid().as_raw() => {
            Err(io::Error::other(format!(
                "{} can be written by others, so it counts as empty; `chmod 600` mends it where it is yours",
                file.display()
            )))
        }
        Ok(_) | Err(_) => credential_file::read(file),
    }
}

/// Returns the fault in the file of trust, if there is one. Does blocking reads.
pub fn problem(paths: &Paths) -> Option<String> {
    match read(&paths.trust()) {
        Ok(Some(_)) => None,
        Ok(None) => Some(format!("{} is no JSON object, so it counts as empty", paths.trust().display())),
        Err(error) => Some(error.to_string()),
    }
}

/// Remembers that these entries of a project act, beside those that did. Does blocking writes.
pub fn remember(paths: &Paths, held: &Held) -> io::Result<()> {
    change(paths, &held.root, |said| {
        let with_hash = held.entries.iter().filter(|entry| !entry.hash.is_empty());
        let mut hashes: BTreeSet<String> = with_hash.map(|entry| entry.hash.clone()).collect();
        let before = said.get("entries").and_then(Value::as_array).into_iter().flatten();
        hashes.extend(before.filter_map(Value::as_str).map(str::to_owned));
        *said = Map::from_iter([("entries".to_owned(), Value::from_iter(hashes))]);
    })
}

/// Remembers that nothing of a project is ever to act. Does blocking writes.
pub fn refuse(paths: &Paths, root: &Path) -> io::Result<()> {
    change(paths, root, |said| *said = Map::from_iter([("never".to_owned(), json!(true))]))
}

fn change(paths: &Paths, root: &Path, edit: impl FnOnce(&mut Map<String, Value>)) -> io::Result<()> {
    let owner = fs::metadata(root)?.uid();
    let file = paths.trust();
    if read(&file).is_err() {
        // A file that others could have written is not kept.
        fs::remove_file(&file)?;
    }
    credential_file::change(&file, |entries| {
        let key = root.display().to_string();
        let mut said = entries.remove(&key).and_then(|it| it.as_object().cloned()).unwrap_or_default();
        edit(&mut said);
        said.insert("owner".to_owned(), json!(owner));
        entries.insert(key, Value::Object(said));
        true
    })?;
    Ok(())
}

/// Takes the user's word on a project back; false if there was none. Does blocking writes.
pub fn revoke(paths: &Paths, root: &Path) -> io::Result<bool> {
    credential_file::change(&paths.trust(), |entries| entries.remove(&root.display().to_string()).is_some())
}

/// A project that the user has spoken about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub root: PathBuf,
    pub n_entries: usize,
    pub is_never: bool,
}

/// Returns the projects that the user has spoken about. Does blocking reads.
pub fn known(paths: &Paths) -> io::Result<Vec<Known>> {
    let entries = read(&paths.trust())?.unwrap_or_default();
    let known = entries.into_iter().map(|(root, said)| Known {
        root: PathBuf::from(root),
        n_entries: said.get("entries").and_then(Value::as_array).map_or(0, Vec::len),
        is_never: said.get("never") == Some(&Value::Bool(true)),
    });
    Ok(known.collect())
}

#[cfg(test)]
mod tests;
