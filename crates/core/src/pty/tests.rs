//! Programs on terminals: the output that several readers see, input, size, the end and the limits.

use std::{
    collections::VecDeque, os::unix::process::ExitStatusExt, path::PathBuf, process::ExitStatus, sync::Arc,
};

use bytes::Bytes;
use windlass_protocol::opencode::{
    event::EventPayload,
    pty::{PtySize, PtyStatus, PtyUpdate},
    service::ServiceNews,
};

use super::{Opening, Reader, Terminals};
use crate::bus::{Bus, Filter};

fn opening(script: &str) -> Opening {
    Opening {
        directory: PathBuf::from("/"),
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        cwd: PathBuf::from("/"),
        title: None,
        environment: [("TERM".to_owned(), "xterm-256color".to_owned())].into(),
        without: vec!["HOME".to_owned()],
    }
}

async fn read_until(reader: &mut Reader, wanted: &str) -> String {
    let mut text = String::new();
    while !text.contains(wanted) {
        let piece = reader.next().await;
        text.push_str(&piece.unwrap_or_else(|| panic!("the output ends without {wanted:?}: {text:?}")));
    }
    text
}

async fn read_all(reader: &mut Reader) -> String {
    let mut text = String::new();
    while let Some(piece) = reader.next().await {
        text.push_str(&piece);
    }
    text
}

#[tokio::test]
async fn every_reader_sees_the_output_and_later_ones_from_their_cursor() {
    let terminals = Terminals::new(Bus::default());
    let info = terminals.open(opening("echo one; read line; echo got $line")).unwrap();
    let terminal = terminals.get(&info.id).unwrap();
    let (mut first, mut second) = (terminal.read(Some(0)), terminal.read(Some(0)));
    assert_eq!(read_until(&mut first, "one\r\n").await, "one\r\n");
    assert_eq!(read_until(&mut second, "one\r\n").await, "one\r\n");
    let mut live = terminal.read(None);
    terminal.write(Bytes::from_static(b"two\n")).await;
    for reader in [&mut first, &mut second, &mut live] {
        assert_eq!(read_all(reader).await, "two\r\ngot two\r\n");
    }
    // The output is kept after the end.
    assert_eq!(read_all(&mut terminal.read(Some(5))).await, "two\r\ngot two\r\n");
    assert_eq!(terminal.read(Some(0)).cursor(), 19);
    let info = terminal.info();
    assert_eq!((info.status, info.exit_code), (PtyStatus::Exited, Some(0)));
}

#[tokio::test]
async fn the_program_leads_a_session_on_a_terminal_of_the_size_that_is_set() {
    let terminals = Terminals::new(Bus::default());
    let script = "test -t 0 && stty size; read line; stty size; ps -o tty= -p $$ >/dev/null && echo $TERM";
    let info = terminals.open(opening(script)).unwrap();
    let terminal = terminals.get(&info.id).unwrap();
    let mut reader = terminal.read(Some(0));
    read_until(&mut reader, "24 80\r\n").await;
    let size = PtySize { rows: 5.try_into().unwrap(), cols: 40.try_into().unwrap() };
    let update = PtyUpdate { title: Some("T".to_owned()), size: Some(size) };
    assert_eq!(terminals.update(&info.id, update).await.unwrap().title, "T");
    terminal.write(Bytes::from_static(b"\n")).await;
    let rest = read_all(&mut reader).await;
    assert!(rest.contains("5 40\r\n"), "{rest:?}");
}

#[tokio::test]
async fn events_tell_the_life_of_a_terminal() {
    let bus = Bus::default();
    let events = bus.listen(Filter::All);
    let terminals = Terminals::new(bus);
    let info = terminals.open(opening("exit 3")).unwrap();
    read_all(&mut terminals.get(&info.id).unwrap().read(Some(0))).await;
    assert!(terminals.remove(&info.id));
    assert!(!terminals.remove(&info.id));
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let mut batch = VecDeque::new();
        assert!(events.next_batch(&mut batch).await);
        for event in batch {
            let EventPayload::Service(event) = &event.payload else { panic!("{event:?}") };
            assert_eq!(event.directory.as_deref(), Some("/"));
            seen.push(match &event.news {
                ServiceNews::PtyCreated { info } => format!("created {}", info.title.len()),
                ServiceNews::PtyExited { exit_code, .. } => format!("exited {exit_code}"),
                ServiceNews::PtyDeleted { .. } => "deleted".to_owned(),
                other => panic!("{other:?}"),
            });
        }
    }
    assert_eq!(seen, ["created 13", "exited 3", "deleted"]);
}

#[tokio::test]
async fn a_removed_terminal_ends_with_all_its_processes() {
    let terminals = Terminals::new(Bus::default());
    let info = terminals.open(opening("trap '' HUP; sleep 1000 & echo ready; wait")).unwrap();
    let terminal = terminals.get(&info.id).unwrap();
    let mut reader = terminal.read(Some(0));
    read_until(&mut reader, "ready").await;
    assert!(terminals.remove(&info.id));
    assert!(terminals.list(&PathBuf::from("/")).is_empty());
    assert_eq!(read_all(&mut reader).await, "");
    let weak = Arc::downgrade(&terminal);
    drop((terminal, reader));
    // Its task holds it to the end of its processes, and no longer.
    while weak.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named() {
    let terminals = Terminals::new(Bus::default());
    let opening = Opening { program: "no-such-program".to_owned(), ..opening("") };
    let error = terminals.open(opening).unwrap_err().to_string();
    assert!(error.starts_with("no-such-program cannot be started in /: "), "{error}");
}

#[test]
fn an_end_that_is_not_known_is_no_success() {
    assert_eq!(super::exit_code(None), 255);
    assert_eq!(super::exit_code(Some(ExitStatus::from_raw(9))), 137);
    assert_eq!(super::exit_code(Some(ExitStatus::from_raw(0))), 0);
}
