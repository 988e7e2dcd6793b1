//! Decoding of requests about a session's options, and lists of sessions that are watched.

use serde_json::{Map, Value};

use super::fields::{InvalidParams, additional_directories, invalid, object, text, working_directory};

/// Reads `configOptions` of a request that opens a session: each option once, with a value of its type (facts: ACP §2).
pub(super) fn initial_options(params: &Map<String, Value>) -> Result<Vec<InitialOption>, InvalidParams> {
    let listed = match params.get("configOptions") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(listed) => listed.as_array().ok_or_else(|| invalid("`configOptions` must be a list"))?,
    };
    let mut options: Vec<InitialOption> = Vec::new();
    for (index, entry) in listed.iter().enumerate() {
        let bad = |reason: &str| invalid(format!("`configOptions[{index}]`{reason}"));
        let config_id = entry["configId"].as_str().ok_or_else(|| bad(" has no `configId`"))?;
        let value = match (entry.get("type").and_then(Value::as_str), entry.get("value")) {
            (Some("boolean"), Some(Value::Bool(is_on))) => OptionValue::Switch(*is_on),
            (None | Some("id"), Some(Value::String(choice))) => OptionValue::Choice(choice.clone()),
            _ => return Err(bad(": `value` must be a string, or a boolean with `type` `boolean`")),
        };
        if options.iter().any(|known| known.config_id == config_id) {
            return Err(bad(&format!(" names `{config_id}` again")));
        }
        options.push(InitialOption { config_id: config_id.to_owned(), value });
    }
    Ok(options)
}

/// Decodes `_session/list/subscribe`: the directory.
pub fn list_directory(params: Option<&str>) -> Result<String, InvalidParams> {
    working_directory(&object(params)?)
}

/// Decodes `_session/list/unsubscribe`: the subscription.
pub fn subscription(params: Option<&str>) -> Result<String, InvalidParams> {
    text(&object(params)?, "subscriptionId")
}

/// Decodes `session/options`.
pub fn options_ahead(params: Option<&str>) -> Result<OptionsAhead, InvalidParams> {
    let params = object(params)?;
    let session_id = match params.get("sessionId") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(_) => return Err(invalid("`sessionId` must be a string")),
    };
    additional_directories(&params)?;
    Ok(OptionsAhead { cwd: working_directory(&params)?, session_id })
}

/// The parameters of `session/options`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionsAhead {
    pub cwd: String,
    /// The session that would be opened again.
    pub session_id: Option<String>,
}

/// A choice that a client makes with the request that opens a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialOption {
    pub config_id: String,
    pub value: OptionValue,
}

/// Decodes `session/set_config_option`: session, option and value.
pub fn set_config_option(params: Option<&str>) -> Result<SetConfigOption, InvalidParams> {
    let params = object(params)?;
    let value = match params.get("value") {
        Some(Value::Bool(is_on)) => OptionValue::Switch(*is_on),
        Some(Value::String(choice)) => OptionValue::Choice(choice.clone()),
        None => return Err(invalid("`value` is required")),
        Some(_) => return Err(invalid("`value` must be a string, or a boolean for a switch")),
    };
    Ok(SetConfigOption {
        session_id: text(&params, "sessionId")?,
        config_id: text(&params, "configId")?,
        value,
    })
}

/// The parameters of `session/set_config_option`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetConfigOption {
    pub session_id: String,
    pub config_id: String,
    pub value: OptionValue,
}

/// A value of a configuration option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    Choice(String),
    Switch(bool),
}
