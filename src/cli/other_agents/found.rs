//! Reads the files of other agents, which may be absent, huge or broken, and those of a project only where they are obeyed.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use windlass_core::config::{jsonc, project_files::ProjectFiles};

/// Bytes of a file that are read.
const MAX_BYTES: u64 = 16 << 20;
/// The key of a whole file.
const WHOLE: &str = "settings";
/// Files of one kind that are looked for.
const MAX_FILES: usize = 500;

/// Reads settings in JSON, comments allowed; none where there is no file. An error is the reason against the one that is there.
pub fn json(files: &ProjectFiles, path: &Path) -> Result<Option<Map<String, Value>>, String> {
    let Some(text) = text(files, path)? else { return Ok(None) };
    let mut document = jsonc::parse_value(&text, WHOLE);
    match document.value.shift_remove(WHOLE).filter(|_| !document.is_broken) {
        Some(Value::Object(settings)) => Ok(Some(settings)),
        Some(_) | None => Err("it is no JSON object".to_owned()),
    }
}

/// Reads settings in TOML, likewise.
pub fn toml(files: &ProjectFiles, path: &Path) -> Result<Option<Map<String, Value>>, String> {
    let Some(text) = text(files, path)? else { return Ok(None) };
    match toml::from_str::<Map<String, Value>>(&text) {
        Ok(settings) => Ok(Some(settings)),
        Err(error) => Err(format!("it is no TOML: {}", error.message())),
    }
}

/// Reads a text, likewise.
pub fn text(files: &ProjectFiles, path: &Path) -> Result<Option<String>, String> {
    let file = match files.open(path) {
        Ok(file) => file,
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_BYTES {
        return Err("it is too large".to_owned());
    }
    Ok(Some(text.trim_start_matches('\u{feff}').to_owned()))
}

/// Returns a directory's files with this ending, by their names; those of folders below it as `folder/name`.
pub fn named(directory: &Path, ending: &str) -> Vec<(String, PathBuf)> {
    let name = |path: &Path| path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let is_meant = |path: &PathBuf| path.extension().is_some_and(|it| it == ending) && path.is_file();
    let mut found = Vec::new();
    for path in entries(directory) {
        if is_meant(&path) {
            found.extend(name(&path).map(|name| (name, path)));
        } else if path.is_dir() {
            let folder = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let below = entries(&path).into_iter().filter(is_meant);
            found.extend(below.filter_map(|it| Some((format!("{folder}/{}", name(&it)?), it))));
        }
    }
    found.sort();
    found
}

/// Returns the paths in a directory, none where there is no directory.
pub fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).take(MAX_FILES).collect()
}
