//! Prompts of MCP servers as slash commands.

use std::sync::{Arc, Weak};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;
use windlass_core::library::commands::{ServerPrompt, template};
use windlass_protocol::opencode::id::SessionId;
use windlass_services::mcp::{Servers, ServersLease, Status, prompts::PromptAnswer};

use crate::{Sessions, Workspace, mcp_commands, workspace::loaded::CommandChoice};

/// The prompts that a session offers: those of its directory's servers and of its client's own.
pub struct ServerPrompts {
    workspace: Arc<Workspace>,
    clients: Option<Weak<Servers>>,
}

impl ServerPrompts {
    /// Returns them as a user may choose them now.
    pub fn choices(&self) -> Vec<CommandChoice> {
        let clients = self.clients.as_ref().and_then(Weak::upgrade).map(|servers| servers.lease());
        let servers: Vec<ServersLease> =
            std::iter::once(self.workspace.mcp().lease()).chain(clients).collect();
        let commands = mcp_commands::commands(&servers, &self.workspace.loaded().commands);
        commands.iter().map(CommandChoice::of).collect()
    }
}

impl Sessions<'_> {
    /// Returns the prompts of the servers of an open session.
    pub fn server_prompts(self, id: &SessionId, workspace: Arc<Workspace>) -> ServerPrompts {
        let sessions = lock(&self.engine.0.sessions.open);
        let clients = sessions.get(id).and_then(|open| open.mcp.as_ref().map(Arc::downgrade));
        ServerPrompts { workspace, clients }
    }
}

/// Says why the server that a command's name begins with offers nothing; `None` where there is no such server.
pub fn why_missing(servers: &[ServersLease], name: &str) -> Option<String> {
    let (server, status) = servers.iter().rev().find_map(|lease| lease.offline(name))?;
    let why = match status {
        Status::Connecting => "is still starting".to_owned(),
        Status::Failed { error } | Status::NeedsClientRegistration { error } => return Some(error),
        Status::Disabled => "was closed".to_owned(),
        Status::NeedsAuth => format!("needs a login (`windlass mcp auth {server}`)"),
        Status::Connected => return None,
    };
    Some(format!("MCP server {server} {why}"))
}

/// Asks the server for a prompt's messages; an error is a sentence for the user.
pub async fn ask(
    servers: &[ServersLease],
    prompt: &ServerPrompt,
    typed: &str,
    cancel: &CancellationToken,
) -> Result<PromptAnswer, String> {
    let given = given(prompt, typed)?;
    for lease in servers.iter().rev() {
        let mut offered = lease.prompts().into_iter();
        if let Some(known) = offered.find(|it| it.server == prompt.server && it.name == prompt.name) {
            let mut answer = lease.prompt(&known, given, cancel).await.map_err(|error| error.to_string())?;
            // Words that no argument takes belong to the text.
            if prompt.arguments.is_empty() && !typed.trim().is_empty() {
                answer.text.push_str(&format!("\n\n{}", typed.trim()));
            }
            return Ok(answer);
        }
    }
    Err(format!("MCP server {} is gone", prompt.server))
}

/// Gives typed words to the arguments in their order; the last one gets all that is left.
fn given(prompt: &ServerPrompt, typed: &str) -> Result<Map<String, Value>, String> {
    let words = template::split_words(typed);
    let n_arguments = prompt.arguments.len();
    let mut given = Map::new();
    for (place, (name, is_needed)) in prompt.arguments.iter().enumerate() {
        let value = if place + 1 == n_arguments {
            let rest = words.get(place..).unwrap_or_default();
            (!rest.is_empty()).then(|| rest.join(" "))
        } else {
            words.get(place).cloned()
        };
        match value {
            Some(value) => _ = given.insert(name.clone(), value.into()),
            None if *is_needed => return Err(format!("Type `{name}` behind it")),
            None => {}
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    //! Typed words become arguments.

    use serde_json::{Value, json};

    use super::{ServerPrompt, given};

    #[test]
    fn words_are_given_in_order_and_the_last_argument_gets_the_rest() {
        let arguments = vec![("name".to_owned(), true), ("style".to_owned(), false)];
        let prompt = ServerPrompt { server: "s".to_owned(), name: "p".to_owned(), arguments };
        let given = |typed: &str| given(&prompt, typed).map(Value::Object);
        assert_eq!(given("Ann"), Ok(json!({"name": "Ann"})));
        assert_eq!(given("\"Ann Lee\" very formal"), Ok(json!({"name": "Ann Lee", "style": "very formal"})));
        assert_eq!(given(" "), Err("Type `name` behind it".to_owned()));
        let none = ServerPrompt { arguments: Vec::new(), ..prompt.clone() };
        assert_eq!(super::given(&none, "words"), Ok(serde_json::Map::new()));
    }
}
