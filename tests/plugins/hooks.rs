//! Hooks beside those of steps: titles, terminals, the user's own commands, results of MCP servers, plain schemas.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{example, outside, runtimes, start};
use crate::{
    mcp::until_offered,
    support::{agent::Agent, llm::Reply, scratch::Scratch, server::Server},
};

/// A plugin that notes every call of these hooks, one a line.
const NOTING: &str = r#"
    import { appendFileSync } from "node:fs"
    const HOOKS = ["chat.message", "chat.params", "tool.execute.before", "tool.execute.after", "shell.env"]
    export const Noting = async ({ directory }) => {
        const note = (row) => appendFileSync(`${directory}/noted`, JSON.stringify(row) + "\n")
        const hooks = Object.fromEntries(HOOKS.map((hook) => [hook, async (input, output) => {
            note([hook, input.agent ?? Object.keys(input).sort().join()])
            if (hook === "shell.env") output.env.FROM_PLUGIN = "yes"
            if (input.tool === "codebase_search" && hook.endsWith("after")) {
                note(output)
                output.content[0].text += " (seen)"
            }
        }]))
        return {
            ...hooks,
            "chat.headers": async (input, output) => { output.headers["x-agent"] = input.agent },
            "experimental.chat.system.transform": async (_, output) => { output.system.push("From the plugin.") },
        }
    }"#;

fn noted(scratch: &Scratch) -> Vec<Value> {
    scratch.read("noted").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_request_for_a_title_passes_the_hooks_of_requests() {
    let server = server().await;
    let session = server.post("/session", json!({})).await.ok()["id"].as_str().unwrap().to_owned();
    let mut events = server.events("/event").await;
    server.llm.title(Reply::text("A greeting"));
    server.llm.reply(Reply::text("hello"));
    server.prompt(&session, "greet me").await;
    while server.get(&format!("/session/{session}")).await.ok()["title"] != "A greeting" {
        events.until("session.updated").await;
    }
    let title = &server.llm.title_requests()[0];
    assert_eq!(title.header("x-agent"), Some("title"));
    assert!(title.system().ends_with("From the plugin."), "{}", title.system());
    assert!(noted(&server.scratch).contains(&json!(["chat.params", "title"])));
    server.finish().await;
}

async fn server() -> Server {
    let builder = Server::builder().config("windlass", outside());
    builder.scratch.write(".opencode/plugin/noting.ts", NOTING);
    builder.start().await
}

#[tokio::test]
async fn the_users_own_command_and_a_terminal_get_the_environment_and_no_other_hook() {
    let server = server().await;
    let session = server.post("/session", json!({})).await.ok()["id"].as_str().unwrap().to_owned();
    let command = json!({"agent": "build", "command": "echo $FROM_PLUGIN"});
    let ran = server.post(&format!("/session/{session}/shell"), command).await.ok();
    assert!(ran.to_string().contains(r#""output":"yes\n""#), "{ran}");
    assert_eq!(noted(&server.scratch), [json!(["shell.env", "callID,cwd,sessionID"])]);
    let script = "printf $FROM_PLUGIN > terminal.tmp; mv terminal.tmp terminal";
    server.post("/pty", json!({"command": "/bin/sh", "args": ["-c", script]})).await.ok();
    server.scratch.appears("terminal").await;
    assert_eq!(server.scratch.read("terminal"), "yes");
    assert_eq!(noted(&server.scratch)[1..], [json!(["shell.env", "cwd"])]);
    server.finish().await;
}

#[tokio::test]
async fn the_result_of_an_mcp_server_is_changed_in_the_servers_own_form() {
    let scratch = Scratch::new();
    scratch.write("src/main.rs", "/// Opens the harbour gate.\n");
    scratch.write(".opencode/plugin/noting.ts", NOTING);
    let server = json!({"type": "local", "command": ["python3", example("codebase-mcp/server.py")]});
    let agent = Agent::builder().scratch(&scratch).config(json!({"mcp": {"codebase": server}})).start().await;
    let session = agent.new_session().await;
    until_offered(&agent, &session, "codebase_search").await;
    let found = agent.told(&session, "codebase_search", json!({"query": "harbour gate"})).await;
    assert_eq!(found, "src/main.rs:1: /// Opens the harbour gate. (seen)");
    agent.finish().await;
    let text = "src/main.rs:1: /// Opens the harbour gate.";
    assert!(noted(&scratch).contains(&json!({"content": [{"type": "text", "text": text}]})));
}

#[tokio::test]
async fn arguments_are_checked_and_defaults_applied_for_plain_schemas_as_for_zod() {
    let tools = r#"
        import { tool } from "@opencode-ai/plugin"
        const execute = async (args) => JSON.stringify(args)
        export const plain = { description: "d", execute, args: {
            count: { type: "integer", minimum: 1 }, word: { type: "string", default: "x" },
        } }
        export const zod = tool({ description: "d", execute, args: {
            count: tool.schema.number().int().min(1), word: tool.schema.string().default("x"),
        } })"#;
    for config in runtimes() {
        let agent = start(&[(".opencode/tool/echo.ts", tools)], config).await;
        let session = agent.new_session().await;
        for tool in ["echo_plain", "echo_zod"] {
            let told = agent.told(&session, tool, json!({"count": 2})).await;
            assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), json!({"count": 2, "word": "x"}));
            for wrong in [json!({"count": "two"}), json!({"count": 0}), json!({"word": "y"})] {
                let told = agent.told(&session, tool, wrong).await;
                let start = format!("The {tool} tool was called with invalid arguments: ");
                assert!(told.starts_with(&start) && told.contains("count"), "{told}");
            }
        }
        let request = agent.llm.last_request();
        let schema = |name: &str| {
            let tools = request.body["tools"].as_array().unwrap();
            let tool = tools.iter().find(|tool| tool["function"]["name"] == name).unwrap();
            tool["function"]["parameters"].clone()
        };
        assert_eq!(
            schema("echo_plain"),
            json!({
                "type": "object",
                "properties": {
                    "count": {"type": "integer", "minimum": 1},
                    "word": {"type": "string", "default": "x"},
                },
                "required": ["count", "word"],
            })
        );
        assert_eq!(
            schema("echo_zod"),
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "count": {"type": "integer", "minimum": 1, "maximum": 9_007_199_254_740_991_i64},
                    "word": {"type": "string", "default": "x"},
                },
                "required": ["count"],
            })
        );
        agent.finish().await;
    }
}

/// A plugin that notes the input it gets of prompts, adds words to them, and has another agent and model answer.
const STEERING: &str = r#"
    import { appendFileSync } from "node:fs"
    export const Steering = async ({ directory }) => ({
        "chat.message": async (input, { message, parts }) => {
            const shown = parts.map((part) => part.type === "text" ? part.text : part.type)
            appendFileSync(`${directory}/noted`, JSON.stringify([input.agent, message.agent, ...shown]) + "\n")
            if (shown[0] === "unwanted words") throw new Error("not this one")
            if (shown[0] === "ask nobody") return void (message.agent = "nobody")
            parts.push({ type: "text", text: "added", synthetic: true })
            message.agent = "helper"
            message.model.modelID = "other"
        },
    })"#;

#[tokio::test]
async fn a_plugin_sees_the_prompts_of_commands_and_says_who_answers_them() {
    let commands = [
        (".opencode/plugin/steering.js", STEERING),
        (".opencode/agent/helper.md", "I am the helper."),
        (".opencode/command/hello.md", "hello $ARGUMENTS"),
        (".opencode/command/no.md", "unwanted words"),
        (".opencode/command/shell.md", "!`printf 'unwanted words'`"),
        (".opencode/command/hand.md", "---\nagent: general\nsubtask: true\n---\nhanded over"),
    ];
    let agent = start(&commands, json!({})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/hello world").await;
    let request = agent.llm.last_request();
    assert!(request.last_user().contains("hello world") && request.last_user().contains("added"));
    assert_eq!(request.body["model"], "other");
    assert!(request.system().contains("I am the helper."), "{}", request.system());
    assert_eq!(noted(&agent.scratch), [json!(["build", "build", "hello world"])]);

    let refused = agent.send_prompt(&session, "/no").answer().await.unwrap_err();
    assert!(refused.message.contains("not this one"), "{refused:?}");
    let refused = agent.send_prompt(&session, "/shell").answer().await.unwrap_err();
    assert!(refused.message.contains("not this one"), "{refused:?}");
    assert_eq!(
        noted(&agent.scratch)[2],
        json!(["build", "build", "unwanted words"]),
        "the shell's part is stored"
    );
    let refused = agent.send_prompt(&session, "ask nobody").answer().await.unwrap_err();
    assert!(refused.message.contains("Agent not found: \"nobody\""), "{refused:?}");

    agent.llm.reply_to("handed over", Reply::text("the subagent is done"));
    agent.llm.reply(Reply::text("summed up"));
    agent.prompt(&session, "/hand").await;
    assert_eq!(
        noted(&agent.scratch)[4..],
        [json!(["build", "build", "subtask"]), json!(["general", "general", "handed over"])]
    );
    let last = agent.llm.last_request().body.to_string();
    assert!(!last.contains("unwanted words") && !last.contains("ask nobody"), "{last}");
    agent.finish().await;
}

#[tokio::test]
async fn parts_that_a_plugin_spoils_fail_their_prompt() {
    let plugin = r#"
        export const Spoiler = async () => ({
            "chat.message": async (input, output) => {
                if (output.parts[0].text === "spoil it") delete output.parts[0].text
                if (output.parts[0].text === "answer it") output.message = { ...output.message, role: "nobody" }
            },
            "command.execute.before": async (input, output) => { output.parts[0] = { type: "nothing" } },
        })"#;
    let files = [(".opencode/plugin/spoiler.js", plugin), (".opencode/command/hello.md", "hello")];
    let agent = start(&files, json!({})).await;
    let session = agent.new_session().await;
    for (prompt, reason) in [
        ("spoil it", "a plugin left parts of a message that cannot be read: "),
        ("answer it", "a plugin left a message that cannot be read: "),
        ("/hello", "a plugin left parts of a command that cannot be read: "),
    ] {
        let refused = agent.send_prompt(&session, prompt).answer().await.unwrap_err();
        assert!(refused.message.contains(reason), "{prompt}: {refused:?}");
    }
    agent.llm.reply(Reply::text("done"));
    assert_eq!(agent.prompt(&session, "go on").await.text(), "done");
    assert!(!agent.llm.last_request().body.to_string().contains("spoil it"));
    agent.finish().await;
}

#[tokio::test]
async fn a_plugin_sees_the_files_of_a_result_and_puts_others_in_their_place() {
    let plugin = r#"
        const dot = (colour) => `data:image/png;base64,${btoa("\x89PNG\r\n\x1a\n" + colour)}`
        export const Files = async () => ({
            tool: {
                draw: {
                    description: "Draws.", args: {},
                    execute: async () => ({
                        output: "drawn", attachments: [{ type: "file", mime: "image/png", url: dot("red") }],
                    }),
                },
            },
            "tool.execute.after": async (input, output) => {
                output.output += ` ${output.attachments[0].type} ${output.attachments[0].url === dot("red")}`
                output.attachments = [{ type: "file", mime: "image/png", url: dot("blue") }]
            },
        })"#;
    let agent = start(&[(".opencode/plugin/files.js", plugin)], json!({})).await;
    let (turn, told) = agent.run("draw", json!({})).await;
    assert!(told.starts_with("drawn file true"), "{told}");
    let update = turn.tool("call_1");
    let holds = |colour: &str| {
        let picture = [&b"\x89PNG\r\n\x1a\n"[..], colour.as_bytes()].concat();
        update.to_string().contains(&BASE64_STANDARD.encode(picture))
    };
    assert!(holds("blue") && !holds("red"), "{update}");
    agent.finish().await;
}
