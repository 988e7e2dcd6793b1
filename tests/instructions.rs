//! Instruction files and pages: the parts that reach the model, and the warnings about those that do not.

use std::{fs, os::unix::fs::PermissionsExt, process::Command, sync::Arc, time::Duration};

use serde_json::json;
use tokio::sync::Semaphore;

use crate::{
    cli::Machine,
    support::{
        agent::{Agent, Builder, DEADLINE, binary},
        llm::Reply,
        message::tag,
        scratch::Scratch,
        skip::skipped,
        web::{Page, Web},
    },
};

/// Time that a turn waits for a page that was never seen.
const PAGE_LIMIT: Duration = Duration::from_secs(5);

async fn start(scratch: &Arc<Scratch>, urls: &[String]) -> Agent {
    let config = json!({"instructions": urls});
    Agent::builder().scratch(scratch).config(config).start().await
}

/// Returns the system prompt of a turn and the notices that the user got beside it.
async fn turn(agent: &Agent, session: &str) -> (String, String) {
    agent.llm.reply(Reply::text("ok"));
    let turn = agent.prompt(session, "go").await;
    assert_eq!(turn.stop, "end_turn");
    (agent.llm.last_request().system(), turn.thoughts())
}

#[tokio::test]
async fn a_page_is_fetched_once_and_reaches_the_model_under_its_address() {
    let web = Web::start().await;
    web.page("/moved", Page::redirect("/rules.md"));
    web.page("/rules.md", Page::new("text/markdown", "Prefer tabs."));
    let url = web.url("/moved");
    let agent = start(&Scratch::new(), std::slice::from_ref(&url)).await;
    let session = agent.new_session().await;
    for _ in 0..2 {
        let (system, thoughts) = turn(&agent, &session).await;
        assert!(system.contains(&format!("Instructions from: {url}\nPrefer tabs.")), "{system}");
        assert_eq!(thoughts, "");
    }
    assert_eq!(web.asked().len(), 2);
    agent.finish().await;
}

#[tokio::test]
async fn a_page_that_does_not_answer_delays_one_turn_and_no_session() {
    let web = Web::start().await;
    web.page("/silent", Page::hanging());
    web.page("/rules.md", Page::new("text/plain", "Prefer tabs."));
    let agent = start(&Scratch::new(), &[web.url("/silent"), web.url("/rules.md")]).await;
    let watch = agent.stopwatch();
    let session = agent.new_session().await;
    assert!(watch.elapsed() < PAGE_LIMIT, "the session waited {:?}", watch.elapsed());
    let (system, thoughts) = turn(&agent, &session).await;
    assert!(system.contains("Prefer tabs."), "{system}");
    let told =
        format!("{}: is left out of the instructions: there was no answer within 5 s", web.url("/silent"));
    assert!(thoughts.contains(&told), "{thoughts}");
    agent.wait_stderr(&told).await;
    let watch = agent.stopwatch();
    let (_, thoughts) = turn(&agent, &session).await;
    assert!(watch.elapsed() < PAGE_LIMIT, "the second turn waited {:?}", watch.elapsed());
    assert_eq!(thoughts, "", "it is told once");
    agent.finish().await;
}

#[tokio::test]
async fn a_page_of_a_slow_server_is_there_for_a_later_turn() {
    let web = Web::start().await;
    let gate = Arc::new(Semaphore::new(0));
    web.page("/late", Page::new("text/plain", "Prefer tabs.").behind(&gate));
    web.page("/slow", Page::new("text/plain", "Prefer short lines.").with_body_behind(&gate));
    let urls = [web.url("/late"), web.url("/slow")];
    let agent = start(&Scratch::new(), &urls).await;
    let session = agent.new_session().await;
    let (system, thoughts) = turn(&agent, &session).await;
    assert!(!system.contains("Prefer"), "{system}");
    for url in &urls {
        let told = format!("{url}: is left out of the instructions: there was no answer within 5 s");
        assert!(thoughts.contains(&told), "{thoughts}");
    }
    gate.add_permits(2);
    let later = async {
        loop {
            let (system, thoughts) = turn(&agent, &session).await;
            assert_eq!(thoughts, "");
            if system.contains("Prefer tabs.") && system.contains("Prefer short lines.") {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, later).await.expect("the pages reach a later turn");
    assert_eq!(web.asked().len(), 2, "each is asked for once");
    agent.finish().await;
}

#[tokio::test]
async fn a_page_seen_before_is_there_when_its_server_is_not() {
    let (web, scratch) = (Web::start().await, Scratch::new());
    web.page("/rules.md", Page::new("text/plain", "Prefer tabs."));
    web.page("/rules.md", Page::hanging());
    for _ in 0..2 {
        let agent = start(&scratch, &[web.url("/rules.md")]).await;
        let session = agent.new_session().await;
        let watch = agent.stopwatch();
        let (system, thoughts) = turn(&agent, &session).await;
        assert!(system.contains("Prefer tabs."), "{system}");
        assert_eq!(thoughts, "");
        assert!(watch.elapsed() < PAGE_LIMIT, "the turn waited {:?}", watch.elapsed());
        agent.finish().await;
    }
}

#[tokio::test]
async fn pages_that_cannot_be_used_are_named_with_the_reason() {
    let web = Web::start().await;
    web.page("/away", Page::redirect("ftp://127.0.0.1/rules"));
    web.page("/round", Page::redirect("/round"));
    web.page("/large", Page::new("text/plain", vec![b'x'; 2 << 20]).chunked());
    web.page("/image", Page::new("image/png", b"\x89PNG\0"));
    let other = Web::start().await;
    web.page("/other", Page::redirect(&other.url("/rules.md?key=hunter22")));
    let paths = ["/away", "/other", "/round", "/large", "/image", "/missing"];
    let urls: Vec<String> = paths.iter().map(|path| web.url(path)).chain(["http://".to_owned()]).collect();
    let agent = start(&Scratch::new(), &urls).await;
    let session = agent.new_session().await;
    let (system, thoughts) = turn(&agent, &session).await;
    assert!(!system.contains("Instructions from: http"), "{system}");
    let elsewhere = format!("it redirects to {}, which is this machine", other.url("/rules.md"));
    let reasons = [
        "only http and https are fetched, not ftp",
        &elsewhere,
        "it redirects more than 5 times",
        "it is larger than 1024 KiB",
        "it is not a text",
        "the server answered 404",
        "it is not a URL (empty host)",
    ];
    for (url, reason) in urls.iter().zip(reasons) {
        let told = format!("{url}: is left out of the instructions: {reason}");
        assert!(thoughts.contains(&told), "no `{told}` in {thoughts}");
    }
    assert!(other.asked().is_empty(), "{:?}", other.asked());
    agent.finish().await;
}

#[tokio::test]
async fn a_huge_file_is_cut_and_the_user_is_told_once() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", format!("Rule one.\n{}", "filler ".repeat(10 << 20 >> 3)));
    scratch.write("docs/more.md", "Rule two.");
    let config = json!({"instructions": ["docs/*.md"]});
    let agent = Agent::builder().scratch(&scratch).config(config).start().await;
    let session = agent.new_session().await;
    let (system, thoughts) = turn(&agent, &session).await;
    assert!(system.contains("Rule one.") && system.contains("Rule two."));
    assert!(system.len() < 300 * 1024, "{} bytes", system.len());
    assert!(thoughts.contains("AGENTS.md: is cut: 262144 of"), "{thoughts}");
    agent.wait_stderr("AGENTS.md: is cut: 262144 of").await;
    let (_, thoughts) = turn(&agent, &session).await;
    assert_eq!(thoughts, "");
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_takes_notices_gets_the_warning_as_one() {
    let scratch = Scratch::new();
    std::os::unix::fs::symlink("AGENTS.md", scratch.work.join("AGENTS.md")).unwrap();
    let agent = Agent::builder().scratch(&scratch).spawn().await;
    agent.initialize_with(json!({"session": {"notices": {}}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    let turn = agent.prompt(&session, "go").await;
    let notices = turn.all("notice");
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(notices[0]["severity"], "warning");
    let description = notices[0]["description"].as_str().unwrap();
    assert!(description.contains("AGENTS.md: is left out") && description.contains("symbolic links"));
    assert_eq!(turn.thoughts(), "");
    agent.finish().await;
}

#[tokio::test]
async fn files_are_read_for_each_turn_and_named_by_their_paths() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Outer rule.");
    scratch.write("sub/AGENTS.md", "Inner rule.");
    scratch.write("sub/CLAUDE.md", "Not this name.");
    std::fs::write(scratch.home.join("own.md"), "Own rule.").unwrap();
    let config = json!({"instructions": ["~/own.md"]});
    let agent = Agent::builder().scratch(&scratch).config(config).start().await;
    let params = json!({"cwd": scratch.path("sub"), "mcpServers": []});
    let session =
        agent.request("session/new", params).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    let (system, _) = turn(&agent, &session).await;
    let places: Vec<Option<usize>> = [
        format!("Instructions from: {}\nOuter rule.", scratch.path("AGENTS.md")),
        format!("Instructions from: {}\nInner rule.", scratch.path("sub/AGENTS.md")),
        format!("Instructions from: {}/own.md\nOwn rule.", scratch.home.display()),
    ]
    .iter()
    .map(|text| system.find(text.as_str()))
    .collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {system}");
    assert!(!system.contains("Not this name."));
    scratch.write("sub/AGENTS.md", "Changed rule.");
    let (system, _) = turn(&agent, &session).await;
    assert!(system.contains("Changed rule.") && !system.contains("Inner rule."));
    agent.finish().await;
}

#[tokio::test]
async fn what_has_the_name_of_an_instruction_file_and_is_none_is_told_and_hides_no_other() {
    let scratch = Scratch::new();
    let global = scratch.home.join(".config/opencode");
    std::fs::create_dir_all(&global).unwrap();
    scratch.write("AGENTS.md/README.md", "A directory.");
    scratch.write("CLAUDE.md", "Prefer tabs.");
    scratch.write("docs/picture.md", b"\x89PNG\0");
    let pipes = [global.join("AGENTS.md"), scratch.work.join("docs/pipe.md")];
    for pipe in &pipes {
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    scratch.write("opencode.json", json!({"instructions": ["docs/pipe.md", "docs/p*.md"]}).to_string());
    let told = [
        format!("{}: is left out of the instructions: it is not a regular file", pipes[0].display()),
        format!("{}: is left out of the instructions: it is not a regular file", scratch.path("AGENTS.md")),
        format!("{}: is left out of the instructions: it is not a regular file", pipes[1].display()),
        format!("{}: is left out of the instructions: it is not a text", scratch.path("docs/picture.md")),
    ];
    let agent = Agent::builder().scratch(&scratch).spawn().await;
    agent.initialize_with(json!({"session": {"notices": {}}})).await;
    let session = agent.new_session().await;
    let (system, _) = turn(&agent, &session).await;
    assert!(system.contains("Prefer tabs.") && !system.contains("A directory."), "{system}");
    let updates = agent.updates(&session);
    let notices = updates.iter().filter(|update| tag(update) == "notice");
    let notices: Vec<&str> = notices.map(|notice| notice["description"].as_str().unwrap()).collect();
    assert_eq!(notices, told);
    for told in &told {
        agent.wait_stderr(told).await;
    }
    agent.finish().await;

    let machine = Machine { scratch, ..Machine::new().await };
    let checked = machine.run(&["config", "check"]).await;
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let mut sorted = told.clone();
    sorted.sort();
    assert_eq!(checked.stdout.lines().collect::<Vec<_>>(), sorted);
    machine.finish().await;
}

#[tokio::test]
async fn of_what_comes_with_a_read_the_user_is_told_what_cannot_be_used() {
    let scratch = Scratch::new();
    scratch.write("q/AGENTS.md", b"\x7fELF\0");
    scratch.write("q/CLAUDE.md", "Prefer tabs.");
    scratch.write("q/a.txt", "text\n");
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    let told = format!("{}: is left out of the instructions: it is not a text", scratch.path("q/AGENTS.md"));
    for is_told in [true, false] {
        agent.llm.reply(Reply::call("call_1", "read", json!({"filePath": scratch.path("q/a.txt")})));
        agent.llm.reply(Reply::text("done"));
        let turn = agent.prompt(&session, "go").await;
        assert_eq!(turn.thoughts().contains(&told), is_told, "{}", turn.thoughts());
        let shown = agent.llm.last_request().tool_result("call_1");
        assert!(!shown.contains("ELF"), "{shown}");
        assert!(!is_told || shown.contains("CLAUDE.md\nPrefer tabs.\n</system-reminder>"), "{shown}");
    }
    agent.wait_stderr(&told).await;
    agent.finish().await;
}

#[tokio::test]
async fn what_a_subagents_read_meets_is_told_in_the_session_it_works_for_once() {
    let scratch = Scratch::new();
    scratch.write("q/AGENTS.md", b"\x7fELF\0");
    scratch.write("q/a.txt", "text\n");
    let agent = Agent::builder().scratch(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    let told = format!("{}: is left out of the instructions: it is not a text", scratch.path("q/AGENTS.md"));
    let read = || Reply::call("call_2", "read", json!({"filePath": scratch.path("q/a.txt")}));
    for prompt in ["first", "second"] {
        let task =
            json!({"description": "look", "prompt": format!("CHILD {prompt}"), "subagent_type": "general"});
        agent.llm.reply(Reply::call("call_1", "task", task));
        agent.llm.reply(read());
        agent.llm.reply(Reply::text("read it"));
        // The model had these already when the session itself came to them.
        agent.llm.reply(read());
        agent.llm.reply(Reply::text("done"));
        let turn = agent.prompt(&session, prompt).await;
        let n_told = usize::from(prompt == "first");
        assert_eq!(turn.thoughts().matches(&told).count(), n_told, "{}", turn.thoughts());
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_file_that_may_not_be_read_is_told() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Prefer tabs.");
    let file = scratch.work.join("AGENTS.md");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything.
    let reason = match std::fs::read(&file) {
        Ok(_) => None,
        Err(_) => Some("AGENTS.md: is left out of the instructions: Permission denied"),
    };
    let agent = start(&scratch, &[]).await;
    let session = agent.new_session().await;
    let (system, thoughts) = turn(&agent, &session).await;
    assert_eq!(system.contains("Prefer tabs."), reason.is_none());
    assert!(thoughts.contains(reason.unwrap_or_default()), "{thoughts}");
    agent.finish().await;
}

/// Returns an agent that may read no more than its files' owner may, even if root runs the tests.
pub fn unprivileged(scratch: &Arc<Scratch>) -> Option<Builder> {
    if !Command::new("unshare").args(["-U", "true"]).status().is_ok_and(|status| status.success()) {
        skipped("this machine gives users no namespaces");
        return None;
    }
    Some(Agent::builder().scratch(scratch).started_by(&["unshare", "-U"]))
}

#[tokio::test]
async fn a_directory_that_may_not_be_searched_is_told_with_the_pattern() {
    let scratch = Scratch::new();
    let config = json!({"instructions": ["docs/*.md", "listed/*.md"]});
    scratch.write("opencode.json", config.to_string());
    scratch.write("docs/one.md", "Prefer tabs.");
    scratch.write("listed/two.md", "Prefer tabs.");
    let set_modes = |modes: [u32; 2]| {
        for (name, mode) in ["docs", "listed"].iter().zip(modes) {
            fs::set_permissions(scratch.work.join(name), PermissionsExt::from_mode(mode)).unwrap();
        }
    };
    set_modes([0o000, 0o444]);
    let Some(builder) = unprivileged(&scratch) else { return set_modes([0o755; 2]) };
    let agent = builder.start().await;
    let session = agent.new_session().await;
    let (_, thoughts) = turn(&agent, &session).await;
    let work = scratch.work.display();
    let wanted = [
        format!("docs/*.md: {work}/docs cannot be read: Permission denied"),
        format!("{work}/listed/two.md: is left out of the instructions: Permission denied"),
    ];
    assert!(wanted.iter().all(|it| thoughts.contains(it)), "{thoughts}");
    let mut check = Command::new("unshare");
    check.arg("-U").arg(binary()).args(["config", "check"]).current_dir(&scratch.work);
    let output = check
        .env_clear()
        .env("HOME", &scratch.home)
        .env("PATH", std::env::var("PATH").unwrap())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(wanted.iter().all(|it| printed.contains(it)) && !printed.contains("no file here"), "{printed}");
    set_modes([0o755; 2]);
    agent.finish().await;
}

#[tokio::test]
async fn files_and_pages_are_bounded_together_and_the_model_sees_where_they_are_cut() {
    let web = Web::start().await;
    web.page("/long", Page::new("text/plain", vec![b'p'; 300 << 10]));
    let scratch = Scratch::new();
    for name in ["1", "2", "3"] {
        scratch.write(&format!("docs/{name}.md"), vec![b'f'; 200 << 10]);
    }
    let url = web.url("/long");
    scratch.write("opencode.json", json!({"instructions": [url, "docs/*.md"]}).to_string());
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    let (system, thoughts) = turn(&agent, &session).await;
    for (source, n_kept, n_bytes) in
        [(url.clone(), 256 << 10, 300 << 10), (scratch.path("docs/2.md"), 56 << 10, 200 << 10)]
    {
        let told = format!("{source}: is cut: {n_kept} of {n_bytes} bytes are among the instructions");
        assert!(thoughts.contains(&told), "no `{told}` in {thoughts}");
        assert!(system.contains(&format!("Instructions from: {source}\n")));
        assert!(system.contains(&format!("[The file is cut here: {n_kept} of {n_bytes} bytes are shown.]")));
    }
    assert!(
        thoughts.contains("docs/3.md: is left out of the instructions: those before it fill the 512 KiB")
    );
    assert!(system.len() < 560 << 10, "{} bytes", system.len());
    let (_, thoughts) = turn(&agent, &session).await;
    assert_eq!(thoughts, "");
    agent.finish().await;
}
