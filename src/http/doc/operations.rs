//! The operations of the API that are served: one table for each group, with the types of their queries and bodies.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use windlass_protocol::opencode::{
    config::{AuthEntry, ConfigFile},
    file::{FileContent, FileNode, FileStatus, LineMatch, Symbol},
    file_diff::FileDiff,
    message::MessageWithParts,
    part::Part,
    project::{Project, ProjectUpdate, VcsFile, VcsInfo, Worktree, WorktreeCreate},
    provider::{AllProviders, UsableProviders},
    pty::{Pty, PtyCreate, PtyTicket, PtyUpdate, Shell},
    question::QuestionRequest,
    service::ServiceNews,
    session::{Revert, Session, SessionStatus, Todo},
};

use super::answers::*;
use crate::http::{
    api, api_key, api_login, api_message, api_session, api_work, ask, experimental, files, history, inbox,
    message, prompt, provider, services, session, session_access, tui, vcs,
};

/// An operation: a method on a path.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub id: &'static str,
    pub summary: &'static str,
    pub query: Option<Make>,
    pub request: Option<Make>,
    pub response: Make,
    /// The name of the answer's type.
    pub answer: fn() -> Cow<'static, str>,
}

/// Makes the schema of a type.
type Make = fn(&mut SchemaGenerator) -> Schema;

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    // Bodies of single operations have names that others have too.
    let is_alone = T::schema_name().ends_with("Body") || T::schema_name().ends_with("Params");
    if is_alone { T::json_schema(generator) } else { generator.subschema_for::<T>() }
}

macro_rules! operations {
    ($($name:ident { $(
        $method:ident $path:literal $id:literal $summary:literal $([$query:ty])? $(($request:ty))? -> $response:ty;
    )* })*) => {
        $(const $name: &[Operation] = &[$(Operation {
            method: stringify!($method),
            path: $path,
            id: $id,
            summary: $summary,
            query: operations!(@optional $($query)?),
            request: operations!(@optional $($request)?),
            response: of::<$response>,
            answer: <$response>::schema_name,
        }),*];)*

        /// Every group.
        pub const GROUPS: &[&[Operation]] = &[$($name),*];
    };
    (@optional) => { None };
    (@optional $of:ty) => { Some(of::<$of>) };
}

operations! {
    AGENT {
        get "/agent" "app.agents" "Lists the agents." -> Vec<AgentInfo>;
    }
    API {
        get "/api/health" "v2.health.get" "Says that the server runs." -> Healthy;
        get "/api/location" "v2.location.get" "Shows the directory that a request selects." -> Place;
        get "/api/agent" "v2.agent.list" "Lists the agents." -> Envelope<Vec<AgentView>>;
        get "/api/session" "v2.session.list" "Lists sessions, the newest first." [api_session::ListParams] -> Page<Vec<SessionView>>;
        get "/api/session/active" "v2.session.active" "Lists the sessions that work." -> Data<BTreeMap<String, Running>>;
        get "/api/session/{sessionID}" "v2.session.get" "Shows a session." -> Data<SessionView>;
        post "/api/session" "v2.session.create" "Makes a session." (api_work::CreateBody) -> Data<SessionView>;
        post "/api/session/{sessionID}/agent" "v2.session.switchAgent" "Chooses the agent of the next prompts." (api_work::AgentBody) -> Nothing;
        post "/api/session/{sessionID}/model" "v2.session.switchModel" "Chooses the model of the next prompts." (api_work::ModelBody) -> Nothing;
        post "/api/session/{sessionID}/prompt" "v2.session.prompt" "Gives the session a prompt, and answers at once. The same id again is the same prompt." (api_work::AdmitBody) -> Data<Admitted>;
        post "/api/session/{sessionID}/interrupt" "v2.session.interrupt" "Stops the turn that runs." -> Nothing;
        get "/api/session/{sessionID}/inbox" "v2.session.inbox.list" "Lists the prompts that wait." -> Data<Vec<WaitingView>>;
        patch "/api/session/{sessionID}/inbox/{inboxID}" "v2.session.inbox.update" "Changes a prompt that waits: its words, or the time at which it is read." (inbox::Change) -> Nothing;
        delete "/api/session/{sessionID}/inbox/{inboxID}" "v2.session.inbox.cancel" "Withdraws a prompt that waits." -> Nothing;
        post "/api/session/{sessionID}/wake" "v2.session.wake" "Lets parked prompts go on." -> Nothing;
        post "/api/session/{sessionID}/compact" "v2.session.compact" "Is not offered; `summarize` shortens a conversation." -> Unavailable;
        post "/api/session/{sessionID}/wait" "v2.session.wait" "Is not offered; events tell when a session is idle." -> Unavailable;
        post "/api/session/{sessionID}/revert/stage" "v2.session.revert.stage" "Takes back a message, all that follow, and their changes of files." (api_work::RevertBody) -> Data<Revert>;
        post "/api/session/{sessionID}/revert/clear" "v2.session.revert.clear" "Brings back what was taken back." -> Nothing;
        get "/api/session/{sessionID}/permission" "v2.session.permission.list" "Lists the permissions that a session waits for." -> Data<Vec<PermissionView>>;
        get "/api/session/{sessionID}/permission/{requestID}" "v2.session.permission.get" "Shows a permission that is waited for." -> Data<PermissionView>;
        post "/api/session/{sessionID}/permission/{requestID}/reply" "v2.session.permission.reply" "Answers whether a call may run." (api_work::ReplyBody) -> Nothing;
        get "/api/session/{sessionID}/question" "v2.session.question.list" "Lists the questions that a session waits for." -> Data<Vec<QuestionRequest>>;
        post "/api/session/{sessionID}/question/{requestID}/reply" "v2.session.question.reply" "Answers questions: the chosen labels, or texts, of each." (api_work::AnswerBody) -> Nothing;
        post "/api/session/{sessionID}/question/{requestID}/reject" "v2.session.question.reject" "Refuses to answer questions." -> Nothing;
        get "/api/session/{sessionID}/message" "v2.session.messages" "Lists a session's messages." [api_message::ListParams] -> Page<Vec<MessageView>>;
        get "/api/session/{sessionID}/message/{messageID}" "v2.session.message" "Shows a message." -> Data<MessageView>;
        get "/api/session/{sessionID}/context" "v2.session.context" "Lists the messages that the model reads." -> Data<Vec<MessageView>>;
        get "/api/model" "v2.model.list" "Lists the models that can be used." -> Envelope<Vec<ModelView>>;
        get "/api/provider" "v2.provider.list" "Lists the providers that can be used." -> Envelope<Vec<ProviderView>>;
        get "/api/integration" "v2.integration.list" "Lists the known providers with the ways to log in." -> Envelope<Vec<Integration>>;
        get "/api/integration/{integrationID}" "v2.integration.get" "Shows a provider with the ways to log in." -> Envelope<Integration>;
        post "/api/integration/{integrationID}/connect/key" "v2.integration.connect.key" "Stores a provider's key." (api_key::KeyBody) -> Nothing;
        post "/api/integration/{integrationID}/connect/oauth" "v2.integration.connect.oauth" "Begins a login." (api_login::BeginBody) -> Envelope<LoginAttempt>;
        get "/api/integration/attempt/{attemptID}" "v2.integration.attempt.status" "Shows how a login goes." -> Envelope<Any>;
        delete "/api/integration/attempt/{attemptID}" "v2.integration.attempt.cancel" "Gives a login up." -> Nothing;
        post "/api/integration/attempt/{attemptID}/complete" "v2.integration.attempt.complete" "Gives a login the code that its page shows, and waits for its end." (api_login::CompleteBody) -> Nothing;
        delete "/api/credential/{credentialID}" "v2.credential.remove" "Removes a provider's key or login." -> Nothing;
        get "/api/event" "v2.event.subscribe" "Streams the events of all sessions." -> Stream;
        get "/api/permission/request" "v2.permission.request.list" "Lists the permissions that sessions of the directory wait for." -> Envelope<Vec<PermissionView>>;
        get "/api/permission/saved" "v2.permission.saved.list" "Lists remembered answers; always empty, `windlass permission list` has them." -> Data<Vec<Any>>;
        get "/api/fs/list" "v2.fs.list" "Lists a directory." [api::ListParams] -> Envelope<Vec<PathView>>;
        get "/api/fs/find" "v2.fs.find" "Finds files by the letters of their paths." [api::FindParams] -> Envelope<Vec<PathView>>;
        get "/api/command" "v2.command.list" "Lists the commands." -> Envelope<Vec<CommandInfo>>;
        get "/api/skill" "v2.skill.list" "Lists the skills." -> Envelope<Vec<SkillInfo>>;
        get "/api/pty" "v2.pty.list" "Lists the terminals." -> Envelope<Vec<Pty>>;
        post "/api/pty" "v2.pty.create" "Opens a terminal." (PtyCreate) -> Envelope<Pty>;
        get "/api/pty/{ptyID}" "v2.pty.get" "Shows a terminal." -> Envelope<Pty>;
        put "/api/pty/{ptyID}" "v2.pty.update" "Changes a terminal's title or size." (PtyUpdate) -> Envelope<Pty>;
        delete "/api/pty/{ptyID}" "v2.pty.remove" "Ends a terminal." -> Nothing;
        post "/api/pty/{ptyID}/connect-token" "v2.pty.connectToken" "Makes a ticket with which a page connects to a terminal." -> Envelope<PtyTicket>;
        get "/api/pty/{ptyID}/connect" "v2.pty.connect" "Connects to a terminal by WebSocket." -> Socket;
        get "/api/question/request" "v2.question.request.list" "Lists the questions that sessions of the directory wait for." -> Envelope<Vec<QuestionRequest>>;
        get "/api/reference" "v2.reference.list" "Lists references; always empty." -> Envelope<Vec<Any>>;
    }
    AUTH {
        put "/auth/{providerID}" "auth.set" "Stores a provider's key or login." (AuthEntry) -> bool;
        delete "/auth/{providerID}" "auth.remove" "Removes a provider's key or login." -> bool;
    }
    COMMAND {
        get "/command" "command.list" "Lists the commands." -> Vec<CommandInfo>;
    }
    CONFIG {
        get "/config" "config.get" "Shows the configuration of the directory, without secrets." -> ConfigFile;
        patch "/config" "config.update" "Changes the project's configuration: objects are merged, null removes a key." (ConfigFile) -> ConfigFile;
        get "/config/providers" "config.providers" "Lists the providers and models that can be used." -> UsableProviders;
    }
    EVENT {
        get "/event" "event.subscribe" "Streams the events of the directory's sessions and services." -> Stream;
    }
    EXPERIMENTAL {
        get "/experimental/capabilities" "experimental.capabilities.get" "Says which optional features there are." -> Capabilities;
        get "/experimental/console" "experimental.console.get" "Shows the account of OpenCode's console; there is none." -> Console;
        get "/experimental/console/orgs" "experimental.console.listOrgs" "Lists organisations; always empty." -> Organisations;
        post "/experimental/console/switch" "experimental.console.switchOrg" "Is not offered." -> bool;
        get "/experimental/tool" "tool.list" "Lists the tools with their schemas." -> Vec<ToolInfo>;
        get "/experimental/tool/ids" "tool.ids" "Lists the tools by name." -> Vec<String>;
        get "/experimental/worktree" "worktree.list" "Lists the worktrees for tasks." -> Vec<String>;
        post "/experimental/worktree" "worktree.create" "Makes a worktree for a task." (WorktreeCreate) -> Worktree;
        delete "/experimental/worktree" "worktree.remove" "Removes a worktree." (vcs::DirectoryBody) -> bool;
        post "/experimental/worktree/reset" "worktree.reset" "Puts a worktree back to the default branch." (vcs::DirectoryBody) -> bool;
        get "/experimental/session" "experimental.session.list" "Lists the sessions of all projects." [experimental::SessionsParams] -> Vec<Session>;
        post "/experimental/session/{sessionID}/background" "experimental.session.background" "Lets a turn go on without the subagents that it waits for." -> bool;
        get "/experimental/session/{sessionID}/job" "experimental.session.jobs" "Lists a session's commands in the background." -> Vec<JobInfo>;
        delete "/experimental/session/{sessionID}/job/{jobID}" "experimental.session.stopJob" "Stops a command in the background; false if it had ended." -> bool;
        get "/experimental/resource" "experimental.resource.list" "Lists the resources of the MCP servers." -> BTreeMap<String, Any>;
        get "/experimental/workspace/adapter" "experimental.workspace.adapter.list" "Lists the kinds of workspaces." -> Vec<Adapter>;
        get "/experimental/workspace" "experimental.workspace.list" "Lists remote workspaces; always empty." -> Vec<Any>;
        post "/experimental/workspace" "experimental.workspace.create" "Is not offered." -> Any;
        post "/experimental/workspace/sync-list" "experimental.workspace.syncList" "Does nothing: there are no remote workspaces." -> bool;
        get "/experimental/workspace/status" "experimental.workspace.status" "Lists the states of remote workspaces; always empty." -> Vec<Any>;
    }
    FILE {
        get "/file" "file.list" "Lists a directory." [files::PathParams] -> Vec<FileNode>;
        get "/file/content" "file.read" "Reads a file." [files::PathParams] -> FileContent;
        get "/file/status" "file.status" "Lists the files that git sees changed." -> Vec<FileStatus>;
    }
    FIND {
        get "/find" "find.text" "Finds text in files by a regular expression." [files::FindParams] -> Vec<LineMatch>;
        get "/find/file" "find.files" "Finds files by the letters of their paths." [files::FindFilesParams] -> Vec<String>;
        get "/find/symbol" "find.symbols" "Finds symbols by the language servers." [files::SymbolParams] -> Vec<Symbol>;
    }
    FORMATTER {
        get "/formatter" "formatter.status" "Lists the formatters." -> Vec<FormatterInfo>;
    }
    GLOBAL {
        get "/global/health" "global.health" "Says that the server runs, and its version." -> Health;
        get "/global/event" "global.event" "Streams the events of all directories." -> Stream;
        get "/global/config" "global.config.get" "Shows the user's configuration, without secrets." -> ConfigFile;
        patch "/global/config" "global.config.update" "Changes the user's configuration: objects are merged, null removes a key." (ConfigFile) -> ConfigFile;
        post "/global/dispose" "global.dispose" "Ends the sessions and services of every directory." -> bool;
        post "/global/upgrade" "global.upgrade" "Is refused: the program that installed windlass updates it." (experimental::UpgradeBody) -> Any;
    }
    INSTANCE {
        post "/instance/dispose" "instance.dispose" "Ends the sessions and services of the directory." -> bool;
    }
    LOG {
        post "/log" "app.log" "Writes a line into the server's log." (services::LogBody) -> bool;
    }
    LSP {
        get "/lsp" "lsp.status" "Lists the language servers." -> Vec<LanguageServer>;
    }
    MCP {
        get "/mcp" "mcp.status" "Shows the states of the MCP servers." -> BTreeMap<String, McpState>;
        post "/mcp" "mcp.add" "Adds an MCP server until the directory is closed." (services::AddBody) -> BTreeMap<String, McpState>;
        delete "/mcp/{name}" "mcp.remove" "Takes away an MCP server that was added." -> bool;
        post "/mcp/{name}/auth" "mcp.auth.start" "Begins a login at an MCP server." -> McpLogin;
        delete "/mcp/{name}/auth" "mcp.auth.remove" "Forgets the login at an MCP server." -> Success;
        post "/mcp/{name}/auth/callback" "mcp.auth.callback" "Ends a login at an MCP server by its code." (services::CodeBody) -> McpState;
        post "/mcp/{name}/auth/authenticate" "mcp.auth.authenticate" "Logs in at an MCP server by this machine's browser, and waits for the end." -> McpState;
        post "/mcp/{name}/connect" "mcp.connect" "Connects an MCP server." -> bool;
        post "/mcp/{name}/disconnect" "mcp.disconnect" "Disconnects an MCP server." -> bool;
    }
    PATH {
        get "/path" "path.get" "Shows the directories in use." -> Paths;
    }
    PERMISSION {
        get "/permission" "permission.list" "Lists the permissions that are waited for." -> Vec<ask::Asked>;
        post "/permission/{requestID}/reply" "permission.reply" "Answers whether a call may run." (ask::ReplyBody) -> bool;
    }
    PROJECT {
        get "/project" "project.list" "Lists the projects that have sessions." -> Vec<Project>;
        get "/project/current" "project.current" "Shows the directory's project." -> Project;
        post "/project/git/init" "project.initGit" "Makes the directory a git repository." -> Project;
        patch "/project/{projectID}" "project.update" "Changes a project's name, icon or start command." (ProjectUpdate) -> Project;
        get "/project/{projectID}/directories" "project.directories" "Lists a project's directories." -> Vec<ProjectDirectory>;
    }
    PROVIDER {
        get "/provider" "provider.list" "Lists every known provider and model." -> AllProviders;
        get "/provider/auth" "provider.auth" "Lists the ways to log in, by provider." -> BTreeMap<String, Vec<LoginMethod>>;
        post "/provider/{providerID}/oauth/authorize" "provider.oauth.authorize" "Begins a login." (provider::AuthorizeBody) -> Option<LoginPage>;
        post "/provider/{providerID}/oauth/callback" "provider.oauth.callback" "Waits for the end of a login." (provider::CallbackBody) -> bool;
    }
    PTY {
        get "/pty/shells" "pty.shells" "Lists the shells that there are." -> Vec<Shell>;
        get "/pty" "pty.list" "Lists the terminals." -> Vec<Pty>;
        post "/pty" "pty.create" "Opens a terminal." (PtyCreate) -> Pty;
        get "/pty/{ptyID}" "pty.get" "Shows a terminal." -> Pty;
        put "/pty/{ptyID}" "pty.update" "Changes a terminal's title or size." (PtyUpdate) -> Pty;
        delete "/pty/{ptyID}" "pty.remove" "Ends a terminal." -> bool;
        post "/pty/{ptyID}/connect-token" "pty.connectToken" "Makes a ticket with which a page connects to a terminal." -> PtyTicket;
        get "/pty/{ptyID}/connect" "pty.connect" "Connects to a terminal by WebSocket." -> Socket;
    }
    QUESTION {
        get "/question" "question.list" "Lists the questions that are waited for." -> Vec<QuestionRequest>;
        post "/question/{requestID}/reply" "question.reply" "Answers questions: the chosen labels, or texts, of each." (ask::AnswerBody) -> bool;
        post "/question/{requestID}/reject" "question.reject" "Refuses to answer questions." -> bool;
    }
    SESSION {
        get "/session" "session.list" "Lists the directory's sessions, the newest first." [session::ListParams] -> Vec<Session>;
        post "/session" "session.create" "Makes a session." (session::CreateBody) -> Session;
        get "/session/status" "session.status" "Shows the sessions that work." -> BTreeMap<String, SessionStatus>;
        get "/session/{sessionID}" "session.get" "Shows a session." -> Session;
        delete "/session/{sessionID}" "session.delete" "Deletes a session with its subagents' sessions." -> bool;
        patch "/session/{sessionID}" "session.update" "Changes a session's title, rules or metadata, or archives it." (session::UpdateBody) -> Session;
        get "/session/{sessionID}/children" "session.children" "Lists the sessions of a session's subagents." -> Vec<Session>;
        get "/session/{sessionID}/todo" "session.todo" "Lists a session's tasks." -> Vec<Todo>;
        get "/session/{sessionID}/diff" "session.diff" "Shows the changes of files that a prompt, or the whole session, made." [history::DiffParams] -> Vec<FileDiff>;
        get "/session/{sessionID}/message" "session.messages" "Lists a session's messages with their parts." [message::ListParams] -> Vec<MessageWithParts>;
        post "/session/{sessionID}/message" "session.prompt" "Gives the session a prompt, and answers with the message that ends its turn. The same `messageID` again is the same prompt." (prompt::PromptBody) -> MessageWithParts;
        get "/session/{sessionID}/message/{messageID}" "session.message" "Shows a message with its parts." -> MessageWithParts;
        delete "/session/{sessionID}/message/{messageID}" "session.deleteMessage" "Deletes a message." -> bool;
        post "/session/{sessionID}/fork" "session.fork" "Copies a session up to a message." (history::ForkBody) -> Session;
        post "/session/{sessionID}/abort" "session.abort" "Stops the turn that runs." -> bool;
        post "/session/{sessionID}/init" "session.init" "Has the model write AGENTS.md." (prompt::SummarizeBody) -> bool;
        post "/session/{sessionID}/share" "session.share" "Writes the session's page for others." (session_access::ShareBody) -> Session;
        delete "/session/{sessionID}/share" "session.unshare" "Removes the session's page." -> Session;
        post "/session/{sessionID}/summarize" "session.summarize" "Shortens the conversation that the model reads." (prompt::SummarizeBody) -> bool;
        post "/session/{sessionID}/prompt_async" "session.prompt_async" "Gives the session a prompt, and answers at once." (prompt::PromptBody) -> Nothing;
        post "/session/{sessionID}/command" "session.command" "Runs a command of the commands' list." (prompt::CommandBody) -> MessageWithParts;
        post "/session/{sessionID}/shell" "session.shell" "Runs a shell command as the user." (prompt::ShellBody) -> MessageWithParts;
        post "/session/{sessionID}/revert" "session.revert" "Takes back a message, all that follow, and their changes of files." (history::RevertBody) -> Session;
        post "/session/{sessionID}/unrevert" "session.unrevert" "Brings back what was taken back." -> Session;
        post "/session/{sessionID}/permissions/{permissionID}" "permission.respond" "Answers whether a call may run." (ask::RespondBody) -> bool;
        delete "/session/{sessionID}/message/{messageID}/part/{partID}" "part.delete" "Deletes a part of a message." -> bool;
        patch "/session/{sessionID}/message/{messageID}/part/{partID}" "part.update" "Replaces a part of a message." (Part) -> Part;
    }
    SKILL {
        get "/skill" "app.skills" "Lists the skills." -> Vec<SkillInfo>;
    }
    SYNC {
        post "/sync/start" "sync.start" "Does nothing: the store is not replicated." -> bool;
        post "/sync/history" "sync.history.list" "Lists replicated events; always empty." -> Vec<Any>;
    }
    TUI {
        post "/tui/append-prompt" "tui.appendPrompt" "Tells interfaces to add to the prompt that is typed." (tui::AppendBody) -> bool;
        post "/tui/open-help" "tui.openHelp" "Tells interfaces to show their help." -> bool;
        post "/tui/open-sessions" "tui.openSessions" "Tells interfaces to show the sessions." -> bool;
        post "/tui/open-themes" "tui.openThemes" "Tells interfaces to show the themes." -> bool;
        post "/tui/open-models" "tui.openModels" "Tells interfaces to show the models." -> bool;
        post "/tui/submit-prompt" "tui.submitPrompt" "Tells interfaces to send the prompt that is typed." -> bool;
        post "/tui/clear-prompt" "tui.clearPrompt" "Tells interfaces to clear the prompt that is typed." -> bool;
        post "/tui/execute-command" "tui.executeCommand" "Tells interfaces to carry out a command of theirs." (tui::CommandBody) -> bool;
        post "/tui/show-toast" "tui.showToast" "Tells interfaces to show a message." (tui::ToastBody) -> bool;
        post "/tui/publish" "tui.publish" "Publishes an event for interfaces." (ServiceNews) -> bool;
        post "/tui/select-session" "tui.selectSession" "Tells interfaces to show a session." (tui::SelectBody) -> bool;
        get "/tui/control/next" "tui.control.next" "Waits for a request to an interface." -> Any;
        post "/tui/control/response" "tui.control.response" "Answers a request to an interface." (Any) -> bool;
    }
    VCS {
        get "/vcs" "vcs.get" "Shows the branch, and the default one." -> VcsInfo;
        get "/vcs/status" "vcs.status" "Lists the changed files." -> Vec<VcsFile>;
        get "/vcs/diff" "vcs.diff" "Lists the changed files with their differences." [vcs::DiffParams] -> Vec<VcsFile>;
        get "/vcs/diff/raw" "vcs.diff.raw" "Shows the changes as one difference." -> Text;
        post "/vcs/apply" "vcs.apply" "Applies a difference to the worktree." (vcs::ApplyBody) -> Applied;
    }
}
