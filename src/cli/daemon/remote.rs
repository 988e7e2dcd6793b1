//! A server's sessions for a terminal: prompts and answers go to it as requests, its events come back as a stream.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use windlass_base::{ids, lock::lock, queue::Queue, sse};
use windlass_engine::{Begun, Delivery, Invocation, PromptInput, PromptPart, StopReason, TurnBegin};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::{MessageId, PartId, PermissionId, QuestionId, SessionId},
    inbox::{InboxDelivery, InboxEvent, InboxItem},
    message::{Message, MessageError, MessageWithParts},
    permission::{PermissionRequest, Reply},
    question::QuestionRequest,
    session::SessionStatus,
};

use super::{
    super::run::failure::Failure,
    http::Http,
    turn_end::{OnEnd, TurnEnd, TurnResult},
};

/// Pause before a lost server is looked for again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Time for the last answers to reach the server.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Events that wait to be shown. Nothing waits for their reader; the server bounds the events kept for one.
const MAX_WAITING: usize = 1 << 20;

/// See the module's comment.
pub struct Remote {
    pub http: Http,
    events: Arc<Queue<Arc<Event>>>,
    /// Prompts wait at the server for the turn that runs; one of OpenCode has no place for them.
    has_inbox: bool,
    state: Mutex<State>,
    /// Requests under way.
    tasks: TaskTracker,
    own: Weak<Self>,
}

#[derive(Default)]
struct State {
    /// Sessions that are shown, and their subagents'.
    held: HashSet<SessionId>,
    permissions: Vec<PermissionRequest>,
    questions: Vec<QuestionRequest>,
    /// Sessions that work.
    working: HashSet<SessionId>,
    /// Prompts sent so far, which number the turns: an answer may come behind the end of its turn.
    n_sent: u64,
    /// Ends of prompts that never began.
    unbegun: Ended,
    /// Prompts that are being taken back.
    withdrawals: HashMap<MessageId, oneshot::Sender<bool>>,
    /// Of each session, the prompt that was sent last while it worked: cancelled once the server has it.
    sent: HashMap<SessionId, CancellationToken>,
    /// The newest prompt of each session.
    prompts: HashMap<SessionId, MessageId>,
    /// The newest prompt of each session that left the session idle at the end of its turn.
    finished: HashMap<SessionId, MessageId>,
    turns: Vec<Turn>,
    followers: Vec<Follower>,
    /// Parts that are being read; true if one has grown since.
    readings: HashMap<PartId, bool>,
}

/// A prompt of ours with a turn that was not shown to its end.
struct Turn {
    session_id: SessionId,
    /// The server's answer and the prompt it belongs to; its events may still be on their way.
    answer: Option<(MessageId, TurnEnd)>,
    on_end: OnEnd,
    number: u64,
    /// Set for one that was sent while the session worked.
    beside: Option<BesideTurn>,
}

/// A prompt that waits at the server, until it begins.
struct BesideTurn {
    message_id: MessageId,
    is_steer: bool,
    on_begin: TurnBegin,
    /// Cancelled once the server has it.
    arrived: CancellationToken,
}

/// The wait for the end of a turn that was not asked for here.
struct Follower {
    session_id: SessionId,
    directory: PathBuf,
    /// The server has said that nothing runs; the last events may still be on their way.
    is_over: bool,
    end: oneshot::Sender<TurnEnd>,
}

impl Remote {
    /// Connects to a server and follows its events.
    pub async fn connect(http: Http) -> Result<Arc<Self>, Failure> {
        let has_inbox = http.has_route("/api/session/ses_none/inbox").await;
        let remote = Arc::new_cyclic(|own| Self {
            http,
            events: Arc::new(Queue::new(MAX_WAITING)),
            has_inbox,
            state: Mutex::default(),
            tasks: TaskTracker::new(),
            own: own.clone(),
        });
        let stream = remote.subscribe().await.map_err(Failure::Failed)?;
        tokio::spawn(follow(Arc::downgrade(&remote), stream));
        Ok(remote)
    }

    /// Waits until the answers have reached the server.
    pub async fn finish(&self) {
        self.tasks.close();
        let _ = tokio::time::timeout(END_LIMIT, self.tasks.wait()).await;
    }

    /// Opens the stream of events, and reads the questions that wait since before.
    async fn subscribe(&self) -> Result<Response, String> {
        let stream = self.http.send(self.http.request(Method::GET, "/global/event")).await?;
        let permissions: Vec<PermissionRequest> = self.http.get("/permission").await?;
        let questions: Vec<QuestionRequest> = self.http.get("/question").await?;
        let mut state = lock(&self.state);
        (state.permissions, state.questions) = (permissions, questions);
        Ok(stream)
    }

    pub fn listen(&self) -> Arc<Queue<Arc<Event>>> {
        self.events.clone()
    }

    pub fn hold(&self, id: &SessionId) {
        lock(&self.state).held.insert(id.clone());
    }

    pub fn release(&self, id: &SessionId) {
        lock(&self.state).held.remove(id);
    }

    /// Sends a prompt; the turn ends here once its answer and its last event have arrived.
    pub fn prompt(&self, id: &SessionId, input: PromptInput, on_end: OnEnd) {
        let (path, body) = request(id, input);
        self.send(id, path, body, on_end, None);
    }

    /// Sends a prompt to a session that works, and returns its ticket; `None` where the server has no place for it.
    pub fn prompt_beside(
        &self,
        id: &SessionId,
        input: PromptInput,
        on_begin: TurnBegin,
        on_end: OnEnd,
    ) -> Option<u64> {
        let is_steer = input.delivery != Delivery::Turn;
        let is_words = matches!(input.invocation, Invocation::None | Invocation::Slash);
        if !self.has_inbox || !is_words {
            return None;
        }
        let message_id = ids::message();
        let (path, mut body) = request(id, input);
        body["messageID"] = json!(message_id);
        body["delivery"] = json!(if is_steer { InboxDelivery::Steer } else { InboxDelivery::Queue });
        let arrived = CancellationToken::new();
        self.send(id, path, body, on_end, Some(BesideTurn { message_id, is_steer, on_begin, arrived }))
    }

    /// Takes the prompts back that wait for the next one; returns their words.
    pub async fn take_parked(&self, id: &SessionId) -> Vec<String> {
        if !self.has_inbox {
            return Vec::new();
        }
        let path = format!("/api/session/{id}/inbox");
        // The next prompt reports a server that does not answer.
        let listed = self.http.get::<Value>(&path).await.unwrap_or_default();
        let listed = serde_json::from_value::<Vec<InboxItem>>(listed["data"].clone()).unwrap_or_default();
        let mut words = Vec::new();
        for item in listed.into_iter().filter(|item| item.parked) {
            if self.http.delete(&format!("{path}/{}", item.id)).await.is_ok() {
                words.push(item.payload.text);
            }
        }
        words
    }

    /// Takes a prompt back that waits; false comes if it has begun.
    pub fn withdraw(&self, id: &SessionId, ticket: u64) -> oneshot::Receiver<bool> {
        let (withdrawn, answer) = oneshot::channel();
        let mut state = lock(&self.state);
        let turn = state.turns.iter().find(|turn| turn.number == ticket);
        let waiting = turn.and_then(|turn| turn.beside.as_ref());
        let waiting = waiting.map(|it| (it.message_id.clone(), it.arrived.clone()));
        let (Some((message_id, arrived)), Some(own)) = (waiting, self.own.upgrade()) else {
            // The one that asked is there.
            let _ = withdrawn.send(false);
            return answer;
        };
        state.withdrawals.insert(message_id.clone(), withdrawn);
        drop(state);
        let path = format!("/api/session/{id}/inbox/{message_id}");
        self.tasks.spawn(async move {
            arrived.cancelled().await;
            let is_withdrawn = own.http.delete(&path).await.is_ok();
            // It may have begun meanwhile, which its events show.
            lock(&own.state).end_withdrawal(&message_id, is_withdrawn);
        });
        answer
    }

    fn send(
        &self,
        id: &SessionId,
        path: String,
        body: Value,
        on_end: OnEnd,
        beside: Option<BesideTurn>,
    ) -> Option<u64> {
        let own = self.own.upgrade()?;
        let arrived = beside.as_ref().map(|beside| beside.arrived.clone());
        let (number, before) = {
            let mut state = lock(&self.state);
            let before = arrived.as_ref().and_then(|it| state.sent.insert(id.clone(), it.clone()));
            (state.begin(id, on_end, beside), before)
        };
        self.tasks.spawn(async move {
            // In the order in which they were typed.
            if let Some(before) = before {
                before.cancelled().await;
            }
            let answered = own.http.post::<MessageWithParts>(&path, &body).await;
            if let Some(arrived) = arrived {
                arrived.cancel();
            }
            own.note_answer(number, answered);
        });
        Some(number)
    }

    fn note_answer(&self, number: u64, answered: Result<MessageWithParts, String>) {
        let ended = lock(&self.state).answered(number, answered);
        for (on_end, end) in ended {
            on_end(end);
        }
    }

    /// Returns the end of the turn that a session of this directory runs, if it runs one.
    pub async fn running(&self, id: &SessionId, directory: &Path) -> Option<oneshot::Receiver<TurnEnd>> {
        let (end, ended) = oneshot::channel();
        {
            // Before the server is asked, so that no end is missed.
            let mut state = lock(&self.state);
            state.followers.retain(|follower| !follower.end.is_closed());
            let (session_id, directory) = (id.clone(), directory.to_owned());
            state.followers.push(Follower { session_id, directory, is_over: false, end });
        }
        self.is_working(id, directory).await.unwrap_or_default().then_some(ended)
    }

    /// Returns true if a session of this directory has a turn that runs or waits.
    async fn is_working(&self, id: &SessionId, directory: &Path) -> Result<bool, String> {
        let directory = utf8_percent_encode(&directory.display().to_string(), NON_ALPHANUMERIC).to_string();
        let path = format!("/session/status?directory={directory}");
        let statuses: HashMap<SessionId, SessionStatus> = self.http.get(&path).await?;
        Ok(statuses.get(id).is_some_and(|status| *status != SessionStatus::Idle))
    }

    /// Asks the server for each turn that is followed: one that had ended when it was looked for tells no end.
    fn check_followed(&self) {
        let followed: Vec<(SessionId, PathBuf)> = {
            let mut state = lock(&self.state);
            state.followers.retain(|follower| !follower.end.is_closed());
            let places = state.followers.iter().map(|it| (it.session_id.clone(), it.directory.clone()));
            places.collect()
        };
        for (id, directory) in followed {
            let Some(own) = self.own.upgrade() else { return };
            self.tasks.spawn(async move {
                if own.is_working(&id, &directory).await == Ok(false) {
                    let mut state = lock(&own.state);
                    let followers = state.followers.iter_mut().filter(|follower| follower.session_id == id);
                    followers.for_each(|follower| follower.is_over = true);
                }
            });
        }
    }

    /// Reads a part that grows, and shows it as it is by then. If it grows meanwhile, it is read once more.
    pub fn refresh(&self, session_id: &SessionId, part_id: &PartId) {
        let Some(own) = self.own.upgrade() else { return };
        if lock(&self.state).readings.insert(part_id.clone(), true).is_some() {
            return;
        }
        // One message alone comes without the text that it has grown by.
        let path = format!("/session/{session_id}/message?limit=2");
        let (session_id, part_id) = (session_id.clone(), part_id.clone());
        self.tasks.spawn(async move {
            loop {
                lock(&own.state).readings.insert(part_id.clone(), false);
                let messages = own.http.get::<Vec<MessageWithParts>>(&path).await.unwrap_or_default();
                let mut parts = messages.into_iter().flat_map(|message| message.parts);
                let part = parts.find(|part| part.id == part_id);
                let is_read = part.is_some();
                if let Some(part) = part {
                    let payload = EventPayload::PartUpdated {
                        session_id: session_id.clone(),
                        part: part.into(),
                        time: 0,
                    };
                    own.events.push(Arc::new(Event { id: ids::event(), payload }), 1);
                }
                let mut state = lock(&own.state);
                if !is_read || state.readings.get(&part_id) == Some(&false) {
                    state.readings.remove(&part_id);
                    return;
                }
            }
        });
    }

    pub fn cancel(&self, id: &SessionId) {
        self.say(format!("/session/{id}/abort"), json!({}));
    }

    /// Cancels the turns that were asked for here.
    pub fn cancel_all(&self) {
        let ids: Vec<SessionId> =
            lock(&self.state).turns.iter().map(|turn| turn.session_id.clone()).collect();
        for id in &ids {
            self.cancel(id);
        }
    }

    pub fn is_permission_waiting(&self, id: &PermissionId) -> bool {
        lock(&self.state).permissions.iter().any(|request| request.id == *id)
    }

    pub fn is_question_waiting(&self, id: &QuestionId) -> bool {
        lock(&self.state).questions.iter().any(|request| request.id == *id)
    }

    pub fn pending_permissions(&self, id: &SessionId) -> Vec<PermissionRequest> {
        let state = lock(&self.state);
        state.permissions.iter().filter(|request| request.session_id == *id).cloned().collect()
    }

    pub fn pending_questions(&self, id: &SessionId) -> Vec<QuestionRequest> {
        let state = lock(&self.state);
        state.questions.iter().filter(|request| request.session_id == *id).cloned().collect()
    }

    pub fn reply_permission(&self, id: &PermissionId, reply: Reply, feedback: Option<String>) {
        let mut body = json!({"reply": reply});
        if let Some(feedback) = feedback {
            body["message"] = feedback.into();
        }
        self.say(format!("/permission/{id}/reply"), body);
    }

    pub fn reply_question(&self, id: &QuestionId, answers: Vec<Vec<String>>) {
        self.say(format!("/question/{id}/reply"), json!({"answers": answers}));
    }

    pub fn reject_question(&self, id: &QuestionId) {
        self.say(format!("/question/{id}/reject"), json!({}));
    }

    /// Sends a request with an effect that the events show.
    fn say(&self, path: String, body: Value) {
        let Some(own) = self.own.upgrade() else { return };
        self.tasks.spawn(async move {
            if let Err(reason) = own.http.post::<Value>(&path, &body).await {
                // Another client was quicker, or the server has gone, which the stream tells as well.
                tracing::debug!(reason, path, "the server refused an answer");
            }
        });
    }

    /// Takes an event in: it is noted first, shown second.
    fn deliver(&self, event: Value) {
        let is_heartbeat = event["type"] == "server.heartbeat";
        let mut state = lock(&self.state);
        let ended = if is_heartbeat {
            // All that was said before the answer has arrived by now.
            state.release_followers(|follower| follower.is_over);
            state.take_answered()
        } else {
            // Events of services are not shown here, and have no type of their own.
            let Ok(event) = serde_json::from_value::<Event>(event) else { return };
            state.note(&event.payload);
            let idle = if let EventPayload::SessionIdle { session_id } = &event.payload {
                Some(session_id.clone())
            } else {
                None
            };
            if event.payload.session_id().is_some_and(|id| state.held.contains(id)) {
                self.events.push(Arc::new(event), 1);
            }
            state.release_followers(|follower| idle.as_ref() == Some(&follower.session_id));
            state.take_ended()
        };
        drop(state);
        if is_heartbeat {
            self.check_followed();
        }
        for (on_end, end) in ended {
            on_end(end);
        }
    }
}

/// Reads events until the client is dropped. A lost server is looked for again.
async fn follow(remote: Weak<Remote>, mut stream: Response) {
    loop {
        read(&remote, &mut stream).await;
        loop {
            tokio::time::sleep(RETRY_PAUSE).await;
            let Some(remote) = remote.upgrade() else { return };
            if let Ok(opened) = remote.subscribe().await {
                stream = opened;
                // The end may have been told meanwhile.
                lock(&remote.state).release_followers(|_| true);
                break;
            }
        }
    }
}

async fn read(remote: &Weak<Remote>, stream: &mut Response) {
    let (mut parser, mut events) = (sse::Parser::default(), Vec::new());
    while let Ok(Some(bytes)) = stream.chunk().await {
        if parser.push(&bytes, &mut events).is_err() {
            return;
        }
        let Some(remote) = remote.upgrade() else { return };
        for event in events.drain(..) {
            if let Ok(mut event) = serde_json::from_str::<Value>(&event.data) {
                remote.deliver(event["payload"].take());
            }
        }
    }
}

/// Ends of turns, with their receivers.
type Ended = Vec<(OnEnd, TurnEnd)>;

impl State {
    /// Notes a prompt that is sent; returns its number.
    fn begin(&mut self, id: &SessionId, on_end: OnEnd, beside: Option<BesideTurn>) -> u64 {
        let number = self.n_sent;
        self.n_sent += 1;
        self.turns.push(Turn { session_id: id.clone(), answer: None, on_end, number, beside });
        number
    }

    /// Notes the answer to a prompt, whose turn may be over by now.
    fn answered(&mut self, number: u64, answered: Result<MessageWithParts, String>) -> Ended {
        let Some(at) = self.turns.iter().position(|turn| turn.number == number) else { return Vec::new() };
        match answered {
            // No turn of it will be shown.
            Err(reason) => vec![(self.turns.remove(at).on_end, Err(reason))],
            Ok(message) => {
                self.turns[at].answer = Some((prompt_of(&message.info), turn_end(message.info)));
                self.take_ended()
            }
        }
    }

    fn note(&mut self, payload: &EventPayload) {
        match payload {
            EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info) => {
                let is_ours = info.info.parent_id.as_ref().is_some_and(|parent| self.held.contains(parent));
                if is_ours {
                    self.held.insert(info.session_id.clone());
                }
            }
            EventPayload::MessageUpdated { info, .. } => {
                if let Message::User(user) = &**info {
                    self.prompts.insert(user.session_id.clone(), user.id.clone());
                }
            }
            EventPayload::SessionStatus { session_id, status } if *status != SessionStatus::Idle => {
                self.working.insert(session_id.clone());
            }
            EventPayload::Inbox(InboxEvent::Enqueued { inbox_id, .. }) => {
                let mut waiting = self.turns.iter().filter_map(|turn| turn.beside.as_ref());
                if let Some(waiting) = waiting.find(|beside| beside.message_id == *inbox_id) {
                    waiting.arrived.cancel();
                }
            }
            EventPayload::Inbox(InboxEvent::Cancelled { inbox_id, .. }) => {
                self.end_withdrawal(inbox_id, true);
                let is_meant =
                    |turn: &mut Turn| turn.beside.as_ref().is_some_and(|it| it.message_id == *inbox_id);
                for turn in self.turns.extract_if(.., is_meant) {
                    if let Some(beside) = &turn.beside {
                        beside.arrived.cancel();
                    }
                    let end = TurnResult { stop: StopReason::Cancelled, structured: None };
                    self.unbegun.push((turn.on_end, Ok(end)));
                }
            }
            EventPayload::Inbox(InboxEvent::Delivered { session_id, inbox_id }) => {
                let is_within = self.working.contains(session_id);
                let begun = self
                    .turns
                    .iter_mut()
                    .find_map(|turn| turn.beside.take_if(|beside| beside.message_id == *inbox_id));
                if let Some(BesideTurn { is_steer, on_begin, arrived, .. }) = begun {
                    arrived.cancel();
                    on_begin(if is_steer && is_within { Begun::Within } else { Begun::Turn });
                }
            }
            EventPayload::SessionIdle { session_id } => {
                self.working.remove(session_id);
                if let Some(prompt) = self.prompts.get(session_id) {
                    self.finished.insert(session_id.clone(), prompt.clone());
                }
            }
            EventPayload::PermissionAsked(request) => self.permissions.push(request.clone()),
            EventPayload::QuestionAsked(request) => self.questions.push(request.clone()),
            EventPayload::PermissionReplied { request_id, .. } => {
                self.permissions.retain(|request| request.id != *request_id);
            }
            EventPayload::QuestionReplied { request_id, .. }
            | EventPayload::QuestionRejected { request_id, .. } => {
                self.questions.retain(|request| request.id != *request_id);
            }
            _other => {}
        }
    }

    fn end_withdrawal(&mut self, id: &MessageId, is_withdrawn: bool) {
        if let Some(withdrawn) = self.withdrawals.remove(id) {
            // The turn may be over.
            let _ = withdrawn.send(is_withdrawn);
        }
    }

    /// Tells such followers that the turn has ended.
    fn release_followers(&mut self, is_released: impl Fn(&Follower) -> bool) {
        for follower in self.followers.extract_if(.., |follower| is_released(follower)) {
            // It may have stopped waiting.
            let _ = follower.end.send(Ok(TurnResult { stop: StopReason::EndTurn, structured: None }));
        }
    }

    /// Takes the turns that have their answer, and behind it an idle session.
    fn take_ended(&mut self) -> Ended {
        let finished = &self.finished;
        let is_ended = |turn: &mut Turn| {
            let Some((prompt, _)) = &turn.answer else { return false };
            finished.get(&turn.session_id).is_some_and(|last| last >= prompt)
        };
        let ended = self.turns.extract_if(.., is_ended).filter_map(Turn::ended);
        self.unbegun.drain(..).chain(ended).collect()
    }

    /// Takes the turns that have their answer.
    fn take_answered(&mut self) -> Ended {
        self.turns.extract_if(.., |turn| turn.answer.is_some()).filter_map(Turn::ended).collect()
    }
}

impl Turn {
    fn ended(self) -> Option<(OnEnd, TurnEnd)> {
        let (_, end) = self.answer?;
        Some((self.on_end, end))
    }
}

/// Returns the prompt that a message belongs to.
fn prompt_of(message: &Message) -> MessageId {
    match message {
        Message::User(user) => user.id.clone(),
        Message::Assistant(answer) => answer.parent_id.clone(),
    }
}

fn turn_end(message: Message) -> TurnEnd {
    let Message::Assistant(answer) = message else {
        return Ok(TurnResult { stop: StopReason::EndTurn, structured: None });
    };
    let stop = match (&answer.error, answer.finish.as_deref()) {
        (Some(MessageError::MessageAbortedError { .. }), _) => StopReason::Cancelled,
        (Some(error), _) => return Err(error.message().to_owned()),
        (None, Some("length")) => StopReason::MaxTokens,
        (None, Some("content-filter")) => StopReason::Refusal,
        (None, _) => StopReason::EndTurn,
    };
    Ok(TurnResult { stop, structured: answer.structured })
}

/// Returns the path and the body of the request that a prompt becomes.
fn request(id: &SessionId, input: PromptInput) -> (String, Value) {
    let PromptInput { parts, agent, model, invocation, format, .. } = input;
    let words: Vec<&str> = parts
        .iter()
        .filter_map(|part| if let PromptPart::Text { text, .. } = part { Some(text.as_str()) } else { None })
        .collect();
    let words = words.join("\n");
    let mut body = json!({});
    if let Some(agent) = agent {
        body["agent"] = agent.into();
    }
    let kind = match invocation {
        Invocation::Named(name) => {
            body["command"] = name.into();
            body["arguments"] = words.into();
            let files = parts.iter().filter(|part| matches!(part, PromptPart::File(_)));
            body["parts"] = files.map(part).collect();
            if let Some(model) = model {
                body["variant"] = json!(model.variant);
                body["model"] = format!("{}/{}", model.provider_id, model.model_id).into();
            }
            "command"
        }
        Invocation::Shell => {
            body["command"] = words.into();
            body["model"] = json!(model);
            "shell"
        }
        Invocation::None | Invocation::Slash | Invocation::AskAgain => {
            body["parts"] = parts.iter().map(part).collect();
            if let Some(model) = model {
                body["variant"] = json!(model.variant);
                body["model"] = json!(model);
            }
            if let Some(format) = format {
                body["format"] = json!(format);
            }
            "message"
        }
    };
    (format!("/session/{id}/{kind}"), body)
}

fn part(part: &PromptPart) -> Value {
    match part {
        PromptPart::Text { text, is_synthetic, is_ignored } => {
            json!({"type": "text", "text": text, "synthetic": is_synthetic, "ignored": is_ignored})
        }
        PromptPart::File(file) => {
            let mut part = json!(file);
            part["type"] = "file".into();
            part
        }
        PromptPart::Agent { name } => json!({"type": "agent", "name": name}),
        PromptPart::Subtask { prompt, description, agent, model } => {
            json!({"type": "subtask", "prompt": prompt, "description": description, "agent": agent, "model": model})
        }
        PromptPart::Document { text, .. } => json!({"type": "text", "text": text, "synthetic": true}),
    }
}

#[cfg(test)]
mod tests;
