//! The command line at a terminal: the time to the first output, and the cost of drawing.

use std::{
    fs::File,
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    pty::{Winsize, openpty},
    sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
    },
};

use crate::{
    Result,
    model::Model,
    scenarios::{Scenario, Subject, milliseconds},
};

pub const TERMINAL: Scenario = Scenario { name: "terminal", is_long: false, run: terminal };

const N_DELTAS: u32 = 5_000;
const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

fn terminal(subject: &mut Subject, _model: &Model) -> Result<()> {
    let (started, mut version) = (Instant::now(), program(subject, &["--version"])?);
    version.stdin(Stdio::null()).output()?;
    subject.add("--version, ms", milliseconds(started.elapsed()));

    if subject.name == "windlass" {
        let run = program(subject, &["run", "-m", "windlass/demo", "hello"])?;
        let first = on_terminal(run)?.ok_or("the demo said nothing")?;
        subject.add("run with the demo, first byte, ms", milliseconds(first));
    }

    let prompt = format!("STREAM {N_DELTAS}");
    let before = cpu()?;
    program(subject, &["run", &prompt])?.stdin(Stdio::null()).output()?;
    let piped = cpu()?;
    let mut run = program(subject, &["run", &prompt])?;
    run.stdin(Stdio::null());
    on_terminal(run)?;
    let drawn = cpu()?;
    let (piped, drawn) = (milliseconds(piped - before), milliseconds(drawn - piped));
    subject.add("run of 5000 deltas into a pipe, CPU ms", piped);
    subject.add("run of 5000 deltas on a terminal, CPU ms", drawn);
    let each = (drawn - piped).max(0.0) * 1000.0 / f64::from(N_DELTAS);
    subject.add("drawing 5000 deltas, CPU µs each", each);
    Ok(())
}

fn program(subject: &Subject, arguments: &[&str]) -> Result<Command> {
    let mut command = subject.program()?;
    command.args(arguments).env("TERM", "xterm-256color");
    Ok(command)
}

/// Runs a command to its end on a terminal; returns the time of its first byte.
fn on_terminal(mut command: Command) -> Result<Option<Duration>> {
    let pty = openpty(&SIZE, None)?;
    command.stdout(pty.slave.try_clone()?).stderr(pty.slave);
    let started = Instant::now();
    let mut child = command.spawn()?;
    // It holds the terminal's other end, which has to be closed for the output to end.
    drop(command);
    let mut master = File::from(pty.master);
    let mut buffer = vec![0; 64 * 1024];
    let mut first = None;
    // Linux reports the end of the last writer as an error.
    while let Ok(n_read) = master.read(&mut buffer) {
        if n_read == 0 {
            break;
        }
        first.get_or_insert_with(|| started.elapsed());
    }
    let status = child.wait()?;
    if status.success() { Ok(first) } else { Err(format!("a run on a terminal ended with {status}").into()) }
}

/// Returns the processor time of the children that have ended.
fn cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(microseconds.try_into()?))
}
