//! MCP servers of the configuration and of the client: started in the background, their tools offered by name.
