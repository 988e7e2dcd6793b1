//! Reads the JSON schema of `windlass run --schema`, before a session is made for it.

use std::path::Path;

use windlass_engine::check_format;
use windlass_protocol::opencode::message::OutputFormat;

use super::failure::Failure;

/// Returns the form that a schema's file describes.
pub fn read(path: &Path) -> Result<OutputFormat, Failure> {
    let refused = |reason: String| Failure::Misuse(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(format!("{error}.")))?;
    let schema = serde_json::from_str(&text);
    let schema = schema.map_err(|error| refused(format!("is not JSON: {error}.")))?;
    let format = OutputFormat::JsonSchema { schema, retry_count: OutputFormat::retry_count() };
    check_format(&format).map_err(|error| refused(error.message))?;
    Ok(format)
}
