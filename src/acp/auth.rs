//! `authenticate`, `logout` and `auth/status`: the keys and logins that `windlass auth` stores, as a client sees them.

use jsonrpsee::types::ErrorObjectOwned;
use windlass_engine::Engine;
use windlass_protocol::rpc::{self, code};
use windlass_protocol_acp::{
    decode,
    schema::{
        AuthAccount, AuthState, AuthStatusResponse, AuthStatusUpdateNotification, AuthenticateResponse,
        LogoutResponse,
    },
};

use super::{
    call::Call,
    connection::{Connection, Reply},
    error::{engine_error, error, invalid_params},
    outbox::Responder,
};

/// The method that needs no terminal: the user sets a key and says so.
pub const AGENT_METHOD: &str = "windlass-key";
/// The method that runs our own login in a terminal.
pub const TERMINAL_METHOD: &str = "windlass-login";

pub fn authenticate(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let method = decode::method_id(params).map_err(|reason| invalid_params(&reason))?;
    if method != AGENT_METHOD {
        let message = match method.as_str() {
            TERMINAL_METHOD => format!("`{TERMINAL_METHOD}` runs in a terminal, not by `authenticate`."),
            _ => format!("Unknown authentication method `{method}`; use `{AGENT_METHOD}`."),
        };
        return Err(error(code::INVALID_PARAMS, &message));
    }
    let engine = connection.engine.clone();
    call.spawn_whole(connection, None, async move {
        engine.accounts().log_in().await.map_err(|failure| engine_error(&failure))?;
        let status = status(&engine).await?;
        Ok(Box::new(|connection: &mut Connection, responder: Responder| {
            responder.succeed(&AuthenticateResponse::new());
            show(connection, status);
        }) as Reply)
    })
}

pub fn logout(
    connection: &mut Connection,
    call: &mut Call,
    _params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let engine = connection.engine.clone();
    call.spawn_whole(connection, None, async move {
        engine.accounts().log_out().await.map_err(|failure| engine_error(&failure))?;
        let status = status(&engine).await?;
        Ok(Box::new(|connection: &mut Connection, responder: Responder| {
            responder.succeed(&LogoutResponse::new());
            show(connection, status);
        }) as Reply)
    })
}

pub fn auth_status(
    connection: &mut Connection,
    call: &mut Call,
    _params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let engine = connection.engine.clone();
    call.spawn(connection, None, async move {
        let status = status(&engine).await?;
        Ok(Box::new(|connection: &mut Connection, responder: Responder| {
            responder.succeed(&status);
            connection.auth_shown = Some(status);
        }) as Reply)
    })
}

/// Returns the accounts in the directory of this process: a session of another one may have others.
async fn status(engine: &Engine) -> Result<AuthStatusResponse, ErrorObjectOwned> {
    if engine.accounts().is_logged_out() {
        return Ok(AuthStatusResponse::new(AuthState::Unauthenticated));
    }
    let Ok(directory) = std::env::current_dir() else {
        return Ok(AuthStatusResponse::new(AuthState::Unknown));
    };
    let accounts = engine.accounts().list(&directory).await.map_err(|failure| engine_error(&failure))?;
    let (accounts, has_free) = accounts;
    let state = match (accounts.is_empty(), has_free) {
        (false, _) => AuthState::Authenticated,
        (true, true) => AuthState::NotRequired,
        (true, false) => AuthState::Unauthenticated,
    };
    let accounts = accounts.into_iter().map(|account| {
        AuthAccount::new(format!("{} {}", account.name, if account.is_login { "login" } else { "API key" }))
    });
    Ok(AuthStatusResponse::new(state).accounts(accounts.collect()))
}

/// Shows another status to a client that has asked for it before.
fn show(connection: &mut Connection, status: AuthStatusResponse) {
    if connection.auth_shown.as_ref().is_none_or(|shown| *shown == status) {
        return;
    }
    let update = AuthStatusUpdateNotification::new(status.state.clone()).accounts(status.accounts.clone());
    connection.auth_shown = Some(status);
    connection.outbox.send(&rpc::notification("auth/status_update", update));
}
