//! Prompts of MCP servers as slash commands.

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    library::commands::{Body, Command, ServerPrompt, Source, template},
    mcp::{McpPrompt, ServersLease},
};

/// Returns the prompts of the connected servers as commands; the later one of a name wins.
pub fn commands(servers: &[ServersLease]) -> Vec<Command> {
    servers.iter().flat_map(ServersLease::prompts).map(command).collect()
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

/// Asks the server for a prompt's text; an error is a sentence for the user.
pub async fn text(
    servers: &[ServersLease],
    prompt: &ServerPrompt,
    typed: &str,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let given = given(prompt, typed)?;
    for lease in servers.iter().rev() {
        let mut offered = lease.prompts().into_iter();
        if let Some(known) = offered.find(|it| it.server == prompt.server && it.name == prompt.name) {
            return lease.prompt(&known, given, cancel).await.map_err(|error| error.to_string());
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
