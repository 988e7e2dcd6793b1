//! Parses shell text within bounds, and finds what the grammar does not see of it.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// Longer commands are one pattern.
const MAX_BYTES: usize = 64 * 1024;
/// How often the parser may report progress before it is stopped: far beyond any readable command.
const MAX_PROGRESS_REPORTS: usize = 10_000;

/// Parses a text; none where it is too long or takes too long.
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

/// Returns where words stand. Those that touch are one word, which the grammar has split (`$a/$b/c`).
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

/// Returns true if a backslash at the end of a line joins two words to one, which the grammar does not see.
pub(super) fn joins_words(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices("\\\n").any(|(at, _)| {
        let is_blank =
            |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_none_or(|it| it.is_ascii_whitespace());
        !is_blank(at.checked_sub(1)) && !is_blank(Some(at + 2))
    })
}

/// Returns true if text that the shell expands holds a substitution that the grammar did not see.
pub(super) fn has_lost_substitution(text: &str, node: Node<'_>) -> bool {
    let of = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    if node.kind() == "heredoc_body" {
        let mut cursor = node.walk();
        let start =
            node.parent().and_then(|it| it.children(&mut cursor).find(|it| it.kind() == "heredoc_start"));
        if start.is_some_and(|it| of(it).contains(['\'', '"', '\\'])) {
            return false;
        }
    }
    let mut own = of(node).to_owned();
    let mut seen: Vec<(usize, usize)> = Vec::new();
    each_below(node, |it| {
        let is_seen = matches!(
            it.kind(),
            "command_substitution" | "arithmetic_expansion" | "expansion" | "process_substitution"
        );
        if is_seen && it != node && seen.last().is_none_or(|(_, end)| it.start_byte() >= *end) {
            seen.push((it.start_byte(), it.end_byte()));
        }
    });
    for (start, end) in seen.into_iter().rev() {
        own.replace_range(start - node.start_byte()..end - node.start_byte(), "");
    }
    if node.kind() == "expansion" && (own.contains("<(") || own.contains(">(")) {
        return true;
    }
    let own = own.replace("\\\\", "").replace("\\`", "").replace("\\$", "");
    own.contains('`') || own.contains("$(")
}

/// The text in a form that the grammar reads as the shell does: `$(…)` in the place of backquotes around text without
/// a backslash, of which it joins neighbours; and no backslash before a letter that begins a line.
pub(super) fn normalised(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut is_single_quoted, mut is_double_quoted) = (text, false, false);
    while let Some(c) = rest.chars().next() {
        let len = c.len_utf8();
        let next = rest[len..].chars().next();
        match c {
            '\\' if !is_single_quoted => {
                let line = out.rsplit('\n').next().unwrap_or_default();
                let begins_line = line.trim().is_empty() && out.contains('\n');
                if !(begins_line && !is_double_quoted && next.is_some_and(char::is_alphabetic)) {
                    out.push(c);
                }
                out.extend(next);
                rest = &rest[len + next.map_or(0, char::len_utf8)..];
                continue;
            }
            '\'' if !is_double_quoted => is_single_quoted = !is_single_quoted,
            '"' if !is_single_quoted => is_double_quoted = !is_double_quoted,
            '`' if !is_single_quoted => {
                let inside = rest[1..].split_once('`').filter(|(inside, _)| !inside.contains(['\\', '#']));
                if let Some((inside, behind)) = inside {
                    out.push_str("$(");
                    out.push_str(inside);
                    out.push(')');
                    rest = behind;
                    continue;
                }
            }
            // A document may hold lone quotes, and backquotes that stay text.
            '<' if !is_single_quoted
                && !is_double_quoted
                && rest.starts_with("<<")
                && !rest.starts_with("<<<") =>
            {
                out.push_str(rest);
                return out;
            }
            _ => {}
        }
        out.push(c);
        rest = &rest[len..];
    }
    out
}

/// Returns true if a line behind a document begins with a backslash, which the grammar loses.
pub(super) fn loses_backslash(text: &str) -> bool {
    let behind = text.split_once("<<").map_or("", |(_, behind)| behind);
    let mut lines = behind.lines().skip(1).map(str::trim_start);
    lines.any(|line| line.strip_prefix('\\').is_some_and(|rest| rest.starts_with(char::is_alphabetic)))
}
