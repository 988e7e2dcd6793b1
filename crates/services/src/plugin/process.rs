//! One process of the host: the conversation with it, and its plugins' requests.

use std::{
    collections::HashMap,
    os::fd::AsFd,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{
    net::UnixStream,
    sync::{
        mpsc::{self, error::TrySendError},
        watch,
    },
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_base::{
    lock::lock,
    rpc_peer::{CallError, Incoming, METHOD_NOT_FOUND, Outcome, Peer, framing::Framing},
};
use windlass_protocol::opencode::provider::UsableProviders;

use super::{
    api::{Api, ApiBody, ApiRequest, ApiResponse},
    fetches::Fetches,
    offer::{self, Offer},
};

/// Silence after which a process is asked for a sign of life.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit for that sign.
const PING_LIMIT: Duration = Duration::from_secs(8);

/// Questions of a tool call that may wait to be taken.
const MAX_QUESTIONS: usize = 256;

/// The number of a request that a call could not be found for.
const NO_CALL: i64 = 1;

/// The function that reads the stored login of a provider.
pub type ReadLogin = Arc<dyn Fn(String) -> BoxFuture<'static, Value> + Send + Sync>;

/// The plugins' offer, which grows when they register tools.
pub(super) type SharedOffer = Arc<Mutex<Arc<Offer>>>;

/// A running process.
pub(super) struct Process {
    peer: Peer,
    api: Option<Api>,
    read_login: ReadLogin,
    pub fetches: Fetches,
    offer: SharedOffer,
    /// The plugin that ran code last.
    at: Mutex<Option<String>>,
    /// The reason for an end that was seen before it came.
    end: Mutex<Option<String>>,
    /// Cancelled when the process is to be killed.
    pub lost: CancellationToken,
    /// Running tool calls, by the names that they were given.
    calls: Mutex<HashMap<String, CallSenders>>,
    /// The providers that it was shown, by their ids.
    shown: Mutex<HashMap<String, Arc<UsableProviders>>>,
    /// Requests of plugins, by the numbers of their streams.
    requests: Mutex<HashMap<u64, (String, AbortOnDropHandle<()>)>>,
    /// Work beside the channel.
    tasks: Mutex<JoinSet<()>>,
}

/// The way to a running tool call.
struct CallSenders {
    questions: mpsc::Sender<Question>,
    progress: watch::Sender<Progress>,
}

/// Everything that a running tool call says before its answer.
pub struct CallReceivers {
    pub questions: mpsc::Receiver<Question>,
    pub progress: watch::Receiver<Progress>,
}

/// A tool wants a permission; it needs an answer.
#[derive(Debug)]
pub struct Question {
    pub id: Value,
    pub ask: AskParams,
}

/// The progress of a tool as it was shown last.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    pub title: Option<String>,
    pub metadata: Map<String, Value>,
}

/// The permission that a tool wants.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub struct AskParams {
    pub permission: String,
    pub patterns: Vec<String>,
    pub always: Vec<String>,
    pub metadata: Map<String, Value>,
    call: String,
}

impl Default for AskParams {
    fn default() -> Self {
        let (call, permission) = (String::new(), String::new());
        Self { permission, patterns: vec!["*".to_owned()], always: Vec::new(), metadata: Map::new(), call }
    }
}

impl Process {
    pub fn new(api: Option<Api>, read_login: ReadLogin, offer: SharedOffer) -> Self {
        Self {
            peer: Peer::new(Framing::Lines, "$/cancel"),
            api,
            read_login,
            offer,
            fetches: Fetches::default(),
            at: Mutex::default(),
            end: Mutex::default(),
            lost: CancellationToken::new(),
            calls: Mutex::default(),
            shown: Mutex::default(),
            requests: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    /// Reads and writes until the process closes the channel or cannot be understood; returns the reason.
    pub async fn serve(self: &Arc<Self>, channel: UnixStream) -> String {
        // Without it, messages wait for the writer's task.
        let pipe = channel.as_fd().try_clone_to_owned().ok();
        let _at_once = pipe.map(|pipe| self.peer.write_at_once(pipe.into()));
        let (reader, writer) = channel.into_split();
        match self.peer.serve(reader, writer, |incoming| self.receive(incoming)).await {
            Ok(()) => "closed its channel".to_owned(),
            // Plugins share the process with the code that writes the protocol, so one of them has written over it.
            Err(error) => {
                let reason = format!("{error}; {} ran last", self.blamed());
                lock(&self.end).get_or_insert(reason).clone()
            }
        }
    }

    /// Lets everything fail that waits for the process.
    pub fn end(&self, reason: &str) {
        lock(&self.tasks).abort_all();
        self.peer.end(reason);
        lock(&self.requests).clear();
        lock(&self.calls).clear();
        self.fetches.clear();
    }

    /// Sends a request. A process that gives no sign of life meanwhile is given up.
    pub async fn request(self: &Arc<Self>, method: &'static str, params: Value, limit: Duration) -> Outcome {
        self.watched(method, params, limit, (PATIENCE, PING_LIMIT)).await
    }

    /// Sends a request, and asks for a sign of life after a silence; it has a limit of its own.
    async fn watched(
        self: &Arc<Self>,
        method: &'static str,
        params: Value,
        limit: Duration,
        (patience, ping_limit): (Duration, Duration),
    ) -> Outcome {
        let request = self.peer.request(method, params, limit);
        tokio::pin!(request);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut request => break outcome,
                () = tokio::time::sleep(patience) => {
                    tokio::select! {
                        biased;
                        outcome = &mut request => break outcome,
                        () = self.check(ping_limit) => {}
                    }
                }
            }
        };
        if matches!(outcome, Err(CallError::Silent { .. })) {
            // The request's limit may be shorter than the time that a busy process may take.
            let process = self.clone();
            self.spawn(async move { process.check(ping_limit).await });
        }
        outcome
    }

    /// Runs work that ends with the process.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// Asks for a sign of life, and gives the process up where there is none.
    async fn check(&self, limit: Duration) {
        if matches!(self.peer.request("ping", Value::Null, limit).await, Err(CallError::Silent { .. })) {
            self.give_up(&self.busy());
        }
    }

    fn busy(&self) -> String {
        format!("was kept busy by {}", self.blamed())
    }

    /// Has the plugins loaded. Each may take all of the process's time until `each`.
    pub async fn load(self: &Arc<Self>, params: Value, limit: Duration, each: Duration) -> Outcome {
        let patience = PATIENCE.min(each / 2);
        let answer = self.watched("start", params, limit, (patience, each.saturating_sub(patience))).await;
        if matches!(answer, Err(CallError::Silent { .. })) {
            self.give_up(&self.busy());
        }
        answer
    }

    /// Says something that is not answered.
    pub fn notify(&self, method: &str, params: Value) {
        self.peer.notify(method, params);
    }

    /// Shows it a provider, unless it knows it.
    pub fn show_provider(&self, providers: &Arc<UsableProviders>, id: &str) {
        let Some(provider) = providers.providers.iter().find(|it| it.id == id) else { return };
        let known = lock(&self.shown).insert(id.to_owned(), providers.clone());
        if known.is_none_or(|known| !Arc::ptr_eq(&known, providers)) {
            self.notify("provider", json!({ "id": id, "provider": provider }));
        }
    }

    /// Answers a request that a tool call made.
    pub fn answer(&self, id: &Value, result: Result<(), String>) {
        let result = result.map(|()| Value::Null).map_err(|message| (NO_CALL, message));
        self.peer.answer(id, result);
    }

    /// Takes in the messages of a call until the guard is dropped.
    pub fn listen(self: &Arc<Self>, call: &str) -> (CallReceivers, Listening) {
        let (question_sender, questions) = mpsc::channel(MAX_QUESTIONS);
        let (progress_sender, progress) = watch::channel(Progress::default());
        let senders = CallSenders { questions: question_sender, progress: progress_sender };
        lock(&self.calls).insert(call.to_owned(), senders);
        (CallReceivers { questions, progress }, Listening { process: self.clone(), call: call.to_owned() })
    }

    /// Notes the reason of an end, and has the process killed.
    fn give_up(&self, reason: &str) {
        lock(&self.end).get_or_insert_with(|| reason.to_owned());
        self.lost.cancel();
    }

    /// Returns the reason of the end, if it was seen.
    pub fn reason(&self) -> Option<String> {
        lock(&self.end).clone()
    }

    /// Returns the plugin that ran code last.
    pub fn last_plugin(&self) -> Option<String> {
        lock(&self.at).clone()
    }

    fn blamed(&self) -> String {
        self.last_plugin().map_or_else(|| "a plugin".to_owned(), |name| format!("the plugin {name}"))
    }

    fn receive(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Request { id, method, params } => match method.as_str() {
                "http" => self.open(id, params),
                "ask" => self.ask(id, params),
                "auth" => self.tell_login(id, &params),
                "fetch/chunk" => {
                    if let Err(id) = self.fetches.push(id, &params) {
                        self.answer(&id, Err("the answer is of no use any more".to_owned()));
                    }
                }
                _ => {
                    let message = format!("windlass does not know {method}");
                    self.peer.answer(&id, Err((METHOD_NOT_FOUND, message)));
                }
            },
            Incoming::Notification { method, params } => self.note(&method, &params),
        }
    }

    fn note(&self, method: &str, params: &Value) {
        let text = |key: &str| params.get(key).and_then(Value::as_str);
        match method {
            "at" => *lock(&self.at) = text("plugin").map(str::to_owned),
            "exiting" => {
                let plugin = text("plugin").map(str::to_owned);
                let code = params.get("code").and_then(Value::as_i64).unwrap_or_default();
                *lock(&self.at) = plugin;
                *lock(&self.end) = Some(format!("was ended by {} (exit code {code})", self.blamed()));
            }
            "tools" => {
                let tools = params.get("tools").cloned().unwrap_or_default();
                if let Ok(tools) = serde_json::from_value(tools) {
                    let (tools, unusable) = offer::usable(tools);
                    for report in unusable {
                        tracing::warn!(plugin = report.name, error = report.error, "a tool is left out");
                    }
                    let mut offer = lock(&self.offer);
                    *offer = Arc::new(Offer { tools, ..Offer::clone(&offer) });
                }
            }
            "metadata" => {
                let metadata = params.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
                let title = text("title").map(str::to_owned);
                // The call may have ended.
                if let Some(call) = lock(&self.calls).get(text("call").unwrap_or_default()) {
                    call.progress.send_modify(|shown| {
                        let title = title.or_else(|| shown.title.take());
                        *shown = Progress { title, metadata };
                    });
                }
            }
            "fetch/end" => self.fetches.end(params),
            "http/cancel" => {
                let stream = params.get("stream").and_then(Value::as_u64);
                stream.and_then(|stream| lock(&self.requests).remove(&stream));
            }
            "$/cancel" => {
                let id = params.get("id").map(Value::to_string);
                lock(&self.requests).retain(|_, (own, _)| Some(&*own) != id.as_ref());
            }
            _ => {}
        }
    }

    fn ask(&self, id: Value, params: Value) {
        let asked = serde_json::from_value::<AskParams>(params).map_err(|error| error.to_string());
        let sent = asked.and_then(|ask| {
            let questions = lock(&self.calls).get(&ask.call).map(|call| call.questions.clone());
            let questions = questions.ok_or("the call has ended")?;
            questions.try_send(Question { id: id.clone(), ask }).map_err(|error| match error {
                TrySendError::Full(_) => format!("{MAX_QUESTIONS} questions of the call wait already"),
                TrySendError::Closed(_) => "the call has ended".to_owned(),
            })
        });
        if let Err(reason) = sent {
            self.answer(&id, Err(reason));
        }
    }

    /// Answers with the stored login of a provider.
    fn tell_login(self: &Arc<Self>, id: Value, params: &Value) {
        let provider = params.get("provider").and_then(Value::as_str).unwrap_or_default();
        let login = (self.read_login)(provider.to_owned());
        let process = Arc::downgrade(self);
        self.spawn(async move {
            let login = login.await;
            if let Some(process) = process.upgrade() {
                process.peer.answer(&id, Ok(login));
            }
        });
    }

    /// Answers a request of a plugin's client, beside the others.
    fn open(self: &Arc<Self>, id: Value, params: Value) {
        let stream = params.get("stream").and_then(Value::as_u64).unwrap_or_default();
        let request = serde_json::from_value::<ApiRequest>(params);
        let (Some(api), Ok(request)) = (self.api.clone(), request) else {
            self.peer.answer(&id, Err((METHOD_NOT_FOUND, "there is no server to ask".to_owned())));
            return;
        };
        let process = Arc::downgrade(self);
        let key = id.to_string();
        let task = tokio::spawn(async move {
            let ApiResponse { status, headers, body } = api(request).await;
            let Some(open) = process.upgrade() else { return };
            let mut answer = json!({ "status": status, "headers": headers });
            let stream_body = match body {
                ApiBody::Whole(text) => {
                    answer["body"] = text.into();
                    None
                }
                ApiBody::Stream(body) => {
                    answer["streams"] = true.into();
                    Some(body)
                }
            };
            open.peer.answer(&id, Ok(answer));
            drop(open);
            if let Some(mut body) = stream_body {
                while let Some(text) = body.next().await {
                    let Some(open) = process.upgrade() else { return };
                    open.notify("http/chunk", json!({ "stream": stream, "text": text }));
                }
                if let Some(open) = process.upgrade() {
                    open.notify("http/end", json!({ "stream": stream }));
                }
            }
            if let Some(open) = process.upgrade() {
                lock(&open.requests).remove(&stream);
            }
        });
        lock(&self.requests).insert(stream, (key, AbortOnDropHandle::new(task)));
    }
}

/// Lets a call's requests come in; dropped, they are refused.
pub(super) struct Listening {
    process: Arc<Process>,
    call: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.process.calls).remove(&self.call);
    }
}
