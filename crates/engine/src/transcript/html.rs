//! A session as one self-contained HTML page: no script, no network, every field escaped.

use std::{collections::BTreeMap, fmt::Write};

use windlass_base::{clock, figures, text};
use windlass_protocol::opencode::{
    message::{Message, MessageWithParts},
    part::{Part, PartKind},
    session::{Todo, TodoStatus},
};

use super::{
    Transcript,
    call::{Block, Call, Change, Cut, Progress},
    turn::{self, MAX_DEPTH, Sums, Turn},
};

mod file;
mod prose;

/// The style of the page.
pub const STYLE: &str = include_str!("html/page.css");
/// Hash of [`STYLE`], without which the page's own policy refuses it.
const STYLE_HASH: &str = "sha256-TOfmH9RqH2Pj1qSiT6iPQpbmXUwJg/nk8Q3G0r/837k=";
/// Maximum lines of a diff that is shown open; longer ones are folded.
const MAX_OPEN_DIFF: usize = 40;

/// Seconds after which a page of a session at work is asked for again.
const REFRESH: u32 = 5;

/// Renders the page.
pub fn page(transcript: &Transcript<'_>) -> String {
    render(transcript, false)
}

/// Renders the page of a session at work, which its readers' browsers ask for again.
pub fn live_page(transcript: &Transcript<'_>) -> String {
    render(transcript, true)
}

fn render(transcript: &Transcript<'_>, is_live: bool) -> String {
    let turns = turn::turns(transcript.messages);
    let sums: Vec<Sums> = turns.iter().map(|turn| turn.sums(transcript.children)).collect();
    let mut total = Sums::default();
    sums.iter().for_each(|sums| total.add(sums));
    let mut page = Page { out: String::with_capacity(64 * 1024), transcript };
    page.head(is_live);
    page.header(&turns, &total);
    page.out.push_str("<div class=\"columns\">\n");
    if turns.len() > 1 {
        page.contents(&turns);
    }
    page.out.push_str("<main id=\"main\">\n");
    page.plan(transcript.todos);
    page.files(&total.files);
    for ((number, turn), sums) in turn::numbered(&turns).zip(&sums) {
        page.turn(number.unwrap_or_default(), turn, sums);
    }
    if turns.is_empty() {
        page.out.push_str("<p class=\"empty\">Nothing has been said in this session.</p>\n");
    }
    page.out.push_str("</main>\n</div>\n<footer class=\"page\">Written by windlass ");
    page.text(env!("CARGO_PKG_VERSION"));
    page.out.push_str("</footer>\n</body>\n</html>\n");
    page.out
}

/// The page under construction.
struct Page<'a> {
    out: String,
    transcript: &'a Transcript<'a>,
}

impl<'a> Page<'a> {
    fn head(&mut self, is_live: bool) {
        self.out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            self.out,
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{STYLE_HASH}'; \
             img-src data:; base-uri 'none'; form-action 'none'\">"
        );
        if is_live {
            let _ = writeln!(self.out, "<meta http-equiv=\"refresh\" content=\"{REFRESH}\">");
        }
        self.out.push_str(
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>",
        );
        self.text(&self.transcript.info.title);
        let _ = writeln!(self.out, "</title>\n<style>{STYLE}</style>\n</head>\n<body>");
        self.out.push_str("<a class=\"skip\" href=\"#main\">Skip to the conversation</a>\n");
    }

    fn header(&mut self, turns: &[Turn<'_>], total: &Sums) {
        let info = self.transcript.info;
        self.out.push_str("<header class=\"page\">\n<h1 dir=\"auto\">");
        self.text(&info.title);
        self.out.push_str("</h1>\n<p class=\"where\">");
        self.time(info.time.created, &self.transcript.zone.full(info.time.created));
        self.out.push(' ');
        self.text(&self.transcript.zone.name(info.time.created));
        self.out.push_str(" · <code>");
        self.text(&info.directory);
        self.out.push_str("</code>");
        for model in &total.models {
            self.out.push_str(" · ");
            self.text(model);
        }
        self.out.push_str("</p>\n<dl class=\"figures\">\n");
        let n_prompts = turns.iter().filter(|turn| turn.prompt.is_some()).count();
        let (added, removed) = total.lines();
        self.figure("Prompts", &n_prompts.to_string(), "");
        let failed = match total.n_failed {
            0 => String::new(),
            n_failed => format!("{n_failed} failed"),
        };
        self.figure("Calls", &total.n_calls.to_string(), &failed);
        if !total.files.is_empty() {
            let lines = format!("+{} −{}", figures::short(added), figures::short(removed));
            self.figure("Files changed", &total.files.len().to_string(), &lines);
        }
        let tokens = &total.tokens;
        let cached = match tokens.cache.read {
            0 => String::new(),
            read => format!("{} from cache", figures::short(read)),
        };
        self.figure("Tokens", &figures::short(total.n_tokens()), &cached);
        self.figure("Cost", &figures::dollars(total.cost), "");
        self.figure("Time", &figures::duration(total.ms), "");
        self.out.push_str("</dl>\n</header>\n");
    }

    fn figure(&mut self, name: &str, value: &str, more: &str) {
        let _ = write!(self.out, "<div><dt>{name}</dt><dd>");
        self.text(value);
        if !more.is_empty() {
            self.out.push_str(" <small>");
            self.text(more);
            self.out.push_str("</small>");
        }
        self.out.push_str("</dd></div>\n");
    }

    fn contents(&mut self, turns: &[Turn<'_>]) {
        self.out.push_str("<nav aria-label=\"Prompts\"><h2>Prompts</h2>\n<ol tabindex=\"0\">\n");
        for (number, turn) in turn::numbered(turns) {
            let Some(number) = number else { continue };
            let _ = write!(self.out, "<li><a href=\"#t{number}\"><span dir=\"auto\">");
            self.text(&turn.heading());
            self.out.push_str("</span></a></li>\n");
        }
        self.out.push_str("</ol></nav>\n");
    }

    fn plan(&mut self, todos: &[Todo]) {
        if todos.is_empty() {
            return;
        }
        let n_done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
        let _ = writeln!(
            self.out,
            "<section class=\"card\" aria-labelledby=\"plan\"><h2 id=\"plan\">Plan <small>{n_done} of {} done</small></h2>",
            todos.len()
        );
        self.todos(todos);
        self.out.push_str("</section>\n");
    }

    fn todos(&mut self, todos: &[Todo]) {
        self.out.push_str("<ul class=\"plan\">\n");
        for todo in todos {
            let (class, sign, name) = match todo.status {
                TodoStatus::Completed => ("done", "✓", "done"),
                TodoStatus::InProgress => ("now", "▸", "in progress"),
                TodoStatus::Pending => ("open", "○", "to do"),
                TodoStatus::Cancelled => ("dropped", "✗", "dropped"),
            };
            let _ = write!(
                self.out,
                "<li class=\"{class}\"><span role=\"img\" aria-label=\"{name}\">{sign}</span> <span dir=\"auto\">"
            );
            self.text(&todo.content);
            self.out.push_str("</span></li>\n");
        }
        self.out.push_str("</ul>\n");
    }

    fn files(&mut self, files: &BTreeMap<String, (u64, u64)>) {
        if files.is_empty() {
            return;
        }
        self.out.push_str(
            "<section class=\"card\" aria-labelledby=\"files\"><h2 id=\"files\">Files changed</h2>\n<ul class=\"files\">\n",
        );
        for (file, (added, removed)) in files {
            self.out.push_str("<li><code>");
            self.line(file);
            self.out.push_str("</code>");
            self.lines(*added, *removed);
            self.out.push_str("</li>\n");
        }
        self.out.push_str("</ul></section>\n");
    }

    fn lines(&mut self, added: u64, removed: u64) {
        let _ = write!(
            self.out,
            " <span class=\"lines\"><span class=\"add\">+{added}</span> <span class=\"del\">−{removed}</span></span>"
        );
    }

    fn turn(&mut self, number: usize, turn: &Turn<'a>, sums: &Sums) {
        let _ = write!(
            self.out,
            "<article class=\"turn\" id=\"t{number}\" aria-labelledby=\"h{number}\">\n<h2 class=\"number\" id=\"h{number}\">\
             <a href=\"#t{number}\">{number}</a><span class=\"hidden\"> "
        );
        self.text(&turn.heading());
        self.out.push_str("</span>");
        if let Some(start) = turn.start() {
            self.out.push(' ');
            self.time(start, &self.transcript.zone.time(start));
        }
        self.out.push_str("</h2>\n");
        self.messages(turn, 0);
        let line = sums.line();
        let names: Vec<&str> = sums.agents.iter().chain(&sums.models).map(String::as_str).collect();
        if !line.is_empty() || !names.is_empty() {
            self.out.push_str("<footer>");
            self.text(
                &names
                    .into_iter()
                    .chain([line.as_str()])
                    .filter(|it| !it.is_empty())
                    .collect::<Vec<_>>()
                    .join(" · "),
            );
            self.out.push_str("</footer>\n");
        }
        self.out.push_str("</article>\n");
    }

    fn messages(&mut self, turn: &Turn<'a>, depth: usize) {
        for message in turn.prompt.into_iter().chain(turn.rest.iter().copied()) {
            match &message.info {
                Message::User(_) => self.prompt(message),
                Message::Assistant(_) => self.answer(message, depth),
            }
        }
    }

    fn prompt(&mut self, message: &'a MessageWithParts) {
        self.out.push_str("<div class=\"prompt\">\n");
        for part in &message.parts {
            match &part.kind {
                PartKind::Text(text) if text.text.trim().is_empty() => {}
                PartKind::Text(text) if text.synthetic == Some(true) => {
                    self.out.push_str("<details class=\"aside\"><summary>Added for the model</summary>");
                    self.block("pre", &text.text);
                    self.out.push_str("</details>\n");
                }
                PartKind::Text(text) => {
                    self.out.push_str("<p class=\"said\" dir=\"auto\">");
                    self.prose_text(text.text.trim_end());
                    self.out.push_str("</p>\n");
                }
                PartKind::File(file) => file::push(&mut self.out, file),
                PartKind::Subtask { description, agent, .. } => {
                    self.out.push_str("<p class=\"note\">A task for the agent ");
                    self.text(agent);
                    self.out.push_str(": ");
                    self.text(description);
                    self.out.push_str("</p>\n");
                }
                PartKind::Compaction { .. } => {
                    self.out.push_str("<p class=\"note\">The conversation so far was summarised.</p>\n");
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
        self.out.push_str("</div>\n");
    }

    fn answer(&mut self, message: &'a MessageWithParts, depth: usize) {
        for part in &message.parts {
            self.part(part, depth);
        }
        let Message::Assistant(answer) = &message.info else { return };
        if let Some(error) = &answer.error {
            self.out.push_str("<p class=\"error\" dir=\"auto\"><strong>Error:</strong> ");
            self.prose_text(error.message());
            self.out.push_str("</p>\n");
        } else if answer.finish.as_deref() == Some("length") {
            self.out.push_str("<p class=\"note\">The answer was cut at the model's output limit.</p>\n");
        }
    }

    fn part(&mut self, part: &'a Part, depth: usize) {
        match &part.kind {
            PartKind::Text(text) if text.text.trim().is_empty() => {}
            PartKind::Text(text) => {
                self.out.push_str("<div class=\"prose\" dir=\"auto\">");
                prose::push(&mut self.out, &text.text);
                self.out.push_str("</div>\n");
            }
            PartKind::Reasoning(reasoning) if reasoning.text.trim().is_empty() => {}
            PartKind::Reasoning(reasoning) => {
                self.out.push_str("<details class=\"thought\"><summary>Thought");
                if let Some(end) = reasoning.time.end.filter(|end| *end > reasoning.time.start) {
                    let _ = write!(self.out, " for {}", figures::duration(end - reasoning.time.start));
                }
                self.out.push_str("</summary><div class=\"prose\" dir=\"auto\">");
                prose::push(&mut self.out, &reasoning.text);
                self.out.push_str("</div></details>\n");
            }
            PartKind::Tool(tool) => self.call(&Call::new(tool, &self.transcript.info.directory), depth),
            PartKind::File(file) => file::push(&mut self.out, file),
            PartKind::Retry { attempt, error, .. } => {
                let _ = write!(self.out, "<p class=\"note\">Attempt {attempt} failed: ");
                self.prose_text(&error.message);
                self.out.push_str("</p>\n");
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
        let is_short = |change: &Change<'_>| change.shown().0.len() <= MAX_OPEN_DIFF;
        let is_open = call.progress == Progress::Failed
            || call.blocks.iter().any(|block| match block {
                Block::Change(change) => is_short(change),
                Block::Answer { .. } => true,
                _other => false,
            });
        let (class, sign, name) = match (call.progress, call.exit) {
            (Progress::Done, None) => ("done", "✓", "done"),
            (Progress::Done, Some(_)) => ("failed", "!", "ended with an exit code"),
            (Progress::Failed, _) => ("failed", "✗", "failed"),
            (Progress::Open, _) => ("open", "…", "not ended"),
        };
        let _ = write!(
            self.out,
            "<details class=\"call {class}\"{}><summary><span class=\"sign\" role=\"img\" aria-label=\"{name}\">{sign}</span> \
             <span class=\"tool\">",
            if is_open { " open" } else { "" }
        );
        self.line(call.tool);
        self.out.push_str("</span> <code>");
        self.line(&call.title);
        self.out.push_str("</code>");
        if let Some((added, removed)) = call.lines() {
            self.lines(added, removed);
        }
        if let Some(exit) = call.exit {
            let _ = write!(self.out, " <span class=\"exit\">exit {exit}</span>");
        }
        if let Some(ms) = call.ms.filter(|ms| *ms >= 100) {
            let _ = write!(self.out, " <span class=\"ms\">{}</span>", figures::duration(ms));
        }
        self.out.push_str("</summary>\n<div class=\"body\">\n");
        for block in &call.blocks {
            // The only file of a call is named in the line above.
            let is_named = |change: &Change<'_>| change.file != call.title || call.blocks.len() > 1;
            match block {
                Block::Change(change) => self.change(change, is_named(change)),
                block => self.call_block(block, depth),
            }
        }
        for attachment in call.attachments {
            file::push(&mut self.out, &attachment.file);
        }
        self.out.push_str("</div></details>\n");
    }

    fn call_block(&mut self, block: &Block<'a>, depth: usize) {
        match block {
            Block::Command(command) => {
                self.out.push_str("<pre class=\"command\" tabindex=\"0\"><code>");
                escape(&mut self.out, command);
                self.out.push_str("</code></pre>\n");
            }
            Block::Change(change) => self.change(change, true),
            Block::Input(input) => self.block("pre", input),
            Block::Output(output) => self.cut(output, "output"),
            Block::Failure(error) => self.cut(error, "output error"),
            Block::Plan(todos) => self.todos(todos),
            Block::Task(prompt) => {
                self.out.push_str("<p class=\"said\" dir=\"auto\">");
                self.prose_text(prompt.trim_end());
                self.out.push_str("</p>\n");
            }
            Block::Child(id) => {
                let children = self.transcript.children;
                let Some(messages) = children.get(id).filter(|_| depth < MAX_DEPTH) else { return };
                self.out.push_str("<div class=\"child\">\n");
                for turn in turn::turns(messages) {
                    // The call has already shown the subagent's prompt.
                    self.messages(&Turn { prompt: None, rest: turn.rest }, depth + 1);
                }
                self.out.push_str("</div>\n");
            }
            Block::Answer { question, answer } => {
                self.out.push_str("<p class=\"answer\" dir=\"auto\"><strong>");
                self.prose_text(question);
                self.out.push_str("</strong><br>");
                self.prose_text(if answer.is_empty() { "No answer" } else { answer });
                self.out.push_str("</p>\n");
            }
        }
    }

    fn change(&mut self, change: &Change<'_>, is_named: bool) {
        self.out.push_str("<figure class=\"diff\">");
        if is_named {
            self.out.push_str("<figcaption><code>");
            self.line(change.file);
            self.out.push_str("</code>");
            self.lines(change.additions, change.deletions);
            self.out.push_str("</figcaption>");
        }
        let (lines, n_rest) = change.shown();
        if !lines.is_empty() {
            self.out.push_str("<pre tabindex=\"0\"><code>");
            for line in lines {
                let class = match line.as_bytes().first() {
                    Some(b'+') => "add",
                    Some(b'-') => "del",
                    Some(b'@') => "hunk",
                    _other => "same",
                };
                let _ = write!(self.out, "<span class=\"{class}\">");
                escape(&mut self.out, &text::visible(line));
                self.out.push_str("\n</span>");
            }
            self.out.push_str("</code></pre>");
        }
        if n_rest > 0 {
            let rest = figures::counted(n_rest, "more line");
            let _ = write!(self.out, "<p class=\"cut\">{rest} not shown</p>");
        }
        self.out.push_str("</figure>\n");
    }

    fn cut(&mut self, cut: &Cut<'_>, class: &str) {
        let _ = write!(self.out, "<pre class=\"{class}\" tabindex=\"0\"><code>");
        escape(&mut self.out, cut.head.trim_end_matches('\n'));
        if let Some((n_lines, tail)) = &cut.tail {
            let lines = figures::counted(*n_lines, "line");
            let _ = write!(self.out, "\n<span class=\"cut\">… {lines} not shown …</span>\n");
            escape(&mut self.out, tail.trim_end_matches('\n'));
        }
        self.out.push_str("</code></pre>\n");
    }

    fn block(&mut self, tag: &str, text: &str) {
        let _ = write!(self.out, "<{tag} tabindex=\"0\"><code>");
        self.prose_text(text);
        let _ = writeln!(self.out, "</code></{tag}>");
    }

    fn time(&mut self, ms: i64, shown: &str) {
        let _ = write!(self.out, "<time datetime=\"{}\">", clock::iso(ms));
        self.text(shown);
        self.out.push_str("</time>");
    }

    /// Writes one line of text with its hidden characters made visible.
    fn text(&mut self, text: &str) {
        escape(&mut self.out, &text::readable(text));
    }

    /// Writes the name of a file or tool, in which every character counts.
    fn line(&mut self, text: &str) {
        escape(&mut self.out, &text::visible_line(text));
    }

    /// Writes text of people and models; in some scripts, hidden characters have a meaning.
    fn prose_text(&mut self, text: &str) {
        escape(&mut self.out, &text::readable(text));
    }
}

/// Escapes text for elements and for quoted attributes.
fn escape(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _apostrophe => "&#39;",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}
