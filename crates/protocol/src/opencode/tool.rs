//! The look of tools: the categories and subjects by which every front end shows a call.

/// The way in which calls of a tool are shown.
///
/// Stored calls name only their tool, so that a front end looks this up by name; a tool that is gone looks like
/// [`Look::OTHER`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub kind: Kind,
    /// The word in front of the subject, such as `Read`; empty if the subject or the tool's name says it.
    pub verb: &'static str,
    pub subject: Subject,
}

impl Look {
    /// The look of tools that came at run time.
    pub const OTHER: Self = Self { kind: Kind::Other, verb: "", subject: Subject::Arguments };
}

/// The category of a tool, as ACP has them (facts: OpenCode §11.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Execute,
    Read,
    Edit,
    Search,
    Fetch,
    Think,
    SwitchMode,
    Other,
}

/// The part of a call's input that titles and locates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The shell command `command`, run in `workdir`.
    Command,
    /// The file `filePath`, of which lines are read.
    File,
    /// The file `filePath`, which is changed.
    Change,
    /// The files that the text of a patch names.
    Patch,
    /// The search for `pattern` below `path`.
    Pattern,
    /// The directory `path`.
    Directory,
    /// The page at `url`.
    Url,
    /// The resource `uri` of the MCP server `server`.
    Resource,
    /// The question about code at a place of `filePath`.
    Code,
    /// The work for a subagent, called `description`.
    Task,
    /// The entries of the todo list.
    Todos,
    /// The questions to the user.
    Questions,
    /// The calls of other tools.
    Calls,
    /// The text of this field.
    Text(&'static str),
    /// Nothing of the input: the tool titles its calls.
    Title,
    /// All arguments, as nothing is known about them.
    Arguments,
}

impl Subject {
    /// Returns the field of the input that names the subject alone, as text; none where it has another form.
    pub fn field(self) -> Option<&'static str> {
        match self {
            Self::Command => Some("command"),
            Self::File | Self::Change => Some("filePath"),
            Self::Pattern => Some("pattern"),
            Self::Directory => Some("path"),
            Self::Url => Some("url"),
            Self::Resource => Some("uri"),
            Self::Task => Some("description"),
            Self::Text(field) => Some(field),
            Self::Patch
            | Self::Code
            | Self::Todos
            | Self::Questions
            | Self::Calls
            | Self::Title
            | Self::Arguments => None,
        }
    }
}
