//! Unified diffs of two texts.

use std::{fmt::Write, time::Duration};

use similar::{DiffOp, DiffTag, TextDiff};

/// Unchanged lines around a change, as OpenCode's diffs have them.
const CONTEXT_LINES: usize = 4;
/// Past this the diff gets coarser instead of slower.
const EFFORT: Duration = Duration::from_millis(500);

/// A patch and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unified {
    /// Begins with `Index: <path>`; without hunks when nothing changed.
    pub patch: String,
    pub additions: usize,
    pub deletions: usize,
}

/// Compares two texts line by line.
pub fn unified(path: &str, before: &str, after: &str) -> Unified {
    let old_lines: Vec<&str> = before.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = after.split_inclusive('\n').collect();
    let text_diff = TextDiff::configure().timeout(EFFORT).diff_slices(&old_lines, &new_lines);
    let mut unified = Unified {
        patch: format!("Index: {path}\n{}\n--- {path}\n+++ {path}\n", "=".repeat(67)),
        additions: 0,
        deletions: 0,
    };
    for hunk in text_diff.grouped_ops(CONTEXT_LINES) {
        push_hunk(&mut unified, &hunk, &old_lines, &new_lines);
    }
    unified
}

fn push_hunk(unified: &mut Unified, ops: &[DiffOp], old_lines: &[&str], new_lines: &[&str]) {
    let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
    let (old_start, old_end) = (first.old_range().start, last.old_range().end);
    let (new_start, new_end) = (first.new_range().start, last.new_range().end);
    let (n_old, n_new) = (old_end - old_start, new_end - new_start);
    // An empty side is named by the line before it.
    let old_first = old_start + usize::from(n_old > 0);
    let new_first = new_start + usize::from(n_new > 0);
    // Writing to a string cannot fail.
    let _ = writeln!(unified.patch, "@@ -{old_first},{n_old} +{new_first},{n_new} @@");
    for op in ops {
        let (tag, old_range, new_range) = op.as_tag_tuple();
        let removed = old_lines.get(old_range).unwrap_or_default();
        let added = new_lines.get(new_range).unwrap_or_default();
        if tag == DiffTag::Equal {
            removed.iter().for_each(|line| push_line(&mut unified.patch, ' ', line));
            continue;
        }
        removed.iter().for_each(|line| push_line(&mut unified.patch, '-', line));
        added.iter().for_each(|line| push_line(&mut unified.patch, '+', line));
        unified.deletions += removed.len();
        unified.additions += added.len();
    }
}

fn push_line(patch: &mut String, sign: char, line: &str) {
    patch.push(sign);
    patch.push_str(line);
    if !line.ends_with('\n') {
        patch.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests;
