//! The job for CI services: against a scratch repository with a scripted model, and in the root of the container's image.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{agent::binary, llm::Reply, skip::skipped},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns a directory whose `windlass` is the program.
fn program(machine: &Machine) -> PathBuf {
    let directory = machine.scratch.root().join("bin");
    std::fs::create_dir_all(&directory).unwrap();
    let _ = std::os::unix::fs::symlink(binary(), directory.join("windlass"));
    directory
}

fn git(machine: &Machine, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(&machine.scratch.work).args([
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.invalid",
    ]);
    assert!(command.args(arguments).output().unwrap().status.success(), "{arguments:?}");
}

async fn job(machine: &Machine, variables: &[(&str, &str)]) -> (Output, PathBuf) {
    let out = machine.scratch.root().join("out");
    let _ = std::fs::remove_dir_all(&out);
    let path = format!("{}:{}", program(machine).display(), std::env::var("PATH").unwrap());
    let mut command = tokio::process::Command::new("sh");
    command
        .arg(Path::new(ROOT).join("ci/job.sh"))
        .current_dir(&machine.scratch.work)
        .env_clear()
        .env("PATH", path)
        .env("HOME", &machine.scratch.home)
        .env("OPENCODE_CONFIG_CONTENT", machine.config.to_string())
        .env("WINDLASS_JOB_OUT", &out)
        .env("GITHUB_OUTPUT", machine.scratch.root().join("output"))
        .env("GITHUB_STEP_SUMMARY", machine.scratch.root().join("summary"))
        .envs(variables.iter().copied())
        .kill_on_drop(true);
    (command.output().await.unwrap(), out)
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[tokio::test]
async fn a_review_reads_the_change_and_may_do_nothing_else() {
    let machine = Machine::new().await;
    machine.scratch.write("new.txt", "a new line\n");
    git(&machine, &["add", "-A"]);
    git(&machine, &["commit", "-qm", "after"]);
    let call = Reply::call("call_1", "bash", json!({"command": "touch made"}));
    machine.llm.reply(call.and_call("call_2", "write", json!({"filePath": "made", "content": ""})));
    machine.llm.reply(Reply::text("One finding.\n\nnew.txt:1 says nothing."));
    let (ended, out) = job(&machine, &[("WINDLASS_JOB_BASE", "HEAD~1")]).await;
    assert!(ended.status.success(), "{ended:?}");
    let answer = "One finding.\n\nnew.txt:1 says nothing.\n";
    assert_eq!(
        (read(out.join("answer.md")).as_str(), String::from_utf8_lossy(&ended.stdout).as_ref()),
        (answer, answer)
    );
    assert!(machine.llm.requests()[0].last_user().contains("+a new line"));
    assert!(!machine.scratch.exists("made"));
    let output = read(machine.scratch.root().join("output"));
    assert!(output.contains("reason=end_turn\n") && output.contains("answer<<end-"), "{output}");
    assert_eq!(read(machine.scratch.root().join("summary")), answer);
    let result: Value = serde_json::from_str(&read(out.join("result.json"))).unwrap();
    assert_eq!(result["refusals"].as_array().unwrap().len(), 2, "{result}");
    assert_eq!(machine.sessions().await, Vec::<Value>::new(), "nothing is kept");
    machine.finish().await;
}

#[tokio::test]
async fn a_review_takes_a_change_that_is_no_text_and_ends_where_nothing_is_changed() {
    let machine = Machine::new().await;
    std::fs::write(machine.scratch.work.join("latin.txt"), b"caf\xe9 au lait\n".repeat(30_000)).unwrap();
    git(&machine, &["add", "-A"]);
    git(&machine, &["commit", "-qm", "after"]);
    machine.llm.reply(Reply::text("No finding."));
    let (ended, _) = job(&machine, &[("WINDLASS_JOB_BASE", "HEAD~1")]).await;
    assert!(ended.status.success(), "{ended:?}");
    let asked = machine.llm.requests()[0].last_user();
    assert!(asked.contains("+caf au lait\n"), "{}", &asked[..200]);
    assert!(asked.contains("these are the first 400000. Read the other files of it.]"));
    let (ended, out) = job(&machine, &[("WINDLASS_JOB_BASE", "HEAD")]).await;
    assert!(ended.status.success(), "{ended:?}");
    assert!(read(out.join("answer.md")).contains("there is nothing to review"));
    let result: Value = serde_json::from_str(&read(out.join("result.json"))).unwrap();
    assert_eq!(result["reason"], "end_turn");
    assert_eq!(machine.llm.requests().len(), 1);
    machine.finish().await;
}

#[tokio::test]
async fn a_fix_changes_files_and_a_job_that_cannot_begin_says_why() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "fixed.txt", "content": "fixed\n"})));
    machine.llm.reply(Reply::text("Fixed."));
    let (ended, out) =
        job(&machine, &[("WINDLASS_JOB_KIND", "fix"), ("WINDLASS_JOB_PROMPT", "fix it")]).await;
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(machine.scratch.read("fixed.txt"), "fixed\n");
    let result: Value = serde_json::from_str(&read(out.join("result.json"))).unwrap();
    assert_eq!(result["files"][0]["file"], "fixed.txt");
    for (variables, reason) in [
        (&[("WINDLASS_JOB_BASE", "")][..], "needs WINDLASS_JOB_BASE"),
        (&[("WINDLASS_JOB_BASE", "nowhere")], "there is no commit nowhere"),
        (&[("WINDLASS_JOB_KIND", "fix")], "has to say what is to be done"),
        (&[("WINDLASS_JOB_KIND", "mend")], "not mend"),
    ] {
        let (ended, _) = job(&machine, variables).await;
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && said.contains(reason), "{ended:?}");
    }
    machine.finish().await;
}

#[tokio::test]
async fn the_action_gives_the_job_all_that_it_reads() {
    let (action, script) =
        (read(Path::new(ROOT).join("action.yml")), read(Path::new(ROOT).join("ci/job.sh")));
    for name in ["KIND", "PROMPT", "BASE", "OPTIONS", "ARCHIVE", "SHA256"] {
        let variable = format!("WINDLASS_JOB_{name}");
        assert!(
            action.contains(&format!("{variable}: ${{{{ inputs.")) && script.contains(&variable),
            "{variable}"
        );
    }
    for output in ["answer", "reason", "cost", "directory"] {
        assert!(action.contains(&format!("steps.job.outputs.{output}")), "{output}");
        assert!(
            script.contains(&format!("{output}=")) || script.contains(&format!("{output}<<")),
            "{output}"
        );
    }
    let container = read(Path::new(ROOT).join("Containerfile"));
    assert!(container.contains("COPY ci/job.sh /usr/local/bin/windlass-job"));
    for program in ["curl", "git", "jq", "ca-certificates"] {
        assert!(container.contains(program), "{program}");
    }
}

/// Copies a program and the libraries that it names.
fn copy_program(from: &Path, to: &Path, root: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
    let listed = Command::new("ldd").arg(from).output().unwrap();
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        let Some(library) = line.split_whitespace().find(|word| word.starts_with('/')) else { continue };
        let place = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        let _ = std::fs::copy(library, place);
    }
}

#[tokio::test]
async fn the_program_works_in_a_root_that_holds_little_more_than_itself() {
    let machine = Machine::new().await;
    let root = machine.scratch.root().join("image");
    copy_program(&binary(), &root.join("usr/local/bin/windlass"), &root);
    let git = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    copy_program(Path::new(String::from_utf8_lossy(&git.stdout).trim()), &root.join("usr/bin/git"), &root);
    for directory in ["tmp", "work", "home/agent", "dev", "proc"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "chroot"]).arg(&root).args(["/usr/local/bin/windlass"]);
        // `chroot` lies in the last of these.
        let path = "/usr/bin:/usr/local/bin:/usr/sbin";
        command.args(arguments).env_clear().env("HOME", "/home/agent").env("PATH", path);
        command.env("TMPDIR", "/tmp").output().unwrap()
    };
    let version = run(&["--version"]);
    if !version.status.success() && String::from_utf8_lossy(&version.stderr).contains("unshare failed") {
        skipped("this machine makes no user namespaces");
        return machine.finish().await;
    }
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("windlass "), "{version:?}");
    let answered = run(&["run", "--dir", "/work", "-m", "windlass/demo", "hello"]);
    assert!(answered.status.success(), "{answered:?}");
    assert!(String::from_utf8_lossy(&answered.stdout).contains("demo model"), "{answered:?}");
    machine.finish().await;
}
