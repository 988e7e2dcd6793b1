//! Finds what a command reads on its standard input, as far as the line tells.

use tree_sitter::Node;

use super::word::Word;

/// The standard input of a command, as far as the line tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feed {
    Nothing,
    Text(String),
    /// Text that the shell expands first.
    Expanded(String),
    Unknown,
}

/// Finds the standard input of a command: the nearest redirection or pipe around it.
pub fn feed(text: &str, node: Node<'_>) -> Feed {
    let mut inner = node;
    while let Some(outer) = inner.parent() {
        match outer.kind() {
            "redirected_statement" | "command" => {
                if let Some(feed) = redirected(text, outer) {
                    return feed;
                }
            }
            // The grammar hangs what follows a document in a pipe below the document.
            "heredoc_redirect" => return Feed::Unknown,
            "pipeline" if outer.named_child(0) != Some(inner) => return Feed::Unknown,
            "command_substitution" | "process_substitution" => return Feed::Nothing,
            _ => {}
        }
        inner = outer;
    }
    redirected(text, node).unwrap_or(Feed::Nothing)
}

fn redirected(text: &str, statement: Node<'_>) -> Option<Feed> {
    let mut cursor = statement.walk();
    let mut feed = None;
    for child in statement.children(&mut cursor) {
        let of = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
        match child.kind() {
            "file_redirect"
                if of(child).trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('<') =>
            {
                feed = Some(Feed::Unknown);
            }
            "herestring_redirect" => {
                let word = Word::new(
                    of(child).trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('<').trim(),
                );
                feed = Some(match word.literal {
                    Some(literal) => Feed::Text(literal),
                    None => Feed::Expanded(word.text.trim_matches('"').to_owned()),
                });
            }
            "heredoc_redirect" => {
                let mut inside = child.walk();
                let parts: Vec<Node<'_>> = child.children(&mut inside).collect();
                let body =
                    parts.iter().find(|it| it.kind() == "heredoc_body").map(|it| of(*it)).unwrap_or_default();
                let start = parts
                    .iter()
                    .find(|it| it.kind() == "heredoc_start")
                    .map(|it| of(*it))
                    .unwrap_or_default();
                let is_literal = start.contains(['\'', '"', '\\']) || !body.contains(['$', '`', '\\']);
                feed = Some(if is_literal {
                    Feed::Text(body.to_owned())
                } else {
                    Feed::Expanded(body.to_owned())
                });
            }
            _ => {}
        }
    }
    feed
}
