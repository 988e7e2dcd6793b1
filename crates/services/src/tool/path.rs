//! Resolves the paths that a model names, and decides if they are outside the project.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use windlass_base::{
    lookalike,
    path::{absolute, real},
    pinned,
};
use windlass_core::{config::Config, permission::Ask};
use windlass_protocol::opencode::tool_metadata::{AskedPath, encode};

use super::{ToolCx, ToolError, blocking};

/// Maximum number of directory entries that are examined for linked `.env` files.
const MAX_ENTRIES: usize = 4096;

/// A path as a tool may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The absolute path; without `.` and `..` unless it is part of a command.
    pub path: PathBuf,
    /// The path with every symlink followed.
    pub real: PathBuf,
    pub is_directory: bool,
    pub is_inside: bool,
    /// The path relative to the worktree; absolute if not below it.
    pub relative: String,
    /// The patterns to ask for: the relative path, and the real one if a link hides it.
    pub patterns: Vec<String>,
    /// The device and the number of a file that has further names, which may be anywhere.
    pub linked: Option<(u64, u64)>,
}

impl Target {
    /// Returns the real directory: the target itself if it is one, else its parent.
    pub fn directory(&self) -> PathBuf {
        match self.real.parent() {
            Some(parent) if !self.is_directory => parent.to_owned(),
            Some(_) | None => self.real.clone(),
        }
    }

    /// Returns the real path of a file below the target, which was reached through no link below it.
    pub fn real_of(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.path) {
            Ok(rest) if !rest.as_os_str().is_empty() => self.real.join(rest),
            Ok(_) | Err(_) => self.real.clone(),
        }
    }

    /// Takes out the files below the target that are behind a link by now, which was not there when it was judged.
    pub fn retain_unmoved(&self, files: &mut Vec<PathBuf>) {
        files.retain(|path| !pinned::is_behind_link(&self.real_of(path)));
    }

    /// Returns the other names by which the file is judged, which the user has to be shown.
    pub fn resolved(&self) -> Option<String> {
        let hidden = self.patterns.iter().filter(|name| !name.eq_ignore_ascii_case(&self.relative));
        let hidden: Vec<&str> = hidden.map(String::as_str).collect();
        (!hidden.is_empty()).then(|| hidden.join(", "))
    }

    /// Adds the other names to the metadata of a question about the file.
    pub fn described(&self, mut metadata: Map<String, Value>) -> Map<String, Value> {
        metadata.extend(self.resolved().map(|resolved| ("resolved".to_owned(), resolved.into())));
        metadata
    }
}

/// Resolves `text`; relative paths start from the session's directory.
pub async fn resolve(cx: &ToolCx<'_>, text: &str) -> Result<Target, ToolError> {
    judged(cx, &absolute(cx.directory(), text)).await
}

/// Resolves the path of a file that should be there: where it is not, the only one that looks the same is meant.
pub async fn resolve_existing(cx: &ToolCx<'_>, text: &str) -> Result<Target, ToolError> {
    let (roots, path) = (Roots::new(cx.config), absolute(cx.directory(), text));
    blocking(move || {
        let alike = lookalike::alike(&path);
        let meant = if let [only] = alike.as_slice() { only.clone() } else { path };
        Ok(judge(&roots, meant))
    })
    .await
}

/// Returns the words about a file that is not there, with those that look the same. Reads directories.
pub fn missing(message: String, path: &Path) -> String {
    match lookalike::proposal(&lookalike::alike(path)) {
        Some(proposal) => format!("{message}\n\n{proposal}"),
        None => message,
    }
}

/// Resolves an absolute path.
pub async fn judged(cx: &ToolCx<'_>, path: &Path) -> Result<Target, ToolError> {
    let (roots, path) = (Roots::new(cx.config), path.to_owned());
    blocking(move || Ok(judge(&roots, path))).await
}

/// Refuses paths that [`unmoved`] refuses.
pub async fn all_unmoved(config: &Config, targets: Vec<Target>) -> Result<(), ToolError> {
    let roots = Roots::new(config);
    blocking(move || {
        targets.iter().try_for_each(|target| compare(target, &judge(&roots, target.path.clone())))
    })
    .await
}

/// Refuses a path that leads elsewhere than when it was judged: links may change during the user's answer.
pub async fn unmoved(cx: &ToolCx<'_>, target: &Target) -> Result<(), ToolError> {
    compare(target, &judged(cx, &target.path).await?)
}

fn compare(target: &Target, now: &Target) -> Result<(), ToolError> {
    let is_same = now.real == target.real
        && now.patterns.iter().all(|name| target.patterns.contains(name))
        && (now.linked.is_none() || now.linked == target.linked);
    if is_same {
        Ok(())
    } else {
        Err(ToolError::Model(format!(
            "{} leads elsewhere than when permission was asked for it, so nothing was done. Try again.",
            one_line(&target.path)
        )))
    }
}

/// Asks for `external_directory` if the target is outside the project.
pub async fn ask_outside(cx: &ToolCx<'_>, target: &Target) -> Result<(), ToolError> {
    if target.is_inside {
        return Ok(());
    }
    // The link's own name may be harmless; its target counts.
    let parent = target.directory();
    let pattern = display(&parent.join("*"));
    let resolved = (target.real != target.path).then(|| display(&target.real));
    let metadata = encode(&AskedPath {
        filepath: &display(&target.path),
        parent_dir: Some(&display(&parent)),
        resolved: resolved.as_deref(),
    });
    cx.host
        .ask(Ask {
            permission: "external_directory".to_owned(),
            always: offered(std::slice::from_ref(&pattern)),
            patterns: vec![pattern],
            metadata,
        })
        .await
}

/// Returns the directories that may be allowed for ever; never `/`, which contains everything.
pub fn offered(patterns: &[String]) -> Vec<String> {
    patterns.iter().filter(|pattern| *pattern != "/*").cloned().collect()
}

/// The directories that a session may use without a question.
#[derive(Debug, Clone)]
pub struct Roots {
    pub directory: PathBuf,
    pub worktree: PathBuf,
}

impl Roots {
    pub fn new(config: &Config) -> Self {
        Self { directory: config.directory.clone(), worktree: config.worktree.clone() }
    }
}

/// Reads the file system: call it on a blocking thread.
pub fn judge(roots: &Roots, path: PathBuf) -> Target {
    let real = real(&path);
    let real_directory = self::real(&roots.directory);
    let real_worktree = self::real(&roots.worktree);
    let has_worktree = roots.worktree != Path::new("/");
    let is_inside = real.starts_with(&real_directory) || (has_worktree && real.starts_with(&real_worktree));
    let real_relative = relative(&real, &real_worktree);
    let relative = match path.strip_prefix(&roots.worktree) {
        Ok(_) => relative(&path, &roots.worktree),
        Err(_) => real_relative.clone(),
    };
    let mut patterns = vec![relative.clone()];
    if real_relative != relative {
        patterns.push(real_relative);
    }
    for name in secret_names(&real, &Secrets::beside(roots, &real)) {
        let pattern = self::relative(&name, &real_worktree);
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    // A file of the plans' directory may be another name of a file that may not be changed.
    let is_plan = real.parent().is_some_and(|it| it.ends_with("plans"));
    if is_plan && fs::metadata(&real).is_ok_and(|it| it.is_file() && it.nlink() > 1) {
        patterns.push(format!("{relative} (hard link)"));
    }
    Target { is_directory: real.is_dir(), linked: linked(&real), path, real, is_inside, relative, patterns }
}

fn linked(real: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(real).ok().filter(|it| it.is_file() && it.nlink() > 1)?;
    Some((metadata.dev(), metadata.ino()))
}

/// Files with a name that begins or ends in `.env`, in any case, and that have further names.
#[derive(Debug, Default)]
pub struct Secrets(Vec<(u64, u64, PathBuf)>);

impl Secrets {
    /// Finds such files in the session's directory, the worktree and the directory of the file.
    fn beside(roots: &Roots, real: &Path) -> Self {
        let has_links = fs::metadata(real).is_ok_and(|it| it.is_file() && it.nlink() > 1);
        match real.parent().filter(|_| has_links) {
            Some(parent) => Self::within(&[&roots.directory, &roots.worktree, parent]),
            None => Self::default(),
        }
    }

    pub fn within(directories: &[&Path]) -> Self {
        let mut found = Vec::new();
        for directory in directories {
            let Ok(entries) = fs::read_dir(directory) else { continue };
            for entry in entries.take(MAX_ENTRIES).flatten() {
                if !is_secret_name(&entry.file_name().to_string_lossy().to_lowercase()) {
                    continue;
                }
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_file() && metadata.nlink() > 1 {
                    found.push((metadata.dev(), metadata.ino(), real(&entry.path())));
                }
            }
        }
        Self(found)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the other names by which rules for `.env` files have to judge a file: in lower case, since a file
/// system may ignore case, and the name that is linked to the same file.
pub fn secret_names(real: &Path, secrets: &Secrets) -> Vec<PathBuf> {
    let mut names = Vec::new();
    if let Some(name) = real.file_name().map(|name| name.to_string_lossy()) {
        let lower = name.to_lowercase();
        if lower != *name && is_secret_name(&lower) {
            names.push(real.with_file_name(lower));
        }
    }
    if !secrets.is_empty()
        && let Ok(metadata) = fs::metadata(real)
    {
        let same = secrets.0.iter().filter(|(dev, ino, _)| (*dev, *ino) == (metadata.dev(), metadata.ino()));
        names.extend(same.map(|(_, _, name)| name.clone()));
    }
    names
}

/// Returns true for a lower-case name that the rules for `.env` files mean.
pub fn is_secret_name(lower: &str) -> bool {
    lower.ends_with(".env") || lower.contains(".env.")
}

/// Formats a path as one line of a list. Names with line ends or invalid text are quoted as bash reads them.
pub fn one_line(path: &Path) -> String {
    if let Some(text) = path.to_str().filter(|text| !text.contains(char::is_control)) {
        return text.to_owned();
    }
    let mut quoted = "$'".to_owned();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\'' | '\\' => quoted.extend(['\\', char]),
                char if char.is_control() => {
                    push_bytes(&mut quoted, char.encode_utf8(&mut [0; 4]).as_bytes())
                }
                char => quoted.push(char),
            }
        }
        push_bytes(&mut quoted, chunk.invalid());
    }
    quoted.push('\'');
    quoted
}

fn push_bytes(quoted: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| quoted.push_str(&format!("\\x{byte:02x}")));
}

/// Formats a path as text.
pub fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn relative(path: &Path, base: &Path) -> String {
    match path.strip_prefix(base) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => display(rest),
        Err(_) => display(path),
    }
}

#[cfg(test)]
mod tests;
