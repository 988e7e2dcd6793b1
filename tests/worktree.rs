//! `--worktree`: work in a git worktree of its own.

use std::{path::Path, process::Command};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    cli::{Machine, ended, signal},
    support::{
        agent::Agent,
        llm::{Gate, Reply},
        server::Server,
    },
};

fn git(machine: &Machine, arguments: &[&str]) -> String {
    let output = Command::new("git").current_dir(&machine.scratch.work).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn work_in_a_worktree_stays_there_until_it_is_thrown_away() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new\n"})));
    machine.llm.reply(Reply::text("Written."));
    let ended = machine.run(&["run", "--worktree=try-it", "write it"]).await;
    assert!(ended.code == Some(0) && ended.stdout.contains("Written."), "{ended:?}");
    assert!(ended.stderr.contains("on the branch opencode/try-it"), "{ended:?}");
    assert!(ended.stderr.contains("`windlass worktree remove try-it`"), "{ended:?}");
    assert!(!machine.scratch.exists("new.txt"));

    machine.llm.reply(Reply::call("call_1", "read", json!({"filePath": "new.txt"})));
    machine.llm.reply(Reply::text("Read."));
    let ended = machine.run(&["run", "--worktree=try-it", "read it"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(machine.llm.last_request().tool_result("call_1").contains("new"));

    let listed = machine.run(&["worktree", "list"]).await;
    assert!(listed.stdout.starts_with("try-it  work in it  "), "{listed:?}");
    let refused = machine.run(&["worktree", "remove", "try-it"]).await;
    assert!(refused.code == Some(2) && refused.stderr.contains("--yes throws it away"), "{refused:?}");
    let removed = machine.run(&["worktree", "remove", "--yes", "try-it"]).await;
    assert!(removed.code == Some(0) && removed.stdout.starts_with("Removed "), "{removed:?}");
    assert_eq!(git(&machine, &["branch", "--list", "opencode/*"]), "");
    machine.finish().await;
}

#[tokio::test]
async fn the_projects_configuration_holds_in_a_worktree() {
    let machine = Machine::new().await;
    machine.scratch.write("opencode.json", json!({"permission": {"edit": "deny"}}).to_string());
    git(&machine, &["add", "opencode.json"]);
    git(
        &machine,
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.invalid",
            "commit",
            "--quiet",
            "--message",
            "rules",
        ],
    );
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new\n"})));
    machine.llm.reply(Reply::text("It was denied."));
    let ended = machine.run(&["run", "--worktree=try-it", "write it"]).await;
    assert!(ended.stderr.contains("Nothing was changed"), "{ended:?}");
    assert!(!ended.stderr.contains("keys and records"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn work_in_a_worktree_is_merged_and_a_conflict_leaves_all_as_it_is() {
    let machine = Machine::new().await;
    for (key, value) in [("user.name", "a"), ("user.email", "a@example.invalid")] {
        git(&machine, &["config", key, value]);
    }
    let write = async |name: &str, file: &str, content: &str| {
        machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": file, "content": content})));
        machine.llm.reply(Reply::text("Written."));
        let ended = machine.run(&["run", &format!("--worktree={name}"), "write it"]).await;
        assert!(ended.stderr.contains(&format!("`windlass worktree merge {name}`")), "{ended:?}");
    };
    write("good", "new.txt", "new\n").await;
    let asked = machine.run(&["worktree", "merge", "good"]).await;
    assert!(
        asked.code == Some(2) && asked.stderr.contains("Not committed in good: 1 file (?? new.txt)."),
        "{asked:?}"
    );
    assert!(!machine.scratch.exists("new.txt"));
    let merged = machine.run(&["worktree", "merge", "--yes", "good"]).await;
    assert!(merged.code == Some(0) && merged.stdout.contains("Merged, and removed "), "{merged:?}");
    assert!(machine.scratch.exists("new.txt"));
    assert!(git(&machine, &["log", "--format=%s"]).starts_with("Work of good\n"));
    assert_eq!(git(&machine, &["branch", "--list", "opencode/*"]), "");

    write("bad", "other.txt", "theirs\n").await;
    machine.scratch.write("other.txt", "ours\n");
    git(&machine, &["add", "other.txt"]);
    git(&machine, &["commit", "--quiet", "--message", "ours"]);
    let stopped = machine.run(&["worktree", "merge", "--yes", "bad"]).await;
    assert!(stopped.code == Some(1) && stopped.stderr.contains("`git merge --abort`"), "{stopped:?}");
    git(&machine, &["merge", "--abort"]);
    assert!(machine.run(&["worktree", "list"]).await.stdout.starts_with("bad  work in it"));
    let unknown = machine.run(&["worktree", "merge", "none"]).await;
    assert!(unknown.stderr.contains("There is no worktree `none`"), "{unknown:?}");
    machine.finish().await;
}

#[tokio::test]
async fn commits_on_another_branch_and_ignored_files_keep_a_worktree() {
    let machine = Machine::new().await;
    let commit = "git switch -qc opencode/other && git -c user.name=a -c user.email=a@example.invalid commit -q \
                  --allow-empty -m work";
    for (name, command) in [("branched", commit), ("ignored", "echo '*' > .gitignore && echo x > report")] {
        machine.llm.reply(Reply::call("call_1", "bash", json!({"command": command})));
        machine.llm.reply(Reply::text("Done."));
        let ended = machine.run(&["run", &format!("--worktree={name}"), "do it"]).await;
        assert!(ended.code == Some(0) && ended.stderr.contains("The work is in "), "{name}: {ended:?}");
    }
    assert!(git(&machine, &["log", "--format=%s", "opencode/other"]).starts_with("work\n"));
    let listed = machine.run(&["worktree", "list"]).await;
    assert_eq!(listed.stdout.matches("  work in it  ").count(), 2, "{listed:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_worktree_whose_directory_has_gone_is_listed_and_removed() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new\n"})));
    machine.llm.reply(Reply::text("Written."));
    machine.run(&["run", "--worktree=gone", "write it"]).await;
    let listed = machine.run(&["worktree", "list"]).await;
    let directory = listed.stdout.split("  ").nth(2).unwrap().split(" on the branch").next().unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let listed = machine.run(&["worktree", "list"]).await;
    assert!(listed.stdout.starts_with("gone  directory gone  "), "{listed:?}");
    let ended = machine.run(&["run", "--worktree=gone", "again"]).await;
    assert!(ended.code == Some(1) && ended.stderr.contains("worktree remove gone"), "{ended:?}");
    let removed = machine.run(&["worktree", "remove", "--yes", "gone"]).await;
    assert!(removed.code == Some(0), "{removed:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_worktree_in_which_nothing_was_changed_is_gone_again() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("Nothing to do."));
    let ended = machine.run(&["run", "--worktree", "look"]).await;
    assert!(ended.code == Some(0) && ended.stderr.contains("is gone again"), "{ended:?}");
    assert_eq!(git(&machine, &["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    let unknown = machine.run(&["worktree", "remove", "nobody"]).await;
    assert!(
        unknown.code == Some(1) && unknown.stderr.contains("There is no worktree `nobody`"),
        "{unknown:?}"
    );
    std::fs::remove_dir_all(machine.scratch.work.join(".git")).unwrap();
    let ended = machine.run(&["run", "--worktree", "look"]).await;
    assert!(ended.code == Some(1) && ended.stderr.contains("commit something first"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_session_of_a_client_has_a_worktree_which_goes_with_its_end_where_nothing_was_changed() {
    let agent = Agent::start().await;
    let mut params = agent.session_params();
    params["_meta"] = json!({"windlass/worktree": "try-it"});
    let session = agent.request("session/new", params.clone()).await.unwrap()["sessionId"].clone();
    let session = session.as_str().unwrap();
    let asked = async |words: &str| {
        agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "pwd", "description": "looks"})));
        agent.llm.reply(Reply::text("there"));
        agent.prompt(session, words).await;
        agent.llm.last_request().tool_result("call_1").trim().to_owned()
    };
    let directory = asked("where?").await;
    assert!(directory.ends_with("/try-it") && Path::new(&directory).is_dir(), "{directory}");
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    assert!(!Path::new(&directory).exists());
    // It is made again for one who comes back, from wherever in the project, and stays with work in it.
    let listed = agent.request("session/list", json!({"cwd": directory})).await.unwrap();
    assert_eq!(listed["sessions"][0]["sessionId"], session);
    let load = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    agent.request("session/load", load).await.unwrap();
    assert_eq!(asked("and now?").await, directory);
    agent.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new\n"})));
    agent.llm.reply(Reply::text("written"));
    agent.prompt(session, "write").await;
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    assert!(Path::new(&directory).join("new.txt").exists() && !agent.scratch.exists("new.txt"));
    params["_meta"] = json!({"windlass/worktree": 1});
    let refused = agent.request("session/new", params).await.unwrap_err();
    assert!(refused.message.contains("must be a boolean or a name"), "{}", refused.message);
    agent.finish().await;
}

#[tokio::test]
async fn a_session_over_http_has_a_worktree_too() {
    let server = Server::start().await;
    server.scratch.write("sub/b.txt", "in a commit\n");
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"];
    for arguments in [&["add", "sub"][..], &[&identity[..], &["commit", "-qm", "more"]].concat()] {
        Command::new("git").current_dir(&server.scratch.work).args(arguments).status().unwrap();
    }
    let (below, place) = session_in_worktree_of(&server, "?directory=sub", json!("below")).await;
    assert!(place.ends_with("/below/sub"), "{place}");
    delete(&server, &below).await;
    assert!(!Path::new(&place).exists());
    let made = server.post("/session", json!({"worktree": true})).await.ok();
    let directory = made["directory"].as_str().unwrap().to_owned();
    assert!(directory != server.scratch.work.display().to_string() && Path::new(&directory).is_dir());
    let listed = server.get("/experimental/worktree").await.ok();
    assert_eq!(listed, json!([directory]));
    server.send("DELETE", &format!("/session/{}", made["id"].as_str().unwrap()), Value::Null).await.ok();
    assert!(!Path::new(&directory).exists());
    assert_eq!(server.get("/experimental/worktree").await.ok(), json!([]));
    server.post("/session", json!({"worktree": 3})).await.refused(400);
    server.finish().await;
}

#[tokio::test]
async fn a_subagent_that_asks_for_a_worktree_changes_nothing_in_its_parents_directory() {
    let own = json!({"agent": {"digger": {"mode": "subagent", "description": "digs", "worktree": true}}});
    let agent = Agent::start_with(own).await;
    let session = agent.new_session().await;
    let task = |id: &str| {
        let input = json!({"description": "dig", "prompt": "CHILD", "subagent_type": "digger"});
        Reply::call(id, "task", input)
    };
    agent.llm.reply_to("go", task("call_1"));
    agent
        .llm
        .reply_to("CHILD", Reply::call("call_2", "write", json!({"filePath": "new.txt", "content": "x"})));
    agent.llm.reply_to("CHILD", Reply::text("dug"));
    agent.llm.reply_to("go", task("call_3"));
    agent.llm.reply_to("CHILD", Reply::text("nothing to dig"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    let (worked, idle) = (request.tool_result("call_1"), request.tool_result("call_3"));
    let directory = worked.split("directory=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(Path::new(directory).join("new.txt").exists() && !agent.scratch.exists("new.txt"), "{worked}");
    assert!(worked.contains("`windlass worktree merge "), "{worked}");
    assert!(idle.contains("changed no file in it"), "{idle}");
    agent.finish().await;
}

#[tokio::test]
async fn a_worktree_without_a_repository_is_refused_with_a_reason() {
    let agent = Agent::start().await;
    let elsewhere = agent.scratch.home.join("plain");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut params = agent.session_params();
    params["cwd"] = json!(elsewhere);
    params["_meta"] = json!({"windlass/worktree": true});
    let refused = agent.request("session/new", params).await.unwrap_err();
    assert!(refused.message.contains("not in a git repository with a commit"), "{}", refused.message);
    agent.finish().await;
}

#[tokio::test]
async fn a_worktree_is_not_removed_from_within_and_its_session_goes_on_in_it() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new\n"})));
    machine.llm.reply(Reply::text("Written."));
    machine.run(&["run", "--worktree=try-it", "write it"]).await;
    let sessions = machine.run(&["session", "list", "--format", "json"]).await;
    let sessions: Value = serde_json::from_str(&sessions.stdout).unwrap();
    let (id, directory) = (sessions[0]["id"].as_str().unwrap(), sessions[0]["directory"].as_str().unwrap());
    assert!(directory.ends_with("/try-it"), "{directory}");
    machine.llm.reply(Reply::call("call_2", "bash", json!({"command": "pwd"})));
    machine.llm.reply(Reply::text("There."));
    let ended = machine.run(&["run", "-s", id, "where?"]).await;
    assert!(ended.stderr.contains("Working in the session's worktree try-it."), "{ended:?}");
    assert_eq!(machine.llm.last_request().tool_result("call_2").trim(), directory);
    let mut within = machine.command(&["worktree", "remove", "--yes", "try-it"]);
    let refused = crate::cli::ended(within.current_dir(directory).spawn().unwrap()).await;
    assert!(refused.stderr.contains("try-it is where you are"), "{refused:?}");
    assert!(Path::new(directory).join("new.txt").exists());
    for (name, proposal) in [("feat/one", "`feat-one` could"), ("UP", "`up` could"), ("..", "hyphens.")] {
        let refused = machine.run(&["run", &format!("--worktree={name}"), "x"]).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(proposal), "{refused:?}");
    }
    machine.finish().await;
}

/// Makes a session over HTTP in a worktree; returns its id and its directory.
async fn session_in_worktree(server: &Server, choice: Value) -> (String, String) {
    session_in_worktree_of(server, "", choice).await
}

async fn session_in_worktree_of(server: &Server, query: &str, choice: Value) -> (String, String) {
    let made = server.post(&format!("/session{query}"), json!({ "worktree": choice })).await.ok();
    (made["id"].as_str().unwrap().to_owned(), made["directory"].as_str().unwrap().to_owned())
}

async fn delete(server: &Server, id: &str) {
    server.send("DELETE", &format!("/session/{id}"), Value::Null).await.ok();
}

#[tokio::test]
async fn a_worktree_stays_while_another_session_is_in_it_and_with_files_that_git_is_not_to_show() {
    let server = Server::start().await;
    let git = |arguments: &[&str]| {
        assert!(
            Command::new("git").current_dir(&server.scratch.work).args(arguments).status().unwrap().success()
        );
    };
    git(&["config", "status.showUntrackedFiles", "no"]);
    let (first, directory) = session_in_worktree(&server, json!("shared")).await;
    let (second, same) = session_in_worktree(&server, json!("shared")).await;
    assert_eq!(same, directory);
    delete(&server, &first).await;
    assert!(Path::new(&directory).is_dir(), "the second is in it");
    delete(&server, &second).await;
    assert!(!Path::new(&directory).exists());

    let (id, directory) = session_in_worktree(&server, json!("kept")).await;
    std::fs::write(Path::new(&directory).join("new.txt"), "new\n").unwrap();
    delete(&server, &id).await;
    assert!(Path::new(&directory).join("new.txt").exists());
    server.finish().await;
}

#[tokio::test]
async fn only_a_worktree_of_a_task_is_removed_and_a_session_elsewhere_stays_open() {
    let server = Server::start().await;
    let (_, directory) = session_in_worktree(&server, json!(true)).await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("half").and_gate(&gate).and_text(" whole"));
    let id = server.session().await;
    let body = json!({"parts": [{"type": "text", "text": "go"}]});
    server.post(&format!("/session/{id}/prompt_async"), body).await;
    gate.reached().await;
    let mut events = server.events("/event").await;
    let path = "/experimental/worktree";
    let work = server.scratch.work.display().to_string();
    server.send("DELETE", path, json!({ "directory": work })).await.refused(400);
    gate.open();
    events.until("session.idle").await;
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    assert!(messages[1]["parts"].to_string().contains("half whole"), "the turn went on: {messages}");
    assert_eq!(server.send("DELETE", path, json!({ "directory": directory })).await.status, 200);
    assert!(!Path::new(&directory).exists());
    server.finish().await;
}

#[tokio::test]
async fn a_worktree_in_which_nothing_was_changed_goes_with_its_server_too() {
    let server = Server::start().await;
    let (id, directory) = session_in_worktree(&server, json!(true)).await;
    let server = server.restarted().await;
    assert!(!Path::new(&directory).exists());
    // It is there again for the session.
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": "pwd", "description": "looks"})));
    server.llm.reply(Reply::text("there"));
    server.prompt(&id, "where?").await;
    assert_eq!(server.llm.last_request().tool_result("call_1").trim(), directory);
    server.finish().await;
}

#[tokio::test]
async fn a_worktree_in_which_another_process_works_is_not_removed_and_goes_with_that_where_it_is_interrupted()
{
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("half").and_gate(&gate));
    let working = machine.command(&["run", "--worktree=busy", "go"]).spawn().unwrap();
    gate.reached().await;
    let refused = machine.run(&["worktree", "remove", "--yes", "busy"]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("A session works in busy"), "{refused:?}");
    signal(&working, Signal::SIGINT);
    let ended = ended(working).await;
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stderr.contains("the worktree busy is gone again"), "{ended:?}");
    assert_eq!(git(&machine, &["branch", "--list", "opencode/*"]), "");
    machine.finish().await;
}
