//! Programs that read keys, such as `less` and `vi`. They share our process group, and so our terminal.
#![expect(
    clippy::disallowed_methods,
    reason = "a program in a group of its own cannot read the terminal's keys"
)]

use std::{
    ffi::OsStr,
    io,
    process::{ExitStatus, Stdio},
};

use tokio::{
    io::AsyncWriteExt,
    process::Command,
    signal::unix::{SignalKind, signal},
};

/// Runs a program on our terminal and returns when it ends. The terminal must have no other user until then.
pub async fn run(program: &str, args: &[&OsStr]) -> io::Result<ExitStatus> {
    let mut command = Command::new(program);
    command.args(args).envs(super::search::variable()).kill_on_drop(true);
    // Ctrl-C belongs to the program.
    let _interrupts = signal(SignalKind::interrupt())?;
    command.spawn()?.wait().await
}

/// Shows a text in a program and returns when the program ends.
pub async fn show(
    program: &str,
    args: &[&str],
    environment: &[(&str, &str)],
    text: &str,
) -> io::Result<ExitStatus> {
    let mut command = Command::new(program);
    command
        .args(args)
        .envs(super::search::variable())
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .kill_on_drop(true);
    // Ctrl-C belongs to the program: it stops a search in a long text, and must not end windlass under it.
    let _interrupts = signal(SignalKind::interrupt())?;
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A user may quit the program before it has read everything.
        let _ = stdin.write_all(text.as_bytes()).await;
    }
    child.wait().await
}
