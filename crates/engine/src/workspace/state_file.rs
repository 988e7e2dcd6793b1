//! `state.json`: the last used model, across sessions and processes.

use std::io;

use serde_json::{Value, json};
use windlass_core::config::{Warning, paths::Paths};
use windlass_protocol::opencode::model_ref::ModelRef;
use windlass_provider::demo;

/// Returns the model a user chose last. A missing file is no choice, nor is the demo, which is chosen for one
/// session.
pub fn last_used_model(paths: &Paths) -> Result<Option<ModelRef>, Warning> {
    let file = paths.state();
    let state: io::Result<Value> =
        std::fs::read_to_string(&file).and_then(|text| Ok(serde_json::from_str(&text)?));
    match state {
        Ok(state) => {
            let model = state.get("model").and_then(Value::as_str).and_then(ModelRef::parse);
            Ok(model.filter(|model| *model != demo::reference()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("cannot be read: {error}; choosing a model writes it anew");
            Err(Warning { source: file.display().to_string(), line: None, column: None, message })
        }
    }
}

/// Remembers a user's choice of model.
pub fn remember_model(paths: &Paths, model: &ModelRef) -> std::io::Result<()> {
    let path = paths.state();
    std::fs::create_dir_all(&paths.data)?;
    let temporary = path.with_extension("json.new");
    std::fs::write(&temporary, json!({ "model": model.to_string() }).to_string())?;
    std::fs::rename(temporary, path)
}

#[cfg(test)]
mod tests;
