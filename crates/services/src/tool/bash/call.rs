//! A call of the tool: the line that may run, the line that has run, and its description for the user.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use windlass_core::config::Config;
use windlass_protocol::opencode::tool_metadata::{AskedCommand, encode};

use crate::tool::{ToolOutput, path::display};

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
///
/// `outside` are the directories outside the project that it names, and their patterns.
pub fn described(
    config: &Config,
    command: &str,
    workdir: &Path,
    outside: Option<(&[String], &[String])>,
) -> Map<String, Value> {
    let workdir = (workdir != config.directory).then(|| display(workdir));
    let (directories, patterns) = outside.unzip();
    encode(&AskedCommand { command, workdir: workdir.as_deref(), directories, patterns })
}
