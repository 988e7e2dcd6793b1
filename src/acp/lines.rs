//! Messages to the client as lines, each in the words of the version that it speaks.

use std::{
    io::{self, Write},
    path::Path,
};

use serde::Serialize;
use windlass_protocol::{
    opencode::{id::SessionId, session::Todo},
    rpc::{self, Id},
};
use windlass_protocol_acp::{
    decode::Version,
    schema::{RequestPermissionRequest, SessionUpdate, ToolCall},
};

use super::{
    v1,
    v2::{self, Exit},
};

/// Form of the messages that differ between clients.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dialect {
    pub version: Version,
    /// Changes carry a patch in JetBrains' form.
    pub has_diff_patches: bool,
    /// Plans have ids.
    pub has_plans: bool,
}

/// Destination of lines.
pub struct Lines<'a> {
    pub dialect: Dialect,
    pub bytes: &'a mut Vec<u8>,
}

impl Lines<'_> {
    /// Encodes a `session/update`, unless the client's version has no word for it.
    pub fn update(&mut self, id: &SessionId, update: SessionUpdate) {
        match self.dialect.version {
            Version::V1 => self.notify(id, v1::update(update, self.dialect.has_diff_patches)),
            Version::V2 => {
                if let Some(update) = v2::update(&update) {
                    self.notify(id, update);
                }
            }
        }
    }

    /// Encodes the first message about a tool call.
    pub fn tool_call(&mut self, id: &SessionId, call: &ToolCall) {
        match self.dialect.version {
            Version::V1 => self.notify(id, v1::tool_call(call)),
            Version::V2 => self.notify(id, v2::tool_call(call)),
        }
    }

    /// Encodes a session's todo list.
    pub fn plan(&mut self, id: &SessionId, todos: &[Todo]) {
        match self.dialect.version {
            Version::V1 => self.notify(id, v1::plan(todos, self.dialect.has_plans)),
            Version::V2 => self.notify(id, v2::plan(todos)),
        }
    }

    /// Encodes a question to the user.
    pub fn ask(&mut self, rpc_id: &Id, question: RequestPermissionRequest) {
        let method = "session/request_permission";
        match self.dialect.version {
            Version::V1 => {
                let question = v1::question(question, self.dialect.has_diff_patches);
                self.write(&rpc::request(rpc_id, method, question));
            }
            Version::V2 => self.write(&rpc::request(rpc_id, method, v2::question(&question))),
        }
    }

    /// Encodes the beginning of a terminal of ours, which only version 2 knows.
    pub fn terminal_begin(&mut self, id: &SessionId, terminal_id: &str, command: Option<&str>, cwd: &Path) {
        if self.dialect.version == Version::V2 {
            self.notify(id, v2::terminal_begin(terminal_id, command, cwd));
        }
    }

    /// Encodes the bytes that a terminal of ours holds in all, which only version 2 knows.
    pub fn terminal_snapshot(&mut self, id: &SessionId, terminal_id: &str, output: &str) {
        if self.dialect.version == Version::V2 {
            self.notify(id, v2::terminal_snapshot(terminal_id, output));
        }
    }

    /// Encodes more bytes of a terminal of ours, which only version 2 knows.
    pub fn terminal_output(&mut self, id: &SessionId, terminal_id: &str, output: &str) {
        if self.dialect.version == Version::V2 {
            self.notify(id, v2::terminal_output(terminal_id, output));
        }
    }

    /// Encodes the end of a terminal of ours, which only version 2 knows.
    pub fn terminal_exit(&mut self, id: &SessionId, terminal_id: &str, exit: Exit<'_>) {
        if self.dialect.version == Version::V2 {
            self.notify(id, v2::terminal_exit(terminal_id, exit));
        }
    }

    /// Encodes a `session/update` that is in the form of the client's version.
    pub fn notify(&mut self, id: &SessionId, update: impl Serialize) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a, T> {
            session_id: &'a SessionId,
            update: T,
        }
        self.write(&rpc::notification("session/update", Params { session_id: id, update }));
    }

    /// Encodes any message with its line feed.
    pub fn write(&mut self, message: &impl Serialize) {
        let start = self.bytes.len();
        match serde_json::to_writer(Pieces(self.bytes), message) {
            Ok(()) => self.bytes.push(b'\n'),
            Err(error) => {
                self.bytes.truncate(start);
                tracing::error!(%error, "a message could not be encoded");
            }
        }
    }
}

/// Takes the pieces of a line. Most are quotes, commas and escapes of a byte or two, for which calls of the allocator
/// and the copier would cost more than the bytes.
struct Pieces<'a>(&'a mut Vec<u8>);

impl Write for Pieces<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.write_all(piece)?;
        Ok(piece.len())
    }

    #[inline]
    fn write_all(&mut self, piece: &[u8]) -> io::Result<()> {
        match *piece {
            [one] => self.0.push(one),
            [one, two] => {
                self.0.push(one);
                self.0.push(two);
            }
            _ => self.0.extend_from_slice(piece),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
