//! No process that a child started is left behind.

use std::{collections::BTreeMap, ffi::OsStr, path::Path, time::Duration};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::{Spawn, spawn};

fn shell(script: &str) -> super::Child {
    spawn(&Spawn {
        program: OsStr::new("sh"),
        args: &["-c".into(), script.into()],
        directory: Path::new("/"),
        environment: &BTreeMap::new(),
        stdin: false,
        without: &[],
        is_parent: true,
    })
    .expect("sh starts")
}

#[tokio::test]
async fn ending_kills_a_grandchild_that_ignores_sigterm() {
    let mut child = shell("(trap '' TERM; echo ready; while :; do sleep 1; done) & wait");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next_line().await.expect("reads"), Some("ready".to_owned()));
    child.end(Duration::from_millis(200)).await;
    // The pipe closes only when its last writer, the grandchild, is gone.
    assert_eq!(lines.next_line().await.expect("reads"), None);
}

#[tokio::test]
async fn dropping_kills_the_group() {
    let mut child = shell("sleep 100 & echo ready; wait");
    let mut stdout = child.stdout.take().expect("piped");
    let mut first = [0; 6];
    stdout.read_exact(&mut first).await.expect("reads");
    drop(child);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).await.expect("reads");
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_child_that_left_the_group_is_ended_too() {
    let mut child = shell("setsid sh -c 'echo ready; sleep 100' & wait");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next_line().await.expect("reads"), Some("ready".to_owned()));
    child.end(Duration::from_millis(200)).await;
    assert_eq!(lines.next_line().await.expect("reads"), None);
}
