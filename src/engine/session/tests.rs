//! A prompt is answered exactly once, whatever ends it, and by the agent that was chosen last before it began.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Command, Inbox, PromptInput, SessionCx, StopReason, Tickets, TurnOutcome};
use crate::{
    config::{Environment, paths::Paths},
    engine::{Engine, EngineError, EngineErrorKind, NewSession, state::SessionState, told::Told},
    storage::StoredSession,
};

/// Tickets, and what each was answered, in order.
#[derive(Default)]
struct Scene {
    tickets: Tickets,
    answers: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Scene {
    fn new(tickets: &[u64]) -> Self {
        let scene = Self::default();
        for &ticket in tickets {
            let answers = scene.answers.clone();
            let on_end = move |result: Result<TurnOutcome, EngineError>| {
                let said = match result {
                    Ok(outcome) => format!("{:?}", outcome.stop),
                    Err(error) => error.message,
                };
                answers.lock().unwrap().push((ticket, said));
            };
            scene.tickets.issue(ticket, CancellationToken::new(), Box::new(on_end));
        }
        scene
    }

    fn end(&self, ticket: u64) {
        let outcome = TurnOutcome { stop: StopReason::EndTurn, ..TurnOutcome::cancelled() };
        self.tickets.end(ticket, Ok(outcome));
    }

    #[track_caller]
    fn check(&self, expected: &[(u64, &str)]) {
        let answers = self.answers.lock().unwrap();
        let answers: Vec<_> = answers.iter().map(|(ticket, said)| (*ticket, said.as_str())).collect();
        assert_eq!(answers, expected);
    }
}

#[test]
fn a_turn_that_ends_answers_its_prompt_once() {
    let scene = Scene::new(&[1]);
    assert!(scene.tickets.begin(1).is_some());
    scene.check(&[]);
    scene.end(1);
    scene.end(1);
    scene.tickets.cancel(1);
    scene.check(&[(1, "EndTurn")]);
}

#[test]
fn cancelling_a_waiting_prompt_answers_it_at_once_and_it_never_begins() {
    let scene = Scene::new(&[1]);
    scene.tickets.cancel(1);
    scene.check(&[(1, "Cancelled")]);
    assert!(scene.tickets.begin(1).is_none());
    scene.end(1);
    scene.check(&[(1, "Cancelled")]);
}

#[test]
fn cancelling_a_running_prompt_tells_its_turn_which_answers_later() {
    let scene = Scene::new(&[1]);
    let cancel = scene.tickets.begin(1).unwrap();
    assert!(!cancel.is_cancelled());
    scene.tickets.cancel(1);
    assert!(cancel.is_cancelled());
    scene.check(&[]);
    scene.tickets.end(1, Ok(TurnOutcome::cancelled()));
    scene.check(&[(1, "Cancelled")]);
}

#[test]
fn a_prompt_cancelled_while_it_waited_leaves_the_running_turn_alone() {
    let scene = Scene::new(&[1, 2]);
    let cancel = scene.tickets.begin(1).unwrap();
    scene.tickets.cancel(2);
    assert!(scene.tickets.begin(2).is_none());
    assert!(!cancel.is_cancelled());
    scene.check(&[(2, "Cancelled")]);
}

#[test]
fn cancelling_all_answers_the_waiting_in_order_and_stops_the_running() {
    let scene = Scene::new(&[1, 3, 2]);
    let cancel = scene.tickets.begin(1).unwrap();
    scene.tickets.cancel_all();
    assert!(cancel.is_cancelled());
    scene.check(&[(2, "Cancelled"), (3, "Cancelled")]);
}

#[test]
fn a_fault_answers_every_open_prompt_in_order() {
    let scene = Scene::new(&[2, 1, 3]);
    scene.tickets.begin(1).unwrap();
    scene.end(3);
    scene.tickets.end_all(EngineError::new(EngineErrorKind::Internal, "it broke"));
    scene.tickets.end_all(EngineError::new(EngineErrorKind::Internal, "again"));
    scene.check(&[(3, "EndTurn"), (1, "it broke"), (2, "it broke")]);
}

#[test]
fn an_unknown_ticket_is_ignored() {
    let scene = Scene::new(&[]);
    scene.tickets.cancel(9);
    scene.end(9);
    assert!(scene.tickets.begin(9).is_none());
    scene.check(&[]);
}

/// What came before a session looked at its inbox: `Prompt` names the agent it was sent to.
#[derive(Debug, Clone, Copy)]
enum Came {
    Prompt(&'static str),
    Select(&'static str),
    /// The session looks, as it does between two steps and two turns; an agent may have taken over.
    Look(Option<&'static str>),
}

/// The agents that the waiting prompts are answered by, and the session's own.
async fn settled(order: &[Came]) -> (Vec<String>, Option<String>) {
    let home = tempfile::tempdir().expect("a directory");
    let environment = Environment { home: home.path().to_owned(), variables: Default::default() };
    let paths = Paths::new(&environment);
    let engine = Engine::new(environment, paths);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let opened = engine.create_session(new).await.expect("made");
    let (sender, receiver) = mpsc::channel(8);
    let cx = SessionCx {
        engine: engine.clone(),
        id: opened.info.id.clone(),
        workspace: opened.workspace,
        mcp: None,
        limits: Default::default(),
        tickets: Arc::default(),
        told: Told::new(opened.info.id.clone()),
        own_inbox: sender.downgrade(),
    };
    let stored =
        StoredSession { info: opened.info, messages: Vec::new(), todos: Vec::new(), noted_files: Vec::new() };
    let (mut state, _) = SessionState::from_stored(stored);
    let mut inbox = Inbox::new(receiver);
    for came in order {
        let command = match came {
            Came::Prompt(agent) => Command::Prompt {
                ticket: 0,
                input: PromptInput { agent: Some((*agent).to_owned()), ..PromptInput::default() },
            },
            Came::Select(agent) => Command::Select { agent: Some((*agent).to_owned()), model: None },
            Came::Look(switched_to) => {
                inbox.apply_settings(&cx, &mut state, *switched_to).await;
                continue;
            }
        };
        assert!(sender.try_send(command).is_ok(), "there is room");
    }
    let waiting = inbox.waiting.iter().map(|(_, input)| input.agent.clone().unwrap_or_default()).collect();
    drop(cx);
    engine.finish().await;
    (waiting, state.info.agent)
}

#[tokio::test]
async fn a_prompt_that_waits_goes_to_the_agent_that_was_chosen_last() {
    use Came::{Look, Prompt, Select};
    let cases: &[(&[Came], &[&str], Option<&str>)] = &[
        (&[Prompt("build"), Look(None)], &["build"], None),
        (&[Prompt("build"), Select("plan"), Look(None)], &["plan"], Some("plan")),
        // The choice comes when the prompt was seen already: after the turn before it, before its own.
        (&[Prompt("build"), Look(None), Select("plan"), Look(None)], &["plan"], Some("plan")),
        (&[Select("plan"), Prompt("plan"), Look(None)], &["plan"], Some("plan")),
        // What was sent before the client heard of a switch is answered by who took over.
        (&[Prompt("plan"), Look(Some("build"))], &["build"], None),
        // Unless the user chose again, for what came before that and after.
        (
            &[Prompt("plan"), Select("plan"), Prompt("plan"), Look(Some("build"))],
            &["plan", "plan"],
            Some("plan"),
        ),
        (
            &[Prompt("plan"), Prompt("plan"), Look(Some("build")), Prompt("plan"), Look(None)],
            &["build", "build", "plan"],
            None,
        ),
    ];
    for (order, waiting, own) in cases {
        let (found, agent) = settled(order).await;
        assert_eq!(
            (found.iter().map(String::as_str).collect::<Vec<_>>(), agent.as_deref()),
            (waiting.to_vec(), *own),
            "{order:?}"
        );
    }
}
