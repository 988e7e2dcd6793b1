//! A session as Markdown for code hosts: prompts quoted, answers unchanged, calls folded.

use std::fmt::Write;

use windlass_base::{figures, text};
use windlass_protocol::opencode::{
    message::{Message, MessageWithParts},
    part::{FilePart, Part, PartKind},
    session::{Todo, TodoStatus},
};

use super::{
    Transcript,
    call::{Block, Call, Cut, Progress},
    turn::{self, MAX_DEPTH, Sums, Turn},
};

/// Renders the document.
pub fn document(transcript: &Transcript<'_>) -> String {
    let turns = turn::turns(transcript.messages);
    let mut total = Sums::default();
    turns.iter().for_each(|turn| total.add(&turn.sums(transcript.children)));
    let info = transcript.info;
    let mut document = Document { out: String::new(), transcript };
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(document.out, "# {}\n", inline(&info.title));
    let zone = &transcript.zone;
    let created = format!("{} {}", zone.full(info.time.created), zone.name(info.time.created));
    let _ = writeln!(document.out, "- {} · {}", code(info.id.as_str()), inline(&created));
    let _ = writeln!(document.out, "- {}", code(&info.directory));
    if !total.models.is_empty() {
        let models: Vec<String> = total.models.iter().map(|model| code(model)).collect();
        let _ = writeln!(document.out, "- {}", models.join(", "));
    }
    let line = total.line();
    if !line.is_empty() {
        let _ = writeln!(document.out, "- {line}");
    }
    if !transcript.todos.is_empty() {
        document.out.push_str("\n## Plan\n\n");
        document.todos(transcript.todos);
    }
    if !total.files.is_empty() {
        document.out.push_str("\n## Files changed\n\n");
        for (file, (added, removed)) in &total.files {
            let _ = writeln!(document.out, "- {} +{added} −{removed}", code(file));
        }
    }
    for (number, turn) in turn::numbered(&turns) {
        let number = number.map(|number| format!("{number}. ")).unwrap_or_default();
        let _ = writeln!(document.out, "\n## {number}{}\n", inline(&turn.heading()));
        document.messages(turn, 0);
        let line = turn.sums(transcript.children).line();
        if !line.is_empty() {
            let _ = writeln!(document.out, "<sub>{line}</sub>");
        }
    }
    document.out
}

struct Document<'a> {
    out: String,
    transcript: &'a Transcript<'a>,
}

impl<'a> Document<'a> {
    fn messages(&mut self, turn: &Turn<'a>, depth: usize) {
        for message in turn.prompt.into_iter().chain(turn.rest.iter().copied()) {
            match &message.info {
                Message::User(_) => self.prompt(message),
                Message::Assistant(answer) => {
                    message.parts.iter().for_each(|part| self.part(part, depth));
                    if let Some(error) = &answer.error {
                        let _ = writeln!(self.out, "**Error:** {}\n", inline(error.message()));
                    }
                }
            }
        }
    }

    fn prompt(&mut self, message: &'a MessageWithParts) {
        for part in &message.parts {
            match &part.kind {
                PartKind::Text(text) if text.synthetic == Some(true) || text.text.trim().is_empty() => {}
                PartKind::Text(text) => self.quote(&text.text),
                PartKind::File(file) => self.file(file),
                PartKind::Subtask { description, agent, .. } => {
                    let _ = writeln!(self.out, "> A task for {}: {}\n", code(agent), inline(description));
                }
                PartKind::Compaction { .. } => {
                    self.out.push_str("> The conversation so far was summarised.\n\n");
                }
                PartKind::Tool(_) => self.part(part, 0),
                PartKind::Agent { .. }
                | PartKind::Reasoning(_)
                | PartKind::StepStart { .. }
                | PartKind::StepFinish { .. }
                | PartKind::Snapshot { .. }
                | PartKind::Patch { .. }
                | PartKind::Retry { .. } => {}
            }
        }
    }

    fn part(&mut self, part: &'a Part, depth: usize) {
        match &part.kind {
            PartKind::Text(text) if text.text.trim().is_empty() => {}
            PartKind::Text(text) => {
                let said = text::readable(text.text.trim());
                self.out.push_str(&said);
                self.out.push_str(closing_fence(&said));
                self.out.push_str("\n\n");
            }
            PartKind::Reasoning(reasoning) if reasoning.text.trim().is_empty() => {}
            PartKind::Reasoning(reasoning) => {
                self.out.push_str("<details><summary>Thought</summary>\n\n");
                self.fence("text", &text::readable(reasoning.text.trim()));
                self.out.push_str("</details>\n\n");
            }
            PartKind::Tool(tool) => self.call(&Call::new(tool, &self.transcript.info.directory), depth),
            PartKind::File(file) => self.file(file),
            PartKind::Retry { attempt, error, .. } => {
                let _ = writeln!(self.out, "*Attempt {attempt} failed: {}*\n", inline(&error.message));
            }
            PartKind::Subtask { .. }
            | PartKind::Agent { .. }
            | PartKind::StepStart { .. }
            | PartKind::StepFinish { .. }
            | PartKind::Snapshot { .. }
            | PartKind::Patch { .. }
            | PartKind::Compaction { .. } => {}
        }
    }

    fn call(&mut self, call: &Call<'a>, depth: usize) {
        let sign = match call.progress {
            Progress::Done => "",
            Progress::Failed => "✗ ",
            Progress::Open => "… ",
        };
        let _ = write!(
            self.out,
            "<details><summary>{sign}<b>{}</b> <code>{}</code>",
            html(&text::visible_line(call.tool)),
            html(&call.title)
        );
        if let Some((added, removed)) = call.lines() {
            let _ = write!(self.out, " +{added} −{removed}");
        }
        if let Some(exit) = call.exit {
            let _ = write!(self.out, " exit {exit}");
        }
        if let Some(ms) = call.ms.filter(|ms| *ms >= 100) {
            let _ = write!(self.out, " {}", figures::duration(ms));
        }
        self.out.push_str("</summary>\n\n");
        for block in &call.blocks {
            self.block(block, depth);
        }
        for attachment in call.attachments {
            self.file(&attachment.file);
        }
        self.out.push_str("</details>\n\n");
    }

    fn block(&mut self, block: &Block<'a>, depth: usize) {
        match block {
            Block::Command(command) => self.fence("sh", command),
            Block::Change(change) => {
                let (lines, n_rest) = change.shown();
                let _ = writeln!(self.out, "{}\n", code(change.file));
                let mut patch = lines.join("\n");
                if n_rest > 0 {
                    let _ = write!(patch, "\n… {n_rest} more lines");
                }
                if !patch.is_empty() {
                    self.fence("diff", &text::visible(&patch));
                }
            }
            Block::Input(input) => self.fence("json", input),
            Block::Output(output) | Block::Failure(output) => self.fence("text", &whole(output)),
            Block::Plan(todos) => {
                self.todos(todos);
                self.out.push('\n');
            }
            Block::Task(prompt) => self.quote(prompt),
            Block::Child(id) => {
                let children = self.transcript.children;
                for turn in
                    children.get(id).filter(|_| depth < MAX_DEPTH).into_iter().flat_map(|it| turn::turns(it))
                {
                    self.messages(&Turn { prompt: None, rest: turn.rest }, depth + 1);
                }
            }
            Block::Answer { question, answer } => {
                let _ = writeln!(self.out, "**{}** {}\n", inline(question), inline(answer));
            }
        }
    }

    fn todos(&mut self, todos: &[Todo]) {
        for todo in todos {
            let text = inline(&todo.content);
            let _ = match todo.status {
                TodoStatus::Completed => writeln!(self.out, "- [x] {text}"),
                TodoStatus::InProgress => writeln!(self.out, "- [ ] **{text}**"),
                TodoStatus::Pending => writeln!(self.out, "- [ ] {text}"),
                TodoStatus::Cancelled => writeln!(self.out, "- [ ] ~~{text}~~"),
            };
        }
    }

    fn file(&mut self, file: &FilePart) {
        let name = file.filename.as_deref().unwrap_or(&file.mime);
        let _ = writeln!(self.out, "*Attached: {}*\n", code(name));
    }

    /// Writes a text as a quotation; tags in it become text.
    fn quote(&mut self, said: &str) {
        let said = text::readable(said.trim());
        for line in said.lines() {
            let quoted = format!("> {}", html(line));
            let _ = writeln!(self.out, "{}", quoted.trim_end());
        }
        self.out.push('\n');
    }

    fn fence(&mut self, language: &str, text: &str) {
        let longest =
            text.lines().map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count());
        let fence = "`".repeat(longest.max().unwrap_or_default().max(2) + 1);
        let _ = writeln!(self.out, "{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'));
    }
}

fn whole(cut: &Cut<'_>) -> String {
    match &cut.tail {
        None => cut.head.clone().into_owned(),
        Some((n_lines, tail)) => format!("{}\n… {n_lines} lines not shown …\n{tail}", cut.head),
    }
}

/// Returns the fence that closes a code block which an answer left open, so that the rest of the document is
/// not code.
fn closing_fence(markdown: &str) -> &'static str {
    let mut open: Option<&'static str> = None;
    for line in markdown.lines().map(str::trim_start) {
        let fence = ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence));
        open = match (open, fence) {
            (Some(open), Some(fence)) if open == fence => None,
            (None, fence) => fence,
            (open, _) => open,
        };
    }
    match open {
        Some("```") => "\n```",
        Some(_) => "\n~~~",
        None => "",
    }
}

/// Formats one line of text in which nothing is Markdown or HTML.
fn inline(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut escaped = String::with_capacity(line.len());
    for character in text::readable(&line).chars() {
        if matches!(character, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '|' | '~') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Formats one line of code.
fn code(text: &str) -> String {
    let line = text::visible_line(text);
    let mark = if line.contains('`') { "``" } else { "`" };
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{mark}{space}{}{space}{mark}", line.replace("``", "` `"))
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
