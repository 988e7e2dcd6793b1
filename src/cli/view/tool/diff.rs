//! A change of a file as a unified diff with line numbers.

use serde_json::{Map, Value};
use windlass_base::figures;
use windlass_protocol::opencode::{
    file_diff,
    tool_metadata::{Changes, FileChange, FileDiff, PatchedFile, decode},
};

use super::{
    super::{
        line::{BOLD, DIM, GREEN, Line, PLAIN, RED},
        look::Draw,
    },
    header, with_path,
};

/// The word for a change of a file that was there.
pub const VERB: &str = "Edit";
/// Lines of one diff that are shown.
pub const MAX_LINES: usize = 60;

/// Change of one file by a call.
pub struct Change {
    pub file: String,
    /// Earlier path of the file, if it was moved.
    pub from: Option<String>,
    pub patch: String,
    pub additions: u64,
    pub deletions: u64,
    pub is_new: bool,
    pub is_gone: bool,
}

/// Returns the changes in the metadata of an edit, or of a question about one.
pub fn changes(metadata: &Map<String, Value>) -> Vec<Change> {
    let Changes { filediff, files, .. } = decode(metadata).unwrap_or_default();
    match (files, filediff) {
        (Some(files), _) => files.iter().map(of_patch).collect(),
        (None, Some(filediff)) => vec![of_file(&filediff)],
        (None, None) => Vec::new(),
    }
}

/// Returns the change of a file over a whole session.
pub fn of_session(diff: file_diff::FileDiff) -> Change {
    let file_diff::FileDiff { file, patch, additions, deletions, status } = diff;
    let (is_new, is_gone) = (status == "added", status == "deleted");
    Change { file, from: None, patch, additions, deletions, is_new, is_gone }
}

fn of_file(filediff: &FileDiff<'_>) -> Change {
    Change {
        file: filediff.file.to_owned(),
        from: None,
        patch: filediff.patch.to_owned(),
        additions: filediff.additions,
        deletions: filediff.deletions,
        is_new: filediff.before == Some(None),
        is_gone: false,
    }
}

/// Returns the change of one file of `apply_patch`.
fn of_patch(file: &PatchedFile<'_>) -> Change {
    Change {
        file: file.path().to_owned(),
        from: file.move_path.map(|_| file.file_path.to_owned()),
        patch: file.patch.to_owned(),
        additions: file.additions,
        deletions: file.deletions,
        is_new: file.change == FileChange::Add,
        is_gone: file.change == FileChange::Delete,
    }
}

/// Draws the file's name with `+n −n`, and the diff below.
pub fn drawn(change: &Change, verb: &str, max_lines: usize, draw: &Draw<'_>) -> Vec<Line> {
    let verb = match (change.is_new, change.is_gone) {
        (true, _) => "Create",
        (_, true) => "Delete",
        (false, false) => verb,
    };
    let mut line = Line::new(verb, BOLD).with(" ", PLAIN);
    if let Some(from) = &change.from {
        line = with_path(line, Some(from), draw.look).with(" → ", DIM);
    }
    line = with_path(line, Some(&change.file), draw.look);
    line.push(&format!("  +{}", change.additions), GREEN);
    line.push(&format!(" −{}", change.deletions), RED);
    let mut rows = header(Line::new("• ", DIM), line, draw.width);
    rows.extend(hunks(&change.patch, max_lines, draw));
    rows
}

/// Draws the lines of a unified diff behind their numbers, at most `max_lines`.
pub fn hunks(patch: &str, max_lines: usize, draw: &Draw<'_>) -> Vec<Line> {
    let lines = numbered(patch);
    let largest = lines.iter().filter_map(|line| line.number).max().unwrap_or_default();
    let digits = largest.to_string().len();
    let n_hidden = lines.len().saturating_sub(max_lines);
    let mut rows = Vec::new();
    for line in lines.iter().take(max_lines) {
        let style = match line.sign {
            '+' => GREEN,
            '-' => RED,
            _other => PLAIN,
        };
        let number = line.number.map_or(String::new(), |number| number.to_string());
        let gutter = Line::new(&format!("  {number:>digits$} "), DIM);
        let blank = Line::new(&" ".repeat(gutter.width() + 2), PLAIN);
        let sign_style = if line.number.is_none() { DIM } else { style };
        let gutter = gutter.with(&format!("{} ", line.sign), sign_style);
        let width = draw.width.saturating_sub(gutter.width()).max(8);
        let text_style = if line.number.is_none() { DIM } else { style };
        let folded = Line::new(line.text, text_style).fold(width).into_iter().enumerate();
        rows.extend(folded.map(|(idx, row)| row.behind(if idx == 0 { &gutter } else { &blank })));
    }
    if n_hidden > 0 {
        let more = format!("  … {} of the diff more", figures::counted(n_hidden, "line"));
        rows.push(Line::new(&more, DIM));
    }
    rows
}

struct Numbered<'a> {
    number: Option<usize>,
    sign: char,
    text: &'a str,
}

fn numbered(patch: &str) -> Vec<Numbered<'_>> {
    let mut lines: Vec<Numbered<'_>> = Vec::new();
    let (mut old, mut new) = (0, 0);
    let mut is_inside = false;
    for line in patch.lines() {
        if let Some((first_old, first_new)) = line.strip_prefix("@@ -").and_then(starts) {
            (old, new, is_inside) = (first_old, first_new, true);
            if !lines.is_empty() {
                lines.push(Numbered { number: None, sign: '⋮', text: "" });
            }
            continue;
        }
        if !is_inside {
            continue;
        }
        let mut chars = line.chars();
        let sign = chars.next().unwrap_or(' ');
        let text = chars.as_str();
        match sign {
            '+' => {
                lines.push(Numbered { number: Some(new), sign, text });
                new += 1;
            }
            '-' => {
                lines.push(Numbered { number: Some(old), sign, text });
                old += 1;
            }
            '\\' => lines.push(Numbered { number: None, sign: ' ', text: "no newline at the end" }),
            _other => {
                lines.push(Numbered { number: Some(new), sign: ' ', text });
                old += 1;
                new += 1;
            }
        }
    }
    lines
}

/// Returns the first lines of both sides from `12,7 +12,9 @@`.
fn starts(header: &str) -> Option<(usize, usize)> {
    let (old, rest) = header.split_once(" +")?;
    let number = |range: &str| range.split([',', ' ']).next()?.parse().ok();
    Some((number(old)?, number(rest)?))
}
