//! Plugins, tools and what they configure change together, in one step, and a turn keeps those that it began with.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use super::{in_each_runtime, outside, with};
use crate::support::{
    agent::{Agent, Answer, DEADLINE},
    llm::{Gate, Reply},
    scratch::Scratch,
};

/// Returns a plugin that shows its mark in a header, the system prompt and the result of a tool.
fn plugin(mark: &str) -> String {
    format!(
        r#"export const P = async () => ({{
            config: async (config) => {{ config.agent.build = {{ prompt: "The mark is {mark}." }} }},
            "chat.headers": async (_, output) => {{ output.headers["x-mark"] = "{mark}" }},
            tool: {{ own: {{ description: "d", args: {{}}, execute: async () => "{mark}" }} }},
        }})"#
    )
}

async fn begun(scratch: &std::sync::Arc<Scratch>, config: Value) -> Agent {
    let builder = Agent::builder().scratch(scratch).config(config);
    builder.answering(Answer::AllowOnce).start().await
}

/// Runs a turn; returns the mark in its header, in its system prompt and in the result of the tool.
async fn marks(agent: &Agent, session: &str) -> [Option<String>; 3] {
    let told = agent.told(session, "own", json!({})).await;
    let request = agent.llm.last_request();
    let system = request.system();
    let said = system.split_once("The mark is ").and_then(|(_, rest)| rest.split_once('.'));
    [request.header("x-mark").map(str::to_owned), said.map(|(mark, _)| mark.to_owned()), Some(told)]
}

fn all(mark: &str) -> [Option<String>; 3] {
    [mark, mark, mark].map(|it| Some(it.to_owned()))
}

/// Runs turns until one has all of the mark `two`; those before it pass the check.
async fn replaced(agent: &Agent, session: &str, check: impl Fn(&[Option<String>; 3]) -> bool) {
    loop {
        let seen = marks(agent, session).await;
        if seen == all("two") {
            return;
        }
        assert!(check(&seen), "{seen:?}");
    }
}

#[tokio::test]
async fn a_turn_keeps_the_plugins_it_began_with_and_the_next_one_has_all_of_the_new() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/p.js", plugin("one"));
        let agent = begun(&scratch, runtime).await;
        let (running, later) = (agent.new_session().await, agent.new_session().await);
        let gate = Gate::new();
        let first = Reply::text("wait").and_gate(&gate).and_call("one", "own", json!({}));
        agent.llm.reply_to("hold on", first);
        agent.llm.reply_to("hold on", Reply::call("two", "own", json!({})));
        agent.llm.reply_to("hold on", Reply::text("done"));
        let turn = agent.send_prompt(&running, "hold on");
        gate.reached().await;
        scratch.write(".opencode/plugin/p.js", plugin("two"));
        let replaced = replaced(&agent, &later, |seen| *seen == all("one"));
        tokio::time::timeout(DEADLINE, replaced).await.expect("turns that begin later have the new plugins");
        gate.open();
        turn.turn().await;
        let requests = agent.llm.requests();
        let of_turn: Vec<_> = requests.iter().filter(|it| it.last_user().contains("hold on")).collect();
        let headers: Vec<_> = of_turn.iter().map(|it| it.header("x-mark")).collect();
        assert_eq!(headers, [Some("one"); 3]);
        assert!(of_turn.iter().all(|it| it.system().contains("The mark is one.")));
        let last = of_turn.last().unwrap();
        assert_eq!([last.tool_result("one"), last.tool_result("two")], ["one", "one"]);
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn what_plugins_bring_changes_in_one_step() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/p.js", plugin("one"));
        let agent = begun(&scratch, runtime).await;
        let session = agent.new_session().await;
        assert_eq!(marks(&agent, &session).await, all("one"));
        scratch.write(".opencode/plugin/p.js", plugin("two"));
        let replaced = replaced(&agent, &session, |seen| *seen == all("one"));
        tokio::time::timeout(DEADLINE, replaced).await.expect("the plugin is loaded again");
        agent.finish().await;
    })
    .await;
}

/// Returns a plugin that writes its process into a file and is loaded once there is a file `go`.
fn slow_plugin(mark: &str, scratch: &Scratch) -> String {
    let (loading, go) = (scratch.path("loading"), scratch.path("go"));
    format!(
        r#"import {{ existsSync, renameSync, writeFileSync }} from "node:fs"
        writeFileSync("{loading}.draft", String(process.pid))
        renameSync("{loading}.draft", "{loading}")
        while (!existsSync("{go}")) await new Promise((done) => setTimeout(done, 10))
        {}"#,
        plugin(mark)
    )
}

fn kill_process(scratch: &Scratch, file: &str) {
    let pid = scratch.read(file).parse().unwrap();
    fs::remove_file(scratch.path(file)).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn the_old_plugins_serve_on_when_the_process_of_the_new_ones_is_killed() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/p.js", plugin("one"));
        let agent = begun(&scratch, with(&runtime, json!({ "windlass": outside() }))).await;
        let session = agent.new_session().await;
        assert_eq!(marks(&agent, &session).await, all("one"));
        scratch.write(".opencode/plugin/p.js", slow_plugin("two", &scratch));
        let loading = async {
            while !scratch.exists("loading") {
                assert_eq!(marks(&agent, &session).await, all("one"));
            }
        };
        tokio::time::timeout(DEADLINE, loading).await.expect("the new plugin is being loaded");
        kill_process(&scratch, "loading");
        agent.wait_stderr("It is started again in ").await;
        assert_eq!(marks(&agent, &session).await, all("one"));
        scratch.appears("loading").await;
        assert_eq!(marks(&agent, &session).await, all("one"));
        scratch.write("go", "");
        let replaced = replaced(&agent, &session, |seen| *seen == all("one"));
        tokio::time::timeout(DEADLINE, replaced).await.expect("the new plugin takes over");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_call_of_plugins_that_were_killed_says_so_until_the_new_ones_take_over() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        scratch.write("go", "");
        scratch.write(".opencode/plugin/p.js", slow_plugin("one", &scratch));
        let agent = begun(&scratch, with(&runtime, json!({ "windlass": outside() }))).await;
        let session = agent.new_session().await;
        assert_eq!(marks(&agent, &session).await, all("one"));
        fs::rename(scratch.path("loading"), scratch.path("serving")).unwrap();
        fs::remove_file(scratch.path("go")).unwrap();
        scratch.write(".opencode/plugin/p.js", slow_plugin("two", &scratch));
        let loading = async {
            while !scratch.exists("loading") {
                assert_eq!(marks(&agent, &session).await, all("one"));
            }
        };
        tokio::time::timeout(DEADLINE, loading).await.expect("the new plugin is being loaded");
        kill_process(&scratch, "serving");
        // A turn whose hook is asked at that moment fails, in the same words.
        agent.llm.answer_with(|_| Reply::text("done"));
        let turn = agent.send_prompt(&session, "at that moment");
        if let Err(error) = turn.answer().await {
            assert!(error.message.contains("the host of plugins"), "{error:?}");
        }
        scratch.write("go", "");
        // The old ones cannot start again: their code has changed.
        let says_so = |seen: &[Option<String>; 3]| {
            let told = seen[2].as_deref().unwrap_or_default();
            *seen == all("one") || told.contains("the host of plugins")
        };
        let replaced = replaced(&agent, &session, says_so);
        tokio::time::timeout(DEADLINE, replaced).await.expect("the new plugin takes over");
        agent.finish().await;
    })
    .await;
}
