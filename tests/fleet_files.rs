//! The files of shared sessions: they travel by a git remote from one machine's checkout to the next.

use std::{path::Path, process::Command, sync::Arc};

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, Builder},
    llm::{Llm, Reply},
    nodes::cli,
    postgres::Postgres,
    scratch::Scratch,
};

fn git(directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A remote that has the first commit of every scratch repository.
struct Remote(Arc<Scratch>);

impl Remote {
    fn new() -> Self {
        let scratch = Scratch::new();
        git(scratch.root(), &["clone", "--quiet", "--bare", "work", "remote.git"]);
        Self(scratch)
    }

    fn url(&self) -> String {
        self.0.root().join("remote.git").display().to_string()
    }

    /// Returns the files of a session that arrived.
    fn files(&self, session: &str) -> String {
        let reference = format!("refs/windlass/{session}");
        git(&self.0.root().join("remote.git"), &["ls-tree", "-r", "--name-only", &reference])
    }
}

fn node(postgres: &Postgres, llm: &Llm, remote: &Remote, name: &str) -> Builder {
    let mut shared = postgres.shared(name, "shared");
    shared["worktrees"] = json!(remote.url());
    Agent::builder().llm(llm).config(json!({"windlass": {"shared": shared}}))
}

/// Runs a turn of one shell command.
async fn run(node: &Agent, session: &str, command: &str) {
    let call = json!({"command": command, "description": "Changes files"});
    node.llm.reply(Reply::call("call_1", "bash", call));
    node.llm.reply(Reply::text("done"));
    node.prompt(session, "work").await;
}

fn told(node: &Agent, session: &str) -> String {
    let updates = node.updates(session);
    let thoughts = updates.iter().filter(|update| update["sessionUpdate"] == "agent_thought_chunk");
    thoughts.map(|update| update["content"]["text"].as_str().unwrap_or_default()).collect()
}

fn said(llm: &Llm) -> String {
    Value::from(llm.last_request().messages().to_vec()).to_string()
}

#[tokio::test]
async fn the_files_of_a_session_come_along_and_can_be_taken_back_there() {
    let Some(postgres) = Postgres::start().await else { return };
    let (llm, remote) = (Llm::start().await, Remote::new());
    let one = node(&postgres, &llm, &remote, "one").start().await;
    let session = one.new_session().await;
    run(&one, &session, "echo A >> a.txt; mkdir sub; echo new > sub/new.txt; chmod +x sub/new.txt").await;
    run(&one, &session, "rm README.md; echo B >> a.txt").await;
    one.finish().await;

    let two = node(&postgres, &llm, &remote, "two").start().await;
    let before = git(&two.scratch.work, &["for-each-ref"]);
    two.load(&session).await;
    assert!(!two.scratch.exists("sub/new.txt"), "reading changes nothing");
    llm.reply(Reply::text("here"));
    two.prompt(&session, "go on").await;
    assert_eq!(two.scratch.read("a.txt"), "one\ntwo\nthree\nA\nB\n");
    assert!(two.scratch.exists("sub/new.txt") && !two.scratch.exists("README.md"));
    assert_eq!(git(&two.scratch.work, &["for-each-ref"]), before, "the user's references stay as they are");
    assert!(told(&two, &session).contains("3 files of this session came along from one."));
    assert!(said(&llm).contains("came along from one"), "{}", said(&llm));

    two.prompt(&session, "/undo").await;
    two.prompt(&session, "/undo").await;
    assert_eq!(two.scratch.read("a.txt"), "one\ntwo\nthree\nA\n");
    assert!(two.scratch.exists("README.md"));

    // And back, without a question.
    run(&two, &session, "echo C >> a.txt").await;
    let scratch = two.scratch.clone();
    two.finish().await;
    assert_eq!(scratch.read("a.txt"), "one\ntwo\nthree\nA\nC\n");
    let three = node(&postgres, &llm, &remote, "three").start().await;
    three.load(&session).await;
    llm.reply(Reply::text("here too"));
    three.prompt(&session, "go on").await;
    assert_eq!(three.scratch.read("a.txt"), "one\ntwo\nthree\nA\nC\n");
    three.finish().await;
}

#[tokio::test]
async fn a_directory_with_changes_of_its_own_is_asked_about() {
    let Some(postgres) = Postgres::start().await else { return };
    for answer in [Answer::RejectOnce, Answer::AllowOnce] {
        let (llm, remote) = (Llm::start().await, Remote::new());
        let one = node(&postgres, &llm, &remote, "one").start().await;
        let session = one.new_session().await;
        run(&one, &session, "echo A >> a.txt; echo new > new.txt").await;
        one.finish().await;

        let two = node(&postgres, &llm, &remote, "two").start().await;
        two.scratch.write("a.txt", "mine\n");
        two.load(&session).await;
        llm.reply(Reply::text("here"));
        let prompt = two.send_prompt(&session, "go on");
        let ask = two.permission().await;
        let title = ask.call()["title"].as_str().unwrap();
        assert!(title.contains("from one over changes of this directory, for good: a.txt"), "{title}");
        assert_eq!(two.scratch.read("a.txt"), "mine\n");
        two.answer(&ask, answer);
        prompt.answer().await.unwrap();
        let is_taken = answer == Answer::AllowOnce;
        let expected = if is_taken { "one\ntwo\nthree\nA\n" } else { "mine\n" };
        assert_eq!(two.scratch.read("a.txt"), expected);
        assert_eq!(two.scratch.exists("new.txt"), is_taken);
        // It is asked once.
        llm.reply(Reply::text("still here"));
        two.prompt(&session, "and now?").await;
        two.finish().await;
    }
}

#[tokio::test]
async fn secrets_stay_and_a_file_that_looks_like_a_key_stops_the_journey_with_a_word() {
    let Some(postgres) = Postgres::start().await else { return };
    let (llm, remote) = (Llm::start().await, Remote::new());
    let one = node(&postgres, &llm, &remote, "one").start().await;
    let session = one.new_session().await;
    run(&one, &session, "echo TOKEN=x > .env; echo ignored > .gitignore; echo x > ignored; echo A > new.txt")
        .await;
    // It is told in the turn itself if the files are sent by then.
    let at_once = told(&one, &session);
    one.request("session/close", json!({"sessionId": session})).await.unwrap();
    one.load(&session).await;
    run(&one, &session, "printf -- '-----BEGIN PRIVATE KEY-----\\nabc\\n' > notes.txt; echo B > newer.txt")
        .await;
    let scratch = one.scratch.clone();
    let of_secrets = at_once + &told(&one, &session);
    assert!(of_secrets.contains("secrets stay on this machine: .env."), "{of_secrets}");
    one.finish().await;
    assert_eq!(remote.files(&session), ".gitignore\n.windlass-file-modes\nREADME.md\na.txt\nnew.txt\n");

    let one = node(&postgres, &llm, &remote, "one").scratch(&scratch).start().await;
    one.load(&session).await;
    run(&one, &session, "echo C > newest.txt").await;
    let at_once = told(&one, &session);
    one.request("session/close", json!({"sessionId": session})).await.unwrap();
    assert!(!remote.files(&session).contains("newer.txt"));
    one.load(&session).await;
    run(&one, &session, "rm notes.txt").await;
    let told = at_once + &told(&one, &session);
    assert!(told.contains("notes.txt looks like a key"), "{told}");
    one.finish().await;
    let files = remote.files(&session);
    assert!(
        files.contains("newer.txt") && files.contains("newest.txt") && !files.contains("notes.txt"),
        "{files}"
    );
}

#[tokio::test]
async fn a_remote_that_is_not_there_is_named_and_work_goes_on() {
    let Some(postgres) = Postgres::start().await else { return };
    let (llm, remote) = (Llm::start().await, Remote::new());
    let missing = json!({"windlass": {"shared": {"worktrees": "/nowhere/remote.git"}}});
    let one = node(&postgres, &llm, &remote, "one").config(missing.clone()).start().await;
    let session = one.new_session().await;
    run(&one, &session, "echo A >> a.txt").await;
    one.finish().await;
    let two = node(&postgres, &llm, &remote, "two").config(missing).start().await;
    two.load(&session).await;
    llm.reply(Reply::text("here"));
    assert_eq!(two.prompt(&session, "go on").await.text(), "here");
    assert!(told(&two, &session).contains("did not come along: git failed"), "{}", told(&two, &session));
    two.finish().await;
}

#[tokio::test]
async fn a_machine_to_which_the_files_have_not_come_sends_none() {
    let Some(postgres) = Postgres::start().await else { return };
    let (llm, remote) = (Llm::start().await, Remote::new());
    let one = node(&postgres, &llm, &remote, "one").start().await;
    let session = one.new_session().await;
    run(&one, &session, "echo A >> a.txt").await;
    let here = one.scratch.clone();
    one.finish().await;
    let arrived = remote.files(&session);
    let missing = json!({"windlass": {"shared": {"worktrees": "/nowhere/remote.git"}}});
    let two = node(&postgres, &llm, &remote, "two").config(missing).start().await;
    two.load(&session).await;
    run(&two, &session, "echo B >> a.txt; echo B > two.txt").await;
    let there = two.scratch.clone();
    two.finish().await;
    // The remote is there again, and nobody can be asked.
    let two = node(&postgres, &llm, &remote, "two").scratch(&there).start().await;
    two.load(&session).await;
    llm.reply(Reply::text("here"));
    let prompt = two.send_prompt(&session, "go on");
    two.answer(&two.permission().await, Answer::RejectOnce);
    prompt.turn().await;
    run(&two, &session, "echo C >> a.txt").await;
    two.finish().await;
    assert_eq!(there.read("a.txt"), "one\ntwo\nthree\nB\nC\n");
    assert_eq!(remote.files(&session), arrived);

    let one = node(&postgres, &llm, &remote, "one").scratch(&here).start().await;
    one.load(&session).await;
    llm.reply(Reply::text("back"));
    one.prompt(&session, "go on").await;
    assert_eq!(one.scratch.read("a.txt"), "one\ntwo\nthree\nA\n");
    one.finish().await;
}

#[tokio::test]
async fn what_somebody_else_put_into_the_remote_is_not_believed() {
    let Some(postgres) = Postgres::start().await else { return };
    let (llm, remote) = (Llm::start().await, Remote::new());
    let one = node(&postgres, &llm, &remote, "one").start().await;
    let session = one.new_session().await;
    run(&one, &session, "echo A >> a.txt").await;
    one.finish().await;
    let reference = format!("refs/windlass/{session}");
    let bare = remote.0.root().join("remote.git");
    let message = git(&bare, &["log", "-1", "--format=%B", &reference]);
    let planted = remote.0.root().join("planted");
    git(remote.0.root(), &["clone", "--quiet", "remote.git", "planted"]);
    std::fs::write(planted.join("a.txt"), "planted\n").unwrap();
    let who = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid"];
    git(&planted, &[&who[..], &["commit", "--quiet", "-a", "-m", &message]].concat());
    // The same files behind other ones, which would count as known.
    let tree = git(&bare, &["rev-parse", &format!("{reference}^{{tree}}")]);
    let push = |commit: &str| {
        git(&planted, &["push", "--quiet", "--force", "origin", &format!("{commit}:{reference}")]);
    };
    git(&planted, &["fetch", "--quiet", "origin", &reference]);
    let behind = [&who[..], &["commit-tree", tree.trim(), "-p", "HEAD", "-m", &message]].concat();
    let forged = [git(&planted, &["rev-parse", "HEAD"]), git(&planted, &behind)];
    push(forged[0].trim());

    let two = node(&postgres, &llm, &remote, "two").start().await;
    two.load(&session).await;
    for commit in &forged {
        push(commit.trim());
        llm.reply(Reply::text("here"));
        two.prompt(&session, "go on").await;
        assert_eq!(two.scratch.read("a.txt"), "one\ntwo\nthree\n");
        assert!(said(&llm).contains("was not written by a node of the fleet"), "{}", said(&llm));
    }
    two.finish().await;
}

#[tokio::test]
async fn a_session_of_a_worktree_has_one_on_the_next_machine_too() {
    let Some(postgres) = Postgres::start().await else { return };
    let (llm, remote) = (Llm::start().await, Remote::new());
    let one = node(&postgres, &llm, &remote, "one").start().await;
    let mut params = one.session_params();
    params["_meta"] = json!({"windlass/worktree": "side"});
    let opened = one.request("session/new", params).await.unwrap();
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    run(&one, &session, "echo new > new.txt").await;
    one.finish().await;

    let two = node(&postgres, &llm, &remote, "two").start().await;
    two.load(&session).await;
    run(&two, &session, "pwd; echo more >> new.txt").await;
    let updates = two.updates(&session);
    let mut places = updates.iter().rev().filter_map(|it| it["locations"][0]["path"].as_str());
    let directory = places.next().unwrap();
    assert!(directory.ends_with("/side"), "{directory}");
    assert!(Path::new(directory).starts_with(&two.scratch.home), "{directory}");
    assert_eq!(std::fs::read_to_string(Path::new(directory).join("new.txt")).unwrap(), "new\nmore\n");
    assert!(!two.scratch.exists("new.txt"), "the checkout is left alone");
    two.finish().await;

    let scratch = Scratch::new();
    let mut shared = postgres.shared("three", "shared");
    shared["worktrees"] = json!(remote.url());
    llm.reply(Reply::text("here too"));
    let arguments = ["run", "--session", &session, "go on"];
    cli(&scratch, &llm, &json!({"windlass": {"shared": shared}}), &arguments).await;
    let found = Command::new("find").arg(&scratch.home).args(["-path", "*/side/new.txt"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert_eq!(std::fs::read_to_string(found.trim()).unwrap(), "new\nmore\n");
    assert!(!scratch.exists("new.txt"), "nor is it here");
}

#[tokio::test]
async fn a_busy_checkout_is_left_alone_where_the_session_gets_a_worktree() {
    let Some(postgres) = Postgres::start().await else { return };
    let (llm, remote) = (Llm::start().await, Remote::new());
    let one = node(&postgres, &llm, &remote, "one").start().await;
    let session = one.new_session().await;
    run(&one, &session, "echo A >> a.txt").await;
    one.finish().await;

    let scratch = Scratch::new();
    scratch.write("a.txt", "my own\n");
    let mut shared = postgres.shared("two", "shared");
    shared["worktrees"] = json!(remote.url());
    llm.reply(Reply::text("here"));
    let arguments = ["run", "--session", &session, "--worktree=side", "go on"];
    cli(&scratch, &llm, &json!({"windlass": {"shared": shared}}), &arguments).await;
    assert!(said(&llm).contains("came along from one"), "{}", said(&llm));
    assert_eq!(scratch.read("a.txt"), "my own\n");
    let found = Command::new("find").arg(&scratch.home).args(["-path", "*/side/a.txt"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert_eq!(std::fs::read_to_string(found.trim()).unwrap(), "one\ntwo\nthree\nA\n");
}

#[tokio::test]
async fn a_session_of_another_machine_does_not_fall_into_a_worktree_of_this_one() {
    let Some(postgres) = Postgres::start().await else { return };
    let (llm, remote) = (Llm::start().await, Remote::new());
    let one = node(&postgres, &llm, &remote, "one").start().await;
    let session = one.new_session().await;
    run(&one, &session, "echo new > new.txt").await;
    one.finish().await;

    let two = node(&postgres, &llm, &remote, "two").start().await;
    let mut params = two.session_params();
    params["_meta"] = json!({"windlass/worktree": "mine"});
    let own = two.request("session/new", params).await.unwrap();
    let own = own["sessionId"].as_str().unwrap();
    run(&two, own, "echo precious > mine.txt").await;
    let listed = two.request("session/list", json!({"cwd": two.scratch.cwd()})).await.unwrap();
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str(), "{listed}");
    two.load(&session).await;
    run(&two, &session, "echo more >> new.txt").await;
    assert_eq!(two.scratch.read("new.txt"), "new\nmore\n");
    two.finish().await;
}
