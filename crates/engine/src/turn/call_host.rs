//! The way of running calls up to the engine: their questions, and their reports to the step's task.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};
use windlass_base::{clock, lock::lock, money};
use windlass_core::{
    config::{Warning, policy::Policy},
    library,
    permission::Ask,
};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{MessageId, SessionId},
    permission::{Rule, ToolRef},
    question::{Question, ServerWish},
    session::Todo,
    tokens::Tokens,
};
use windlass_services::{
    mcp::{Completion, Sampled, Sampling},
    tool::{
        AgentSwitch, AllowedBy, Answers, FileStamp, Host, LateErrors, NestedCall, Subtask, ToolError,
        ToolOutput,
        bash::background::{Job, Kept, NewJob},
        editor::Editor,
    },
};

use super::{
    loaded_instructions::LoadedInstructions,
    sampling,
    subtask::{self, Parent},
};
use crate::{
    Engine,
    asking::{approvals::Approvals, asks::Asker},
    session::state::KnownFiles,
};

/// Reports of running tools between two looks of the step's task.
#[derive(Default)]
pub struct Reports {
    pub changes: Mutex<Changes>,
    /// The newest list, also while it waits to be stored.
    pub todos: Mutex<Vec<Todo>>,
    /// Calls that tools make and that are not begun yet.
    pub nested: Mutex<Vec<Nested>>,
    pub arrived: Notify,
}

/// A call that another one makes.
pub struct Nested {
    /// The id of that other one.
    pub made_by: String,
    pub call: NestedCall,
    pub ended: oneshot::Sender<Result<(), ToolError>>,
}

#[derive(Default)]
pub struct Changes {
    /// Newest title and metadata of each call, by part index.
    pub progress: BTreeMap<usize, (Option<String>, Map<String, Value>)>,
    /// Calls that were allowed, by part index, and go on once that is shown.
    pub allowed: Vec<(usize, oneshot::Sender<()>)>,
    /// Told once these changes are shown.
    pub shown: Vec<oneshot::Sender<()>>,
    /// Times at which calls that waited for an answer continued, by part index.
    pub resumed: BTreeMap<usize, i64>,
    pub todos: Option<Vec<Todo>>,
    pub switch: Option<AgentSwitch>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// Cost of subagents in US dollars, and their tokens.
    pub cost: f64,
    pub tokens: Tokens,
}

/// A call's way up to the engine.
pub struct CallHost {
    pub engine: Engine,
    pub reports: Arc<Reports>,
    pub part: usize,
    pub session_id: SessionId,
    pub message_id: MessageId,
    pub call_id: String,
    pub policy: Policy,
    pub approvals: Approvals,
    pub parent: Arc<subtask::Parent>,
    pub known_files: KnownFiles,
    pub late_errors: LateErrors,
    pub instructions: LoadedInstructions,
}

impl Host for CallHost {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move { self.asked(ask, false).await.map(drop) })
    }

    fn ask_who(&self, ask: Ask) -> BoxFuture<'_, Result<AllowedBy, ToolError>> {
        Box::pin(self.asked(ask, false))
    }

    fn ask_opaque(&self, ask: Ask) -> BoxFuture<'_, Result<AllowedBy, ToolError>> {
        Box::pin(self.asked(ask, true))
    }

    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    fn answers(&self) -> BoxFuture<'_, Vec<Rule>> {
        Box::pin(async {
            self.approvals.sync().await;
            self.approvals.rules()
        })
    }

    fn progress(&self, title: Option<String>, metadata: Map<String, Value>) {
        self.report(|changes| {
            let entry = changes.progress.entry(self.part).or_default();
            entry.0 = title.or(entry.0.take());
            entry.1 = metadata;
        });
    }

    fn set_todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        lock(&self.reports.todos).clone_from(&todos);
        self.report(|changes| changes.todos = Some(todos));
        Box::pin(std::future::ready(Ok(())))
    }

    fn subtask(&self, request: Subtask) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let ended = subtask::run(&self.parent, request, |metadata| self.progress_shown(metadata)).await?;
            self.report(|changes| {
                changes.cost = money::sum(changes.cost, ended.cost);
                changes.tokens.add(&ended.tokens);
            });
            ended.result
        })
    }

    fn keep_running(&self, new: NewJob) -> Result<Kept, ToolError> {
        let Parent { warning_log, is_only, info, .. } = &*self.parent;
        // A subagent's session is closed behind its answer.
        let is_last = *is_only || info.parent_id.is_some();
        self.engine.sessions().keep_running(&self.session_id, new, warning_log, is_last)
    }

    fn jobs(&self) -> Vec<Arc<Job>> {
        self.engine.sessions().jobs(&self.session_id)
    }

    fn question(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, ToolError>> {
        Box::pin(self.ask_user(questions, None))
    }

    fn grant_wish(
        &self,
        wish: ServerWish,
        questions: Vec<Question>,
    ) -> BoxFuture<'_, Result<Answers, ToolError>> {
        Box::pin(self.ask_user(questions, Some(Arc::new(wish))))
    }

    fn call_id(&self) -> &str {
        &self.call_id
    }

    fn page_completion(&self, id: String) -> Completion {
        let (bus, session_id) = (self.engine.bus().clone(), self.session_id.clone());
        Completion(Box::new(move || bus.publish(EventPayload::PageCompleted { session_id, id })))
    }

    fn plan_file(&self) -> PathBuf {
        library::plan_file(&self.parent.loaded.config, &self.parent.info)
    }

    fn switch_agent(&self, switch: AgentSwitch) {
        self.report(|changes| changes.switch = Some(switch));
    }

    fn call(&self, call: NestedCall) -> BoxFuture<'_, Result<(), ToolError>> {
        let (ended, end) = oneshot::channel();
        lock(&self.reports.nested).push(Nested { made_by: self.call_id.clone(), call, ended });
        self.reports.arrived.notify_one();
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.parent.cancel.cancelled() => Err(ToolError::Cancelled { partial: None }),
                result = end => result.unwrap_or(Err(ToolError::Cancelled { partial: None })),
            }
        })
    }

    fn todos(&self) -> Vec<Todo> {
        lock(&self.reports.todos).clone()
    }

    fn known_stamp(&self, path: &Path) -> Option<FileStamp> {
        self.known_files.get(path)
    }

    fn known_paths(&self) -> Vec<PathBuf> {
        self.known_files.paths()
    }

    fn record_read(&self, path: &Path, stamp: FileStamp) {
        self.known_files.insert(path, stamp);
    }

    fn claim_instructions(&self, path: &Path) -> bool {
        self.instructions.insert(path)
    }

    fn warn(&self, warnings: Vec<Warning>) {
        if !warnings.is_empty() {
            self.report(|changes| changes.warnings.extend(warnings));
        }
    }

    fn notify(&self, about: &str, text: String) {
        self.parent.warning_log.notify_about(self.engine.bus(), about, &text);
    }

    fn sample(&self, wish: Sampling) -> BoxFuture<'_, Result<Sampled, ToolError>> {
        Box::pin(sampling::sample(&self.parent, wish))
    }

    fn editor(&self) -> Option<Arc<dyn Editor>> {
        self.engine.clients().editor(&self.session_id)
    }

    fn late_errors(&self) -> Option<&LateErrors> {
        Some(&self.late_errors)
    }

    fn edited(&self, path: &Path, real: &Path) {
        self.parent.workspace.lsp().changed(real);
        self.engine.bus().publish(EventPayload::FileEdited { file: path.display().to_string() });
    }
}

impl CallHost {
    /// Asks, unless the turn is cancelled: an answer that comes with or after a cancel allows nothing.
    async fn asked(&self, ask: Ask, is_opaque: bool) -> Result<AllowedBy, ToolError> {
        let asker = Asker {
            session_id: &self.session_id,
            tool: self.tool_ref(),
            policy: &self.policy,
            approvals: &self.approvals,
            cancel: &self.parent.cancel,
            plugins: self.parent.plugins.as_deref(),
        };
        // The tool's own question comes behind these.
        let is_last = !matches!(ask.permission.as_str(), "doom_loop" | "external_directory");
        let began = clock::now_ms();
        let result = tokio::select! {
            biased;
            () = self.parent.cancel.cancelled() => Err(ToolError::Cancelled { partial: None }),
            result = self.engine.asks().ask_who(asker, ask, is_opaque) => result,
        };
        let now = clock::now_ms();
        let allowed_by = result?;
        let (shown, is_shown) = oneshot::channel();
        self.report(|changes| {
            if is_last {
                changes.allowed.push((self.part, shown));
            }
            if now > began {
                changes.resumed.insert(self.part, now);
            }
        });
        // So that a client hears that a call runs before it hears of the call's effects.
        tokio::select! {
            biased;
            () = self.parent.cancel.cancelled() => Err(ToolError::Cancelled { partial: None }),
            // The sender is dropped.
            _ = is_shown => Ok(allowed_by),
        }
    }

    async fn ask_user(
        &self,
        questions: Vec<Question>,
        wish: Option<Arc<ServerWish>>,
    ) -> Result<Answers, ToolError> {
        let (tool, cancel) = (self.tool_ref(), &self.parent.cancel);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ToolError::Cancelled { partial: None }),
            result = self.engine.questions().ask(&self.session_id, tool, questions, wish, cancel) => result,
        }
    }

    fn tool_ref(&self) -> ToolRef {
        ToolRef { message_id: self.message_id.clone(), call_id: self.call_id.clone() }
    }

    /// Reports progress; the receiver ends once it is shown.
    fn progress_shown(&self, metadata: Map<String, Value>) -> oneshot::Receiver<()> {
        let (shown, is_shown) = oneshot::channel();
        self.report(|changes| {
            changes.progress.entry(self.part).or_default().1 = metadata;
            changes.shown.push(shown);
        });
        is_shown
    }

    fn report(&self, note: impl FnOnce(&mut Changes)) {
        note(&mut lock(&self.reports.changes));
        self.reports.arrived.notify_one();
    }
}
