//! Tolerant decoding of clients' messages: omitted lists, `null` parameters, unknown blocks and fields are
//! accepted.
//!
//! The published types refuse a whole request for one missing array (facts: ACP §5.4), so requests are decoded
//! here; answers use the published types.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{ext, schema};
use crate::opencode::{event::EventKind, session::ArchiveFilter};

/// The error for unusable parameters, with the reason for the client's developer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidParams(pub String);

fn invalid(message: impl Into<String>) -> InvalidParams {
    InvalidParams(message.into())
}

/// Parses an object; absent and `null` parameters count as an empty one.
pub fn object(params: Option<&str>) -> Result<Map<String, Value>, InvalidParams> {
    match params {
        None => Ok(Map::new()),
        Some(text) => match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(Value::Null) => Ok(Map::new()),
            Ok(Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_)) | Err(_) => {
                Err(invalid("params must be an object"))
            }
        },
    }
}

fn text(object: &Map<String, Value>, key: &str) -> Result<String, InvalidParams> {
    match object.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(invalid(format!("`{key}` must be a string"))),
        None => Err(invalid(format!("`{key}` is required"))),
    }
}

fn optional_text(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// Returns true if a capability is offered: by `true` or an object, not by a value of another type.
fn has(object: Option<&Value>, path: &[&str]) -> bool {
    let found = path.iter().try_fold(object, |at, key| Some(at?.get(key)));
    match found.flatten() {
        Some(Value::Bool(true) | Value::Object(_)) => true,
        None
        | Some(Value::Null | Value::Bool(false) | Value::Array(_) | Value::Number(_) | Value::String(_)) => {
            false
        }
    }
}

/// The fields of `initialize` that we act on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Initialize {
    pub client: ClientCapabilities,
    /// Name and version of the client, for logs.
    pub client_name: Option<String>,
}

/// The client's capabilities. Absent or ill-typed ones count as missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// `auth.terminal`, or the older `_meta["terminal-auth"]`.
    pub terminal_auth: bool,
    /// Only the older `_meta["terminal-auth"]`: the method must carry its own command.
    pub legacy_terminal_auth: bool,
    /// `session.notices`.
    pub notices: bool,
    /// `session.compaction`: the client shows how far a compaction is.
    pub compaction: bool,
    /// `elicitation.form`: the client shows forms.
    pub forms: bool,
    /// `_meta.terminal_output`: the client shows the output of our commands in terminals of its own (facts: ACP
    /// §1.6).
    pub terminal_output: bool,
    /// `fs.readTextFile`: the client gives texts of files as its editor has them.
    pub reads_files: bool,
    /// `fs.writeTextFile`: the client writes files in our place.
    pub writes_files: bool,
    /// OpenCode's events wanted as `_windlass/event`.
    pub events: EventChoice,
}

/// The client's choice among OpenCode's events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EventChoice {
    #[default]
    None,
    All,
    Only(Vec<EventKind>),
}

impl EventChoice {
    /// Returns true if the client wants events of this kind.
    pub fn wants(&self, kind: EventKind) -> bool {
        match self {
            EventChoice::None => false,
            EventChoice::All => true,
            EventChoice::Only(kinds) => kinds.contains(&kind),
        }
    }
}

/// Decodes `initialize`, in its v1 form or the v2-shaped one (`info`, `capabilities`; facts: ACP §3).
pub fn initialize(params: Option<&str>) -> Result<Initialize, InvalidParams> {
    let params = object(params)?;
    if params.get("protocolVersion").is_some_and(|version| !version.is_u64()) {
        return Err(invalid("`protocolVersion` must be a whole number"));
    }
    let capabilities = params.get("clientCapabilities").or_else(|| params.get("capabilities"));
    let info = params.get("clientInfo").or_else(|| params.get("info"));
    let legacy_terminal_auth = has(capabilities, &["_meta", "terminal-auth"]);
    let events = match capabilities.and_then(|it| it.get("_meta")).and_then(|it| it.get(ext::EVENTS)) {
        Some(Value::Bool(true)) => EventChoice::All,
        Some(Value::Array(names)) => EventChoice::Only(
            names.iter().filter_map(Value::as_str).filter_map(EventKind::from_name).collect(),
        ),
        None
        | Some(Value::Null | Value::Bool(false) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            EventChoice::None
        }
    };
    let name = info.and_then(|it| it.get("name")).and_then(Value::as_str);
    let version = info.and_then(|it| it.get("version")).and_then(Value::as_str).unwrap_or("?");
    Ok(Initialize {
        client: ClientCapabilities {
            terminal_auth: has(capabilities, &["auth", "terminal"]) || legacy_terminal_auth,
            legacy_terminal_auth,
            notices: has(capabilities, &["session", "notices"]),
            compaction: has(capabilities, &["session", "compaction"]),
            forms: has(capabilities, &["elicitation", "form"]),
            terminal_output: has(capabilities, &["_meta", "terminal_output"]),
            // Version 2 has no such requests, so that its form offers none.
            reads_files: has(params.get("clientCapabilities"), &["fs", "readTextFile"]),
            writes_files: has(params.get("clientCapabilities"), &["fs", "writeTextFile"]),
            events,
        },
        client_name: name.map(|name| format!("{name} {version}")),
    })
}

/// The parameters of `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    /// Absent for `session/new`, unless the client chose one by `_meta["windlass/sessionId"]`.
    pub session_id: Option<String>,
    pub cwd: String,
    /// Directories beside it that are the session's too.
    pub directories: Vec<String>,
    pub mcp_servers: Vec<McpServer>,
    /// Sentences about the entries of `mcpServers` that were not understood.
    pub skipped: Vec<String>,
}

/// A server that the client wants the session to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpServer {
    Stdio { name: String, command: String, args: Vec<String>, env: BTreeMap<String, String> },
    Http { name: String, url: String, headers: BTreeMap<String, String> },
}

/// Decodes `session/new`.
pub fn new_session(params: Option<&str>) -> Result<OpenSession, InvalidParams> {
    let params = object(params)?;
    let session_id = match params.get("_meta").and_then(|it| it.get(ext::SESSION_ID)) {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(_) => return Err(invalid(format!("`_meta[\"{}\"]` must be a string", ext::SESSION_ID))),
    };
    open_session(&params, session_id)
}

/// Decodes `session/load`, `session/resume` or `session/fork`.
pub fn existing_session(params: Option<&str>) -> Result<OpenSession, InvalidParams> {
    let params = object(params)?;
    let session_id = text(&params, "sessionId")?;
    open_session(&params, Some(session_id))
}

/// Decodes the message before which `session/fork` is to end, an extension of ours.
pub fn fork_message(params: Option<&str>) -> Result<Option<String>, InvalidParams> {
    match object(params)?.get("_meta").and_then(|it| it.get(ext::FORK_MESSAGE)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => Ok(Some(id.clone())),
        Some(_) => Err(invalid(format!("`_meta[\"{}\"]` must be a string", ext::FORK_MESSAGE))),
    }
}

fn open_session(
    params: &Map<String, Value>,
    session_id: Option<String>,
) -> Result<OpenSession, InvalidParams> {
    let cwd = text(params, "cwd")?;
    if !cwd.starts_with('/') {
        return Err(invalid(format!("`cwd` must be an absolute path, not `{cwd}`")));
    }
    if params.get("mcpServers").is_some_and(|servers| !servers.is_array() && !servers.is_null()) {
        return Err(invalid("`mcpServers` must be a list"));
    }
    let cwd = directory(&cwd).to_owned();
    let mut mcp_servers = Vec::new();
    let mut skipped = Vec::new();
    for (index, server) in
        params.get("mcpServers").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        match mcp_server(server) {
            Ok(server) => mcp_servers.push(server),
            Err(reason) => skipped.push(format!("mcpServers[{index}] is ignored: {reason}")),
        }
    }
    let directories = additional_directories(params)?;
    Ok(OpenSession { session_id, cwd, directories, mcp_servers, skipped })
}

fn additional_directories(params: &Map<String, Value>) -> Result<Vec<String>, InvalidParams> {
    let wrong = || invalid("`additionalDirectories` must be a list of absolute paths");
    let listed = match params.get("additionalDirectories") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(listed) => listed.as_array().ok_or_else(wrong)?,
    };
    let path = |it: &Value| it.as_str().filter(|it| it.starts_with('/')).map(|it| directory(it).to_owned());
    listed.iter().map(|it| path(it).ok_or_else(wrong)).collect()
}

/// Removes the slashes at the end of a directory, so that it has one name.
fn directory(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        path => path,
    }
}

fn mcp_server(server: &Value) -> Result<McpServer, String> {
    let object = server.as_object().ok_or("not an object")?;
    let field = |key: &str| optional_text(object, key).ok_or_else(|| format!("`{key}` is missing"));
    let name = field("name")?;
    match object.get("type").and_then(Value::as_str) {
        None | Some("stdio") => Ok(McpServer::Stdio {
            name,
            command: field("command")?,
            args: strings(object.get("args")),
            env: pairs(object.get("env")),
        }),
        Some("http") => {
            Ok(McpServer::Http { name, url: field("url")?, headers: pairs(object.get("headers")) })
        }
        Some(other) => Err(format!("transport `{other}` of server `{name}` is not supported")),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Decodes `[{name, value}]`; also accepts an object of strings.
fn pairs(value: Option<&Value>) -> BTreeMap<String, String> {
    match value {
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(|item| {
                Some((item.get("name")?.as_str()?.to_owned(), item.get("value")?.as_str()?.to_owned()))
            })
            .collect(),
        Some(Value::Object(items)) => items
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => BTreeMap::new(),
    }
}

/// The parameters of `session/prompt`.
#[derive(Debug)]
pub struct Prompt {
    pub session_id: String,
    pub blocks: Vec<schema::ContentBlock>,
    /// Sentences about the blocks that were not understood.
    pub skipped: Vec<String>,
}

/// Decodes `session/prompt`. A block of an unknown type is left out, not an error.
pub fn prompt(params: Option<&str>) -> Result<Prompt, InvalidParams> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(rename = "sessionId")]
        session_id: String,
        #[serde(borrow, default)]
        prompt: Option<Vec<&'a RawValue>>,
    }
    let raw: Raw<'_> =
        serde_json::from_str(params.unwrap_or("{}")).map_err(|error| invalid(format!("prompt: {error}")))?;
    let mut blocks = Vec::new();
    let mut skipped = Vec::new();
    let prompt = raw.prompt.ok_or_else(|| invalid("`prompt` is required"))?;
    for (index, block) in prompt.into_iter().enumerate() {
        match serde_json::from_str(block.get()) {
            Ok(block) => blocks.push(block),
            Err(error) => skipped.push(format!("prompt[{index}] is ignored: {error}")),
        }
    }
    Ok(Prompt { session_id: raw.session_id, blocks, skipped })
}

/// The parameters of `session/list`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListSessions {
    pub cwd: Option<String>,
    pub cursor: Option<String>,
    pub archived: ArchiveFilter,
}

/// Decodes `session/list`.
pub fn list_sessions(params: Option<&str>) -> Result<ListSessions, InvalidParams> {
    let params = object(params)?;
    let field = |key: &str| match params.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => text(&params, key).map(Some),
    };
    let cwd = field("cwd")?;
    if let Some(cwd) = cwd.as_deref().filter(|cwd| !cwd.starts_with('/')) {
        return Err(invalid(format!("`cwd` must be an absolute path, not `{cwd}`")));
    }
    let cwd = cwd.map(|cwd| directory(&cwd).to_owned());
    let archived = match field("archived")?.as_deref() {
        None | Some("exclude") => ArchiveFilter::Exclude,
        Some("include") => ArchiveFilter::Include,
        Some("only") => ArchiveFilter::Only,
        Some(other) => {
            return Err(invalid(format!("`archived` is `exclude`, `include` or `only`, not `{other}`")));
        }
    };
    Ok(ListSessions { cwd, cursor: field("cursor")?, archived })
}

/// Decodes `session/set_title`: the session and its title.
pub fn set_title(params: Option<&str>) -> Result<(String, String), InvalidParams> {
    let params = object(params)?;
    Ok((text(&params, "sessionId")?, text(&params, "title")?))
}

/// Decodes the `sessionId` of any request.
pub fn session_id(params: Option<&str>) -> Result<String, InvalidParams> {
    text(&object(params)?, "sessionId")
}

/// Returns the `sessionId` of a message, or for `session/new` the id it wants, without decoding the rest.
pub fn named_session(params: Option<&str>) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "sessionId", default)]
        session_id: Option<String>,
        #[serde(rename = "_meta", default)]
        meta: Option<Map<String, Value>>,
    }
    let named: Named = serde_json::from_str(params?).ok()?;
    let wanted = || named.meta?.get(ext::SESSION_ID)?.as_str().map(str::to_owned);
    named.session_id.or_else(wanted)
}

/// Decodes `authenticate`.
pub fn method_id(params: Option<&str>) -> Result<String, InvalidParams> {
    text(&object(params)?, "methodId")
}

/// Decodes `session/set_mode`: session and mode.
pub fn set_mode(params: Option<&str>) -> Result<(String, String), InvalidParams> {
    let params = object(params)?;
    Ok((text(&params, "sessionId")?, text(&params, "modeId")?))
}

/// Decodes the older `session/set_model`: session and model.
pub fn set_model(params: Option<&str>) -> Result<(String, String), InvalidParams> {
    let params = object(params)?;
    Ok((text(&params, "sessionId")?, text(&params, "modelId")?))
}

/// Decodes `session/set_config_option`: session, option and value.
pub fn set_config_option(params: Option<&str>) -> Result<(String, String, String), InvalidParams> {
    let params = object(params)?;
    Ok((text(&params, "sessionId")?, text(&params, "configId")?, text(&params, "value")?))
}

/// Decodes `$/cancel_request`: the id of the request to cancel.
pub fn cancelled_request(params: Option<&str>) -> Option<crate::rpc::Id> {
    #[derive(Deserialize)]
    struct Raw {
        #[serde(rename = "requestId")]
        request_id: crate::rpc::Id,
    }
    serde_json::from_str::<Raw>(params?).ok().map(|raw| raw.request_id)
}

/// Decodes `_windlass/permission/reply`.
pub fn permission_reply(params: Option<&str>) -> Result<ext::PermissionReply, InvalidParams> {
    let reply = object(params)?.get("reply").cloned();
    if !matches!(reply.as_ref().and_then(Value::as_str), Some("once" | "always" | "reject")) {
        return Err(invalid("`reply` must be `once`, `always` or `reject`"));
    }
    serde_json::from_str(params.unwrap_or("{}")).map_err(|error| invalid(error.to_string()))
}

/// Decodes `_windlass/question/reply` and `_windlass/question/reject`.
pub fn question_reply(params: Option<&str>) -> Result<ext::QuestionReply, InvalidParams> {
    serde_json::from_str(params.unwrap_or("{}")).map_err(|error| invalid(error.to_string()))
}

/// The user's answer to a form.
#[derive(Debug, Clone, PartialEq)]
pub enum FormOutcome {
    /// The form was sent; the fields by name.
    Accepted(Map<String, Value>),
    /// The form was closed or declined, or the answer is unknown.
    Refused,
}

/// Decodes the client's answer to `elicitation/create`.
pub fn form_outcome(result: &str) -> Result<FormOutcome, InvalidParams> {
    let mut result = object(Some(result))?;
    let content = result.remove("content");
    match (result.get("action").and_then(Value::as_str), content) {
        (Some("accept"), Some(Value::Object(content))) => Ok(FormOutcome::Accepted(content)),
        (Some("accept"), None | Some(Value::Null)) => Ok(FormOutcome::Accepted(Map::new())),
        (Some("accept"), Some(_)) => Err(invalid("`content` must be an object")),
        (Some(_) | None, _) => Ok(FormOutcome::Refused),
    }
}

/// Decodes the client's answer to `session/request_permission`: the chosen option, or `None` for cancelled.
pub fn permission_outcome(result: &str) -> Result<Option<String>, InvalidParams> {
    let outcome = object(Some(result))?;
    let outcome = outcome.get("outcome");
    match outcome.and_then(|it| it.get("outcome")).and_then(Value::as_str) {
        Some("selected") => {
            let option = outcome.and_then(|it| it.get("optionId")).and_then(Value::as_str);
            option.map(|it| Some(it.to_owned())).ok_or_else(|| invalid("`optionId` is missing"))
        }
        // Only a named choice is an approval; any unknown answer counts as cancelled.
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
