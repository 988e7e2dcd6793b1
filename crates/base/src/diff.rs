//! Unified diffs of two texts.

use std::{fmt::Write, time::Duration};

use memchr::memchr_iter;
use similar::{DiffOp, DiffTag, TextDiff};

/// Unchanged lines around a change, as OpenCode's diffs have them.
const CONTEXT_LINES: usize = 4;
/// Time after which the diff gets coarser instead of slower.
const EFFORT: Duration = Duration::from_millis(500);

/// Number of bytes that are compared at once.
const BLOCK: usize = 256;

/// A patch and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unified {
    /// The patch text. It begins with `Index: <path>` and has no hunks when nothing changed.
    pub patch: String,
    pub additions: usize,
    pub deletions: usize,
}

/// Compares two texts line by line.
pub fn unified(path: &str, before: &str, after: &str) -> Unified {
    // Most of a large file is the same on both sides, and comparing all of it line by line takes long.
    let (start, old_end, new_end) = changed_part(before, after);
    let first_line = memchr_iter(b'\n', &before.as_bytes()[..start]).count();
    let old_lines: Vec<&str> = before[start..old_end].split_inclusive('\n').collect();
    let new_lines: Vec<&str> = after[start..new_end].split_inclusive('\n').collect();
    let text_diff = TextDiff::configure().timeout(EFFORT).diff_slices(&old_lines, &new_lines);
    let mut unified = Unified {
        patch: format!("Index: {path}\n{}\n--- {path}\n+++ {path}\n", "=".repeat(67)),
        additions: 0,
        deletions: 0,
    };
    for hunk in text_diff.grouped_ops(CONTEXT_LINES) {
        push_hunk(&mut unified, &hunk, first_line, &old_lines, &new_lines);
    }
    unified
}

/// Returns the start of the difference and its end in each text, including the context lines of a diff.
fn changed_part(before: &str, after: &str) -> (usize, usize, usize) {
    let (before, after) = (before.as_bytes(), after.as_bytes());
    let n_same = n_same_first(before, after);
    let line_ends = before[..n_same].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let start = line_ends.map(|(at, _)| at + 1).nth(CONTEXT_LINES).unwrap_or_default();
    let n_rest = before.len().min(after.len()) - n_same;
    let n_same = n_same_last(&before[before.len() - n_rest..], &after[after.len() - n_rest..]);
    let tail = &before[before.len() - n_same..];
    let mut line_ends = tail.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    // The first line end belongs to a line that may differ.
    let n_kept = line_ends.nth(CONTEXT_LINES).unwrap_or(n_same);
    let n_cut = n_same - n_kept;
    (start, before.len() - n_cut, after.len() - n_cut)
}

/// Counts the equal bytes at the beginning. Compares blocks first, because byte by byte takes milliseconds.
fn n_same_first(old: &[u8], new: &[u8]) -> usize {
    let blocks = old.chunks_exact(BLOCK).zip(new.chunks_exact(BLOCK));
    let n_blocks = blocks.take_while(|(old, new)| old == new).count() * BLOCK;
    let rest = old[n_blocks..].iter().zip(&new[n_blocks..]);
    n_blocks + rest.take_while(|(old, new)| old == new).count()
}

/// Counts the equal bytes at the end.
fn n_same_last(old: &[u8], new: &[u8]) -> usize {
    let blocks = old.rchunks_exact(BLOCK).zip(new.rchunks_exact(BLOCK));
    let n_blocks = blocks.take_while(|(old, new)| old == new).count() * BLOCK;
    let rest = old[..old.len() - n_blocks].iter().rev().zip(new[..new.len() - n_blocks].iter().rev());
    n_blocks + rest.take_while(|(old, new)| old == new).count()
}

fn push_hunk(
    unified: &mut Unified,
    ops: &[DiffOp],
    first_line: usize,
    old_lines: &[&str],
    new_lines: &[&str],
) {
    let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
    let (old_start, old_end) = (first.old_range().start, last.old_range().end);
    let (new_start, new_end) = (first.new_range().start, last.new_range().end);
    let (n_old, n_new) = (old_end - old_start, new_end - new_start);
    // The header of a hunk names the line before an empty side.
    let old_first = first_line + old_start + usize::from(n_old > 0);
    let new_first = first_line + new_start + usize::from(n_new > 0);
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
