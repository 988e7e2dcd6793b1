//! The operations of the API that are served: one table for each group, with the types of their bodies.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;
use windlass_protocol::opencode::{
    config::ConfigFile,
    file::{FileContent, FileNode, FileStatus, LineMatch, Symbol},
    project::{Project, ProjectUpdate, VcsFile, VcsInfo, Worktree, WorktreeCreate},
    provider::{AllProviders, UsableProviders},
    pty::{Pty, PtyCreate, PtyTicket, PtyUpdate, Shell},
};

/// An operation: a method on a path.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub id: &'static str,
    pub request: Option<Make>,
    pub response: Make,
}

/// Makes the schema of a body.
type Make = fn(&mut SchemaGenerator) -> Schema;

/// Data with a shape that is described in words only.
type Any = Value;

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

macro_rules! operations {
    ($($name:ident { $($method:ident $path:literal $id:literal $(($request:ty))? -> $response:ty;)* })*) => {
        $(const $name: &[Operation] = &[$(Operation {
            method: stringify!($method),
            path: $path,
            id: $id,
            request: operations!(@request $($request)?),
            response: of::<$response>,
        }),*];)*

        /// Every group.
        pub const GROUPS: &[&[Operation]] = &[$($name),*];
    };
    (@request) => { None };
    (@request $request:ty) => { Some(of::<$request>) };
}

operations! {
    AGENT {
        get "/agent" "app.agents" -> Any;
    }
    API {
        get "/api/health" "v2.health.get" -> Any;
        get "/api/location" "v2.location.get" -> Any;
        get "/api/agent" "v2.agent.list" -> Any;
        get "/api/session" "v2.session.list" -> Any;
        get "/api/session/active" "v2.session.active" -> Any;
        get "/api/session/{sessionID}" "v2.session.get" -> Any;
        post "/api/session" "v2.session.create" -> Any;
        post "/api/session/{sessionID}/agent" "v2.session.switchAgent" -> Any;
        post "/api/session/{sessionID}/model" "v2.session.switchModel" -> Any;
        post "/api/session/{sessionID}/prompt" "v2.session.prompt" -> Any;
        post "/api/session/{sessionID}/interrupt" "v2.session.interrupt" -> Any;
        get "/api/session/{sessionID}/inbox" "v2.session.inbox.list" -> Any;
        patch "/api/session/{sessionID}/inbox/{inboxID}" "v2.session.inbox.update" -> Any;
        delete "/api/session/{sessionID}/inbox/{inboxID}" "v2.session.inbox.cancel" -> Any;
        post "/api/session/{sessionID}/wake" "v2.session.wake" -> Any;
        post "/api/session/{sessionID}/compact" "v2.session.compact" -> Any;
        post "/api/session/{sessionID}/wait" "v2.session.wait" -> Any;
        post "/api/session/{sessionID}/revert/stage" "v2.session.revert.stage" -> Any;
        post "/api/session/{sessionID}/revert/clear" "v2.session.revert.clear" -> Any;
        get "/api/session/{sessionID}/permission" "v2.session.permission.list" -> Any;
        get "/api/session/{sessionID}/permission/{requestID}" "v2.session.permission.get" -> Any;
        post "/api/session/{sessionID}/permission/{requestID}/reply" "v2.session.permission.reply" -> Any;
        get "/api/session/{sessionID}/question" "v2.session.question.list" -> Any;
        post "/api/session/{sessionID}/question/{requestID}/reply" "v2.session.question.reply" -> Any;
        post "/api/session/{sessionID}/question/{requestID}/reject" "v2.session.question.reject" -> Any;
        get "/api/session/{sessionID}/message" "v2.session.messages" -> Any;
        get "/api/session/{sessionID}/message/{messageID}" "v2.session.message" -> Any;
        get "/api/session/{sessionID}/context" "v2.session.context" -> Any;
        get "/api/model" "v2.model.list" -> Any;
        get "/api/provider" "v2.provider.list" -> Any;
        get "/api/integration" "v2.integration.list" -> Any;
        get "/api/integration/{integrationID}" "v2.integration.get" -> Any;
        post "/api/integration/{integrationID}/connect/key" "v2.integration.connect.key" -> Any;
        post "/api/integration/{integrationID}/connect/oauth" "v2.integration.connect.oauth" -> Any;
        get "/api/integration/attempt/{attemptID}" "v2.integration.attempt.status" -> Any;
        delete "/api/integration/attempt/{attemptID}" "v2.integration.attempt.cancel" -> Any;
        post "/api/integration/attempt/{attemptID}/complete" "v2.integration.attempt.complete" -> Any;
        delete "/api/credential/{credentialID}" "v2.credential.remove" -> Any;
        get "/api/event" "v2.event.subscribe" -> Any;
        get "/api/permission/request" "v2.permission.request.list" -> Any;
        get "/api/permission/saved" "v2.permission.saved.list" -> Any;
        get "/api/fs/list" "v2.fs.list" -> Any;
        get "/api/fs/find" "v2.fs.find" -> Any;
        get "/api/command" "v2.command.list" -> Any;
        get "/api/skill" "v2.skill.list" -> Any;
        get "/api/pty" "v2.pty.list" -> Any;
        post "/api/pty" "v2.pty.create" (PtyCreate) -> Any;
        get "/api/pty/{ptyID}" "v2.pty.get" -> Any;
        put "/api/pty/{ptyID}" "v2.pty.update" (PtyUpdate) -> Any;
        delete "/api/pty/{ptyID}" "v2.pty.remove" -> Any;
        post "/api/pty/{ptyID}/connect-token" "v2.pty.connectToken" -> Any;
        get "/api/pty/{ptyID}/connect" "v2.pty.connect" -> Any;
        get "/api/question/request" "v2.question.request.list" -> Any;
        get "/api/reference" "v2.reference.list" -> Any;
    }
    AUTH {
        put "/auth/{providerID}" "auth.set" -> bool;
        delete "/auth/{providerID}" "auth.remove" -> bool;
    }
    COMMAND {
        get "/command" "command.list" -> Any;
    }
    CONFIG {
        get "/config" "config.get" -> ConfigFile;
        patch "/config" "config.update" (ConfigFile) -> ConfigFile;
        get "/config/providers" "config.providers" -> UsableProviders;
    }
    EVENT {
        get "/event" "event.subscribe" -> Any;
    }
    EXPERIMENTAL {
        get "/experimental/capabilities" "experimental.capabilities.get" -> Any;
        get "/experimental/console" "experimental.console.get" -> Any;
        get "/experimental/console/orgs" "experimental.console.listOrgs" -> Any;
        post "/experimental/console/switch" "experimental.console.switchOrg" -> Any;
        get "/experimental/tool" "tool.list" -> Any;
        get "/experimental/tool/ids" "tool.ids" -> Vec<String>;
        get "/experimental/worktree" "worktree.list" -> Vec<String>;
        post "/experimental/worktree" "worktree.create" (WorktreeCreate) -> Worktree;
        delete "/experimental/worktree" "worktree.remove" -> bool;
        post "/experimental/worktree/reset" "worktree.reset" -> bool;
        get "/experimental/session" "experimental.session.list" -> Any;
        post "/experimental/session/{sessionID}/background" "experimental.session.background" -> bool;
        get "/experimental/session/{sessionID}/job" "experimental.session.jobs" -> Any;
        delete "/experimental/session/{sessionID}/job/{jobID}" "experimental.session.stopJob" -> bool;
        get "/experimental/resource" "experimental.resource.list" -> Any;
        get "/experimental/workspace/adapter" "experimental.workspace.adapter.list" -> Any;
        get "/experimental/workspace" "experimental.workspace.list" -> Any;
        post "/experimental/workspace" "experimental.workspace.create" -> Any;
        post "/experimental/workspace/sync-list" "experimental.workspace.syncList" -> Any;
        get "/experimental/workspace/status" "experimental.workspace.status" -> Any;
    }
    FILE {
        get "/file" "file.list" -> Vec<FileNode>;
        get "/file/content" "file.read" -> FileContent;
        get "/file/status" "file.status" -> Vec<FileStatus>;
    }
    FIND {
        get "/find" "find.text" -> Vec<LineMatch>;
        get "/find/file" "find.files" -> Vec<String>;
        get "/find/symbol" "find.symbols" -> Vec<Symbol>;
    }
    FORMATTER {
        get "/formatter" "formatter.status" -> Any;
    }
    GLOBAL {
        get "/global/health" "global.health" -> Any;
        get "/global/event" "global.event" -> Any;
        get "/global/config" "global.config.get" -> ConfigFile;
        patch "/global/config" "global.config.update" (ConfigFile) -> ConfigFile;
        post "/global/dispose" "global.dispose" -> bool;
        post "/global/upgrade" "global.upgrade" -> Any;
    }
    INSTANCE {
        post "/instance/dispose" "instance.dispose" -> bool;
    }
    LOG {
        post "/log" "app.log" -> bool;
    }
    LSP {
        get "/lsp" "lsp.status" -> Any;
    }
    MCP {
        get "/mcp" "mcp.status" -> Any;
        post "/mcp" "mcp.add" -> Any;
        post "/mcp/{name}/auth" "mcp.auth.start" -> Any;
        delete "/mcp/{name}/auth" "mcp.auth.remove" -> Any;
        post "/mcp/{name}/auth/callback" "mcp.auth.callback" -> Any;
        post "/mcp/{name}/auth/authenticate" "mcp.auth.authenticate" -> Any;
        post "/mcp/{name}/connect" "mcp.connect" -> bool;
        post "/mcp/{name}/disconnect" "mcp.disconnect" -> bool;
    }
    PATH {
        get "/path" "path.get" -> Any;
    }
    PERMISSION {
        get "/permission" "permission.list" -> Any;
        post "/permission/{requestID}/reply" "permission.reply" -> bool;
    }
    PROJECT {
        get "/project" "project.list" -> Vec<Project>;
        get "/project/current" "project.current" -> Project;
        post "/project/git/init" "project.initGit" -> Project;
        patch "/project/{projectID}" "project.update" (ProjectUpdate) -> Project;
        get "/project/{projectID}/directories" "project.directories" -> Any;
    }
    PROVIDER {
        get "/provider" "provider.list" -> AllProviders;
        get "/provider/auth" "provider.auth" -> Any;
        post "/provider/{providerID}/oauth/authorize" "provider.oauth.authorize" -> Any;
        post "/provider/{providerID}/oauth/callback" "provider.oauth.callback" -> Any;
    }
    PTY {
        get "/pty/shells" "pty.shells" -> Vec<Shell>;
        get "/pty" "pty.list" -> Vec<Pty>;
        post "/pty" "pty.create" (PtyCreate) -> Pty;
        get "/pty/{ptyID}" "pty.get" -> Pty;
        put "/pty/{ptyID}" "pty.update" (PtyUpdate) -> Pty;
        delete "/pty/{ptyID}" "pty.remove" -> bool;
        post "/pty/{ptyID}/connect-token" "pty.connectToken" -> PtyTicket;
        get "/pty/{ptyID}/connect" "pty.connect" -> Any;
    }
    QUESTION {
        get "/question" "question.list" -> Any;
        post "/question/{requestID}/reply" "question.reply" -> bool;
        post "/question/{requestID}/reject" "question.reject" -> bool;
    }
    SESSION {
        get "/session" "session.list" -> Any;
        post "/session" "session.create" -> Any;
        get "/session/status" "session.status" -> Any;
        get "/session/{sessionID}" "session.get" -> Any;
        delete "/session/{sessionID}" "session.delete" -> bool;
        patch "/session/{sessionID}" "session.update" -> Any;
        get "/session/{sessionID}/children" "session.children" -> Any;
        get "/session/{sessionID}/todo" "session.todo" -> Any;
        get "/session/{sessionID}/diff" "session.diff" -> Any;
        get "/session/{sessionID}/message" "session.messages" -> Any;
        post "/session/{sessionID}/message" "session.prompt" -> Any;
        get "/session/{sessionID}/message/{messageID}" "session.message" -> Any;
        delete "/session/{sessionID}/message/{messageID}" "session.deleteMessage" -> Any;
        post "/session/{sessionID}/fork" "session.fork" -> Any;
        post "/session/{sessionID}/abort" "session.abort" -> bool;
        post "/session/{sessionID}/init" "session.init" -> bool;
        post "/session/{sessionID}/share" "session.share" -> Any;
        delete "/session/{sessionID}/share" "session.unshare" -> Any;
        post "/session/{sessionID}/summarize" "session.summarize" -> bool;
        post "/session/{sessionID}/prompt_async" "session.prompt_async" -> Any;
        post "/session/{sessionID}/command" "session.command" -> Any;
        post "/session/{sessionID}/shell" "session.shell" -> Any;
        post "/session/{sessionID}/revert" "session.revert" -> Any;
        post "/session/{sessionID}/unrevert" "session.unrevert" -> Any;
        post "/session/{sessionID}/permissions/{permissionID}" "permission.respond" -> bool;
        delete "/session/{sessionID}/message/{messageID}/part/{partID}" "part.delete" -> Any;
        patch "/session/{sessionID}/message/{messageID}/part/{partID}" "part.update" -> Any;
    }
    SKILL {
        get "/skill" "app.skills" -> Any;
    }
    SYNC {
        post "/sync/start" "sync.start" -> bool;
        post "/sync/history" "sync.history.list" -> Any;
    }
    TUI {
        post "/tui/append-prompt" "tui.appendPrompt" -> bool;
        post "/tui/open-help" "tui.openHelp" -> bool;
        post "/tui/open-sessions" "tui.openSessions" -> bool;
        post "/tui/open-themes" "tui.openThemes" -> bool;
        post "/tui/open-models" "tui.openModels" -> bool;
        post "/tui/submit-prompt" "tui.submitPrompt" -> bool;
        post "/tui/clear-prompt" "tui.clearPrompt" -> bool;
        post "/tui/execute-command" "tui.executeCommand" -> bool;
        post "/tui/show-toast" "tui.showToast" -> bool;
        post "/tui/publish" "tui.publish" -> bool;
        post "/tui/select-session" "tui.selectSession" -> bool;
        get "/tui/control/next" "tui.control.next" -> Any;
        post "/tui/control/response" "tui.control.response" -> bool;
    }
    VCS {
        get "/vcs" "vcs.get" -> VcsInfo;
        get "/vcs/status" "vcs.status" -> Vec<VcsFile>;
        get "/vcs/diff" "vcs.diff" -> Vec<VcsFile>;
        get "/vcs/diff/raw" "vcs.diff.raw" -> Any;
        post "/vcs/apply" "vcs.apply" -> Any;
    }
}
