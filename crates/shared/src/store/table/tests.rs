//! Sessions of a node: their changes on the way to the log, and a simulation of many nodes with crashes and delays.

mod simulation;

use windlass_core::storage::Append;
use windlass_protocol::opencode::id::PartId;

use super::*;

fn session(name: &str) -> SessionId {
    SessionId::parse(name).expect("id")
}

fn append(part: &str, offset: usize, text: &str) -> Write {
    let part_id = PartId::parse(part).expect("id");
    Write::Append(Append { session_id: session("ses_1"), part_id, offset, text: text.to_owned() })
}

#[test]
fn text_that_streams_is_one_piece_and_not_one_a_delta() {
    let (mut table, id) = (Table::default(), session("ses_1"));
    table.hold(&id, Held::new(1, 0, "/work".to_owned()));
    let writes = vec![
        append("prt_1", 0, "one "),
        append("prt_1", 4, "two "),
        append("prt_2", 0, "x"),
        append("prt_1", 8, "y"),
    ];
    assert!(matches!(table.queue(&id, writes, None), Queued::Yes));
    let batches = table.take_batches();
    let texts: Vec<&str> = batches[0]
        .writes
        .iter()
        .map(|write| match write {
            Write::Append(append) => append.text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["one two ", "x", "y"]);
    assert!(table.take_batches().is_empty() && !table.is_settled(&id), "one batch is on its way");
    table.acknowledge(&batches[0], 10);
    assert!(table.is_settled(&id));
}

#[test]
fn a_session_that_is_lost_takes_nothing_and_tells_those_who_wait() {
    let (mut table, id) = (Table::default(), session("ses_1"));
    table.hold(&id, Held::new(1, 0, "/work".to_owned()));
    let (waiter, mut answer) = oneshot::channel();
    assert!(matches!(table.queue(&id, vec![append("prt_1", 0, "a")], Some(waiter)), Queued::Yes));
    assert!(table.lose(&id, "two") && !table.lose(&id, "two"));
    assert!(matches!(answer.try_recv(), Ok(Err(SharedError::Fenced { .. }))));
    assert!(matches!(table.queue(&id, Vec::new(), None), Queued::Lost { by } if by == "two"));
    assert!(table.take_batches().is_empty() && table.held().is_empty());
}

#[test]
fn a_checkpoint_is_due_once_when_the_log_is_longer_than_the_last_one() {
    let (mut table, id) = (Table::default(), session("ses_1"));
    table.hold(&id, Held::new(1, 0, "/work".to_owned()));
    let logs = |table: &mut Table, n_bytes: usize| {
        table.queue(&id, vec![append("prt_1", 0, "a")], None);
        let batches = table.take_batches();
        table.acknowledge(&batches[0], n_bytes)
    };
    assert!(!logs(&mut table, CHECKPOINT_FROM));
    assert!(logs(&mut table, 1) && !logs(&mut table, 1));
    table.note_checkpoint(&session("ses_1"), 3 * CHECKPOINT_FROM);
    assert!(!logs(&mut table, 2 * CHECKPOINT_FROM));
    assert!(logs(&mut table, 2 * CHECKPOINT_FROM));
}

#[test]
fn a_batch_of_an_earlier_time_of_holding_a_session_counts_no_more() {
    let (mut table, id) = (Table::default(), session("ses_1"));
    table.hold(&id, Held::new(1, 0, "/work".to_owned()));
    table.queue(&id, vec![append("prt_1", 0, "a")], None);
    let early = table.take_batches().remove(0);
    assert_eq!(table.epoch_of(&early), Some(1));
    table.lose(&id, "two");
    table.forget(&id);
    table.hold(&id, Held::new(7, 0, "/work".to_owned()));
    table.queue(&id, vec![append("prt_1", 0, "b")], None);
    let later = table.take_batches().remove(0);
    assert_eq!((table.epoch_of(&early), table.epoch_of(&later)), (None, Some(7)));
    table.acknowledge(&early, 1);
    assert!(!table.is_settled(&id), "the later batch is on its way");
}
