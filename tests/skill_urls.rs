//! Skills behind URLs: fetched beside the work, kept by version, and there when their server is not.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Builder},
    llm::Reply,
    scratch::Scratch,
    web::{Page, Web},
};

fn bees(body: &str) -> Page {
    Page::new("text/markdown", format!("---\nname: bees\ndescription: Keeping bees\n---\n{body}\n"))
}

fn index(skills: Value) -> Page {
    Page::new("application/json", json!({ "skills": skills }).to_string())
}

fn one_skill(version: &str) -> Page {
    index(json!([{"name": "bees", "files": ["SKILL.md", "scripts/smoke.sh"], "version": version}]))
}

/// Returns a server of one skill with a script.
async fn server() -> Web {
    let web = Web::start().await;
    web.page("/s/index.json", one_skill("1"));
    web.page("/s/bees/SKILL.md", bees("Use smoke."));
    web.page("/s/bees/scripts/smoke.sh", Page::new("text/plain", "echo smoke"));
    web
}

fn from(scratch: &Arc<Scratch>, url: &str) -> Builder {
    Agent::builder().scratch(scratch).config(json!({"skills": {"urls": [url]}}))
}

/// Waits until `/status` says this, and returns all of it: a fetch does not report its end.
async fn status_with(agent: &Agent, session: &str, wanted: &str) -> String {
    loop {
        let status = agent.prompt(session, "/status").await.text();
        if status.contains(wanted) {
            return status;
        }
    }
}

/// Waits until the skill is offered to the user as a command.
async fn offered(agent: &Agent, session: &str) {
    while !agent.prompt(session, "/help").await.text().contains("`/bees`") {}
}

async fn loaded_skill(agent: &Agent, session: &str) -> String {
    agent.llm.reply(Reply::call("call_1", "skill", json!({"name": "bees"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(session, "go").await;
    agent.llm.last_request().tool_result("call_1")
}

#[tokio::test]
async fn a_skill_of_a_server_is_fetched_with_its_files_and_loaded() {
    let web = server().await;
    let scratch = Scratch::new();
    let agent = from(&scratch, &web.url("/s/")).start().await;
    let session = agent.new_session().await;
    offered(&agent, &session).await;
    let loaded = loaded_skill(&agent, &session).await;
    assert!(loaded.contains("# Skill: bees\n\nUse smoke."), "{loaded}");
    let script = loaded.lines().find_map(|line| line.strip_prefix("<file>")).unwrap();
    let script = script.trim_end_matches("</file>");
    assert!(script.ends_with("scripts/smoke.sh"), "{loaded}");
    // It is outside the project, and is read unasked.
    agent.llm.reply(Reply::call("call_2", "read", json!({"filePath": script})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go on").await;
    assert!(agent.llm.last_request().tool_result("call_2").contains("echo smoke"));
    agent.finish().await;
}

#[tokio::test]
async fn a_version_is_fetched_once_and_a_new_one_takes_its_place() {
    let web = server().await;
    let scratch = Scratch::new();
    for (version, body, n_files) in [("1", "Use smoke.", 1), ("1", "Use smoke.", 1), ("2", "Use a veil.", 2)]
    {
        if version == "2" {
            // The first answer has been given; the next ones are given one after another.
            web.page("/s/index.json", one_skill("2"));
            web.page("/s/bees/SKILL.md", bees(body));
            web.skip("/s/index.json");
            web.skip("/s/bees/SKILL.md");
        }
        let agent = from(&scratch, &web.url("/s")).start().await;
        let session = agent.new_session().await;
        offered(&agent, &session).await;
        // The kept skills are used until the server has answered.
        let mut said = String::new();
        while !said.contains(body) {
            agent.llm.reply(Reply::text("done"));
            agent.prompt(&session, "/bees").await;
            said = agent.llm.last_request().last_user();
        }
        agent.finish().await;
        assert_eq!(web.n_asked("/s/bees/SKILL.md"), n_files, "version {version}");
    }
}

#[tokio::test]
async fn a_start_without_the_server_uses_what_was_kept_and_says_so() {
    let web = server().await;
    let scratch = Scratch::new();
    let agent = from(&scratch, &web.url("/s")).start().await;
    let session = agent.new_session().await;
    offered(&agent, &session).await;
    agent.finish().await;

    web.page("/s/index.json", Page::status(503));
    web.skip("/s/index.json");
    let agent = from(&scratch, &web.url("/s")).start().await;
    let session = agent.new_session().await;
    // From the first turn on, in any state of the server.
    let loaded = loaded_skill(&agent, &session).await;
    assert!(loaded.contains("Use smoke."), "{loaded}");
    let wanted = "its skills cannot be fetched: the server answered 503; what was kept of it is used";
    status_with(&agent, &session, wanted).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_hangs_delays_neither_a_session_nor_a_turn() {
    let web = Web::start().await;
    web.page("/s/index.json", Page::hanging());
    let agent = from(&Scratch::new(), &web.url("/s")).start().await;
    let watch = agent.stopwatch();
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(watch.elapsed() < Duration::from_secs(4), "the answer waited for the server");
    agent.finish().await;
}

#[tokio::test]
async fn what_a_server_lists_wrongly_is_left_out_and_named() {
    let web = server().await;
    web.page(
        "/s/index.json",
        index(json!([
            {"name": "../up", "files": ["SKILL.md"]},
            {"name": "out", "files": ["SKILL.md", "../../out"]},
            {"name": "gone", "files": ["SKILL.md"]},
            {"name": "big", "files": ["SKILL.md", "big.bin"]},
            {"name": "bees", "files": ["SKILL.md", "scripts/smoke.sh"]},
        ])),
    );
    web.skip("/s/index.json");
    web.page("/s/big/SKILL.md", bees("x"));
    web.page("/s/big/big.bin", Page::new("application/octet-stream", vec![0; 5 * 1024 * 1024 + 1]));
    let scratch = Scratch::new();
    let agent = from(&scratch, &web.url("/s")).start().await;
    let session = agent.new_session().await;
    let status = status_with(&agent, &session, "skills.urls").await;
    for wanted in [
        "index.json skill 1 of its list is left out: its name \"../up\" is not one word",
        "skill 2 of its list is left out: its file \"../../out\" is not a path below the skill's directory",
        "the skill `gone` cannot be fetched: SKILL.md: the server answered 404",
        "the skill `big` cannot be fetched: big.bin: it is larger than 5120 KiB",
    ] {
        assert!(status.contains(wanted), "{wanted} is missing in {status}");
    }
    assert!(loaded_skill(&agent, &session).await.contains("Use smoke."));
    agent.finish().await;
}

#[tokio::test]
async fn an_index_that_is_none_is_named() {
    for (page, wanted) in [
        (Page::new("text/html", "<html>"), "its skills cannot be fetched: index.json is not JSON"),
        (
            Page::new("application/json", "{}"),
            "its skills cannot be fetched: index.json has no list `skills`",
        ),
        (Page::redirect("file:///etc/passwd"), "only http and https are fetched, not file"),
    ] {
        let web = Web::start().await;
        web.page("/s/index.json", page);
        let agent = from(&Scratch::new(), &web.url("/s")).start().await;
        let session = agent.new_session().await;
        status_with(&agent, &session, wanted).await;
        agent.finish().await;
    }
}
