//! The cost of snapshots in a large repository in which nothing changes.

use std::{fs, path::Path, process::Command, thread::sleep, time::Duration};

use serde_json::json;

use crate::{
    Result,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, median, milliseconds},
};

pub const WORKTREE: Scenario = Scenario { name: "worktree", is_long: true, run: worktree };

const N_DIRECTORIES: usize = 500;
const N_FILES: usize = 100;
const N_STEPS: usize = 12;
/// Time after which the times of files say that they did not change.
const SETTLED: Duration = Duration::from_secs(3);

fn worktree(subject: &mut Subject, model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        return Ok(());
    }
    let root = subject.root().join("worktree");
    if !root.exists() {
        make(&root)?;
        sleep(SETTLED);
    }
    let with = step(subject, model, &root)?;
    let config = subject.config.clone();
    subject.config["snapshot"] = json!(false);
    let without = step(subject, model, &root);
    subject.config = config;
    subject.add("a step in 50000 files, more ms", with - without?);
    Ok(())
}

fn make(root: &Path) -> Result<()> {
    for directory in 0..N_DIRECTORIES {
        let directory = root.join(format!("directory{directory}"));
        fs::create_dir_all(&directory)?;
        for file in 0..N_FILES {
            fs::write(directory.join(format!("file{file}.txt")), format!("{}\n", directory.display()))?;
        }
    }
    for arguments in ["init -q", "add .", "commit -q -m first"] {
        let status = Command::new("git")
            .args(["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"])
            .args(arguments.split(' '))
            .current_dir(root)
            .status()?;
        if !status.success() {
            return Err(format!("git {arguments} failed").into());
        }
    }
    Ok(())
}

/// Returns the median time of a step in which a command changes nothing, in milliseconds.
fn step(subject: &Subject, model: &Model, root: &Path) -> Result<f64> {
    let mut agent = subject.start_in(subject.home(), LIMIT)?;
    agent.initialize()?;
    let session = agent.new_session(&root.display().to_string())?;
    // The first snapshot of a worktree reads all of it.
    let first = r#"{"command":"true first %N","description":"Does nothing"}"#;
    agent.prompt(&session, &format!("TOOLS 3 bash {first}"))?;
    model.take_exchanges();
    let call = r#"{"command":"true %N","description":"Does nothing"}"#;
    agent.prompt(&session, &format!("TOOLS {N_STEPS} bash {call}"))?;
    let exchanges = model.take_exchanges();
    let steps = exchanges.windows(2).map(|pair| milliseconds(pair[1].received - pair[0].understood));
    let time = median(&mut steps.collect::<Vec<_>>());
    agent.stop()?;
    Ok(time)
}
