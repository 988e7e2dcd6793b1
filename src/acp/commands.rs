//! Slash commands for the client.

use windlass_engine::{CommandChoice, Loaded};
use windlass_protocol_acp::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, UnstructuredCommandInput,
};

use super::{chosen::Chosen, client_session::ClientSession, options};

/// Returns every command by name; the demo's own where the demo answers.
pub fn update(loaded: &Loaded, client_session: &ClientSession) -> AvailableCommandsUpdate {
    of_files(loaded, &client_session.chosen, client_session.shown_prompts.clone())
}

/// Returns the commands that files bring, and these of servers.
pub fn of_files(loaded: &Loaded, chosen: &Chosen, of_servers: Vec<CommandChoice>) -> AvailableCommandsUpdate {
    let demo = options::is_demo(loaded, chosen).then(|| loaded.demo_command()).flatten();
    let commands = loaded.command_choices().into_iter().chain(of_servers).chain(demo).map(|choice| {
        let input =
            choice.hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(choice.name, choice.description).input(input)
    });
    AvailableCommandsUpdate::new(commands.collect())
}
