//! `session/set_mode`, `session/set_config_option` and the older `session/set_model`, kept in step with each other.

use std::sync::Arc;

use jsonrpsee::types::ErrorObjectOwned;
use serde_json::json;
use windlass_engine::Loaded;
use windlass_protocol::{
    opencode::{id::SessionId, model_ref::ModelRef},
    rpc::code,
};
use windlass_protocol_acp::{
    decode::{self, OptionValue, SetConfigOption, Version},
    schema::{
        AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate, SessionConfigOption, SessionUpdate,
        SetSessionConfigOptionResponse, SetSessionModeResponse,
    },
};

use super::{
    call::Call,
    choices,
    chosen::Chosen,
    commands,
    connection::{Connection, Reply},
    encoder::Encoder,
    error::{engine_error, error, invalid_params, not_open, session_id},
    options,
    outbox::{Outgoing, Responder},
    v2::agent,
};

/// A choice that was checked.
struct Choice {
    session_id: SessionId,
    agent: Option<String>,
    model: Option<ModelRef>,
}

pub fn set_mode(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (session, mode) = decode::set_mode(params).map_err(|reason| invalid_params(&reason))?;
    let choice = choose_mode(connection, &session, &mode)?;
    store(connection, call, choice, |connection, responder, id| {
        responder.succeed(&SetSessionModeResponse::new());
        show_mode(connection, id);
        show_options(connection, id);
    })
}

pub fn set_config_option(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let SetConfigOption { session_id: session, config_id, value } =
        decode::set_config_option(params).map_err(|reason| invalid_params(&reason))?;
    let has_switches = connection.encoder.client.switches;
    let choice = match (config_id.as_str(), value) {
        (options::MODE, OptionValue::Choice(value)) => choose_mode(connection, &session, &value)?,
        (options::MODEL, OptionValue::Choice(value)) => choose_model(connection, &session, &value)?,
        (options::THOUGHT_LEVEL, OptionValue::Choice(value)) => {
            choose_thought_level(connection, &session, &value)?
        }
        (options::ACCEPT_EDITS, OptionValue::Switch(is_on)) if has_switches => {
            return accept_edits(connection, call, &session, is_on);
        }
        (id @ (options::MODE | options::MODEL | options::THOUGHT_LEVEL), OptionValue::Switch(_)) => {
            return Err(error(code::INVALID_PARAMS, &format!("the value of option `{id}` must be a string")));
        }
        (id @ options::ACCEPT_EDITS, OptionValue::Choice(_)) if has_switches => {
            return Err(error(
                code::INVALID_PARAMS,
                &format!("the value of option `{id}` must be a boolean"),
            ));
        }
        (unknown, _) => {
            let mut there = vec![options::MODEL, options::MODE, options::THOUGHT_LEVEL];
            there.extend(has_switches.then_some(options::ACCEPT_EDITS));
            let message = format!("unknown option `{unknown}`; there are `{}`", there.join("`, `"));
            return Err(error(code::INVALID_PARAMS, &message));
        }
    };
    let is_mode = choice.agent.is_some();
    store(connection, call, choice, move |connection, responder, id| {
        match all_options(connection, id) {
            Some(all) => succeed_with(connection, responder, all),
            None => responder.fail(&not_open(id.as_str())),
        }
        if is_mode {
            show_mode(connection, id);
        }
    })
}

/// Has a session make its edits without a question, or ask again; not stored, since it ends with the session.
fn accept_edits(
    connection: &mut Connection,
    call: &mut Call,
    session: &str,
    is_on: bool,
) -> Result<(), ErrorObjectOwned> {
    let id = session_id(session)?;
    let client_session = connection.sessions().get_mut(&id).ok_or_else(|| not_open(session))?;
    client_session.chosen.accepts_edits = is_on;
    connection.engine.asking().accept_edits(&id, is_on);
    let all = all_options(connection, &id).unwrap_or_default();
    let responder = call.take_responder()?;
    succeed_with(connection, responder, all);
    Ok(())
}

/// Returns the options of a session of this client.
fn all_options(connection: &Connection, id: &SessionId) -> Option<Vec<SessionConfigOption>> {
    let Encoder { client, client_sessions, .. } = &connection.encoder;
    let client_session = client_sessions.get(id)?;
    Some(options::config_options(&client_session.workspace.loaded(), &client_session.chosen, client))
}

fn succeed_with(connection: &Connection, responder: Responder, all: Vec<SessionConfigOption>) {
    match connection.encoder.client.version {
        Version::V1 => responder.succeed(&SetSessionConfigOptionResponse::new(all)),
        Version::V2 => responder.succeed(&agent::options(&all)),
    }
}

pub fn set_model(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (session, model) = decode::set_model(params).map_err(|reason| invalid_params(&reason))?;
    let choice = choose_model(connection, &session, &model)?;
    store(connection, call, choice, |connection, responder, id| {
        responder.succeed(&json!({}));
        show_options(connection, id);
    })
}

/// Returns the configuration of a session of this client, and the choices there.
fn known(
    connection: &mut Connection,
    session: &str,
) -> Result<(SessionId, Arc<Loaded>, Chosen), ErrorObjectOwned> {
    let session_id = session_id(session)?;
    let client_session = connection.sessions().get(&session_id).ok_or_else(|| not_open(session))?;
    let (loaded, chosen) = (client_session.workspace.loaded(), client_session.chosen.clone());
    Ok((session_id, loaded, chosen))
}

fn choose_mode(connection: &mut Connection, session: &str, mode: &str) -> Result<Choice, ErrorObjectOwned> {
    let (session_id, loaded, _) = known(connection, session)?;
    Ok(Choice { session_id, agent: Some(choices::agent(&loaded, mode)?), model: None })
}

fn choose_model(connection: &mut Connection, session: &str, model: &str) -> Result<Choice, ErrorObjectOwned> {
    let (session_id, loaded, chosen) = known(connection, session)?;
    Ok(Choice { session_id, agent: None, model: Some(choices::model(&loaded, &chosen, model)?) })
}

fn choose_thought_level(
    connection: &mut Connection,
    session: &str,
    level: &str,
) -> Result<Choice, ErrorObjectOwned> {
    let (session_id, loaded, chosen) = known(connection, session)?;
    Ok(Choice { session_id, agent: None, model: Some(choices::thought_level(&loaded, &chosen, level)?) })
}

/// Stores a choice, then answers: the choice holds when the client reads the answer, even if windlass is killed then.
fn store(
    connection: &mut Connection,
    call: &mut Call,
    choice: Choice,
    answer: impl FnOnce(&mut Connection, Responder, &SessionId) + Send + 'static,
) -> Result<(), ErrorObjectOwned> {
    let engine = connection.engine.clone();
    call.spawn_brief(connection, choice.session_id.as_str().to_owned(), async move {
        let Choice { session_id, agent, model } = choice;
        let stored = engine.sessions().select(&session_id, agent.clone(), model.clone()).await;
        stored.map_err(|failure| engine_error(&failure))?;
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            let shown = connection.sessions().get_mut(&session_id).map(|client_session| {
                let shown = commands::update(&client_session.workspace.loaded(), client_session);
                let chosen = &mut client_session.chosen;
                chosen.agent = agent.or(chosen.agent.take());
                chosen.model = model.or(chosen.model.take());
                shown
            });
            answer(connection, responder, &session_id);
            if let Some(shown) = shown {
                show_commands(connection, &session_id, shown);
            }
        }) as Reply)
    })
}

fn show_mode(connection: &Connection, id: &SessionId) {
    let Some(client_session) = connection.encoder.client_sessions.get(id) else { return };
    let mode = options::current_agent(&client_session.workspace.loaded(), &client_session.chosen).to_owned();
    notify(connection, id, SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(mode)));
}

fn show_options(connection: &Connection, id: &SessionId) {
    if let Some(all) = all_options(connection, id) {
        notify(connection, id, SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(all)));
    }
}

/// Shows the commands where another model brings others: the demo has one of its own.
fn show_commands(connection: &Connection, id: &SessionId, shown: AvailableCommandsUpdate) {
    let Some(client_session) = connection.encoder.client_sessions.get(id) else { return };
    let commands = commands::update(&client_session.workspace.loaded(), client_session);
    if commands != shown {
        notify(connection, id, SessionUpdate::AvailableCommandsUpdate(commands));
    }
}

fn notify(connection: &Connection, id: &SessionId, update: SessionUpdate) {
    connection.outbox.push(Outgoing::Update(id.clone(), Box::new(update)));
}
