//! Commands that rules let through although others are asked about: they write the files that `edit` may write unasked.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    sandbox::lacks,
    support::{
        agent::{Agent, Answer},
        outside::outside,
        scratch::Scratch,
    },
};

async fn open(scratch: &Arc<Scratch>, config: Value, answer: Answer) -> (Agent, String) {
    let agent = Agent::builder().scratch(scratch).config(config).answering(answer).start().await;
    let session = agent.new_session().await;
    (agent, session)
}

#[tokio::test]
async fn a_rule_for_a_reading_program_lets_it_write_nothing() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("src/a.txt", "b\na\n");
    let rules =
        json!({"bash": {"*": "ask", "git *": "allow", "sort *": "allow", "find *": "allow"}, "edit": "ask"});
    let (agent, session) = open(&scratch, json!({ "permission": rules }), Answer::RejectOnce).await;
    for (command, made) in [
        ("sort -o sorted src/a.txt", "sorted"),
        ("git diff --no-index --output=diff src/a.txt /dev/null", "diff"),
        ("git init -q made", "made"),
        ("find src -fprintf found %p", "found"),
    ] {
        let told = agent.told(&session, "bash", json!({"command": command})).await;
        assert!(told.contains("<sandbox>") && told.contains("It may write no files"), "{command}: {told}");
        assert!(!scratch.exists(made), "{command}: {told}");
    }
    assert_eq!(agent.n_asked(), 4, "once for each, whether it may run outside");
    // Reading goes on as before, with memory to write on.
    let told = agent.told(&session, "bash", json!({"command": "sort src/a.txt; git status --short"})).await;
    assert!(told.starts_with("a\nb\n") && told.contains("src/"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn it_writes_where_edit_may_but_no_files_that_decide() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("docs/a.md", "");
    scratch.write("keys/a.pem", "");
    std::os::unix::fs::symlink(&scratch.home, scratch.work.join("away")).unwrap();
    let bash = json!({"*": "ask", "cp *": "allow"});
    for (edit, allowed, refused) in [
        (
            json!("allow"),
            &["new", "keys/new", "docs/new"][..],
            &[".git/hooks/pre-commit", "opencode.json"][..],
        ),
        (json!({"*": "allow", "keys/*": "ask"}), &["new", "docs/new"], &["keys/new", "opencode.json"]),
        (
            json!({"*": "ask", "docs/**": "allow", "away/**": "allow"}),
            &["docs/new"],
            &["new", "keys/new", "away/new"],
        ),
    ] {
        let config = json!({"permission": {"bash": bash, "edit": edit, "external_directory": "allow"}});
        let (agent, session) = open(&scratch, config, Answer::RejectOnce).await;
        for (name, is_allowed) in
            allowed.iter().map(|name| (name, true)).chain(refused.iter().map(|name| (name, false)))
        {
            let told = agent.told(&session, "bash", json!({"command": format!("cp docs/a.md {name}")})).await;
            assert_eq!(scratch.exists(name), is_allowed, "{edit}, {name}: {told}");
            let _ = std::fs::remove_file(scratch.work.join(name));
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn always_for_a_command_lets_later_ones_write_the_project_alone() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    let config = json!({"permission": {"bash": "ask", "edit": "ask", "external_directory": "allow"}});
    let (agent, session) = open(&scratch, config.clone(), Answer::AllowAlways).await;
    agent.told(&session, "bash", json!({"command": "touch first"})).await;
    assert_eq!(agent.n_asked(), 1);
    let next = agent.successor().config(config).answering(Answer::RejectOnce);
    agent.finish().await;
    let agent = next.start().await;
    let session = agent.new_session().await;
    agent.told(&session, "bash", json!({"command": "touch second"})).await;
    assert!(scratch.exists("first") && scratch.exists("second"));
    assert_eq!(agent.n_asked(), 0);
    let outside = outside();
    let victim = outside.path().join("made");
    for place in [".git/hooks/pre-commit", &victim.display().to_string()] {
        let told = agent.told(&session, "bash", json!({"command": format!("touch {place}")})).await;
        assert!(told.contains("Read-only file system"), "{told}");
    }
    assert!(!victim.exists() && agent.n_asked() == 2);
    agent.finish().await;
}

#[tokio::test]
async fn whoever_says_off_or_allows_everything_gets_no_bounds() {
    let scratch = Scratch::new();
    let some = json!({"bash": {"*": "ask", "touch *": "allow"}, "edit": "ask"});
    for (config, name) in [
        (json!({"permission": some, "windlass": {"sandbox": {"mode": "off"}}}), "a"),
        (json!({"permission": {"bash": "allow", "edit": "ask"}}), "b"),
        (json!({"permission": {"bash": some["bash"], "edit": "ask", "sandbox": {"touch *": "allow"}}}), "c"),
    ] {
        let (agent, session) = open(&scratch, config, Answer::RejectOnce).await;
        agent.told(&session, "bash", json!({"command": format!("touch {name}")})).await;
        assert!(scratch.exists(name), "{name}");
        agent.finish().await;
    }
}
