//! The dialogue about a permission: the exact command or change, and one key for the answer.

use serde_json::{Map, Value};
use windlass_base::{figures, text};
use windlass_engine as engine;
use windlass_protocol::opencode::permission::{PermissionRequest, Reply};

use super::{
    super::view::{
        self, Draw,
        line::{BOLD, Line, PLAIN, wrapped},
        tool::diff,
    },
    keyboard::Key,
    question,
    step::{self, Answer, Step},
    typing::{State, Typing},
};

/// Lines of a change that are shown; the rest is counted.
const MAX_LINES: usize = 400;
/// Prompt for the reason of a refusal.
const WHY: &str = "Why: ";
/// Characters of the patterns that an answer for ever is about.
const MAX_REMEMBERED: usize = 200;

/// See the module's comment.
#[derive(Debug)]
pub struct PermissionDialog {
    choices: String,
    /// Columns of the terminal.
    columns: usize,
    /// An answer for ever is offered.
    can_remember: bool,
    /// The reason that is being typed.
    reason: Option<Typing>,
}

impl PermissionDialog {
    /// Returns a dialogue, and the text that opens it.
    pub fn new(request: &PermissionRequest, draw: &Draw<'_>) -> (Self, String) {
        let always = remembered(request);
        let can_remember = always.is_some();
        let always = always.map(|what| format!("[a] always: {what}"));
        let choices = ["[y] once".to_owned()].into_iter().chain(always);
        let choices = choices.chain(["[n] no".to_owned(), "[f] no, and say why".to_owned()]);
        let choices = question::keys(&choices.collect::<Vec<_>>(), draw.width);
        let text = format!("{}{choices}", view::text(&subject(request, draw), draw.look));
        (Self { choices, columns: draw.width, can_remember, reason: None }, text)
    }

    /// Returns true if keys are part of a text that is not meant for the dialogue: `is_typed` if one is typed now.
    pub fn is_text(&self, keys: &[Key], is_typed: bool) -> bool {
        let is_answer = |key: char| "yYnNfF".contains(key) || (self.can_remember && "aA".contains(key));
        self.reason.is_none() && step::is_text(keys, is_typed, is_answer)
    }

    /// Returns true for a letter that settles the question at once, and may be the first of a word as well.
    pub fn may_begin_word(&self, keys: &[Key]) -> bool {
        self.reason.is_none() && matches!(keys, [Key::Char(key)] if "yYnNaA".contains(*key))
    }

    pub fn keys(&mut self, keys: &[Key]) -> Step {
        if let Some(line) = &mut self.reason {
            let (shown, state) = line.keys(keys);
            return match state {
                State::Open => Step::More(shown),
                State::Left => {
                    self.reason = None;
                    Step::More(format!("{shown}\n{}", self.choices))
                }
                State::Entered(reason) => {
                    let feedback = Some(reason).filter(|reason| !reason.is_empty());
                    Step::Done(format!("{shown}\n"), Answer::Permission { reply: Reply::Reject, feedback })
                }
            };
        }
        // Pasted text is not an answer. A key comes together with the Enter behind it where a program types.
        let (&[key] | &[key, Key::Enter]) = keys else { return Step::More(String::new()) };
        let done = |word: &str, reply: Reply| {
            Step::Done(format!("{word}\n"), Answer::Permission { reply, feedback: None })
        };
        match key {
            Key::Char('y' | 'Y') => done("once", Reply::Once),
            Key::Char('a' | 'A') if self.can_remember => done("always", Reply::Always),
            Key::Char('n' | 'N') | Key::Escape | Key::End => done("no", Reply::Reject),
            Key::Char('f' | 'F') => {
                self.reason = Some(Typing::new(WHY, self.columns));
                Step::More(format!("no\n{WHY}"))
            }
            Key::Char(_)
            | Key::Enter
            | Key::Tab
            | Key::Backspace
            | Key::Clear
            | Key::Interrupt
            | Key::Edit(_)
            | Key::Line(_)
            | Key::Other => Step::More(String::new()),
        }
    }
}

/// Returns the thing that is asked about, each line visible as it is.
fn subject(request: &PermissionRequest, draw: &Draw<'_>) -> Vec<Line> {
    let metadata = &request.metadata;
    let name = &request.permission;
    // Tools of MCP servers choose their metadata themselves: none of it may stand for the question.
    let is_own = engine::is_own_permission(name);
    let field = |key: &str| metadata.get(key).and_then(Value::as_str).filter(|_| is_own);
    let patterns = request.patterns.join(", ");
    let exact = ["changes", "filepath", "requested", "url", "pattern", "query"];
    let exact = exact.into_iter().find_map(field);
    let mut text = match name.as_str() {
        "external_directory" => format!("{name}: outside the project: {patterns}"),
        "sampling" => format!("{name}: MCP server {patterns} asks the model"),
        "doom_loop" => format!("{name}: {patterns} again with the same input"),
        _ if field("command").is_some() => match field("reason") {
            Some(reason) => format!("{name}: {reason}"),
            None => name.clone(),
        },
        "task" => format!("{name}: {patterns}: {}", field("description").unwrap_or_default()),
        _ => match exact.or(Some(&patterns[..])).filter(|it| !it.is_empty() && *it != "*") {
            Some(exact) => format!("{name}: {exact}"),
            None => name.clone(),
        },
    };
    if let Some(resolved) = field("resolved") {
        text.push_str(&format!(" (leads to {resolved})"));
    }
    if let Some(workdir) = field("workdir") {
        text.push_str(&format!(" (in {workdir})"));
    }
    let mut rows = Line::new("? ", PLAIN).with(&text::visible_line(&text), BOLD).wrap(draw.width);
    if is_own && metadata.contains_key("diff") {
        rows.extend(changed(metadata, draw));
        return rows;
    }
    let (mark, body) = match field("command") {
        Some(command) => ("  $ ", Some(command.to_owned())),
        None => ("  ", field("prompt").map(str::to_owned)),
    };
    let is_command = body.is_some() && mark != "  ";
    let body = body.or_else(|| (!is_own).then(|| own_words(metadata)).flatten()).unwrap_or_default();
    let indent = " ".repeat(mark.len());
    for (idx, line) in body.trim_end().lines().take(MAX_LINES).enumerate() {
        let mark = if idx == 0 { mark } else { &indent };
        let line = format!("{mark}{}", text::visible(line));
        // The terminal breaks a command, so that its lines are told from its rows.
        if is_command {
            rows.push(Line::new(&line, PLAIN));
        } else {
            rows.extend(wrapped(&line, draw.width));
        }
    }
    let n_more = body.trim_end().lines().count().saturating_sub(MAX_LINES);
    if n_more > 0 {
        rows.push(Line::new(&format!("  … {} more", figures::counted(n_more, "line")), PLAIN));
    }
    rows
}

/// Returns the changes of one file, or of several below their names.
fn changed(metadata: &Map<String, Value>, draw: &Draw<'_>) -> Vec<Line> {
    let changes = diff::changes(metadata);
    match changes.as_slice() {
        [] => diff::hunks(metadata.get("diff").and_then(Value::as_str).unwrap_or_default(), MAX_LINES, draw),
        [change] => diff::hunks(&change.patch, MAX_LINES, draw),
        changes => {
            changes.iter().flat_map(|change| diff::drawn(change, diff::VERB, MAX_LINES, draw)).collect()
        }
    }
}

/// Returns a server's own account of its call.
fn own_words(metadata: &Map<String, Value>) -> Option<String> {
    (!metadata.is_empty()).then(|| text::visible_json(&Value::Object(metadata.clone()).to_string()))
}

/// Returns the patterns that an answer for ever is about; `None` when there is nothing to remember.
fn remembered(request: &PermissionRequest) -> Option<String> {
    match request.always.as_slice() {
        [] => None,
        [any] if any == "*" => Some(format!("every {}", text::visible_line(&request.permission))),
        patterns => {
            let patterns = patterns.join(", ");
            let patterns = text::visible_line(&patterns);
            let shown: String = patterns.chars().take(MAX_REMEMBERED).collect();
            let more = if shown.len() < patterns.len() { "…" } else { "" };
            Some(format!("{shown}{more}"))
        }
    }
}

#[cfg(test)]
mod tests;
