//! Turns over HTTP: their events in order, their answers, and how they end.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    llm::{Gate, Reply},
    process,
    server::{Server, answer, kinds},
};

/// Returns the events of a session in a stream of many.
fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_prompt_runs_a_tool_and_its_events_come_in_order() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::call("call_1", "read", json!({"filePath": server.scratch.path("a.txt")})));
    server.llm.reply(Reply::deltas(["done ", "now"]));
    let mut events = server.events("/event").await;
    let mut all = server.events("/global/event").await;
    let answered = server.prompt(&id, "read a.txt").await;
    assert_eq!(answered["info"]["role"], "assistant");
    assert_eq!(answered["info"]["finish"], "stop");
    let text = answered["parts"].as_array().unwrap().iter().find(|part| part["type"] == "text").unwrap();
    assert_eq!(text["text"], "done now");
    let seen = events.until("session.idle").await;
    let mut wanted = vec![
        "session.status",
        "session.updated",
        "message.updated",
        "message.part.updated",
        "message.updated",
        "message.part.updated",
        "message.updated",
        "message.part.updated",
        "message.part.delta",
        "message.part.updated",
        "session.updated",
        "message.updated",
        "session.status",
        "session.idle",
    ];
    let mut order = kinds(&seen);
    // The totals and the title are stored whenever they are there.
    order.retain(|kind| *kind != "session.updated");
    order.dedup();
    wanted.retain(|kind| *kind != "session.updated");
    wanted.dedup();
    assert_eq!(order, wanted);
    let tool: Vec<&Value> = seen.iter().filter(|it| it["properties"]["part"]["type"] == "tool").collect();
    let states: Vec<&Value> = tool.iter().map(|it| &it["properties"]["part"]["state"]["status"]).collect();
    assert_eq!(states, ["pending", "running", "running", "completed"], "allowed in between");
    let parts: Vec<&Value> = seen.iter().map(|it| &it["properties"]["part"]["type"]).collect();
    assert_eq!(parts.iter().filter(|kind| **kind == "step-start").count(), 2);
    assert_eq!(parts.iter().filter(|kind| **kind == "step-finish").count(), 2);
    let deltas: Vec<&Value> = seen.iter().filter(|it| it["type"] == "message.part.delta").collect();
    let text: Vec<&str> = deltas.iter().filter_map(|it| it["properties"]["delta"].as_str()).collect();
    assert_eq!(text.concat(), "done now");
    let last_text = seen.iter().rfind(|it| it["properties"]["part"]["type"] == "text").unwrap();
    assert!(last_text["properties"]["part"]["time"]["end"].is_number());
    let global = all.until("session.idle").await;
    assert_eq!(global.len(), seen.len());
    assert_eq!(global[0]["directory"], server.scratch.cwd());
    assert_eq!(global[0]["payload"], seen[0]);
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    let messages = messages.as_array().unwrap();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["info"]["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "assistant"]);
    assert_eq!(messages[2], answered);
    let path = format!("/session/{id}/message/{}", answered["info"]["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.ok(), answered);
    server.finish().await;
}

#[tokio::test]
async fn a_step_that_changes_files_has_the_trees_around_it_and_their_difference() {
    let server = Server::start().await;
    let id = server.session().await;
    let input = json!({"command": "echo four >> a.txt", "description": "change a file"});
    server.llm.reply(Reply::call("call_1", "bash", input));
    server.llm.reply(Reply::text("done"));
    let mut events = server.events("/event").await;
    server.prompt(&id, "go").await;
    // The second tree is taken beside the next request, and is worth no event of its own.
    let seen = events.until("session.idle").await;
    let kinds = seen.iter().map(|it| &it["properties"]["part"]["type"]);
    let kinds: Vec<&Value> = kinds.filter(|kind| *kind == "step-finish" || *kind == "patch").collect();
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    let parts = messages[1]["parts"].as_array().unwrap();
    let kinds: Vec<&Value> = parts.iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, ["step-start", "tool", "step-finish", "patch"]);
    let (start, finish, patch) = (&parts[0], &parts[2], &parts[3]);
    assert_eq!(start["snapshot"], patch["hash"]);
    assert!(finish["snapshot"].is_string() && finish["snapshot"] != patch["hash"], "{finish}");
    assert_eq!(patch["files"], json!([server.scratch.path("a.txt")]));
    server.finish().await;
}

#[tokio::test]
async fn messages_are_paged_from_the_end() {
    let server = Server::start().await;
    let id = server.session().await;
    for number in 0..3 {
        server.llm.reply(Reply::text(&format!("answer {number}")));
        server.prompt(&id, &format!("prompt {number}")).await;
    }
    let path = format!("/session/{id}/message");
    let all = server.get(&path).await;
    assert_eq!((all.header("link"), all.header("x-next-cursor")), (None, None));
    let all = all.ok();
    assert_eq!(server.get(&format!("{path}?limit=0")).await.ok(), all);
    let mut paged: Vec<Value> = Vec::new();
    let mut next = format!("{path}?limit=4");
    loop {
        let page = server.get(&next).await;
        let link = page.header("link").map(str::to_owned);
        let cursor = page.header("x-next-cursor").map(str::to_owned);
        paged.splice(0..0, page.ok().as_array().unwrap().clone());
        let Some(cursor) = cursor else { break };
        next = format!("{path}?limit=4&before={cursor}");
        assert_eq!(link.unwrap(), format!("<{next}>; rel=\"next\""));
    }
    assert_eq!(json!(paged), all);
    server.get(&format!("{path}?limit=4&before=bad!")).await.refused(400);
    server.get(&format!("{path}?before=e30")).await.refused(400);
    server.get(&format!("{path}?limit=x")).await.refused(400);
    server.finish().await;
}

#[tokio::test]
async fn any_client_answers_a_permission() {
    let server = Server::asking("bash").await;
    let id = server.session().await;
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo out", "description": "prints"})));
    server.llm.reply(Reply::text("done"));
    let mut events = server.events("/event").await;
    let other = async {
        let asked = events.until("permission.asked").await;
        let asked = &asked.last().unwrap()["properties"];
        let waiting = server.get("/permission").await.ok();
        let mut with_words = asked.clone();
        with_words["words"] = json!({"title": "echo out", "always": "bash: echo *"});
        assert_eq!(waiting, json!([with_words]));
        assert_eq!(server.get("/permission?directory=/tmp").await.ok(), json!([]));
        assert_eq!(server.get("/session/status").await.ok(), json!({&id: {"type": "busy"}}));
        let body = json!({"agent": "build", "command": "echo 1"});
        let busy = server.post(&format!("/session/{id}/shell"), body).await.refused(409);
        assert_eq!(busy["_tag"], "SessionBusyError");
        assert_eq!(busy["message"], format!("Session is busy: {id}"));
        let path = format!("/permission/{}/reply", asked["id"].as_str().unwrap());
        assert_eq!(server.post(&path, json!({"reply": "once"})).await.ok(), true);
        let gone = server.post(&path, json!({"reply": "once"})).await.refused(404);
        assert_eq!(gone["_tag"], "PermissionNotFoundError");
        let replied = events.until("permission.replied").await;
        assert_eq!(replied.last().unwrap()["properties"]["reply"], "once");
    };
    let (answered, ()) = tokio::join!(server.prompt(&id, "run it"), other);
    assert_eq!(answered["info"]["finish"], "stop");
    assert_eq!(server.get("/session/status").await.ok(), json!({}));
    assert_eq!(server.get("/permission").await.ok(), json!([]));
    server.post("/permission/zzz/reply", json!({"reply": "once"})).await.refused(400);
    server.finish().await;
}

#[tokio::test]
async fn an_abort_ends_with_the_last_updates_and_one_idle() {
    let server = Server::asking("bash").await;
    let id = server.session().await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("begun ").and_gate(&gate).and_text("never"));
    let mut events = server.events("/event").await;
    let accepted = server
        .post(&format!("/session/{id}/prompt_async"), json!({"parts": [{"type": "text", "text": "go"}]}))
        .await;
    assert_eq!((accepted.status.as_u16(), accepted.text.as_str()), (204, ""));
    assert_eq!(server.get("/session/status").await.ok(), json!({&id: {"type": "busy"}}));
    events.until("message.part.delta").await;
    assert_eq!(server.post(&format!("/session/{id}/abort"), json!({})).await.ok(), true);
    let seen = events.until("session.idle").await;
    let ended =
        seen.iter().rposition(|it| it["properties"]["info"]["error"]["name"] == "MessageAbortedError");
    assert!(ended.is_some(), "{:?}", types(&seen));
    assert_eq!(types(&seen[seen.len() - 2..]), ["session.status", "session.idle"]);
    let told: Vec<_> = seen.iter().enumerate().filter(|(_, it)| it["type"] == "session.error").collect();
    assert!(told.len() == 1 && Some(told[0].0) > ended, "{:?}", types(&seen));
    assert_eq!(told[0].1["properties"]["error"]["name"], "MessageAbortedError");
    server.post("/session/ses_nope/abort", json!({})).await.refused(404);
    // Nothing of the turn follows its end: the next event is the next prompt's.
    server.llm.reply(Reply::text("again"));
    server.prompt(&id, "more").await;
    // The title and the totals are stored whenever they are there.
    let mut next = events.next().await;
    while next["type"] == "session.updated" {
        next = events.next().await;
    }
    assert_eq!(next["properties"]["status"]["type"], "busy");
    gate.open();
    server.finish().await;
}

#[tokio::test]
async fn a_provider_error_is_an_answer_with_an_error() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::status(400));
    let mut events = server.events("/event").await;
    let answered = server.prompt(&id, "go").await;
    assert_eq!(answered["info"]["error"]["name"], "APIError");
    assert_eq!(answered["info"]["error"]["data"]["statusCode"], 400);
    let seen = events.until("session.idle").await;
    let told: Vec<&Value> = seen.iter().filter(|event| event["type"] == "session.error").collect();
    assert_eq!(told.len(), 1, "{:?}", types(&seen));
    assert_eq!(told[0]["properties"]["error"], answered["info"]["error"]);
    server.llm.reply(Reply::status(401));
    let answered = server.prompt(&id, "again").await;
    assert_eq!(answered["info"]["error"]["name"], "ProviderAuthError");
    let seen = events.until("session.idle").await;
    let told = seen.iter().find(|event| event["type"] == "session.error").unwrap();
    assert_eq!(told["properties"]["error"], answered["info"]["error"]);
    server.finish().await;
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_and_does_not_stick() {
    let server = Server::start().await;
    let id = server.session().await;
    let path = format!("/session/{id}/message");
    let text = json!([{"type": "text", "text": "x"}]);
    for (path, body, words) in [
        (path.clone(), json!({}), "parts"),
        (path.clone(), json!({"parts": [{"type": "zzz"}]}), "zzz"),
        (path.clone(), json!({"parts": text, "agent": "nobody"}), "nobody"),
        (path.clone(), json!({"parts": text, "model": {"providerID": "none", "modelID": "no"}}), "none"),
        (format!("/session/{id}/command"), json!({"command": "nope", "arguments": ""}), "nope"),
    ] {
        let refused = server.post(&path, body).await.refused(400);
        let message = refused["data"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{refused}");
    }
    assert_eq!(server.get(&path).await.ok(), json!([]));
    server.llm.reply(Reply::text("fine"));
    assert_eq!(server.prompt(&id, "go").await["info"]["modelID"], "mock");
    server.post("/session/ses_nope/message", json!({"parts": text})).await.refused(404);
    server.finish().await;
}

#[tokio::test]
async fn the_ids_that_a_client_chose_are_kept() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::text("fine"));
    let now = windlass_base::ids::message().to_string();
    let part = windlass_base::ids::part().to_string();
    let body = json!({
        "messageID": now, "system": "be brief", "variant": null,
        "parts": [{"type": "text", "text": "hi", "id": part}],
    });
    let path = format!("/session/{id}/message");
    let answered = server.post(&path, body.clone()).await.ok();
    assert_eq!(answered["info"]["parentID"], now);
    let messages = server.get(&path).await.ok();
    assert_eq!((&messages[0]["info"]["id"], &messages[0]["parts"][0]["id"]), (&json!(now), &json!(part)));
    assert_eq!(messages[0]["info"]["system"], "be brief");
    // A prompt that is sent again is the same one, and another one cannot have its ids.
    assert_eq!(server.post(&path, body.clone()).await.ok(), answered);
    for taken in [
        json!({"messageID": answered["info"]["id"], "parts": body["parts"]}),
        json!({"parts": body["parts"]}),
    ] {
        let refused = server.post(&path, taken).await.refused(400);
        assert!(refused["data"]["message"].as_str().unwrap().contains("messageID"));
    }
    server.finish().await;
}

#[tokio::test]
async fn a_turn_outlives_the_client_that_asked_for_it() {
    let server = Server::start().await;
    let id = server.session().await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("all of it").and_gate(&gate));
    let mut events = server.events("/event").await;
    let path = format!("/session/{id}/message");
    let body = json!({"parts": [{"type": "text", "text": "go"}]}).to_string();
    let request = tokio::spawn(server.request("POST", &path).body(body).send());
    gate.reached().await;
    request.abort();
    gate.open();
    events.until("session.idle").await;
    let messages = server.get(&path).await.ok();
    assert_eq!(messages[1]["info"]["finish"], "stop");
    server.finish().await;
}

#[tokio::test]
async fn what_was_said_is_undone_brought_back_and_copied() {
    let server = Server::start().await;
    let id = server.session().await;
    let file = server.scratch.path("new.txt");
    server.llm.reply(Reply::call("call_1", "write", json!({"filePath": file, "content": "new\n"})));
    server.llm.reply(Reply::text("written"));
    let answered = server.prompt(&id, "write it").await;
    let prompt = answered["info"]["parentID"].as_str().unwrap();
    let diff = server.get(&format!("/session/{id}/diff?messageID={prompt}")).await.ok();
    assert_eq!((&diff[0]["file"], &diff[0]["status"]), (&json!("new.txt"), &json!("added")));
    assert_eq!(server.get(&format!("/session/{id}/diff")).await.ok(), diff);
    let undone = server.post(&format!("/session/{id}/revert"), json!({"messageID": prompt})).await.ok();
    assert_eq!(undone["revert"]["messageID"], prompt);
    assert!(!server.scratch.exists("new.txt"));
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    assert_eq!(messages.as_array().unwrap().len(), 3, "they stay until the next prompt");
    let back = server.post(&format!("/session/{id}/unrevert"), json!({})).await.ok();
    assert_eq!(back["revert"], Value::Null);
    assert!(server.scratch.exists("new.txt"));
    let copy = server.post(&format!("/session/{id}/fork"), json!({})).await.ok();
    assert!(copy["title"].as_str().unwrap().ends_with("(fork #1)"));
    let copied = server.get(&format!("/session/{}/message", copy["id"].as_str().unwrap())).await.ok();
    assert_eq!(copied.as_array().unwrap().len(), 3);
    server.post(&format!("/session/{id}/revert"), json!({"messageID": "msg_nope"})).await.refused(404);
    server.finish().await;
}

#[tokio::test]
async fn a_shell_line_and_a_command_run_in_the_sessions_own_folder() {
    let server = Server::builder()
        .config("command", json!({"greet": {"template": "Say hello to $ARGUMENTS", "description": "greets"}}))
        .start()
        .await;
    std::fs::create_dir(server.scratch.home.join("sub")).unwrap();
    let folder = server.scratch.home.join("sub").display().to_string();
    let id = server.post(&format!("/session?directory={folder}"), json!({})).await.ok();
    let id = id["id"].as_str().unwrap();
    let body = json!({"agent": "build", "command": "pwd"});
    let ran = server.post(&format!("/session/{id}/shell"), body).await.ok();
    let tool = ran["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(tool["state"]["output"].as_str().unwrap().trim(), folder);
    let mut events = server.events(&format!("/event?directory={folder}")).await;
    server.llm.reply(Reply::text("hello"));
    let path = format!("/session/{id}/command");
    let greeted = server.post(&path, json!({"command": "greet", "arguments": "Ann"})).await.ok();
    assert_eq!(greeted["info"]["finish"], "stop");
    let asked = server.llm.last_request().body.to_string();
    assert!(asked.contains("Say hello to Ann"), "{asked}");
    let executed = events.until("command.executed").await;
    assert_eq!(executed.last().unwrap()["properties"]["name"], "greet");
    server.finish().await;
}

#[tokio::test]
async fn a_conversation_is_summarised() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::text("fine"));
    server.prompt(&id, "go").await;
    server.llm.reply(Reply::text("summary"));
    let mut events = server.events("/event").await;
    let body = json!({"providerID": "mock", "modelID": "mock"});
    assert_eq!(server.post(&format!("/session/{id}/summarize"), body).await.ok(), true);
    events.until("session.compacted").await;
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    let is_summary = |message: &Value| message["info"]["summary"] == true;
    assert!(messages.as_array().unwrap().iter().any(is_summary));
    server.finish().await;
}

#[tokio::test]
async fn a_stream_ends_with_its_directory_and_breaks_with_the_server() {
    let server = Server::start().await;
    server.session().await;
    let mut events = server.events("/event").await;
    assert_eq!(server.post("/instance/dispose", json!({})).await.ok(), true);
    let last = events.until("server.instance.disposed").await;
    assert_eq!(last.last().unwrap()["properties"]["directory"], server.scratch.cwd());
    assert_eq!(events.read().await, None);
    process::send(server.pid(), Signal::SIGTERM);
    server.finish().await;
}

#[tokio::test]
async fn messages_and_parts_are_changed_while_nothing_runs() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::text("fine"));
    let answered = server.prompt(&id, "go").await;
    let message = answered["info"]["id"].as_str().unwrap();
    let text = answered["parts"].as_array().unwrap().iter().find(|part| part["type"] == "text").unwrap();
    let path = format!("/session/{id}/message/{message}/part/{}", text["id"].as_str().unwrap());
    let mut changed = text.clone();
    changed["text"] = json!("better");
    assert_eq!(server.send("PATCH", &path, changed.clone()).await.ok(), changed);
    server.llm.reply(Reply::text("more"));
    server.prompt(&id, "next").await;
    assert!(server.llm.last_request().body.to_string().contains("better"));
    changed["id"] = json!("prt_other");
    server.send("PATCH", &path, changed).await.refused(400);
    assert_eq!(answer(server.request("DELETE", &path)).await.ok(), true);
    answer(server.request("DELETE", &path)).await.refused(404);
    let path = format!("/session/{id}/message/{message}");
    assert_eq!(answer(server.request("DELETE", &path)).await.ok(), true);
    answer(server.request("DELETE", &path)).await.refused(404);
    server.finish().await;
}

#[tokio::test]
async fn any_client_answers_a_question_or_dismisses_it() {
    let server = Server::start().await;
    let id = server.session().await;
    let asked = json!({"questions": [{"question": "Which colour?", "header": "Colour",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}]});
    let mut events = server.events("/event").await;
    for answers in [Some(json!([["red"]])), None] {
        server.llm.reply(Reply::call("call_1", "question", asked.clone()));
        if answers.is_some() {
            server.llm.reply(Reply::text("noted"));
        }
        let other = async {
            let question = events.until("question.asked").await;
            let question = &question.last().unwrap()["properties"];
            assert_eq!(question["questions"][0]["question"], "Which colour?");
            assert_eq!(server.get("/question").await.ok(), json!([question]));
            let path = format!("/question/{}", question["id"].as_str().unwrap());
            let (path, body, kind) = match &answers {
                Some(answers) => (format!("{path}/reply"), json!({"answers": answers}), "question.replied"),
                None => (format!("{path}/reject"), json!({}), "question.rejected"),
            };
            assert_eq!(server.post(&path, body.clone()).await.ok(), true);
            events.until(kind).await;
            assert_eq!(server.post(&path, body).await.refused(404)["_tag"], "QuestionNotFoundError");
        };
        tokio::join!(server.prompt(&id, "ask"), other);
        events.until("session.idle").await;
        if answers.is_some() {
            assert!(server.llm.last_request().tool_result("call_1").contains("red"));
        }
    }
    server.finish().await;
}

#[tokio::test]
async fn the_message_of_a_prompt_is_stored_when_it_is_accepted() {
    let server = Server::start().await;
    let id = server.session().await;
    let gate = Gate::new();
    server.llm.reply(Reply::hang(&gate));
    let body = json!({"parts": [{"type": "text", "text": "hello"}]});
    let accepted = server.post(&format!("/session/{id}/prompt_async"), body).await;
    assert_eq!(accepted.status, 204);
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    assert_eq!(messages[0]["parts"][0]["text"], "hello");
    assert_eq!(server.get("/session/status").await.ok()[&id]["type"], "busy");
    server.post(&format!("/session/{id}/abort"), json!({})).await.ok();
    gate.open();
    server.finish().await;
}

#[tokio::test]
async fn a_stream_without_news_shows_signs_of_life() {
    let server = Server::start().await;
    let mut events = server.events("/event").await;
    let mut all = server.events("/global/event").await;
    let (beat, other) = tokio::join!(events.next(), all.next());
    assert_eq!((&beat["type"], &beat["properties"]), (&json!("server.heartbeat"), &json!({})));
    assert_eq!(other["payload"]["type"], "server.heartbeat");
    server.finish().await;
}
