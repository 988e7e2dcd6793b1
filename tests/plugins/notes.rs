//! Messages that plugins put into a conversation while a turn waits for them, and events that they note.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{outside, runtimes, start, with};
use crate::{
    cli::{Machine, ended},
    support::llm::Reply,
};

/// A plugin that adds messages from a hook and from a tool, by the client, and to a request.
const PLUGIN: (&str, &str) = (
    ".opencode/plugin/notes.ts",
    r#"
    import { tool } from "@opencode-ai/plugin"
    export const Notes = async ({ client }) => {
        const note = (id, text) => client.session.prompt({
            path: { id },
            body: { noReply: true, parts: [{ type: "text", text, synthetic: true }] },
        })
        let isNoted = false
        return {
            "chat.message": async (_, output) => {
                if (isNoted) return
                isNoted = true
                const noted = await note(output.message.sessionID, "noted by the hook")
                if (noted.data.info.role !== "user") throw new Error("no message came back")
            },
            "experimental.chat.messages.transform": async (_, output) => {
                output.messages.push({ info: { role: "user" }, parts: [{ type: "text", text: "added bare" }] })
            },
            tool: {
                learn: tool({ description: "d", args: {}, execute: async (_, context) => {
                    await note(context.sessionID, "noted by the tool")
                    return "learnt"
                } }),
            },
        }
    }"#,
);

#[tokio::test]
async fn a_note_of_a_hook_or_a_tool_reaches_the_model_in_the_same_turn() {
    for config in runtimes() {
        let agent = start(&[PLUGIN], config).await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "learn", json!({})));
        agent.llm.reply(Reply::text("done"));
        assert_eq!(agent.prompt(&session, "go").await.text(), "done");
        let requests = agent.llm.requests();
        let texts: Vec<String> =
            requests.iter().map(|request| json!(request.messages()).to_string()).collect();
        assert!(texts[0].contains("noted by the hook") && texts[0].contains("added bare"), "{}", texts[0]);
        assert!(!texts[0].contains("noted by the tool"), "{}", texts[0]);
        assert!(texts[1].contains("noted by the tool"), "{}", texts[1]);
        assert_eq!(requests[1].tool_result("call_1"), "learnt");
        agent.finish().await;
    }
}

#[tokio::test]
async fn plugins_get_the_last_events_before_the_program_ends() {
    for runtime in runtimes() {
        let mut machine = Machine::new().await;
        machine.config["windlass"] = with(&json!({ "windlass": outside() }), runtime)["windlass"].clone();
        // It is busy until the turn has ended, so that its last events wait.
        let keeps = r#"
            import { appendFileSync, readFileSync } from "node:fs"
            export const Keeps = async ({ directory }) => {
                let wasBusy = false
                const event = async ({ event }) => {
                    if (event.type === "message.updated" && !wasBusy) {
                        wasBusy = true
                        readFileSync(`${directory}/ended`)
                    }
                    if (event.type === "session.idle") appendFileSync(`${directory}/kept`, "idle")
                }
                return { event }
            }"#;
        machine.scratch.write(".opencode/plugin/keeps.js", keeps);
        machine.llm.reply(Reply::text("done"));
        let fifo = machine.scratch.work.join("ended");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut run = machine.command(&["run", "go"]).spawn().unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("done"));
        // Opens once the plugin reads.
        tokio::fs::write(fifo, "").await.unwrap();
        assert_eq!(ended(run).await.code, Some(0));
        assert_eq!(std::fs::read_to_string(machine.scratch.work.join("kept")).unwrap_or_default(), "idle");
        machine.finish().await;
    }
}
