//! A prompt is answered exactly once, however it ends.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio_util::sync::CancellationToken;

use windlass_base::ids;
use windlass_core::bus::Bus;

use super::{Begun, Identity, PromptInput, PromptWatch, Tickets, TurnOutcome};
use crate::{EngineError, EngineErrorKind, session::request::StopReason};

/// Tickets, and the answers to each, in order.
struct Scene {
    tickets: Tickets,
    answers: Arc<Mutex<Vec<(u64, String)>>>,
}

fn tickets_of_none() -> Tickets {
    Tickets::new(&ids::session(), &Bus::default())
}

impl Scene {
    fn new(tickets: &[u64]) -> Self {
        let scene = Self { tickets: tickets_of_none(), answers: Arc::default() };
        for &ticket in tickets {
            let answers = scene.answers.clone();
            let on_end = move |result: Result<TurnOutcome, EngineError>| {
                let said = match result {
                    Ok(outcome) => format!("{:?}", outcome.stop),
                    Err(error) => error.message,
                };
                answers.lock().unwrap().push((ticket, said));
            };
            let watch = PromptWatch::until_end(Box::new(on_end));
            scene.tickets.issue(
                ticket,
                Identity::of(&PromptInput::default()),
                CancellationToken::new(),
                watch,
                PromptInput::default(),
            );
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
fn a_stored_message_is_told_of_in_the_turn_that_runs_and_in_no_other() {
    let tickets = tickets_of_none();
    let mut stored = [1, 2].map(|ticket| {
        let (sender, stored) = oneshot::channel();
        let watch = PromptWatch { on_stored: Some(sender), ..PromptWatch::until_end(Box::new(|_| ())) };
        tickets.issue(
            ticket,
            Identity::of(&PromptInput::default()),
            CancellationToken::new(),
            watch,
            PromptInput::default(),
        );
        stored
    });
    tickets.begin(1, Begun::Turn);
    tickets.stored();
    tickets.stored();
    assert_eq!(stored[0].try_recv(), Ok(()));
    assert_eq!(stored[1].try_recv(), Err(TryRecvError::Empty));
    tickets.cancel(2);
    assert_eq!(stored[1].try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn a_turn_that_ends_answers_its_prompt_once() {
    let scene = Scene::new(&[1]);
    assert!(scene.tickets.begin(1, Begun::Turn).is_some());
    scene.check(&[]);
    scene.end(1);
    scene.end(1);
    scene.tickets.cancel(1);
    scene.check(&[(1, "EndTurn")]);
}

#[test]
fn cancelling_a_prompt_behind_others_answers_it_at_once_and_it_never_begins() {
    let scene = Scene::new(&[1, 2]);
    scene.tickets.cancel(2);
    scene.check(&[(2, "Cancelled")]);
    assert!(scene.tickets.begin(2, Begun::Turn).is_none());
    scene.end(2);
    scene.check(&[(2, "Cancelled")]);
}

#[test]
fn a_prompt_that_is_cancelled_before_its_turn_begins_keeps_its_words() {
    let scene = Scene::new(&[1]);
    scene.tickets.cancel(1);
    scene.check(&[]);
    assert!(scene.tickets.begin(1, Begun::Turn).unwrap().0.is_cancelled());
    scene.tickets.end(1, Ok(TurnOutcome::cancelled()));
    scene.check(&[(1, "Cancelled")]);
}

#[test]
fn cancelling_a_running_prompt_tells_its_turn_which_answers_later() {
    let scene = Scene::new(&[1]);
    let (cancel, _) = scene.tickets.begin(1, Begun::Turn).unwrap();
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
    let (cancel, _) = scene.tickets.begin(1, Begun::Turn).unwrap();
    scene.tickets.cancel(2);
    assert!(scene.tickets.begin(2, Begun::Turn).is_none());
    assert!(!cancel.is_cancelled());
    scene.check(&[(2, "Cancelled")]);
}

#[test]
fn cancelling_all_answers_the_waiting_in_order_and_stops_the_running() {
    let scene = Scene::new(&[1, 3, 2]);
    let (cancel, _) = scene.tickets.begin(1, Begun::Turn).unwrap();
    scene.tickets.cancel_all();
    assert!(cancel.is_cancelled());
    scene.check(&[(2, "Cancelled"), (3, "Cancelled")]);
}

#[test]
fn a_fault_answers_every_open_prompt_in_order() {
    let scene = Scene::new(&[2, 1, 3]);
    scene.tickets.begin(1, Begun::Turn).unwrap();
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
    assert!(scene.tickets.begin(9, Begun::Turn).is_none());
    scene.check(&[]);
}

#[test]
fn prompts_that_wait_are_listed_and_withdrawn_until_they_begin() {
    let scene = Scene::new(&[1, 3, 2]);
    scene.tickets.begin(1, Begun::Turn).unwrap();
    let listed = || scene.tickets.waiting().iter().map(|waiting| waiting.ticket).collect::<Vec<_>>();
    assert_eq!(listed(), [2, 3]);
    assert!(scene.tickets.withdraw(2) && !scene.tickets.withdraw(2));
    assert!(!scene.tickets.withdraw(1), "it has begun");
    assert_eq!(listed(), [3]);
    scene.check(&[(2, "Cancelled")]);
    scene.tickets.cancel(1);
    scene.end(1);
    // The next to begin: a cancel would keep its words.
    assert!(scene.tickets.withdraw(3));
    scene.check(&[(2, "Cancelled"), (1, "EndTurn"), (3, "Cancelled")]);
}
