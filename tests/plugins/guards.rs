//! Plugins that refuse calls: nothing passes them while their process ends, starts again, or would load other code.

use std::fs;

use serde_json::{Value, json};

use super::{in_each_runtime, with};
use crate::support::{
    agent::{Agent, Answer, DEADLINE},
    scratch::Scratch,
};

const GUARD: &str = r#"export const Guard = async () => ({
    "permission.ask": async (input, output) => {
        if (String(input.pattern).includes("hidden")) output.status = "deny"
    },
    "tool.execute.before": async (_, output) => {
        if (output.args.command?.includes("secret")) throw new Error("guard: no secrets")
    },
})"#;

const EXIT: &str = r#"export default { description: "d", args: {}, execute: async () => process.exit(1) }"#;

fn tool(said: &str) -> String {
    format!("export default {{ description: 'd', args: {{}}, execute: async () => '{said}' }}")
}

async fn bash(agent: &Agent, session: &str, command: &str) -> String {
    agent.told(session, "bash", json!({ "command": command })).await
}

async fn guarded(config: Value) -> (Agent, String, std::sync::Arc<Scratch>) {
    let scratch = Scratch::new();
    scratch.write(".opencode/plugin/guard.ts", GUARD);
    scratch.write(".opencode/tool/exit.ts", EXIT);
    scratch.write(".opencode/tool/own.ts", tool("first"));
    let agent = Agent::builder().scratch(&scratch).config(config).start().await;
    let session = agent.new_session().await;
    (agent, session, scratch)
}

#[tokio::test]
async fn no_call_passes_a_guard_whose_process_starts_again() {
    in_each_runtime(async |runtime| {
        let asking = with(&runtime, json!({"permission": {"bash": {"*": "allow", "*hidden*": "ask"}}}));
        let (agent, session, _scratch) = guarded(asking).await;
        let guards = async || {
            assert_eq!(bash(&agent, &session, "echo secret").await, "guard: no secrets");
            let told = bash(&agent, &session, "echo hidden").await;
            assert!(told.contains("A plugin denied permission to use this specific tool call"), "{told}");
        };
        guards().await;
        for _ in 0..2 {
            agent.told(&session, "exit", json!({})).await;
            guards().await;
        }
        assert_eq!(agent.n_asked(), 0);
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_process_that_starts_again_loads_no_code_that_the_user_has_not_accepted() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/guard.ts", GUARD);
        scratch.write(".opencode/tool/exit.ts", EXIT);
        scratch.write(".opencode/tool/own.ts", tool("first"));
        let agent =
            Agent::builder().scratch(&scratch).config(runtime).answering(Answer::RejectOnce).start().await;
        let session = agent.new_session().await;
        assert_eq!(agent.told(&session, "own", json!({})).await, "first");
        scratch.write(".opencode/tool/own.ts", tool("second, which nobody accepted"));
        let asked = async {
            while agent.n_asked() == 0 {
                agent.told(&session, "own", json!({})).await;
            }
        };
        tokio::time::timeout(DEADLINE, asked).await.expect("the user is asked");
        agent.told(&session, "exit", json!({})).await;
        agent.wait_stderr("has changed since it was accepted").await;
        let told = agent.told(&session, "own", json!({})).await;
        assert!(told.contains("own.ts has changed since it was accepted"), "{told}");
        let told = bash(&agent, &session, "echo secret").await;
        assert!(told.contains("has changed since it was accepted") && !told.contains("secret\n"), "{told}");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_guard_is_taken_out_with_the_users_yes_alone() {
    let scratch = Scratch::new();
    scratch.write(".opencode/plugin/guard.ts", GUARD);
    let config = json!({"windlass": {"plugin": {"runtime": "node"}}});
    let agent = Agent::builder().scratch(&scratch).config(config).start().await;
    let session = agent.new_session().await;
    assert_eq!(bash(&agent, &session, "echo secret").await, "guard: no secrets");
    fs::remove_file(scratch.work.join(".opencode/plugin/guard.ts")).unwrap();
    while agent.n_asked() == 0 {
        assert_eq!(bash(&agent, &session, "echo secret").await, "guard: no secrets");
    }
    let ask = agent.permission().await;
    assert!(ask.params.to_string().contains("guard.ts, which may deny calls"), "{:?}", ask.params);
    agent.answer(&ask, Answer::AllowOnce);
    let passed = async { while bash(&agent, &session, "echo secret").await != "secret\n" {} };
    tokio::time::timeout(DEADLINE, passed).await.expect("it is taken out then");
    agent.finish().await;
}

#[tokio::test]
async fn a_busy_loop_is_noticed_also_where_hooks_may_take_less_time_than_that() {
    in_each_runtime(async |runtime| {
        let spins = r#"let n = 0
            export const P = async () => ({
                "tool.execute.before": async (_, output) => {
                    if (output.args.command === "echo spin" && n++ === 0) while (true) {}
                },
            })"#;
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/spins.js", spins);
        let short = json!({"windlass": {"plugin": {"hook_timeout": 1000}}});
        let agent = Agent::builder().scratch(&scratch).config(with(&runtime, short)).start().await;
        let session = agent.new_session().await;
        let told = bash(&agent, &session, "echo spin").await;
        assert!(
            told.contains("spins.js failed in its hook tool.execute.before: it did not answer within 1s"),
            "{told}"
        );
        agent.wait_stderr("was kept busy by the plugin").await;
        assert_eq!(bash(&agent, &session, "echo fine").await, "fine\n");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_plugin_that_exits_when_it_is_imported_is_named_and_left_out() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/a_exits.ts", "process.exit(3)\nexport const P = async () => ({})");
        scratch.write(".opencode/plugin/guard.ts", GUARD);
        let agent = Agent::builder().scratch(&scratch).config(runtime).start().await;
        let session = agent.new_session().await;
        agent.wait_stderr("a_exits.ts is left out: it ended the host 3 times").await;
        let refused = async { while bash(&agent, &session, "echo secret").await != "guard: no secrets" {} };
        tokio::time::timeout(DEADLINE, refused).await.expect("the others are loaded");
        agent.finish().await;
    })
    .await;
}
