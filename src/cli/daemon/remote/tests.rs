//! Turns whose events and answers come in any order.

use super::*;

#[test]
fn the_late_answer_to_a_prompt_that_was_taken_back_ends_no_other_turn() {
    let (mut state, session_id) = (State::default(), ids::session());
    let inbox_id = ids::message();
    let beside = BesideTurn {
        message_id: inbox_id.clone(),
        is_steer: false,
        on_begin: Box::new(|_| ()),
        arrived: CancellationToken::new(),
    };
    let taken_back = state.begin(&session_id, Box::new(|_| ()), Some(beside));
    state.note(&EventPayload::Inbox(InboxEvent::Cancelled { session_id: session_id.clone(), inbox_id }));
    assert_eq!(state.take_ended().len(), 1);
    state.begin(&session_id, Box::new(|_| ()), None);
    assert!(state.answered(taken_back, Err("It was taken back.".to_owned())).is_empty());
    assert_eq!(state.turns.len(), 1);
}
