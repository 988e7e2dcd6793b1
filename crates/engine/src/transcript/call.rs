//! A tool call for display: a line that names it, its input and its results.

use std::borrow::Cow;

use serde_json::{Map, Value};
use windlass_base::text::{self, without_escapes};
use windlass_protocol::opencode::{
    id::SessionId,
    part::{Attachment, ToolPart, ToolState},
    session::Todo,
    tool::Subject,
    tool_metadata::{self, Answered, FileDiff, RunningCommand, decode},
};
use windlass_services::tool;

/// Maximum bytes that are shown of an output's beginning, and of its end.
const MAX_HEAD: usize = 10 * 1024;
const MAX_TAIL: usize = 6 * 1024;
/// Maximum bytes of a patch.
const MAX_PATCH: usize = 64 * 1024;
/// Maximum bytes of an input.
const MAX_INPUT: usize = 8 * 1024;
/// Maximum bytes of the line that names a call.
const MAX_TITLE: usize = 300;

/// The state of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The call had not ended when it was stored.
    Open,
    Done,
    Failed,
}

/// A call and its content for display.
pub struct Call<'a> {
    pub tool: &'a str,
    pub title: String,
    pub progress: Progress,
    /// The exit code of a command, if it is not 0.
    pub exit: Option<i64>,
    pub ms: Option<i64>,
    pub blocks: Vec<Block<'a>>,
    pub attachments: &'a [Attachment],
}

/// A piece of a call's input or results.
pub enum Block<'a> {
    Command(Cow<'a, str>),
    Change(Change<'a>),
    Input(String),
    Output(Cut<'a>),
    Failure(Cut<'a>),
    Plan(Vec<Todo>),
    /// The prompt of a subagent.
    Task(&'a str),
    Child(SessionId),
    Answer {
        question: &'a str,
        answer: String,
    },
}

/// A change of a file.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    pub file: &'a str,
    /// A unified diff.
    pub patch: &'a str,
    pub additions: u64,
    pub deletions: u64,
}

/// A text, or its two ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut<'a> {
    pub head: Cow<'a, str>,
    /// The number of lines that were left out, and the text behind them.
    pub tail: Option<(usize, String)>,
}

impl<'a> Call<'a> {
    /// Prepares a call. Paths below the session's directory are shown relative to it.
    pub fn new(part: &'a ToolPart, directory: &str) -> Self {
        let input = part.state.input();
        let (progress, time, metadata) = match &part.state {
            ToolState::Pending { .. } => (Progress::Open, None, None),
            ToolState::Running { metadata, .. } => (Progress::Open, None, metadata.as_ref()),
            ToolState::Completed { time, metadata, .. } => (Progress::Done, Some(time), Some(metadata)),
            ToolState::Error { time, metadata, .. } => (Progress::Failed, Some(time), metadata.as_ref()),
        };
        let command: Option<tool_metadata::Command<'_>> = metadata.and_then(decode);
        let exit = command.and_then(|it| it.exit).filter(|exit| *exit != 0);
        let attachments = match &part.state {
            ToolState::Completed { attachments, .. } => attachments.as_deref().unwrap_or_default(),
            ToolState::Pending { .. } | ToolState::Running { .. } | ToolState::Error { .. } => &[],
        };
        Self {
            tool: &part.tool,
            title: title(part, directory),
            progress,
            exit,
            ms: time.map(|time| (time.end - time.start).max(0)),
            blocks: blocks(part, input, metadata),
            attachments,
        }
    }

    /// Returns the numbers of lines that the call added and removed.
    pub fn lines(&self) -> Option<(u64, u64)> {
        let changes = self.blocks.iter().filter_map(|block| match block {
            Block::Change(change) => Some((change.additions, change.deletions)),
            _other => None,
        });
        changes.reduce(|sum, change| (sum.0 + change.0, sum.1 + change.1))
    }
}

/// Returns the call's title, derived from its input until it ends, then the tool's own.
fn title(part: &ToolPart, directory: &str) -> String {
    let input = part.state.input();
    let subject = tool::look(&part.tool).subject;
    let own = match &part.state {
        ToolState::Completed { title, .. } => title.as_str(),
        ToolState::Running { title, .. } => title.as_deref().unwrap_or_default(),
        ToolState::Pending { .. } | ToolState::Error { .. } => "",
    };
    let asked = input.get("questions").and_then(|it| it.get(0)?.get("question")?.as_str());
    let named = subject.field().and_then(|field| input.get(field)?.as_str());
    let given = named.or(asked).unwrap_or_default();
    // A command is shown as it was run; a path is shorter in the tool's own title.
    let is_as_given = matches!(subject, Subject::Command | Subject::Questions) && !given.is_empty();
    let title = if own.is_empty() || is_as_given { given } else { own };
    let title = if title.is_empty() { first_text(input) } else { title };
    let below = title.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
    let title = below.filter(|rest| !rest.is_empty()).unwrap_or(title);
    let line = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = text::visible_line(&line).into_owned();
    match text::head(&line, MAX_TITLE) {
        head if head.len() < line.len() => format!("{head}…"),
        _whole => line,
    }
}

fn first_text(input: &Value) -> &str {
    let mut fields = input.as_object().into_iter().flat_map(Map::values);
    fields.find_map(Value::as_str).unwrap_or_default()
}

fn blocks<'a>(
    part: &'a ToolPart,
    input: &'a Value,
    metadata: Option<&'a Map<String, Value>>,
) -> Vec<Block<'a>> {
    let mut blocks = Vec::new();
    let field = |key: &str| input.get(key).and_then(Value::as_str);
    let mut shows_output = true;
    match tool::look(&part.tool).subject {
        Subject::Command => blocks.extend(field("command").map(|it| Block::Command(text::visible(it)))),
        Subject::Change | Subject::Patch => {
            blocks.extend(changes(part).into_iter().map(Block::Change));
            shows_output = blocks.is_empty();
            // The changes of a refused call are part of the story.
            if blocks.is_empty() {
                blocks.push(Block::Input(json(input)));
            }
        }
        Subject::Todos => {
            let todos = input.get("todos").and_then(|todos| serde_json::from_value(todos.clone()).ok());
            shows_output = todos.is_none();
            blocks.extend(todos.map(Block::Plan));
        }
        Subject::Task => {
            blocks.extend(field("prompt").map(Block::Task));
            let child = child(part);
            shows_output = child.is_none();
            blocks.extend(child.map(Block::Child));
        }
        Subject::Questions => {
            let answers = answers(input, metadata);
            shows_output = answers.is_empty();
            blocks.extend(answers);
        }
        Subject::File | Subject::Pattern | Subject::Directory | Subject::Url | Subject::Text(_) => {}
        Subject::Resource | Subject::Code | Subject::Calls | Subject::Title | Subject::Arguments => {
            let has_more = input.as_object().is_some_and(|fields| !fields.is_empty());
            blocks.extend(has_more.then(|| Block::Input(json(input))));
        }
    }
    match &part.state {
        ToolState::Completed { output, .. } if shows_output => {
            blocks.extend((!output.trim().is_empty()).then(|| Block::Output(cut(output))));
        }
        ToolState::Running { metadata: Some(metadata), .. } => {
            let running: Option<RunningCommand<'_>> = decode(metadata);
            let output = running.map(|it| it.output).filter(|it| !it.is_empty());
            blocks.extend(output.map(|output| Block::Output(cut(output))));
        }
        ToolState::Error { error, .. } => blocks.push(Block::Failure(cut(error))),
        ToolState::Completed { .. } | ToolState::Running { .. } | ToolState::Pending { .. } => {}
    }
    blocks
}

/// Returns a call's changes of files.
pub fn changes(part: &ToolPart) -> Vec<Change<'_>> {
    let ToolState::Completed { metadata, .. } = &part.state else { return Vec::new() };
    let tool_metadata::Changes { diff, filediff, files } = decode(metadata).unwrap_or_default();
    let several = files.iter().flatten().map(|file| {
        let name = file.relative_path.unwrap_or(file.file_path);
        Change { file: name, patch: file.patch, additions: file.additions, deletions: file.deletions }
    });
    let mut changes: Vec<Change<'_>> = several.collect();
    if changes.is_empty() {
        changes.extend(filediff.map(|FileDiff { file, patch, additions, deletions, .. }| Change {
            file,
            patch,
            additions,
            deletions,
        }));
    }
    if changes.is_empty()
        && let Some(patch) = diff
    {
        let file = part.state.input().get("filePath").and_then(Value::as_str).unwrap_or_default();
        changes.push(counted(file, patch));
    }
    changes
}

fn counted<'a>(file: &'a str, patch: &'a str) -> Change<'a> {
    let count = |sign: char| hunks(patch).filter(|line| line.starts_with(sign)).count() as u64;
    Change { file, patch, additions: count('+'), deletions: count('-') }
}

/// Returns the lines of a patch from its first hunk on.
pub fn hunks(patch: &str) -> impl Iterator<Item = &str> {
    patch.lines().skip_while(|line| !line.starts_with("@@"))
}

impl<'a> Change<'a> {
    /// Returns the lines to show, and the number of the others.
    pub fn shown(&self) -> (Vec<&'a str>, usize) {
        let mut n_bytes = 0;
        let is_shown = |line: &&str| {
            n_bytes += line.len() + 1;
            n_bytes <= MAX_PATCH
        };
        let shown: Vec<&str> = hunks(self.patch).take_while(is_shown).collect();
        let n_rest = hunks(self.patch).count() - shown.len();
        (shown, n_rest)
    }
}

/// Returns the session of the subagent that a call started.
pub fn child(part: &ToolPart) -> Option<SessionId> {
    let metadata = match &part.state {
        ToolState::Completed { metadata, .. } => metadata,
        ToolState::Running { metadata, .. } | ToolState::Error { metadata, .. } => metadata.as_ref()?,
        ToolState::Pending { .. } => return None,
    };
    let task: tool_metadata::Task<'_> = decode(metadata)?;
    SessionId::parse(task.session_id).ok()
}

fn answers<'a>(input: &'a Value, metadata: Option<&'a Map<String, Value>>) -> Vec<Block<'a>> {
    let questions = input.get("questions").and_then(Value::as_array).into_iter().flatten();
    let given: Option<Answered<'_>> = metadata.and_then(decode);
    let answers = questions.enumerate().filter_map(|(idx, question)| {
        let chosen = given.as_ref().and_then(|given| given.answers.get(idx));
        let answer = chosen.map(|chosen| chosen.join(", ")).unwrap_or_default();
        Some(Block::Answer { question: question.get("question")?.as_str()?, answer })
    });
    answers.collect()
}

fn json(input: &Value) -> String {
    let json = text::visible_json(&format!("{input:#}"));
    match text::head(&json, MAX_INPUT) {
        head if head.len() < json.len() => format!("{head}\n…"),
        _whole => json,
    }
}

/// Returns an output as a terminal would show it, without its middle if it is long.
pub fn cut(output: &str) -> Cut<'_> {
    let output = match without_escapes(output) {
        Cow::Borrowed(output) => text::visible(output),
        Cow::Owned(output) => Cow::Owned(text::visible(&output).into_owned()),
    };
    if output.len() <= MAX_HEAD + MAX_TAIL {
        return Cut { head: output, tail: None };
    }
    let head = text::head(&output, MAX_HEAD);
    let head = head.rfind('\n').map_or(head, |end| &head[..end]);
    let tail = text::tail(&output, MAX_TAIL);
    let tail = tail.split_once('\n').map_or(tail, |(_, whole_lines)| whole_lines);
    let left_out = &output[head.len()..output.len() - tail.len()];
    let n_left_out = left_out.strip_prefix('\n').unwrap_or(left_out).lines().count();
    Cut { head: Cow::Owned(head.to_owned()), tail: Some((n_left_out, tail.to_owned())) }
}
