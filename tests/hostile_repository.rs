//! Repositories that would run something as soon as git looks at them: windlass looks, and nothing of them acts.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path, process::Command, sync::Arc};

use serde_json::{Value, json};

use crate::support::{
    agent::Agent,
    llm::Reply,
    scratch::Scratch,
    server::{Builder, Server},
};

/// Everything that the repositories below try.
const TRAPS: [&str; 15] = [
    "clean",
    "external-diff",
    "fsmonitor",
    "included",
    "nested-clean",
    "nested-fsmonitor",
    "post-checkout",
    "post-index-change",
    "process",
    "promisor",
    "reference-transaction",
    "smudge",
    "submodule-clean",
    "textconv",
    "worktree-config",
];

/// Returns a shell line that leaves a mark behind.
fn trap(scratch: &Scratch, name: &str) -> String {
    format!("touch '{}'; cat", scratch.root().join("marks").join(name).display())
}

/// Returns the names of the traps that have been sprung since the last call.
fn sprung(scratch: &Scratch) -> BTreeSet<String> {
    let marks = scratch.root().join("marks");
    let found = fs::read_dir(&marks).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let found = found.collect();
    fs::remove_dir_all(&marks).unwrap();
    fs::create_dir(&marks).unwrap();
    found
}

/// Runs plain git, as a person would.
fn git(scratch: &Scratch, directory: &str, args: &[&str]) {
    let identity = ["-c", "user.name=u", "-c", "user.email=e", "-c", "protocol.file.allow=always"];
    Command::new("git")
        .args(identity)
        .args(args)
        .current_dir(scratch.work.join(directory))
        .env("HOME", &scratch.home)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
}

fn set(scratch: &Scratch, directory: &str, settings: &[(&str, &str)]) {
    settings.iter().for_each(|(name, value)| git(scratch, directory, &["config", name, value]));
}

/// Writes a file so that only its content tells that it has changed.
fn change(scratch: &Scratch, name: &str, content: &str) {
    scratch.write(name, content);
    let file = fs::File::options().append(true).open(scratch.path(name)).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
}

/// Makes a repository with every trap in the worktree of a new machine.
fn hostile() -> Arc<Scratch> {
    let scratch = Scratch::new();
    fs::create_dir(scratch.root().join("marks")).unwrap();
    let trap = |name: &str| trap(&scratch, name);

    scratch.write("other/s.txt", "one\n");
    scratch.write("nested/n.txt", "one\n");
    for repository in ["other", "nested"] {
        scratch.write(&format!("{repository}/.gitattributes"), "*.txt filter=f\n");
        for args in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "first"]] {
            git(&scratch, repository, args);
        }
    }
    fs::rename(scratch.path("other"), scratch.root().join("other")).unwrap();
    git(&scratch, "", &["submodule", "--quiet", "add", "../other", "sub"]);
    git(&scratch, "", &["add", "nested"]);
    scratch.write(".gitattributes", "*.txt filter=f diff=d\n*.process filter=p\n*.included filter=i\n*.worktree filter=w\n*.conv diff=c\n");
    for kind in ["process", "included", "worktree", "conv"] {
        scratch.write(&format!("x.{kind}"), "one\n");
    }
    git(
        &scratch,
        "",
        &["add", ".gitattributes", ".gitmodules", "sub", "*.process", "*.included", "*.worktree", "*.conv"],
    );
    git(&scratch, "", &["commit", "-qm", "second"]);

    set(
        &scratch,
        "",
        &[
            ("core.fsmonitor", &trap("fsmonitor")),
            ("core.hooksPath", "traps"),
            ("filter.f.clean", &trap("clean")),
            ("filter.f.smudge", &trap("smudge")),
            ("filter.p.process", &trap("process")),
            ("diff.d.command", &format!("{}; true", trap("external-diff"))),
            ("diff.c.textconv", &trap("textconv")),
            ("include.path", "../innocent"),
            ("extensions.worktreeConfig", "true"),
        ],
    );
    git(&scratch, "", &["config", "--worktree", "filter.w.clean", &trap("worktree-config")]);
    scratch.write("innocent", format!("[filter \"i\"]\n\tclean = \"{}\"\n", trap("included")));
    for hook in ["post-checkout", "post-index-change", "reference-transaction"] {
        scratch.write(&format!("traps/{hook}"), format!("#!/bin/sh\n{}\n", trap(hook)));
        fs::set_permissions(scratch.path(&format!("traps/{hook}")), fs::Permissions::from_mode(0o755))
            .unwrap();
    }
    set(
        &scratch,
        "nested",
        &[("filter.f.clean", &trap("nested-clean")), ("core.fsmonitor", &trap("nested-fsmonitor"))],
    );
    set(&scratch, "sub", &[("filter.f.clean", &trap("submodule-clean"))]);
    lacking(&scratch, "bare");
    scratch.write("bare/file", "text\n");
    for name in ["nested/n.txt", "sub/s.txt", "x.process", "x.included", "x.worktree", "x.conv"] {
        change(&scratch, name, "two\n");
    }
    change(&scratch, "a.txt", "ONE\ntwo\nthree\n");
    sprung(&scratch);
    scratch
}

/// Makes a repository without a worktree that has to fetch its only commit, by a program.
fn lacking(scratch: &Scratch, directory: &str) {
    fs::create_dir(scratch.work.join(directory)).unwrap();
    git(scratch, directory, &["init", "-q", "--bare"]);
    let script = scratch.path("fetch");
    scratch
        .write("fetch", format!("#!/bin/sh\n{}\nexit 1\n", trap(scratch, "promisor").replace("; cat", "")));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    set(
        scratch,
        directory,
        &[
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", &format!("ext::{script}")),
            ("protocol.ext.allow", "always"),
            ("core.bare", "false"),
            ("core.worktree", ".."),
        ],
    );
    fs::write(scratch.work.join(directory).join("HEAD"), format!("{}\n", "1".repeat(40))).unwrap();
}

/// Does windlass's work with plain git, after it has sprung nothing.
fn assert_armed_and_silent(scratch: &Scratch, traps: &[&str]) {
    assert_eq!(sprung(scratch), BTreeSet::new());
    for args in [
        &["status"][..],
        &["diff", "HEAD"],
        &["diff", "--no-ext-diff", "HEAD"],
        &["add", "--intent-to-add", "--all"],
        &["diff", "--raw", "HEAD"],
        &["worktree", "add", "-q", "-b", "branch", "../elsewhere"],
        &["rev-list", "HEAD"],
    ] {
        git(scratch, "", args);
    }
    if scratch.exists("bare") {
        git(scratch, "bare", &["cat-file", "blob", "HEAD:./file"]);
    }
    assert_eq!(sprung(scratch), traps.iter().map(|it| (*it).to_owned()).collect());
}

fn serving(scratch: &Arc<Scratch>) -> Builder {
    let mut builder = Server::builder();
    builder.scratch = scratch.clone();
    builder
}

#[tokio::test]
async fn nothing_of_a_repository_acts_while_files_are_shown() {
    let scratch = hostile();
    let server = serving(&scratch).start().await;
    server.get("/project/current").await.ok();
    assert_eq!(server.get("/vcs").await.ok()["branch"], "main");
    let status = server.get("/vcs/status").await.ok();
    let status: Vec<&str> =
        status.as_array().unwrap().iter().map(|it| it["file"].as_str().unwrap()).collect();
    for changed in
        ["a.txt", "x.process", "x.included", "x.worktree", "x.conv", "bare/file", "traps/post-checkout"]
    {
        assert!(status.contains(&changed), "{changed}: {status:?}");
    }
    for path in
        ["/vcs/diff?mode=git", "/vcs/diff?mode=branch", "/file/status", "/file?path=.", "/file?path=nested"]
    {
        server.get(path).await.ok();
    }
    assert!(server.get("/vcs/diff/raw").await.text.contains("\n-one\n+ONE\n"));
    let shown = server.get("/file/content?path=a.txt").await.ok();
    assert!(shown["diff"].as_str().unwrap().contains("-one\n+ONE\n"), "{shown}");
    for path in ["bare/file", "nested/n.txt", "sub/s.txt", "x.conv"] {
        server.get(&format!("/file/content?path={path}")).await.ok();
    }
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-ONE\n+EINS\n two\n three\n";
    server.post("/vcs/apply", json!({"patch": patch})).await.ok();
    server.finish().await;
    change(&scratch, "a.txt", "ONE\ntwo\nthree\n");
    assert_armed_and_silent(&scratch, &TRAPS);
}

#[tokio::test]
async fn nothing_of_a_repository_acts_in_the_worktrees_of_tasks() {
    let scratch = hostile();
    let server = serving(&scratch).start().await;
    let mut events = server.events("/global/event").await;
    let made = server.post("/experimental/worktree", json!({"name": "task"})).await.ok();
    loop {
        let event = events.next().await;
        match event["payload"]["type"].as_str() {
            Some("worktree.ready") => break,
            Some("worktree.failed") => panic!("{event}"),
            Some(_) | None => {}
        }
    }
    let directory = made["directory"].as_str().unwrap();
    let file = |name: &str| fs::read_to_string(Path::new(directory).join(name)).unwrap();
    assert_eq!(file("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(file("x.process"), "one\n");
    // It is a worktree for plain git as well.
    let named = file(".git");
    let own = scratch.work.canonicalize().unwrap().join(".git/worktrees/task");
    assert_eq!(named, format!("gitdir: {}\n", own.display()));
    for (method, path) in [("POST", "/experimental/worktree/reset"), ("DELETE", "/experimental/worktree")] {
        server.send(method, path, json!({"directory": directory})).await.ok();
    }
    assert!(!Path::new(directory).exists());
    server.finish().await;
    assert_armed_and_silent(&scratch, &TRAPS);
}

#[tokio::test]
async fn nothing_of_a_repository_acts_while_an_edit_is_made_and_undone() {
    let scratch = hostile();
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    agent.told(&session, "read", json!({"filePath": scratch.path("a.txt")})).await;
    let edit = json!({"filePath": scratch.path("a.txt"), "oldString": "ONE", "newString": "EINS"});
    agent.told(&session, "edit", edit).await;
    let command = json!({"command": "echo x > new.txt; rm x.process", "description": "change files"});
    agent.told(&session, "bash", command).await;
    let undone = agent.prompt(&session, "/undo 2").await.text();
    assert!(undone.contains("Restored files:"), "{undone}");
    assert_eq!(
        (scratch.read("a.txt"), scratch.read("x.process")),
        ("ONE\ntwo\nthree\n".into(), "two\n".into())
    );
    agent.finish().await;
    change(&scratch, "a.txt", "ONE\ntwo\nthree\n");
    change(&scratch, "x.process", "two\n");
    assert_armed_and_silent(&scratch, &TRAPS);
}

#[tokio::test]
async fn a_commit_that_is_to_be_fetched_is_not() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.root().join("marks")).unwrap();
    lacking(&scratch, "bare");
    fs::remove_dir_all(scratch.path(".git")).unwrap();
    fs::rename(scratch.path("bare"), scratch.path(".git")).unwrap();
    let server = serving(&scratch).start().await;
    assert_eq!(server.get("/project/current").await.ok()["id"], "global");
    for path in ["/vcs", "/vcs/status", "/vcs/diff?mode=git", "/file/content?path=a.txt", "/file/status"] {
        server.get(path).await;
    }
    server.finish().await;
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    agent.told(&session, "bash", json!({"command": "echo x > new.txt", "description": "change files"})).await;
    agent.prompt(&session, "/undo").await;
    assert!(!scratch.exists("new.txt"));
    agent.finish().await;
    assert_armed_and_silent(&scratch, &["promisor"]);
}

#[tokio::test]
async fn the_git_of_a_project_is_not_the_git_that_runs() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.root().join("marks")).unwrap();
    for directory in ["", "bin/"] {
        scratch.write(&format!("{directory}git"), format!("#!/bin/sh\n{}\n", trap(&scratch, "git")));
        let file = scratch.path(&format!("{directory}git"));
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let search = format!(".:bin::{}", std::env::var("PATH").unwrap());
    let server = serving(&scratch).env("PATH", &search).start().await;
    assert_eq!(server.get("/vcs").await.ok()["branch"], "main");
    let status: Value = server.get("/vcs/status").await.ok();
    assert_eq!(status.as_array().map(Vec::len), Some(2), "{status}");
    let session = server.session().await;
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": "true", "description": "do nothing"})));
    server.llm.reply(Reply::text("done"));
    server.prompt(&session, "go").await;
    server.finish().await;
    assert_eq!(sprung(&scratch), BTreeSet::new());
    let line = ["-c", "git --version"];
    let status = Command::new("sh").args(line).current_dir(&scratch.work).env("PATH", &search).status();
    assert!(status.unwrap().success());
    assert_eq!(sprung(&scratch), BTreeSet::from(["git".to_owned()]));
}

#[tokio::test]
async fn a_relative_directory_of_path_finds_no_program_of_the_project() {
    let scratch = Scratch::new();
    let program = scratch.work.join("bin/of-the-project");
    scratch.write("bin/of-the-project", "#!/bin/sh\necho it ran\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let formatter = json!({"mine": {"command": ["of-the-project"], "extensions": [".txt"]}});
    let path = format!("bin::./bin:{}", std::env::var("PATH").unwrap());
    let agent = Agent::builder().scratch(&scratch).env("PATH", &path).config(json!({"formatter": formatter}));
    let agent = agent.start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "of-the-project; echo $PATH"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let result = agent.llm.last_request().tool_result("call_1");
    assert!(!result.contains("it ran") && result.contains("not found"), "{result}");
    assert!(result.lines().any(|line| line == std::env::var("PATH").unwrap()), "{result}");
    agent.finish().await;
}
