//! Random interleavings of prompts, cancels, settings, closes, loads and failures of the provider, against a model of
//! the possible results of each.
//!
//! `INTERLEAVINGS` gives their number, `INTERLEAVINGS_SEED` other ones (`random`) or those of a run; a failure prints
//! the operations.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::{
    crash::checks,
    support::{
        agent::{Agent, DEADLINE, requests::Pending},
        llm::{Gate, Reply, request::Request},
        message::{settled, tag},
        random::{self, FailedAt, Random, from_environment},
    },
};

/// Interleavings that share a daemon.
const BATCH: u64 = 10;
const N_OPERATIONS: usize = 10;
const N_SESSIONS: usize = 2;

/// The model's behaviour towards a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Call,
    /// A call that runs until it is cancelled.
    Endless,
    /// An answer that never begins.
    Hang,
    RateLimit,
    Cut,
    Garbage,
}

const KINDS: [Kind; 7] =
    [Kind::Text, Kind::Call, Kind::Endless, Kind::Hang, Kind::RateLimit, Kind::Cut, Kind::Garbage];

impl Kind {
    fn ends_by_itself(self) -> bool {
        !matches!(self, Self::Endless | Self::Hang)
    }

    fn may_fail(self) -> bool {
        matches!(self, Self::Cut | Self::Garbage)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Prompt(Kind),
    Cancel,
    Mode(&'static str),
    Close,
    Load,
    /// Waits for the oldest prompt that has no answer, unless only a cancel ends it.
    Wait,
}

fn operation(random: &mut Random) -> Operation {
    match random.below(12) {
        0..5 => Operation::Prompt(KINDS[random.below(KINDS.len())]),
        5 | 6 => Operation::Cancel,
        7 => Operation::Mode(if random.below(2) == 0 { "plan" } else { "build" }),
        8 => Operation::Close,
        9 | 10 => Operation::Load,
        _last => Operation::Wait,
    }
}

struct Sent {
    kind: Kind,
    pending: Pending,
    /// The session was closed when the prompt was sent.
    is_refused: bool,
    /// A cancel or a close was sent after it.
    may_be_cancelled: bool,
}

/// A session as its client knows it.
struct Talk {
    id: String,
    is_open: bool,
    prompts: Vec<Sent>,
    /// Other requests, with true where they must succeed.
    requests: Vec<(Pending, bool)>,
}

/// Answers by the marker in the last prompt, which names its kind.
fn answer(asked: &Mutex<HashMap<String, usize>>, request: &Request) -> Reply {
    let prompt = request.last_user();
    // Plan mode adds reminders behind the prompt.
    let found = KINDS.into_iter().filter_map(|kind| Some((prompt.rfind(&format!("<{kind:?} "))?, kind)));
    let (at, kind) = found.max_by_key(|(at, _)| *at).unwrap();
    let marker = prompt[at..].split('>').next().unwrap().to_owned();
    let n_before = {
        let mut asked = asked.lock().unwrap();
        let count = asked.entry(marker.clone()).or_default();
        *count += 1;
        *count - 1
    };
    let has_result = request.messages().last().is_some_and(|message| message["role"] == "tool");
    match kind {
        Kind::Call if !has_result => {
            Reply::text("calls ").and_call("call_1", "bash", json!({"command": "echo called"}))
        }
        Kind::Endless if !has_result => Reply::text("calls ").and_call(
            "call_1",
            "bash",
            json!({"command": "echo begun; sleep 600 & sleep 600"}),
        ),
        Kind::Hang => Reply::hang(&Gate::new()),
        Kind::RateLimit if n_before == 0 => Reply::status(429).header("retry-after-ms", "5"),
        Kind::Cut => Reply::text("cut ").and_cut(),
        Kind::Garbage => Reply::text("garbage ").and_garbage(),
        Kind::Text | Kind::Call | Kind::Endless | Kind::RateLimit => Reply::deltas(["some ", "words"]),
    }
}

impl Talk {
    async fn new(agent: &Agent) -> Self {
        Self { id: agent.new_session().await, is_open: true, prompts: Vec::new(), requests: Vec::new() }
    }

    async fn run(&mut self, agent: &Agent, operation: Operation, n: usize) {
        match operation {
            Operation::Prompt(kind) => {
                let pending = agent.send_prompt(&self.id, &format!("<{kind:?} {n}>"));
                let is_refused = !self.is_open;
                self.prompts.push(Sent { kind, pending, is_refused, may_be_cancelled: false });
            }
            Operation::Cancel => {
                agent.cancel(&self.id);
                self.cancelled();
            }
            Operation::Mode(mode) => {
                let params = json!({"sessionId": self.id, "modeId": mode});
                self.requests.push((agent.send_request("session/set_mode", params), self.is_open));
            }
            Operation::Close => {
                let pending = agent.send_request("session/close", json!({"sessionId": self.id}));
                self.requests.push((pending, self.is_open));
                self.is_open = false;
                self.cancelled();
            }
            Operation::Load => {
                let params = json!({"sessionId": self.id, "cwd": agent.scratch.cwd(), "mcpServers": []});
                self.requests.push((agent.send_request("session/load", params), true));
                self.is_open = true;
            }
            Operation::Wait => {
                let open = self.prompts.iter().find(|sent| !sent.pending.is_answered());
                if let Some(sent) = open.filter(|sent| sent.kind.ends_by_itself() || sent.may_be_cancelled) {
                    let _ = sent.pending.answer().await;
                }
            }
        }
    }

    fn cancelled(&mut self) {
        self.prompts.iter_mut().for_each(|sent| sent.may_be_cancelled = true);
    }

    /// Ends the work that still runs, and compares every answer with the model.
    async fn finish(&mut self, agent: &Agent) {
        agent.cancel(&self.id);
        self.cancelled();
        for sent in &self.prompts {
            let answer = sent.pending.answer().await;
            let Sent { kind, is_refused, may_be_cancelled, .. } = sent;
            match answer {
                Ok(result) => match result["stopReason"].as_str().unwrap() {
                    "end_turn" if *is_refused => panic!("a prompt of a closed session was answered"),
                    "end_turn" => {
                        assert!(kind.ends_by_itself() && !kind.may_fail(), "{kind:?} came to an end")
                    }
                    "cancelled" => assert!(may_be_cancelled, "{kind:?} was cancelled by nobody"),
                    other => panic!("{kind:?} ended with {other}"),
                },
                Err(error) => assert!(*is_refused || kind.may_fail(), "{kind:?} failed: {error:?}"),
            }
        }
        for (pending, must_succeed) in &self.requests {
            let answer = pending.answer().await;
            assert!(answer.is_ok() || !must_succeed, "{} failed: {answer:?}", pending.id);
        }
    }
}

#[tokio::test]
async fn every_prompt_is_answered_once_and_legally_whatever_comes_between() {
    let n_all = from_environment("INTERLEAVINGS", 30);
    let seed = random::seed("INTERLEAVINGS_SEED");
    for batch in 0..n_all.div_ceil(BATCH) {
        let agent = Agent::start_with(json!({"windlass": {"file_time": false}})).await;
        let asked: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        agent.llm.answer_with(move |request| answer(&asked, request));
        let mut ids = Vec::new();
        for n in batch * BATCH..n_all.min((batch + 1) * BATCH) {
            let mut random = Random::new(seed.wrapping_add(n));
            let operations: Vec<(usize, Operation)> =
                (0..N_OPERATIONS).map(|_| (random.below(N_SESSIONS), operation(&mut random))).collect();
            let _failed_at =
                FailedAt(format!("interleaving {n} with INTERLEAVINGS_SEED={seed}: {operations:?}"));
            let mut talks = Vec::new();
            for _ in 0..N_SESSIONS {
                talks.push(Talk::new(&agent).await);
            }
            for (index, (session, operation)) in operations.into_iter().enumerate() {
                talks[session].run(&agent, operation, usize::try_from(n).unwrap() * 100 + index).await;
                for _ in 0..random.below(50) {
                    tokio::task::yield_now().await;
                }
            }
            for talk in &mut talks {
                talk.finish(&agent).await;
            }
            ids.extend(talks.into_iter().map(|talk| talk.id));
        }
        agent.childless(DEADLINE).await;
        let agent = agent.restarted().await;
        let _failed_at =
            FailedAt(format!("batch {batch} with INTERLEAVINGS_SEED={seed}, in the next daemon"));
        for id in ids {
            let shown = settled(&agent.load(&id).await);
            let is_open = |call: &&Value| call["status"] == "pending" || call["status"] == "in_progress";
            let calls = shown.iter().filter(|update| tag(update) == "tool_call");
            assert_eq!(calls.filter(is_open).count(), 0, "{shown:#?}");
            assert_eq!(agent.prompt(&id, "<Text last>").await.text(), "some words");
            checks::is_valid(&agent.llm.last_request());
        }
        let scratch = agent.scratch.clone();
        agent.finish().await;
        checks::is_whole(&scratch);
    }
}
