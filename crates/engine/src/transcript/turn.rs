//! Turns: a prompt with its answers, and their totals.

use std::collections::{BTreeMap, HashMap};

use windlass_base::{figures, money, text};
use windlass_protocol::opencode::{
    id::SessionId,
    message::{Message, MessageWithParts},
    part::{EXECUTED_BY_USER, Part, PartKind, TextPart, ToolPart, ToolState},
    tokens::Tokens,
};

use super::call;

/// Maximum bytes of a prompt's heading.
const MAX_HEADING: usize = 90;

/// A prompt and the answers to it. The first turn of a cut session may have no prompt.
pub struct Turn<'a> {
    pub prompt: Option<&'a MessageWithParts>,
    /// The answers, and any text of windlass in the user's place between them.
    pub rest: Vec<&'a MessageWithParts>,
}

/// The totals of turns, including their subagents.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    pub n_calls: usize,
    pub n_failed: usize,
    pub tokens: Tokens,
    pub cost: f64,
    /// The time from the prompt to the end of the last answer.
    pub ms: i64,
    /// `provider/model`, in the order of their first answers.
    pub models: Vec<String>,
    pub agents: Vec<String>,
    /// The numbers of added and removed lines for each file.
    pub files: BTreeMap<String, (u64, u64)>,
}

/// Splits a session into its turns, in order.
pub fn turns(messages: &[MessageWithParts]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages {
        let is_prompt = matches!(message.info, Message::User(_))
            && message.parts.iter().any(is_said)
            && message.parts.iter().any(is_asked);
        match turns.last_mut() {
            _ if is_prompt => turns.push(Turn { prompt: Some(message), rest: Vec::new() }),
            Some(turn) => turn.rest.push(message),
            None => turns.push(Turn { prompt: None, rest: vec![message] }),
        }
    }
    turns
}

/// Returns true for text and files of the user, rather than of windlass in the user's place.
fn is_said(part: &Part) -> bool {
    match &part.kind {
        PartKind::Text(text) => text.synthetic != Some(true) && !text.text.trim().is_empty(),
        PartKind::File(_) | PartKind::Subtask { .. } => true,
        PartKind::Reasoning(_)
        | PartKind::Tool(_)
        | PartKind::StepStart { .. }
        | PartKind::StepFinish { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Patch { .. }
        | PartKind::Agent { .. }
        | PartKind::Compaction { .. }
        | PartKind::Retry { .. } => false,
    }
}

/// Returns true for a part that a model is asked about: commands such as `/undo`, `/compact` and `!ls` ask for no
/// answer.
fn is_asked(part: &Part) -> bool {
    match &part.kind {
        PartKind::Text(text) => {
            text.ignored != Some(true) && !text.text.trim().is_empty() && text.text != EXECUTED_BY_USER
        }
        PartKind::File(_) | PartKind::Subtask { .. } | PartKind::Agent { .. } => true,
        PartKind::Reasoning(_)
        | PartKind::Tool(_)
        | PartKind::StepStart { .. }
        | PartKind::StepFinish { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Patch { .. }
        | PartKind::Compaction { .. }
        | PartKind::Retry { .. } => false,
    }
}

/// Returns the turns with their numbers, which only prompts have.
pub fn numbered<'t, 'a>(turns: &'t [Turn<'a>]) -> impl Iterator<Item = (Option<usize>, &'t Turn<'a>)> {
    // Only the first turn can be without a prompt.
    let first = usize::from(turns.first().is_some_and(|turn| turn.prompt.is_some()));
    turns.iter().enumerate().map(move |(idx, turn)| (turn.prompt.map(|_| first + idx), turn))
}

impl Turn<'_> {
    /// Returns the first words of the prompt, on one line.
    pub fn heading(&self) -> String {
        let begins = self.prompt.or_else(|| self.rest.first().copied());
        let begins = begins.filter(|message| matches!(message.info, Message::User(_)));
        let parts = begins.map(|message| message.parts.as_slice()).unwrap_or_default();
        let words = parts.iter().find_map(|part| match &part.kind {
            PartKind::Text(TextPart { text, synthetic, .. }) if *synthetic != Some(true) => {
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                (!words.is_empty()).then_some(words)
            }
            _other => None,
        });
        let other = parts.iter().find_map(|part| {
            if let PartKind::File(file) = &part.kind {
                Some(file.filename.clone().unwrap_or_else(|| "An attachment".to_owned()))
            } else if let PartKind::Subtask { description, .. } = &part.kind {
                Some(description.clone())
            } else if let PartKind::Compaction { .. } = &part.kind {
                Some("Summary of the conversation".to_owned())
            } else {
                None
            }
        });
        let heading = words.or(other).unwrap_or_else(|| "Continued".to_owned());
        match text::head(&heading, MAX_HEADING) {
            head if head.len() < heading.len() => format!("{}…", head.trim_end()),
            _whole => heading,
        }
    }

    /// Returns the start of the turn.
    pub fn start(&self) -> Option<i64> {
        self.prompt.into_iter().chain(self.rest.iter().copied()).map(created).next()
    }

    pub fn sums(&self, children: &HashMap<SessionId, Vec<MessageWithParts>>) -> Sums {
        let mut sums = Sums::default();
        for message in self.prompt.into_iter().chain(self.rest.iter().copied()) {
            sums.add_message(message, children, 0);
        }
        let ends = self.rest.iter().filter_map(|message| match &message.info {
            Message::Assistant(answer) => answer.time.completed,
            Message::User(_) => None,
        });
        if let (Some(start), Some(end)) = (self.start(), ends.max()) {
            sums.ms = (end - start).max(0);
        }
        sums
    }
}

fn created(message: &MessageWithParts) -> i64 {
    match &message.info {
        Message::User(user) => user.time.created,
        Message::Assistant(answer) => answer.time.created,
    }
}

/// Maximum depth of subagents that is followed.
pub const MAX_DEPTH: usize = 8;

impl Sums {
    pub fn add(&mut self, other: &Sums) {
        self.n_calls += other.n_calls;
        self.n_failed += other.n_failed;
        self.tokens.add(&other.tokens);
        self.cost = money::sum(self.cost, other.cost);
        self.ms += other.ms;
        other.models.iter().for_each(|model| add_name(&mut self.models, model));
        other.agents.iter().for_each(|agent| add_name(&mut self.agents, agent));
        for (file, (added, removed)) in &other.files {
            let sum = self.files.entry(file.clone()).or_default();
            *sum = (sum.0 + added, sum.1 + removed);
        }
    }

    fn add_message(
        &mut self,
        message: &MessageWithParts,
        children: &HashMap<SessionId, Vec<MessageWithParts>>,
        depth: usize,
    ) {
        if let Message::Assistant(answer) = &message.info {
            self.tokens.add(&answer.tokens);
            self.cost = money::sum(self.cost, answer.cost);
            add_name(&mut self.models, &format!("{}/{}", answer.provider_id, answer.model_id));
            if depth == 0 {
                add_name(&mut self.agents, &answer.agent);
            }
        }
        for part in &message.parts {
            let PartKind::Tool(tool) = &part.kind else { continue };
            self.add_call(tool);
            let child = call::child(tool).and_then(|id| children.get(&id)).filter(|_| depth < MAX_DEPTH);
            for message in child.into_iter().flatten() {
                self.add_message(message, children, depth + 1);
            }
        }
    }

    fn add_call(&mut self, tool: &ToolPart) {
        self.n_calls += 1;
        self.n_failed += usize::from(matches!(tool.state, ToolState::Error { .. }));
        for change in call::changes(tool) {
            let sum = self.files.entry(change.file.to_owned()).or_default();
            *sum = (sum.0 + change.additions, sum.1 + change.deletions);
        }
    }

    /// Returns the numbers of lines added to and removed from all files.
    pub fn lines(&self) -> (u64, u64) {
        self.files.values().fold((0, 0), |sum, (added, removed)| (sum.0 + added, sum.1 + removed))
    }

    /// Formats the totals without zeros: `18 calls · 155k tokens · $0.48 · 12 s`.
    pub fn line(&self) -> String {
        let mut parts = Vec::new();
        if self.n_calls > 0 {
            parts.push(figures::counted(self.n_calls, "call"));
        }
        let n_tokens = self.n_tokens();
        if n_tokens > 0 {
            parts.push(format!("{} tokens", figures::short(n_tokens)));
        }
        if self.cost > 0.0 {
            parts.push(figures::dollars(self.cost));
        }
        if self.ms > 0 {
            parts.push(figures::duration(self.ms));
        }
        parts.join(" · ")
    }

    pub fn n_tokens(&self) -> u64 {
        self.tokens.context() + self.tokens.output + self.tokens.reasoning
    }
}

fn add_name(names: &mut Vec<String>, name: &str) {
    if !name.is_empty() && !names.iter().any(|it| it == name) {
        names.push(name.to_owned());
    }
}
