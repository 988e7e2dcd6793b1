//! The names of the chat's own commands.

/// The commands, with their effects.
pub const OWN: [(&str, &str); 17] = [
    ("agent", "NAME: switch agent; without a name, list them"),
    ("clear", "start a new session, as /new does"),
    ("copy", "copy the last answer to the clipboard of the terminal"),
    ("cost", "what the session cost, and its tokens"),
    ("diff", "the changes of files in this session"),
    ("exit", "leave, as Ctrl-D does"),
    ("export", "FILE: write the session as .md, .html or .json"),
    ("help", "this list"),
    ("login", "log in at a provider, or store its key"),
    ("mode", "the same as /agent"),
    ("model", "MODEL: switch model, by number or any part of its name; without one, list them"),
    ("new", "start a new session"),
    ("quit", "leave"),
    ("rename", "TITLE: give the session another title"),
    ("resume", "the same as /sessions"),
    ("sessions", "SESSION: switch session, by number, words of its title or its id; without one, list them"),
    ("thinking", "show thoughts from now on, or show them no more"),
];

/// Returns true for a command of the chat.
pub fn is_own(word: &str) -> bool {
    names().any(|name| name == word)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|(name, _)| *name)
}
