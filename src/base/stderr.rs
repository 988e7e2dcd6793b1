//! Logging of a server's standard error, line by line. The last line is kept to explain the server's end.

use std::sync::Mutex;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::lock::lock;

/// Maximum bytes of a server's log message.
pub const MAX_LOG_BYTES: usize = 4096;

/// Logs lines until the end, each after `mask`, and stores the last one that is not blank in `last_line`.
pub async fn log_lines(
    server: &str,
    stderr: impl AsyncRead + Unpin,
    mask: impl Fn(&str) -> String,
    last_line: &Mutex<String>,
) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let (n_bytes, is_end_of_line) = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(chunk) => {
                let newline = chunk.iter().position(|byte| *byte == b'\n');
                let text = &chunk[..newline.unwrap_or(chunk.len())];
                let room = MAX_LOG_BYTES.saturating_sub(line.len());
                line.extend_from_slice(&text[..text.len().min(room)]);
                (newline.map_or(chunk.len(), |idx| idx + 1), newline.is_some())
            }
        };
        reader.consume(n_bytes);
        if is_end_of_line {
            log_line(server, &line, &mask, last_line);
            line.clear();
        }
    }
    log_line(server, &line, &mask, last_line);
}

fn log_line(server: &str, line: &[u8], mask: &impl Fn(&str) -> String, last_line: &Mutex<String>) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let text = mask(text);
    tracing::info!(server, "{text}");
    *lock(last_line) = text;
}
