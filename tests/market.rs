//! Agents of marketplaces: directories and lists on servers that `windlass.agents` names.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    cli::Machine,
    support::{
        agent::{Agent, Answer, Builder},
        llm::{Gate, Reply},
        message::mode_ids,
        scratch::Scratch,
        web::{Page, Web},
    },
};

const READ_AGAIN: &str = "changed and were read again";

fn page(value: Value) -> Page {
    Page::new("application/json", value.to_string())
}

fn poet(temperature: f64) -> Page {
    let text = format!(
        "---\ndescription: Rhymes\nmode: primary\nmodel: mock/other\ntemperature: {temperature}\npermission:\n  edit: deny\n  bash: allow\n---\n\nSpeak in rhyme, {{env:HOME}}.\n"
    );
    Page::new("text/markdown", text)
}

fn listing(version: &str) -> Page {
    page(json!({"agents": [
        {"name": "team/poet", "file": "team/poet.md", "version": version},
        {"name": "scribe", "file": "scribe.md", "version": 1},
        {"id": "judge", "description": "Judges", "mode": "subagent", "systemPrompt": "Judge.", "permissions": {"edit": "deny"}},
    ]}))
}

/// Returns a server of two agents.
async fn server() -> Web {
    let web = Web::start().await;
    web.page("/m/index.json", listing("1"));
    web.page("/m/team/poet.md", poet(0.5));
    web.page("/m/scribe.md", Page::new("text/markdown", "Write it down."));
    web
}

fn from(scratch: &Arc<Scratch>, urls: &[String]) -> Builder {
    let takes = json!({"mock": {"models": {"other": {"temperature": true}}}});
    let config = json!({"provider": takes, "windlass": {"agents": {"urls": urls}}});
    Agent::builder().scratch(scratch).config(config).env("WINDLASS_LOG", "info")
}

async fn as_mode(agent: &Agent, session: &str, mode: &str) {
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": mode})).await.unwrap();
}

#[tokio::test]
async fn a_list_of_tools_of_a_fetched_agent_holds() {
    let web = Web::start().await;
    let reviewer = "---\nmode: primary\ntools: Read, Grep\npermission:\n  bash: allow\n---\nReview.";
    web.page("/m/reviewer.md", Page::new("text/markdown", reviewer));
    web.page(
        "/m/index.json",
        page(json!({"agents": [
            {"name": "reviewer", "file": "reviewer.md", "version": 1},
            {"name": "odd", "mode": "primary", "prompt": "Odd.", "tools": 5},
        ]})),
    );
    let scratch = Scratch::new();
    let agent = from(&scratch, &[web.url("/m")]).start().await;
    agent.open().await;
    agent.wait_stderr(READ_AGAIN).await;
    let (session, answer) = agent.open().await;
    assert!(!mode_ids(&answer).contains(&"odd"), "{answer}");
    as_mode(&agent, &session, "reviewer").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let mut tools = agent.llm.last_request().tools();
    tools.sort();
    assert_eq!(tools, ["grep", "read"]);
    agent.finish().await;
}

#[tokio::test]
async fn agents_of_a_server_answer_with_their_prompts_models_and_tools() {
    let web = server().await;
    let scratch = Scratch::new();
    let agent = from(&scratch, &[web.url("/m")]).start().await;
    let (session, _) = agent.open().await;
    agent.wait_stderr(READ_AGAIN).await;
    // Also in a session that was there before.
    as_mode(&agent, &session, "team/poet").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    assert_eq!((&request.body["model"], &request.body["temperature"]), (&json!("other"), &json!(0.5)));
    // Nothing is substituted: the text is not the user's.
    assert!(request.system().contains("Speak in rhyme, {env:HOME}."));
    assert!(!request.tools().contains(&"edit".to_owned()));
    let (_, answer) = agent.open().await;
    assert!(mode_ids(&answer).contains(&"team/poet") && !mode_ids(&answer).contains(&"judge"));
    as_mode(&agent, &session, "build").await;
    let arguments = json!({"description": "judge", "prompt": "CHILD", "subagent_type": "judge"});
    agent.llm.reply(Reply::call("call_1", "task", arguments));
    agent.llm.reply_to("CHILD", Reply::text("fine"));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let requests = agent.llm.requests();
    let child = requests.iter().find(|request| request.last_user().contains("CHILD")).unwrap();
    assert!(child.system().contains("Judge.") && !child.tools().contains(&"edit".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn a_version_is_fetched_once_and_holds_without_its_server() {
    let web = Web::start().await;
    // One after the other; the last is repeated.
    for answer in [listing("1"), listing("2"), Page::status(500)] {
        web.page("/m/index.json", answer);
    }
    web.page("/m/team/poet.md", poet(0.5));
    web.page("/m/team/poet.md", poet(0.75));
    web.page("/m/scribe.md", Page::new("text/markdown", "Write it down."));
    let scratch = Scratch::new();
    let gone = "the server answered 500; what was kept of it is used";
    for (idx, (wait_for, temperature)) in
        [(READ_AGAIN, 0.5), (READ_AGAIN, 0.75), (gone, 0.75)].into_iter().enumerate()
    {
        let agent = from(&scratch, &[web.url("/m/index.json")]).start().await;
        let (session, answer) = agent.open().await;
        assert!(idx == 0 || mode_ids(&answer).contains(&"team/poet"), "what was kept holds at once");
        agent.wait_stderr(wait_for).await;
        as_mode(&agent, &session, "team/poet").await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        assert_eq!(agent.llm.last_request().body["temperature"], temperature);
        agent.finish().await;
    }
    assert_eq!((web.n_asked("/m/team/poet.md"), web.n_asked("/m/scribe.md")), (2, 1));
}

#[tokio::test]
async fn a_turn_keeps_its_agent_while_the_list_is_fetched_anew_and_the_next_one_has_the_new() {
    let web = Web::start().await;
    let fetched = Arc::new(Semaphore::new(0));
    for answer in [listing("1"), listing("2").behind(&fetched)] {
        web.page("/m/index.json", answer);
    }
    web.page("/m/team/poet.md", poet(0.5));
    web.page("/m/team/poet.md", poet(0.75));
    web.page("/m/scribe.md", Page::new("text/markdown", "Write it down."));
    let scratch = Scratch::new();
    let agent = from(&scratch, &[web.url("/m")]).start().await;
    agent.open().await;
    agent.wait_stderr(READ_AGAIN).await;
    agent.finish().await;
    let agent = from(&scratch, &[web.url("/m")]).start().await;
    let (session, _) = agent.open().await;
    as_mode(&agent, &session, "team/poet").await;
    let gate = Gate::new();
    let call = |id: &str| Reply::call(id, "bash", json!({"command": "true"}));
    agent.llm.reply(call("one").and_gate(&gate));
    agent.llm.reply(call("two"));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.send_prompt(&session, "go");
    gate.reached().await;
    fetched.add_permits(1);
    agent.wait_stderr(READ_AGAIN).await;
    gate.open();
    turn.turn().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "again").await;
    let temperatures: Vec<Value> =
        agent.llm.requests().iter().map(|request| request.body["temperature"].clone()).collect();
    assert_eq!(temperatures, [0.5, 0.5, 0.5, 0.75]);
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_never_answers_delays_nothing() {
    let web = Web::start().await;
    web.page("/m/index.json", Page::hanging());
    let scratch = Scratch::new();
    let agent = from(&scratch, &[web.url("/m")]).start().await;
    let (session, answer) = agent.open().await;
    assert_eq!(mode_ids(&answer), ["build", "plan"]);
    agent.llm.reply(Reply::text("at once"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "at once");
    // All of that was over before the server was given up.
    assert!(!agent.stderr().contains("there was no answer"), "{}", agent.stderr());
    agent.finish().await;
}

#[tokio::test]
async fn an_agent_of_a_server_may_not_do_more_than_the_user_allows() {
    let web = server().await;
    let scratch = Scratch::new();
    scratch.write("opencode.json", json!({"permission": {"bash": "ask"}}).to_string());
    scratch.write(".env", "KEY=1");
    web.page("/w/index.json", page(json!([{"name": "wide", "mode": "primary", "permission": "allow"}])));
    let urls = [web.url("/m"), web.url("/w")];
    let agent = from(&scratch, &urls).answering(Answer::RejectOnce).start().await;
    agent.open().await;
    for url in &urls {
        agent.wait_stderr(&format!("{url} {READ_AGAIN}")).await;
    }
    let (session, _) = agent.open().await;
    let mut n_asked = 0;
    for (mode, tool, arguments) in [
        ("team/poet", "bash", json!({"command": "touch made"})),
        ("wide", "bash", json!({"command": "touch made"})),
        ("wide", "read", json!({"filePath": scratch.path(".env")})),
        ("wide", "read", json!({"filePath": "/etc/hostname"})),
    ] {
        as_mode(&agent, &session, mode).await;
        agent.llm.reply(Reply::call("call_1", tool, arguments));
        agent.prompt(&session, "go").await;
        n_asked += 1;
        assert_eq!(agent.n_asked(), n_asked, "{mode} {tool}");
    }
    assert!(!scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn what_a_server_lists_and_may_not_is_told() {
    let web = Web::start().await;
    let list = json!([
        {"name": "../up", "prompt": "x"},
        {"name": "build", "prompt": "Mine now."},
        {"name": "lost", "file": "lost.md"},
        {"name": "broken", "file": "broken.md"},
        {"name": "wrong", "mode": "primary", "temperature": "hot", "prompt": "Right otherwise."},
    ]);
    web.page("/m/index.json", page(list));
    web.page("/m/broken.md", Page::new("text/markdown", "---\nmode: [x\n---\n"));
    let scratch = Scratch::new();
    let urls = [web.url("/m"), "http://agents.example/".to_owned(), "ftp://x/".to_owned()];
    let agent = from(&scratch, &urls).start().await;
    agent.open().await;
    agent.wait_stderr(&format!("{} {READ_AGAIN}", urls[0])).await;
    for told in [
        "its list: agent 1 is left out: \"../up\": a part of its name is `..`",
        "`build` is built in, and only your own files change it",
        "the agent `lost` cannot be fetched: lost.md: the server answered 404",
        "the agent `broken` cannot be fetched: broken.md:3:1: is not valid YAML",
        "windlass.agents.urls.1: http://agents.example/ is neither https nor this machine; it is left out",
        "windlass.agents.urls.2: ftp://x/ is not a URL; write `https://…`; it is left out",
        "agent.wrong.temperature: \"hot\" cannot be used",
    ] {
        agent.wait_stderr(told).await;
    }
    let (session, answer) = agent.open().await;
    assert_eq!(mode_ids(&answer), ["build", "plan", "wrong"]);
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(!agent.llm.last_request().system().contains("Mine now."));
    agent.finish().await;
}

#[tokio::test]
async fn a_directory_of_agents_is_the_weakest_source() {
    let scratch = Scratch::new();
    let shared = scratch.root().join("shared");
    std::fs::create_dir_all(shared.join("team")).unwrap();
    std::fs::write(shared.join("team/poet.md"), "---\nmode: primary\ntemperature: 0.5\n---\nSpeak in rhyme.")
        .unwrap();
    std::fs::write(shared.join("judge.md"), "---\nmode: primary\n---\nJudge.").unwrap();
    let own = json!({
        "windlass": {"agents": {"paths": ["../shared", "nowhere"]}},
        "agent": {"team/poet": {"prompt": "Speak in prose."}, "judge": {"disable": true}},
    });
    scratch.write("opencode.json", own.to_string());
    let takes = json!({"provider": {"mock": {"models": {"mock": {"temperature": true}}}}});
    let agent = Agent::builder().scratch(&scratch).config(takes).start().await;
    let (session, answer) = agent.open().await;
    assert_eq!(mode_ids(&answer), ["build", "plan", "team/poet"]);
    as_mode(&agent, &session, "team/poet").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    assert!(request.system().contains("Speak in prose.") && !request.system().contains("rhyme"));
    assert_eq!(request.body["temperature"], 0.5);
    agent.wait_stderr("opencode.json:1:45: windlass.agents.paths.1: nowhere is not a directory").await;
    agent.finish().await;
}

/// Returns a machine that is configured with this server's agents and has asked for none of them yet.
async fn shopping(web: &Web) -> Machine {
    Machine::new().await.with("windlass", json!({"agents": {"urls": [web.url("/m")]}}))
}

#[tokio::test]
async fn a_run_names_an_agent_that_was_never_fetched_before() {
    let web = server().await;
    let machine = shopping(&web).await;
    machine.llm.reply(Reply::text("a rhyme"));
    let run = machine.run(&["run", "--agent", "team/poet", "go"]).await;
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "a rhyme"), "{run:?}");
    let request = machine.llm.last_request();
    assert!(request.system().contains("Speak in rhyme") && request.body["model"] == "other");
    // The second time nothing has to be waited for.
    web.page("/m/index.json", Page::hanging());
    machine.llm.reply(Reply::text("another"));
    let run = machine.run(&["run", "--agent", "team/poet", "go"]).await;
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "another"), "{run:?}");
    let run = machine.run(&["run", "--agent", "team/nobody", "go"]).await;
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("team/nobody") && run.stderr.contains("team/poet"), "{}", run.stderr);
    machine.finish().await;
}

#[tokio::test]
async fn a_refresh_fetches_before_it_shows_and_checks() {
    let web = Web::start().await;
    web.page("/m/index.json", listing("1"));
    web.page("/m/index.json", listing("2"));
    web.page("/m/index.json", Page::status(500));
    web.page("/m/team/poet.md", poet(0.5));
    web.page("/m/team/poet.md", poet(0.75));
    web.page("/m/scribe.md", Page::new("text/markdown", "Write it down."));
    let machine = shopping(&web).await;
    let shown = async |arguments: &[&str]| {
        let shown = machine.run(arguments).await;
        assert_eq!(shown.code, Some(0), "{shown:?}");
        serde_json::from_str::<Value>(&shown.stdout).unwrap()["agent"]["team/poet"]["temperature"].clone()
    };
    assert_eq!(shown(&["config"]).await, Value::Null);
    assert_eq!(web.asked().len(), 0, "nobody is asked unless it is wanted");
    assert_eq!(shown(&["config", "--refresh"]).await, 0.5);
    assert_eq!(shown(&["config"]).await, 0.5);
    assert_eq!(shown(&["config", "--refresh"]).await, 0.75);
    let list = machine.run(&["agent", "list"]).await;
    assert!(list.stdout.contains("\nteam/poet (primary)\n"), "{}", list.stdout);
    let checked = machine.run(&["config", "check", "--refresh"]).await;
    let told = "its agents cannot be fetched: the server answered 500; what was kept of it is used";
    assert_eq!(checked.code, Some(1));
    assert!(checked.stdout.contains(told), "{}", checked.stdout);
    machine.finish().await;
}

#[tokio::test]
async fn an_agent_of_a_server_is_given_work_by_its_nested_name() {
    let web = Web::start().await;
    let judge =
        |name: &str| json!({"name": name, "description": "Judges", "mode": "subagent", "prompt": "Judge."});
    web.page("/m/index.json", page(json!([judge("team/court/judge"), judge("team/high judge")])));
    let scratch = Scratch::new();
    let denied = json!({"permission": {"task": "deny"}});
    let agent = from(&scratch, &[web.url("/m")]).config(denied).start().await;
    agent.open().await;
    agent.wait_stderr(READ_AGAIN).await;
    let (session, _) = agent.open().await;
    for (typed, name) in
        [("ask @team/court/judge, please", "team/court/judge"), ("ask @team/high judge.", "team/high judge")]
    {
        let arguments =
            json!({"description": "judge", "prompt": format!("CHILD of {name}"), "subagent_type": name});
        agent.llm.reply(Reply::call("call_1", "task", arguments));
        agent.llm.reply_to("CHILD", Reply::text("fine"));
        agent.llm.reply(Reply::text("done"));
        assert_eq!(agent.prompt(&session, typed).await.text(), "done", "{typed}");
        let requests = agent.llm.requests();
        let child = requests.iter().rfind(|request| request.last_user().contains("CHILD")).unwrap();
        assert!(child.system().contains("Judge.") && child.last_user().contains(name), "{typed}");
    }
    // Without the name the rule holds.
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "ask team/court/judge").await;
    assert!(!agent.llm.last_request().tools().contains(&"task".to_owned()));
    agent.finish().await;
}
