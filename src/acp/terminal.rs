//! Output of commands for the client: all bytes for a terminal of its own, else now and then the last lines.

use std::{collections::HashMap, time::Duration};

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use windlass_base::text;
use windlass_engine as engine;
use windlass_protocol::opencode::{
    id::{PartId, SessionId},
    part::{MAX_LIVE_CHARS, ToolPart, ToolState},
    tool::Subject,
    tool_metadata::{Command, RunningCommand, decode},
};
use windlass_protocol_acp::{
    decode::Terminals,
    schema::{
        ContentBlock, SessionUpdate, Terminal, TextContent, ToolCall, ToolCallContent, ToolCallUpdate,
        ToolCallUpdateFields,
    },
};

use super::{
    lines::Lines,
    to_proto::{BaseDirectories, LIVE_TAIL},
    v2::Exit,
};

/// Interval between two updates of the last lines when all of them are new.
const QUICK: Duration = Duration::from_millis(100);
/// The same when few are new: every time, all of them are sent.
const SLOW: Duration = Duration::from_secs(1);

/// The commands that run, and the part of their output that the client has.
#[derive(Default)]
pub struct Outputs {
    pub terminals: Terminals,
    running: HashMap<PartId, Output>,
}

/// The part of one command's output that the client has.
struct Output {
    session_id: SessionId,
    call_id: String,
    /// Bytes of everything printed.
    n_shown: usize,
    shown: Option<Instant>,
    waiting: Option<Waiting>,
}

/// Last lines that are not to be shown yet.
struct Waiting {
    due: Instant,
    tail: String,
    n_printed: usize,
}

impl Outputs {
    /// Gives a command's call its terminal.
    pub fn open(
        &self,
        session_id: &SessionId,
        call: ToolCall,
        tool: &ToolPart,
        bases: BaseDirectories<'_>,
        out: &mut Lines<'_>,
    ) -> ToolCall {
        if !self.is_terminal(tool) {
            return call;
        }
        let cwd = bases.workdir(tool.state.input());
        let call = call.content(vec![ToolCallContent::Terminal(Terminal::new(tool.call_id.clone()))]);
        out.terminal_begin(session_id, &tool.call_id, command(tool), &cwd);
        match self.key() {
            Some(_) => {
                let mut call = call;
                let info = json!({ "terminal_id": tool.call_id, "cwd": cwd });
                call.meta.get_or_insert_default().insert("terminal_info".to_owned(), info);
                call
            }
            None => call,
        }
    }

    /// Returns the update that says that a call runs; [`Outputs::more`] then shows its output. A call that the
    /// client has known before its input has a terminal in `opened_in`, which may not be where the command runs.
    pub fn begin(
        &self,
        session_id: &SessionId,
        mut update: ToolCallUpdate,
        tool: &ToolPart,
        bases: BaseDirectories<'_>,
        opened_in: Option<BaseDirectories<'_>>,
        out: &mut Lines<'_>,
    ) -> ToolCallUpdate {
        if is_printing(tool) {
            update.fields.content = None;
        }
        if self.is_terminal(tool) && opened_in.is_some() {
            let cwd = bases.workdir(tool.state.input());
            out.terminal_begin(session_id, &tool.call_id, command(tool), &cwd);
        }
        let moved = opened_in.map(|bases| (bases.workdir(tool.state.input()), bases.cwd));
        let moved = moved.filter(|(directory, cwd)| directory != cwd);
        let has_key = self.is_terminal(tool) && self.key().is_some();
        if let Some((directory, _)) = moved.filter(|_| has_key) {
            let info = json!({ "terminal_id": tool.call_id, "cwd": directory });
            update.meta.get_or_insert_default().insert("terminal_info".to_owned(), info);
        }
        update
    }

    /// Shows the new output of a running command. False where the call is to be shown by its state.
    pub fn more(
        &mut self,
        session_id: &SessionId,
        part_id: &PartId,
        tool: &ToolPart,
        now: Instant,
        out: &mut Lines<'_>,
    ) -> bool {
        let Some((printed, n_printed)) = printed(tool) else {
            // Text would take the place of a terminal, as for a command that is being cancelled.
            return self.is_terminal(tool) && self.running.contains_key(part_id);
        };
        let (is_terminal, key) = (self.is_terminal(tool), self.key());
        let output = self.running.entry(part_id.clone()).or_insert_with(|| Output {
            session_id: session_id.clone(),
            call_id: tool.call_id.clone(),
            n_shown: 0,
            shown: None,
            waiting: None,
        });
        if is_terminal {
            output.write(printed, n_printed, key, out);
        } else {
            output.set_tail(text::tail(printed, LIVE_TAIL), n_printed, now, out);
        }
        true
    }

    /// Shows the end of a call.
    pub fn end(
        &mut self,
        session_id: &SessionId,
        part_id: &PartId,
        tool: &ToolPart,
        mut update: ToolCallUpdate,
        out: &mut Lines<'_>,
    ) {
        let n_shown = self.running.remove(part_id).map_or(0, |output| output.n_shown);
        let metadata = match &tool.state {
            ToolState::Completed { metadata, .. } => Some(metadata),
            ToolState::Error { metadata, .. } => metadata.as_ref(),
            ToolState::Pending { .. } | ToolState::Running { .. } => None,
        };
        if self.is_terminal(tool) {
            let command: Command<'_> = metadata.and_then(decode).unwrap_or_default();
            let printed = command.output.unwrap_or_default();
            // Live, everything has been shown by now; of a call of the past there is the end.
            if n_shown == 0 && !printed.is_empty() {
                let is_cut = printed.chars().count() >= MAX_LIVE_CHARS;
                let mark = if is_cut { "[what came before is not shown]\r\n" } else { "" };
                let printed = format!("{mark}{printed}");
                match self.key() {
                    Some(key) => send_output(session_id, &tool.call_id, &printed, key, out),
                    None => out.terminal_snapshot(session_id, &tool.call_id, &printed),
                }
            }
            let ran = matches!(tool.state, ToolState::Completed { .. }) || n_shown > 0 || !printed.is_empty();
            // Content would take the place of the terminal, which is right only where nothing ran.
            if ran {
                update.fields.content = None;
            }
            let exit = Exit { code: command.exit, signal: command.signal };
            out.terminal_exit(session_id, &tool.call_id, exit);
            if self.key().is_some() {
                let exit = json!({
                    "terminal_id": tool.call_id, "exit_code": command.exit, "signal": command.signal,
                });
                update.meta.get_or_insert_default().insert("terminal_exit".to_owned(), exit);
            }
        }
        out.update(session_id, SessionUpdate::ToolCallUpdate(update));
    }

    /// Returns the time of the next update that needs no new event.
    pub fn due(&self) -> Option<Instant> {
        self.running.values().filter_map(|output| output.waiting.as_ref()).map(|waiting| waiting.due).min()
    }

    /// Shows the output that is due.
    pub fn show_due(&mut self, now: Instant, out: &mut Lines<'_>) {
        for output in self.running.values_mut() {
            if let Some(waiting) = output.waiting.take_if(|waiting| waiting.due <= now) {
                output.send_tail(&waiting.tail, waiting.n_printed, now, out);
            }
        }
    }

    /// Forgets the calls of a session that is idle or gone.
    pub fn forget(&mut self, session_id: &SessionId) {
        self.running.retain(|_, output| output.session_id != *session_id);
    }

    fn is_terminal(&self, tool: &ToolPart) -> bool {
        let is_command = engine::tool_look(&tool.tool).subject == Subject::Command;
        self.terminals != Terminals::None && is_command
    }

    /// Returns the key that brings output to a terminal of the client's own.
    fn key(&self) -> Option<&'static str> {
        match self.terminals {
            Terminals::Output => Some("terminal_output"),
            Terminals::OutputDelta => Some("terminal_output_delta"),
            Terminals::Owned | Terminals::None => None,
        }
    }
}

impl Output {
    /// Writes new output to the client's terminal. Of a flood only the end is there to be shown.
    fn write(&mut self, printed: &str, n_printed: usize, key: Option<&'static str>, out: &mut Lines<'_>) {
        let mut send = |text: &str| match key {
            Some(key) => send_output(&self.session_id, &self.call_id, text, key, out),
            None => out.terminal_output(&self.session_id, &self.call_id, text),
        };
        let n_new = n_printed.saturating_sub(self.n_shown);
        let new = printed.len().checked_sub(n_new).and_then(|start| printed.get(start..));
        match new {
            Some("") => return,
            Some(new) => send(new),
            None => {
                // From the next line on: a sequence that sets a colour may have been cut.
                let new = printed.split_once('\n').map_or(printed, |(_, rest)| rest);
                let n_left_out = n_new - new.len();
                send(&format!("\u{1b}[0m\r\n[{n_left_out} bytes are not shown]\r\n{new}"));
            }
        }
        self.n_shown = n_printed;
    }

    fn set_tail(&mut self, tail: &str, n_printed: usize, now: Instant, out: &mut Lines<'_>) {
        let n_new = n_printed.saturating_sub(self.n_shown);
        if n_new == 0 {
            return;
        }
        let pause = if n_new >= tail.len() { QUICK } else { SLOW };
        match self.shown.map(|shown| shown + pause).filter(|due| *due > now) {
            Some(due) => self.waiting = Some(Waiting { due, tail: tail.to_owned(), n_printed }),
            None => self.send_tail(tail, n_printed, now, out),
        }
    }

    fn send_tail(&mut self, tail: &str, n_printed: usize, now: Instant, out: &mut Lines<'_>) {
        self.waiting = None;
        self.shown = Some(now);
        self.n_shown = n_printed;
        let content = ContentBlock::Text(TextContent::new(tail)).into();
        let fields = ToolCallUpdateFields::new().content(vec![content]);
        let update = ToolCallUpdate::new(self.call_id.clone(), fields);
        out.update(&self.session_id, SessionUpdate::ToolCallUpdate(update));
    }
}

/// Returns the end of a running command's output, and the number of all its bytes.
fn printed(tool: &ToolPart) -> Option<(&str, usize)> {
    let ToolState::Running { metadata: Some(metadata), .. } = &tool.state else { return None };
    let RunningCommand { output, printed } = decode(metadata)?;
    Some((output, usize::try_from(printed?).ok()?))
}

fn is_printing(tool: &ToolPart) -> bool {
    printed(tool).is_some()
}

fn send_output(session_id: &SessionId, call_id: &str, data: &str, key: &'static str, out: &mut Lines<'_>) {
    let output = json!({ "terminal_id": call_id, "data": data });
    let meta = Map::from_iter([(key.to_owned(), output)]);
    let update = ToolCallUpdate::new(call_id.to_owned(), ToolCallUpdateFields::new()).meta(meta);
    out.update(session_id, SessionUpdate::ToolCallUpdate(update));
}

/// Returns the command of a call, once its input is there.
fn command(tool: &ToolPart) -> Option<&str> {
    tool.state.input().get("command").and_then(Value::as_str)
}

#[cfg(test)]
mod tests;
