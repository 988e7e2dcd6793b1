//! Slash commands for the client.

use windlass_engine::Loaded;
use windlass_protocol_acp::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, UnstructuredCommandInput,
};

use super::{client_session::ClientSession, options};

/// Returns every command by name; the demo's own where the demo answers.
pub fn update(loaded: &Loaded, client_session: &ClientSession) -> AvailableCommandsUpdate {
    let demo = options::is_demo(loaded, client_session).then(|| loaded.demo_command()).flatten();
    let of_servers = client_session.shown_prompts.clone();
    let commands = loaded.command_choices().into_iter().chain(of_servers).chain(demo).map(|choice| {
        let input =
            choice.hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(choice.name, choice.description).input(input)
    });
    AvailableCommandsUpdate::new(commands.collect())
}
