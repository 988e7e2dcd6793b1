//! A program that shows a text and reads keys, such as `less`: it shares our group, and so our terminal.
#![expect(
    clippy::disallowed_methods,
    reason = "a program in a group of its own cannot read the terminal's keys"
)]

use std::{
    io,
    process::{ExitStatus, Stdio},
};

use tokio::{
    io::AsyncWriteExt,
    process::Command,
    signal::unix::{SignalKind, signal},
};

/// Has a program show a text, and ends when it does.
pub async fn show(
    program: &str,
    args: &[&str],
    environment: &[(&str, &str)],
    text: &str,
) -> io::Result<ExitStatus> {
    let mut command = Command::new(program);
    command.args(args).envs(environment.iter().copied()).stdin(Stdio::piped()).kill_on_drop(true);
    // Ctrl-C is the program's: it stops a search in a long text, and must not leave it without us.
    let _interrupts = signal(SignalKind::interrupt())?;
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A user who has seen enough ends the program before it has read everything.
        let _ = stdin.write_all(text.as_bytes()).await;
    }
    child.wait().await
}
