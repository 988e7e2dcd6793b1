//! Shapes of answers that their handlers write as JSON; an end-to-end test compares real answers with them.

use schemars::JsonSchema;
use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    id::{MessageId, PermissionId, SessionId},
    model_ref::ModelRef,
    permission::Rule,
    session::{SessionModel, SessionTime},
    tokens::Tokens,
};

/// Data with a shape that is described in words only.
pub type Any = Value;

macro_rules! shapes {
    ($($(#[$meta:meta])* $name:ident $(<$of:ident>)? { $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        #[derive(JsonSchema)]
        $(#[$meta])*
        pub struct $name $(<$of>)? { $($(#[$field_meta])* $field: $type),* }
    )*};
}

shapes! {
    /// No answer: status 204.
    Nothing {}
    /// Server-sent events.
    Stream {}
    /// No answer but a refusal: status 503.
    Unavailable {}
    /// A WebSocket.
    Socket {}
    /// Plain text.
    Text {}

    /// A refusal, in one of the forms that OpenCode's clients read: `{name, data}`, or `_tag` with fields beside it.
    Problem {
        name: Option<String>,
        data: Option<Map<String, Value>>,
        #[schemars(rename = "_tag")]
        tag: Option<String>,
        message: Option<String>,
    }

    #[schemars(inline)]
    Data<T> { data: T }
    #[schemars(inline)]
    Page<T> { data: T, cursor: Map<String, Value> }
    /// An answer about a directory.
    #[schemars(inline)]
    Envelope<T> { location: Place, data: T }
    Place { directory: String, project: PlaceProject }
    PlaceProject { id: String, directory: String }

    AgentInfo {
        name: String,
        description: Option<String>,
        /// `primary`, `subagent` or `all`.
        mode: String,
        native: bool,
        hidden: bool,
        permission: Vec<Rule>,
        options: Map<String, Value>,
        prompt: Option<String>,
        model: Option<ModelRef>,
        variant: Option<String>,
        temperature: Option<f64>,
        #[schemars(rename = "topP")]
        top_p: Option<f64>,
        steps: Option<u32>,
        color: Option<String>,
    }
    CommandInfo {
        name: String,
        description: Option<String>,
        agent: Option<String>,
        model: Option<String>,
        /// `command`, `mcp` or `skill`.
        source: String,
        template: String,
        subtask: Option<bool>,
        hints: Vec<String>,
    }
    SkillInfo { name: String, description: String, location: String, content: String }
    ToolInfo { id: String, description: String, parameters: Map<String, Value> }
    FormatterInfo { name: String, extensions: Vec<String>, enabled: bool }
    LanguageServer {
        id: String,
        name: String,
        root: String,
        /// `connected` or `error`.
        status: String,
    }
    McpState {
        /// `connected`, `disabled`, `failed`, `needs_auth` or `needs_client_registration`.
        status: String,
        error: Option<String>,
    }
    #[schemars(rename_all = "camelCase")]
    McpLogin { authorization_url: String, oauth_state: String }
    Success { success: bool }
    Applied { applied: bool }
    Healthy { healthy: bool }
    Health { healthy: bool, version: String }
    #[schemars(rename_all = "camelCase")]
    Capabilities { background_subagents: bool }
    #[schemars(rename_all = "camelCase")]
    Console { console_managed_providers: Vec<String>, switchable_org_count: u64 }
    Organisations { orgs: Vec<Any> }
    Adapter { #[schemars(rename = "type")] kind: String, name: String, description: String }
    JobInfo {
        id: String,
        command: String,
        description: String,
        /// Milliseconds since the epoch.
        started: i64,
        /// The sentence that says how it ended; null while it runs.
        end: Option<String>,
    }
    Paths { home: String, state: String, config: String, worktree: String, directory: String }
    ProjectDirectory { directory: String }
    LoginMethod { #[schemars(rename = "type")] kind: String, label: String, prompts: Option<Vec<Any>> }
    LoginPage {
        url: String,
        /// `auto`: the login ends by itself; `code`: the page shows a code.
        method: String,
        instructions: String,
    }

    AgentView {
        id: String,
        description: Option<String>,
        request: RequestView,
        mode: String,
        hidden: bool,
        permissions: Vec<RuleView>,
    }
    RequestView { headers: Map<String, Value>, body: Map<String, Value> }
    RuleView { action: String, resource: String, effect: String }
    SessionView {
        id: SessionId,
        #[schemars(rename = "projectID")]
        project_id: String,
        #[schemars(rename = "parentID")]
        parent_id: Option<SessionId>,
        agent: Option<String>,
        model: Option<SessionModel>,
        cost: f64,
        tokens: Tokens,
        time: SessionTime,
        title: String,
        location: LocationView,
        subpath: Option<String>,
    }
    LocationView { directory: String }
    Running { #[schemars(rename = "type")] kind: String }
    Admitted {
        #[schemars(rename = "admittedSeq")]
        admitted_seq: u64,
        id: MessageId,
        #[schemars(rename = "sessionID")]
        session_id: SessionId,
        prompt: WordsView,
        /// `steer` or `queue`.
        delivery: String,
        #[schemars(rename = "timeCreated")]
        time_created: i64,
    }
    WordsView { text: String }
    WaitingView {
        id: String,
        #[schemars(rename = "sessionID")]
        session_id: SessionId,
        time: CreatedView,
        #[schemars(rename = "type")]
        kind: String,
        payload: WordsView,
        delivery: String,
        parked: bool,
    }
    CreatedView { created: i64 }
    PermissionView {
        id: PermissionId,
        #[schemars(rename = "sessionID")]
        session_id: SessionId,
        action: String,
        resources: Vec<String>,
        save: Option<Vec<String>>,
        metadata: Option<Map<String, Value>>,
        source: Option<Map<String, Value>>,
    }
    /// A message: the user's has `text` and `files`, the model's the others.
    MessageView {
        id: MessageId,
        /// `user` or `assistant`.
        #[schemars(rename = "type")]
        kind: String,
        time: Map<String, Value>,
        text: Option<String>,
        files: Option<Vec<Any>>,
        agent: Option<String>,
        model: Option<Map<String, Value>>,
        /// Texts, thoughts and calls of tools.
        content: Option<Vec<Map<String, Value>>>,
        cost: Option<f64>,
        tokens: Option<Tokens>,
        finish: Option<String>,
        error: Option<Map<String, Value>>,
    }
    ModelView {
        id: String,
        #[schemars(rename = "providerID")]
        provider_id: String,
        family: String,
        name: String,
        api: Map<String, Value>,
        capabilities: CapabilitiesView,
        request: RequestView,
        variants: Vec<Any>,
        time: Map<String, Value>,
        cost: Vec<Any>,
        status: String,
        enabled: bool,
        limit: Map<String, Value>,
    }
    CapabilitiesView { tools: bool, input: Vec<String>, output: Vec<String> }
    ProviderView { id: String, name: String, api: Map<String, Value>, request: RequestView }
    Integration { id: String, name: String, methods: Vec<Any>, connections: Vec<Any> }
    #[schemars(rename_all = "camelCase")]
    LoginAttempt { #[schemars(rename = "attemptID")] attempt_id: String, url: Option<String> }
    PathView {
        path: String,
        /// `file` or `directory`.
        #[schemars(rename = "type")]
        kind: String,
    }
}
