//! `session/load` and `session/resume`: sessions that are there go on, here or at the node that has them.

use std::{path::PathBuf, sync::Arc};

use jsonrpsee::types::ErrorObjectOwned;
use windlass_engine::{Client as Lease, Engine, HistoryPage, Opened};
use windlass_protocol::opencode::id::SessionId;
use windlass_protocol_acp::{
    decode::{self, OpenSession, Version},
    schema::{LoadSessionResponse, ResumeSessionResponse},
};

use super::{
    call::Call,
    connection::{Connection, Handled, Reply},
    error::{engine_error, invalid_params, session_id},
    outbox::{Outbox, Outgoing, Past, Responder},
    passed_on::{self, OpenedThere, Opener},
    session::{
        FirstView, WithModels, announce, choose_ahead, client_servers, client_session_of, equip, push_state,
        require_login,
    },
};

/// Messages of one page of a session's past.
const HISTORY_PAGE: usize = 64;

pub fn load(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let method = match connection.encoder.client.version {
        Version::V1 => "session/load",
        Version::V2 => "session/resume",
    };
    let reopening = Reopening::of(connection, method, params)?;
    let id = reopening.id.clone();
    let is_known = connection.sessions().contains_key(&id);
    let (engine, outbox) = (connection.engine.clone(), connection.outbox.clone());
    call.spawn(connection, Some(id.to_string()), async move {
        // Events from here on are shown behind the history.
        let hold = Hold::new(&outbox, &id);
        let here = match reopening.open().await? {
            Reopened::Here(here) => here,
            Reopened::There(there) => return Ok(answered_there(there)),
        };
        let workspace = here.opened.workspace.clone();
        let title = here.opened.info.title.clone();
        let mut attached = Attached { outbox: outbox.clone(), session_id: id.clone(), is_kept: is_known };
        outbox.push(Outgoing::Attach { session_id: id.clone(), workspace, title, cost: 0.0 });
        let mut cursor = Some(here.opened.history.clone());
        while let Some(place) = cursor.take() {
            // One page waits for a client that reads slowly, not all of them.
            outbox.queue.room().await;
            let page = engine.sessions().history(&id, &place, HISTORY_PAGE).await;
            let HistoryPage { messages, children, next } = page.map_err(|failure| engine_error(&failure))?;
            cursor = next;
            outbox.push(Outgoing::Past(Box::new(Past { session_id: id.clone(), messages, children })));
        }
        attached.is_kept = true;
        let OpenedHere { opened, held, params, skipped } = *here;
        held.keep();
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            passed_on::forget(connection, &id);
            let client_session = client_session_of(&connection.engine, &opened, &params);
            let Opened { todos, children, .. } = opened;
            connection.outbox.push(Outgoing::PastEnd { session_id: id.clone(), todos, children });
            drop(hold);
            match FirstView::of(connection, &client_session) {
                FirstView::V1 { modes, options, models } => {
                    let response = LoadSessionResponse::new().modes(modes).config_options(options);
                    responder.succeed(&WithModels { response, models });
                }
                FirstView::V2(shown) => {
                    push_state(connection, &id);
                    responder.succeed(&shown);
                }
            }
            announce(connection, id, client_session, &skipped);
        }) as Reply)
    })
}

pub fn resume(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    if connection.encoder.client.version == Version::V2
        && decode::replays(params).map_err(|reason| invalid_params(&reason))?
    {
        return load(connection, call, params);
    }
    let reopening = Reopening::of(connection, "session/resume", params)?;
    let id = reopening.id.clone();
    call.spawn(connection, Some(id.to_string()), async move {
        let here = match reopening.open().await? {
            Reopened::Here(here) => here,
            Reopened::There(there) => return Ok(answered_there(there)),
        };
        let OpenedHere { opened, held, params, skipped } = *here;
        held.keep();
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            passed_on::forget(connection, &id);
            let client_session = client_session_of(&connection.engine, &opened, &params);
            let attached = attached(opened);
            match FirstView::of(connection, &client_session) {
                FirstView::V1 { modes, options, models } => {
                    let response = ResumeSessionResponse::new().modes(modes).config_options(options);
                    responder.succeed(&WithModels { response, models });
                    connection.outbox.push(attached);
                }
                FirstView::V2(shown) => {
                    connection.outbox.push(attached);
                    push_state(connection, &id);
                    responder.succeed(&shown);
                }
            }
            announce(connection, id, client_session, &skipped);
        }) as Reply)
    })
}

/// Opens a session again that the client had open, with these parameters: lines that name it wait, and go on behind that.
pub fn again(connection: &mut Connection, session: String, params: &str) {
    connection.gates.entry(session.clone()).or_default();
    let reopening = Reopening::of(connection, "session/resume", Some(params));
    connection.run_handler(async move {
        let outcome = async {
            Ok(match reopening?.open().await? {
                Reopened::There(there) => {
                    Box::new(move |connection: &mut Connection| there.attach(connection)) as _
                }
                Reopened::Here(here) => {
                    let OpenedHere { opened, held, params, skipped } = *here;
                    held.keep();
                    Box::new(move |connection: &mut Connection| {
                        let id = opened.info.id.clone();
                        passed_on::forget(connection, &id);
                        let client_session = client_session_of(&connection.engine, &opened, &params);
                        connection.outbox.push(attached(opened));
                        announce(connection, id, client_session, &skipped);
                    }) as _
                }
            })
        };
        Handled::Reopened { session, outcome: outcome.await }
    });
}

fn answered_there(there: OpenedThere) -> Reply {
    Box::new(move |connection: &mut Connection, responder: Responder| {
        responder.succeed(&there.result);
        there.attach(connection);
    })
}

fn attached(opened: Opened) -> Outgoing {
    let Opened { info, workspace, .. } = opened;
    Outgoing::Attach { session_id: info.id, workspace, title: info.title, cost: info.cost }
}

/// A request that opens a session again.
struct Reopening {
    engine: Engine,
    lease: Arc<Lease>,
    outbox: Arc<Outbox>,
    opener: Opener,
    has_switches: bool,
    is_of_fleet: bool,
    id: SessionId,
    method: &'static str,
    request: OpenSession,
    params: String,
}

/// A session that is open again.
enum Reopened {
    Here(Box<OpenedHere>),
    There(OpenedThere),
}

struct OpenedHere {
    opened: Opened,
    held: Held,
    params: String,
    skipped: Vec<String>,
}

impl Reopening {
    fn of(
        connection: &mut Connection,
        method: &'static str,
        params: Option<&str>,
    ) -> Result<Self, ErrorObjectOwned> {
        let request = decode::existing_session(params).map_err(|reason| invalid_params(&reason))?;
        require_login(connection)?;
        let id = session_id(request.session_id.as_deref().unwrap_or_default())?;
        connection.take_switch(&id);
        Ok(Self {
            engine: connection.engine.clone(),
            lease: connection.lease.clone(),
            outbox: connection.outbox.clone(),
            opener: Opener::of(connection),
            has_switches: connection.encoder.client.switches,
            is_of_fleet: connection.options.is_of_fleet,
            id,
            method,
            request,
            params: params.unwrap_or_default().to_owned(),
        })
    }

    async fn open(self) -> Result<Reopened, ErrorObjectOwned> {
        let Self { engine, lease, outbox, opener, has_switches, is_of_fleet, id, method, request, params } =
            self;
        let OpenSession { cwd, directories, mcp_servers, system_prompt, config_options, skipped, .. } =
            request;
        let held = Held::new(&lease, &id);
        let cwd = PathBuf::from(cwd);
        let opened = if is_of_fleet {
            // Programs, directories and instructions are for the clients of this machine to bring.
            engine.sessions().open_beside(&id, &cwd).await
        } else {
            engine.sessions().open(&id, &cwd, client_servers(mcp_servers, &outbox)).await
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                return opener.open(&id, method, &params, &failure).await.map(Reopened::There);
            }
        };
        if !is_of_fleet {
            equip(&engine, &id, directories, system_prompt).await?;
        }
        let opened = choose_ahead(&engine, opened, &config_options, has_switches).await?;
        Ok(Reopened::Here(Box::new(OpenedHere { opened, held, params, skipped })))
    }
}

/// Holds a session's events back until everything before them was shown, or cannot be.
struct Hold {
    outbox: Arc<Outbox>,
    session_id: SessionId,
}

impl Hold {
    fn new(outbox: &Arc<Outbox>, session_id: &SessionId) -> Self {
        outbox.push(Outgoing::Hold(session_id.clone()));
        Self { outbox: outbox.clone(), session_id: session_id.clone() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Behind a replay nothing is held any more; behind a failure everything still is.
        self.outbox.push(Outgoing::Release(self.session_id.clone()));
    }
}

/// Takes a session off the client's screen again, unless all of its past was shown.
struct Attached {
    outbox: Arc<Outbox>,
    session_id: SessionId,
    is_kept: bool,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.is_kept {
            self.outbox.push(Outgoing::Detach(self.session_id.clone()));
        }
    }
}

/// Holds a session in the client's lease, unless opening it fails.
struct Held {
    lease: Arc<Lease>,
    session_id: SessionId,
    is_new: bool,
}

impl Held {
    fn new(lease: &Arc<Lease>, session_id: &SessionId) -> Self {
        let is_new = lease.hold(session_id);
        Self { lease: lease.clone(), session_id: session_id.clone(), is_new }
    }

    fn keep(mut self) {
        self.is_new = false;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_new {
            self.lease.release(&self.session_id);
        }
    }
}
