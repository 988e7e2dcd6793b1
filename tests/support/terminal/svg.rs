//! A terminal's screen as an SVG picture: every run of cells in its colours, in its place in any font.

use std::fmt::Write;

use super::screen::Cell;

/// Sizes in pixels: of a cell, of its letters, and of the margin.
const CELL: (f64, f64) = (8.4, 19.0);
const LETTERS: f64 = 14.0;
const MARGIN: f64 = 20.0;
/// Height in pixels of the bar at the top of the window.
const BAR: f64 = 30.0;
const PAPER: &str = "#12161d";
const INK: &str = "#d7dde5";
const FONTS: &str = "'JetBrains Mono','Cascadia Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace";

/// The colours of a terminal by their names.
const COLORS: [(&str, &str); 16] = [
    ("black", "#2b313b"),
    ("red", "#f2777a"),
    ("green", "#8ccf7e"),
    ("yellow", "#e5c76b"),
    ("blue", "#7aa8f2"),
    ("magenta", "#c792ea"),
    ("cyan", "#6cc7d1"),
    ("white", "#d7dde5"),
    ("brightblack", "#7d8795"),
    ("brightred", "#ff9a9c"),
    ("brightgreen", "#a9e59c"),
    ("brightyellow", "#f4dc8e"),
    ("brightblue", "#9dc1ff"),
    ("brightmagenta", "#dbb1f5"),
    ("brightcyan", "#92dfe8"),
    ("brightwhite", "#ffffff"),
];

/// Draws rows of cells in a window.
pub fn of(rows: &[Vec<Cell>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = columns as f64 * CELL.0 + 2.0 * MARGIN;
    let height = rows.len() as f64 * CELL.1 + BAR + 1.5 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"{FONTS}\" font-size=\"{LETTERS}\" fill=\"{INK}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for (idx, color) in ["#f2777a", "#e5c76b", "#8ccf7e"].into_iter().enumerate() {
        let x = MARGIN + idx as f64 * 18.0;
        writeln!(svg, "<circle cx=\"{x}\" cy=\"{}\" r=\"5\" fill=\"{color}\"/>", BAR / 2.0 + 2.0).unwrap();
    }
    for (idx, row) in rows.iter().enumerate() {
        push_row(&mut svg, row, BAR + MARGIN / 2.0 + idx as f64 * CELL.1);
    }
    svg + "</svg>\n"
}

fn push_row(svg: &mut String, row: &[Cell], top: f64) {
    let mut column = 0;
    for run in row.chunk_by(|one, other| one.style == other.style) {
        let (text, n_cells) = (run.iter().map(|cell| cell.text.as_str()).collect::<String>(), run.len());
        let (left, width) = (MARGIN + column as f64 * CELL.0, n_cells as f64 * CELL.0);
        column += n_cells;
        let paper = run.first().and_then(|cell| cell.style.split_once("on ")).map(|(_, name)| color(name));
        if let Some(paper) = paper {
            writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{paper}\"/>",
                CELL.1
            )
            .unwrap();
        }
        let shown = text.trim_end();
        let blanks = text.chars().count() - shown.chars().count();
        let n_shown = n_cells - blanks;
        if shown.is_empty() {
            continue;
        }
        let length = n_shown as f64 * CELL.0;
        let escaped = shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        writeln!(
            svg,
            "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
             xml:space=\"preserve\"{}>{escaped}</text>",
            top + LETTERS,
            attributes(run.first().map_or("", |cell| &cell.style))
        )
        .unwrap();
    }
}

/// Converts a style in words, such as `bold green on black`, to attributes.
fn attributes(style: &str) -> String {
    let ink = style.split_once("on ").map_or(style, |(ink, _)| ink);
    let attribute = |word: &str| match word {
        "bold" => " font-weight=\"bold\"".to_owned(),
        "dim" => " opacity=\"0.6\"".to_owned(),
        "italic" => " font-style=\"italic\"".to_owned(),
        "underline" => " text-decoration=\"underline\"".to_owned(),
        "strike" => " text-decoration=\"line-through\"".to_owned(),
        "inverse" | "hidden" => String::new(),
        name => format!(" fill=\"{}\"", color(name)),
    };
    ink.split_whitespace().map(attribute).collect()
}

fn color(name: &str) -> String {
    if name.starts_with('#') {
        return name.to_owned();
    }
    let index = name.strip_prefix("color").and_then(|index| index.parse::<usize>().ok());
    if let Some(index) = index {
        return indexed(index);
    }
    let known = COLORS.iter().find(|(known, _)| *known == name);
    known.map_or(INK, |(_, color)| color).to_owned()
}

/// Returns one of the 256 colours of xterm: sixteen names, a cube, and greys.
fn indexed(index: usize) -> String {
    let step = |level: usize| if level == 0 { 0 } else { 55 + 40 * level };
    match index {
        0..16 => COLORS[index].1.to_owned(),
        16..232 => {
            let cube = index - 16;
            format!("#{:02x}{:02x}{:02x}", step(cube / 36), step(cube / 6 % 6), step(cube % 6))
        }
        _ => {
            let grey = 8 + 10 * (index - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
    }
}
