//! The tools as front ends know them: their permissions and their looks.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_protocol::opencode::tool::Look;

use crate::{
    engine::CONFIG_PERMISSION,
    tool::{self, row::Tool},
};

/// Returns the permissions that built-in tools ask for, sorted.
pub fn permission_names() -> Vec<&'static str> {
    let names = tool::BUILTIN.iter().map(Tool::permission);
    let names: BTreeSet<&str> = names.filter(|name| *name != "invalid").collect();
    names.into_iter().collect()
}

/// Returns true if a permission is asked for by windlass itself, which then chose what the question shows.
pub fn is_own_permission(name: &str) -> bool {
    permission_names().contains(&name) || tool::OTHER_PERMISSIONS.contains(&name) || name == CONFIG_PERMISSION
}

/// Returns the look of a tool's calls.
pub fn tool_look(name: &str) -> Look {
    tool::look(name)
}

/// Returns the names of the built-in tools, in their order.
pub fn tool_ids() -> Vec<&'static str> {
    tool::BUILTIN.iter().map(|tool| tool.name.as_ref()).collect()
}

/// Returns the built-in tools with what models read about them.
pub fn tool_list() -> Vec<Value> {
    let tools = tool::BUILTIN.iter();
    tools
        .map(|tool| json!({"id": tool.name, "description": tool.text, "parameters": tool.schema()}))
        .collect()
}
