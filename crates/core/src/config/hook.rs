//! Changes of the configuration by plugins: each one's part is a source of its own.

use std::{path::Path, sync::Arc};

use serde_json::{Map, Value};

use super::{
    layer::{Kind, Layer},
    merge::merged,
};

/// A plugin's change of the configuration: it gets everything that was read but the administrator's part, and
/// may add and change; keys that it removes stay. When it fails, nothing of it holds, and the reason is a warning.
type Change = dyn Fn(&mut Map<String, Value>) -> Result<(), String> + Send + Sync;

/// A plugin's part in every configuration that is read.
#[derive(Clone)]
pub struct Hook {
    /// The plugin, as warnings and `--sources` name it.
    pub name: String,
    pub change: Arc<Change>,
    /// It runs in a sandbox, so nothing of it may start, send or allow something.
    pub is_held: bool,
}

impl Hook {
    /// Runs the hook; the layer holds its changes of the layers below, and its additions to them.
    pub(super) fn layer(&self, below: &[Layer], directory: &Path) -> Result<Layer, String> {
        let before = merged(below);
        let mut after = before.clone();
        (self.change)(&mut after)?;
        Ok(Layer::new(Kind::Plugin, &self.name, directory, changed(&before, &after)))
    }
}

/// Returns the parts of `after` that are not in `before`.
fn changed(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut changes = Map::new();
    for (key, value) in after {
        match (before.get(key), value) {
            (Some(old), value) if old == value => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                changes.insert(key.clone(), Value::Object(changed(old, new)));
            }
            (_, value) => {
                changes.insert(key.clone(), value.clone());
            }
        }
    }
    changes
}
