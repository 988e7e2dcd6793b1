//! Custom tools: cancelling them, cutting their output, the agents that may use them, and two tools with one name.

use serde_json::{Value, json};

use super::{in_each_runtime, start, with};
use crate::support::llm::Reply;

fn says(word: &str) -> String {
    format!("{{ description: 'd', args: {{}}, execute: async () => '{word}' }}")
}

#[tokio::test]
async fn a_cancel_reaches_a_running_tool() {
    in_each_runtime(async |runtime| {
        let waits = r#"
            import { appendFileSync } from "node:fs"
            const execute = (_, { abort, directory, metadata }) => new Promise((resolve) => {
                abort.addEventListener("abort", () => {
                    appendFileSync(`${directory}/aborted`, "yes")
                    resolve("late")
                })
                metadata({ title: "waiting" })
            })
            export default { description: "d", args: {}, execute }"#;
        let agent = start(&[(".opencode/tool/waits.js", waits)], runtime).await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "waits", json!({})));
        let prompt = agent.send_prompt(&session, "go");
        agent.has_update(&session, "the tool's title", |update| update["title"] == "waiting").await;
        agent.cancel(&session);
        assert_eq!(prompt.answer().await.unwrap()["stopReason"], "cancelled");
        agent.scratch.appears("aborted").await;
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_long_result_is_cut_as_that_of_a_built_in_tool() {
    in_each_runtime(async |runtime| {
        let long =
            "export default { description: 'd', args: {}, execute: async () => 'a line\\n'.repeat(5000) }";
        let agent = start(&[(".opencode/tool/long.js", long)], runtime).await;
        let session = agent.new_session().await;
        let told = agent.told(&session, "long", json!({})).await;
        assert!(told.lines().count() < 2100 && told.contains("truncated"), "{} lines", told.lines().count());
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_tool_is_left_out_for_all_or_for_one_agent() {
    in_each_runtime(async |runtime| {
        let files = [
            (".opencode/tool/everywhere.js", format!("export default {}", says("x"))),
            (".opencode/tool/nowhere.js", format!("export default {}", says("x"))),
            (".opencode/tool/elsewhere.js", format!("export default {}", says("x"))),
            (".opencode/tool/denied.js", format!("export default {}", says("x"))),
        ];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let rules = json!({
            "tools": {"nowhere": false},
            "permission": {"denied": "deny"},
            "agent": {"build": {"tools": {"elsewhere": false}}},
        });
        let agent = start(&files, with(&runtime, rules)).await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        let offered = agent.llm.last_request().tools();
        let is_offered = |name: &str| offered.iter().any(|it| it == name);
        let ours = ["everywhere", "nowhere", "elsewhere", "denied"];
        assert_eq!(ours.map(is_offered), [true, false, false, false], "{offered:?}");
        agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        assert!(agent.llm.last_request().tools().contains(&"elsewhere".to_owned()));
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_file_takes_a_built_in_tools_place_and_a_plugin_that_of_both() {
    in_each_runtime(async |runtime| {
        let of_file = format!("export default {}", says("from the file"));
        let plugin =
            format!("export const P = async () => ({{ tool: {{ list: {} }} }})", says("from the plugin"));
        let files = [
            (".opencode/tool/glob.js", of_file.as_str()),
            (".opencode/tool/list.js", of_file.as_str()),
            (".opencode/plugin/p.js", plugin.as_str()),
        ];
        let agent = start(&files, runtime).await;
        let session = agent.new_session().await;
        assert_eq!(agent.told(&session, "glob", json!({})).await, "from the file");
        assert_eq!(agent.told(&session, "list", json!({})).await, "from the plugin");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_file_that_a_tool_imports_is_loaded_again_with_it() {
    in_each_runtime(async |runtime| {
        let tool = "import { word } from '../lib/word.js'\n\
            export default { description: 'd', args: {}, execute: async () => word + MARK }";
        let with_mark = |mark: &str| tool.replace("MARK", mark);
        let first = with_mark("'1'");
        let files = [
            (".opencode/tool/say.js", first.as_str()),
            (".opencode/lib/word.js", "export const word = 'first'"),
        ];
        let agent = start(&files, runtime).await;
        let session = agent.new_session().await;
        assert_eq!(agent.told(&session, "say", json!({})).await, "first1");
        agent.scratch.write(".opencode/lib/word.js", "export const word = 'second'");
        agent.scratch.write(".opencode/tool/say.js", with_mark("'2'"));
        let ask = agent.permission().await;
        agent.answer(&ask, crate::support::agent::Answer::AllowOnce);
        let loaded = async { while agent.told(&session, "say", json!({})).await != "second2" {} };
        tokio::time::timeout(crate::support::agent::DEADLINE, loaded).await.expect("both are loaded again");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn the_client_is_the_sdks_own_with_its_inner_one() {
    in_each_runtime(async |runtime| {
        let plugin = r#"export const P = async ({ client }) => ({
            tool: {
                look: {
                    description: "d", args: {},
                    execute: async (_, { sessionID }) => {
                        const { data } = await client.session.get({ path: { id: sessionID } })
                        const inner = await client._client.get({ url: "/config" })
                        const { error } = await client.session.get({ path: { id: "ses_none" } })
                        const created = await client.session.create({ body: { title: "of the plugin" } })
                        const agents = await client.app.agents()
                        const isThrown = await client.session.get({ path: { id: "ses_none" }, throwOnError: true })
                            .then(() => false, () => true)
                        return JSON.stringify([
                            data.id === sessionID, inner.response.status, typeof inner.data, !!error,
                            created.data.title, agents.data.some(({ name }) => name === "build"), isThrown,
                        ])
                    },
                },
            },
        })"#;
        let agent = start(&[(".opencode/plugin/p.js", plugin)], runtime).await;
        let session = agent.new_session().await;
        let told: Value = serde_json::from_str(&agent.told(&session, "look", json!({})).await).unwrap();
        assert_eq!(told, json!([true, 200, "object", true, "of the plugin", true, true]));
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_plugin_subscribes_to_events_by_its_client() {
    in_each_runtime(async |runtime| {
        let plugin = r#"export const P = async ({ client, serverUrl }) => {
            const seen = []
            const { stream } = await client.event.subscribe()
            const direct = new AbortController()
            const read = async () => {
                for await (const { type, properties } of stream) seen.push([type, properties?.info?.role].join(" "))
            }
            read()
            return {
                tool: {
                    seen: {
                        description: "d", args: {},
                        execute: async () => {
                            while (!seen.includes("message.updated user")) await new Promise((next) => setTimeout(next, 5))
                            const answer = await fetch(new URL("/config", serverUrl))
                            const events = await fetch(new URL("/event", serverUrl), { signal: direct.signal })
                            const first = new TextDecoder().decode((await events.body.getReader().read()).value)
                            direct.abort()
                            return JSON.stringify([seen[0], answer.status, first.includes("server.connected")])
                        },
                    },
                },
            }
        }"#;
        let agent = start(&[(".opencode/plugin/p.js", plugin)], runtime).await;
        let session = agent.new_session().await;
        let told: Value = serde_json::from_str(&agent.told(&session, "seen", json!({})).await).unwrap();
        assert_eq!(told, json!(["server.connected ", 200, true]));
        agent.finish().await;
    })
    .await;
}

/// Types as the third version of zod makes them, as far as the host looks at them.
const ZOD_3: &str = r#"
    const type = (typeName, own = {}, check = () => true) => ({
        _def: { typeName, ...own },
        description: own.description,
        isOptional: () => typeName === "ZodOptional" || typeName === "ZodDefault",
        safeParseAsync: async (given) => {
            const data = given === undefined && own.defaultValue ? own.defaultValue() : given
            if (data === undefined && typeName === "ZodOptional") return { success: true, data }
            return check(data) ? { success: true, data } : { success: false, error: { issues: [{ message: "Expected more", path: [] }] } }
        },
    })
    const text = type("ZodString", { checks: [{ kind: "min", value: 2 }], description: "a word" }, (it) => typeof it === "string" && it.length > 1)
    const count = type("ZodDefault", { innerType: type("ZodNumber", { checks: [{ kind: "int" }] }), defaultValue: () => 3 })
    const loud = type("ZodOptional", { innerType: type("ZodBoolean") })
"#;

#[tokio::test]
async fn arguments_of_the_third_zod_are_a_schema_with_defaults_and_checks() {
    in_each_runtime(async |runtime| {
        let says = format!(
            "{ZOD_3}
            const args = {{ text, count, loud, plain: {{ type: 'string' }} }}
            export default {{ description: 'd', args, execute: async (given) => JSON.stringify(given) }}"
        );
        let agent = start(&[(".opencode/tool/says.js", &*says)], runtime).await;
        let session = agent.new_session().await;
        let told = agent.told(&session, "says", json!({"text": "tea", "plain": "x"})).await;
        let given: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(given, json!({"text": "tea", "plain": "x", "count": 3}));
        let tools = agent.llm.last_request().body["tools"].clone();
        let sent = tools.as_array().unwrap().iter().find(|tool| tool["function"]["name"] == "says").unwrap();
        assert_eq!(
            sent["function"]["parameters"],
            json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 2, "description": "a word"},
                    "count": {"type": "integer", "default": 3},
                    "loud": {"type": "boolean"},
                    "plain": {"type": "string"},
                },
                "required": ["text", "plain"],
            })
        );
        let told = agent.told(&session, "says", json!({"text": "t", "plain": "x"})).await;
        assert!(told.contains("invalid arguments: Expected more (at text)"), "{told}");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_tool_without_a_json_schema_is_left_out_and_named() {
    in_each_runtime(async |runtime| {
        let tool = |args: &str| {
            format!("{ZOD_3}\nexport default {{ description: 'd', args: {args}, execute: async () => 'x' }}")
        };
        let files = [
            (".opencode/tool/map.js", tool("{ a: type('ZodMap') }")),
            (".opencode/tool/word.js", tool("{ a: 'string' }")),
            (".opencode/tool/function.js", tool("{ a: () => true }")),
            (
                ".opencode/tool/standard.js",
                tool("{ a: { '~standard': { vendor: 'other' }, type: 'string' } }"),
            ),
            (".opencode/tool/misspelt.js", tool("{ a: { type: 'strin' } }")),
            (".opencode/tool/good.js", tool("{ a: { type: 'string' } }")),
        ];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let agent = start(&files, runtime).await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        let tools = agent.llm.last_request().tools();
        for name in ["map", "word", "function", "standard", "misspelt"] {
            assert!(!tools.iter().any(|tool| tool == name), "{name} is among {tools:?}");
            agent.wait_stderr(&format!("the tool {name} has no usable schema")).await;
        }
        assert!(tools.iter().any(|tool| tool == "good"), "{tools:?}");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_tool_whose_name_no_provider_takes_has_another_and_keeps_its_rules() {
    in_each_runtime(async |runtime| {
        let (long, denied) = ("long_".repeat(15), "never_".repeat(13));
        let tool = "export default { description: 'd', args: {}, execute: async () => 'called' }";
        let files = [long.as_str(), denied.as_str(), "my.tool"]
            .map(|name| (format!(".opencode/tool/{name}.js"), tool));
        let files = files.each_ref().map(|(name, text)| (name.as_str(), *text));
        let rules = json!({"permission": {denied.as_str(): "deny"}});
        let agent = start(&files, with(&runtime, rules)).await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        let tools = agent.llm.last_request().tools();
        let is_taken = |name: &String| {
            name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        assert!(tools.iter().all(is_taken), "{tools:?}");
        assert!(!tools.iter().any(|name| name.starts_with("never_")), "{tools:?}");
        for start in ["long_long_", "my_tool_"] {
            let name = tools.iter().find(|name| name.starts_with(start)).unwrap();
            assert_eq!(agent.told(&session, name, json!({})).await, "called");
        }
        agent.finish().await;
    })
    .await;
}
