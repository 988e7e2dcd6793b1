//! `state.json`: what was used last, across sessions and processes.

use serde_json::{Value, json};
use windlass_protocol::opencode::message::ModelRef;

use crate::{config::paths::Paths, provider::demo};

/// Returns the model a user chose last. A missing or broken file is no choice, nor is the demo, which is chosen
/// for one session.
pub fn last_used_model(paths: &Paths) -> Option<ModelRef> {
    let text = std::fs::read_to_string(paths.state()).ok()?;
    let state: Value = serde_json::from_str(&text).ok()?;
    ModelRef::parse(state.get("model")?.as_str()?).filter(|model| *model != demo::reference())
}

/// Remembers a user's choice of model.
pub fn remember_model(paths: &Paths, model: &ModelRef) -> std::io::Result<()> {
    let path = paths.state();
    std::fs::create_dir_all(&paths.data)?;
    let temporary = path.with_extension("json.new");
    std::fs::write(&temporary, json!({ "model": model.to_string() }).to_string())?;
    std::fs::rename(temporary, path)
}
