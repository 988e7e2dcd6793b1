//! A call of the tool: the line that may run, the line that has run, and its description for the user.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::{
    config::Config,
    tool::{ToolOutput, object, path::display},
};

/// A command line that may run.
pub struct Line {
    pub command: String,
    pub workdir: PathBuf,
    pub timeout_ms: u64,
}

/// A command line that has run.
pub struct Ended {
    pub tool_output: ToolOutput,
    pub has_failed: bool,
}

/// Describes a call for the user: the command, and where it runs when that is elsewhere.
pub fn described(config: &Config, command: &str, workdir: &Path) -> Map<String, Value> {
    let mut metadata = object(json!({ "command": command }));
    if workdir != config.directory {
        metadata.insert("workdir".to_owned(), display(workdir).into());
    }
    metadata
}
