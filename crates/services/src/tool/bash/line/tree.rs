//! Parses shell text within bounds, and finds the parts that the grammar does not see of it.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// Longer commands are one pattern.
const MAX_BYTES: usize = 64 * 1024;
/// Number of progress reports after which the parser is stopped: far beyond any readable command.
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

/// Returns the words of a command that stand behind its redirections (`git 2>&1 push`), which the grammar takes for
/// more destinations.
pub(super) fn words_behind_redirections(statement: Node<'_>) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut cursor = statement.walk();
    for redirect in statement.children(&mut cursor).filter(|it| it.kind() == "file_redirect") {
        let mut cursor = redirect.walk();
        words.extend(spans(redirect.children_by_field_name("destination", &mut cursor)).into_iter().skip(1));
    }
    words
}

/// Returns true if the line tells a command's standard input: by a redirection or a pipe, of it or around it. The
/// callers of a function say its input.
pub(super) fn is_fed(text: &str, command: Node<'_>) -> bool {
    let of = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    let is_input = |node: Node<'_>| match node.kind() {
        "file_redirect" => of(node).trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('<'),
        kind => matches!(kind, "herestring_redirect" | "heredoc_redirect"),
    };
    let mut inner = None;
    let mut node = Some(command);
    while let Some(it) = node {
        let mut cursor = it.walk();
        let is_fed = match it.kind() {
            "redirected_statement" | "command" => it.children(&mut cursor).any(is_input),
            "pipeline" => it.named_child(0) != inner,
            "process_substitution" => of(it).starts_with('>'),
            // The grammar hangs the commands behind a document in a pipe below the document.
            kind => matches!(kind, "heredoc_redirect" | "function_definition"),
        };
        if is_fed {
            return true;
        }
        inner = Some(it);
        node = it.parent();
    }
    false
}

/// Returns true if lines hold text that the grammar reads as other words than the shell: a backslash that joins two
/// words over a line's end, or one that begins a line.
pub(super) fn hides_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let joins_words = text.match_indices("\\\n").any(|(at, _)| {
        let is_blank =
            |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_none_or(|it| it.is_ascii_whitespace());
        !is_blank(at.checked_sub(1)) && !is_blank(Some(at + 2))
    });
    let mut lines = text.lines().skip(1).map(str::trim_start);
    joins_words
        || lines.any(|line| line.strip_prefix('\\').is_some_and(|rest| rest.starts_with(char::is_alphabetic)))
}

/// Returns true if a quoted text looks like an array's element with a subscript that runs something, which arithmetic
/// does as soon as it meets the text: `a[$(rm x)]`.
pub(super) fn is_subscript_code(quoted: &str, has_arithmetic: bool) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let last_code = quoted.rfind("$(").max(quoted.rfind('`'));
    let last = if has_arithmetic { quoted.rfind('$').max(last_code) } else { last_code };
    quoted.match_indices('[').any(|(at, _)| {
        let outside = quoted[..at].trim_end_matches(is_name);
        outside.len() < at && !outside.ends_with(['{', '#', '!']) && last.is_some_and(|last| last > at)
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
