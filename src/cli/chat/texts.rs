//! Texts of the chat's own commands, the same with an engine of its own and at a server.

use windlass_engine::CommandChoice;
use windlass_protocol::opencode::session::Session;

use super::OWN;
use crate::cli::output::plain;

const KEYS: &str = "Alt-Enter or \\ at the end of a line continues on the next, Tab completes / and @ words, \
                    !COMMAND runs a shell command that the model sees later, \
                    Ctrl-C cancels the turn, Ctrl-D leaves.";

/// Returns the commands of the chat, those of the directory, and the keys.
pub fn help(commands: &[CommandChoice]) -> String {
    let own = OWN.iter().map(|(name, text)| format!("  /{name}  {text}"));
    let others = commands.iter().filter(|it| OWN.iter().all(|(own, _)| it.name != *own));
    let others = others.map(|it| format!("  /{}  {}", it.name, plain(&it.description)));
    let lines: Vec<String> = own.chain(others).chain([KEYS.to_owned()]).collect();
    lines.join("\n")
}

/// Returns the sentence about an unknown command, with the way to send it all the same.
pub fn unknown(sentence: &str) -> String {
    let end = if sentence.ends_with('?') { "" } else { "." };
    format!("{sentence}{end} Put a space before it to send it as text.")
}

/// Returns a line for each agent.
pub fn agents(agents: &[(String, Option<String>)]) -> String {
    let line = |(name, description): &(String, Option<String>)| {
        format!("{name}  {}", plain(description.as_deref().unwrap_or_default()))
    };
    agents.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a line for each session.
pub fn sessions<'a>(sessions: impl Iterator<Item = &'a Session>) -> String {
    sessions.map(|it| format!("{}  {}", it.id, plain(&it.title))).collect::<Vec<_>>().join("\n")
}
