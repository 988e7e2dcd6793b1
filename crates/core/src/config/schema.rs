//! The JSON schema of the configuration, for editors.

use windlass_base::packed;

/// Made from the types by a test of this module, so that no program carries the types' descriptions.
const PACKED: &[u8] = include_bytes!("schema.json.gz");

/// Returns the schema of a whole file, as text.
pub fn text() -> String {
    packed::text(PACKED)
}

#[cfg(test)]
mod make;
#[cfg(test)]
mod second_version;
#[cfg(test)]
mod tests;
