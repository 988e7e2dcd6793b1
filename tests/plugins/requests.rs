//! The requests beside those of steps that hooks change: summaries, agents that a model writes, titles, commands.

use serde_json::{Value, json};

use super::start;
use crate::{
    cli::Machine,
    support::{agent::Agent, llm::Reply, scratch::Scratch, server::Server},
};

/// A plugin that notes every hook that is called, in order.
const SUMMARY: &str = r#"
    import { appendFileSync } from "node:fs"
    export const P = async ({ directory }) => {
        const note = (...row) => appendFileSync(`${directory}/noted`, JSON.stringify(row) + "\n")
        return {
            "experimental.session.compacting": async (input, output) => {
                note("compacting", Object.keys(input))
                output.context.push("Mind the bees.")
                if (process.env.OWN_PROMPT) output.prompt = "Only the names."
            },
            "experimental.chat.messages.transform": async (input, output) => {
                note("messages", output.messages.length)
                for (const { parts } of output.messages)
                    for (const part of parts) if (part.text === "secret") part.text = "hidden"
            },
            "experimental.chat.system.transform": async (input, output) => { output.system.push("Be short.") },
            "chat.params": async (input, output) => { note("params", input.agent); output.options.top_z = 7 },
            "chat.headers": async (input, output) => { output.headers["x-agent"] = input.agent },
            "experimental.text.complete": async (input, output) => { output.text += "!" },
            "experimental.compaction.autocontinue": async (input, output) => {
                note("autocontinue", Object.keys(input), input.overflow)
                output.enabled = false
            },
        }
    }"#;

fn noted(scratch: &Scratch) -> Vec<Value> {
    scratch.read("noted").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_summary_is_made_from_messages_as_plugins_leave_them_and_by_their_words() {
    for is_own_prompt in [false, true] {
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/p.js", SUMMARY);
        let builder = Agent::builder().scratch(&scratch);
        let agent = if is_own_prompt { builder.env("OWN_PROMPT", "1") } else { builder }.start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("one"));
        agent.prompt(&session, "secret").await;
        std::fs::remove_file(scratch.path("noted")).unwrap();
        agent.llm.reply(Reply::text("a summary"));
        agent.prompt(&session, "/compact").await;
        let request = agent.llm.last_request();
        let said = request.last_user();
        assert!(said.contains("[User]: hidden\n[Assistant]: one!\n</conversation>"), "{said}");
        assert!(!said.contains("secret"), "{said}");
        assert!(said.ends_with("\n\nMind the bees."), "{said}");
        let own = "</conversation>\n\nOnly the names.\n\n";
        assert_eq!((said.contains(own), said.contains("Write the summary")), (is_own_prompt, !is_own_prompt));
        assert_eq!(request.header("x-agent"), Some("compaction"));
        assert_eq!(request.body["top_z"], 7);
        assert!(request.system().ends_with("Be short."), "{}", request.system());
        assert_eq!(
            noted(&scratch),
            [json!(["compacting", ["sessionID"]]), json!(["messages", 2]), json!(["params", "compaction"])]
        );
        // The change was for this request alone.
        let shown = agent.load(&session).await;
        assert!(crate::support::message::text(&shown, "user_message_chunk").contains("secret"));
        agent.llm.reply(Reply::text("two"));
        agent.prompt(&session, "next").await;
        assert!(agent.llm.last_request().body.to_string().contains("a summary!"));
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_plugin_ends_a_turn_behind_an_automatic_summary() {
    let agent = start(&[(".opencode/plugin/p.js", SUMMARY)], json!({})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("full").tokens(195_000, 10));
    agent.prompt(&session, "fill it").await;
    agent.llm.reply(Reply::text("a summary"));
    let turn = agent.prompt(&session, "next").await;
    assert_eq!(turn.stop, "end_turn");
    let keys = json!(["sessionID", "agent", "model", "provider", "message", "overflow"]);
    assert_eq!(noted(&agent.scratch).last(), Some(&json!(["autocontinue", keys, false])));
    agent.finish().await;
}

#[tokio::test]
async fn a_plugin_changes_the_system_prompt_of_a_request_that_writes_an_agent() {
    let machine = Machine::new().await;
    machine.scratch.write(
        ".opencode/plugin/p.js",
        r#"export const P = async () => ({
            "experimental.chat.system.transform": async (input, output) => {
                output.system.push(`only ${Object.keys(input)} ${input.model.id}`)
            },
            "chat.params": async (_, output) => { output.options.top_z = 7 },
        })"#,
    );
    let written = json!({"identifier": "bees", "whenToUse": "for bees", "systemPrompt": "You know bees."});
    machine.llm.reply(Reply::text(&written.to_string()));
    let arguments = ["agent", "create", "--description", "knows bees", "--mode", "subagent"];
    let path = machine.scratch.path(".opencode/agent");
    let created = machine.run(&[&arguments[..], &["--path", &path]].concat()).await;
    assert_eq!(created.code, Some(0), "{created:?}");
    let request = machine.llm.last_request();
    assert!(request.system().ends_with("only model mock"), "{}", request.system());
    assert!(request.body.get("top_z").is_none(), "{}", request.body);
}

#[tokio::test]
async fn a_plugin_names_the_small_model_where_the_user_names_none() {
    for is_named in [false, true] {
        let mut builder = Server::builder();
        builder.scratch.write(
            ".opencode/plugin/p.js",
            r#"export const P = async () => ({
                "experimental.provider.small_model": async ({ provider }, output) => { output.model = provider.models.other },
            })"#,
        );
        if is_named {
            builder = builder.config("small_model", json!("mock/mock"));
        }
        let server = builder.start().await;
        let session = server.session().await;
        let mut events = server.events("/event").await;
        server.llm.title(Reply::text("A greeting"));
        server.llm.reply(Reply::text("hello"));
        server.prompt(&session, "greet me").await;
        while server.get(&format!("/session/{session}")).await.ok()["title"] != "A greeting" {
            events.until("session.updated").await;
        }
        let asked = if is_named { "mock" } else { "other" };
        assert_eq!(server.llm.title_requests()[0].body["model"], asked);
        server.finish().await;
    }
}

#[tokio::test]
async fn a_plugin_sees_and_changes_every_part_of_a_command() {
    let scratch = Scratch::new();
    scratch.write("note.txt", "the note's text");
    scratch.write(
        ".opencode/plugin/p.js",
        r#"import { appendFileSync } from "node:fs"
        export const P = async ({ directory }) => ({
            "command.execute.before": async (input, output) => {
                appendFileSync(`${directory}/noted`, JSON.stringify([input.command, ...output.parts]) + "\n")
                for (const part of output.parts) {
                    if (part.type === "subtask") part.prompt += " by the plugin"
                    if (part.type === "text") part.text += " changed"
                }
                output.parts.push({ type: "text", text: "from the plugin" })
                if (input.arguments === "no file") output.parts = output.parts.filter(({ type }) => type !== "file")
            },
        })"#,
    );
    let config = json!({"command": {
        "read": {"template": "read @note.txt $ARGUMENTS"},
        "sub": {"template": "work", "agent": "general", "subtask": true, "description": "works"},
    }});
    let agent = Agent::builder().scratch(&scratch).config(config).start().await;
    let session = agent.new_session().await;
    agent.llm.answer_with(|_| Reply::text("done"));
    agent.prompt(&session, "/read now").await;
    let request = agent.llm.last_request().body.to_string();
    for wanted in ["read @note.txt now changed", "the note's text", "from the plugin"] {
        assert!(request.contains(wanted), "{wanted}: {request}");
    }
    let session = agent.new_session().await;
    agent.prompt(&session, "/read no file").await;
    assert!(!agent.llm.last_request().body.to_string().contains("the note's text"));
    agent.prompt(&session, "/sub").await;
    let asked = agent.llm.requests();
    assert!(asked.iter().any(|request| request.last_user().starts_with("work by the plugin")));
    let noted = noted(&scratch);
    let file = format!("file://{}", scratch.path("note.txt"));
    assert_eq!(noted[0][1], json!({"type": "text", "text": "read @note.txt now"}));
    assert_eq!((&noted[0][2]["type"], &noted[0][2]["url"]), (&json!("file"), &json!(file)), "{noted:?}");
    let subtask = json!({
        "type": "subtask", "agent": "general", "description": "works", "command": "sub", "prompt": "work",
    });
    assert_eq!(noted[2], json!(["sub", subtask]));
    agent.finish().await;
}
