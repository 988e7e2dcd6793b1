//! Export of a stored session of 2000 messages as a page of HTML, on the command line.

use std::{fs, time::Instant};

use serde_json::json;

use crate::{
    Result,
    model::Model,
    scenarios::{Scenario, Subject, megabytes, milliseconds},
};

pub const EXPORT: Scenario = Scenario { name: "export", is_long: true, run: export };

/// The number of turns: each has a prompt and two answers, one of them with a call.
const N_TURNS: usize = 667;
const N_MESSAGES: usize = 3 * N_TURNS;

fn export(subject: &mut Subject, _model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        return Ok(());
    }
    let mut agent = subject.start()?;
    agent.initialize()?;
    let session = agent.new_session(subject.cwd()?)?;
    for n in 0..N_TURNS {
        let call = json!({"command": format!("echo {n}; cat a.txt"), "description": "Shows a file"});
        agent.prompt(&session, &format!("TOOLS 1 bash {call}"))?;
    }
    agent.stop()?;
    for format in ["html", "md", "json"] {
        let start = Instant::now();
        let output = subject.program()?.args(["session", "export", &session, "--format", format]).output()?;
        let elapsed = start.elapsed();
        if !output.status.success() {
            return Err(format!("session export: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        subject.add(&format!("export of {N_MESSAGES} messages, {format}, ms"), milliseconds(elapsed));
        if format == "html" {
            subject.add("the page, MB", megabytes(output.stdout.len() as u64));
            fs::write(subject.scratch().join("page.html"), &output.stdout)?;
        }
    }
    Ok(())
}
