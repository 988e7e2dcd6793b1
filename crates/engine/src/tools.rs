//! The tools as front ends know them: their permissions and their looks.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_protocol::opencode::tool::Look;
use windlass_services::tool::{self, row::Tool};

use crate::{Workspace, Workspaces};

/// The permission that stands for a change of the configuration.
pub const CHANGE: &str = "config";
/// The permission that stands for trust in a project.
pub const TRUST: &str = "trust";
/// The permission that stands for putting the files of a session from another machine over those of a directory.
pub const FILES: &str = "session_files";

/// Returns the permissions that built-in tools ask for, sorted.
pub fn permission_names() -> Vec<&'static str> {
    let names = tool::BUILTIN.iter().map(Tool::permission);
    let names: BTreeSet<&str> = names.filter(|name| *name != "invalid").collect();
    names.into_iter().collect()
}

/// Returns true if a permission is asked for by windlass itself, which then chose the content of the question.
pub fn is_own_permission(name: &str) -> bool {
    permission_names().contains(&name)
        || tool::OTHER_PERMISSIONS.contains(&name)
        || is_about_configuration(name)
        || name == FILES
}

/// Returns true if a permission is about the powers of the configuration. No rule and no option answers it.
pub fn is_about_configuration(name: &str) -> bool {
    matches!(name, CHANGE | TRUST)
}

/// Returns the look of a tool's calls.
pub fn tool_look(name: &str) -> Look {
    tool::look(name)
}

impl Workspaces<'_> {
    /// Returns the tools of a directory with their descriptions for models: built-in ones, those of programs, of
    /// plugins and of tool files. The last of a name stands.
    pub async fn tools(self, workspace: &Workspace) -> Vec<Value> {
        let mut rows: Vec<Tool> = tool::BUILTIN.to_vec();
        rows.extend(workspace.loaded().plan.manifests.iter().map(tool::program::row));
        if let Some(host) = self.engine.plugins().host(workspace.directory())
            && host.ready().await
        {
            rows.extend(host.offer().tools.iter().map(tool::plugin::row));
        }
        let is_last = |idx: usize| !rows[idx + 1..].iter().any(|later| later.name == rows[idx].name);
        let last = (0..rows.len()).filter(|idx| is_last(*idx)).map(|idx| &rows[idx]);
        last.map(|row| json!({"id": row.name, "description": row.text, "parameters": row.schema()})).collect()
    }
}
