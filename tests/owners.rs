//! Files of a project that others made or can write, links that leave it, and pipes: none is obeyed, all are named.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
    sync::Arc,
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::json;

use crate::{
    cli::Machine,
    support::{
        agent::{Agent, Answer, Builder},
        llm::Reply,
        scratch::Scratch,
        skip::skipped,
    },
};

/// A user that is not the one of the tests.
const OTHER: u32 = 65534;

/// Gives files to another user; false where that cannot be done.
fn give_away(paths: &[&Path]) -> bool {
    let given = paths.iter().all(|path| chown(path, Some(OTHER), Some(OTHER)).is_ok());
    if !given {
        skipped("only root can give a file to another user");
    }
    given
}

fn agent(scratch: &Arc<Scratch>) -> Builder {
    Agent::builder().scratch(scratch).env("GIT_CONFIG_NOSYSTEM", "1")
}

/// Returns the system prompt of a turn in a directory.
async fn system(agent: &Agent, directory: &str) -> String {
    let params = json!({"cwd": directory, "mcpServers": []});
    let answer = agent.request("session/new", params).await.unwrap();
    agent.llm.reply(Reply::text("ok"));
    let turn = agent.prompt(answer["sessionId"].as_str().unwrap(), "go").await;
    assert_eq!(turn.stop, "end_turn");
    agent.llm.last_request().system()
}

#[tokio::test]
async fn files_of_another_user_are_not_obeyed_until_the_project_is_called_safe() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Planted rule.");
    scratch.write("CLAUDE.md", "Own rule.");
    scratch.write("opencode.json", json!({"instructions": ["planted.md"]}).to_string());
    scratch.write("planted.md", "Planted page.");
    scratch.write(".opencode/skills/x/SKILL.md", "---\nname: planted-skill\ndescription: d\n---\ntext");
    let given = ["AGENTS.md", "opencode.json", ".opencode"].map(|name| scratch.work.join(name));
    if !give_away(&given.each_ref().map(|path| path.as_path())) {
        return;
    }
    let first = agent(&scratch).start().await;
    let told = system(&first, scratch.cwd()).await;
    assert!(told.contains("Own rule.") && !told.contains("lanted"), "{told}");
    for path in &given {
        first.wait_stderr(&format!("{}: belongs to another user (uid {OTHER})", path.display())).await;
    }
    first.wait_stderr(&format!("git config --global --add safe.directory {}`", scratch.cwd())).await;
    first.finish().await;

    fs::write(scratch.home.join(".gitconfig"), "[safe]\n\tdirectory = *\n").unwrap();
    let second = agent(&scratch).start().await;
    let told = system(&second, scratch.cwd()).await;
    for text in ["Planted rule.", "Planted page.", "planted-skill"] {
        assert!(told.contains(text), "{text}: {told}");
    }
    second.finish().await;
}

#[tokio::test]
async fn under_sudo_the_files_of_its_caller_are_obeyed() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Rule of the caller.");
    if !give_away(&[&scratch.work, &scratch.work.join(".git"), &scratch.work.join("AGENTS.md")]) {
        return;
    }
    let agent = agent(&scratch).env("SUDO_UID", &OTHER.to_string()).start().await;
    let told = system(&agent, scratch.cwd()).await;
    assert!(told.contains("Rule of the caller."), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn below_a_directory_of_everybody_a_planted_repository_and_what_is_beside_it_are_not_obeyed() {
    let scratch = Scratch::new();
    let shared = scratch.root().join("shared");
    let (git, own) = (shared.join(".git"), shared.join("own"));
    fs::create_dir_all(&git).unwrap();
    fs::create_dir_all(&own).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    fs::write(shared.join("AGENTS.md"), "Planted rule.").unwrap();
    fs::write(shared.join("opencode.json"), json!({"instructions": ["own/page.md"]}).to_string()).unwrap();
    fs::write(own.join("page.md"), "Page.").unwrap();
    fs::write(own.join("CLAUDE.md"), "Own rule.").unwrap();
    if !give_away(&[&git, &shared.join("AGENTS.md"), &shared.join("opencode.json")]) {
        return;
    }
    let agent = agent(&scratch).start().await;
    let told = system(&agent, own.to_str().unwrap()).await;
    assert!(told.contains("Own rule.") && !told.contains("Planted") && !told.contains("Page."), "{told}");
    agent.wait_stderr(&format!("{}: belongs to another user (uid {OTHER})", git.display())).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_link_out_of_the_project_is_not_read_and_is_named() {
    let scratch = Scratch::new();
    fs::write(scratch.home.join("key"), "Secret key.").unwrap();
    scratch.write("docs/rules.md", "Own rule.");
    for (name, target) in
        [("AGENTS.md", "../home/key"), ("CLAUDE.md", "docs/rules.md"), ("page.md", "../home/key")]
    {
        symlink(target, scratch.work.join(name)).unwrap();
    }
    fs::create_dir_all(scratch.work.join(".opencode/agent")).unwrap();
    symlink("../../../home/key", scratch.work.join(".opencode/agent/x.md")).unwrap();
    scratch.write(
        "opencode.json",
        json!({"instructions": ["page.md"], "username": "{file:page.md}"}).to_string(),
    );
    let agent = agent(&scratch).env("WINDLASS_TRUST", "").answering(Answer::RejectOnce).start().await;
    let told = system(&agent, scratch.cwd()).await;
    assert!(told.contains("Own rule.") && !told.contains("Secret key."), "{told}");
    for name in ["AGENTS.md", ".opencode/agent/x.md"] {
        agent.wait_stderr(&format!("{}: is a link that leaves the project", scratch.path(name))).await;
    }
    agent.wait_stderr("{file:page.md} is a link that leaves the project").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_pipe_in_the_place_of_any_file_hangs_nothing() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.work.join("sub")).unwrap();
    scratch.write("sub/hidden.txt", "needle\n");
    scratch.write("found.txt", "needle\n");
    fs::create_dir_all(scratch.work.join(".opencode/command")).unwrap();
    let pipes = [".ignore", ".gitignore", ".rgignore", "sub/.ignore", ".opencode/command/x.md", "AGENTS.md"];
    for name in pipes {
        mkfifo(&scratch.work.join(name), Mode::S_IRWXU).unwrap();
    }
    fs::remove_file(scratch.work.join(".git/info/exclude")).ok();
    fs::create_dir_all(scratch.work.join(".git/info")).unwrap();
    mkfifo(&scratch.work.join(".git/info/exclude"), Mode::S_IRWXU).unwrap();
    // git itself waits for such a file.
    let agent = agent(&scratch).config(json!({"snapshot": false})).start().await;
    let session = agent.new_session().await;
    let found = agent.told(&session, "grep", json!({"pattern": "needle"})).await;
    assert!(found.contains("found.txt") && !found.contains("hidden.txt"), "{found}");
    assert!(found.contains(&format!("not searched: {}", scratch.path("sub"))), "{found}");
    let found = agent.told(&session, "glob", json!({"pattern": "*.txt"})).await;
    assert!(found.contains("found.txt"), "{found}");
    let found = agent.told(&session, "list", json!({"path": scratch.cwd()})).await;
    assert!(found.contains("found.txt"), "{found}");
    agent.finish().await;
}

#[tokio::test]
async fn a_data_directory_that_others_can_write_is_not_used() {
    let machine = Machine::new().await;
    let data = machine.scratch.home.join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o777)).unwrap();
    let run = async || {
        let child = machine.command(&["session", "list"]).env("WINDLASS_HOME", &data).spawn().unwrap();
        crate::cli::ended(child).await
    };
    let refused = run().await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let shown = data.display();
    let wanted = format!(
        "The directory of keys and sessions, {shown}, can be written by every user. Run `chmod 700 {shown}` once you \
         have seen what is in it, or set WINDLASS_HOME to another one.\n"
    );
    assert_eq!(refused.stderr, wanted);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing is written there");
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(run().await.code, Some(0));
    if give_away(&[&data]) {
        let refused = run().await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(
            refused
                .stderr
                .contains(&format!("belongs to another user (uid {OTHER}). Run windlass as that user"))
        );
    }
    machine.finish().await;
}
