//! The same turn before clients of several kinds, as it looks on the wire, live and on load.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, asks::Ask},
    llm::Reply,
    message::{settled, tag},
    transcript,
};

/// Deals with a request as such a client does: its editor has the text of the disk and saves the text it is given.
fn deal_with(agent: &Agent, ask: &Ask) {
    match ask.method.as_str() {
        "fs/read_text_file" => {
            let text = std::fs::read_to_string(ask.params["path"].as_str().unwrap()).unwrap();
            agent.fill_in(ask, json!({ "content": text }));
        }
        "fs/write_text_file" => {
            let (path, text) =
                (ask.params["path"].as_str().unwrap(), ask.params["content"].as_str().unwrap());
            std::fs::write(path, text).unwrap();
            agent.fill_in(ask, Value::Null);
        }
        "elicitation/create" => {
            agent.fill_in(ask, json!({"action": "accept", "content": {"question_1": "Left"}}));
        }
        _ if ask.call()["toolCallId"] == "call_3" => agent.choose(ask, "Left"),
        _ => agent.answer(ask, Answer::AllowOnce),
    }
}

async fn looks_as_recorded(name: &str, capabilities: Value) {
    let config = json!({"permission": {"edit": "ask", "bash": "allow"}, "windlass": {"file_time": false}});
    let agent = Agent::builder().config(config).spawn().await;
    agent.initialize_with(capabilities).await;
    let session = agent.new_session().await;
    agent.wait_update("available_commands_update").await;
    agent.scratch.write("a.txt", "one\ntwo\n");
    let edit = json!({"filePath": agent.scratch.path("a.txt"), "oldString": "two", "newString": "zwei"});
    let todos = json!({"todos": [{"content": "edit it", "status": "completed", "priority": "high"}]});
    let option = |label: &str| json!({"label": label, "description": "a way"});
    let question = json!({"questions": [
        {"question": "Which way?", "header": "Way", "options": [option("Left"), option("Right")]},
    ]});
    agent.llm.reply(Reply::text("First I edit.").and_call("call_1", "edit", edit));
    agent.llm.reply(Reply::call("call_2", "todowrite", todos));
    agent.llm.reply(Reply::call("call_3", "question", question));
    agent.llm.reply(Reply::call("call_4", "bash", json!({"command": "echo done", "description": "Say it"})));
    agent.llm.reply(Reply::text("All is done."));
    let prompt = agent.send_prompt(&session, "edit it");
    let turn = prompt.turn();
    tokio::pin!(turn);
    loop {
        tokio::select! {
            biased;
            turn = &mut turn => {
                assert_eq!(turn.stop, "end_turn");
                break;
            }
            ask = agent.permission() => deal_with(&agent, &ask),
        }
    }
    agent.load(&session).await;
    // The list follows the answer.
    agent.wait_update("available_commands_update").await;
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\n");
    transcript::check(&format!("profile_{name}"), &agent.lines(), &agent.scratch);
    agent.finish().await;
}

fn files() -> Value {
    json!({"readTextFile": true, "writeTextFile": true})
}

fn zed() -> Value {
    json!({
        "fs": files(), "terminal": true, "auth": {"terminal": true}, "elicitation": {"form": {}, "url": {}},
        "session": {"configOptions": {"boolean": {}}},
        "_meta": {"terminal_output": true, "terminal-auth": true},
    })
}

fn jetbrains() -> Value {
    json!({
        "fs": files(), "plan": {}, "elicitation": {"form": {}, "url": {}},
        "_meta": {"terminal_output_delta": true, "jetbrains": {"air": {"version": 1, "capabilities": ["diffPatch"]}}},
    })
}

fn agent_shell() -> Value {
    json!({"fs": files(), "session": {"notices": {}, "compaction": {}}})
}

#[tokio::test]
async fn a_plain_client_sees_this() {
    looks_as_recorded("plain", json!({})).await;
}

#[tokio::test]
async fn zed_sees_this() {
    looks_as_recorded("zed", zed()).await;
}

#[tokio::test]
async fn jetbrains_sees_this() {
    looks_as_recorded("jetbrains", jetbrains()).await;
}

#[tokio::test]
async fn codecompanion_sees_this() {
    looks_as_recorded("codecompanion", json!({"fs": files(), "terminal": false})).await;
}

#[tokio::test]
async fn agent_shell_sees_this() {
    looks_as_recorded("agent_shell", agent_shell()).await;
}

/// Returns everything that a client holds of a session: the conversation, its terminals' output, and of everything
/// else the newest state. The words of the user are left out: a client shows them by itself while they are live.
fn held(updates: &[Value]) -> BTreeMap<String, Value> {
    let conversation = settled(updates).into_iter().filter(|it| tag(it) != "user_message_chunk");
    let mut held = BTreeMap::from([("conversation".to_owned(), conversation.collect())]);
    for update in updates {
        match tag(update) {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "plan" => {}
            "tool_call_update" => {
                let meta = &update["_meta"];
                let printed = ["terminal_output", "terminal_output_delta"].into_iter();
                for data in printed.filter_map(|key| meta[key]["data"].as_str()) {
                    let terminal =
                        held.entry(format!("terminal of {}", update["toolCallId"])).or_insert(json!(""));
                    *terminal = json!(format!("{}{data}", terminal.as_str().unwrap()));
                }
            }
            "session_info_update" => _ = held.insert("title".to_owned(), update["title"].clone()),
            kind => _ = held.insert(kind.to_owned(), update.clone()),
        }
    }
    held
}

#[tokio::test]
async fn what_a_client_holds_at_the_end_it_holds_after_a_load_as_well() {
    let profiles =
        [("plain", json!({})), ("zed", zed()), ("jetbrains", jetbrains()), ("agent-shell", agent_shell())];
    for (name, capabilities) in profiles {
        let config =
            json!({"permission": {"*": "allow", "plan_enter": "ask"}, "windlass": {"file_time": false}});
        let agent = Agent::builder().config(config).spawn().await;
        agent.initialize_with(capabilities.clone()).await;
        let session = agent.new_session().await;
        agent.wait_update("available_commands_update").await;
        agent.scratch.write("a.txt", "one\ntwo\n");
        let file = agent.scratch.path("a.txt");
        let todos = json!({"todos": [{"content": "edit it", "status": "completed", "priority": "high"}]});
        let script = [
            ("read", json!({"filePath": file})),
            ("read", json!({"filePath": agent.scratch.path("lost.txt")})),
            ("edit", json!({"filePath": file, "oldString": "two", "newString": "zwei"})),
            ("bash", json!({"command": "echo out; echo err >&2; exit 3", "description": "Say it"})),
            ("todowrite", todos),
            ("task", json!({"description": "look", "prompt": "look around", "subagent_type": "explore"})),
            ("plan_enter", json!({})),
        ];
        agent.llm.reply_to("look around", Reply::text("nothing there"));
        for (index, (tool, input)) in script.into_iter().enumerate() {
            let reply = Reply::reasoning("let me see").and_text("I go on.");
            agent.llm.reply(reply.and_call(&format!("call_{index}"), tool, input));
        }
        agent.llm.reply(Reply::deltas(["all ", "done"]));
        let prompt = agent.send_prompt(&session, "do it");
        let turn = prompt.turn();
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                turn = &mut turn => break assert_eq!(turn.stop, "end_turn"),
                ask = agent.permission() => deal_with(&agent, &ask),
            }
        }
        agent.llm.reply(Reply::text("a summary"));
        agent.prompt(&session, "/compact").await;
        let live = agent.updates(&session);
        let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
        let pending = agent.send_request("session/load", params);
        let answer = pending.answer().await.unwrap();
        agent.wait_update("available_commands_update").await;
        let loaded = agent.updates(&session).split_off(live.len());
        let (mut live, loaded) = (held(&live), held(&loaded));
        // The answer says these.
        if let Some(mode) = live.remove("current_mode_update") {
            assert_eq!(answer["modes"]["currentModeId"], mode["currentModeId"], "{name}");
        }
        if let Some(options) = live.remove("config_option_update") {
            assert_eq!(answer["configOptions"], options["configOptions"], "{name}");
        }
        for (what, value) in &live {
            assert_eq!(loaded.get(what), Some(value), "{name}: {what}");
        }
        assert_eq!(loaded.len(), live.len(), "{name}: {:?} and {:?}", live.keys(), loaded.keys());
        agent.finish().await;
    }
}
