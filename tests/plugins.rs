//! Plugins and custom tools: the real host runs them, in Node and, where it can be found, in Bun.

mod changes;
mod examples;
mod fault_table;
mod faults;
mod generations;
mod guards;
mod hooks;
mod loading;
mod logins;
mod notes;
mod order;
mod packages;
mod probe;
mod programs;
mod requests;
mod runtimes;
mod tools;

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{
        agent::{Agent, Answer, merge},
        llm::Reply,
        message::mode_ids,
        scratch::Scratch,
    },
};

/// Lets a project's plugins run outside of the sandbox, as the user's own do.
fn outside() -> Value {
    json!({"sandbox": {"plugins": {"mode": "off"}}})
}

/// Starts an agent in a project with these files; its plugins run as the user's own do.
async fn start(files: &[(&str, &str)], config: Value) -> Agent {
    let scratch = Scratch::new();
    for (name, text) in files {
        scratch.write(name, text);
    }
    let config = with(&json!({ "windlass": outside() }), config);
    Agent::builder().scratch(&scratch).config(config).start().await
}

/// Returns the path of an example.
fn example(name: &str) -> String {
    format!("{}/fixtures/plugins/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the settings of each runtime that this machine has: the one that is found, and Node.
pub fn runtimes() -> Vec<Value> {
    let bun = std::env::var("WINDLASS_TEST_BUN").unwrap_or_else(|_| "/nowhere".to_owned());
    let bun = Path::new(&bun).is_file().then(|| json!({"windlass": {"plugin": {"runtime": bun}}}));
    bun.into_iter().chain([json!({"windlass": {"plugin": {"runtime": "node"}}})]).collect()
}

/// Checks something in each of the runtimes, side by side.
async fn in_each_runtime(check: impl AsyncFn(Value)) {
    futures_util::future::join_all(runtimes().into_iter().map(|runtime| check(runtime))).await;
}

/// Returns the settings of a runtime with these beside them.
fn with(runtime: &Value, more: Value) -> Value {
    let mut config = runtime.clone();
    merge(&mut config, more);
    config
}

#[tokio::test]
async fn a_plugin_changes_requests_and_calls_and_a_tool_file_is_a_tool() {
    let plugin = r#"
        import type { Plugin } from "@opencode-ai/plugin"
        export const Probe: Plugin = async ({ client, directory, $ }) => {
            const config = await client.config.get()
            const said = await $`echo ${"from the shell"}`.text()
            return {
                "chat.params": async (input, output) => { output.maxOutputTokens = 77; output.options.top_z = 7 },
                "chat.headers": async (_, output) => { output.headers["x-probe"] = said.trim() },
                "experimental.chat.system.transform": async (_, output) => {
                    output.system.push(`model ${config.data.model} in ${directory}`)
                },
                "tool.execute.before": async (input, output) => {
                    if (input.tool === "greet") output.args.name += "!"
                },
                "tool.execute.after": async (input, output) => { output.output += " (seen)" },
            }
        }"#;
    let tool = r#"
        import { tool } from "@opencode-ai/plugin"
        export default tool({
            description: "Greets somebody",
            args: { name: tool.schema.string().describe("the name"), loud: tool.schema.boolean().default(true) },
            async execute(args, context) {
                context.metadata({ title: "greeting" })
                return `hello ${args.name} ${args.loud} ${context.agent} ${context.messages.length} ${context.extra.model.id}`
            },
        })"#;
    let files = [(".opencode/plugin/probe.ts", plugin), (".opencode/tool/greet.ts", tool)];
    for config in runtimes() {
        check_requests_and_calls(&files, config).await;
    }
}

async fn check_requests_and_calls(files: &[(&str, &str)], config: Value) {
    let agent = start(files, config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "greet", json!({"name": "you"})));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "done");
    let request = agent.llm.last_request();
    assert_eq!(request.tool_result("call_1"), "hello you! true build 1 mock (seen)");
    assert_eq!(request.body["max_tokens"], 77);
    assert_eq!(request.body["top_z"], 7);
    assert_eq!(request.header("x-probe"), Some("from the shell"));
    let tools = request.body["tools"].as_array().unwrap();
    let greet = tools.iter().find(|tool| tool["function"]["name"] == "greet").unwrap();
    assert_eq!(greet["function"]["description"], "Greets somebody");
    let schema = &greet["function"]["parameters"];
    assert_eq!(schema["properties"]["name"], json!({"type": "string", "description": "the name"}));
    assert_eq!(schema["required"], json!(["name"]));
    assert!(request.body.to_string().contains("model mock/"), "{}", request.body);
    agent.finish().await;
}

#[tokio::test]
async fn the_configuration_of_a_plugin_gives_modes_commands_and_tools() {
    let plugin = r#"export const P = async () => ({
        config: async (config) => {
            config.agent.helper = { description: "helps", mode: "primary", prompt: "You are the helper." }
            config.command.hello = { template: "say hello to $ARGUMENTS", description: "greets" }
        },
        "command.execute.before": async (input, output) => {
            output.parts[0].text += ` (${input.command} ${input.arguments})`
        },
        "tool.definition": async (input, output) => { if (input.toolID === "bash") output.description = "A shell." },
        "experimental.text.complete": async (_, output) => { output.text += "!" },
        tool: {
            glob: { description: "finds otherwise", args: {}, execute: async () => "from the plugin" },
        },
    })"#;
    let agent = start(&[(".opencode/plugin/p.js", plugin)], json!({})).await;
    let (session, opened) = agent.open().await;
    assert!(mode_ids(&opened).contains(&"helper"), "{opened}");
    agent.llm.reply(Reply::call("call_1", "glob", json!({})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/hello world").await;
    let request = agent.llm.last_request();
    assert_eq!(request.tool_result("call_1"), "from the plugin");
    assert!(request.last_user().contains("say hello to world (hello world)"), "{}", request.last_user());
    let tools = request.body["tools"].as_array().unwrap();
    let bash = tools.iter().find(|tool| tool["function"]["name"] == "bash").unwrap();
    assert_eq!(bash["function"]["description"], "A shell.");
    let shown = agent.load(&session).await;
    assert!(crate::support::message::text(&shown, "agent_message_chunk").contains("done!"), "{shown:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_plugin_sees_prompts_events_and_environments() {
    let plugin = r#"
        import { appendFileSync } from "node:fs"
        export const P = async ({ directory, client }) => ({
            "chat.message": async (input, output) => {
                output.parts.push({ type: "text", text: `added for ${input.agent}`, synthetic: true })
            },
            "shell.env": async (input, output) => { output.env.FROM_PLUGIN = "yes" },
            "experimental.chat.messages.transform": async (_, output) => {
                for (const { parts } of output.messages)
                    for (const part of parts) if (part.text === "secret") part.text = "hidden"
            },
            event: async ({ event }) => {
                if (event.type !== "session.idle") return
                const messages = await client.session.messages({ path: { id: event.properties.sessionID } })
                appendFileSync(`${directory}/seen`, `${messages.data.length} ${messages.data[0].parts[1].text}`)
            },
            dispose: async () => appendFileSync(`${directory}/disposed`, "yes"),
        })"#;
    let command = json!({"command": {"told": {"template": "A plugin says !`echo $FROM_PLUGIN`."}}});
    let agent = start(&[(".opencode/plugin/p.ts", plugin)], command).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo $FROM_PLUGIN"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "secret").await;
    let request = agent.llm.last_request();
    assert_eq!(request.tool_result("call_1"), "yes\n");
    let said = request.last_user();
    assert!(
        said.contains("hidden") && said.contains("added for build") && !said.contains("secret"),
        "{said}"
    );
    let scratch = agent.scratch.clone();
    scratch.appears("seen").await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/told").await;
    assert!(agent.llm.last_request().last_user().contains("A plugin says yes."));
    agent.finish().await;
    assert!(scratch.read("seen").starts_with("3 added for build"));
    assert!(scratch.exists("disposed"));
}

#[tokio::test]
async fn a_plugin_denies_asks_and_allows_but_never_loosens_the_administrators_rules() {
    let plugin = r#"export const P = async () => ({
        "permission.ask": async (input, output) => {
            const command = input.pattern[0]
            for (const status of ["deny", "ask", "allow"]) if (command.includes(status)) output.status = status
        },
    })"#;
    let scratch = Scratch::new();
    scratch.write(".opencode/plugin/p.ts", plugin);
    let managed = scratch.root().join("managed");
    std::fs::create_dir(&managed).unwrap();
    let rules = r#"{"permission": {"bash": {"echo allow managed": "ask"}}}"#;
    std::fs::write(managed.join("opencode.json"), rules).unwrap();
    let config = json!({"permission": {"bash": {"*": "allow", "echo allow*": "ask", "echo never*": "deny"}}});
    let agent = Agent::builder().scratch(&scratch).config(config);
    let agent = agent.env("WINDLASS_MANAGED_CONFIG", managed.to_str().unwrap());
    let agent = agent.answering(Answer::RejectOnce).start().await;
    agent.llm.answer_with(|request| {
        let is_answered = request.messages().last().is_some_and(|message| message["role"] == "tool");
        let command = request.last_user();
        if is_answered {
            Reply::text("done")
        } else {
            Reply::call("call_1", "bash", json!({"command": command}))
        }
    });
    for (command, n_asked, is_run) in [
        ("echo plain", 0, true),
        ("echo deny", 0, false),
        ("echo never allow", 0, false),
        ("echo allow this", 0, true),
        ("echo ask first", 1, false),
        ("echo allow managed", 2, false),
    ] {
        let session = agent.new_session().await;
        let turn = agent.prompt(&session, command).await;
        let status = if is_run { "completed" } else { "failed" };
        assert_eq!(turn.tool("call_1")["status"], status, "{command}");
        assert_eq!(agent.n_asked(), n_asked, "{command}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn plugins_are_listed_with_what_they_offer() {
    let machine = Machine::new().await;
    let plugin = "export const P = async () => ({ event: async () => {}, tool: { t: { description: 'd', args: {}, execute: async () => '' } } })";
    machine.scratch.write(".opencode/plugin/p.js", plugin);
    machine.scratch.write(
        ".opencode/tool/own.js",
        "export default { description: 'd', args: {}, execute: async () => '' }",
    );
    let listed = machine.run(&["plugin", "list", "--format", "json"]).await;
    assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""), "{listed:?}");
    let rows: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&rows[0]["hooks"], &rows[0]["tools"]),
        (&json!(["event", "tool"]), &json!(["t"])),
        "{rows:?}"
    );
    assert_eq!(rows[1]["tools"], json!(["own"]), "{rows:?}");
    machine.scratch.write(".opencode/plugin/p.js", "export const P = 1");
    let listed = machine.run(&["plugin", "list"]).await;
    assert_eq!(listed.code, Some(1), "{listed:?}");
    assert!(listed.stdout.contains("Plugin export is not a function"), "{listed:?}");
}
