//! Plugins that throw, hang, end the process, print or answer too much, or are not there: each costs its call alone.

use serde_json::{Value, json};

use super::start;
use crate::support::{
    agent::{Agent, DEADLINE},
    llm::Reply,
};

const TOOL: (&str, &str) = (
    ".opencode/tool/huge.ts",
    r#"export default { description: "d", args: {}, execute: async () => "x".repeat(100_000_000) }"#,
);

/// A plugin whose hooks do what the call's command says.
const FAULTY: (&str, &str) = (
    ".opencode/plugin/faulty.ts",
    r#"export const Faulty = async () => ({
        "tool.execute.before": async (input, output) => {
            const command = output.args.command ?? ""
            if (command.includes("throw")) throw new Error("BOOM")
            if (command.includes("hang")) await new Promise(() => {})
            if (command.includes("exit")) process.exit(3)
            if (command.includes("spin")) while (true) {}
            if (command.includes("flood")) for (let i = 0; i < 200; i++) console.log("x".repeat(10_000))
            if (command.includes("reject")) Promise.reject(new Error("floating"))
        },
    })"#,
);

async fn faulty(config: Value) -> (Agent, String) {
    let agent = start(&[FAULTY, TOOL], config).await;
    let session = agent.new_session().await;
    (agent, session)
}

async fn told(agent: &Agent, session: &str, command: &str) -> String {
    agent.told(session, "bash", json!({"command": format!("echo {command}")})).await
}

#[tokio::test]
async fn a_hook_that_throws_or_hangs_costs_its_call() {
    let (agent, session) = faulty(json!({"windlass": {"plugin": {"hook_timeout": 300}}})).await;
    assert_eq!(told(&agent, &session, "throw").await, "BOOM");
    assert_eq!(told(&agent, &session, "hang").await, "it did not answer within 300ms");
    assert_eq!(told(&agent, &session, "flood").await, "flood\n");
    assert_eq!(told(&agent, &session, "reject").await, "reject\n");
    let huge = agent.told(&session, "huge", json!({})).await;
    assert_eq!(huge, "is 95 MB, more than 15 MB");
    assert_eq!(told(&agent, &session, "fine").await, "fine\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_hook_that_ends_or_blocks_the_process_is_named_and_the_process_starts_again() {
    let (agent, session) = faulty(json!({})).await;
    let ended = told(&agent, &session, "exit").await;
    assert!(ended.starts_with("the host of plugins was ended by the plugin "), "{ended}");
    assert!(ended.ends_with("/.opencode/plugin/faulty.ts (exit code 3)"), "{ended}");
    agent.wait_stderr("It is started again in").await;
    let spun = told(&agent, &session, "spin").await;
    // It may still be down: then nothing spins.
    let is_busy = spun.contains("/.opencode/plugin/faulty.ts keeps it busy");
    assert!(is_busy || spun == "spin\n", "{spun}");
    assert_eq!(told(&agent, &session, "fine").await, "fine\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_hook_that_hangs_is_cut_by_a_cancel() {
    let (agent, session) = faulty(json!({})).await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo hang"})));
    let pending = agent.send_prompt(&session, "go");
    agent.wait_running(&session, &["call_1"]).await;
    agent.cancel(&session);
    assert_eq!(pending.answer().await.unwrap()["stopReason"], "cancelled");
    agent.finish().await;
}

#[tokio::test]
async fn what_cannot_be_loaded_is_told_and_the_rest_works() {
    let files = [
        (".opencode/plugin/constant.ts", "export const x = 1"),
        (".opencode/plugin/nothing.ts", "export const Nothing = async () => undefined"),
        (".opencode/plugin/syntax.ts", "export const = ;"),
        (".opencode/plugin/throws.ts", "export const T = async () => { throw new Error('early') }"),
        (
            ".opencode/plugin/works.ts",
            r#"export const Works = async () => ({ "chat.headers": async (_, o) => { o.headers["x-works"] = "1" } })"#,
        ),
    ];
    let config = json!({"plugin": ["./missing.ts", "no-such-package-of-windlass"]});
    let scratch = crate::support::scratch::Scratch::new();
    for (name, text) in files {
        scratch.write(name, text);
    }
    let agent = Agent::builder().scratch(&scratch).config(config);
    let agent = agent.env("npm_config_registry", "http://127.0.0.1:9").start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    let first = agent.prompt(&session, "go").await;
    assert_eq!(first.text(), "done");
    assert_eq!(agent.llm.last_request().header("x-works"), Some("1"));
    let reasons = ["Plugin export is not a function", "Cannot find module", "early"];
    for told in reasons {
        agent.wait_stderr(told).await;
    }
    // The user of an editor does not see the log.
    agent.llm.reply(Reply::text("done"));
    let shown = agent.prompt(&session, "once more").await;
    let thoughts = format!("{first:?}{shown:?}");
    for told in reasons {
        assert_eq!(thoughts.matches(told).count(), 1, "{told} in {thoughts}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn without_a_runtime_everything_else_works() {
    let agent = start(&[FAULTY], json!({"windlass": {"plugin": {"runtime": "no-such-runtime"}}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "done");
    agent
        .wait_stderr(
            "Plugins and custom tools are off: there is no program no-such-runtime; correct `windlass.plugin.runtime`.",
        )
        .await;
    agent.finish().await;
}

#[tokio::test]
async fn a_tool_or_a_listener_that_never_ends_is_named_and_holds_nobody_up() {
    let listener = r#"let isSpinning = false
        export const P = async () => ({ event: async ({ event }) => {
            if (event.type !== "session.idle" || isSpinning) return
            isSpinning = true
            while (true) {}
        } })"#;
    let other = "export const P = async () => ({ 'chat.message': async () => {} })";
    let spin = "export default { description: 'd', args: {}, execute: async () => { while (true) {} } }";
    for (file, text) in [(".opencode/plugin/listener.js", listener), (".opencode/tool/spin.js", spin)] {
        let is_tool = file.contains("tool");
        let agent = start(&[(file, text), (".opencode/plugin/a.js", other)], json!({})).await;
        let session = agent.new_session().await;
        if is_tool {
            let told = agent.told(&session, "spin", json!({})).await;
            assert!(told.contains(file) && told.ends_with("keeps it busy"), "{told}");
        } else {
            agent.llm.reply(Reply::text("done"));
            agent.prompt(&session, "go").await;
            // Another session does not wait for it.
            agent.new_session().await;
            agent.wait_stderr("listener.js keeps it busy").await;
        }
        agent.wait_stderr("It is started again in").await;
        agent.llm.reply(Reply::text("still here"));
        assert_eq!(agent.prompt(&session, "go").await.text(), "still here");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_plugin_that_ends_the_process_again_and_again_is_left_out() {
    let exits = "export const P = async () => { process.exit(1) }";
    let sound =
        "export const P = async () => ({ 'chat.headers': async (_, o) => { o.headers['x-sound'] = '1' } })";
    let files = [(".opencode/plugin/exits.js", exits), (".opencode/plugin/sound.js", sound)];
    let agent = start(&files, json!({})).await;
    let session = agent.new_session().await;
    agent.wait_stderr("exits.js is left out: it ended the host 3 times.").await;
    agent.llm.answer_with(|_| Reply::text("done"));
    let until_sound = async {
        while agent.llm.requests().last().is_none_or(|it| it.header("x-sound").is_none()) {
            agent.prompt(&session, "go").await;
        }
    };
    tokio::time::timeout(DEADLINE, until_sound).await.unwrap();
    agent.finish().await;
}
