//! The order in which hooks are called, beside the order in which OpenCode calls them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::outside;
use crate::support::{llm::Reply, server::Server};

/// The hooks that OpenCode calls, by the action; `(request)` stands for the four of a request to the model.
const OPENCODE: &str = include_str!("../../fixtures/plugins/probe/order.json");

const REQUEST: [&str; 4] = [
    "experimental.chat.messages.transform",
    "experimental.chat.system.transform",
    "chat.params",
    "chat.headers",
];

/// A plugin that notes the names of all hooks as they are called, but for those of the tools' definitions.
const NOTING: &str = r#"
    import { appendFileSync } from "node:fs"
    const HOOKS = ["chat.message", "chat.params", "chat.headers", "command.execute.before", "tool.execute.before",
        "tool.execute.after", "shell.env", "experimental.chat.messages.transform",
        "experimental.chat.system.transform", "experimental.session.compacting", "experimental.text.complete"]
    export const Noting = async ({ directory }) => {
        const note = (...words) => appendFileSync(`${directory}/noted`, words.filter(Boolean).join(" ") + "\n")
        const execute = async () => { note("tool.execute"); return "" }
        return {
            ...Object.fromEntries(HOOKS.map((hook) => [hook, async (input) => note(hook, input.tool)])),
            tool: { probe: { description: "Notes its call.", args: {}, execute } },
        }
    }"#;

/// Returns the notes since the last time, the hooks of a request as one.
fn noted(server: &Server) -> Vec<String> {
    let path = server.scratch.work.join("noted");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(path);
    let mut names: Vec<String> = Vec::new();
    for name in text.lines() {
        names.push(name.to_owned());
        if names.ends_with(&REQUEST.map(str::to_owned)) {
            names.truncate(names.len() - REQUEST.len());
            names.push("(request)".to_owned());
        }
    }
    names
}

#[tokio::test]
async fn every_hook_is_called_in_opencodes_order() {
    let builder = Server::builder().config("windlass", outside());
    builder.scratch.write(".opencode/plugin/noting.js", NOTING);
    builder.scratch.write(".opencode/command/hello.md", "hi");
    builder.scratch.write(".opencode/command/hand.md", "---\nagent: general\nsubtask: true\n---\nsubtask");
    let server = builder.start().await;
    // A session with a title has no request for one.
    let session =
        server.post("/session", json!({"title": "t"})).await.ok()["id"].as_str().unwrap().to_owned();
    let path = |place: &str| format!("/session/{session}/{place}");
    let call = |tool: &str, input: Value| {
        server.llm.reply(Reply::call("call_1", tool, input));
        server.llm.reply(Reply::text("done"));
    };
    let mut ours: BTreeMap<&str, Vec<String>> = BTreeMap::new();

    server.llm.reply(Reply::text("hello"));
    server.prompt(&session, "hello").await;
    ours.insert("text", noted(&server));

    call("bash", json!({"command": "true"}));
    server.prompt(&session, "run").await;
    ours.insert("tool", noted(&server));

    call("no_such_tool", json!({}));
    server.prompt(&session, "guess").await;
    ours.insert("unknown tool", noted(&server));

    server.llm.reply(Reply::text("hello"));
    server.post(&path("command"), json!({"command": "hello", "arguments": ""})).await.ok();
    ours.insert("command", noted(&server));

    server.llm.reply_to("subtask", Reply::text("the subagent is done"));
    server.llm.reply(Reply::text("done"));
    server.post(&path("command"), json!({"command": "hand", "arguments": ""})).await.ok();
    ours.insert("subtask command", noted(&server));

    let task = json!({"description": "probe", "prompt": "probe it", "subagent_type": "general"});
    server.llm.reply_to("probe it", Reply::call("call_2", "probe", json!({})));
    server.llm.reply_to("probe it", Reply::text("probed"));
    call("task", task);
    server.prompt(&session, "delegate").await;
    ours.insert("task", noted(&server));

    let silent = json!({"parts": [{"type": "text", "text": "a note"}], "noReply": true});
    server.post(&path("message"), silent).await.ok();
    ours.insert("no reply", noted(&server));

    server.post(&path("shell"), json!({"agent": "build", "command": "true"})).await.ok();
    ours.insert("shell", noted(&server));

    server.llm.reply(Reply::text("a summary"));
    server.post(&path("summarize"), json!({"providerID": "mock", "modelID": "mock"})).await.ok();
    ours.insert("summary", noted(&server));

    let opencode: BTreeMap<&str, Vec<String>> = serde_json::from_str(OPENCODE).unwrap();
    for (what, names) in &opencode {
        assert_eq!(&ours[what], names, "{what}");
    }
    server.finish().await;
}
