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
use crate::config::{
    cache::{self, Listing},
    paths::Paths,
};

/// Skills that one server may list, and files that a skill may have.
const MAX_SKILLS: usize = 200;
const MAX_FILES: usize = 100;

/// A skill as a server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    /// Paths below the skill's directory, `SKILL.md` among them.
    pub files: Vec<String>,
    pub version: Option<String>,
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
    paths.skills().join(cache::name(url))
}

/// Returns the file of the kept list of a URL.
pub fn list_file(paths: &Paths, url: &str) -> PathBuf {
    directory(paths, url).join("index.json")
}

/// Removes the versions that are neither in the kept list nor in `before`. Blocking.
pub fn prune(paths: &Paths, kept: &Listing<KeptSkill>, before: &[KeptSkill]) -> io::Result<()> {
    let directory = directory(paths, &kept.url);
    // A turn that began earlier may still read the previous versions.
    let in_use = kept.entries.iter().chain(before);
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
    let kept = cache::read_or_log::<Listing<KeptSkill>>(&list_file(paths, url), url);
    let Some(kept) = kept else { return (Vec::new(), Vec::new()) };
    let directory = directory(paths, url);
    // We wrote the index, but any program may have changed the file since.
    let is_ours = |skill: &&KeptSkill| is_valid(&skill.name) && is_valid(&skill.version);
    let skills = kept.entries.iter().filter(is_ours);
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
        let path = file.as_str().filter(|path| cache::is_below(path));
        let path =
            path.ok_or_else(|| format!("its file {file} is not a path below the skill's directory"))?;
        if paths.iter().all(|known| known != path) {
            paths.push(path.to_owned());
        }
    }
    if paths.iter().all(|path| path != FILE) {
        return Err(format!("it lists no {FILE}"));
    }
    Ok(Listed { name: name.to_owned(), files: paths, version: cache::version(entry) })
}

#[cfg(test)]
mod tests;
