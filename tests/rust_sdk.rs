//! The protocol's own Rust client, unmodified, against the real binary.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex},
};

use agent_client_protocol::{
    Agent as AgentRole, Client, Lines, on_receive_notification, on_receive_request,
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
};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

use crate::support::{
    agent::binary,
    llm::{Gate, Llm, Reply, Wire, provider_config},
    scratch::Scratch,
};

#[tokio::test]
async fn the_rust_client_gets_through_a_whole_conversation() {
    let (scratch, llm) = (Scratch::new(), Llm::start().await);
    let mut config = provider_config(&llm, Wire::OpenAi);
    config["permission"] = json!({"edit": "ask"});
    config["windlass"] = json!({"file_time": false});
    let mut child = Command::new(binary())
        .arg("acp")
        .current_dir(&scratch.work)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
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
    let transport = Lines::new(Box::pin(outgoing).sink_map_err(std::io::Error::other), incoming.boxed());

    let edit = json!({"filePath": scratch.path("a.txt"), "oldString": "two", "newString": "zwei"});
    llm.reply(Reply::text("editing").and_call("call_1", "edit", edit));
    llm.reply(Reply::text("edited"));
    let gate = Gate::new();
    llm.reply(Reply::text("for ever").and_gate(&gate));

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
