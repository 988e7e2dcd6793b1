//! Logging of a server's standard error, line by line. The last line is kept to explain the server's end.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::lock::lock;

/// Maximum bytes of a server's log message.
pub const MAX_LOG_BYTES: usize = 4096;

/// Lines that are logged in a second; others of that second are left out.
const MAX_LINES: usize = 500;

/// Logs lines until the end, of a flood only its beginning, each after `mask`, and stores the last one that is not blank
/// in `last_line`. `flooded` is given the newest line, once, when more come than are logged.
pub async fn log_lines(
    server: &str,
    stderr: impl AsyncRead + Unpin,
    mask: impl Fn(&str) -> String,
    last_line: &Mutex<String>,
    flooded: impl Fn(&str),
) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    let (mut second, mut n_lines) = (Instant::now(), 0);
    let mut was_flooded = false;
    loop {
        if second.elapsed() >= Duration::from_secs(1) {
            (second, n_lines) = (Instant::now(), 0);
        }
        let (n_bytes, is_end_of_line) = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(chunk) if n_lines == MAX_LINES => (chunk.len(), false),
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
            n_lines += 1;
            if n_lines == MAX_LINES && !std::mem::replace(&mut was_flooded, true) {
                tracing::warn!(server, "prints more than {MAX_LINES} lines a second; the rest is not logged");
                flooded(&lock(last_line).clone());
            }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_flood_is_told_once_and_cut() {
        let text = "a line\n".repeat(20 * MAX_LINES);
        let (n_told, n_logged) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mask = |line: &str| {
            n_logged.fetch_add(1, Ordering::Relaxed);
            line.to_owned()
        };
        let told = |line: &str| {
            assert_eq!(line, "a line");
            n_told.fetch_add(1, Ordering::Relaxed);
        };
        log_lines("s", text.as_bytes(), mask, &Mutex::default(), told).await;
        assert_eq!(n_told.into_inner(), 1);
        assert!(n_logged.into_inner() < 20 * MAX_LINES);
    }
}
