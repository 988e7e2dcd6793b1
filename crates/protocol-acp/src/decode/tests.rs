//! Omissions and additions of real clients do not cost them the request.

use serde_json::{Value, json};

use super::{
    EventChoice, McpServer, Terminals, Version, existing_session, initialize, new_session,
    permission_outcome, permission_reply, prompt,
};
use windlass_protocol::opencode::{event::EventKind, permission::Reply};

fn text(value: &Value) -> String {
    value.to_string()
}

#[test]
fn omitted_and_null_lists_are_empty() {
    for servers in [json!({}), json!({"mcpServers": null}), json!({"mcpServers": []})] {
        let mut params = json!({"cwd": "/work"});
        params.as_object_mut().expect("object").extend(servers.as_object().expect("object").clone());
        assert_eq!(new_session(Some(&text(&params))).expect("accepted").mcp_servers, []);
    }
}

#[test]
fn servers_without_args_env_or_headers_are_accepted_and_unknown_ones_skipped() {
    let params = json!({"cwd": "/work", "sessionId": "ses_1", "mcpServers": [
        {"name": "a", "command": "x"},
        {"type": "http", "name": "b", "url": "http://localhost"},
        {"type": "acp", "name": "c", "serverId": "c-1"},
        {"type": "acp", "name": "d"},
        {"type": "carrier-pigeon", "name": "e"},
    ]});
    let open = existing_session(Some(&text(&params))).expect("accepted");
    assert_eq!(
        open.mcp_servers,
        [
            McpServer::Stdio { name: "a".into(), command: "x".into(), args: vec![], env: Default::default() },
            McpServer::Http { name: "b".into(), url: "http://localhost".into(), headers: Default::default() },
            McpServer::Acp { name: "c".into(), server_id: "c-1".into() },
        ]
    );
    assert_eq!(open.skipped.len(), 2);
}

#[test]
fn a_relative_cwd_is_refused_by_name() {
    let error = new_session(Some(r#"{"cwd":"work"}"#)).expect_err("refused");
    assert_eq!(error.to_string(), "`cwd` must be an absolute path, not `work`");
}

#[test]
fn an_unknown_block_is_left_out() {
    let params = json!({"sessionId": "ses_1", "prompt": [
        {"type": "text", "text": "hi"},
        {"type": "hologram", "data": "…"},
    ]});
    let prompt = prompt(Some(&text(&params))).expect("accepted");
    assert_eq!((prompt.blocks.len(), prompt.skipped.len()), (1, 1));
}

#[test]
fn both_shapes_of_initialize_are_read() {
    let v1 = json!({"protocolVersion": 1, "clientCapabilities": {
        "auth": {"terminal": true}, "_meta": {"terminal_output": true, "windlass/events": ["todo.updated", "no.such"]}}});
    let v1 = initialize(Some(&text(&v1)), None).expect("accepted").client;
    assert!(v1.terminal_auth);
    assert_eq!((v1.version, v1.terminals), (Version::V1, Terminals::Output));
    assert_eq!(v1.events, EventChoice::Only(vec![EventKind::TodoUpdated]));
    let v2 = json!({"protocolVersion": 2, "info": {"name": "ed", "version": "3"},
        "capabilities": {"auth": {"terminal": {}}, "_meta": {"windlass/events": true}}});
    let v2 = initialize(Some(&text(&v2)), None).expect("accepted");
    assert!(v2.client.terminal_auth);
    assert_eq!((v2.client.version, v2.client.terminals), (Version::V2, Terminals::Owned));
    assert_eq!(v2.client.events, EventChoice::All);
    assert_eq!(v2.client_name.as_deref(), Some("ed 3"));
    assert!(initialize(None, None).is_ok());
}

#[test]
fn a_capability_counts_in_its_own_type_only() {
    let offered = |value: Value| {
        let capabilities = json!({
            "auth": {"terminal": value}, "fs": {"readTextFile": value, "writeTextFile": value},
            "session": {"notices": value, "compaction": value, "configOptions": {"boolean": value}},
            "elicitation": {"form": value, "url": value}, "subagents": value, "plan": value,
            "_meta": {"terminal_output": value, "terminal-auth": value},
        });
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let client = initialize(Some(&text(&params)), None).expect("accepted").client;
        let booleans = [
            client.terminal_auth,
            client.reads_files,
            client.writes_files,
            client.legacy_terminal_auth,
            client.terminals == Terminals::Output,
        ];
        let objects = [
            client.notices,
            client.compaction,
            client.switches,
            client.forms,
            client.pages,
            client.subagents,
            client.plans,
        ];
        (booleans, objects)
    };
    for value in [json!("x"), json!("true"), json!(1), json!([]), json!(false), Value::Null] {
        assert_eq!(offered(value.clone()), ([false; 5], [false; 7]), "{value}");
    }
    assert_eq!(offered(json!(true)), ([true; 5], [false; 7]));
    assert_eq!(offered(json!({})), ([false; 5], [true; 7]));
}

#[test]
fn only_a_named_choice_is_an_approval() {
    let selected = r#"{"outcome":{"outcome":"selected","optionId":"once"}}"#;
    assert_eq!(permission_outcome(selected), Ok(Some("once".to_owned())));
    for other in [r#"{"outcome":{"outcome":"cancelled"}}"#, r#"{"outcome":{"outcome":"yes!"}}"#, "{}", "null"]
    {
        assert_eq!(permission_outcome(other), Ok(None), "{other}");
    }
}

#[test]
fn a_permission_is_answered_by_any_word_that_the_client_was_offered() {
    let decoded = |reply: &str| {
        let params = json!({"sessionId": "ses_1", "requestId": "per_1", "reply": reply}).to_string();
        permission_reply(Some(&params)).map(|it| it.reply)
    };
    for (word, expected) in [
        ("once", Reply::Once),
        ("always", Reply::Always),
        ("reject", Reply::Reject),
        ("reject_always", Reply::RejectAlways),
    ] {
        assert_eq!(decoded(word), Ok(expected));
    }
    for other in ["", "never", "rejectalways"] {
        assert!(decoded(other).is_err(), "{other}");
    }
}
