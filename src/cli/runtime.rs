//! The runtime under the commands that need the engine, and the signals that end them.

use std::{future::Future, process::ExitCode};

use futures_util::future::LocalBoxFuture;
use nix::sys::signal::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass_base::process::child_table;
use windlass_engine::{Engine, accounts::logins};

use super::output;
use crate::http;

/// Threads for file work, the store and the pipes.
const BLOCKING_THREADS: usize = 32;

/// Lets plugins ask the engine by the routes of `windlass serve`.
pub fn serve_plugins(engine: &Engine) {
    if let Ok(directory) = std::env::current_dir() {
        engine.plugins().serve(http::api(engine, directory));
    }
}

/// Runs a command to its end on one thread.
pub fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    run(Box::pin(work))
}

/// Runs a command's work on a runtime: one function, so that the code exists once.
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
        let _outgrown = signal(SignalKind::from_raw(Number::SIGXFSZ as i32));
        let code = work.await;
        logins::finish_renewals().await;
        child_table::close().await;
        code
    });
    // A thread may still wait for input that never comes; the process ends without it.
    runtime.shutdown_background();
    code
}

/// Takes the signals that ask the process to end from here on; ends with the first one, and says its number.
///
/// Must be called within the runtime.
pub fn signalled() -> impl Future<Output = u8> {
    first_of(&[SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()])
}

/// Does the same as [`signalled`] for a process in which the user interrupts the turns rather than the process.
pub fn ended() -> impl Future<Output = u8> {
    first_of(&[SignalKind::hangup(), SignalKind::terminate()])
}

fn first_of(kinds: &[SignalKind]) -> impl Future<Output = u8> + use<> {
    let arrivals = kinds.iter().copied().map(|kind| {
        let arrival = signal(kind).map(|mut signals| async move {
            signals.recv().await;
            u8::try_from(kind.as_raw_value()).unwrap_or_default()
        });
        arrival.map(Box::pin)
    });
    let arrivals = arrivals.collect::<Result<Vec<_>, _>>();
    async move {
        match arrivals {
            Ok(arrivals) => futures_util::future::select_all(arrivals).await.0,
            // Without handlers the signals end the process themselves.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Ctrl-C, where it is for a turn rather than for the process.
pub struct Interrupts(Option<Signal>);

impl Interrupts {
    /// Catches SIGINT, which ends nothing by itself from now on.
    pub fn caught() -> Self {
        Self(signal(SignalKind::interrupt()).ok())
    }

    /// Leaves SIGINT as it is.
    pub fn none() -> Self {
        Self(None)
    }

    /// Ends with the next one.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(signals) => _ = signals.recv().await,
            None => std::future::pending().await,
        }
    }
}
