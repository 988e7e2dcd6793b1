//! `session/set_mode`, `session/set_config_option` and the older `session/set_model`, kept in step with each other.

use jsonrpsee::types::ErrorObjectOwned;
use serde_json::json;
use windlass_protocol::{
    acp::{
        decode,
        schema::{
            AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate, SessionNotification,
            SessionUpdate, SetSessionConfigOptionResponse, SetSessionModeResponse,
        },
    },
    opencode::{id::SessionId, message::ModelRef},
    rpc::{self, code},
};

use super::{
    call::Call,
    commands,
    connection::Connection,
    error::{error, invalid_params, no_session, session_id},
    options,
};

pub fn set_mode(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (session, mode) = decode::set_mode(params).map_err(|reason| invalid_params(&reason))?;
    let id = session_id(&session)?;
    let shown = choose_mode(connection, &id, &mode)?;
    call.succeed(&SetSessionModeResponse::new())?;
    show_mode(connection, &id);
    show_options(connection, &id);
    show_commands(connection, &id, shown);
    Ok(())
}

pub fn set_config_option(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (session, option, value) =
        decode::set_config_option(params).map_err(|reason| invalid_params(&reason))?;
    let id = session_id(&session)?;
    let shown = match option.as_str() {
        options::MODE => choose_mode(connection, &id, &value)?,
        options::MODEL => choose_model(connection, &id, &value)?,
        options::THOUGHT_LEVEL => choose_thought_level(connection, &id, &value)?,
        _ => {
            let [model, mode, level] = [options::MODEL, options::MODE, options::THOUGHT_LEVEL];
            let message = format!("unknown option `{option}`; there are `{model}`, `{mode}` and `{level}`");
            return Err(error(code::INVALID_PARAMS, &message));
        }
    };
    let client_session = connection.sessions().get(&id).ok_or_else(|| no_session(&session))?;
    let all = options::config_options(&client_session.workspace.loaded(), client_session);
    call.succeed(&SetSessionConfigOptionResponse::new(all))?;
    if option == options::MODE {
        show_mode(connection, &id);
    }
    show_commands(connection, &id, shown);
    Ok(())
}

pub fn set_model(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (session, model) = decode::set_model(params).map_err(|reason| invalid_params(&reason))?;
    let id = session_id(&session)?;
    let shown = choose_model(connection, &id, &model)?;
    call.succeed(&json!({}))?;
    show_options(connection, &id);
    show_commands(connection, &id, shown);
    Ok(())
}

/// Chooses the agent; returns what was known of commands before.
fn choose_mode(
    connection: &mut Connection,
    id: &SessionId,
    mode: &str,
) -> Result<AvailableCommandsUpdate, ErrorObjectOwned> {
    let client_session = connection.sessions().get_mut(id).ok_or_else(|| no_session(id.as_str()))?;
    let loaded = client_session.workspace.loaded();
    let choices = loaded.agent_choices();
    if !choices.iter().any(|choice| choice.id == mode) {
        let names: Vec<&str> = choices.iter().map(|choice| choice.id.as_str()).collect();
        let message = format!("unknown mode `{mode}`; there are {}", names.join(", "));
        return Err(error(code::INVALID_PARAMS, &message));
    }
    let shown = commands::update(&loaded, client_session);
    client_session.agent = Some(mode.to_owned());
    connection.engine.select(id, Some(mode.to_owned()), None);
    Ok(shown)
}

/// Chooses the model; returns what was known of commands before.
fn choose_model(
    connection: &mut Connection,
    id: &SessionId,
    model: &str,
) -> Result<AvailableCommandsUpdate, ErrorObjectOwned> {
    let client_session = connection.sessions().get_mut(id).ok_or_else(|| no_session(id.as_str()))?;
    let loaded = client_session.workspace.loaded();
    let bad = |reason: &str| error(code::INVALID_PARAMS, reason);
    let unnamed = || bad(&format!("unknown model `{model}`; a model is named `provider/model`"));
    let reference = ModelRef::parse(model).ok_or_else(unnamed)?;
    let chosen = loaded.checked_model(&reference).map_err(|unusable| {
        let kind = if unusable.is_fixed_by_login() { code::AUTH_REQUIRED } else { code::INVALID_PARAMS };
        error(kind, &unusable.to_string())
    })?;
    // A level that the user chose holds for every model that has it.
    let before = client_session.model.as_ref().and_then(|model| model.variant.clone());
    let variant = before.filter(|before| chosen.variant(before).is_some());
    let reference = ModelRef { variant, ..reference };
    let shown = commands::update(&loaded, client_session);
    client_session.model = Some(reference.clone());
    connection.engine.select(id, None, Some(reference));
    Ok(shown)
}

/// Chooses how long the model thinks; returns what was known of commands before.
fn choose_thought_level(
    connection: &mut Connection,
    id: &SessionId,
    level: &str,
) -> Result<AvailableCommandsUpdate, ErrorObjectOwned> {
    let client_session = connection.sessions().get_mut(id).ok_or_else(|| no_session(id.as_str()))?;
    let loaded = client_session.workspace.loaded();
    let (agent, model) = (client_session.agent.as_deref(), client_session.model.as_ref());
    let (names, _) = loaded.variants(agent, model);
    let current = loaded.current_model(agent, model);
    let variant = (level != options::DEFAULT_LEVEL).then(|| level.to_owned());
    let is_known = variant.as_ref().is_none_or(|variant| names.contains(variant));
    let (Ok(current), true, false) = (current, is_known, names.is_empty()) else {
        let there = if names.is_empty() {
            "the model has none".to_owned()
        } else {
            format!("there are {}, {}", options::DEFAULT_LEVEL, names.join(", "))
        };
        return Err(error(code::INVALID_PARAMS, &format!("unknown thought level `{level}`; {there}")));
    };
    let reference = ModelRef { variant, ..current.reference() };
    let shown = commands::update(&loaded, client_session);
    client_session.model = Some(reference.clone());
    connection.engine.select(id, None, Some(reference));
    Ok(shown)
}

fn show_mode(connection: &Connection, id: &SessionId) {
    let Some(client_session) = connection.encoder.client_sessions.get(id) else { return };
    let mode = options::current_agent(&client_session.workspace.loaded(), client_session).to_owned();
    notify(connection, id, SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(mode)));
}

fn show_options(connection: &Connection, id: &SessionId) {
    let Some(client_session) = connection.encoder.client_sessions.get(id) else { return };
    let all = options::config_options(&client_session.workspace.loaded(), client_session);
    notify(connection, id, SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(all)));
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
    connection
        .outbox
        .send(&rpc::notification("session/update", SessionNotification::new(id.shared(), update)));
}
