//! A turn while it runs: which rows are finished, and how the moving rows show the rest.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;
use windlass_base::figures;
use windlass_engine as engine;
use windlass_protocol::opencode::{
    event::{Event, EventPayload, SessionInfo},
    id::{MessageId, PartId, SessionId},
    message::Message,
    part::{Part, PartKind, ToolPart, ToolState},
    session::SessionStatus,
    tokens::Tokens,
    tool::Subject,
};

use super::{
    below::Below,
    line::{self, BOLD, CYAN, DIM, Line, PLAIN, RED, YELLOW, notice},
    look::{Draw, Look},
    markdown::Stream,
    spacing::{Kind, Spacing},
    tool,
    turn::{News, NewsKind, TurnView},
};

/// Frames of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_STEP_MS: i64 = 100;
/// A run that took this long is announced when it ends.
const LONG_RUN_MS: i64 = 10_000;

/// End of a turn.
#[derive(Debug, Clone, Default)]
pub struct Closing {
    /// Reason of its failure.
    pub error: Option<String>,
    /// Other remark.
    pub remark: Option<String>,
    /// Told in the place of the session's id.
    pub answered: Option<Answered>,
}

/// The one that answered a turn.
#[derive(Debug, Clone)]
pub struct Answered {
    pub model: String,
    pub agent: String,
    /// How full its context is, where that is known.
    pub percent: Option<u64>,
}

/// Draws turns, one after another.
pub struct Progress {
    look: Look,
    width: usize,
    finished: Vec<Line>,
    spacing: Spacing,
    turn: Option<Turn>,
    below: Option<Below>,
    bell: Option<String>,
}

/// The turn that runs.
struct Turn {
    session_id: SessionId,
    began: i64,
    /// Subagents by their sessions.
    children: HashMap<SessionId, Child>,
    /// Session that the last rows belong to.
    shown: SessionId,
    view: TurnView,
    /// Tokens and cost of each answer.
    used: HashMap<MessageId, Used>,
    /// Parts that are not finished, in the order they began.
    open: Vec<(PartId, Open)>,
    n_calls: usize,
    /// Lines added to and removed from each file.
    files: BTreeMap<String, (u64, u64)>,
    retry: Option<Retry>,
    is_error_shown: bool,
}

struct Child {
    name: String,
    depth: usize,
    n_calls: usize,
}

#[derive(Default, Clone, Copy)]
struct Used {
    tokens: u64,
    cost: f64,
}

struct Retry {
    reason: String,
    count: String,
    next: i64,
}

enum Open {
    Text(OpenText),
    Call { event: Arc<Event>, session_id: SessionId },
}

#[derive(Default)]
struct OpenText {
    stream: Stream,
    is_thought: bool,
    /// Rows of it are finished.
    is_begun: bool,
}

impl Progress {
    pub fn new(look: Look) -> Self {
        Self {
            look,
            width: 80,
            finished: Vec::new(),
            spacing: Spacing::default(),
            turn: None,
            below: None,
            bell: None,
        }
    }

    /// Columns of the rows drawn from now on.
    pub fn set_width(&mut self, columns: usize) {
        self.width = columns.max(8);
    }

    /// Draws a turn of this session from now on.
    pub fn begin(&mut self, session_id: &SessionId, now: i64) {
        self.spacing = Spacing::default();
        self.turn = Some(Turn {
            session_id: session_id.clone(),
            began: now,
            children: HashMap::new(),
            shown: session_id.clone(),
            view: TurnView::default(),
            used: HashMap::new(),
            open: Vec::new(),
            n_calls: 0,
            files: BTreeMap::new(),
            retry: None,
            is_error_shown: false,
        });
    }

    /// Shows a sentence of ours.
    pub fn notice(&mut self, text: &str) {
        let rows = notice(text, YELLOW, &self.draw(0));
        self.finish(Kind::Notice, rows);
    }

    /// Shows a prompt that begins within the turn, or begins it.
    pub fn said(&mut self, text: &str) {
        let rows = super::prompt(text, &self.draw(0));
        self.finish(Kind::Prompt, rows);
    }

    /// Shows thoughts from now on, or shows them no more.
    pub fn show_thoughts(&mut self, is_shown: bool) {
        self.look.shows_thoughts = is_shown;
    }

    /// Shows these rows below the turn's from now on.
    pub fn set_below(&mut self, below: Option<Below>) {
        self.below = below;
    }

    /// Takes an event into account; those of other sessions say nothing here.
    pub fn event(&mut self, event: &Arc<Event>, now: i64) {
        let Some(turn) = &mut self.turn else { return };
        match &event.payload {
            EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info) => {
                self.note_session(info)
            }
            EventPayload::MessageUpdated { session_id, info } if turn.depth(session_id).is_some() => {
                if let Message::Assistant(message) = &**info {
                    turn.view.note_message(info);
                    let used = Used { tokens: all(&message.tokens), cost: message.cost };
                    turn.used.insert(message.id.clone(), used);
                }
            }
            EventPayload::PartDelta { session_id, part_id, delta, offset, .. }
                if *session_id == turn.session_id =>
            {
                if let Some((new, is_thought)) = turn.view.delta(part_id, delta, *offset) {
                    turn.write(part_id, new, is_thought);
                }
            }
            EventPayload::PartUpdated { session_id, part, .. } if turn.depth(session_id).is_some() => {
                if let Some(news) = turn.view.part(part) {
                    self.part(part, news, event);
                }
            }
            EventPayload::SessionStatus { session_id, status } if turn.depth(session_id).is_some() => {
                match status {
                    SessionStatus::Retry { attempt, message, next, limit } => {
                        self.retry((*attempt, *limit), message, *next, now);
                    }
                    SessionStatus::Busy | SessionStatus::Idle => turn.retry = None,
                }
            }
            EventPayload::Toast { session_id, title, message, .. } if turn.depth(session_id).is_some() => {
                self.notice(format!("{title} {message}").trim());
            }
            EventPayload::AgentSwitched { session_id, agent } if *session_id == turn.session_id => {
                let rows = notice(&format!("The agent `{agent}` goes on."), DIM, &self.draw(0));
                self.finish(Kind::Notice, rows);
            }
            EventPayload::SessionCompacted { session_id } if *session_id == turn.session_id => {
                let text = "The conversation was summed up to save room.";
                let rows = notice(text, DIM, &self.draw(0));
                self.finish(Kind::Notice, rows);
            }
            EventPayload::MessageUpdated { .. }
            | EventPayload::PartUpdated { .. }
            | EventPayload::PartDelta { .. }
            | EventPayload::SessionStatus { .. }
            | EventPayload::Toast { .. }
            | EventPayload::AgentSwitched { .. }
            | EventPayload::SessionCompacted { .. }
            | EventPayload::SessionDiff { .. }
            | EventPayload::SessionDeleted(_)
            | EventPayload::SessionIdle { .. }
            | EventPayload::SessionError { .. }
            | EventPayload::CommandExecuted { .. }
            | EventPayload::Inbox(_)
            | EventPayload::MessageRemoved { .. }
            | EventPayload::PartRemoved { .. }
            | EventPayload::PermissionAsked(_)
            | EventPayload::PermissionReplied { .. }
            | EventPayload::QuestionAsked(_)
            | EventPayload::QuestionReplied { .. }
            | EventPayload::QuestionRejected { .. }
            | EventPayload::PageCompleted { .. }
            | EventPayload::TodoUpdated { .. }
            | EventPayload::FileEdited { .. }
            | EventPayload::McpToolsChanged { .. }
            | EventPayload::ConfigUpdated { .. }
            | EventPayload::Service(_) => {}
        }
    }

    /// Ends the turn: shows its open parts as they are, then the notes on the whole.
    pub fn end(&mut self, closing: Closing, now: i64) {
        let Some(mut turn) = self.turn.take() else { return };
        for (_, open) in std::mem::take(&mut turn.open) {
            self.close(open);
        }
        if let Some(error) = closing.error.filter(|_| !turn.is_error_shown) {
            let rows = notice(&format!("Error: {error}"), RED, &self.draw(0));
            self.finish(Kind::Notice, rows);
        }
        if let Some(remark) = &closing.remark {
            let rows = notice(remark, YELLOW, &self.draw(0));
            self.finish(Kind::Notice, rows);
        }
        let summary = turn.summary(now, closing.answered.as_ref());
        let rows = line::flow(&summary, " · ", self.width);
        self.finish(Kind::Closing, rows);
        if now - turn.began >= LONG_RUN_MS {
            self.bell = Some(if self.look.notifies {
                format!("\x1b]9;windlass: done after {}\x1b\\", figures::duration(now - turn.began))
            } else {
                "\x07".to_owned()
            });
        }
    }

    /// Rows that are finished; each is given once.
    pub fn take(&mut self) -> Vec<Line> {
        self.settle();
        std::mem::take(&mut self.finished)
    }

    /// Takes the text that calls the user back after a long run.
    pub fn take_bell(&mut self) -> Option<String> {
        self.bell.take()
    }

    /// Returns the rows below those, as they are at this moment: at most `rows`, each narrower than the
    /// terminal.
    pub fn moving(&self, columns: usize, rows: usize, now: i64) -> Vec<Line> {
        let Some(turn) = &self.turn else { return Vec::new() };
        let spinner = spinner(now);
        let draw = Draw { look: &self.look, width: columns };
        let mut spacing = self.spacing;
        let mut shown = Vec::new();
        for (_, open) in &turn.open {
            match open {
                Open::Text(OpenText { stream, is_thought, is_begun }) => {
                    let drawn = drawn(*is_thought, &draw, |draw| stream.unfinished(draw));
                    if !drawn.is_empty() {
                        if !is_begun {
                            spacing.before(Kind::Text, &mut shown);
                        }
                        shown.extend(drawn);
                    }
                }
                Open::Call { event, session_id } => {
                    let Some(call) = call_of(event) else { continue };
                    // A subagent's name stands above its calls.
                    if child_of(call).and_then(|id| turn.children.get(&id)).is_some_and(|it| it.n_calls > 0) {
                        continue;
                    }
                    let depth = turn.depth(session_id).unwrap_or_default();
                    if depth == 0 {
                        spacing.before(Kind::Call, &mut shown);
                    }
                    let indent = indent(depth);
                    let draw = Draw { width: columns.saturating_sub(indent.width()), ..draw };
                    shown.extend(
                        tool::running(call, spinner, &draw).into_iter().map(|row| row.behind(&indent)),
                    );
                }
            }
        }
        let below = self.below.iter().flat_map(|below| below.rows(columns, rows));
        let below: Vec<Line> = below.collect();
        let room = rows.saturating_sub(2 + below.len());
        let n_hidden = shown.len().saturating_sub(room);
        let mut shown = shown.split_off(n_hidden);
        if rows > 2 {
            shown.push(Line::default());
        }
        shown.push(turn.status_line(spinner, now, &self.look).cut(columns));
        shown.extend(below);
        shown.iter().map(|row| row.cut(columns)).collect()
    }

    fn draw(&self, depth: usize) -> Draw<'_> {
        Draw { look: &self.look, width: self.width.saturating_sub(2 * depth) }
    }

    fn finish(&mut self, kind: Kind, rows: Vec<Line>) {
        if !rows.is_empty() {
            self.spacing.before(kind, &mut self.finished);
            self.finished.extend(rows);
        }
    }

    /// Notes a subagent's session and shows that it begins.
    fn note_session(&mut self, info: &SessionInfo) {
        let Some(turn) = &mut self.turn else { return };
        let Some(parent) = &info.info.parent_id else { return };
        let Some(depth) = turn.depth(parent) else { return };
        if turn.children.contains_key(&info.session_id) {
            return;
        }
        let name = info.info.title.replace(" subagent)", ")");
        turn.children.insert(info.session_id.clone(), Child { name, depth: depth + 1, n_calls: 0 });
    }

    fn part(&mut self, part: &Part, news: News<'_>, event: &Arc<Event>) {
        let Some(turn) = &mut self.turn else { return };
        let News { kind, is_ended } = news;
        if !matches!(kind, NewsKind::Summary) {
            turn.retry = None;
        }
        let is_own = part.session_id == turn.session_id;
        match kind {
            NewsKind::Text(text) if is_own => turn.write(&part.id, text.new, false),
            NewsKind::Thought(text) if is_own => turn.write(&part.id, text.new, true),
            NewsKind::Call(_) if !is_ended => {
                let session_id = part.session_id.clone();
                *turn.open(&part.id) = Open::Call { event: event.clone(), session_id };
            }
            NewsKind::Text(_)
            | NewsKind::Thought(_)
            | NewsKind::Summary
            | NewsKind::Call(_)
            | NewsKind::Other => {}
        }
        if is_ended {
            let at = turn.open.iter().position(|(id, _)| *id == part.id);
            if let Some(open) = at.map(|at| turn.open.remove(at).1) {
                self.close(open);
            }
            if let NewsKind::Call(call) = kind {
                self.call_ended(call, &part.session_id);
            }
        }
    }

    /// Finishes a text that does not grow any more.
    fn close(&mut self, open: Open) {
        let Open::Text(OpenText { mut stream, is_thought, is_begun }) = open else { return };
        let rows = drawn(is_thought, &self.draw(0), |draw| stream.finish(draw));
        if is_begun {
            self.finished.extend(rows);
        } else {
            self.finish(Kind::Text, rows);
        }
    }

    /// Moves the finished rows of open texts to the finished rows.
    fn settle(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let draw = Draw { look: &self.look, width: self.width };
        for (_, open) in &mut turn.open {
            let Open::Text(OpenText { stream, is_thought, is_begun }) = open else { continue };
            let rows = drawn(*is_thought, &draw, |draw| stream.take_finished(draw));
            if rows.is_empty() {
                continue;
            }
            if !std::mem::replace(is_begun, true) {
                self.spacing.before(Kind::Text, &mut self.finished);
            }
            self.finished.extend(rows);
        }
    }

    fn call_ended(&mut self, call: &ToolPart, session_id: &SessionId) {
        let Some(turn) = &mut self.turn else { return };
        turn.n_calls += 1;
        let depth = turn.depth(session_id).unwrap_or_default();
        if let ToolState::Completed { metadata, .. } = &call.state {
            for change in tool::diff::changes(metadata) {
                let lines = turn.files.entry(change.file).or_default();
                lines.0 += change.additions;
                lines.1 += change.deletions;
            }
        }
        let mut rows = Vec::new();
        let child_id = child_of(call);
        let child = child_id.as_ref().and_then(|id| turn.children.get(id));
        if let Some(child) = child.filter(|_| is_task(call)) {
            if turn.shown != *session_id && child_id.as_ref() != Some(&turn.shown) {
                rows.push(Line::new(&format!("↳ {}", child.name), DIM));
            }
            rows.extend(task_end(call, child));
            turn.shown = session_id.clone();
        }
        if rows.is_empty() {
            rows = tool::ended(call, &Draw { look: &self.look, width: self.width.saturating_sub(2 * depth) });
        }
        let headings = turn.heading(session_id);
        let indent = indent(depth);
        let rows = headings.into_iter().chain(rows.into_iter().map(|row| row.behind(&indent))).collect();
        self.finish(Kind::Call, rows);
    }

    fn retry(&mut self, (attempt, limit): (u32, Option<u32>), message: &str, next: i64, now: i64) {
        let count = retry_count(attempt, limit);
        let delay = figures::clock(next - now + 500);
        let reason = message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned();
        let rows = notice(&format!("{reason}; again in {delay}, {count}"), YELLOW, &self.draw(0));
        self.finish(Kind::Notice, rows);
        if let Some(turn) = &mut self.turn {
            turn.retry = Some(Retry { reason, count, next });
        }
    }
}

/// Returns the number of an attempt, of how many where that is known.
pub fn retry_count(attempt: u32, limit: Option<u32>) -> String {
    match limit {
        Some(limit) => format!("{attempt} of {limit}"),
        None => format!("try {attempt}"),
    }
}

impl Turn {
    /// Returns a session's depth below the turn's own; `None` if it is not below it.
    fn depth(&self, session_id: &SessionId) -> Option<usize> {
        match self.children.get(session_id) {
            Some(child) => Some(child.depth),
            None => (*session_id == self.session_id).then_some(0),
        }
    }

    /// Returns a part that is not finished, which begins as an empty text.
    fn open(&mut self, id: &PartId) -> &mut Open {
        let at = self.open.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
            self.open.push((id.clone(), Open::Text(OpenText::default())));
            self.open.len() - 1
        });
        &mut self.open[at].1
    }

    fn write(&mut self, id: &PartId, new: &str, is_thought: bool) {
        if let Open::Text(text) = self.open(id) {
            text.is_thought = is_thought;
            text.stream.push(new);
        }
    }

    /// Returns the name of the subagent that the next rows belong to, unless its rows came last.
    fn heading(&mut self, session_id: &SessionId) -> Vec<Line> {
        if let Some(child) = self.children.get_mut(session_id) {
            child.n_calls += 1;
        }
        if self.shown == *session_id {
            return Vec::new();
        }
        self.shown = session_id.clone();
        let Some(child) = self.children.get(session_id) else { return Vec::new() };
        let mark = if child.n_calls > 1 { Line::new("↳ ", DIM) } else { Line::new("• ", DIM) };
        let name = match child.n_calls {
            1 => Line::new("Task ", BOLD).with(&child.name, PLAIN),
            _ => Line::new(&child.name, DIM),
        };
        vec![name.behind(&mark).behind(&indent(child.depth - 1))]
    }

    fn used(&self) -> Used {
        let add =
            |sum: Used, used: &Used| Used { tokens: sum.tokens + used.tokens, cost: sum.cost + used.cost };
        self.used.values().fold(Used::default(), add)
    }

    /// Renders the current work, its time and its use so far.
    fn status_line(&self, spinner: &str, now: i64, look: &Look) -> Line {
        let mut line = Line::new(spinner, CYAN).with(" ", PLAIN);
        let calls = || {
            self.open.iter().filter_map(|(_, open)| match open {
                Open::Call { event, .. } => call_of(event),
                Open::Text(_) => None,
            })
        };
        let newest = calls().rfind(|call| !is_task(call)).or_else(|| calls().next_back());
        if let Some(retry) = &self.retry {
            let left = figures::clock(retry.next - now + 999);
            line.push(&format!("{}; again in {left}, {}", retry.reason, retry.count), YELLOW);
        } else if let Some(call) = newest {
            line.append(Line::new(&tool::brief(call, look), PLAIN).cut(40));
            let n_others = calls().count() - 1;
            if n_others > 0 {
                line.push(&format!(" and {n_others} more"), DIM);
            }
        } else {
            let what = match self.open.last() {
                Some((_, Open::Text(OpenText { is_thought: true, .. }))) => "Thinking",
                Some((_, Open::Text(_))) => "Writing",
                Some((_, Open::Call { .. })) | None => "Waiting for the model",
            };
            line.push(what, PLAIN);
        }
        let mut facts = vec![figures::clock(now - self.began)];
        facts.extend(self.cost());
        line.with(&format!(" · {}", facts.join(" · ")), DIM)
    }

    /// Tokens and dollars, as far as there are any.
    fn cost(&self) -> Vec<String> {
        let used = self.used();
        let tokens = (used.tokens > 0).then(|| format!("{} tokens", figures::short(used.tokens)));
        let dollars = (used.cost > 0.0).then(|| figures::dollars(used.cost));
        tokens.into_iter().chain(dollars).collect()
    }

    /// Returns the facts of the closing line.
    fn summary(&self, now: i64, answered: Option<&Answered>) -> Vec<Line> {
        let mut facts = match answered {
            None => vec![Line::new(&self.session_id.to_string(), DIM)],
            Some(answered) => vec![Line::new(&answered.model, DIM), Line::new(&answered.agent, DIM)],
        };
        if let Some(percent) = answered.and_then(|answered| answered.percent) {
            facts.push(Line::new(&format!("{percent} % of its context"), DIM));
        }
        if self.n_calls > 0 {
            facts.push(Line::new(&figures::counted(self.n_calls, "call"), DIM));
        }
        facts.extend(self.cost().iter().map(|fact| Line::new(fact, DIM)));
        if !self.files.is_empty() {
            let (added, removed) =
                self.files.values().fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1));
            let files = figures::counted(self.files.len(), "file");
            facts.push(Line::new(&format!("{files} +{added} −{removed}"), DIM));
        }
        facts.push(Line::new(&figures::duration(now - self.began), DIM));
        facts
    }
}

/// Returns the session of a subagent that a call began.
pub fn child_of(call: &ToolPart) -> Option<SessionId> {
    let metadata = match &call.state {
        ToolState::Completed { metadata, .. } => Some(metadata),
        ToolState::Running { metadata, .. } | ToolState::Error { metadata, .. } => metadata.as_ref(),
        ToolState::Pending { .. } => None,
    };
    SessionId::parse(metadata?.get("sessionId").and_then(Value::as_str)?).ok()
}

/// Returns true if a call is the work of a subagent.
fn is_task(call: &ToolPart) -> bool {
    engine::tool_look(&call.tool).subject == Subject::Task
}

/// Returns the last row of a subagent.
fn task_end(call: &ToolPart, child: &Child) -> Vec<Line> {
    let (took, error) = match &call.state {
        ToolState::Completed { time, .. } => (time.end - time.start, None),
        ToolState::Error { time, error, .. } => (time.end - time.start, Some(error)),
        ToolState::Pending { .. } | ToolState::Running { .. } => return Vec::new(),
    };
    if child.n_calls == 0 {
        return Vec::new();
    }
    let facts = format!("{} · {}", figures::counted(child.n_calls, "call"), figures::duration(took));
    match error {
        None => vec![Line::new(&format!("  └ {facts}"), DIM)],
        Some(error) => {
            let reason = error.lines().next().unwrap_or_default();
            vec![Line::new("  ✗ ", RED).with(reason, RED).with(&format!(" · {facts}"), DIM)]
        }
    }
}

fn call_of(event: &Event) -> Option<&ToolPart> {
    let EventPayload::PartUpdated { part, .. } = &event.payload else { return None };
    match &part.kind {
        PartKind::Tool(call) => Some(call),
        _ => None,
    }
}

fn spinner(now: i64) -> &'static str {
    let step = usize::try_from(now / SPINNER_STEP_MS).unwrap_or_default();
    SPINNER.get(step % SPINNER.len()).copied().unwrap_or_default()
}

fn indent(depth: usize) -> Line {
    Line::new(&"  ".repeat(depth), PLAIN)
}

/// Draws a text; a thought is shown where it is wanted, behind a bar.
pub fn drawn(is_thought: bool, draw: &Draw<'_>, rows: impl FnOnce(&Draw<'_>) -> Vec<Line>) -> Vec<Line> {
    if !is_thought {
        return rows(draw);
    }
    if !draw.look.shows_thoughts {
        return Vec::new();
    }
    let bar = Line::new("┊ ", DIM);
    let rows = rows(&Draw { width: draw.width.saturating_sub(2), ..*draw });
    rows.into_iter().map(|row| row.styled(DIM.italic()).behind(&bar)).collect()
}

/// Tokens read and written.
fn all(tokens: &Tokens) -> u64 {
    tokens.context() + tokens.output + tokens.reasoning
}

#[cfg(test)]
mod tests;
