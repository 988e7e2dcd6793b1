//! Plugins and custom tools: the real host runs them, in Bun and in Node.

use serde_json::{Value, json};

use crate::support::{agent::Agent, llm::Reply, scratch::Scratch};

/// Starts an agent in a project with these files.
async fn start(files: &[(&str, &str)], config: Value) -> Agent {
    let scratch = Scratch::new();
    for (name, text) in files {
        scratch.write(name, text);
    }
    Agent::builder().scratch(&scratch).config(config).start().await
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
                return `hello ${args.name} ${args.loud} ${context.agent} ${context.messages.length}`
            },
        })"#;
    let files = [(".opencode/plugin/probe.ts", plugin), (".opencode/tool/greet.ts", tool)];
    let agent = start(&files, json!({})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "greet", json!({"name": "you"})));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "done");
    let request = agent.llm.last_request();
    assert_eq!(request.tool_result("call_1"), "hello you! true build 2 (seen)");
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
