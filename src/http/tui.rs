//! Routes by which programs drive the terminal's screen: each becomes an event that the screen acts on.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::SessionId,
    service::{ServiceEvent, ServiceNews, ToastVariant},
};

use super::{
    body::{Answer, Payload},
    error::{Failure, Piece},
    here::required,
    routes::{Methods, Routes, get, post},
    selection::Selected,
    server::Shared,
};

/// Milliseconds that a note is shown where its sender names none.
const TOAST_MS: u64 = 5000;

/// The screen's names of the commands that programs may send; any other goes through as it is.
const COMMANDS: [(&str, &str); 16] = [
    ("session_new", "session.new"),
    ("session_share", "session.share"),
    ("session_interrupt", "session.interrupt"),
    ("session_compact", "session.compact"),
    ("session_list", "session.list"),
    ("messages_page_up", "session.page.up"),
    ("messages_page_down", "session.page.down"),
    ("messages_line_up", "session.line.up"),
    ("messages_line_down", "session.line.down"),
    ("messages_half_page_up", "session.half.page.up"),
    ("messages_half_page_down", "session.half.page.down"),
    ("messages_first", "session.first"),
    ("messages_last", "session.last"),
    ("input_clear", "prompt.clear"),
    ("input_submit", "prompt.submit"),
    ("agent_cycle", "agent.cycle"),
];

pub fn routes() -> Routes {
    Routes::new()
        .route("/tui/append-prompt", post(append_prompt))
        .route("/tui/submit-prompt", command("prompt.submit"))
        .route("/tui/clear-prompt", command("prompt.clear"))
        .route("/tui/open-help", command("help.show"))
        .route("/tui/open-sessions", command("session.list"))
        .route("/tui/open-themes", command("theme.switch"))
        .route("/tui/open-models", command("model.list"))
        .route("/tui/execute-command", post(execute_command))
        .route("/tui/show-toast", post(show_toast))
        .route("/tui/publish", post(publish_any))
        .route("/tui/select-session", post(select_session))
        .route("/tui/control/next", get(next_request))
        .route("/tui/control/response", post(respond))
}

fn publish(server: &Shared, selected: &Selected, news: ServiceNews) -> Answer<bool> {
    let event = ServiceEvent { directory: Some(selected.0.display().to_string()), news };
    server.engine.bus().publish(EventPayload::Service(event));
    Answer(true)
}

/// Returns the route of a command that needs no data.
fn command(name: &'static str) -> Methods {
    post(async move |State(server): State<Shared>, selected: Selected| {
        publish(&server, &selected, ServiceNews::TuiCommandExecute { command: name.to_owned() })
    })
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppendBody {
    #[cfg_attr(test, schemars(required))]
    text: Option<String>,
}

async fn append_prompt(
    State(server): State<Shared>,
    selected: Selected,
    Payload(body): Payload<AppendBody>,
) -> Result<Answer<bool>, Failure> {
    let text = required(body.text, Piece::Payload, "text")?;
    Ok(publish(&server, &selected, ServiceNews::TuiPromptAppend { text }))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CommandBody {
    #[cfg_attr(test, schemars(required))]
    command: Option<String>,
}

async fn execute_command(
    State(server): State<Shared>,
    selected: Selected,
    Payload(body): Payload<CommandBody>,
) -> Result<Answer<bool>, Failure> {
    let command = required(body.command, Piece::Payload, "command")?;
    let known = COMMANDS.iter().find(|(name, _)| *name == command);
    let command = known.map_or(command, |(_, own)| (*own).to_owned());
    Ok(publish(&server, &selected, ServiceNews::TuiCommandExecute { command }))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToastBody {
    title: Option<String>,
    message: String,
    variant: ToastVariant,
    duration: Option<u64>,
}

async fn show_toast(
    State(server): State<Shared>,
    selected: Selected,
    Payload(body): Payload<ToastBody>,
) -> Answer<bool> {
    let ToastBody { title, message, variant, duration } = body;
    let duration = Some(duration.unwrap_or(TOAST_MS));
    publish(&server, &selected, ServiceNews::TuiToastShow { title, message, variant, duration })
}

async fn publish_any(
    State(server): State<Shared>,
    selected: Selected,
    Payload(news): Payload<ServiceNews>,
) -> Result<Answer<bool>, Failure> {
    match &news {
        ServiceNews::TuiPromptAppend { .. }
        | ServiceNews::TuiCommandExecute { .. }
        | ServiceNews::TuiToastShow { .. }
        | ServiceNews::TuiSessionSelect { .. } => Ok(publish(&server, &selected, news)),
        ServiceNews::PtyCreated { .. }
        | ServiceNews::PtyUpdated { .. }
        | ServiceNews::PtyExited { .. }
        | ServiceNews::PtyDeleted { .. }
        | ServiceNews::WorktreeReady { .. }
        | ServiceNews::WorktreeFailed { .. }
        | ServiceNews::LspUpdated {}
        | ServiceNews::ProjectUpdated(_)
        | ServiceNews::VcsBranchUpdated { .. }
        | ServiceNews::InstanceDisposed { .. }
        | ServiceNews::GlobalDisposed {} => {
            let message = "Only events of the terminal's screen (tui.*) can be published.\n  at [\"type\"]";
            Err(Failure::bad_request(Piece::Payload, message))
        }
    }
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SelectBody {
    #[serde(rename = "sessionID")]
    session_id: SessionId,
}

async fn select_session(
    State(server): State<Shared>,
    selected: Selected,
    Payload(SelectBody { session_id }): Payload<SelectBody>,
) -> Result<Answer<bool>, Failure> {
    server.session(&session_id).await?;
    Ok(publish(&server, &selected, ServiceNews::TuiSessionSelect { session_id }))
}

/// Waits for a request to the screen. There is none: its orders come as events.
async fn next_request(State(server): State<Shared>) -> Response {
    server.stop.cancelled().await;
    axum::http::StatusCode::NO_CONTENT.into_response()
}

async fn respond() -> Answer<bool> {
    Answer(true)
}
