//! What a command gets on its standard input, as far as the line tells.

use tree_sitter::Node;

use super::{
    Source, Walk, files, name_of,
    tree::spans,
    word::{self, Word},
};

/// Where input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFrom {
    /// This text.
    Text(String),
    /// A file, as written.
    File(String),
    /// Text that is computed.
    Computed,
}

/// The input of a command.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// By redirections.
    pub redirected: Vec<InputFrom>,
    /// What the commands before it in the pipe write, and how they are written.
    pub piped: Option<Piped>,
}

/// What comes through a pipe.
#[derive(Debug, Clone)]
pub struct Piped {
    pub output: Option<String>,
    pub written: String,
}

impl Input {
    /// The text that is read, when it is known.
    pub fn known(&self) -> Option<&str> {
        match self.redirected.last() {
            Some(InputFrom::Text(text)) => Some(text),
            Some(InputFrom::File(_) | InputFrom::Computed) => None,
            None => self.piped.as_ref()?.output.as_deref(),
        }
    }
}

impl Input {
    /// The paths that its lines may be, as globs.
    pub fn found(&self) -> Vec<String> {
        match self.piped.as_ref().filter(|_| self.begins_with_names()) {
            Some(piped) => {
                let first = piped.written.split('|').next().unwrap_or_default();
                let words: Vec<Word> = first.split_whitespace().map(Word::new).collect();
                files::found(&words)
            }
            None => vec!["/**/*".to_owned()],
        }
    }

    /// Whether its lines are paths that begin as a `find` of the line was told.
    pub fn begins_with_names(&self) -> bool {
        const KEEPING: [&str; 8] = ["grep", "egrep", "fgrep", "sort", "head", "tail", "uniq", "rg"];
        let Some(piped) = self.piped.as_ref().filter(|_| self.redirected.is_empty()) else { return false };
        let mut stages = piped.written.split('|').map(str::trim);
        let first = stages.next().unwrap_or_default();
        let mut words = first.split_whitespace();
        let is_find = words.next() == Some("find");
        let mut starts = words.take_while(|word| !word.starts_with(['-', '(', '!', '\\'])).peekable();
        let is_plain = |word: &str| {
            word.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '~' | '_'))
                && !word.contains(['$', '`', '{', '*', '?', '['])
        };
        let prints_else = ["-printf", "-exec", "-ok", ";", "&", "\n", "<(", "$("];
        let prints_paths = !prints_else.iter().any(|it| first.contains(it));
        is_find
            && starts.peek().is_some()
            && starts.all(is_plain)
            && prints_paths
            && stages.all(|stage| KEEPING.contains(&stage.split_whitespace().next().unwrap_or_default()))
    }
}

impl Walk {
    /// The here-document, here-string or file of a redirection.
    pub(super) fn input_of(&self, source: &Source<'_>, redirect: Node<'_>) -> Option<InputFrom> {
        let known = |text: Option<String>| text.map_or(InputFrom::Computed, InputFrom::Text);
        let mut cursor = redirect.walk();
        match redirect.kind() {
            "herestring_redirect" => {
                let value = source.of(redirect.named_children(&mut cursor).last()?);
                // What is written there is another command's.
                if value.contains("$(") || value.contains('`') {
                    return Some(InputFrom::Computed);
                }
                let texts: Option<Vec<String>> =
                    self.values.known(value).iter().map(|text| word::literal(text)).collect();
                Some(known(texts.map(|texts| texts.join(" "))))
            }
            "heredoc_redirect" => {
                // The grammar may take the body's first lines for arguments.
                let at = redirect.start_byte() + source.of(redirect).find("<<")?;
                let document = source.documents.iter().find(|document| document.at == at);
                Some(known(document.and_then(|document| {
                    let is_plain = document.is_quoted || !document.body.contains(['$', '`', '\\']);
                    is_plain.then(|| document.body.clone())
                })))
            }
            "file_redirect"
                if source.of(redirect).trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('<') =>
            {
                let destination = redirect.child_by_field_name("destination");
                Some(match destination.filter(|it| it.kind() != "process_substitution") {
                    Some(destination) => InputFrom::File(source.of(destination).to_owned()),
                    None => InputFrom::Computed,
                })
            }
            _other => None,
        }
    }

    /// What a command of a pipe writes, when it only repeats what stands in the line.
    pub(super) fn output_of(&self, source: &Source<'_>, node: Node<'_>) -> Option<String> {
        if node.kind() != "command" {
            return None;
        }
        let name = name_of(source, node)?;
        let mut cursor = node.walk();
        let arguments = spans(node.children_by_field_name("argument", &mut cursor));
        let texts: Vec<String> = arguments
            .iter()
            .filter_map(|(start, end)| source.text.get(*start..*end))
            .filter(|text| name != "echo" || !matches!(*text, "-n" | "-e" | "-ne" | "-en"))
            .map(|text| {
                self.values.known(text).iter().map(|it| word::literal(it)).collect::<Option<Vec<_>>>()
            })
            .map(|texts| texts.map(|texts| texts.join(" ")))
            .collect::<Option<Vec<String>>>()?;
        match name.as_str() {
            "echo" => Some(texts.join(" ").replace("\\n", "\n")),
            "printf" => {
                let (format, arguments) = texts.split_first()?;
                match arguments.is_empty() {
                    true => Some(format.replace("\\n", "\n").replace("\\0", "\n")),
                    false => Some(arguments.join("\n")),
                }
            }
            _other => None,
        }
    }
}
