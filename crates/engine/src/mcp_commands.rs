//! The prompts of MCP servers as commands.

use std::collections::BTreeMap;

use windlass_core::library::commands::{Body, Command, ServerPrompt, Source};
use windlass_services::mcp::{McpPrompt, ServersLease};

/// Returns the prompts of the connected servers as commands; the later one of a name wins. Where the files have a command
/// of that name, the prompt's begins with `mcp:`.
pub fn commands(servers: &[ServersLease], of_files: &BTreeMap<String, Command>) -> Vec<Command> {
    let commands = servers.iter().flat_map(ServersLease::prompts).map(command).map(|mut command| {
        if of_files.contains_key(&command.name) {
            command.name.insert_str(0, "mcp:");
        }
        command
    });
    let by_name: BTreeMap<String, Command> = commands.map(|it| (it.name.clone(), it)).collect();
    by_name.into_values().collect()
}

fn command(prompt: McpPrompt) -> Command {
    let McpPrompt { command, server, name, description, arguments } = prompt;
    let arguments = arguments.into_iter().map(|argument| (argument.name, argument.is_required)).collect();
    Command {
        name: command,
        description,
        source: Source::Server,
        body: Body::ServerPrompt(ServerPrompt { server, name, arguments }),
        agent: None,
        model: None,
        variant: None,
        subtask: None,
    }
}
