//! Fields of an object of parameters, as most requests have them.

use serde_json::{Map, Value};

/// The error for unusable parameters, with the reason for the client's developer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidParams(pub String);

pub(super) fn invalid(message: impl Into<String>) -> InvalidParams {
    InvalidParams(message.into())
}

/// Parses an object; absent and `null` parameters count as an empty one.
pub fn object(params: Option<&str>) -> Result<Map<String, Value>, InvalidParams> {
    match params {
        None => Ok(Map::new()),
        Some(text) => match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(Value::Null) => Ok(Map::new()),
            Ok(Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_)) | Err(_) => {
                Err(invalid("params must be an object"))
            }
        },
    }
}

pub(super) fn text(object: &Map<String, Value>, key: &str) -> Result<String, InvalidParams> {
    match object.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(invalid(format!("`{key}` must be a string"))),
        None => Err(invalid(format!("`{key}` is required"))),
    }
}

pub(super) fn optional_text(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(str::to_owned)
}

pub(super) fn at<'a>(object: Option<&'a Value>, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object?, |at, key| at.get(key))
}

/// Returns true if a capability that is an object is declared: by an object, and by no other value.
pub(super) fn offers(object: Option<&Value>, path: &[&str]) -> bool {
    at(object, path).is_some_and(Value::is_object)
}

/// Returns true if a capability that is a boolean is declared: by `true`, and by no other value.
pub(super) fn is_true(object: Option<&Value>, path: &[&str]) -> bool {
    at(object, path) == Some(&Value::Bool(true))
}

pub(super) fn working_directory(params: &Map<String, Value>) -> Result<String, InvalidParams> {
    let cwd = text(params, "cwd")?;
    if !cwd.starts_with('/') {
        return Err(invalid(format!("`cwd` must be an absolute path, not `{cwd}`")));
    }
    Ok(directory(&cwd).to_owned())
}

pub(super) fn additional_directories(params: &Map<String, Value>) -> Result<Vec<String>, InvalidParams> {
    let wrong = || invalid("`additionalDirectories` must be a list of absolute paths");
    let listed = match params.get("additionalDirectories") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(listed) => listed.as_array().ok_or_else(wrong)?,
    };
    let path = |it: &Value| it.as_str().filter(|it| it.starts_with('/')).map(|it| directory(it).to_owned());
    listed.iter().map(|it| path(it).ok_or_else(wrong)).collect()
}

/// Removes the slashes at the end of a directory, so that it has one name.
pub(super) fn directory(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        path => path,
    }
}
