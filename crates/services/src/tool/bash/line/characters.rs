//! Refuses characters that show something other than the command that runs.

use super::tree::parse;

/// Returns the reason why a command is not even looked at.
pub fn refusal(command: &str) -> Option<String> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    // They reorder the text that is shown; no command needs them.
    let is_bidirectional = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_blank_alike = |c: char| {
        (c.is_whitespace() && !c.is_ascii())
            || matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
    };
    if let Some(found) = command.chars().find(|&c| is_control(c) || is_bidirectional(c)) {
        return Some(format!(
            "The command contains the character {}, which hides what runs; write it without.",
            found.escape_unicode()
        ));
    }
    let tree = command.contains(is_blank_alike).then(|| parse(command))?;
    let is_text = |at: usize| {
        let root = tree.as_ref()?.root_node();
        let mut node = root.descendant_for_byte_range(at, at + 1);
        while let Some(it) = node {
            if matches!(it.kind(), "raw_string" | "string" | "ansi_c_string" | "heredoc_body" | "comment") {
                return Some(());
            }
            node = it.parent();
        }
        None
    };
    let found = command.char_indices().find(|&(at, c)| is_blank_alike(c) && is_text(at).is_none());
    found.map(|(_, c)| {
        format!(
            "The command contains the character {} outside of quotes, which looks like a space and is none; \
             write a plain space.",
            c.escape_unicode()
        )
    })
}
