//! The means that a turn works with: tools, MCP and language servers, plugins.

pub mod lsp;
pub mod mcp;
pub mod plugin;
pub mod tool;
