//! Skills behind the URLs of `skills.urls`: the server's list, and the copies kept on this machine (facts:
//! OpenCode §2.4).
//!
//! The directory of a URL contains `index.json`, which lists the current versions, and `NAME/VERSION/` with a
//! skill's files. The directory of a version never changes, so that readers may continue with it.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FILE, is_valid};
use crate::{base::hash::fnv, config::paths::Paths};

/// Skills that one server may list, and files that a skill may have.
const MAX_SKILLS: usize = 200;
const MAX_FILES: usize = 100;
const MAX_PATH_BYTES: usize = 255;

/// A skill as a server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    /// Paths below the skill's directory, `SKILL.md` among them.
    pub files: Vec<String>,
    pub version: Option<String>,
}

/// The kept copy of a URL's skills.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub url: String,
    pub skills: Vec<KeptSkill>,
    /// Problems of the last fetch, for the user to see.
    pub problems: Vec<String>,
}

/// A skill of which a copy is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSkill {
    pub name: String,
    /// Name of the directory with its files.
    pub version: String,
}

/// Returns the directory for the skills of a URL.
pub fn directory(paths: &Paths, url: &str) -> PathBuf {
    paths.skills().join(format!("{:016x}", fnv(url.as_bytes())))
}

/// Returns the kept copy of a URL; `None` if there is none. Blocking.
pub fn kept(paths: &Paths, url: &str) -> Option<Kept> {
    let text = fs::read(directory(paths, url).join("index.json")).ok()?;
    let kept: Kept = serde_json::from_slice(&text).ok()?;
    // Two URLs may share a directory.
    Some(kept).filter(|kept| kept.url == url)
}

/// Makes `kept` the current copy, and removes the versions that are neither in it nor in `before`. Blocking.
pub fn keep(paths: &Paths, kept: &Kept, before: &[KeptSkill]) -> io::Result<()> {
    let directory = directory(paths, &kept.url);
    fs::create_dir_all(&directory)?;
    let temporary = directory.join(format!("index.{}.new", std::process::id()));
    fs::write(&temporary, serde_json::to_vec(kept)?)?;
    fs::rename(&temporary, directory.join("index.json"))?;
    // A turn that began earlier may still read the previous versions.
    let in_use = kept.skills.iter().chain(before);
    let in_use: HashSet<PathBuf> = in_use.map(|skill| place(&directory, skill)).collect();
    for skill in fs::read_dir(&directory)?.flatten() {
        let Ok(versions) = fs::read_dir(skill.path()) else { continue };
        for version in versions.flatten().map(|version| version.path()).filter(|path| !in_use.contains(path))
        {
            // Another process may be writing or removing the version; a later call removes it.
            let _ = fs::remove_dir_all(version);
        }
    }
    Ok(())
}

/// Returns the directory of a kept skill.
pub fn place(directory: &Path, skill: &KeptSkill) -> PathBuf {
    directory.join(&skill.name).join(&skill.version)
}

/// Returns the kept `SKILL.md` files of a URL, and the problems of its last fetch. Blocking.
pub(super) fn locations(paths: &Paths, url: &str) -> (Vec<PathBuf>, Vec<String>) {
    let Some(kept) = kept(paths, url) else { return (Vec::new(), Vec::new()) };
    let directory = directory(paths, url);
    // We wrote the index, but any program may have changed the file since.
    let is_ours = |skill: &&KeptSkill| is_valid(&skill.name) && is_valid(&skill.version);
    let skills = kept.skills.iter().filter(is_ours);
    (skills.map(|skill| place(&directory, skill).join(FILE)).collect(), kept.problems)
}

/// Reads a server's `index.json`: the usable skills, and the problems of the others.
pub fn read_index(text: &[u8]) -> Result<(Vec<Listed>, Vec<String>), String> {
    let index: Value = serde_json::from_slice(text).map_err(|error| format!("is not JSON ({error})"))?;
    let Some(entries) = index.get("skills").and_then(Value::as_array) else {
        return Err("has no list `skills`".to_owned());
    };
    let mut listed: Vec<Listed> = Vec::new();
    let mut problems = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if listed.len() == MAX_SKILLS {
            problems.push(format!(
                "lists {} skills; those after the first {MAX_SKILLS} are left out",
                entries.len()
            ));
            break;
        }
        match read_entry(entry) {
            Ok(skill) if listed.iter().any(|other| other.name == skill.name) => {
                problems.push(format!("lists the skill `{}` twice; the first holds", skill.name));
            }
            Ok(skill) => listed.push(skill),
            Err(reason) => problems.push(format!("skill {} of its list is left out: {reason}", index + 1)),
        }
    }
    Ok((listed, problems))
}

fn read_entry(entry: &Value) -> Result<Listed, String> {
    let name = entry.get("name").and_then(Value::as_str).ok_or("it has no `name`")?;
    if !is_valid(name) {
        return Err(format!("its name {name:?} is not one word without slashes"));
    }
    let files = entry.get("files").and_then(Value::as_array).ok_or("it has no list `files`")?;
    if files.len() > MAX_FILES {
        return Err(format!("it has more than {MAX_FILES} files"));
    }
    let mut paths: Vec<String> = Vec::new();
    for file in files {
        let path = file.as_str().filter(|path| is_below(path));
        let path =
            path.ok_or_else(|| format!("its file {file} is not a path below the skill's directory"))?;
        if paths.iter().all(|known| known != path) {
            paths.push(path.to_owned());
        }
    }
    if paths.iter().all(|path| path != FILE) {
        return Err(format!("it lists no {FILE}"));
    }
    let version = match entry.get("version") {
        None | Some(Value::Null) => None,
        Some(Value::String(version)) => Some(version.clone()),
        Some(version) => Some(version.to_string()),
    };
    Ok(Listed { name: name.to_owned(), files: paths, version })
}

/// Returns true if a path stays below the directory it is joined to, on every system.
fn is_below(path: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_bad = |it: char| it.is_control() || matches!(it, '\\' | ':');
    path.len() <= MAX_PATH_BYTES && path.split('/').all(is_plain) && !path.contains(is_bad)
}

#[cfg(test)]
mod tests;
