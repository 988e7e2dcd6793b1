//! Plugins that throw, hang, end the process, print or answer too much, or are not there: each costs its call alone.

use serde_json::{Value, json};

use super::{in_each_runtime, start, with};
use crate::support::{
    agent::{Agent, DEADLINE},
    llm::Reply,
    process,
    scratch::Scratch,
};

/// Memory that a flooding host may cost: its longest line, twice while its buffer grows, and some.
const CHANNEL_LIMIT: u64 = 64 << 20;

const TOOL: (&str, &str) = (
    ".opencode/tool/huge.ts",
    r#"export default { description: "d", args: {}, execute: async () => "x".repeat(100_000_000) }"#,
);

/// A tool that floods the channel between the daemon and the host in some way.
const CHANNEL: (&str, &str) = (
    ".opencode/tool/channel.ts",
    r#"import { writeSync } from "node:fs"
    import { tool } from "@opencode-ai/plugin"
    const all = (text) => {
        const bytes = Buffer.from(text)
        for (let start = 0; start < bytes.length;) {
            try { start += writeSync(3, bytes, start) } catch (error) { if (error.code !== "EAGAIN") return }
        }
    }
    export default tool({
        description: "d",
        args: { way: tool.schema.string() },
        async execute({ way }, context) {
            if (way === "garbage") all("no protocol\n")
            if (way === "endless line") all("x".repeat(20_000_000))
            if (way === "notes") for (let i = 0; i < 30_000; i++) all('{"jsonrpc":"2.0","method":"unknown"}\n')
            if (way === "progress") for (let i = 0; i < 10_000; i++) context.metadata({ title: `${i}` })
            return way
        },
    })"#,
);

/// A plugin with hooks that do as the call's command says.
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
    in_each_runtime(async |runtime| {
        let (agent, session) =
            faulty(with(&runtime, json!({"windlass": {"plugin": {"hook_timeout": 3000}}}))).await;
        assert_eq!(told(&agent, &session, "throw").await, "BOOM");
        assert!(told(&agent, &session, "hang").await.ends_with("it did not answer within 3s"));
        assert_eq!(told(&agent, &session, "flood").await, "flood\n");
        assert_eq!(told(&agent, &session, "reject").await, "reject\n");
        let huge = agent.told(&session, "huge", json!({})).await;
        assert_eq!(huge, "it answered with 95 MB, more than the 15 MB that are taken");
        assert_eq!(told(&agent, &session, "fine").await, "fine\n");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_ends_or_blocks_the_process_is_named_and_the_process_starts_again() {
    in_each_runtime(async |runtime| {
        let (agent, session) = faulty(runtime).await;
        let ended = told(&agent, &session, "exit").await;
        assert!(
            ended.contains(
                "faulty.ts failed in its hook tool.execute.before: the host of plugins was ended by"
            ),
            "{ended}"
        );
        assert!(ended.ends_with("/.opencode/plugin/faulty.ts (exit code 3)"), "{ended}");
        agent.wait_stderr("It is started again in").await;
        let spun = told(&agent, &session, "spin").await;
        assert!(
            spun.contains("was kept busy by the plugin") && spun.contains("/.opencode/plugin/faulty.ts"),
            "{spun}"
        );
        assert_eq!(told(&agent, &session, "fine").await, "fine\n");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_flood_on_the_hosts_channel_costs_its_call_and_no_memory() {
    in_each_runtime(async |runtime| {
        let agent = start(&[CHANNEL], runtime).await;
        let session = agent.new_session().await;
        assert_eq!(agent.told(&session, "channel", json!({"way": "warm"})).await, "warm");
        let before = process::memory(agent.pid, "VmRSS");
        for way in ["notes", "progress"] {
            assert_eq!(agent.told(&session, "channel", json!({"way": way})).await, way);
        }
        for (way, reason) in [
            ("garbage", "sent a message that is not JSON"),
            ("endless line", "more than the 16777216 that are taken"),
        ] {
            let told = agent.told(&session, "channel", json!({"way": way})).await;
            assert!(told.starts_with("the host of plugins sent ") && told.contains(reason), "{told}");
            assert!(told.ends_with("channel.ts ran last"), "{told}");
            agent.wait_stderr(reason).await;
            // It comes back by itself.
            let until_back =
                async { while agent.told(&session, "channel", json!({"way": "again"})).await != "again" {} };
            tokio::time::timeout(DEADLINE, until_back).await.unwrap();
        }
        let peak = process::memory(agent.pid, "VmHWM");
        assert!(peak < before + CHANNEL_LIMIT, "{} MB, {} MB before", peak >> 20, before >> 20);
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_hangs_is_cut_by_a_cancel() {
    in_each_runtime(async |runtime| {
        let (agent, session) = faulty(runtime).await;
        agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo hang"})));
        let pending = agent.send_prompt(&session, "go");
        agent.wait_made(&session, &["call_1"]).await;
        agent.cancel(&session);
        assert_eq!(pending.answer().await.unwrap()["stopReason"], "cancelled");
        agent.finish().await;
    })
    .await;
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
    in_each_runtime(async |runtime| {
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
            let agent = start(&[(file, text), (".opencode/plugin/a.js", other)], runtime.clone()).await;
            let session = agent.new_session().await;
            if is_tool {
                let told = agent.told(&session, "spin", json!({})).await;
                assert!(told.contains(file) && told.contains("was kept busy by"), "{told}");
            } else {
                agent.llm.reply(Reply::text("done"));
                agent.prompt(&session, "go").await;
                // Another session does not wait for it.
                agent.new_session().await;
                agent.wait_stderr("was kept busy by the plugin").await;
            }
            agent.wait_stderr("It is started again in").await;
            agent.llm.reply(Reply::text("still here"));
            assert_eq!(agent.prompt(&session, "go").await.text(), "still here");
            agent.finish().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_listener_that_finishes_no_event_gets_no_more_than_it_may_work_on_and_then_goes_on() {
    in_each_runtime(async |runtime| {
        let listener = r#"let n = 0
            let open = () => {}
            const gate = new Promise((resolve) => open = resolve)
            export const P = async () => ({
                event: async () => { n += 1; await gate },
                tool: {
                    seen: { description: "d", args: {}, execute: async () => String(n) },
                    open: { description: "d", args: {}, execute: async () => { open(); return "" } },
                },
            })"#;
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/listener.js", listener);
        let agent =
            Agent::builder().scratch(&scratch).config(runtime).env("WINDLASS_LOG", "info").start().await;
        let session = agent.new_session().await;
        let seen = async || agent.told(&session, "seen", json!({})).await.parse::<usize>().unwrap();
        while seen().await < 1000 {}
        agent
            .wait_stderr("the event hook works on 1000 events; more are dropped until it works on 500")
            .await;
        assert_eq!(seen().await, 1000);
        agent.told(&session, "open", json!({})).await;
        while seen().await == 1000 {}
        assert_eq!(agent.stderr().matches("more are dropped").count(), 1);
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_slow_listener_gets_its_events_in_order_and_holds_no_other_up() {
    in_each_runtime(async |runtime| {
        let slow = r#"let last = "", isOrdered = true, queue = Promise.resolve()
            export const P = async () => ({
                event: async ({ event }) => {
                    isOrdered &&= event.id > last
                    last = event.id
                    await (queue = queue.then(() => new Promise((done) => setTimeout(done, 300))))
                },
                tool: { ordered: { description: "d", args: {}, execute: async () => String(isOrdered && last !== "") } },
            })"#;
        let quick = r#"let n = 0
            export const P = async () => ({
                event: async () => { n += 1 },
                tool: { seen: { description: "d", args: {}, execute: async () => String(n) } },
            })"#;
        let agent =
            start(&[(".opencode/plugin/quick.js", quick), (".opencode/plugin/slow.js", slow)], runtime).await;
        let session = agent.new_session().await;
        let seen = async || agent.told(&session, "seen", json!({})).await.parse::<usize>().unwrap();
        // Held up by the slow one, it would take a minute.
        let all = async { while seen().await < 200 {} };
        tokio::time::timeout(DEADLINE, all).await.expect("the other one is not held up");
        assert_eq!(agent.told(&session, "ordered", json!({})).await, "true");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_plugin_that_ends_the_process_again_and_again_is_left_out() {
    in_each_runtime(async |runtime| {
        let exits = "export const P = async () => { process.exit(1) }";
        let sound =
            "export const P = async () => ({ 'chat.headers': async (_, o) => { o.headers['x-sound'] = '1' } })";
        let files = [(".opencode/plugin/exits.js", exits), (".opencode/plugin/sound.js", sound)];
        let agent = start(&files, runtime).await;
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
    })
    .await;
}

#[tokio::test]
async fn a_plugin_that_hangs_or_spins_while_it_loads_is_named_and_the_rest_works() {
    let sound =
        "export const P = async () => ({ 'chat.headers': async (_, o) => { o.headers['x-sound'] = '1' } })";
    in_each_runtime(async |runtime| {
        // A host that only waits must be able to say so on a machine that is busy itself; one that spins keeps it busy.
        let (waits, spins) = (4000, 1500);
        for (text, limit, said) in [
            ("export const P = () => new Promise(() => {})", waits, "/bad.js: it was not ready within 4 s"),
            ("await new Promise(() => {})", waits, "/bad.js: it was not ready within 4 s"),
            (
                "export const P = async () => { while (true) {} }",
                spins,
                "/bad.js is left out: it is busy for ever",
            ),
            ("while (true) {}", spins, "/bad.js is left out: it is busy for ever"),
        ] {
            let files = [(".opencode/plugin/bad.js", text), (".opencode/plugin/sound.js", sound)];
            let config = with(&runtime, json!({"windlass": {"plugin": {"load_timeout": limit}}}));
            let agent = start(&files, config).await;
            let session = agent.new_session().await;
            agent.wait_stderr(said).await;
            agent.llm.answer_with(|_| Reply::text("done"));
            let until_sound = async {
                while agent.llm.requests().last().is_none_or(|it| it.header("x-sound").is_none()) {
                    agent.prompt(&session, "go").await;
                }
            };
            tokio::time::timeout(DEADLINE, until_sound).await.unwrap();
            agent.finish().await;
        }
    })
    .await;
}
