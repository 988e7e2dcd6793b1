//! The reaper ends its daemon's children and leaves other processes alone.
#![expect(clippy::disallowed_methods, reason = "what a reaper ends is started by somebody else")]

use std::{
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Group, Record, decode, encode, mark, run};
use crate::base::process::tree::{self, MARK};

/// Starts a process in a group of its own, with these tags.
fn marked(marks: &str) -> Child {
    Command::new("sleep").arg("600").env(MARK, marks).process_group(0).spawn().expect("sleep starts")
}

fn group(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("fits"))
}

fn reaped(daemon: &str, records: &[(Record, u64)]) {
    let input: Vec<u8> = records.iter().flat_map(|(record, child)| encode(*record, *child)).collect();
    run(daemon, &input[..]);
}

fn was_killed(mut child: Child) -> bool {
    child.wait().expect("is ours").signal() == Some(Signal::SIGKILL as i32)
}

/// Ends the process and returns true if it still ran.
fn ran(mut child: Child) -> bool {
    let is_running = child.try_wait().expect("is ours").is_none();
    kill(group(&child), Signal::SIGKILL).expect("is not waited for yet");
    child.wait().expect("is ours");
    is_running
}

#[test]
fn records_come_out_as_they_went_in() {
    for record in [Record::Begun, Record::Leads(Pid::from_raw(i32::MAX)), Record::Forgotten, Record::Doomed] {
        for child in [0, 1, u64::MAX] {
            assert_eq!(decode(encode(record, child)), Some((record, child)));
        }
    }
    assert_eq!(decode([9; 16]), None);
}

#[test]
fn what_bears_the_mark_of_a_running_child_is_ended() {
    let child = marked(&mark("ended", 7));
    reaped("ended", &[(Record::Begun, 7)]);
    assert!(was_killed(child));
}

#[test]
fn a_mark_is_found_behind_and_before_others() {
    let children = ["outer.1/deep.7/inner.2", "deep.7/x.1", "x.1/deep.7"].map(marked);
    reaped("deep", &[(Record::Begun, 7)]);
    assert!(children.into_iter().all(was_killed));
}

#[test]
fn what_was_forgotten_or_is_another_daemons_is_left_alone() {
    let children = ["mine.1", "theirs.2", "mine.22", "mine", "", "xmine.2"].map(marked);
    let records = [(Record::Begun, 1), (Record::Begun, 2), (Record::Forgotten, 1), (Record::Doomed, 3)];
    reaped("mine", &records);
    assert_eq!(children.map(ran), [true; 6]);
}

#[test]
fn what_is_doomed_is_ended_though_it_is_forgotten_next() {
    let child = marked(&mark("doomed", 4));
    reaped("doomed", &[(Record::Begun, 4), (Record::Doomed, 4), (Record::Forgotten, 4)]);
    assert!(was_killed(child));
}

#[test]
fn a_group_is_ended_without_a_mark() {
    let child = marked("");
    reaped("group", &[(Record::Begun, 1), (Record::Leads(group(&child)), 1)]);
    assert!(was_killed(child));
}

#[test]
fn a_number_that_was_given_away_is_another_group() {
    let child = marked("");
    let start = tree::start(group(&child));
    assert!(start.is_some());
    let with_start = |start| Group { leader: group(&child), start };
    assert!(with_start(start).is_ours(start));
    // A group can have members after its leader has ended.
    assert!(with_start(start).is_ours(None) && with_start(None).is_ours(None));
    assert!(!with_start(start).is_ours(start.map(|start| start + 1)));
    assert!(!with_start(None).is_ours(start));
    assert!(ran(child));
}
