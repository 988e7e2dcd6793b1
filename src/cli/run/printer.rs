//! Shows a turn's events: drawn on a terminal, else the answer's text as it comes or OpenCode's JSON lines.

use std::{io, sync::Arc};

use serde_json::{Value, json};
use windlass_base::{clock, figures, text};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    message::{AssistantMessage, Message, MessageError},
    model_ref::ModelRef,
    part::{Part, PartKind, ToolPart, ToolState},
    session::SessionStatus,
    tool_metadata::{self, decode},
};

use super::{
    super::{
        ask::ahead::Ahead,
        output::{self, Output, Stream},
        view::{
            below::Below,
            look::Look,
            progress::{Answered, Closing, retry_count},
            screen::{Screen, Suspended},
            tool,
            turn::{News, NewsKind, TurnView},
        },
    },
    args::Format,
};

/// Bytes that a line says about a tool call.
const MAX_SUBJECT: usize = 200;
/// Lines that are shown of a command that failed.
const MAX_FAILED_LINES: usize = 10;

/// Turns the events of one session into text.
pub struct Printer {
    format: Format,
    look: Look,
    session_id: Option<SessionId>,
    turn: TurnView,
    /// The newest message's error, which says more than the session's.
    message_error: Option<MessageError>,
    has_failed: bool,
    is_mid_line: bool,
    /// Draws all of it instead, on a terminal.
    screen: Option<Screen>,
    closing: Closing,
    /// The model and agent of the newest answer, and the tokens that it read.
    answered: Option<(ModelRef, String, u64)>,
}

impl Printer {
    pub fn new(format: Format, look: Look, screen: Option<Screen>) -> Self {
        Self {
            format,
            look,
            session_id: None,
            turn: TurnView::default(),
            message_error: None,
            has_failed: false,
            is_mid_line: false,
            screen,
            closing: Closing::default(),
            answered: None,
        }
    }

    /// Shows this session's events from now on.
    pub fn begin(&mut self, session_id: &SessionId) {
        self.session_id = Some(session_id.clone());
        self.message_error = None;
        self.has_failed = false;
        if let Some(screen) = &self.screen {
            screen.begin(session_id);
        }
    }

    /// Has typed keys kept here while turns are drawn.
    pub fn keep_typed(&self, ahead: Arc<Ahead>) {
        if let Some(screen) = &self.screen {
            screen.keep_typed(ahead);
        }
    }

    /// Shows a prompt that was typed before it begins.
    pub fn said(&self, text: &str) {
        if let Some(screen) = &self.screen {
            screen.said(text);
        }
    }

    /// Shows these rows below the turn's from now on.
    pub fn set_below(&self, below: Option<Below>) {
        if let Some(screen) = &self.screen {
            screen.set_below(below);
        }
    }

    /// Shows thoughts from now on, or shows them no more.
    pub fn show_thoughts(&mut self, is_shown: bool) {
        self.look.shows_thoughts = is_shown;
        if let Some(screen) = &self.screen {
            screen.show_thoughts(is_shown);
        }
    }

    /// Returns true if rows are redrawn while a turn runs.
    pub fn is_live(&self) -> bool {
        self.screen.is_some() && self.look.is_live
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns true if turns are text for people without a terminal.
    pub fn is_plain(&self) -> bool {
        self.screen.is_none() && !matches!(self.format, Format::Json | Format::Result)
    }

    /// Ends when the output is not far behind the events.
    pub async fn room(&self) -> io::Result<()> {
        match &self.screen {
            Some(screen) => screen.room().await,
            None => Ok(()),
        }
    }

    pub fn event(&mut self, event: &Arc<Event>, output: &mut Output) {
        let payload = &event.payload;
        if let Some(screen) = &self.screen {
            screen.event(event);
        }
        if self.session_id.is_none() {
            return;
        }
        if payload.session_id() != self.session_id.as_ref() {
            if let EventPayload::PartUpdated { part, .. } = payload
                && self.is_plain()
            {
                self.part_below(part, output);
            }
            return;
        }
        if let EventPayload::SessionError { error, .. } = payload
            && error.as_ref().is_none_or(|error| self.is_told(error))
        {
            self.fail(error.as_ref().map(MessageError::message).unwrap_or_default(), output);
        }
        if let EventPayload::MessageUpdated { info, .. } = payload {
            self.turn.note_message(info);
            if let Message::Assistant(message) = &**info {
                self.message_error = message.error.clone();
                self.note_answer(message);
            }
        }
        if self.screen.is_none() {
            self.show(payload, output);
        }
    }

    fn note_answer(&mut self, message: &AssistantMessage) {
        let context = match (message.tokens.context(), &self.answered) {
            (0, Some((.., before))) => *before,
            (context, _) => context,
        };
        let (provider_id, model_id) = (message.provider_id.clone(), message.model_id.clone());
        let model = ModelRef { provider_id, model_id, variant: None };
        self.answered = Some((model, message.agent.clone(), context));
    }

    /// Names the model that answered behind the turn, and how full its context is.
    pub fn name_model(&mut self, name: impl FnOnce(&ModelRef) -> Option<(String, u64)>) {
        let Some((model, agent, context)) = &self.answered else { return };
        self.closing.answered = name(model).map(|(model, limit)| Answered {
            model,
            agent: agent.clone(),
            percent: (*context > 0).then(|| (context * 100).checked_div(limit)).flatten(),
        });
    }

    fn show(&mut self, payload: &EventPayload, output: &mut Output) {
        match payload {
            EventPayload::PartUpdated { part, .. } => {
                if let Some(news) = self.turn.part(part) {
                    self.part(part, news, output);
                }
            }
            EventPayload::PartDelta { part_id, delta, offset, .. } => {
                if let Some((new, false)) = self.turn.delta(part_id, delta, *offset) {
                    self.text(new, output);
                }
            }
            EventPayload::SessionStatus {
                status: SessionStatus::Retry { attempt, message, next, limit },
                ..
            } => {
                let delay = figures::clock(next - clock::now_ms() + 500);
                let count = retry_count(*attempt, *limit);
                let message = message.trim_end_matches('.');
                self.remark(&format!("{message}; again in {delay}, {count}"), output);
            }
            EventPayload::Toast { title, message, .. } if self.format != Format::Json => {
                self.remark(format!("{title} {message}").trim(), output);
            }
            EventPayload::SessionCreated(_)
            | EventPayload::SessionUpdated(_)
            | EventPayload::SessionDeleted(_)
            | EventPayload::SessionStatus { .. }
            | EventPayload::SessionIdle { .. }
            | EventPayload::SessionError { .. }
            | EventPayload::SessionCompacted { .. }
            | EventPayload::SessionDiff { .. }
            | EventPayload::CommandExecuted { .. }
            | EventPayload::Inbox(_)
            | EventPayload::MessageUpdated { .. }
            | EventPayload::MessageRemoved { .. }
            | EventPayload::PartRemoved { .. }
            | EventPayload::PermissionAsked(_)
            | EventPayload::PermissionReplied { .. }
            | EventPayload::QuestionAsked(_)
            | EventPayload::QuestionReplied { .. }
            | EventPayload::QuestionRejected { .. }
            | EventPayload::PageCompleted { .. }
            | EventPayload::AgentSwitched { .. }
            | EventPayload::TodoUpdated { .. }
            | EventPayload::FileEdited { .. }
            | EventPayload::Toast { .. }
            | EventPayload::McpToolsChanged { .. }
            | EventPayload::ConfigUpdated { .. }
            | EventPayload::Service(_) => {}
        }
    }

    /// Returns true for an end that counts as a failure. A cancelled turn is none: programs read it in the stream, and
    /// people see its cause.
    fn is_told(&self, error: &MessageError) -> bool {
        self.format == Format::Json || !matches!(error, MessageError::MessageAbortedError { .. })
    }

    /// Shows that the turn failed, once.
    pub fn fail(&mut self, message: &str, output: &mut Output) {
        if std::mem::replace(&mut self.has_failed, true) {
            return;
        }
        let unknown = || MessageError::UnknownError { message: message.to_owned() };
        let error = self.message_error.take().unwrap_or_else(unknown);
        if self.screen.is_some() {
            self.closing.error = Some(error.message().to_owned());
            return;
        }
        match self.format {
            Format::Default | Format::Object | Format::Final | Format::Result => {
                self.remark(&format!("Error: {}", error.message()), output)
            }
            Format::Json => self.line("error", "error", json!(error), output),
        }
    }

    /// Ends the text, and says how the turn ended.
    pub async fn end(&mut self, remark: Option<&str>, output: &mut Output) -> io::Result<()> {
        // A refusal ends the turn without an error of the session.
        if let Some(error) = self.message_error.clone().filter(|error| self.is_told(error)) {
            self.fail(error.message(), output);
        }
        if let Some(screen) = &self.screen {
            let remark = remark.map(str::to_owned);
            return screen.end(Closing { remark, ..std::mem::take(&mut self.closing) }).await;
        }
        self.end_line(output);
        if let Some(remark) = remark {
            self.remark(remark, output);
        }
        Ok(())
    }

    /// Gives the terminal to a dialogue, with everything said so far on it.
    pub async fn suspend(&mut self, output: &mut Output) -> io::Result<Option<Suspended>> {
        match &self.screen {
            Some(screen) => screen.suspend().await.map(Some),
            None => {
                self.end_line(output);
                Ok(None)
            }
        }
    }

    /// Leaves a turn that was interrupted as it is.
    pub async fn abandon(&self) -> io::Result<()> {
        match &self.screen {
            Some(screen) => {
                screen.end(Closing { remark: Some("Interrupted.".to_owned()), ..Closing::default() }).await
            }
            None => Ok(()),
        }
    }

    fn part(&mut self, part: &Part, news: News<'_>, output: &mut Output) {
        let News { kind, is_ended } = news;
        if self.format == Format::Json {
            if is_ended && !matches!(kind, NewsKind::Summary) {
                self.part_line(part, output);
            }
            return;
        }
        match kind {
            NewsKind::Summary => {
                if is_ended && matches!(part.kind, PartKind::Text(_)) {
                    self.remark("The conversation was summarised to make room.", output);
                }
            }
            NewsKind::Text(text) => {
                self.text(text.new, output);
                if is_ended {
                    self.end_line(output);
                }
            }
            NewsKind::Thought(text) if is_ended && self.look.shows_thoughts => {
                self.remark(&format!("Thinking: {}", text.whole.trim()), output);
            }
            NewsKind::Call(call) if is_ended => self.call(call, "", output),
            NewsKind::Thought(_) | NewsKind::Call(_) | NewsKind::Other => {}
        }
    }

    /// Shows a subagent's command that failed; their call tells the rest.
    fn part_below(&mut self, part: &Part, output: &mut Output) {
        let PartKind::Tool(call) = &part.kind else { return };
        if has_failed(call) && self.turn.finish(&part.id) {
            self.call(call, "  ", output);
        }
    }

    fn call(&mut self, call: &ToolPart, indent: &str, output: &mut Output) {
        self.remark(&format!("{indent}{}", tool_line(call, &self.look)), output);
        for line in failed_output(call) {
            self.remark(&format!("{indent}  {line}"), output);
        }
    }

    fn part_line(&self, part: &Part, output: &mut Output) {
        let kind = match &part.kind {
            PartKind::Text(_) => "text",
            PartKind::Reasoning(_) if self.look.shows_thoughts => "reasoning",
            PartKind::Tool(_) => "tool_use",
            PartKind::StepStart { .. } => "step_start",
            PartKind::StepFinish { .. } => "step_finish",
            PartKind::Reasoning(_)
            | PartKind::File(_)
            | PartKind::Snapshot { .. }
            | PartKind::Patch { .. }
            | PartKind::Agent { .. }
            | PartKind::Subtask { .. }
            | PartKind::Retry { .. }
            | PartKind::Compaction { .. } => return,
        };
        self.line(kind, "part", json!(part), output);
    }

    fn line(&self, kind: &str, field: &str, value: Value, output: &mut Output) {
        let mut line = json!({"type": kind, "timestamp": clock::now_ms(), "sessionID": self.session_id});
        line[field] = value;
        output.push(Stream::Out, &format!("{line}\n"));
    }

    fn text(&mut self, text: &str, output: &mut Output) {
        if self.format == Format::Default && !text.is_empty() {
            output.push(Stream::Out, text);
            self.is_mid_line = !text.ends_with('\n');
        }
    }

    fn end_line(&mut self, output: &mut Output) {
        if std::mem::take(&mut self.is_mid_line) {
            output.push(Stream::Out, "\n");
        }
    }

    /// Prints a line on standard error, which on a terminal must not be within the text.
    pub fn remark(&mut self, text: &str, output: &mut Output) {
        if let Some(screen) = &self.screen {
            screen.notice(text);
            return;
        }
        self.end_line(output);
        output.push(Stream::Err, &format!("{text}\n"));
    }
}

/// Returns the end of a command that failed, in words; `None` for other calls.
fn failed_end(command: &tool_metadata::Command<'_>) -> Option<String> {
    match (command.exit, command.signal) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("ended by {signal}")),
    }
}

fn has_failed(call: &ToolPart) -> bool {
    let ToolState::Completed { metadata, .. } = &call.state else { return false };
    decode(metadata).is_some_and(|command: tool_metadata::Command<'_>| failed_end(&command).is_some())
}

/// Returns the last lines of a command that failed: the reason is mostly there.
fn failed_output(call: &ToolPart) -> Vec<String> {
    let ToolState::Completed { output: told, metadata, .. } = &call.state else { return Vec::new() };
    let command: Option<tool_metadata::Command<'_>> = decode(metadata);
    let Some(command) = command.filter(|command| failed_end(command).is_some()) else { return Vec::new() };
    let printed = command.output.unwrap_or(told).trim_end();
    let lines: Vec<&str> = printed.lines().collect();
    lines[lines.len().saturating_sub(MAX_FAILED_LINES)..].iter().map(|line| short(line)).collect()
}

/// Renders a call as `| bash  echo hi`, with the error of a failed one, and the exit code of a failed command.
fn tool_line(call: &ToolPart, look: &Look) -> String {
    let subject = short(&tool::about(call, look));
    match &call.state {
        ToolState::Error { error, metadata, .. } => {
            let reason = tool::reason::of(error, metadata.as_ref());
            format!("| {}  {subject}: {}", call.tool, short(&reason))
        }
        ToolState::Completed { metadata, .. } => {
            let end = decode(metadata).and_then(|command: tool_metadata::Command<'_>| failed_end(&command));
            let end = end.map(|end| format!(": {end}")).unwrap_or_default();
            format!("| {}  {subject}{end}", call.tool)
        }
        ToolState::Pending { .. } | ToolState::Running { .. } => format!("| {}  {subject}", call.tool),
    }
}

fn short(text: &str) -> String {
    let line = output::plain(text);
    match text::head(&line, MAX_SUBJECT) {
        head if head.len() < line.len() => format!("{head}…"),
        whole => whole.to_owned(),
    }
}

#[cfg(test)]
mod tests;
