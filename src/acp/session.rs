//! The session methods that make, list and end sessions: new, fork, options, list, close, delete.

use std::{path::PathBuf, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonrpsee::types::ErrorObjectOwned;
use serde::Serialize;
use serde_json::json;
use windlass_engine::{
    Client as Lease, ClientPrompt, ClientServer, Engine, EngineError, Link, Loaded, NewSession, Opened,
};
use windlass_protocol::{
    opencode::{
        id::{MessageId, SessionId},
        message::Message,
        model_ref::ModelRef,
        session::{Session, SessionModel},
    },
    rpc::code,
};
use windlass_protocol_acp::{
    decode::{self, InitialOption, McpServer, OpenSession, OptionsAhead, SystemPrompt, Version},
    schema::{
        CloseSessionResponse, DeleteSessionResponse, ForkSessionResponse, ListSessionsResponse,
        NewSessionResponse, Notice, NoticeSeverity, SessionConfigOption, SessionModeState,
        SessionOptionsResponse, SessionUpdate,
    },
};

use super::{
    call::Call,
    choices,
    chosen::Chosen,
    client_session::ClientSession,
    commands,
    connection::{Connection, Reply},
    error::{self, engine_error, error, invalid_params, not_open, session_id},
    linked, options,
    outbox::{Outbox, Outgoing, Responder},
    passed_on, reload, to_proto,
    v2::agent,
};

/// Sessions of one page of `session/list`.
const PAGE: usize = 50;

pub fn new(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let request = decode::new_session(params).map_err(|reason| invalid_params(&reason))?;
    require_login(connection)?;
    let chosen = match &request.session_id {
        Some(text) => {
            Some(SessionId::parse(text).map_err(|reason| error(code::INVALID_PARAMS, &reason.to_string()))?)
        }
        None => None,
    };
    let has_switches = connection.encoder.client.switches;
    let params = params.unwrap_or_default().to_owned();
    let (engine, lease, outbox) =
        (connection.engine.clone(), connection.lease.clone(), connection.outbox.clone());
    call.spawn(connection, request.session_id.clone(), async move {
        let OpenSession {
            cwd,
            directories,
            mcp_servers,
            system_prompt,
            config_options,
            skipped,
            worktree,
            ..
        } = request;
        let (directory, servers) = (PathBuf::from(cwd), client_servers(mcp_servers, &outbox));
        let new = NewSession { directory, id: chosen, servers, worktree, ..NewSession::default() };
        let opened = engine.sessions().create(new).await.map_err(|failure| engine_error(&failure))?;
        let fresh = Fresh::new(&engine, &lease, &opened.info.id);
        equip(&engine, &opened.info.id, directories, system_prompt).await?;
        let opened = choose_ahead(&engine, opened, &config_options, has_switches).await?;
        lease.hold(&opened.info.id);
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            fresh.keep();
            let client_session = client_session_of(&connection.engine, &opened, &params);
            let Opened { info, .. } = opened;
            let session_id = info.id.shared();
            match FirstView::of(connection, &client_session) {
                FirstView::V1 { modes, options, models } => {
                    let response = NewSessionResponse::new(session_id).modes(modes).config_options(options);
                    responder.succeed(&WithModels { response, models });
                }
                FirstView::V2(shown) => responder.succeed(&shown.of_session(session_id)),
            }
            attach(connection, info.id, client_session, info.title, 0.0, &skipped);
        }) as Reply)
    })
}

/// Lets a session reach the directories that its client names beside the project, and gives it the client's own
/// instructions, if it brings some.
pub(super) async fn equip(
    engine: &Engine,
    id: &SessionId,
    directories: Vec<String>,
    prompt: Option<SystemPrompt>,
) -> Result<(), ErrorObjectOwned> {
    engine.asking().grant_directories(id, directories.into_iter().map(PathBuf::from).collect()).await;
    let Some(SystemPrompt { is_override, text }) = prompt else { return Ok(()) };
    let prompt = ClientPrompt { is_override, text };
    engine.sessions().set_client_prompt(id, prompt).await.map_err(|failure| engine_error(&failure))
}

pub fn fork(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let request = decode::existing_session(params).map_err(|reason| invalid_params(&reason))?;
    require_login(connection)?;
    let text = request.session_id.as_deref().unwrap_or_default();
    let source = session_id(text)?;
    let is_cursor = decode::has_cursor(params);
    let before = match decode::fork_message(params).map_err(|reason| invalid_params(&reason))? {
        Some(text) => {
            Some(MessageId::parse(&text).map_err(|reason| error(code::INVALID_PARAMS, &reason.to_string()))?)
        }
        None => None,
    };
    let has_switches = connection.encoder.client.switches;
    let params = params.unwrap_or_default().to_owned();
    let (engine, lease, outbox) =
        (connection.engine.clone(), connection.lease.clone(), connection.outbox.clone());
    call.spawn(connection, request.session_id.clone(), async move {
        let OpenSession { cwd, directories, mcp_servers, system_prompt, config_options, skipped, .. } =
            request;
        if let Some(cursor) = before.as_ref().filter(|_| is_cursor) {
            let message = engine.sessions().message(&source, cursor).await;
            let message = message.map_err(|failure| engine_error(&failure))?.map(|message| message.info);
            if !matches!(message, Some(Message::User(_))) {
                return Err(error(code::INVALID_PARAMS, &format!("unknown `cursorId` {cursor}")));
            }
        }
        let opened = async {
            let workspace = engine.workspaces().workspace(&PathBuf::from(cwd)).await?;
            let forked = engine.sessions().fork(&workspace, &source, before.as_ref()).await?;
            let fresh = Fresh::new(&engine, &lease, &forked.id);
            let servers = client_servers(mcp_servers, &outbox);
            Ok((engine.sessions().open_in(workspace, &forked.id, servers).await?, fresh))
        };
        let (opened, fresh) = opened.await.map_err(|failure: EngineError| engine_error(&failure))?;
        equip(&engine, &opened.info.id, directories, system_prompt).await?;
        let opened = choose_ahead(&engine, opened, &config_options, has_switches).await?;
        lease.hold(&opened.info.id);
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            fresh.keep();
            let client_session = client_session_of(&connection.engine, &opened, &params);
            let Opened { info, .. } = opened;
            let session_id = info.id.shared();
            match FirstView::of(connection, &client_session) {
                FirstView::V1 { modes, options, models } => {
                    let response = ForkSessionResponse::new(session_id).modes(modes).config_options(options);
                    responder.succeed(&WithModels { response, models });
                }
                FirstView::V2(shown) => responder.succeed(&shown.of_session(session_id)),
            }
            attach(connection, info.id, client_session, info.title, 0.0, &skipped);
        }) as Reply)
    })
}

/// A session that its client is not told of yet: it is closed for that, with its servers, if the request is taken back or
/// its answer cannot be given.
struct Fresh {
    engine: Engine,
    lease: Arc<Lease>,
    session_id: Option<SessionId>,
}

impl Fresh {
    fn new(engine: &Engine, lease: &Arc<Lease>, session_id: &SessionId) -> Self {
        Self { engine: engine.clone(), lease: lease.clone(), session_id: Some(session_id.clone()) }
    }

    fn keep(mut self) {
        self.session_id = None;
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(session_id) = self.session_id.take() {
            let lease = self.lease.clone();
            self.engine.spawn(async move { lease.close_session(&session_id).await });
        }
    }
}

/// Refuses a session after a logout, until the next login.
pub(super) fn require_login(connection: &Connection) -> Result<(), ErrorObjectOwned> {
    if connection.engine.accounts().is_logged_out() {
        return Err(error(code::AUTH_REQUIRED, "You are logged out. Authenticate to use your keys again."));
    }
    Ok(())
}

/// The first that a client sees of a session.
pub(super) enum FirstView {
    V1 { modes: SessionModeState, options: Vec<SessionConfigOption>, models: options::Models },
    V2(agent::OpenedSession),
}

impl FirstView {
    pub(super) fn of(connection: &Connection, client_session: &ClientSession) -> Self {
        let client = &connection.encoder.client;
        let options = options::config_options(&client_session.shown, &client_session.chosen, client);
        match client.version {
            Version::V1 => Self::V1 {
                modes: options::modes(&client_session.shown, &client_session.chosen),
                models: options::models(&client_session.shown, &client_session.chosen),
                options,
            },
            Version::V2 => {
                let commands = commands::update(&client_session.shown, client_session);
                Self::V2(agent::OpenedSession::new(&options, &commands.available_commands))
            }
        }
    }
}

/// An answer with the models of the older `session/set_model`, which the published types no longer have.
#[derive(Serialize)]
pub(super) struct WithModels<T> {
    #[serde(flatten)]
    pub(super) response: T,
    pub(super) models: options::Models,
}

/// Has the client of version 2 told if the session works, before its answer.
pub(super) fn push_state(connection: &Connection, id: &SessionId) {
    let is_working = connection.engine.sessions().is_working(id);
    connection.outbox.push(Outgoing::State { session_id: id.clone(), is_working });
}

pub(super) fn client_session_of(engine: &Engine, opened: &Opened, params: &str) -> ClientSession {
    // An older session has its last model only in its last message.
    let last = opened.last_prompt.as_ref().map(|prompt| (prompt.agent.clone(), prompt.model.clone()));
    let shown = opened.workspace.loaded();
    let prompts = engine.sessions().server_prompts(&opened.info.id, opened.workspace.clone());
    ClientSession {
        workspace: opened.workspace.clone(),
        opened_by: passed_on::again(params, &opened.info.id),
        chosen: chosen_of(&opened.info, last, &shown, engine),
        shown_prompts: prompts.choices(),
        prompts,
        pending_warnings: (0..shown.warnings.len()).collect(),
        shown,
    }
}

/// Returns the choices for a session that is stored.
fn chosen_of(info: &Session, last: Option<(String, ModelRef)>, loaded: &Loaded, engine: &Engine) -> Chosen {
    let model = info.model.as_ref().map(|model| ModelRef {
        provider_id: model.provider_id.clone(),
        model_id: model.id.clone(),
        variant: model.variant.clone(),
    });
    Chosen {
        agent: info.agent.clone().or_else(|| last.as_ref().map(|(agent, _)| agent.clone())),
        // The demo that stood by for want of a model was not chosen.
        model: model.or_else(|| last.map(|(_, model)| model).filter(|model| !loaded.is_demo(model))),
        accepts_edits: engine.asking().accepts_edits(&info.id),
    }
}

/// Stores the options that a client wants a session to begin with.
pub(super) async fn choose_ahead(
    engine: &Engine,
    mut opened: Opened,
    wanted: &[InitialOption],
    has_switches: bool,
) -> Result<Opened, ErrorObjectOwned> {
    if wanted.is_empty() {
        return Ok(opened);
    }
    let loaded = opened.workspace.loaded();
    let last = opened.last_prompt.as_ref().map(|prompt| (prompt.agent.clone(), prompt.model.clone()));
    let before = chosen_of(&opened.info, last, &loaded, engine);
    let Chosen { agent, model, accepts_edits } = choices::ahead(&loaded, &before, wanted, has_switches);
    let id = opened.info.id.clone();
    if accepts_edits != before.accepts_edits {
        engine.asking().accept_edits(&id, accepts_edits);
    }
    let agent = agent.filter(|it| Some(it) != before.agent.as_ref());
    let model = model.filter(|it| Some(it) != before.model.as_ref());
    if agent.is_some() || model.is_some() {
        let stored = engine.sessions().select(&id, agent.clone(), model.clone()).await;
        stored.map_err(|failure| engine_error(&failure))?;
        opened.info.agent = agent.or(opened.info.agent);
        let model = model.map(|it| SessionModel {
            id: it.model_id,
            provider_id: it.provider_id,
            variant: it.variant,
        });
        opened.info.model = model.or(opened.info.model);
    }
    Ok(opened)
}

/// `session/options`: the options of a session that is not there yet, or not open.
pub fn options(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let OptionsAhead { cwd, session_id } =
        decode::options_ahead(params).map_err(|reason| invalid_params(&reason))?;
    let id = session_id.as_deref().map(error::session_id).transpose()?;
    let engine = connection.engine.clone();
    call.spawn(connection, session_id, async move {
        let loaded = engine.workspaces().inspect_files(&PathBuf::from(cwd)).await;
        let loaded = loaded.map_err(|failure| engine_error(&failure))?;
        let chosen = match &id {
            None => Chosen::default(),
            Some(id) => {
                let info = engine.sessions().get(id).await.map_err(|failure| engine_error(&failure))?;
                let last =
                    engine.sessions().last_prompt(id).await.map_err(|failure| engine_error(&failure))?;
                let last = last.map(|prompt| (prompt.agent, prompt.model));
                chosen_of(&info, last, &loaded, &engine)
            }
        };
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            let client = &connection.encoder.client;
            let all = options::config_options(&loaded, &chosen, client);
            match client.version {
                Version::V1 => {
                    let modes = options::modes(&loaded, &chosen);
                    responder.succeed(&SessionOptionsResponse::new().modes(modes).config_options(all));
                }
                Version::V2 => {
                    let commands = commands::of_files(&loaded, &chosen, Vec::new());
                    responder.succeed(&agent::OpenedSession::new(&all, &commands.available_commands));
                }
            }
        }) as Reply)
    })
}

fn attach(
    connection: &mut Connection,
    id: SessionId,
    client_session: ClientSession,
    title: String,
    cost: f64,
    skipped: &[String],
) {
    let workspace = client_session.workspace.clone();
    connection.outbox.push(Outgoing::Attach { session_id: id.clone(), workspace, title, cost });
    announce(connection, id, client_session, skipped);
}

/// Sends the updates behind the answer that made the session known: its commands, and notices.
pub(super) fn announce(
    connection: &mut Connection,
    id: SessionId,
    mut client_session: ClientSession,
    skipped: &[String],
) {
    client_session.chosen.agent = connection.take_switch(&id).or(client_session.chosen.agent);
    let update =
        |update: SessionUpdate| connection.outbox.push(Outgoing::Update(id.clone(), Box::new(update)));
    // In version 2 the answer has named them.
    if connection.encoder.client.version == Version::V1 {
        let commands = commands::update(&client_session.shown, &client_session);
        update(SessionUpdate::AvailableCommandsUpdate(commands));
    }
    let wants_notices = connection.wants_notices();
    for reason in skipped {
        tracing::warn!("{reason}");
        if wants_notices {
            update(SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, reason.clone())));
        }
    }
    if wants_notices {
        for notice in reload::notices(client_session.shown.warnings.iter()) {
            update(SessionUpdate::Notice(notice));
        }
    }
    connection.engine.workspaces().watch(&client_session.workspace);
    connection.sessions().insert(id, client_session);
}

pub(super) fn client_servers(servers: Vec<McpServer>, outbox: &Arc<Outbox>) -> Vec<ClientServer> {
    let servers = servers.into_iter().map(|server| match server {
        McpServer::Stdio { name, command, args, env } => {
            let command = std::iter::once(command).chain(args).collect();
            ClientServer::Stdio { name, command, environment: env }
        }
        McpServer::Http { name, url, headers } => ClientServer::Http { name, url, headers },
        McpServer::Acp { name, server_id } => {
            ClientServer::Linked { name, link: Link::new(server_id, linked::ask(outbox)) }
        }
    });
    servers.collect()
}

pub fn list(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let request = decode::list_sessions(params).map_err(|reason| invalid_params(&reason))?;
    let after = match request.cursor.as_deref() {
        None => None,
        Some(cursor) => {
            let bad = || error(code::INVALID_PARAMS, "unknown `cursor`");
            Some(decode_cursor(cursor).ok_or_else(bad)?)
        }
    };
    let engine = connection.engine.clone();
    call.spawn(connection, None, async move {
        // One more than a page tells whether there is a next one.
        let sessions = engine.sessions().list(request.cwd, request.archived, after, PAGE + 1).await;
        let mut sessions = sessions.map_err(|failure| engine_error(&failure))?;
        let has_more = sessions.len() > PAGE;
        sessions.truncate(PAGE);
        let last = sessions.last().filter(|_| has_more);
        let cursor = last.map(|last| encode_cursor(last.time.updated, last.id.as_str()));
        let row = |session: &Session| {
            let directories = engine.asking().granted_directories(&session.id);
            to_proto::session_info(session).additional_directories(directories.to_vec())
        };
        let rows = sessions.iter().map(row).collect();
        let response = ListSessionsResponse::new(rows).next_cursor(cursor);
        Ok(Box::new(move |_: &mut Connection, responder: Responder| responder.succeed(&response)) as Reply)
    })
}

fn encode_cursor(updated: i64, id: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(json!([updated, id]).to_string())
}

fn decode_cursor(cursor: &str) -> Option<(i64, String)> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
    serde_json::from_slice(&bytes).ok()
}

pub fn close(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let text = decode::session_id(params).map_err(|reason| invalid_params(&reason))?;
    let id = session_id(&text)?;
    if !connection.sessions().contains_key(&id) {
        return match connection.encoder.client.version {
            Version::V1 => Err(not_open(&text)),
            // There is nothing left to close (facts: ACP §3).
            Version::V2 => call.succeed(&CloseSessionResponse::new()),
        };
    }
    let lease = connection.lease.clone();
    call.spawn_whole(connection, Some(text), async move {
        lease.close_session(&id).await;
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            connection.sessions().remove(&id);
            responder.succeed(&CloseSessionResponse::new());
            connection.outbox.push(Outgoing::Detach(id));
        }) as Reply)
    })
}

pub fn delete(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let text = decode::session_id(params).map_err(|reason| invalid_params(&reason))?;
    // A text that is not a session id names no session, and deleting nothing succeeds (facts: ACP §1.1).
    let Ok(id) = SessionId::parse(&text) else { return call.succeed(&DeleteSessionResponse::new()) };
    let engine = connection.engine.clone();
    call.spawn_whole(connection, Some(text), async move {
        engine.sessions().delete(&id).await.map_err(|failure| engine_error(&failure))?;
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            connection.sessions().remove(&id);
            passed_on::forget(connection, &id);
            connection.lease.release(&id);
            responder.succeed(&DeleteSessionResponse::new());
            connection.outbox.push(Outgoing::Detach(id));
        }) as Reply)
    })
}
