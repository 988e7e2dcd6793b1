//! Reads a message that is too long to keep: the id that it answers, and its texts into a file.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use rmcp::model::ClientRequest;
use serde_json::{Value, json};
use windlass_base::{ids, private_file, text};

/// Bytes of text that are kept in a file; the rest of a longer one is lost.
const MAX_SAVED: u64 = 256 << 20;
/// Bytes of the beginning that are shown.
const MAX_HEAD: usize = 2000;
/// Bytes that are kept of a key, an id or a message.
const MAX_TOKEN: usize = 1000;
/// Objects and lists within each other; deeper ones are not looked at.
const MAX_DEPTH: usize = 64;

/// A message that is still being read.
#[derive(Debug)]
pub(super) struct Large {
    scan: Scan,
    n_bytes: u64,
    directory: PathBuf,
    saved: Saved,
}

/// The texts of the message.
#[derive(Debug)]
enum Saved {
    Nothing,
    In { path: PathBuf, file: File, n_bytes: u64, head: Vec<u8> },
    Failed(io::Error),
}

/// The kinds of requests with long answers that can be shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Call,
    /// A resource, by its address.
    Read(String),
    Other,
}

impl Asked {
    pub(super) fn of(request: &ClientRequest) -> Self {
        match request {
            ClientRequest::CallToolRequest(_) => Self::Call,
            ClientRequest::ReadResourceRequest(read) => Self::Read(read.params.uri.clone()),
            _other => Self::Other,
        }
    }
}

impl Large {
    /// Begins to read a message; a file is made in the directory when there is a text.
    pub(super) fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { scan: Scan::default(), n_bytes: 0, directory, saved: Saved::Nothing }
    }

    /// Reads on.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.n_bytes += bytes.len() as u64;
        let mut found = Vec::new();
        for byte in bytes {
            self.scan.push(*byte, &mut found);
        }
        if !found.is_empty() {
            self.saved.append(&self.directory, &found);
        }
    }

    /// Returns the id of the request that the message answers; `None` if it is no answer, or not all of one.
    pub(super) fn id(&self) -> Option<Value> {
        if self.scan.is_call || !self.scan.frames.is_empty() { None } else { self.scan.id.clone() }
    }

    /// Returns the short message in place of the long one.
    pub(super) fn shortened(mut self, asked: &Asked) -> Value {
        self.saved.append(&self.directory, b"");
        let id = self.id();
        let size = self.n_bytes;
        if let Some(message) = self.scan.error.take() {
            return json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": message}});
        }
        let words = match &self.saved {
            Saved::In { path, n_bytes, head, .. } => {
                let shown = String::from_utf8_lossy(head);
                let shown = text::head(&shown, MAX_HEAD);
                let cut = if *n_bytes > MAX_SAVED { " The rest of it is lost." } else { "" };
                format!(
                    "{shown}\n\n...the answer has {size} bytes, which is too much to show. Its text is saved to: \
                     {}\nSearch it with the grep tool, or view parts of it with the read tool's offset and \
                     limit.{cut}",
                    path.display()
                )
            }
            Saved::Failed(error) => {
                format!(
                    "The answer has {size} bytes, which is too much to show, and it could not be saved: {error}"
                )
            }
            Saved::Nothing => format!(
                "The answer has {size} bytes, which is too much to show, and no text that could be saved. Ask for \
                 less at a time."
            ),
        };
        let result = match asked {
            Asked::Call => {
                json!({"content": [{"type": "text", "text": words}], "isError": self.scan.is_error})
            }
            Asked::Read(uri) => json!({"contents": [{"uri": uri, "text": words}]}),
            Asked::Other => {
                self.saved.remove();
                let message = format!("the answer has {size} bytes, which is too much");
                return json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": message}});
            }
        };
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    }

    /// Forgets the message.
    pub(super) fn discard(mut self) {
        self.saved.remove();
    }
}

impl Saved {
    fn append(&mut self, directory: &Path, found: &[u8]) {
        if matches!(self, Self::Nothing) && !found.is_empty() {
            *self = match private_file::create(directory, &ids::tool_output()) {
                Ok((path, file)) => Self::In { path, file, n_bytes: 0, head: Vec::new() },
                Err(error) => Self::Failed(error),
            };
        }
        let Self::In { file, n_bytes, head, .. } = self else { return };
        let room = usize::try_from(MAX_SAVED.saturating_sub(*n_bytes)).unwrap_or(usize::MAX);
        let written = file.write_all(&found[..found.len().min(room)]);
        *n_bytes += found.len() as u64;
        let for_head = found.len().min((MAX_HEAD + 4).saturating_sub(head.len()));
        head.extend_from_slice(&found[..for_head]);
        if let Err(error) = written {
            self.remove();
            *self = Self::Failed(error);
        }
    }

    /// Removes the file, which is named nowhere.
    fn remove(&mut self) {
        if let Self::In { path, .. } = self {
            // A file that cannot be removed goes with the other old outputs.
            let _ = fs::remove_file(path);
        }
    }
}

/// Reads JSON byte by byte.
#[derive(Debug, Default)]
struct Scan {
    frames: Vec<Frame>,
    /// Objects and lists deeper than [`MAX_DEPTH`].
    n_deeper: usize,
    within: Within,
    /// A key, or a value of interest.
    token: Vec<u8>,
    has_text: bool,
    high_surrogate: Option<u32>,
    id: Option<Value>,
    is_call: bool,
    is_error: bool,
    error: Option<String>,
}

#[derive(Debug)]
struct Frame {
    is_object: bool,
    key: Vec<u8>,
    expects_key: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    #[default]
    Structure,
    Literal,
    String(Use),
    Escape(Use),
    /// An escaped code unit: the digits read so far, and their value.
    Unicode(Use, u8, u32),
}

/// The use of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Key,
    /// A value that may matter to us.
    Token,
    /// A text for the model.
    Text,
}

impl Scan {
    fn push(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.within {
            Within::Structure => self.structure(byte, out),
            Within::Literal => match byte {
                b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n' => {
                    self.within = Within::Structure;
                    self.end_value(false);
                    self.structure(byte, out);
                }
                _ => self.keep(byte),
            },
            Within::String(used) => match byte {
                b'"' => {
                    self.within = Within::Structure;
                    self.high_surrogate = None;
                    match used {
                        Use::Key => {
                            let key = std::mem::take(&mut self.token);
                            if let Some(frame) = self.frames.last_mut() {
                                frame.key = key;
                                frame.expects_key = false;
                            }
                        }
                        Use::Token => self.end_value(true),
                        Use::Text => {}
                    }
                }
                b'\\' => self.within = Within::Escape(used),
                _ => self.say(used, &[byte], out),
            },
            Within::Escape(used) => {
                self.within = Within::String(used);
                match byte {
                    b'n' => self.say(used, b"\n", out),
                    b't' => self.say(used, b"\t", out),
                    b'r' => self.say(used, b"\r", out),
                    b'b' => self.say(used, b"\x08", out),
                    b'f' => self.say(used, b"\x0c", out),
                    b'u' => self.within = Within::Unicode(used, 0, 0),
                    _ => self.say(used, &[byte], out),
                }
            }
            Within::Unicode(used, n_digits, value) => {
                let value = value * 16 + char::from(byte).to_digit(16).unwrap_or(0);
                if n_digits < 3 {
                    self.within = Within::Unicode(used, n_digits + 1, value);
                    return;
                }
                self.within = Within::String(used);
                let code = match (self.high_surrogate.take(), value) {
                    (_, 0xD800..0xDC00) => {
                        self.high_surrogate = Some(value);
                        return;
                    }
                    (Some(high), 0xDC00..0xE000) => 0x10000 + ((high - 0xD800) << 10) + (value - 0xDC00),
                    _ => value,
                };
                let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                self.say(used, char.encode_utf8(&mut [0; 4]).as_bytes(), out);
            }
        }
    }

    fn structure(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'{' | b'[' if self.frames.len() == MAX_DEPTH => self.n_deeper += 1,
            b'{' | b'[' => {
                let is_object = byte == b'{';
                self.frames.push(Frame { is_object, key: Vec::new(), expects_key: is_object });
            }
            b'}' | b']' if self.n_deeper > 0 => self.n_deeper -= 1,
            b'}' | b']' => _ = self.frames.pop(),
            b',' => {
                if let Some(frame) = self.frames.last_mut().filter(|_| self.n_deeper == 0) {
                    frame.expects_key = frame.is_object;
                }
            }
            b'"' => {
                self.token.clear();
                let is_key = self.n_deeper == 0 && self.frames.last().is_some_and(|frame| frame.expects_key);
                let used = match (is_key, self.is_text()) {
                    (true, _) => Use::Key,
                    (false, true) => Use::Text,
                    (false, false) => Use::Token,
                };
                if used == Use::Text && std::mem::replace(&mut self.has_text, true) {
                    out.extend_from_slice(b"\n\n");
                }
                self.within = Within::String(used);
            }
            b':' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => {
                self.token.clear();
                self.keep(byte);
                self.within = Within::Literal;
            }
        }
    }

    /// Returns true if the value that begins is the text of a piece of the result.
    fn is_text(&self) -> bool {
        let mut keys = self.path();
        self.n_deeper == 0
            && keys.next() == Some(b"result")
            && matches!(keys.next(), Some(b"content" | b"contents"))
            && keys.last() == Some(b"text")
    }

    fn path(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().filter(|frame| frame.is_object).map(|frame| frame.key.as_slice())
    }

    fn say(&mut self, used: Use, bytes: &[u8], out: &mut Vec<u8>) {
        match used {
            Use::Text => out.extend_from_slice(bytes),
            Use::Key | Use::Token => bytes.iter().for_each(|byte| self.keep(*byte)),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.token.len() < MAX_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_value(&mut self, is_string: bool) {
        let token = String::from_utf8_lossy(&self.token);
        let mut keys = self.path();
        match (self.n_deeper, keys.next(), keys.next(), keys.next()) {
            (0, Some(b"id"), None, None) => {
                let id = if is_string { Some(token.into()) } else { serde_json::from_str(&token).ok() };
                drop(keys);
                self.id = id;
            }
            (0, Some(b"method"), None, None) => {
                drop(keys);
                self.is_call = true;
            }
            (0, Some(b"result"), Some(b"isError"), None) => {
                let is_error = token == "true";
                drop(keys);
                self.is_error = is_error;
            }
            (0, Some(b"error"), Some(b"message"), None) => {
                let message = token.into_owned();
                drop(keys);
                self.error = Some(message);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
