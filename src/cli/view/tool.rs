//! A tool call as rows: a mark, its verb and subject, and its result.

use std::{path::Path, sync::Arc};

use anstyle::Style;
use serde_json::{Map, Value};
use windlass_base::figures;
use windlass_engine as engine;
use windlass_protocol::opencode::{
    part::{ToolPart, ToolState},
    tool::{self, Subject},
    tool_metadata::{self, Answered, Counts, RunningCommand, decode},
};

use super::{
    ansi,
    line::{BOLD, CYAN, DIM, GREEN, Line, PLAIN, RED},
    look::{Draw, Look},
};

pub mod diff;
pub mod plan;
pub mod reason;

/// Printed lines shown of a command while it runs, once it ended well, and once it failed.
const LINES_RUNNING: usize = 5;
const LINES_ENDED: usize = 8;
const LINES_FAILED: usize = 30;
/// Rows of the command itself.
const ROWS_COMMAND: usize = 6;
/// Rows of why a call failed.
const ROWS_ERROR: usize = 6;
/// Columns of arguments that no tool of ours knows.
const COLUMNS_ARGUMENTS: usize = 200;

/// Draws a call that has ended.
pub fn ended(tool: &ToolPart, draw: &Draw<'_>) -> Vec<Line> {
    let look = engine::tool_look(&tool.tool);
    match &tool.state {
        ToolState::Completed { input, output, metadata, time, .. } => match look.subject {
            Subject::Command => command_ended(input, output, metadata, time.end - time.start, draw),
            Subject::Todos => plan::listed(&plan::of(input, metadata), draw),
            Subject::Change | Subject::Patch => {
                let verb = if look.subject == Subject::Change { look.verb } else { diff::VERB };
                let changes = diff::changes(metadata);
                if changes.is_empty() {
                    return one_line(tool, draw);
                }
                let rows = changes.iter().flat_map(|change| diff::drawn(change, verb, diff::MAX_LINES, draw));
                rows.collect()
            }
            _other => one_line(tool, draw),
        },
        ToolState::Error { error, metadata, .. } => {
            let mut rows = failed_header(tool, draw);
            let printed: Option<RunningCommand<'_>> = metadata.as_ref().and_then(decode);
            if let Some(printed) = printed.filter(|_| look.subject == Subject::Command) {
                rows.extend(body(printed.output, LINES_FAILED, draw));
            }
            rows.extend(failure(&reason::of(error, metadata.as_ref()), draw));
            rows
        }
        ToolState::Pending { .. } | ToolState::Running { .. } => one_line(tool, draw),
    }
}

/// Draws a running call: the same with a moving mark, and its last output.
pub fn running(tool: &ToolPart, mark: &str, draw: &Draw<'_>) -> Vec<Line> {
    let mark = Line::new(mark, CYAN).with(" ", PLAIN);
    let mut rows = header(mark, subject(tool, draw.look), draw.width);
    rows.truncate(ROWS_COMMAND);
    if let ToolState::Running { metadata: Some(metadata), .. } = &tool.state
        && let Some(RunningCommand { output: printed, .. }) = decode(metadata)
        && engine::tool_look(&tool.tool).subject == Subject::Command
    {
        rows.extend(body(printed, LINES_RUNNING, draw));
    }
    rows
}

/// Returns the subject of a call, for a line of text.
pub fn about(tool: &ToolPart, look: &Look) -> String {
    let input = tool.state.input();
    let fields = || input.as_object().into_iter().flat_map(|fields| fields.values());
    let own = match engine::tool_look(&tool.tool).subject {
        Subject::File | Subject::Change => text_of(input, "filePath").map(|path| short(path, look)),
        Subject::Directory => Some(short(text_of(input, "path").unwrap_or("."), look)),
        Subject::Pattern => text_of(input, "pattern").map(str::to_owned),
        Subject::Questions => {
            let first = input.get("questions").and_then(|questions| questions.get(0));
            first.and_then(|question| text_of(question, "question")).map(str::to_owned)
        }
        _other => None,
    };
    own.unwrap_or_else(|| match &tool.state {
        ToolState::Completed { title, .. } => title.clone(),
        // The first text of the input is the call's subject: a command, a path, a pattern.
        ToolState::Running { .. } | ToolState::Pending { .. } | ToolState::Error { .. } => {
            fields().find_map(Value::as_str).unwrap_or_default().to_owned()
        }
    })
}

/// Returns a few words about a call for the status line.
pub fn brief(tool: &ToolPart, look: &Look) -> String {
    subject(tool, look).text()
}

fn one_line(tool: &ToolPart, draw: &Draw<'_>) -> Vec<Line> {
    let mut line = subject(tool, draw.look);
    if let Some(note) = found(tool) {
        line.push(&format!("  {note}"), DIM);
    }
    header(mark(DIM), line, draw.width)
}

fn failed_header(tool: &ToolPart, draw: &Draw<'_>) -> Vec<Line> {
    header(Line::new("✗ ", RED), subject(tool, draw.look), draw.width)
}

fn mark(style: Style) -> Line {
    Line::new("• ", style)
}

/// Draws the first rows of a call, the later ones behind the mark.
pub fn header(mark: Line, line: Line, width: usize) -> Vec<Line> {
    let indent = Line::new("  ", PLAIN);
    let rows = line.wrap(width.saturating_sub(mark.width()));
    let rows = rows.into_iter().enumerate();
    rows.map(|(idx, row)| row.behind(if idx == 0 { &mark } else { &indent })).collect()
}

fn command_ended(
    input: &Value,
    output: &str,
    metadata: &Map<String, Value>,
    took: i64,
    draw: &Draw<'_>,
) -> Vec<Line> {
    let command_end: Option<tool_metadata::Command<'_>> = decode(metadata);
    let command_end = command_end.unwrap_or_default();
    let (end, has_failed) = match (command_end.exit, command_end.signal) {
        (Some(code), _) => (format!("exit {code}"), code != 0),
        (None, Some(signal)) => (format!("ended by {signal}"), true),
        (None, None) => ("ended".to_owned(), true),
    };
    let (mark, end_style) = if has_failed { (Line::new("✗ ", RED), RED) } else { (mark(GREEN), DIM) };
    let end = Line::new(&end, end_style).with(&format!(" · {}", figures::duration(took)), DIM);
    let mut rows = header(mark, command(input), draw.width);
    if rows.len() > ROWS_COMMAND {
        let n_hidden = rows.len() - (ROWS_COMMAND - 1);
        rows.truncate(ROWS_COMMAND - 1);
        rows.push(Line::new(&format!("  … {} more", figures::counted(n_hidden, "row")), DIM));
    }
    let is_beside = rows.len() == 1 && rows.iter().all(|row| row.width() + 2 + end.width() <= draw.width);
    if let Some(row) = rows.last_mut().filter(|_| is_beside) {
        row.push("  ", PLAIN);
        row.append(end.clone());
    }
    rows.extend(body(
        command_end.output.unwrap_or(output),
        if has_failed { LINES_FAILED } else { LINES_ENDED },
        draw,
    ));
    if !is_beside {
        rows.push(end.behind(&Line::new("  ", PLAIN)));
    }
    rows
}

/// Draws the last lines of a command's output.
fn body(printed: &str, n_lines: usize, draw: &Draw<'_>) -> Vec<Line> {
    let bar = Line::new("  │ ", DIM);
    let printed = printed.trim_end();
    if printed.trim().is_empty() {
        return Vec::new();
    }
    let lines: Vec<&str> = printed.lines().collect();
    let n_hidden = lines.len().saturating_sub(n_lines);
    let mut rows = Vec::new();
    if n_hidden > 0 {
        rows.push(Line::new(&format!("… {} above", figures::counted(n_hidden, "line")), DIM).behind(&bar));
    }
    let width = draw.width.saturating_sub(bar.width()).max(8);
    for text in lines.iter().skip(n_hidden) {
        // One endless line must not push out all others.
        let folded = ansi::line(text).fold(width);
        let n_folded = folded.len();
        rows.extend(folded.into_iter().take(3).map(|row| row.behind(&bar)));
        if n_folded > 3 {
            rows.push(Line::new("…", DIM).behind(&bar));
        }
    }
    rows
}

/// Draws the reason that a call failed.
fn failure(error: &str, draw: &Draw<'_>) -> Vec<Line> {
    let indent = Line::new("  ", PLAIN);
    let lines = error.trim().lines().filter(|line| !line.trim().is_empty());
    let rows = lines.flat_map(|line| Line::new(line, RED).wrap(draw.width.saturating_sub(2)));
    let mut rows: Vec<Line> = rows.map(|row| row.behind(&indent)).collect();
    if rows.len() > ROWS_ERROR {
        rows.truncate(ROWS_ERROR);
        rows.push(Line::new("  …", DIM));
    }
    rows
}

/// Returns the command as it was given: `$ cargo test`.
pub fn command(input: &Value) -> Line {
    let text = text_of(input, "command").unwrap_or_default();
    let mut lines = text.trim_end().lines();
    let mut line = Line::new("$ ", DIM).with(lines.next().unwrap_or_default(), BOLD);
    for more in lines {
        line.push(" ⏎ ", DIM);
        line.push(more, BOLD);
    }
    line
}

/// Returns the action and the subject of a call.
fn subject(tool: &ToolPart, look: &Look) -> Line {
    let input = tool.state.input();
    let title = match &tool.state {
        ToolState::Completed { title, .. } => Some(title.as_str()),
        ToolState::Running { title, .. } => title.as_deref(),
        ToolState::Pending { .. } | ToolState::Error { .. } => None,
    };
    let text = |key: &str| text_of(input, key);
    let tool::Look { verb: word, subject, .. } = engine::tool_look(&tool.tool);
    let verb = || Line::new(word, BOLD).with(" ", PLAIN);
    let about = |key: &str| verb().with(text(key).unwrap_or_default(), PLAIN);
    match subject {
        Subject::Command => command(input),
        Subject::File => with_path(verb(), text("filePath"), look).with(&range(input), DIM),
        Subject::Change => with_path(verb(), text("filePath"), look),
        Subject::Patch => verb().with(title.unwrap_or("files"), PLAIN),
        Subject::Directory => with_path(verb(), text("path").or(Some(".")), look),
        Subject::Pattern => within(about("pattern"), input, look),
        Subject::Url => {
            let url = text("url").unwrap_or_default();
            let link = url.starts_with("http").then(|| address(url));
            let mut line = verb();
            line.push_link(url, PLAIN, link);
            line
        }
        Subject::Text(key) => about(key),
        Subject::Task => {
            let agent = text("subagent_type").map(|agent| format!(" (@{agent})"));
            about("description").with(&agent.unwrap_or_default(), DIM)
        }
        Subject::Todos => Line::new(word, BOLD),
        Subject::Questions => verb().with(title.unwrap_or("the user"), PLAIN),
        Subject::Calls | Subject::Code | Subject::Title => match title {
            Some(title) => Line::new(title, PLAIN),
            None => Line::new(&tool.tool, BOLD),
        },
        Subject::Resource | Subject::Arguments => {
            Line::new(&tool.tool, BOLD).with(" ", PLAIN).with(&arguments(input), DIM)
        }
    }
}

/// Returns the result of a search or a question in a few words.
fn found(tool: &ToolPart) -> Option<String> {
    let ToolState::Completed { metadata, .. } = &tool.state else { return None };
    match engine::tool_look(&tool.tool).subject {
        Subject::Pattern | Subject::Directory => {
            let counted = |count: Option<u64>, noun| Some(figures::counted(count?.try_into().ok()?, noun));
            let found: Counts = decode(metadata)?;
            counted(found.matches, "match").or_else(|| counted(found.count, "file"))
        }
        Subject::Questions => {
            let Answered { answers } = decode(metadata)?;
            Some(answers.concat().join(", "))
        }
        _other => None,
    }
}

/// Returns `:20-40` for a part of a file.
fn range(input: &Value) -> String {
    let number = |key: &str| input.get(key).and_then(Value::as_u64);
    match (number("offset"), number("limit")) {
        (None, None) | (Some(0), None) => String::new(),
        (Some(first), None) => format!(":{first}-"),
        (first, Some(limit)) => {
            let first = first.unwrap_or(1).max(1);
            format!(":{first}-{}", first.saturating_add(limit).saturating_sub(1))
        }
    }
}

/// Adds the place of a search: `in src, *.rs`.
fn within(mut line: Line, input: &Value, look: &Look) -> Line {
    if let Some(path) = text_of(input, "path").filter(|path| !path.is_empty()) {
        line.push(" in ", DIM);
        line = with_path(line, Some(path), look);
    }
    match text_of(input, "include") {
        Some(include) => line.with(&format!(", {include}"), DIM),
        None => line,
    }
}

/// Adds a path, as short as possible, with a link to its file.
pub fn with_path(mut line: Line, path: Option<&str>, look: &Look) -> Line {
    let Some(path) = path else { return line };
    line.push_link(&short(path, look), PLAIN, file_link(&look.directory.join(path), look));
    line
}

/// Returns a path below the session's directory relative to it.
fn short(path: &str, look: &Look) -> String {
    let absolute = look.directory.join(path);
    let shown = absolute.strip_prefix(&look.directory).unwrap_or(&absolute);
    let shown = if shown.as_os_str().is_empty() { Path::new(".") } else { shown };
    shown.to_string_lossy().into_owned()
}

/// Returns the target of a click on a file.
pub fn file_link(path: &Path, look: &Look) -> Option<Arc<str>> {
    let host = look.links.as_deref()?;
    let mut url = reqwest::Url::from_file_path(path).ok()?;
    // A machine with a name that cannot stand in an address is left out of it.
    let _ = url.set_host(Some(host));
    Some(url.as_str().into())
}

/// Returns an address without characters that would end its escape sequence.
pub fn address(url: &str) -> Arc<str> {
    let is_safe = |char: &char| !char.is_control() && !char.is_whitespace();
    url.chars().filter(is_safe).collect::<String>().into()
}

fn text_of<'a>(input: &'a Value, key: &str) -> Option<&'a str> {
    input.get(key).and_then(Value::as_str)
}

/// Returns the arguments of a tool that is not ours: its only text, or all of them as JSON.
fn arguments(input: &Value) -> String {
    let fields = input.as_object();
    let text = match fields.map(|fields| fields.values().collect::<Vec<_>>()).as_deref() {
        None | Some([]) => String::new(),
        Some([Value::String(text)]) => text.clone(),
        Some(_) => input.to_string(),
    };
    Line::new(&text, PLAIN).cut(COLUMNS_ARGUMENTS).text()
}
