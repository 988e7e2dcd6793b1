//! The order in which plugins are loaded, the reasons to leave one out, and the context of a tool's call.

use serde_json::json;

use super::{in_each_runtime, outside, start, with};
use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
    scratch::Scratch,
};

/// A plugin that adds a word to a header of each request.
fn says(word: &str) -> String {
    format!(
        r#"export const P = async (_, options) => ({{
            "chat.headers": async (_, output) => {{
                output.headers["x-order"] = `${{output.headers["x-order"] ?? ""}} {word}${{options?.mark ?? ""}}`.trim()
            }},
        }})"#
    )
}

#[tokio::test]
async fn plugins_run_in_the_order_of_their_places_and_the_last_mention_stands() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        let global = scratch.home.join(".config/opencode/plugin");
        std::fs::create_dir_all(&global).unwrap();
        std::fs::write(global.join("global.js"), says("global")).unwrap();
        for word in ["listed", "twice", "late"] {
            scratch.write(&format!("{word}.js"), says(word));
        }
        scratch.write(".opencode/plugin/directory.js", says("directory"));
        scratch.write("opencode.json", json!({"plugin": ["./listed.js", "./twice.js"]}).to_string());
        let late = json!([[scratch.path("late.js"), {"mark": "!"}], scratch.path("twice.js")]);
        let agent = Agent::builder()
            .scratch(&scratch)
            .config(with(&runtime, json!({"plugin": late, "windlass": outside()})))
            .start()
            .await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        assert_eq!(agent.llm.last_request().header("x-order"), Some("listed global directory late! twice"));
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_pure_start_leaves_plugins_out_and_keeps_tool_files() {
    in_each_runtime(async |runtime| {
        let tool = "export default { description: 'd', args: {}, execute: async () => 'from the file' }";
        for is_flag in [true, false] {
            let scratch = Scratch::new();
            scratch.write(".opencode/plugin/p.js", says("loaded"));
            scratch.write(".opencode/tool/own.js", tool);
            let builder = Agent::builder().scratch(&scratch).config(runtime.clone());
            let builder = if is_flag {
                builder.arguments(&["acp", "--pure"])
            } else {
                builder.env("OPENCODE_PURE", "1")
            };
            let agent = builder.start().await;
            let session = agent.new_session().await;
            assert_eq!(agent.told(&session, "own", json!({})).await, "from the file");
            assert_eq!(agent.llm.last_request().header("x-order"), None);
            agent.finish().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_package_for_another_version_is_skipped_with_a_sentence() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        let package =
            scratch.home.join(".local/share/windlass/cache/packages/needy@latest/node_modules/needy");
        std::fs::create_dir_all(&package).unwrap();
        let manifest = json!({"name": "needy", "version": "1.0.0", "main": "index.js", "type": "module",
            "engines": {"opencode": ">=99"}});
        std::fs::write(package.join("package.json"), manifest.to_string()).unwrap();
        std::fs::write(package.join("index.js"), says("needy")).unwrap();
        let agent = Agent::builder()
            .scratch(&scratch)
            .config(with(&runtime, json!({"plugin": ["needy"]})))
            .start()
            .await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        assert_eq!(agent.llm.last_request().header("x-order"), None);
        agent.wait_stderr("Plugin needy skipped: Plugin requires opencode >=99 but running 1.18.33").await;
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_tool_asks_shows_its_progress_and_returns_an_image() {
    in_each_runtime(async |runtime| {
        const PIXEL: &str =
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let tool = format!(
            r#"export default {{ description: "d", args: {{}}, execute: async (_, context) => {{
                context.metadata({{ title: "half done", metadata: {{ step: 1 }} }})
                const ask = () => context.ask({{ permission: "special", patterns: ["x"], always: ["x"], metadata: {{}} }})
                const asked = ask()
                for (let n = 0; n < 1000; n += 1) context.metadata({{ title: `report ${{n}}` }})
                await asked
                await ask()
                const url = "data:image/png;base64,{PIXEL}"
                return {{ title: "finished", output: "drawn", attachments: [{{ type: "file", mime: "image/png", url }}] }}
            }} }}"#
        );
        let scratch = Scratch::new();
        scratch.write(".opencode/tool/draw.js", tool);
        let config = with(&runtime, json!({"permission": {"special": "ask"}}));
        let agent = Agent::builder().scratch(&scratch).config(config).answering(Answer::AllowOnce).start().await;
        let session = agent.new_session().await;
        let (turn, drawn) = agent.call(&session, "call_1", "draw", json!({})).await;
        assert_eq!((drawn.as_str(), agent.n_asked()), ("drawn", 2));
        assert_eq!(turn.tool("call_1")["title"], "finished");
        let updates = json!(agent.updates(&session)).to_string();
        assert!(updates.contains("report 999"), "the newest report is shown: {updates}");
        let image = format!(r#""data":"{PIXEL}""#);
        assert!(updates.contains(&image) && updates.contains("image/png"), "{updates}");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_refusal_of_what_a_tool_asks_ends_its_call() {
    in_each_runtime(async |runtime| {
        let tool = r#"export default { description: "d", args: {}, execute: async (_, context) => {
            await context.ask({ permission: "special", patterns: ["x"], always: [], metadata: {} })
            return "never"
        } }"#;
        let agent = start(
            &[(".opencode/tool/own.js", tool)],
            with(&runtime, json!({"permission": {"special": "deny"}})),
        )
        .await;
        let session = agent.new_session().await;
        let told = agent.told(&session, "own", json!({})).await;
        assert!(!told.contains("never") && told.contains("special"), "{told}");
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn without_plugins_no_process_is_started() {
    let agent = start(&[], json!({})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(agent.descendants().is_empty(), "{:?}", agent.descendants());
    agent.finish().await;
}

#[tokio::test]
async fn plugins_are_shown_the_places_that_they_come_from() {
    let scratch = Scratch::new();
    let global = scratch.home.join(".config/opencode");
    std::fs::create_dir_all(global.join("plugin")).unwrap();
    let nothing = "export const P = async () => ({})";
    std::fs::write(global.join("plugin/global.js"), nothing).unwrap();
    scratch.write("listed.js", nothing);
    let shows = r#"import { writeFileSync } from "node:fs"
        export const P = async ({ directory }) => ({
            config: async ({ plugin, plugin_origins, agent, mode }) => {
                const shown = { plugin, plugin_origins, agent, mode }
                writeFileSync(`${directory}/shown`, JSON.stringify(shown))
            },
        })"#;
    scratch.write(".opencode/plugin/shows.js", shows);
    scratch.write("opencode.json", json!({"plugin": [["./listed.js", {"a": 1}]]}).to_string());
    let agent = Agent::builder().scratch(&scratch).start().await;
    agent.new_session().await;
    agent.finish().await;
    let url = |path: &str| format!("file://{path}");
    let (listed, own) = (json!([url(&scratch.path("listed.js")), {"a": 1}]), scratch.path(".opencode"));
    let of_global = url(&global.join("plugin/global.js").display().to_string());
    let shown = json!({
        "plugin": [listed, of_global, url(&scratch.path(".opencode/plugin/shows.js"))],
        "plugin_origins": [
            {"spec": listed, "source": scratch.path("opencode.json"), "scope": "local"},
            {"spec": of_global, "source": global, "scope": "global"},
            {"spec": url(&scratch.path(".opencode/plugin/shows.js")), "source": own, "scope": "local"},
        ],
        "agent": {}, "mode": {},
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&scratch.read("shown")).unwrap(), shown);
}
