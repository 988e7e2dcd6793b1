//! Texts of the chat's own commands, the same with an engine of its own and at a server.

use windlass_engine::CommandChoice;

use super::names::OWN;
use crate::cli::output::plain;

const KEYS: &str = "Alt-Enter or \\ at the end of a line continues on the next, Tab completes / and @ words, \
                    Shift-Tab changes the agent, Ctrl-G opens your editor, \
                    !COMMAND runs a shell command that the model sees later. During a turn, Enter says it at the \
                    next step, Alt-Enter asks it afterwards, Up takes the last back, Esc or Ctrl-C stops; Esc again \
                    takes the stopped prompt back. Ctrl-D leaves.";

/// Returns the commands of the chat, those of the directory, and the keys.
pub fn help(commands: &[CommandChoice]) -> String {
    let own = OWN.iter().map(|(name, text)| format!("  /{name}  {text}"));
    let others = commands.iter().filter(|it| OWN.iter().all(|(own, _)| it.name != *own));
    let others = others.map(|it| format!("  /{}  {}", it.name, plain(&it.description)));
    let lines: Vec<String> = own.chain(others).chain([KEYS.to_owned()]).collect();
    lines.join("\n")
}

/// Says why a command of the chat is not carried out that other lines follow.
pub fn joined(name: &str) -> String {
    format!("/{name} stands on a line of its own; the lines are back.")
}

/// Returns the sentence about an unknown command, with the way to send it all the same.
pub fn unknown(sentence: &str) -> String {
    let end = if sentence.ends_with('?') { "" } else { "." };
    format!("{sentence}{end} Put a space before it to send it as text.")
}
