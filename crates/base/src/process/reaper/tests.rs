//! The reaper ends its daemon's children and leaves other processes alone.
#![expect(clippy::disallowed_methods, reason = "a reaper ends processes that it did not start")]

use std::{
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Group, Record, decode, encode, run, tag};
use crate::process::tree::{self, CHILD_TAG};

/// Starts a process in a group of its own, with these tags.
fn tagged(tags: &str) -> Child {
    Command::new("sleep").arg("600").env(CHILD_TAG, tags).process_group(0).spawn().expect("sleep starts")
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
    for record in [Record::Spawned, Record::Group(Pid::from_raw(i32::MAX)), Record::Exited, Record::Kill] {
        for child in [0, 1, u64::MAX] {
            assert_eq!(decode(encode(record, child)), Some((record, child)));
        }
    }
    assert_eq!(decode([9; 16]), None);
}

#[test]
fn a_process_with_the_tag_of_a_running_child_is_killed() {
    let child = tagged(&tag("ended", 7));
    reaped("ended", &[(Record::Spawned, 7)]);
    assert!(was_killed(child));
}

#[test]
fn a_tag_is_found_behind_and_before_others() {
    let children = ["outer.1/deep.7/inner.2", "deep.7/x.1", "x.1/deep.7"].map(tagged);
    reaped("deep", &[(Record::Spawned, 7)]);
    assert!(children.into_iter().all(was_killed));
}

#[test]
fn exited_children_and_those_of_other_daemons_are_left_alone() {
    let children = ["mine.1", "theirs.2", "mine.22", "mine", "", "xmine.2"].map(tagged);
    let records = [(Record::Spawned, 1), (Record::Spawned, 2), (Record::Exited, 1), (Record::Kill, 3)];
    reaped("mine", &records);
    assert_eq!(children.map(ran), [true; 6]);
}

#[test]
fn a_child_to_kill_is_killed_though_it_is_recorded_as_exited_next() {
    let child = tagged(&tag("due", 4));
    reaped("due", &[(Record::Spawned, 4), (Record::Kill, 4), (Record::Exited, 4)]);
    assert!(was_killed(child));
}

#[test]
fn a_group_is_killed_without_a_tag() {
    let child = tagged("");
    reaped("group", &[(Record::Spawned, 1), (Record::Group(group(&child)), 1)]);
    assert!(was_killed(child));
}

#[test]
fn a_reused_number_is_another_group() {
    let child = tagged("");
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
