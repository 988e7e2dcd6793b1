//! The slash commands as the client is told of them.

use windlass_protocol::acp::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, UnstructuredCommandInput,
};

use crate::engine::Loaded;

/// Every command, by name.
pub fn update(loaded: &Loaded) -> AvailableCommandsUpdate {
    let commands = loaded.command_choices().into_iter().map(|choice| {
        let input =
            choice.hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(choice.name, choice.description).input(input)
    });
    AvailableCommandsUpdate::new(commands.collect())
}
