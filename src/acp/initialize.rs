//! `initialize`: our name, our capabilities and how to give us a key.

use jsonrpsee::types::ErrorObjectOwned;
use serde_json::{Map, Value, json};
use windlass_base::sandbox::{self, Found};
use windlass_protocol::rpc::code;
use windlass_protocol_acp::{
    decode::{self, ClientCapabilities, Version},
    ext,
    schema::{
        AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodTerminal,
        AuthStatusCapabilities, Implementation, InitializeResponse, LogoutCapabilities, McpCapabilities,
        PromptCapabilities, ProvidersCapabilities, SessionAdditionalDirectoriesCapabilities,
        SessionArchiveCapabilities, SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities,
        SessionForkCapabilities, SessionListCapabilities, SessionOptionsCapabilities,
        SessionResumeCapabilities, SessionStatusCapabilities, SessionSystemPromptCapabilities,
        SessionSystemPromptModeCapabilities, SessionSystemPromptOverrideCapabilities,
        SessionTitleCapabilities,
    },
    version::ProtocolVersion,
};

use super::{
    auth::{AGENT_METHOD, TERMINAL_METHOD},
    call::Call,
    connection::{Connection, Reply},
    error::invalid_params,
    outbox::Responder,
    v2::agent,
};

pub fn initialize(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let agreed = connection.client().map(|client| client.version);
    let request = decode::initialize(params, agreed).map_err(|reason| invalid_params(&reason))?;
    let client_name = request.client_name.as_deref().unwrap_or("an unnamed client");
    tracing::info!(client = client_name, "initialize");
    let methods = auth_methods(&request.client, &connection.options.login_command);
    let version = request.client.version;
    if version == Version::V2 && request.requested < 2 {
        let data = json!({ "requested": request.requested, "supported": [version.number()] });
        let message = "Unsupported protocol version: this connection speaks version 2 already.";
        return Err(ErrorObjectOwned::owned(code::UNSUPPORTED_VERSION, message, Some(data)));
    }
    let mut meta = Map::from_iter([("steering".to_owned(), json!({"supported": true}))]);
    if request.client.air {
        meta.insert("jetbrains".to_owned(), air());
    }
    connection.set_client(request.client);
    connection.greeting = params.and_then(|it| serde_json::from_str(it).ok());
    call.spawn(connection, None, async move {
        let found = sandbox::level().await;
        let response = InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities(found))
            .auth_methods(methods)
            .agent_info(
                Implementation::new("windlass", env!("CARGO_PKG_VERSION")).title("windlass".to_owned()),
            )
            .meta(meta);
        Ok(Box::new(move |_: &mut Connection, responder: Responder| match version {
            Version::V1 => responder.succeed(&response),
            Version::V2 => responder.succeed(&agent::initialized(&response)),
        }) as Reply)
    })
}

/// Returns the extensions of JetBrains that we know.
fn air() -> Value {
    json!({ "air": {"version": 1, "capabilities": ["diffPatch"]} })
}

fn capabilities(found: &Found) -> AgentCapabilities {
    let modes =
        SessionSystemPromptModeCapabilities::new().override_(SessionSystemPromptOverrideCapabilities::new());
    let system_prompt = SessionSystemPromptCapabilities::new().mode(modes);
    let session = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new())
        .archive(SessionArchiveCapabilities::new())
        .status(SessionStatusCapabilities::new())
        .title(SessionTitleCapabilities::new())
        .system_prompt(system_prompt)
        .options(SessionOptionsCapabilities::new());
    let extensions = [
        ext::EVENTS,
        ext::SESSION_ID,
        ext::WORKTREE,
        ext::FORK_MESSAGE,
        ext::PERMISSION_REPLY_META,
        ext::QUESTION_REPLY_META,
        ext::QUEUE_META,
        ext::SHARE,
    ];
    let mut extensions: Map<String, Value> =
        extensions.into_iter().map(|name| (name.to_owned(), json!(true))).collect();
    let sandbox = ext::Sandbox { level: found.level.name(), reason: found.reason.as_deref() };
    extensions.insert(ext::SANDBOX.to_owned(), json!(sandbox));
    // A prompt for a session at work waits for its turn.
    extensions.insert("claudeCode".to_owned(), json!({"promptQueueing": true}));
    AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true).sse(true).acp(true))
        .providers(ProvidersCapabilities::new())
        .session_capabilities(session)
        .auth(
            AgentAuthCapabilities::new()
                .logout(LogoutCapabilities::new())
                .status(AuthStatusCapabilities::new()),
        )
        .meta(extensions)
}

fn auth_methods(client: &ClientCapabilities, login: &[String]) -> Vec<AuthMethod> {
    let by_key = AuthMethodAgent::new(AGENT_METHOD, "Use a provider key").description(
        "Set ANTHROPIC_API_KEY or OPENAI_API_KEY (and OPENAI_BASE_URL for another server) in the environment \
         of the editor, run `windlass auth login` in a terminal, or add a `provider` to opencode.json. \
         Choosing this reads the keys again."
            .to_owned(),
    );
    let mut methods = vec![AuthMethod::Agent(by_key)];
    if client.terminal_auth || client.legacy_terminal_auth {
        let mut by_login = AuthMethodTerminal::new(TERMINAL_METHOD, "Log in at a provider")
            .description(
                "Logs in by browser, by a code or with a key, in a terminal, and stores the login."
                    .to_owned(),
            )
            .args(vec!["--login".to_owned()]);
        if client.legacy_terminal_auth
            && let Some((program, args)) = login.split_first()
        {
            let command = json!({ "command": program, "args": args, "label": "windlass login" });
            by_login = by_login.meta(Map::from_iter([("terminal-auth".to_owned(), command)]));
        }
        methods.push(AuthMethod::Terminal(by_login));
    }
    methods
}
