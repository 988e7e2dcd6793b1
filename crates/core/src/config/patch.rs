//! Changes a file of the configuration as a client asks, and keeps its comments and the order of its keys.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode},
    errors::ParseError,
};
use serde_json::{Map, Value};
use windlass_base::ids;

use super::{
    Environment, check,
    layer::{Kind, Layer},
    limits,
    paths::Paths,
    secrets::STARS,
    text_file,
    warning::Findings,
    worktree,
};

/// Levels of a file; the parser calls itself for each.
const MAX_DEPTH: usize = 100;
/// Names of a project's file, the strongest first.
const NAMES: [&str; 2] = ["opencode.jsonc", "opencode.json"];

/// The reason for which a file was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The change itself is wrong.
    #[error("{0}")]
    Invalid(String),
    #[error("{}: {reason}", file.display())]
    File { file: PathBuf, reason: String },
}

/// Returns the file that a project's settings are written to: the nearest that is read, or a new one in the directory.
pub fn project_file(environment: &Environment, directory: &Path) -> PathBuf {
    let worktree = worktree::worktree(environment, directory);
    let upwards = worktree::upwards(directory, &worktree);
    let files = upwards.iter().flat_map(|directory| NAMES.map(|name| directory.join(name)));
    let found = files.into_iter().find(|file| file.is_file());
    found.unwrap_or_else(|| directory.join("opencode.json"))
}

/// Returns the file that a user's settings are written to.
pub fn user_file(paths: &Paths) -> PathBuf {
    let files = NAMES.iter().chain(&["config.json"]).map(|name| paths.opencode_config.join(name));
    let found = files.into_iter().find(|file| file.is_file());
    found.unwrap_or_else(|| paths.opencode_config.join("opencode.json"))
}

/// Returns a value as a file says it; none where it says nothing or is not there. Blocks.
pub fn written(file: &Path, key: &str) -> Result<Option<Value>, PatchError> {
    let failed = |reason: String| PatchError::File { file: file.to_owned(), reason };
    let Some(text) = read(file)? else { return Ok(None) };
    let root = CstRootNode::parse(&text, &ParseOptions::default());
    let root = root.map_err(|error| failed(no_json(&error)))?;
    Ok((|| root.value()?.as_object()?.get(key)?.value()?.to_serde_value())())
}

/// Writes a change into a file: objects are merged, null removes a key, other values replace the old ones. Blocks.
///
/// A value that is hidden where the configuration is shown, whole or in part, stays as it is.
pub fn change(file: &Path, patch: Map<String, Value>) -> Result<(), PatchError> {
    let failed = |reason: String| PatchError::File { file: file.to_owned(), reason };
    validate(file, &patch)?;
    let _lock =
        lock_directory(file).map_err(|error| failed(format!("its directory cannot be used: {error}")))?;
    let (before, after) = changed(file, &patch)?;
    if after == before {
        return Ok(());
    }
    replace(file, &after).map_err(|error| failed(format!("it cannot be written: {error}")))
}

/// Returns the text of a file, empty if there is none, and the text that [`change`] would write. Blocks.
pub fn preview(file: &Path, patch: &Map<String, Value>) -> Result<(String, String), PatchError> {
    validate(file, patch)?;
    changed(file, patch)
}

/// Returns a file's text; none where there is no file.
fn read(file: &Path) -> Result<Option<String>, PatchError> {
    match text_file::read(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => {
            Err(PatchError::File { file: file.to_owned(), reason: format!("it cannot be read: {error}") })
        }
    }
}

fn changed(file: &Path, patch: &Map<String, Value>) -> Result<(String, String), PatchError> {
    let failed = |reason: String| PatchError::File { file: file.to_owned(), reason };
    let before = read(file)?.unwrap_or_default();
    let after = edited(&before, patch).map_err(|fault| match fault {
        Fault::File(reason) => failed(reason),
        Fault::HiddenList(key) => PatchError::Invalid(format!(
            "`{key}` has a list with {STARS} in the place of a hidden text; write the text itself, or leave the list out"
        )),
    })?;
    Ok((before, after))
}

/// Refuses a change that would be ignored when the file is read.
fn validate(file: &Path, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let base = file.parent().unwrap_or(Path::new("/"));
    let mut patch = patch.clone();
    if let Some(permission) = patch.get_mut("permission").and_then(Value::as_object_mut) {
        // Lists of tools are rules of their own, which the check of rules does not know.
        permission
            .retain(|key, value| !["deny", "ask"].contains(&key.as_str()) || limits::tools(value).is_err());
    }
    let mut layer = Layer::new(Kind::File, "body", base, patch);
    let mut findings = Findings::default();
    check::check(&mut layer, &mut findings);
    match findings.warnings.into_iter().next() {
        Some(warning) => Err(PatchError::Invalid(warning.message)),
        None => Ok(()),
    }
}

fn no_json(error: &ParseError) -> String {
    let (line, column) = (error.line_display(), error.column_display());
    format!("line {line}, column {column} is no JSON: {}", error.kind())
}

/// The reason that a text cannot be changed.
enum Fault {
    /// It is no configuration.
    File(String),
    /// A list under this key holds a text as it was shown, and the file has none that it stands for.
    HiddenList(String),
}

fn edited(text: &str, patch: &Map<String, Value>) -> Result<String, Fault> {
    if depth(&Value::Object(patch.clone())) > MAX_DEPTH || brackets(text) > MAX_DEPTH {
        return Err(Fault::File(format!("it is nested more than {MAX_DEPTH} levels deep")));
    }
    let source = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(source, &ParseOptions::default());
    let root = root.map_err(|error| Fault::File(no_json(&error)))?;
    let object = match root.value() {
        None => root.object_value_or_set(),
        Some(value) => value.as_object().ok_or_else(|| Fault::File("it is not a JSON object".to_owned()))?,
    };
    merge(&object, patch)?;
    Ok(root.to_string())
}

fn merge(object: &CstObject, patch: &Map<String, Value>) -> Result<(), Fault> {
    for (key, value) in patch {
        let is_it = |property: &CstObjectProp| {
            property.name().and_then(|name| name.decoded_value().ok()).is_some_and(|name| name == *key)
        };
        if object.properties().iter().filter(|property| is_it(property)).count() > 1 {
            // The last one counts where it is read, and the first would be changed.
            return Err(Fault::File(format!("it has the key `{key}` twice; leave one")));
        }
        let known = object.get(key);
        let own = known.as_ref().and_then(|property| property.value()?.to_serde_value());
        match (value, known) {
            (Value::Null, Some(property)) => property.remove(),
            (Value::Null, None) => {}
            (Value::String(text), _) if text == STARS => {}
            (_, Some(_)) if own.as_ref().is_some_and(|own| is_shown(own, value)) => {}
            (Value::Object(below), Some(property)) if property.object_value().is_some() => {
                property.object_value().map_or(Ok(()), |inner| merge(&inner, below))?;
            }
            (_, known) => {
                if has_hidden_element(value) {
                    return Err(Fault::HiddenList(key.clone()));
                }
                match known {
                    Some(property) => property.set_value(input(value)),
                    None => _ = object.append(key, input(value)),
                }
            }
        }
    }
    Ok(())
}

/// Returns true if a value is the file's own, as it is or as it is shown: with stars for parts that are hidden.
fn is_shown(own: &Value, sent: &Value) -> bool {
    match (own, sent) {
        (Value::String(own), Value::String(sent)) => own == sent || is_text_shown(own, sent),
        (Value::Array(own), Value::Array(sent)) => {
            own.len() == sent.len() && own.iter().zip(sent).all(|(own, sent)| is_shown(own, sent))
        }
        (own, sent) => own == sent,
    }
}

fn is_text_shown(own: &str, sent: &str) -> bool {
    let mut parts: Vec<&str> = sent.split(STARS).collect();
    let (Some(last), Some(first)) = (parts.pop(), parts.first().copied()) else { return false };
    let inner = own.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    let after = |rest: &str, part: &&str| Some(rest.split_once(part)?.1.to_owned());
    inner.is_some_and(|inner| {
        parts.iter().skip(1).try_fold(inner.to_owned(), |rest, part| after(&rest, part)).is_some()
    })
}

/// Returns true if a list, which is replaced whole, has a text that was hidden where it was shown.
fn has_hidden_element(value: &Value) -> bool {
    fn is_hidden(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains(STARS),
            Value::Array(list) => list.iter().any(is_hidden),
            Value::Object(object) => object.values().any(is_hidden),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    match value {
        Value::Array(list) => list.iter().any(is_hidden),
        Value::Object(object) => object.values().any(has_hidden_element),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns a value to be written, without the nulls that remove keys and the hidden texts that another file may have.
fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(object) => {
            let is_said = |value: &Value| !value.is_null() && value != STARS;
            let entries = object.iter().filter(|(_, value)| is_said(value));
            CstInputValue::Object(entries.map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn brackets(text: &str) -> usize {
    let deepest = text.chars().fold((0_usize, 0_usize), |(depth, deepest), letter| match letter {
        '{' | '[' => (depth + 1, deepest.max(depth + 1)),
        '}' | ']' => (depth.saturating_sub(1), deepest),
        _ => (depth, deepest),
    });
    deepest.1
}

/// Waits until no other change of the directory's files runs, here or in another process. The lock ends with the value.
fn lock_directory(file: &Path) -> io::Result<Option<File>> {
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let directory = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let opened = File::open(directory)?;
    match opened.lock() {
        Ok(()) => Ok(Some(opened)),
        // Some file systems have no locks.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file in one step; a link stays one.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let directory = target.parent().unwrap_or(Path::new("/"));
    let draft = directory.join(format!(".opencode-{}.new", ids::random(8)));
    let permissions = fs::metadata(&target).ok().map(|metadata| metadata.permissions());
    let mut options = OpenOptions::new();
    // It holds the same secrets as the file, which may be the user's alone.
    options.write(true).create_new(true).mode(permissions.as_ref().map_or(0o666, |it| it.mode() & 0o600));
    let written = options.open(&draft).and_then(|mut draft| {
        draft.write_all(text.as_bytes())?;
        permissions.map_or(Ok(()), |permissions| draft.set_permissions(permissions))
    });
    let written = written.and_then(|()| fs::rename(&draft, &target));
    written.inspect_err(|_| _ = fs::remove_file(&draft))
}

#[cfg(test)]
mod tests;
