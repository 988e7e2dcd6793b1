//! Each hook of a turn, with the cost of a throw, a hang, an end of the process and a cancel in it.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{in_each_runtime, start, with};
use crate::support::{
    agent::{Agent, DEADLINE},
    llm::{Reply, request::Request},
    message::text,
    scratch::Scratch,
    server::Server,
};

/// A plugin with hooks that fail as a file says: the name of one, and the way.
const FAULTY: (&str, &str) = (
    ".opencode/plugin/faulty.js",
    r#"import { existsSync, readFileSync, writeFileSync } from "node:fs"
    const HOOKS = [
        "chat.message", "chat.params", "chat.headers", "command.execute.before", "tool.execute.before",
        "tool.execute.after", "tool.definition", "shell.env", "permission.ask",
        "experimental.chat.messages.transform", "experimental.chat.system.transform",
        "experimental.session.compacting", "experimental.compaction.autocontinue", "experimental.text.complete",
    ]
    export const Faulty = async ({ directory }) => {
        const fault = `${directory}/fault`
        return Object.fromEntries(HOOKS.map((hook) => [hook, async () => {
            const [wanted, way] = existsSync(fault) ? readFileSync(fault, "utf8").split(" ") : []
            if (wanted !== hook) return
            if (way === "throw") throw new Error("BOOM")
            if (way === "exit") process.exit(3)
            writeFileSync(`${directory}/hanging`, "")
            await new Promise(() => {})
        }]))
    }"#,
);

/// More than the mock model's context holds beside an answer.
const FULL: u64 = 195_000;

/// The step that a fault costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cost {
    /// The prompt is answered with the error.
    Prompt,
    /// The model reads the error as the call's result.
    Call,
}

/// Every hook that is called in a turn, with the prompts that reach it, and the cost of a fault there.
const TABLE: [(&str, &[&str], Cost); 14] = [
    ("chat.message", &["go"], Cost::Prompt),
    ("tool.definition", &["go"], Cost::Prompt),
    ("experimental.chat.messages.transform", &["go"], Cost::Prompt),
    ("experimental.chat.system.transform", &["go"], Cost::Prompt),
    ("chat.params", &["go"], Cost::Prompt),
    ("chat.headers", &["go"], Cost::Prompt),
    ("experimental.text.complete", &["go"], Cost::Prompt),
    ("command.execute.before", &["/hello you"], Cost::Prompt),
    ("experimental.session.compacting", &["/compact"], Cost::Prompt),
    ("experimental.compaction.autocontinue", &["fill it", "go"], Cost::Prompt),
    ("permission.ask", &["call it"], Cost::Call),
    ("tool.execute.before", &["call it"], Cost::Call),
    ("shell.env", &["call it"], Cost::Call),
    ("tool.execute.after", &["call it"], Cost::Call),
];

fn answer(request: &Request) -> Reply {
    static N_CALLS: AtomicUsize = AtomicUsize::new(0);
    let is_answered = request.messages().last().is_some_and(|message| message["role"] == "tool");
    let said = request.last_user();
    if said.contains("fill it") {
        Reply::text("full").tokens(FULL, 10)
    } else if said.contains("call it") && !is_answered {
        let id = format!("call_{}", N_CALLS.fetch_add(1, Ordering::Relaxed));
        Reply::call(&id, "bash", json!({"command": "echo called"}))
    } else {
        Reply::text("done")
    }
}

/// Returns an agent with the plugin, and a session in which something was said.
async fn begun(config: Value) -> (Agent, String) {
    let config = with(&config, json!({"command": {"hello": {"template": "hello $ARGUMENTS"}}}));
    let agent = start(&[FAULTY], config).await;
    agent.llm.answer_with(answer);
    let session = agent.new_session().await;
    agent.prompt(&session, "first").await;
    (agent, session)
}

/// Sends the prompts of a row, with the fault in the last one.
async fn provoke(
    agent: &Agent,
    session: &str,
    row: (&str, &[&str], Cost),
    way: &str,
) -> Result<Value, String> {
    let (hook, prompts, _) = row;
    let (last, before) = prompts.split_last().unwrap();
    for prompt in before {
        agent.prompt(session, prompt).await;
    }
    agent.scratch.write("fault", format!("{hook} {way}"));
    let ended = agent.send_prompt(session, last).answer().await.map_err(|error| error.message);
    std::fs::remove_file(agent.scratch.path("fault")).unwrap();
    ended
}

/// Checks that a fault cost as much as it may, with this reason, and that the session goes on.
async fn check(agent: &Agent, session: &str, row: (&str, &[&str], Cost), way: &str, reason: &str) {
    let (hook, _, cost) = row;
    let ended = provoke(agent, session, row, way).await;
    let reached = agent.llm.last_request();
    let told = match (cost, ended) {
        (Cost::Prompt, Err(error)) => {
            assert!(error.contains(hook), "{hook} {way}: {error}");
            error
        }
        (Cost::Call, Ok(end)) => {
            assert_eq!(end["stopReason"], "end_turn", "{hook} {way}");
            reached.messages().last().unwrap()["content"].as_str().unwrap().to_owned()
        }
        (_, ended) => panic!("{hook} {way}: {ended:?}"),
    };
    assert!(told.contains(reason), "{hook} {way}: {told}");
    assert!(!told.contains("provider"), "{hook} {way} blames the provider: {told}");
    assert_eq!(agent.prompt(session, "go on").await.text(), "done", "behind {hook} {way}");
}

#[tokio::test]
async fn a_hook_that_throws_costs_its_call_or_its_prompt() {
    in_each_runtime(async |runtime| {
        let (agent, session) = begun(runtime).await;
        for row in TABLE {
            check(&agent, &session, row, "throw", "BOOM").await;
        }
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_hangs_costs_its_call_or_its_prompt_after_its_deadline() {
    in_each_runtime(async |runtime| {
        let config = with(&runtime, json!({"windlass": {"plugin": {"hook_timeout": 1000}}}));
        let (agent, session) = begun(config).await;
        for row in TABLE {
            check(&agent, &session, row, "hang", "it did not answer within ").await;
        }
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_ends_the_process_costs_its_call_or_its_prompt() {
    in_each_runtime(async |runtime| {
        // One process each: a plugin that ends three of them is left out.
        let rows = stream::iter(TABLE).map(|row| {
            let runtime = runtime.clone();
            async move {
                let (agent, session) = begun(runtime).await;
                check(&agent, &session, row, "exit", "faulty.js (exit code 3)").await;
                agent.finish().await;
            }
        });
        rows.buffer_unordered(4).collect::<Vec<()>>().await;
    })
    .await;
}

#[tokio::test]
async fn every_hook_that_hangs_is_cut_by_a_cancel() {
    let (agent, session) = begun(json!({})).await;
    for (hook, prompts, _) in TABLE {
        let (last, before) = prompts.split_last().unwrap();
        for prompt in before {
            agent.prompt(&session, prompt).await;
        }
        agent.scratch.write("fault", format!("{hook} hang"));
        let pending = agent.send_prompt(&session, last);
        agent.scratch.appears("hanging").await;
        agent.cancel(&session);
        let end = pending.answer().await.unwrap_or_else(|error| panic!("{hook}: {error:?}"));
        assert_eq!(end["stopReason"], "cancelled", "{hook}");
        for file in ["fault", "hanging"] {
            std::fs::remove_file(agent.scratch.path(file)).unwrap();
        }
        assert_eq!(agent.prompt(&session, "go on").await.text(), "done", "behind {hook}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_a_hook_refused_is_not_kept() {
    let (agent, session) = begun(json!({})).await;
    let row = ("chat.message", &["say zebra"] as &[&str], Cost::Prompt);
    check(&agent, &session, row, "throw", "BOOM").await;
    let shown = text(&agent.load(&session).await, "user_message_chunk");
    assert!(shown.contains("first") && !shown.contains("zebra"), "{shown}");
    assert!(!agent.llm.last_request().body.to_string().contains("zebra"));
    agent.finish().await;
}

#[tokio::test]
async fn the_answer_that_a_failed_hook_ends_says_so_and_keeps_its_text() {
    let builder = Server::builder();
    builder.scratch.write(FAULTY.0, FAULTY.1);
    let server = builder.start().await;
    server.llm.answer_with(answer);
    let session = server.session().await;
    server.prompt(&session, "first").await;
    for hook in [
        "tool.definition",
        "experimental.chat.messages.transform",
        "experimental.chat.system.transform",
        "chat.params",
        "chat.headers",
        "experimental.text.complete",
    ] {
        server.scratch.write("fault", format!("{hook} throw"));
        let body = json!({"parts": [{"type": "text", "text": "go"}]});
        server.post(&format!("/session/{session}/message"), body).await;
        let messages = server.get(&format!("/session/{session}/message")).await.ok();
        let newest = messages.as_array().unwrap().last().unwrap();
        assert_eq!(newest["info"]["error"]["name"], "UnknownError", "{hook}: {newest}");
        let told = newest["info"]["error"]["data"]["message"].as_str().unwrap();
        assert!(told.contains(hook) && told.ends_with("BOOM"), "{told}");
        assert!(newest["info"]["time"]["completed"].is_number(), "{hook}: {newest}");
        if hook.ends_with("complete") {
            let parts = newest["parts"].as_array().unwrap();
            assert!(parts.iter().any(|part| part["text"] == "done"), "{newest}");
        }
    }
    server.finish().await;
}

/// A plugin that fails where no turn waits for it.
fn beside(hook: &str, body: &str) -> String {
    format!(
        "import {{ existsSync, writeFileSync }} from 'node:fs'
        export const Beside = async ({{ directory }}) => {{
            const once = () => {{
                if (existsSync(`${{directory}}/hit`)) return false
                writeFileSync(`${{directory}}/hit`, '')
                return true
            }}
            return {{ '{hook}': {body} }}
        }}"
    )
}

#[tokio::test]
async fn a_listener_that_fails_in_any_way_costs_nothing() {
    in_each_runtime(async |runtime| {
        for body in [
            "() => { if (once()) throw new Error('BOOM') }",
            "async () => { if (once()) throw new Error('BOOM') }",
            "async () => { if (once()) Promise.reject(new Error('BOOM')) }",
            "async () => { if (once()) setTimeout(() => { throw new Error('BOOM') }) }",
            "async () => { if (once()) await new Promise(() => {}) }",
            "async () => { if (once()) process.exit(3) }",
        ] {
            let agent =
                start(&[(".opencode/plugin/beside.js", &beside("event", body))], runtime.clone()).await;
            let session = agent.new_session().await;
            agent.llm.reply(Reply::text("done"));
            assert_eq!(agent.prompt(&session, "go").await.text(), "done", "{body}");
            agent.scratch.appears("hit").await;
            if body.contains("exit") {
                agent.wait_stderr("beside.js (exit code 3). It is started again in").await;
            }
            agent.finish().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_configuration_hook_that_fails_costs_nothing_but_its_changes() {
    in_each_runtime(async |runtime| {
        let config = with(&runtime, json!({"windlass": {"plugin": {"hook_timeout": 500}}}));
        for (body, said, is_changed) in [
            (
                "async (c) => { c.command.early = { template: 'early' }; throw new Error('BOOM') }",
                "failed in its hook config: BOOM",
                true,
            ),
            ("() => new Promise(() => {})", "the host did not answer config within 500ms", false),
            ("async () => { if (once()) process.exit(3) }", "It is started again in", false),
        ] {
            let agent =
                start(&[(".opencode/plugin/beside.js", &beside("config", body))], config.clone()).await;
            let session = agent.new_session().await;
            agent.wait_stderr(said).await;
            agent.llm.reply(Reply::text("done"));
            let prompt = if is_changed { "/early" } else { "go" };
            assert_eq!(agent.prompt(&session, prompt).await.text(), "done", "{body}");
            if is_changed {
                assert_eq!(agent.llm.last_request().last_user(), "early");
            }
            agent.finish().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_dispose_that_fails_does_not_hold_up_the_end() {
    in_each_runtime(async |runtime| {
        for body in [
            "() => { throw new Error('BOOM') }",
            "async () => { throw new Error('BOOM') }",
            "() => new Promise(() => {})",
            "async () => { process.exit(3) }",
            "async () => { while (true) {} }",
        ] {
            let last = "export const Last = async ({ directory }) => ({ dispose: async () => {
                (await import('node:fs')).writeFileSync(`${directory}/disposed`, 'yes') } })";
            let files = [
                (".opencode/plugin/beside.js", &*beside("dispose", body)),
                (".opencode/plugin/last.js", last),
            ];
            let agent = start(&files, runtime.clone()).await;
            agent.new_session().await;
            let scratch: std::sync::Arc<Scratch> = agent.scratch.clone();
            let ending = tokio::time::timeout(DEADLINE, agent.finish());
            ending.await.unwrap_or_else(|_| panic!("{body} holds up the end"));
            // A throw is one plugin's; the next one is told all the same.
            assert_eq!(scratch.exists("disposed"), body.contains("throw"), "{body}");
        }
    })
    .await;
}
