//! The protocol's own Rust clients of both versions, unmodified, against the real binary.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex},
};

use agent_client_protocol::{
    Agent as AgentRole, Client, ConnectTo, Lines,
    mcp_server::{McpOutcome, McpRequest, McpRequestContext, McpServer, McpService},
    on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            CancelNotification, ContentBlock, InitializeRequest, LoadSessionRequest, NewSessionRequest,
            PermissionOptionKind, PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
            RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification, SessionUpdate,
            StopReason, TextContent,
        },
    },
    v2,
};
use futures_util::{SinkExt, StreamExt, future::BoxFuture};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

use crate::support::{
    agent::binary,
    llm::{Gate, Llm, Reply, Wire, provider_config},
    scratch::Scratch,
};

/// Starts an agent that asks before an edit.
fn spawn(scratch: &Scratch, llm: &Llm) -> (Child, impl ConnectTo<Client> + use<>) {
    let mut config = provider_config(llm, Wire::OpenAi);
    config["permission"] = json!({"edit": "ask"});
    config["windlass"] = json!({"file_time": false});
    let mut child = Command::new(binary())
        .arg("acp")
        .current_dir(&scratch.work)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("WINDLASS_TRUST", "1")
        .env("HOME", &scratch.home)
        .env("OPENCODE_CONFIG_CONTENT", config.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let outgoing = futures_util::sink::unfold(stdin, |mut stdin, line: String| async move {
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
        Ok::<_, std::io::Error>(stdin)
    });
    let incoming = futures_util::stream::unfold(stdout.lines(), |mut lines| async move {
        lines.next_line().await.transpose().map(|line| (line, lines))
    });
    (child, Lines::new(Box::pin(outgoing).sink_map_err(std::io::Error::other), incoming.boxed()))
}

/// The same, with a script that edits a file, says so, and then talks until the gate opens.
fn start(scratch: &Scratch, llm: &Llm) -> (Child, impl ConnectTo<Client> + use<>, Gate) {
    let (child, transport) = spawn(scratch, llm);
    let edit = json!({"filePath": scratch.path("a.txt"), "oldString": "two", "newString": "zwei"});
    llm.reply(Reply::text("editing").and_call("call_1", "edit", edit));
    llm.reply(Reply::text("edited"));
    let gate = Gate::new();
    llm.reply(Reply::text("for ever").and_gate(&gate));
    (child, transport, gate)
}

#[tokio::test]
async fn the_rust_client_gets_through_a_whole_conversation() {
    let (scratch, llm) = (Scratch::new(), Llm::start().await);
    let (mut child, transport, gate) = start(&scratch, &llm);
    let text = Arc::new(Mutex::new(String::new()));
    let (heard, asked) = (text.clone(), Arc::new(Mutex::new(0)));
    let n_asked = asked.clone();
    let cwd: PathBuf = scratch.work.clone();
    Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _cx| {
                if let SessionUpdate::AgentMessageChunk(chunk) = notification.update
                    && let ContentBlock::Text(content) = chunk.content
                {
                    heard.lock().unwrap().push_str(&content.text);
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                *n_asked.lock().unwrap() += 1;
                let option =
                    request.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
                let selected = SelectedPermissionOutcome::new(option.unwrap().option_id.clone());
                responder
                    .respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(selected)))
            },
            on_receive_request!(),
        )
        .connect_with(transport, |connection: ConnectionTo<AgentRole>| async move {
            connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let session =
                connection.send_request(NewSessionRequest::new(cwd.clone())).block_task().await?.session_id;
            let prompt = |text: &str| {
                PromptRequest::new(
                    session.clone(),
                    vec![ContentBlock::Text(TextContent::new(text.to_owned()))],
                )
            };
            let answer = connection.send_request(prompt("edit it")).block_task().await?;
            assert_eq!(answer.stop_reason, StopReason::EndTurn);

            let running = connection.send_request(prompt("talk"));
            gate.reached().await;
            connection.send_notification(CancelNotification::new(session.clone()))?;
            assert_eq!(running.block_task().await?.stop_reason, StopReason::Cancelled);

            connection
                .send_request(LoadSessionRequest::new(session.clone(), cwd.clone()))
                .block_task()
                .await?;
            Ok(())
        })
        .await
        .unwrap();

    assert_eq!(scratch.read("a.txt"), "one\nzwei\nthree\n");
    assert_eq!(*asked.lock().unwrap(), 1);
    // Once live and once again by the load.
    assert_eq!(text.lock().unwrap().matches("editing").count(), 2);
    assert!(child.wait().await.unwrap().success());
}

/// Reads updates up to the end of the session's work; returns the agent's text, and the reason of the end.
async fn until_idle(
    updates: &mut mpsc::Receiver<v2::schema::SessionUpdate>,
) -> (String, Option<v2::schema::StopReason>) {
    let mut said = String::new();
    loop {
        match updates.recv().await.unwrap() {
            v2::schema::SessionUpdate::AgentMessageChunk(chunk) => {
                if let v2::schema::ContentBlock::Text(content) = chunk.content {
                    said.push_str(&content.text);
                }
            }
            v2::schema::SessionUpdate::StateUpdate(v2::schema::StateUpdate::Idle(idle)) => {
                return (said, idle.stop_reason);
            }
            _other => {}
        }
    }
}

#[tokio::test]
async fn the_rust_client_of_version_2_gets_through_a_whole_conversation() {
    use v2::schema;

    let (scratch, llm) = (Scratch::new(), Llm::start().await);
    let (mut child, transport, gate) = start(&scratch, &llm);
    let (sender, mut updates) = mpsc::channel(1000);
    let asked = Arc::new(Mutex::new(0));
    let n_asked = asked.clone();
    let cwd: PathBuf = scratch.work.clone();
    Client
        .v2()
        .name("e2e")
        .on_receive_notification(
            async move |notification: schema::UpdateSessionNotification, _cx| {
                sender.try_send(notification.update).unwrap();
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: schema::RequestPermissionRequest, responder, _connection| {
                *n_asked.lock().unwrap() += 1;
                let once = schema::PermissionOptionKind::AllowOnce;
                let option = request.options.iter().find(|option| option.kind == once).unwrap();
                let selected = schema::SelectedPermissionOutcome::new(option.option_id.clone());
                let outcome = schema::RequestPermissionOutcome::Selected(selected);
                responder.respond(schema::RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .connect_with(transport, async move |connection: v2::ConnectionTo<AgentRole>| {
            let info = schema::Implementation::new("e2e", "1");
            let hello = schema::InitializeRequest::new(ProtocolVersion::V2, info);
            let greeted = connection.send_request(hello).block_task().await?;
            assert_eq!(greeted.protocol_version, ProtocolVersion::V2);
            let new = schema::NewSessionRequest::new(cwd.clone());
            let session = connection.send_request(new).block_task().await?.session_id;
            let prompt = |text: &str| {
                let block = schema::ContentBlock::Text(schema::TextContent::new(text.to_owned()));
                schema::PromptRequest::new(session.clone(), vec![block])
            };

            connection.send_request(prompt("edit it")).block_task().await?;
            let (said, reason) = until_idle(&mut updates).await;
            assert_eq!((said.as_str(), reason), ("editingedited", Some(schema::StopReason::EndTurn)));

            connection.send_request(prompt("talk")).block_task().await?;
            gate.reached().await;
            connection.send_notification(schema::CancelSessionNotification::new(session.clone()))?;
            let (_, reason) = until_idle(&mut updates).await;
            assert_eq!(reason, Some(schema::StopReason::Cancelled));

            let start = schema::ReplayFrom::Start(schema::ReplayFromStart::new());
            let resume = schema::ResumeSessionRequest::new(session.clone(), cwd.clone()).replay_from(start);
            connection.send_request(resume).block_task().await?;
            let (said, _) = until_idle(&mut updates).await;
            assert!(said.starts_with("editingedited"), "{said}");
            connection.send_request(schema::CloseSessionRequest::new(session.clone())).block_task().await?;
            Ok(())
        })
        .await
        .unwrap();

    assert_eq!(scratch.read("a.txt"), "one\nzwei\nthree\n");
    assert_eq!(*asked.lock().unwrap(), 1);
    assert!(child.wait().await.unwrap().success());
}

/// A server of tools within the client.
struct Shop;

impl McpService<AgentRole> for Shop {
    fn execute(
        &self,
        request: McpRequest,
        _: McpRequestContext<AgentRole>,
    ) -> BoxFuture<'static, agent_client_protocol::Result<McpOutcome>> {
        let result = match request.method.as_str() {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private",
            }),
            "tools/list" => json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "tools": [{"name": "price", "inputSchema": {"type": "object"}}],
            }),
            "tools/call" => json!({
                "resultType": "complete", "content": [{"type": "text", "text": "ninety pence"}],
            }),
            other => panic!("unexpected {other}"),
        };
        Box::pin(async { Ok(McpOutcome::Result(result)) })
    }
}

#[tokio::test]
async fn a_server_within_the_rust_client_is_used() {
    let (scratch, llm) = (Scratch::new(), Llm::start().await);
    let (mut child, transport) = spawn(&scratch, &llm);
    llm.reply(Reply::call("call_1", "shop_price", json!({})));
    llm.reply(Reply::text("it is ninety"));
    let cwd: PathBuf = scratch.work.clone();
    Client
        .v1()
        .connect_with(transport, |connection: ConnectionTo<AgentRole>| async move {
            connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let shop = McpServer::new_service("shop", Shop, agent_client_protocol::NullRun);
            let opened = connection.build_session(&cwd).with_mcp_server(shop)?.block_task();
            let mut session = opened.start_session().await?.session;
            session.send_prompt("what is tea?")?;
            assert_eq!(session.read_to_string().await?, "it is ninety");
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(llm.last_request().tool_result("call_1"), "ninety pence");
    child.wait().await.unwrap();
}
