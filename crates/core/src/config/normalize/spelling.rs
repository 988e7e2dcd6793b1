//! Reads keys in other capitals as the known ones, and those that restrict also where letters are wrong: a restriction
//! that nobody reads would be dropped.

use serde_json::{Map, Value};
use windlass_base::text::nearest;

use super::{Normalizer, RENAMED};
use crate::config::{known_keys, merge::merge};

/// Keys of the whole file and of `windlass` that restrict something, or that hold such keys.
const RESTRICTING: [&str; 5] = ["agent", "disabled_providers", "enabled_providers", "sandbox", "windlass"];

impl Normalizer<'_> {
    /// See the module's comment. Rules and lists of tools are read behind it, in any spelling.
    pub(super) fn spelling(&mut self) {
        let mut value = std::mem::take(&mut self.layer.value);
        self.spelling_below(&mut Vec::new(), known_keys::keys(), &mut value);
        self.layer.value = value;
    }

    fn spelling_below(
        &mut self,
        path: &mut Vec<String>,
        keys: &known_keys::Keys,
        object: &mut Map<String, Value>,
    ) {
        // Providers have options of their own.
        let is_provider = path.len() == 3 && path.first().is_some_and(|first| first == "provider");
        if is_provider && matches!(path.last().map(String::as_str), Some("options" | "models")) {
            return;
        }
        let can_be_wrong = path.is_empty() || *path == ["windlass"];
        for key in object.keys().cloned().collect::<Vec<_>>() {
            let is_renamed = path.is_empty() && RENAMED.iter().any(|(from, _)| *from == key);
            // In an object of names a name is never wrong.
            if is_renamed || keys.below(&key).is_some() {
                continue;
            }
            let known = || keys.known().keys().map(String::as_str);
            let meant = known()
                .find(|known| known.eq_ignore_ascii_case(&key))
                .or_else(|| nearest(&key, known()).filter(|near| can_be_wrong && RESTRICTING.contains(near)));
            let Some(meant) = meant.filter(|meant| !matches!(*meant, "permission" | "tools")) else {
                continue;
            };
            self.read_as(path, &key, meant, object);
        }
        for (key, inner) in object.iter_mut() {
            let (Some(keys), Value::Object(inner)) = (keys.below(key), inner) else { continue };
            path.push(key.clone());
            self.spelling_below(path, keys, inner);
            path.pop();
        }
    }

    /// Moves the value of a key to the one that is meant. Where that is there too, objects are merged below it, and of
    /// other values its own holds.
    fn read_as(&mut self, path: &[String], key: &str, meant: &str, object: &mut Map<String, Value>) {
        let is_said = |value: &Value| !value.is_null();
        let is_mergeable = object.get(meant).is_none_or(|own| !is_said(own) || own.is_object());
        if !is_mergeable {
            return;
        }
        let Some(value) = object.shift_remove(key).filter(is_said) else { return };
        let place = |last| path.iter().map(String::as_str).chain([last]).collect::<Vec<_>>();
        let warning = self.layer.warning(&place(key), format!("is read as `{meant}`"));
        self.findings.warnings.push(warning);
        self.layer.move_places(&place(key), &place(meant));
        let mut below = Map::from_iter([(meant.to_owned(), value)]);
        if let Some(own) = object.shift_remove(meant).filter(is_said) {
            merge(&mut below, &Map::from_iter([(meant.to_owned(), own)]));
        }
        object.extend(below);
    }
}
