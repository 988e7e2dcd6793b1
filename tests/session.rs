//! Sessions: new, load, resume, list, close, delete, chosen ids, modes and options.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, requests::prompt_params},
    llm::{Gate, Reply},
    message::{settled, tag, text},
    transcript,
};

#[tokio::test]
async fn the_commands_come_right_after_the_session() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let update = agent.wait_update("available_commands_update").await;
    assert!(update["availableCommands"].is_array());
    assert_eq!(agent.updates(&session).iter().map(tag).collect::<Vec<_>>(), ["available_commands_update"]);
    agent.finish().await;
}

#[tokio::test]
async fn a_new_session_shows_modes_and_options_that_agree() {
    let agent = Agent::start().await;
    let answer = agent.request("session/new", agent.session_params()).await.unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "build");
    let modes: Vec<&str> = answer["modes"]["availableModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| mode["id"].as_str().unwrap())
        .collect();
    assert_eq!(modes, ["build", "plan"]);
    let mode = option(&answer, "mode");
    assert_eq!((&mode["category"], &mode["currentValue"]), (&json!("mode"), &json!("build")));
    let model = option(&answer, "model");
    assert_eq!((&model["category"], &model["currentValue"]), (&json!("model"), &json!("mock/mock")));
    agent.finish().await;
}

fn option<'a>(answer: &'a Value, id: &str) -> &'a Value {
    let options = answer["configOptions"].as_array().unwrap();
    options.iter().find(|option| option["id"] == id).unwrap_or_else(|| panic!("no option `{id}` in {answer}"))
}

#[tokio::test]
async fn mode_and_option_follow_each_other() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;

    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    let update = agent.wait_update("config_option_update").await;
    assert_eq!(option(&update, "mode")["currentValue"], "plan");

    let params = json!({"sessionId": session, "configId": "mode", "value": "build"});
    let answer = agent.request("session/set_config_option", params).await.unwrap();
    assert_eq!(option(&answer, "mode")["currentValue"], "build");
    assert_eq!(agent.wait_update("current_mode_update").await["currentModeId"], "build");

    let params = json!({"sessionId": session, "configId": "model", "value": "mock/other"});
    let answer = agent.request("session/set_config_option", params).await.unwrap();
    assert_eq!(option(&answer, "model")["currentValue"], "mock/other");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "hello").await;
    assert_eq!(agent.llm.last_request().body["model"], "other");

    agent.request("session/set_model", json!({"sessionId": session, "modelId": "mock/mock"})).await.unwrap();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "hello").await;
    assert_eq!(agent.llm.last_request().body["model"], "mock");
    agent.finish().await;
}

#[tokio::test]
async fn unknown_modes_options_and_values_are_refused() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let cases = [
        ("session/set_mode", json!({"sessionId": session, "modeId": "fly"})),
        ("session/set_config_option", json!({"sessionId": session, "configId": "colour", "value": "x"})),
        ("session/set_config_option", json!({"sessionId": session, "configId": "mode", "value": "fly"})),
        ("session/set_config_option", json!({"sessionId": session, "configId": "model", "value": "no/such"})),
        ("session/set_model", json!({"sessionId": session, "modelId": "no/such"})),
    ];
    for (method, params) in cases {
        let error = agent.request(method, params.clone()).await.unwrap_err();
        assert_eq!(error.code, -32602, "{method} {params}: {error:?}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_load_replays_what_was_live() {
    let agent = Agent::builder().answering(Answer::AllowOnce).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::reasoning("let me see").and_text("I will ").and_text("read.").and_call(
        "call_read",
        "read",
        json!({"filePath": agent.scratch.path("a.txt")}),
    ));
    agent.llm.reply(
        Reply::call("call_bash", "bash", json!({"command": "echo out; echo err >&2", "description": "say"}))
            .and_call(
                "call_edit",
                "edit",
                json!({"filePath": agent.scratch.path("a.txt"), "oldString": "two", "newString": "zwei"}),
            ),
    );
    let todos = json!([{"content": "first", "status": "in_progress", "priority": "high"}]);
    agent.llm.reply(Reply::call("call_todo", "todowrite", json!({"todos": todos})));
    agent.llm.reply(Reply::call("call_lost", "read", json!({"filePath": agent.scratch.path("lost.txt")})));
    agent.llm.reply(Reply::deltas(["all ", "done"]));
    agent.prompt(&session, "do it").await;
    agent.llm.reply(Reply::text("bye"));
    agent.prompt(&session, "thanks").await;
    let live = settled(&agent.updates(&session));
    let agent = agent.restarted().await;
    let replayed = settled(&agent.load(&session).await);
    // A client shows the user's words by itself while live, so an agent may leave them out there.
    let is_spoken = |update: &&Value| tag(update) != "user_message_chunk";
    let spoken: Vec<&Value> = live.iter().filter(is_spoken).collect();
    let spoken_again: Vec<&Value> = replayed.iter().filter(is_spoken).collect();
    for (spoken, again) in spoken.iter().zip(&spoken_again) {
        assert_eq!(spoken, again);
    }
    assert_eq!(spoken.len(), spoken_again.len());
    assert_eq!(text(&replayed, "user_message_chunk"), "do itthanks");
    agent.finish().await;
}

#[tokio::test]
async fn a_loaded_session_goes_on_with_its_history() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("forty-two"));
    agent.prompt(&session, "what is the answer").await;
    let agent = agent.restarted().await;
    agent.load(&session).await;
    agent.llm.reply(Reply::text("again"));
    agent.prompt(&session, "and once more").await;
    let sent = agent.llm.last_request().body["messages"].to_string();
    assert!(
        sent.contains("what is the answer") && sent.contains("forty-two") && sent.contains("and once more")
    );
    agent.finish().await;
}

#[tokio::test]
async fn a_resume_replays_nothing_and_keeps_the_history() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("forty-two"));
    agent.prompt(&session, "what is the answer").await;
    let agent = agent.restarted().await;
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd()});
    let pending = agent.send_request("session/resume", params);
    let answer = pending.answer().await.unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "build");
    assert_eq!(pending.updates().await, Vec::<Value>::new());
    agent.llm.reply(Reply::text("again"));
    agent.prompt(&session, "and once more").await;
    assert!(agent.llm.last_request().body["messages"].to_string().contains("forty-two"));
    agent.finish().await;
}

#[tokio::test]
async fn the_chosen_mode_and_model_survive_a_load() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    agent.request("session/set_model", json!({"sessionId": session, "modelId": "mock/other"})).await.unwrap();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "hello").await;
    let agent = agent.restarted().await;
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    let answer = agent.request("session/load", params).await.unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "plan");
    assert_eq!(option(&answer, "model")["currentValue"], "mock/other");
    agent.finish().await;
}

#[tokio::test]
async fn the_list_knows_every_project_and_filters_by_directory() {
    let agent = Agent::start().await;
    let here = agent.new_session().await;
    let elsewhere_dir = agent.scratch.root().join("elsewhere");
    std::fs::create_dir(&elsewhere_dir).unwrap();
    let elsewhere_dir = elsewhere_dir.canonicalize().unwrap().to_str().unwrap().to_owned();
    let answer = agent.request("session/new", json!({"cwd": elsewhere_dir, "mcpServers": []})).await.unwrap();
    let elsewhere = answer["sessionId"].as_str().unwrap().to_owned();

    let all = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(ids(&all), [elsewhere.clone(), here.clone()], "newest first");
    let filtered = agent.request("session/list", json!({"cwd": elsewhere_dir})).await.unwrap();
    assert_eq!(ids(&filtered), [elsewhere]);
    let entry = &filtered["sessions"][0];
    assert_eq!(entry["cwd"], elsewhere_dir);
    assert!(entry["title"].as_str().is_some_and(|title| !title.is_empty()));
    assert!(entry["updatedAt"].as_str().is_some_and(|time| time.ends_with('Z')));
    agent.finish().await;
}

fn ids(list: &Value) -> Vec<String> {
    list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["sessionId"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn the_list_pages_over_everything_once() {
    let agent = Agent::start().await;
    let mut made = Vec::new();
    for _ in 0..230 {
        made.push(agent.new_session().await);
    }
    let mut listed = Vec::new();
    let mut params = json!({});
    let mut n_pages = 0;
    loop {
        let page = agent.request("session/list", params).await.unwrap();
        listed.extend(ids(&page));
        n_pages += 1;
        match page["nextCursor"].as_str() {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert!(n_pages > 1, "a page is not bounded");
    made.reverse();
    assert_eq!(listed, made);
    agent.finish().await;
}

#[tokio::test]
async fn a_cursor_that_is_none_of_ours_is_refused() {
    let agent = Agent::start().await;
    let error = agent.request("session/list", json!({"cursor": "nonsense"})).await.unwrap_err();
    assert_eq!(error.code, -32602, "{error:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_title_is_made_told_and_listed() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.title(Reply::text("Tidy the shed"));
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "please tidy the shed").await;
    let update = agent.wait_update("session_info_update").await;
    assert_eq!(update["title"], "Tidy the shed");
    let list = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(list["sessions"][0]["title"], "Tidy the shed");
    agent.finish().await;
}

#[tokio::test]
async fn a_title_that_hangs_delays_no_answer() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.title(Reply::hang(&gate));
    for prompt in ["first", "second"] {
        agent.llm.reply(Reply::text("ok"));
        assert_eq!(agent.prompt(&session, prompt).await.stop, "end_turn");
    }
    gate.reached().await;
    agent.finish().await;
}

#[tokio::test]
async fn close_cancels_the_turn_before_it_answers() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("begin").and_gate(&gate));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_text(&session, "begin").await;
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    assert!(prompt.is_answered(), "close was answered before the turn it ended");
    assert_eq!(prompt.turn().await.stop, "cancelled");
    let error = agent.request("session/prompt", prompt_params(&session, "more")).await.unwrap_err();
    assert_eq!((error.code, &error.data["sessionId"]), (-32002, &json!(session)));
    agent.load(&session).await;
    agent.finish().await;
}

#[tokio::test]
async fn delete_is_idempotent_and_final() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    for _ in 0..2 {
        agent.request("session/delete", json!({"sessionId": session})).await.unwrap();
    }
    agent.request("session/delete", json!({"sessionId": "ses_never"})).await.unwrap();
    let list = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(list["sessions"], json!([]));
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    let error = agent.request("session/load", params).await.unwrap_err();
    assert_eq!((error.code, &error.data["sessionId"]), (-32002, &json!(session)));
    agent.finish().await;
}

#[tokio::test]
async fn an_unknown_session_is_named_in_the_error() {
    let agent = Agent::start().await;
    let cwd = agent.scratch.cwd().to_owned();
    let cases = [
        ("session/prompt", prompt_params("ses_unknown", "x")),
        ("session/load", json!({"sessionId": "ses_unknown", "cwd": cwd, "mcpServers": []})),
        ("session/resume", json!({"sessionId": "ses_unknown", "cwd": cwd})),
        ("session/close", json!({"sessionId": "ses_unknown"})),
        ("session/set_mode", json!({"sessionId": "ses_unknown", "modeId": "plan"})),
        (
            "session/set_config_option",
            json!({"sessionId": "ses_unknown", "configId": "mode", "value": "plan"}),
        ),
        ("session/set_model", json!({"sessionId": "ses_unknown", "modelId": "mock/mock"})),
    ];
    for (method, params) in cases {
        let error = agent.request(method, params).await.unwrap_err();
        assert_eq!((error.code, &error.data["sessionId"]), (-32002, &json!("ses_unknown")), "{method}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_worked_in_is_refused() {
    let agent = Agent::start().await;
    let missing = agent.scratch.path("no/such/dir");
    for (cwd, why) in [("relative/dir", "absolute"), (missing.as_str(), missing.as_str())] {
        let error = agent.request("session/new", json!({"cwd": cwd, "mcpServers": []})).await.unwrap_err();
        assert_eq!(error.code, -32602, "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
    agent.finish().await;
}

fn chosen(agent: &Agent, id: &str) -> Value {
    json!({"cwd": agent.scratch.cwd(), "mcpServers": [], "_meta": {"windlass/sessionId": id}})
}

#[tokio::test]
async fn a_client_may_choose_the_id() {
    let agent = Agent::start().await;
    let answer = agent.request("session/new", chosen(&agent, "ses_mine")).await.unwrap();
    assert_eq!(answer["sessionId"], "ses_mine");
    agent.finish().await;
}

#[tokio::test]
async fn a_chosen_id_that_is_taken_or_malformed_is_refused() {
    let agent = Agent::start().await;
    agent.request("session/new", chosen(&agent, "ses_mine")).await.unwrap();
    let long = format!("ses_{}", "x".repeat(80));
    for id in ["ses_mine", "mine", "ses_", "ses_../../x", "ses_ü", long.as_str()] {
        let error = agent.request("session/new", chosen(&agent, id)).await.unwrap_err();
        assert_eq!(error.code, -32602, "{id}: {error:?}");
    }
    let params = json!({"cwd": agent.scratch.cwd(), "_meta": {"windlass/sessionId": 3}});
    assert_eq!(agent.request("session/new", params).await.unwrap_err().code, -32602);
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_waits_for_the_session_it_names() {
    let agent = Agent::start().await;
    agent.llm.reply(Reply::text("first"));
    let session = agent.send_request("session/new", chosen(&agent, "ses_pipe"));
    let prompt = agent.send_prompt("ses_pipe", "go");
    assert_eq!(prompt.turn().await.text(), "first");
    assert!(session.is_answered());
    let agent = agent.restarted().await;
    agent.llm.reply(Reply::text("second"));
    let params = json!({"sessionId": "ses_pipe", "cwd": agent.scratch.cwd(), "mcpServers": []});
    let load = agent.send_request("session/load", params);
    let prompt = agent.send_prompt("ses_pipe", "go on");
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert_eq!(text(&load.updates().await, "agent_message_chunk"), "first");
    agent.finish().await;
}

#[tokio::test]
async fn a_parked_prompt_fails_when_its_session_does() {
    let agent = Agent::start().await;
    let params =
        json!({"cwd": "not/absolute", "mcpServers": [], "_meta": {"windlass/sessionId": "ses_pipe"}});
    let session = agent.send_request("session/new", params);
    let prompt = agent.send_prompt("ses_pipe", "go");
    assert_eq!(session.answer().await.unwrap_err().code, -32602);
    assert_eq!(prompt.answer().await.unwrap_err().code, -32002);
    agent.finish().await;
}

#[tokio::test]
async fn a_plain_turn_looks_like_this_on_the_wire() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.wait_update("available_commands_update").await;
    agent.llm.reply(Reply::deltas(["Hello ", "world."]));
    agent.prompt(&session, "hello").await;
    transcript::check("plain_turn", &agent.lines(), &agent.scratch);
    agent.finish().await;
}

#[tokio::test]
async fn an_edit_with_a_permission_looks_like_this_on_the_wire() {
    let config = json!({"permission": {"edit": "ask"}, "windlass": {"file_time": false}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.wait_update("available_commands_update").await;
    let arguments = json!({"filePath": agent.scratch.path("a.txt"), "oldString": "two", "newString": "zwei"});
    agent.llm.reply(Reply::call("call_1", "edit", arguments));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "edit it");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    transcript::check("edit_turn", &agent.lines(), &agent.scratch);
    agent.finish().await;
}

#[tokio::test]
async fn a_load_shows_the_images_and_links_of_the_user_again() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("seen"));
    let prompt = json!([
        {"type": "text", "text": "look"},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": format!("file://{}", agent.scratch.path("a.txt")), "name": "a.txt"},
    ]);
    agent.request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await.unwrap();
    let replayed = agent.load(&session).await;
    let said = replayed.iter().filter(|update| tag(update) == "user_message_chunk");
    let kinds: Vec<&str> = said.map(|update| update["content"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "resource_link"]);
    agent.finish().await;
}

#[tokio::test]
async fn an_idle_session_is_opened_again_where_the_client_says() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("here"));
    agent.prompt(&session, "go").await;
    std::fs::create_dir(agent.scratch.path("sub")).unwrap();
    let params = json!({"sessionId": session, "cwd": agent.scratch.path("sub"), "mcpServers": []});
    agent.request("session/resume", params).await.unwrap();
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "pwd"})));
    agent.llm.reply(Reply::text("there"));
    let turn = agent.prompt(&session, "where").await;
    let shown = turn.tool("call_1")["rawOutput"]["output"].as_str().unwrap().trim().to_owned();
    assert_eq!(shown, agent.scratch.path("sub"));
    agent.finish().await;
}

#[tokio::test]
async fn a_list_asked_together_with_a_new_session_shows_it() {
    let agent = Agent::start().await;
    let new = agent.send_request("session/new", agent.session_params());
    let list = agent.send_request("session/list", json!({"cwd": format!("{}/", agent.scratch.cwd())}));
    let session = new.answer().await.unwrap()["sessionId"].clone();
    assert_eq!(list.answer().await.unwrap()["sessions"][0]["sessionId"], session);
    agent.finish().await;
}
