//! Work of single tools: long outputs, large files, many calls at once.

use std::{fs, time::Instant};

use serde_json::{Value, json};

use crate::{
    Result,
    agent::{Keep, Seen},
    model::Model,
    scenarios::{LIMIT, Subject, megabytes, milliseconds},
};

const N_PRINTED: usize = 50_000_000;
const N_READS: usize = 20;

/// Measures a command that prints far more than is read, and one that prints little for a long time.
pub fn output(subject: &mut Subject, _model: &Model) -> Result<()> {
    let flood = format!("yes 'a line of an ordinary log, no longer than usual' | head -c {N_PRINTED}");
    let lines =
        "for n in $(seq 100); do echo \"test $n of a suite that prints its names ... ok\"; sleep 0.05; done";
    let clients = [
        ("bash printing 50 MB", "5 s of lines", json!({})),
        ("50 MB in a terminal", "5 s of lines in a terminal", json!({"terminal_output": true})),
    ];
    for (flood_row, lines_row, extensions) in clients {
        let (mut agent, session) = subject.warm_as(extensions, LIMIT)?;
        // Excludes the growth of the tool's first use from that of the output.
        agent.prompt(&session, &bash("seq 1000"))?;
        let before = agent.memory()?.rss;
        agent.forget_peak()?;
        let (cpu, start) = (agent.cpu()?, Instant::now());
        let seen = agent.prompts(&[&session], &bash(&flood), Keep::Lines)?;
        let (elapsed, cpu) = (start.elapsed(), agent.cpu()? - cpu);
        let grown = agent.memory()?.peak.saturating_sub(before);
        subject.add(&format!("{flood_row}, ms"), milliseconds(elapsed));
        subject.add(&format!("{flood_row}, CPU ms"), milliseconds(cpu));
        subject.add(&format!("{flood_row}, more MB"), megabytes(grown));
        subject.add(&format!("{flood_row}, wire over shown"), wire_over_shown(&seen)?);
        let seen = agent.prompts(&[&session], &bash(lines), Keep::Lines)?;
        subject.add(&format!("{lines_row}, wire over shown"), wire_over_shown(&seen)?);
        agent.stop()?;
    }
    Ok(())
}

fn bash(command: &str) -> String {
    format!("TOOLS 1 bash {}", json!({"command": command, "description": "Prints"}))
}

/// Divides the received bytes by the bytes of output that the client ends up with: its terminal, or the last
/// content.
fn wire_over_shown(seen: &Seen) -> Result<f64> {
    let (mut n_written, mut n_last) = (0, 0);
    for line in seen.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line)?;
        let update = &message["params"]["update"];
        n_written += update["_meta"]["terminal_output"]["data"].as_str().map_or(0, str::len);
        if let Some(content) = update["content"].as_array() {
            n_last = content.iter().filter_map(|it| it["content"]["text"].as_str()).map(str::len).sum();
        }
    }
    match n_written + n_last {
        0 => Err("nothing was shown".into()),
        n_shown => Ok(seen.n_bytes as f64 / n_shown as f64),
    }
}

/// Measures an edit of one line in the middle of a large file.
pub fn edit(subject: &mut Subject, _model: &Model) -> Result<()> {
    let path = subject.work.join("large.txt");
    let text: String =
        (0..100_000).map(|n| format!("{n:>6}: a line of an ordinary text file, as usual\n")).collect();
    fs::write(&path, &text)?;
    let (mut agent, session) = subject.warm(LIMIT)?;
    let call = |name: &str, arguments: Value| format!("TOOLS 1 {name} {arguments}");
    agent.prompt(&session, &call("read", json!({"filePath": path, "limit": 10})))?;
    let (old, new) = (" 50000: a line of an", " 50000: a word in an");
    let (cpu, start) = (agent.cpu()?, Instant::now());
    agent.prompt(&session, &call("edit", json!({"filePath": path, "oldString": old, "newString": new})))?;
    let (elapsed, cpu) = (start.elapsed(), agent.cpu()? - cpu);
    if fs::read_to_string(&path)? != text.replacen(old, new, 1) {
        return Err("the file is not what the edit should have made of it".into());
    }
    subject.add("edit in a 5 MB file, ms", milliseconds(elapsed));
    subject.add("edit in a 5 MB file, CPU ms", milliseconds(cpu));
    agent.stop().map(drop)
}

/// Measures calls of one answer, which run together: the model is asked once more, not twenty times.
pub fn reads(subject: &mut Subject, model: &Model) -> Result<()> {
    for n in 0..N_READS {
        fs::write(subject.work.join(format!("read-{n}.txt")), format!("file {n}\n").repeat(200))?;
    }
    let (mut agent, session) = subject.warm(LIMIT)?;
    model.take_exchanges();
    let path = subject.work.join("read-%N.txt");
    let start = Instant::now();
    agent.prompt(&session, &format!("TOGETHER {N_READS} read {}", json!({"filePath": path})))?;
    subject.add("20 reads in one step, ms", milliseconds(start.elapsed()));
    subject.add("20 reads in one step, requests", model.take_exchanges().len() as f64);
    agent.stop().map(drop)
}
