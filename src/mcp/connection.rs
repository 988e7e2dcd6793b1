//! The task of one server: connects, keeps its tools up to date, and ends its process without leftovers.

use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    io,
    path::PathBuf,
    process::ExitStatus,
    sync::{Arc, Mutex},
    time::Duration,
};

use rmcp::{
    RoleClient, ServiceError,
    service::{ClientInitializeError, RunningService, serve_client_with_ct},
    transport::IntoTransport,
};
use tokio::{sync::Notify, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Server, ServerSpec, Shared, Slot, Status, cause,
    client::{Client, Connection},
    remote, tools,
};
use crate::base::{
    self,
    lock::lock,
    process::{self, Child, Spawn},
    stderr,
};

/// The time between asking a process to end and killing it, and for telling a remote server that its session is
/// over.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// The time limit for immediate consequences of a process's end: its status, its last output.
const AFTERMATH: Duration = Duration::from_secs(1);

/// Serves the slot until its connection ends or it is stopped.
pub(super) async fn run(shared: Arc<Shared>, slot: Arc<Slot>, slot_id: usize) {
    let slot = &*slot;
    let task = Task { shared: &shared, slot, slot_id, stop: slot.stop.clone() };
    let status = match &slot.spec.server {
        Server::Local { command, cwd, environment } => {
            let directory = cwd.as_ref().map_or_else(PathBuf::new, PathBuf::from);
            let directory = shared.directory().join(directory);
            match command.split_first() {
                None => task.failed("has an empty command"),
                Some((program, args)) => {
                    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
                    let program = OsStr::new(program);
                    let spawn = Spawn {
                        program,
                        args: &args,
                        directory: &directory,
                        environment,
                        stdin: true,
                        without: &[],
                        is_parent: true,
                    };
                    local(&task, &spawn).await
                }
            }
        }
        Server::Remote { url, headers } => remote::run(&task, url, headers).await,
    };
    match &status {
        Status::Failed { error } => tracing::warn!(server = slot.spec.name, "{error}"),
        Status::NeedsAuth => tracing::warn!(server = slot.spec.name, "the MCP server wants a login"),
        Status::Disabled | Status::Connecting | Status::Connected => {}
    }
    shared.end(slot, status);
}

/// The shared state of a server's task.
pub(super) struct Task<'a> {
    pub(super) shared: &'a Shared,
    pub(super) slot: &'a Slot,
    slot_id: usize,
    pub(super) stop: CancellationToken,
}

impl Task<'_> {
    pub(super) fn spec(&self) -> &ServerSpec {
        &self.slot.spec
    }

    /// Makes the status of a failure, as a sentence about the server.
    pub(super) fn failed(&self, what: &str) -> Status {
        Status::Failed { error: format!("MCP server {} {what}", self.spec().name) }
    }
}

async fn local(task: &Task<'_>, spawn: &Spawn<'_>) -> Status {
    let spawned = match &task.spec().sandbox {
        Some(sandbox) => sandbox.spawn(spawn).await,
        None => process::spawn(spawn),
    };
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return not_started(task, spawn, &error),
    };
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return task.failed("has no pipes");
    };
    let last_line = Arc::new(Mutex::new(String::new()));
    let mut log = AbortOnDropHandle::new(tokio::spawn({
        let (spec, last_line) = (task.spec().clone(), last_line.clone());
        async move { stderr::log_lines(&spec.name, stderr, |line| spec.masked(line), &last_line).await }
    }));
    let cancel = CancellationToken::new();
    let end = {
        let session = session(task, (stdout, stdin), cancel.clone());
        tokio::pin!(session);
        tokio::select! {
            biased;
            () = task.stop.cancelled() => {
                // Closes the server's standard input, which makes a well-behaved server end.
                cancel.cancel();
                child.end(GRACE).await;
                return Status::Disabled;
            }
            end = &mut session => match timeout(AFTERMATH, child.wait()).await {
                Ok(Ok(status)) => LocalEnd::Exited(status),
                Ok(Err(_)) | Err(_) => LocalEnd::Lost(end),
            },
            exited = child.wait() => {
                // Closes the pipe even if another process of the group has it open, so that the session reads
                // the last answers and then ends by itself.
                child.kill_group();
                let end = timeout(AFTERMATH, &mut session).await.unwrap_or(SessionEnd::Closed);
                exited.map_or(LocalEnd::Lost(end), LocalEnd::Exited)
            }
        }
    };
    let what = match end {
        LocalEnd::Exited(status) => format!("stopped ({status})"),
        LocalEnd::Lost(end) => {
            child.end(GRACE).await;
            end.describe(task.spec())
        }
    };
    finish(task, child, &mut log, &last_line, what).await
}

enum LocalEnd {
    Exited(ExitStatus),
    Lost(SessionEnd),
}

fn not_started(task: &Task<'_>, spawn: &Spawn<'_>, error: &io::Error) -> Status {
    let program = spawn.program.display();
    let directory = spawn.directory.display();
    match error.kind() {
        io::ErrorKind::NotFound if !spawn.directory.is_dir() => {
            task.failed(&format!("could not be started: its directory {directory} does not exist"))
        }
        io::ErrorKind::NotFound => {
            task.failed(&format!("could not be started: install {program} or correct the command"))
        }
        _ => task.failed(&format!("could not be started with {program}: {}", base::cause::innermost(error))),
    }
}

async fn finish(
    task: &Task<'_>,
    mut child: Child,
    log: &mut AbortOnDropHandle<()>,
    last_line: &Mutex<String>,
    what: String,
) -> Status {
    child.kill_group();
    // With the group gone the pipe is at its end, unless a process outside the group has it open.
    let _ = timeout(AFTERMATH, log).await;
    let last_line = lock(last_line);
    if last_line.is_empty() { task.failed(&what) } else { task.failed(&format!("{what}: {last_line}")) }
}

/// The reason for the end of a connection.
pub(super) enum SessionEnd {
    NotConnected(Box<ClientInitializeError>),
    /// The server did not answer the named request.
    Silent(&'static str),
    NotListed(ServiceError),
    Closed,
}

impl SessionEnd {
    pub(super) fn describe(&self, spec: &ServerSpec) -> String {
        match self {
            SessionEnd::NotConnected(error) => {
                format!("cannot be used: {}", cause::of_handshake(error))
            }
            SessionEnd::Silent(what) => format!("did not answer {what} within {:?}", spec.timeout),
            SessionEnd::NotListed(error) => format!("did not list its tools: {}", cause::of_request(error)),
            SessionEnd::Closed => "closed the connection".to_owned(),
        }
    }
}

/// Shakes hands, lists the tools and keeps the list fresh until the connection ends.
pub(super) async fn session<T, E, A>(task: &Task<'_>, transport: T, cancel: CancellationToken) -> SessionEnd
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let spec = task.spec();
    let tools_changed = Arc::new(Notify::new());
    let client = Client::new(&spec.name, task.shared.directory(), tools_changed.clone());
    let running = match timeout(spec.timeout, serve_client_with_ct(client, transport, cancel)).await {
        Ok(Ok(running)) => running,
        Ok(Err(error)) => return SessionEnd::NotConnected(Box::new(error)),
        Err(_) => return SessionEnd::Silent("initialize"),
    };
    if let Err(end) = offer_tools(task, &running).await {
        return end;
    }
    let connection = running.service().connection(running.peer().clone());
    tokio::select! {
        never = refresh_tools(task, &connection, &tools_changed) => match never {},
        _ = running.waiting() => SessionEnd::Closed,
    }
}

async fn refresh_tools(task: &Task<'_>, connection: &Connection, tools_changed: &Notify) -> Infallible {
    let spec = task.spec();
    loop {
        tools_changed.notified().await;
        let list = tools::list(connection.peer(), &spec.name, task.slot_id);
        match timeout(spec.timeout, list).await {
            Ok(Ok(tools)) => task.shared.offer(task.slot, connection.clone(), tools),
            Ok(Err(error)) => {
                let error = cause::of_request(&error);
                tracing::warn!(server = spec.name, error, "tools were not listed again");
            }
            Err(_) => tracing::warn!(server = spec.name, "tools were not listed again in time"),
        }
    }
}

async fn offer_tools(
    task: &Task<'_>,
    running: &RunningService<RoleClient, Client>,
) -> Result<(), SessionEnd> {
    let spec = task.spec();
    let list = tools::list(running.peer(), &spec.name, task.slot_id);
    match timeout(spec.timeout, list).await {
        Ok(Ok(tools)) => {
            let connection = running.service().connection(running.peer().clone());
            task.shared.offer(task.slot, connection, tools);
            Ok(())
        }
        Ok(Err(error)) => Err(SessionEnd::NotListed(error)),
        Err(_) => Err(SessionEnd::Silent("tools/list")),
    }
}
