//! Events of a directory's services, and of one front end for another; none belongs to a session's history.

use serde::{Deserialize, Serialize};

use super::{id::SessionId, project::Project, pty::Pty};

/// An event of a directory's services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceEvent {
    /// The absolute path of the directory; `None` for all of them. It is not in the event itself.
    #[serde(skip)]
    pub directory: Option<String>,
    #[serde(flatten)]
    pub news: ServiceNews,
}

/// The kind and the data of a service's event; `type` and `properties` on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "properties")]
pub enum ServiceNews {
    #[serde(rename = "pty.created")]
    PtyCreated { info: Pty },
    #[serde(rename = "pty.updated")]
    PtyUpdated { info: Pty },
    #[serde(rename = "pty.exited")]
    PtyExited {
        id: String,
        #[serde(rename = "exitCode")]
        exit_code: u32,
    },
    #[serde(rename = "pty.deleted")]
    PtyDeleted { id: String },
    #[serde(rename = "tui.prompt.append")]
    TuiPromptAppend { text: String },
    #[serde(rename = "tui.command.execute")]
    TuiCommandExecute { command: String },
    #[serde(rename = "tui.toast.show")]
    TuiToastShow {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        message: String,
        variant: ToastVariant,
        /// Milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration: Option<u64>,
    },
    #[serde(rename = "tui.session.select")]
    TuiSessionSelect {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
    },
    #[serde(rename = "worktree.ready")]
    WorktreeReady {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
    },
    #[serde(rename = "worktree.failed")]
    WorktreeFailed { message: String },
    /// A language server of the directory is ready or has ended.
    #[serde(rename = "lsp.updated")]
    LspUpdated {},
    #[serde(rename = "project.updated")]
    ProjectUpdated(Project),
    #[serde(rename = "vcs.branch.updated")]
    VcsBranchUpdated {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
    },
    /// The directory's sessions and services have ended.
    #[serde(rename = "server.instance.disposed")]
    InstanceDisposed { directory: String },
    /// Those of all directories have.
    #[serde(rename = "global.disposed")]
    GlobalDisposed {},
}

/// The importance of a toast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ToastVariant {
    Info,
    Success,
    Warning,
    Error,
}

#[cfg(test)]
mod tests;
