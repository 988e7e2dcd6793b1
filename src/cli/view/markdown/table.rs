//! A table that fits its terminal: columns that wrap, or a list of fields where there is no room for columns.

use pulldown_cmark::Alignment;

use super::super::line::{BOLD, DIM, Line, PLAIN};

/// The narrowest a column may become.
const MIN_COLUMN: usize = 6;

/// Rows of cells, the first of which is the heading.
pub fn drawn(rows: &[Vec<Line>], alignments: &[Alignment], width: usize) -> Vec<Line> {
    let Some((head, body)) = rows.split_first() else { return Vec::new() };
    let n_columns = head.len().max(1);
    let room = width.saturating_sub(3 * (n_columns - 1));
    let natural = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(Line::width).max().unwrap_or_default().max(1)
    };
    let mut widths: Vec<usize> = (0..n_columns).map(natural).collect();
    let least: usize = widths.iter().map(|width| (*width).min(MIN_COLUMN)).sum();
    if least > room {
        return records(head, body, width);
    }
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max() else { break };
        *widest -= 1;
    }
    let wraps = |row: &Vec<Line>| row.iter().zip(&widths).any(|(cell, width)| cell.width() > *width);
    let is_ruled = body.iter().any(wraps);
    let rule = rule(&widths);
    let heading: Vec<Line> = head.iter().map(|cell| cell.clone().styled(BOLD)).collect();
    let mut drawn = cells(&heading, &widths, alignments);
    for (idx, row) in body.iter().enumerate() {
        if idx == 0 || is_ruled {
            drawn.push(rule.clone());
        }
        drawn.extend(cells(row, &widths, alignments));
    }
    drawn
}

fn rule(widths: &[usize]) -> Line {
    let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    Line::new(&lines.join("─┼─"), DIM)
}

fn cells(row: &[Line], widths: &[usize], alignments: &[Alignment]) -> Vec<Line> {
    let wrapped = widths.iter().enumerate().map(|(column, width)| {
        let cell = row.get(column).cloned().unwrap_or_default();
        cell.wrap(*width)
    });
    let wrapped: Vec<Vec<Line>> = wrapped.collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or_default();
    let mut rows = Vec::new();
    for at in 0..height {
        let mut line = Line::default();
        for (column, (cell, width)) in wrapped.iter().zip(widths).enumerate() {
            if column > 0 {
                line.push(" │ ", DIM);
            }
            let text = cell.get(at).cloned().unwrap_or_default();
            let n_free = width.saturating_sub(text.width());
            let n_before = match alignments.get(column) {
                Some(Alignment::Right) => n_free,
                Some(Alignment::Center) => n_free / 2,
                Some(Alignment::Left | Alignment::None) | None => 0,
            };
            line.push(&" ".repeat(n_before), PLAIN);
            line.append(text);
            if column + 1 < widths.len() {
                line.push(&" ".repeat(n_free - n_before), PLAIN);
            }
        }
        rows.push(line);
    }
    rows
}

/// Returns a row as one field below the other.
fn records(head: &[Line], body: &[Vec<Line>], width: usize) -> Vec<Line> {
    let mut rows = Vec::new();
    for (idx, row) in body.iter().enumerate() {
        if idx > 0 {
            rows.push(Line::default());
        }
        for (name, cell) in head.iter().zip(row) {
            let mut line = name.clone().styled(BOLD).with(": ", PLAIN);
            line.append(cell.clone());
            let indent = Line::new("  ", PLAIN);
            let wrapped = line.wrap(width.saturating_sub(2)).into_iter().enumerate();
            rows.extend(wrapped.map(|(at, line)| if at == 0 { line } else { line.behind(&indent) }));
        }
    }
    rows
}
