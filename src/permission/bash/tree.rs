//! The grammar's tree of a shell text: parsed within bounds, and looked through.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// Longer commands are one pattern.
const MAX_BYTES: usize = 64 * 1024;
/// How often the parser may report progress before it is stopped: far beyond any readable command.
const MAX_PROGRESS_REPORTS: usize = 10_000;

pub(super) fn parse(text: &str) -> Option<Tree> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut n_reports = 0;
    let mut progress = |_: &tree_sitter::ParseState| {
        n_reports += 1;
        if n_reports > MAX_PROGRESS_REPORTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = text.as_bytes();
    parser.parse_with_options(&mut |offset, _| bytes.get(offset..).unwrap_or_default(), None, Some(options))
}

pub(super) fn has_statement(text: &str) -> bool {
    let Some(tree) = parse(text) else { return true };
    let root = tree.root_node();
    let mut cursor = root.walk();
    root.named_children(&mut cursor).any(|child| child.kind() != "comment")
}

pub(super) fn last_named_child(node: Node<'_>) -> Option<Node<'_>> {
    let count = node.named_child_count();
    u32::try_from(count.checked_sub(1)?).ok().and_then(|idx| node.named_child(idx))
}

/// Calls `look` for a node and everything below it.
pub(super) fn each_below<'t>(root: Node<'t>, mut look: impl FnMut(Node<'t>)) {
    let mut cursor = root.walk();
    loop {
        look(cursor.node());
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

/// Where words stand. Those that touch are one word, which the grammar has split (`$a/$b/c`).
pub(super) fn spans<'t>(nodes: impl IntoIterator<Item = Node<'t>>) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for node in nodes {
        match spans.last_mut().filter(|(_, end)| *end == node.start_byte()) {
            Some((_, end)) => *end = node.end_byte(),
            None => spans.push((node.start_byte(), node.end_byte())),
        }
    }
    spans
}
