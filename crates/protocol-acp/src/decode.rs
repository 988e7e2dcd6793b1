//! Tolerant decoding of clients' messages: omitted lists, `null` parameters, unknown blocks and fields are
//! accepted.
//!
//! The published types refuse a whole request for one missing array (facts: ACP §5.4), so requests are decoded
//! here; answers use the published types.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{ext, schema};
use windlass_protocol::opencode::{event::EventKind, project::WorktreeChoice, session::ArchiveFilter};

mod fields;
mod options;
pub mod queue;

pub use fields::{InvalidParams, object};
use fields::{
    additional_directories, at, directory, invalid, is_true, offers, optional_text, text, working_directory,
};
use options::initial_options;
pub use options::{
    InitialOption, OptionValue, OptionsAhead, SetConfigOption, list_directory, options_ahead,
    set_config_option, subscription,
};

/// Version of the protocol that a connection speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    #[default]
    V1,
    /// The draft (facts: ACP §3).
    V2,
}

impl Version {
    /// Returns its number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// The fields of `initialize` that we act on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Initialize {
    /// The version that the client asked for.
    pub requested: u64,
    pub client: ClientCapabilities,
    /// Name and version of the client, for logs.
    pub client_name: Option<String>,
}

/// The client's capabilities. Absent or ill-typed ones count as missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// The version that is spoken, which decides the form of all that follows.
    pub version: Version,
    /// `auth.terminal`: the client starts the login by the method's arguments.
    pub terminal_auth: bool,
    /// The older `_meta["terminal-auth"]`: the method must carry its own command.
    pub legacy_terminal_auth: bool,
    /// `session.notices`.
    pub notices: bool,
    /// `session.compaction`: the client shows how far a compaction is.
    pub compaction: bool,
    /// `session.cursors`: the client knows places at which a session can be forked.
    pub cursors: bool,
    /// `subagents`: the client shows subagents as sessions of their own.
    pub subagents: bool,
    /// `plan`: the client shows plans by their ids.
    pub plans: bool,
    /// `elicitation.form`: the client shows forms.
    pub forms: bool,
    /// `elicitation.url`: the client opens pages.
    pub pages: bool,
    /// The way in which the client shows the output of our commands.
    pub terminals: Terminals,
    /// `_meta.jetbrains.air` with a version: the client knows the extensions of JetBrains.
    pub air: bool,
    /// Its capability `diffPatch`: changes carry a patch in Git's form.
    pub diff_patches: bool,
    /// `session.configOptions.boolean`: options may be switches.
    pub switches: bool,
    /// `fs.readTextFile`: the client gives texts of files as its editor has them.
    pub reads_files: bool,
    /// `fs.writeTextFile`: the client writes files in our place.
    pub writes_files: bool,
    /// OpenCode's events wanted as `_windlass/event`.
    pub events: EventChoice,
}

/// The way in which a client shows the output of our commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Terminals {
    /// As text of their calls, now and then.
    #[default]
    None,
    /// `_meta.terminal_output`: in terminals of its own, by that key (facts: ACP §1.6).
    Output,
    /// `_meta.terminal_output_delta`: the same by this key, as JetBrains has it.
    OutputDelta,
    /// By updates of terminals that are ours, as version 2 has them.
    Owned,
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

/// Decodes `initialize`: the highest version that is at most the requested one is spoken, version 1 where a client asks
/// for less, and the version that was `agreed` on before by a client that begins again (facts: ACP §3).
pub fn initialize(params: Option<&str>, agreed: Option<Version>) -> Result<Initialize, InvalidParams> {
    let params = object(params)?;
    let requested = match params.get("protocolVersion") {
        // Clients from before the first version name theirs by a text.
        None | Some(Value::Null | Value::String(_)) => 1,
        Some(version) => {
            version.as_u64().ok_or_else(|| invalid("`protocolVersion` must be a whole number"))?
        }
    };
    let version = agreed.unwrap_or(if requested >= 2 { Version::V2 } else { Version::V1 });
    let capabilities = params.get("clientCapabilities").or_else(|| params.get("capabilities"));
    let info = params.get("clientInfo").or_else(|| params.get("info"));
    let name = info.and_then(|it| it.get("name")).and_then(Value::as_str);
    let info_version = info.and_then(|it| it.get("version")).and_then(Value::as_str).unwrap_or("?");
    let mut client = match version {
        Version::V1 => first_version(capabilities),
        Version::V2 => second_version(capabilities),
    };
    // Zed declares it for the words of an earlier draft, and knows no other yet (facts: ACP §1.7).
    client.subagents &= version == Version::V2 || name != Some("zed");
    Ok(Initialize { requested, client, client_name: name.map(|name| format!("{name} {info_version}")) })
}

/// Reads the capabilities of a client of version 1.
fn first_version(capabilities: Option<&Value>) -> ClientCapabilities {
    let air = capabilities.and_then(|it| it.get("_meta")?.get("jetbrains")?.get("air"));
    let air = air.filter(|air| air["version"].as_u64().is_some_and(|version| version >= 1));
    let air_offers = |name: &str| {
        let listed = air.and_then(|air| air["capabilities"].as_array());
        listed.is_some_and(|names| names.iter().any(|it| it == name))
    };
    let terminals = if is_true(capabilities, &["_meta", "terminal_output_delta"]) {
        Terminals::OutputDelta
    } else if is_true(capabilities, &["_meta", "terminal_output"]) {
        Terminals::Output
    } else {
        Terminals::None
    };
    ClientCapabilities {
        version: Version::V1,
        terminal_auth: is_true(capabilities, &["auth", "terminal"]),
        notices: offers(capabilities, &["session", "notices"]),
        compaction: offers(capabilities, &["session", "compaction"]),
        cursors: offers(capabilities, &["session", "cursors"]),
        subagents: offers(capabilities, &["subagents"]),
        plans: offers(capabilities, &["plan"]),
        terminals,
        air: air.is_some(),
        diff_patches: air_offers("diffPatch"),
        switches: offers(capabilities, &["session", "configOptions", "boolean"]),
        reads_files: is_true(capabilities, &["fs", "readTextFile"]),
        writes_files: is_true(capabilities, &["fs", "writeTextFile"]),
        ..either_version(capabilities)
    }
}

/// Reads the capabilities of a client of version 2, where much of version 1 needs no capability and the editor's files
/// are not to be had.
fn second_version(capabilities: Option<&Value>) -> ClientCapabilities {
    ClientCapabilities {
        version: Version::V2,
        terminal_auth: offers(capabilities, &["auth", "terminal"]),
        notices: true,
        compaction: true,
        cursors: true,
        subagents: true,
        plans: true,
        terminals: Terminals::Owned,
        switches: true,
        ..either_version(capabilities)
    }
}

fn either_version(capabilities: Option<&Value>) -> ClientCapabilities {
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
    ClientCapabilities {
        legacy_terminal_auth: is_true(capabilities, &["_meta", "terminal-auth"]),
        forms: offers(capabilities, &["elicitation", "form"]),
        pages: offers(capabilities, &["elicitation", "url"]),
        events,
        ..ClientCapabilities::default()
    }
}

/// The parameters of `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    /// Absent for `session/new`, unless the client chose one by `_meta["windlass/sessionId"]`.
    pub session_id: Option<String>,
    /// A git worktree to work in, wished for by `_meta["windlass/worktree"]` of `session/new`.
    pub worktree: Option<WorktreeChoice>,
    pub cwd: String,
    /// Directories beside it that are the session's too.
    pub directories: Vec<String>,
    pub mcp_servers: Vec<McpServer>,
    pub system_prompt: Option<SystemPrompt>,
    /// Options that the session is to begin with, in this order.
    pub config_options: Vec<InitialOption>,
    /// Sentences about the entries of `mcpServers` that were not understood.
    pub skipped: Vec<String>,
}

/// A client's own instructions for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPrompt {
    /// They take the place of the agent's own.
    pub is_override: bool,
    pub text: String,
}

/// A server that the client wants the session to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpServer {
    Stdio {
        name: String,
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
    },
    Http {
        name: String,
        url: String,
        headers: BTreeMap<String, String>,
    },
    /// One that lives in the client.
    Acp {
        name: String,
        server_id: String,
    },
}

/// Decodes `session/new`.
pub fn new_session(params: Option<&str>) -> Result<OpenSession, InvalidParams> {
    let params = object(params)?;
    let session_id = match params.get("_meta").and_then(|it| it.get(ext::SESSION_ID)) {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(_) => return Err(invalid(format!("`_meta[\"{}\"]` must be a string", ext::SESSION_ID))),
    };
    let worktree = match params.get("_meta").and_then(|it| it.get(ext::WORKTREE)) {
        None | Some(Value::Null) => None,
        Some(Value::Bool(is_wanted)) => Some(WorktreeChoice::Any(*is_wanted)),
        Some(Value::String(name)) => Some(WorktreeChoice::Named(name.clone())),
        Some(_) => {
            return Err(invalid(format!("`_meta[\"{}\"]` must be a boolean or a name", ext::WORKTREE)));
        }
    };
    Ok(OpenSession { worktree, ..open_session(&params, session_id)? })
}

/// Decodes `session/load`, `session/resume` or `session/fork`.
pub fn existing_session(params: Option<&str>) -> Result<OpenSession, InvalidParams> {
    let params = object(params)?;
    let session_id = text(&params, "sessionId")?;
    open_session(&params, Some(session_id))
}

/// Returns true if `session/resume` of version 2 asks for the history, from its start; there is no other place that it
/// could begin at.
pub fn replays(params: Option<&str>) -> Result<bool, InvalidParams> {
    match object(params)?.get("replayFrom") {
        None | Some(Value::Null) => Ok(false),
        Some(from) if from["type"] == "start" => Ok(true),
        Some(_) => Err(invalid("`replayFrom` must be `{\"type\":\"start\"}`")),
    }
}

/// Returns true if `session/fork` names a cursor.
pub fn has_cursor(params: Option<&str>) -> bool {
    object(params).is_ok_and(|params| params.get("cursorId").is_some_and(Value::is_string))
}

/// Decodes the message before which `session/fork` is to end: a cursor, or an extension of ours.
pub fn fork_message(params: Option<&str>) -> Result<Option<String>, InvalidParams> {
    let params = object(params)?;
    match params.get("cursorId") {
        None | Some(Value::Null) => {}
        Some(Value::String(_)) if at(params.get("_meta"), &[ext::FORK_MESSAGE]).is_some() => {
            return Err(invalid(format!(
                "`cursorId` and `_meta[\"{}\"]` exclude each other",
                ext::FORK_MESSAGE
            )));
        }
        Some(Value::String(id)) => return Ok(Some(id.clone())),
        Some(_) => return Err(invalid("`cursorId` must be a string")),
    }
    match params.get("_meta").and_then(|it| it.get(ext::FORK_MESSAGE)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => Ok(Some(id.clone())),
        Some(_) => Err(invalid(format!("`_meta[\"{}\"]` must be a string", ext::FORK_MESSAGE))),
    }
}

fn open_session(
    params: &Map<String, Value>,
    session_id: Option<String>,
) -> Result<OpenSession, InvalidParams> {
    let cwd = working_directory(params)?;
    if params.get("mcpServers").is_some_and(|servers| !servers.is_array() && !servers.is_null()) {
        return Err(invalid("`mcpServers` must be a list"));
    }
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
    let (system_prompt, config_options) = (system_prompt(params)?, initial_options(params)?);
    Ok(OpenSession {
        session_id,
        worktree: None,
        cwd,
        directories,
        mcp_servers,
        system_prompt,
        config_options,
        skipped,
    })
}

/// Reads `systemPrompt`, of which nothing may be left out silently (facts: ACP §2).
fn system_prompt(params: &Map<String, Value>) -> Result<Option<SystemPrompt>, InvalidParams> {
    let given = match params.get("systemPrompt") {
        None | Some(Value::Null) => return Ok(None),
        Some(given) => given,
    };
    let is_override = match given["mode"].as_str() {
        Some("append") => false,
        Some("override") => true,
        _ => return Err(invalid("`systemPrompt.mode` must be `append` or `override`")),
    };
    let blocks = given["content"].as_array().filter(|blocks| !blocks.is_empty());
    let text = |block: &Value| Some(block["text"].as_str().filter(|_| block["type"] == "text")?.to_owned());
    let texts: Option<Vec<String>> = blocks.and_then(|blocks| blocks.iter().map(text).collect());
    match texts {
        Some(texts) => Ok(Some(SystemPrompt { is_override, text: texts.join("\n\n") })),
        None => Err(invalid("`systemPrompt.content` must be a list of text blocks")),
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
        // Which of the two a remote server speaks is found out.
        Some("http" | "sse") => {
            Ok(McpServer::Http { name, url: field("url")?, headers: pairs(object.get("headers")) })
        }
        Some("acp") => Ok(McpServer::Acp { name, server_id: field("serverId")? }),
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

/// Decodes `idempotencyKey` of `session/prompt` of version 2.
pub fn idempotency_key(params: Option<&str>) -> Result<Option<String>, InvalidParams> {
    match object(params)?.remove("idempotencyKey") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) if (1..=255).contains(&key.chars().count()) => Ok(Some(key)),
        Some(_) => Err(invalid("`idempotencyKey` must be a string of 1 to 255 characters")),
    }
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

/// The parameters of `providers/set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetProvider {
    pub provider_id: String,
    pub api_type: String,
    pub base_url: String,
    pub headers: BTreeMap<String, String>,
}

/// Decodes `providers/set`.
pub fn set_provider(params: Option<&str>) -> Result<SetProvider, InvalidParams> {
    let params = object(params)?;
    let base_url = text(&params, "baseUrl")?;
    if !base_url.starts_with("https://") && !base_url.starts_with("http://") {
        return Err(invalid("`baseUrl` must be an address that begins with https:// or http://"));
    }
    Ok(SetProvider {
        provider_id: text(&params, "providerId")?,
        api_type: text(&params, "apiType")?,
        base_url,
        headers: headers(params.get("headers"))?,
    })
}

/// Decodes headers of which none may be left out: one of them may be the key.
fn headers(value: Option<&Value>) -> Result<BTreeMap<String, String>, InvalidParams> {
    let wrong = || invalid("`headers` must be names of headers with texts of one line");
    let n_given = match value {
        None | Some(Value::Null) => 0,
        Some(Value::Object(fields)) => fields.len(),
        Some(Value::Array(items)) => items.len(),
        Some(_) => return Err(wrong()),
    };
    let headers = pairs(value);
    let is_name = |name: &String| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let is_sound = headers.iter().all(|(name, value)| is_name(name) && !value.contains(char::is_control));
    if headers.len() == n_given && is_sound { Ok(headers) } else { Err(wrong()) }
}

/// Decodes `providers/disable`.
pub fn disable_provider(params: Option<&str>) -> Result<String, InvalidParams> {
    text(&object(params)?, "providerId")
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

/// Decodes `$/cancel_request`: the id of the request to cancel.
pub fn cancelled_request(params: Option<&str>) -> Option<windlass_protocol::rpc::Id> {
    #[derive(Deserialize)]
    struct Raw {
        #[serde(rename = "requestId")]
        request_id: windlass_protocol::rpc::Id,
    }
    // An array is no object, though it could be read as one.
    object(params).ok()?;
    serde_json::from_str::<Raw>(params?).ok().map(|raw| raw.request_id)
}

/// Decodes `_windlass/permission/reply`.
pub fn permission_reply(params: Option<&str>) -> Result<ext::PermissionReply, InvalidParams> {
    let reply = object(params)?.get("reply").cloned();
    let reply = reply.as_ref().and_then(Value::as_str);
    if !matches!(reply, Some("once" | "always" | "reject" | "reject_always")) {
        return Err(invalid("`reply` must be `once`, `always`, `reject` or `reject_always`"));
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
    Declined,
    /// The form was closed, or the answer is unknown.
    Cancelled,
}

/// Decodes the client's answer to `elicitation/create`.
pub fn form_outcome(result: &str) -> Result<FormOutcome, InvalidParams> {
    let mut result = object(Some(result))?;
    let content = result.remove("content");
    match (result.get("action").and_then(Value::as_str), content) {
        (Some("accept"), Some(Value::Object(content))) => Ok(FormOutcome::Accepted(content)),
        (Some("accept"), None | Some(Value::Null)) => Ok(FormOutcome::Accepted(Map::new())),
        (Some("accept"), Some(_)) => Err(invalid("`content` must be an object")),
        (Some("decline"), _) => Ok(FormOutcome::Declined),
        (Some(_) | None, _) => Ok(FormOutcome::Cancelled),
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
