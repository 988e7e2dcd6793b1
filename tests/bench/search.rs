//! Searches of a large tree, compared with `rg` on the same work.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Result,
    agent::Agent,
    model::Model,
    scenarios::{LIMIT, Subject, median, milliseconds},
};

const N_DIRECTORIES: usize = 500;
const N_FILES_EACH: usize = 100;
/// The distance between files that contain the rare word.
const RARE_EVERY: usize = 7001;
/// The number of matches that the tool shows.
const N_SHOWN: usize = 100;
/// Runs of each search within one run of the measure; the machine's other work affects both sides alike.
const N_TURNS: usize = 15;

/// One search: as a call of the agent's tool, and as arguments of `rg`.
struct Case {
    name: &'static str,
    tool: &'static str,
    input: Value,
    rg: &'static [&'static str],
    /// True to stop `rg` after as many lines as the tool shows.
    is_cut: bool,
}

/// The files that `grep` searches: hidden files too, but not git's own.
const HIDDEN: &[&str] = &["--hidden", "--glob=!.git", "--line-number", "--no-heading", "--color=never"];

/// Names are selected by type, because `--glob` would override the ignore rules, which the tools obey.
fn cases() -> Vec<Case> {
    let grep = |name, pattern, rg| Case {
        name,
        tool: "grep",
        input: json!({ "pattern": pattern }),
        rg,
        is_cut: false,
    };
    vec![
        grep("grep, rare word", "zebra_crossing", &["zebra_crossing"]),
        grep("grep, rare pattern", r"zeb\w+_cross[a-z]+", &[r"zeb\w+_cross[a-z]+"]),
        grep("grep, frequent word", "value", &["value"]),
        // The exact output of the tool; in this order `rg` uses one thread.
        Case { is_cut: true, ..grep("grep, first 100 by path", "value", &["--sort=path", "value"]) },
        Case {
            name: "grep, rare word in *.rs",
            tool: "grep",
            input: json!({ "pattern": "zebra_crossing", "include": "*.rs" }),
            rg: &["--type-add=wanted:*.rs", "--type=wanted", "zebra_crossing"],
            is_cut: false,
        },
        // Fewer matches than are shown, so that both have to search the whole tree.
        Case {
            name: "glob, 50 files",
            tool: "glob",
            input: json!({ "pattern": "**/file_*000.rs" }),
            rg: &["--files", "--type-add=wanted:file_*000.rs", "--type=wanted"],
            is_cut: false,
        },
        // The tool stops after the first hundred by path, and so does `rg` here.
        Case {
            name: "glob, first 100 by path",
            tool: "glob",
            input: json!({ "pattern": "**/*.rs" }),
            rg: &["--files", "--sort=path", "--type-add=wanted:*.rs", "--type=wanted"],
            is_cut: true,
        },
    ]
}

/// Measures each tool call from the model's answer to the next request, and `rg` from its start to the last
/// byte.
pub fn search(subject: &mut Subject, model: &Model) -> Result<()> {
    let tree = subject.scratch().join("tree");
    if !tree.exists() {
        make_tree(&tree)?;
    }
    let directory = tree.to_str().ok_or("the scratch directory is not UTF-8")?;
    let (mut agent, _) = subject.warm(LIMIT)?;
    let session = agent.new_session(directory)?;
    agent.prompt(&session, "hello")?;
    for case in cases() {
        let (mut own, mut rg) = (Vec::new(), Vec::new());
        for _ in 0..N_TURNS {
            own.push(milliseconds(ask(&mut agent, &session, &case, model)?));
            rg.extend(ripgrep(&tree, &case)?.map(milliseconds));
        }
        let own = median(&mut own);
        subject.add(&format!("{}, ms", case.name), own);
        if rg.is_empty() {
            continue;
        }
        let rg = median(&mut rg);
        subject.add(&format!("{}, rg, ms", case.name), rg);
        subject.add(&format!("{}, over rg", case.name), own / rg);
    }
    agent.stop().map(drop)
}

fn ask(agent: &mut Agent, session: &str, case: &Case, model: &Model) -> Result<Duration> {
    model.take_exchanges();
    agent.prompt(session, &format!("TOOLS 1 {} {}", case.tool, case.input))?;
    match model.take_exchanges().as_slice() {
        [call, result] => Ok(result.received - call.understood),
        other => Err(format!("{} requests for one call of {}", other.len(), case.tool).into()),
    }
}

/// Measures `rg`; `None` if it is not installed.
fn ripgrep(tree: &Path, case: &Case) -> Result<Option<Duration>> {
    let start = Instant::now();
    let hidden = if case.tool == "grep" { HIDDEN } else { &[] };
    let child = Command::new("rg")
        .arg("--no-config")
        .args(hidden)
        .args(case.rg)
        .arg(tree)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match child {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        child => child?,
    };
    let mut stdout = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut output = Vec::new();
    if case.is_cut {
        for _ in 0..N_SHOWN {
            stdout.read_until(b'\n', &mut output)?;
        }
        child.kill()?;
    } else {
        stdout.read_to_end(&mut output)?;
    }
    let status = child.wait()?;
    let elapsed = start.elapsed();
    if !(status.success() || case.is_cut) || output.is_empty() {
        return Err(format!("rg found nothing for {}", case.name).into());
    }
    Ok(Some(elapsed))
}

/// Makes a repository of 50 000 files in five languages, two directories deep, with ignore rules and ignored
/// files.
fn make_tree(tree: &Path) -> Result<()> {
    fs::create_dir_all(tree.join(".git"))?;
    fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main\n")?;
    fs::write(tree.join(".gitignore"), "target/\n*.log\n/build\nnode_modules\n!keep.log\n")?;
    let line = |n: usize| format!("    let name_{n} = value.field_{} + other(item, {n});\n", n % 17);
    let body: String = (0..40).map(line).collect();
    for n in 0..N_DIRECTORIES * N_FILES_EACH {
        let directory = n / N_FILES_EACH;
        let path = tree.join(format!("part_{:02}/module_{directory:03}", directory % 25));
        if n.is_multiple_of(N_FILES_EACH) {
            fs::create_dir_all(path.join("target"))?;
            fs::write(path.join("target/out.txt"), "zebra_crossing value\n")?;
            fs::write(path.join("run.log"), "zebra_crossing value\n")?;
        }
        let extension = ["rs", "ts", "py", "md", "json"][n % 5];
        let head = format!("// file {n}\n");
        let rare = if n % RARE_EVERY == 0 { "// a zebra_crossing is here\n" } else { "" };
        // From half a kilobyte to two.
        let body = &body[..body.len() * (1 + n % 4) / 4];
        fs::write(path.join(format!("file_{n:05}.{extension}")), [&head, body, rare].concat())?;
    }
    Ok(())
}
