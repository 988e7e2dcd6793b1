//! The Rust SDK's clients, unmodified, against `windlass serve` by HTTP or WebSocket, or `windlass acp` by its pipes:
//! windlass-client-test CONVERSATION URL AUTHORIZATION DIRECTORY
//! windlass-client-test CONVERSATION PATH/TO/windlass DIRECTORY
//! A conversation is the version of the protocol, or `shop`: a session with a server of tools within the client.
//! Started by `tests/clients/ts`, and talks with its scripted model; fails on the first deviation.

use std::process::Stdio;

use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, Lines, NullRun,
    mcp_server::{McpOutcome, McpRequest, McpRequestContext, McpServer, McpService},
    on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
    v1::{self, schema as one},
    v2::{self, schema as two},
};
use agent_client_protocol_http::HttpClient;
use futures::{SinkExt, StreamExt, future::BoxFuture};
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [conversation, url, authorization, directory] => {
            converse(conversation, by_network(url, authorization), directory).await;
        }
        [conversation, binary, directory] => {
            let (mut agent, transport) = by_pipes(binary, directory);
            converse(conversation, transport, directory).await;
            assert!(agent.wait().await.unwrap().success());
        }
        _ => panic!("three or four arguments"),
    }
}

fn by_network(url: &str, authorization: &str) -> HttpClient {
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap())]);
    HttpClient::builder(url).configure_http(|http| http.no_proxy().default_headers(headers)).build().unwrap()
}

/// Starts an agent; its input ends with the conversation.
fn by_pipes(binary: &str, directory: &str) -> (Child, impl ConnectTo<Client> + use<>) {
    let mut agent = Command::new(binary)
        .arg("acp")
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdin = agent.stdin.take().unwrap();
    let stdout = BufReader::new(agent.stdout.take().unwrap());
    let outgoing = futures::sink::unfold(stdin, |mut stdin, line: String| async move {
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
        Ok::<_, std::io::Error>(stdin)
    });
    let incoming = futures::stream::unfold(stdout.lines(), |mut lines| async move {
        lines.next_line().await.transpose().map(|line| (line, lines))
    });
    (agent, Lines::new(Box::pin(outgoing).sink_map_err(std::io::Error::other), incoming.boxed()))
}

async fn converse(conversation: &str, transport: impl ConnectTo<Client> + 'static, directory: &str) {
    match conversation {
        "1" => first(transport, directory).await.unwrap(),
        "2" => second(transport, directory).await.unwrap(),
        "shop" => shop(transport, directory).await.unwrap(),
        other => panic!("no conversation {other}"),
    }
}

/// A server of tools within the client.
struct Shop;

impl McpService<Agent> for Shop {
    fn execute(
        &self,
        request: McpRequest,
        _: McpRequestContext<Agent>,
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

async fn shop(transport: impl ConnectTo<Client> + 'static, directory: &str) -> Result<(), Error> {
    Client
        .v1()
        .connect_with(transport, async move |connection: v1::ConnectionTo<Agent>| {
            connection.send_request(one::InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let shop = McpServer::new_service("shop", Shop, NullRun);
            let opened = connection.build_session(directory).with_mcp_server(shop)?.block_task();
            let mut session = opened.start_session().await?.session;
            session.send_prompt("what is tea?")?;
            assert_eq!(session.read_to_string().await?, "it is ninety");
            Ok(())
        })
        .await
}

/// Reads the agent's text until it is this.
async fn until_said(said: &mut mpsc::Receiver<String>, wanted: &str) {
    let mut text = String::new();
    while text != wanted {
        text.push_str(&said.recv().await.unwrap());
        assert!(wanted.starts_with(&text), "{text}");
    }
}

async fn first(transport: impl ConnectTo<Client> + 'static, directory: &str) -> Result<(), Error> {
    let (sender, mut said) = mpsc::channel(1000);
    Client
        .v1()
        .on_receive_notification(
            async move |notification: one::SessionNotification, _cx| {
                if let one::SessionUpdate::AgentMessageChunk(chunk) = notification.update
                    && let one::ContentBlock::Text(content) = chunk.content
                {
                    sender.try_send(content.text).unwrap();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: one::RequestPermissionRequest, responder, _connection| {
                let once = one::PermissionOptionKind::AllowOnce;
                let option = request.options.iter().find(|option| option.kind == once).unwrap();
                let selected = one::SelectedPermissionOutcome::new(option.option_id.clone());
                let outcome = one::RequestPermissionOutcome::Selected(selected);
                responder.respond(one::RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .connect_with(transport, async move |connection: v1::ConnectionTo<Agent>| {
            connection.send_request(one::InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let new = one::NewSessionRequest::new(directory);
            let session = connection.send_request(new).block_task().await?.session_id;
            let prompt = |text: &str| {
                let block = one::ContentBlock::Text(one::TextContent::new(text.to_owned()));
                one::PromptRequest::new(session.clone(), vec![block])
            };
            let answer = connection.send_request(prompt("edit it")).block_task().await?;
            assert_eq!(answer.stop_reason, one::StopReason::EndTurn);
            until_said(&mut said, "editingedited").await;

            let running = connection.send_request(prompt("talk"));
            until_said(&mut said, "for ever").await;
            connection.send_notification(one::CancelNotification::new(session.clone()))?;
            assert_eq!(running.block_task().await?.stop_reason, one::StopReason::Cancelled);

            let load = one::LoadSessionRequest::new(session.clone(), directory);
            connection.send_request(load).block_task().await?;
            until_said(&mut said, "editingeditedfor ever").await;
            Ok(())
        })
        .await
}

async fn second(transport: impl ConnectTo<Client> + 'static, directory: &str) -> Result<(), Error> {
    let (sender, mut said) = mpsc::channel(1000);
    let (ended, mut ends) = mpsc::channel(1000);
    Client
        .v2()
        .on_receive_notification(
            async move |notification: two::UpdateSessionNotification, _cx| {
                match notification.update {
                    two::SessionUpdate::AgentMessageChunk(chunk) => {
                        if let two::ContentBlock::Text(content) = chunk.content {
                            sender.try_send(content.text).unwrap();
                        }
                    }
                    two::SessionUpdate::StateUpdate(two::StateUpdate::Idle(idle)) => {
                        ended.try_send(idle.stop_reason).unwrap();
                    }
                    _other => {}
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: two::RequestPermissionRequest, responder, _connection| {
                let once = two::PermissionOptionKind::AllowOnce;
                let option = request.options.iter().find(|option| option.kind == once).unwrap();
                let selected = two::SelectedPermissionOutcome::new(option.option_id.clone());
                let outcome = two::RequestPermissionOutcome::Selected(selected);
                responder.respond(two::RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .connect_with(transport, async move |connection: v2::ConnectionTo<Agent>| {
            let info = two::Implementation::new("windlass-test", "1");
            let hello = two::InitializeRequest::new(ProtocolVersion::V2, info);
            let greeted = connection.send_request(hello).block_task().await?;
            assert_eq!(greeted.protocol_version, ProtocolVersion::V2);
            let new = two::NewSessionRequest::new(directory);
            let session = connection.send_request(new).block_task().await?.session_id;
            let prompt = |text: &str| {
                let block = two::ContentBlock::Text(two::TextContent::new(text.to_owned()));
                two::PromptRequest::new(session.clone(), vec![block])
            };
            connection.send_request(prompt("edit it")).block_task().await?;
            assert_eq!(ends.recv().await.unwrap(), Some(two::StopReason::EndTurn));
            until_said(&mut said, "editingedited").await;

            connection.send_request(prompt("talk")).block_task().await?;
            until_said(&mut said, "for ever").await;
            connection.send_notification(two::CancelSessionNotification::new(session.clone()))?;
            assert_eq!(ends.recv().await.unwrap(), Some(two::StopReason::Cancelled));

            let start = two::ReplayFrom::Start(two::ReplayFromStart::new());
            let resume = two::ResumeSessionRequest::new(session.clone(), directory).replay_from(start);
            connection.send_request(resume).block_task().await?;
            until_said(&mut said, "editingeditedfor ever").await;
            connection.send_request(two::CloseSessionRequest::new(session.clone())).block_task().await?;
            Ok(())
        })
        .await
}
