//! JSON-RPC as it comes from real clients: malformed, pipelined, tolerant in, strict out.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, requests::prompt_params},
    llm::Reply,
};

#[tokio::test]
async fn lines_that_are_no_requests_are_answered_and_do_no_harm() {
    let cases: &[(&[u8], i64)] = &[
        (b"{bad\n", -32700),
        (b"\xff\xfe{}\n", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"x\xff\"}\n", -32700),
        (b"nonsense\n", -32700),
        (b"[]\n", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}]\n", -32600),
        (b"3\n", -32600),
        (b"\"text\"\n", -32600),
        (b"null\n", -32600),
        (b"{}\n", -32600),
        // Messages that the official SDKs refuse.
        (b"[{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\"},[]]\n", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\",\"result\":{}}\n", -32600),
        (
            b"{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"error\":{\"code\":1,\"message\":\"m\"}}\n",
            -32600,
        ),
        (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"session/list\"}\n", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"session/list\"}\n", -32600),
    ];
    let agent = Agent::start().await;
    for (line, code) in cases {
        let (answered, message) = agent.malformed(*line).await;
        assert_eq!(answered, *code, "for {:?}", String::from_utf8_lossy(line));
        assert!(!message.contains("nonsense"), "the answer echoes its input: {message}");
    }
    agent.new_session().await;
    agent.finish().await;
}

#[tokio::test]
async fn each_malformed_line_is_answered_once() {
    let agent = Agent::start().await;
    agent.malformed(*b"{bad\n").await;
    agent.malformed(*b"[{},{},{}]\n").await;
    agent.new_session().await;
    let errors = agent.lines().iter().filter(|line| line.message.get("error").is_some()).count();
    assert_eq!(errors, 2);
    agent.finish().await;
}

#[tokio::test]
async fn a_fractional_id_is_refused() {
    let agent = Agent::start().await;
    let (code, _) = agent
        .malformed(*b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"session/list\",\"params\":{}}\n")
        .await;
    assert_eq!(code, -32600);
    agent.finish().await;
}

#[tokio::test]
async fn blank_lines_and_carriage_returns_are_accepted() {
    let agent = Agent::start().await;
    let pending = agent.expect_answer(json!(70), "session/list", json!({}));
    agent.raw("\n\r\n   \n{\"jsonrpc\":\"2.0\",\"id\":70,\"method\":\"session/list\",\"params\":{}}\r\n");
    assert_eq!(pending.answer().await.unwrap()["sessions"], json!([]));
    assert!(agent.lines().iter().all(|line| line.message.get("error").is_none()));
    agent.finish().await;
}

#[tokio::test]
async fn ids_are_echoed_as_they_came() {
    let agent = Agent::start().await;
    for id in [json!(-7), json!(i64::MAX), json!("text"), json!(""), json!(0), Value::Null] {
        let pending = agent.send_request_with_id(id.clone(), "session/list", json!({}));
        pending.answer().await.unwrap_or_else(|error| panic!("id {id}: {error:?}"));
    }
    agent.finish().await;
}

#[tokio::test]
async fn an_unknown_method_is_named_in_the_error() {
    let agent = Agent::start().await;
    for method in ["_no/such", "session/fly", "fs/read_text_file"] {
        let error = agent.request(method, json!({})).await.unwrap_err();
        assert_eq!((error.code, &error.data["method"]), (-32601, &json!(method)));
    }
    agent.finish().await;
}

#[tokio::test]
async fn unknown_notifications_and_stray_responses_are_ignored() {
    let agent = Agent::start().await;
    agent.notify("_no/such", json!({"x": 1}));
    agent.notify("$/progress", json!({}));
    agent.notify("$/cancel_request", json!({"requestId": 4711}));
    agent.raw("{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n");
    agent.raw("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":1,\"message\":\"no\"}}\n");
    let before = agent.lines().iter().filter(|line| line.from_agent).count();
    agent.request("session/list", json!({})).await.unwrap();
    let after = agent.lines().iter().filter(|line| line.from_agent).count();
    assert_eq!(after, before + 1, "something was answered that must not be");
    agent.finish().await;
}

#[tokio::test]
async fn omitted_and_null_parameters_have_defaults() {
    let agent = Agent::start().await;
    let cwd = agent.scratch.cwd().to_owned();
    let servers = [
        json!({"cwd": cwd}),
        json!({"cwd": cwd, "mcpServers": null}),
        json!({"cwd": cwd, "mcpServers": [{"name": "s", "command": "/bin/false"}]}),
        json!({"cwd": cwd, "mcpServers": [{"name": "s", "command": "/bin/false", "args": null, "env": null}]}),
        json!({"cwd": cwd, "mcpServers": [{"type": "http", "name": "h", "url": "http://127.0.0.1:9/mcp"}]}),
        json!({"cwd": cwd, "mcpServers": [], "colour": "blue", "_meta": {"x": 1}}),
    ];
    for params in servers {
        let answer = agent.request("session/new", params.clone()).await;
        assert!(answer.is_ok(), "{params}: {answer:?}");
    }
    let pending = agent.expect_answer(json!("list"), "session/list", json!({}));
    agent.raw("{\"jsonrpc\":\"2.0\",\"id\":\"list\",\"method\":\"session/list\",\"params\":null}\n");
    pending.answer().await.unwrap();
    let pending = agent.expect_answer(json!("list2"), "session/list", json!({}));
    agent.raw("{\"jsonrpc\":\"2.0\",\"id\":\"list2\",\"method\":\"session/list\"}\n");
    pending.answer().await.unwrap();
    agent.finish().await;
}

#[tokio::test]
async fn an_unknown_content_block_does_not_spoil_the_prompt() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("seen"));
    let prompt = json!([
        {"type": "hologram", "data": "x"},
        {"type": "text", "text": "look at this"},
        {"type": "resource_link", "uri": "file:///nowhere/x.txt", "name": "x.txt"},
    ]);
    let answer =
        agent.request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    assert!(agent.llm.last_request().body.to_string().contains("look at this"));
    agent.finish().await;
}

#[tokio::test]
async fn wrong_parameters_are_refused_by_name() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let cases = [
        ("session/new", json!({}), "cwd"),
        ("session/new", json!({"cwd": 3}), "cwd"),
        ("session/prompt", json!({"sessionId": session}), "prompt"),
        ("session/prompt", json!({"prompt": []}), "sessionId"),
        ("session/load", json!({"cwd": "/"}), "sessionId"),
        ("session/set_mode", json!({"sessionId": session}), "modeId"),
        ("session/set_config_option", json!({"sessionId": session, "value": "x"}), "configId"),
    ];
    for (method, params, field) in cases {
        let error = agent.request(method, params.clone()).await.unwrap_err();
        assert_eq!(error.code, -32602, "{method} {params}: {error:?}");
        assert!(format!("{} {}", error.message, error.data).contains(field), "{method} {params}: {error:?}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn an_eight_megabyte_prompt_arrives_whole() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("long"));
    let text = "0123456789abcde\n".repeat(8 * 1024 * 1024 / 16);
    let turn = agent.prompt(&session, &text).await;
    assert_eq!(turn.text(), "long");
    assert_eq!(agent.llm.last_request().last_user().trim().len(), text.trim().len());
    agent.finish().await;
}

#[tokio::test]
async fn a_line_over_the_limit_is_refused_without_being_kept() {
    let agent = Agent::builder().env("WINDLASS_MAX_LINE_BYTES", "1000000").spawn().await;
    agent.initialize().await;
    let mut line = vec![b'x'; 4_000_000];
    line.push(b'\n');
    let (code, message) = agent.malformed(line).await;
    assert_eq!(code, -32600, "{message}");
    agent.new_session().await;
    agent.finish().await;
}

#[tokio::test]
async fn a_request_cut_by_the_end_of_input_is_no_request() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let text = json!({"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": prompt_params(&session, "x")});
    let line = text.to_string();
    agent.raw(&line.as_bytes()[..line.len() / 2]);
    agent.finish().await;
}
