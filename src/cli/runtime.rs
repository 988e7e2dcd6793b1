//! The runtime under the commands that need the engine, and the signals that end them.

use std::{future::Future, process::ExitCode};

use futures_util::future::LocalBoxFuture;
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

use super::output;
use crate::base::process::register;

/// Threads for file work, the store and the pipes.
const BLOCKING_THREADS: usize = 32;

/// Runs a command to its end on one thread.
pub fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    run(Box::pin(work))
}

/// The same code for every command.
fn run(work: LocalBoxFuture<'_, ExitCode>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return output::fail(&format!("The runtime cannot be started: {error}.")),
    };
    let code = runtime.block_on(async {
        // A file that outgrows a limit fails that write; it does not end the process.
        let _outgrown = signal(SignalKind::from_raw(Signal::SIGXFSZ as i32));
        let code = work.await;
        register::close().await;
        code
    });
    // A thread may still wait for input that never comes; the process ends without it.
    runtime.shutdown_background();
    code
}

/// Ends with the first signal that asks the process to end, and says its number.
pub async fn signalled() -> u8 {
    let (hangup, interrupt, terminate) =
        (SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate());
    let (Ok(mut hangups), Ok(mut interrupts), Ok(mut terminates)) =
        (signal(hangup), signal(interrupt), signal(terminate))
    else {
        // Without handlers the signals end the process themselves.
        return std::future::pending().await;
    };
    let kind = tokio::select! {
        _ = hangups.recv() => hangup,
        _ = interrupts.recv() => interrupt,
        _ = terminates.recv() => terminate,
    };
    u8::try_from(kind.as_raw_value()).unwrap_or_default()
}
