//! Each line in one stream, in order, and an end for a connection that nobody reads.

use super::*;

fn streams(limits: Limits) -> Arc<Streams> {
    Streams::new(limits).0
}

fn patient() -> Limits {
    Limits { unread: 1 << 20, stall: Duration::from_secs(60), unattended: Duration::from_secs(60) }
}

fn update(session: &str, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"text":"{text}"}}}}}}"#
    )
}

fn answer(id: i64, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Returns the lines that wait for a reader.
async fn waiting(reader: &Reader) -> String {
    let bytes = reader.next().await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn lines_go_to_the_stream_of_their_session_once_it_is_open() {
    let (streams, first) = Streams::new(patient());
    assert!(streams.route(answer(0, "{}")).await);
    assert!(!first.await.unwrap().is_error);
    let own = streams.read(None).unwrap();
    streams.note_request(Id::Number(1), None, Effect::Makes);
    streams.route(answer(1, r#"{"sessionId":"ses_1"}"#)).await;
    streams.route(update("ses_1", "one")).await;
    streams.route(update("ses_2", "two")).await;
    let said = waiting(&own).await;
    assert!(said.contains("\"id\":1") && said.contains("two") && !said.contains("one"), "{said}");
    let of_session = streams.read(Some("ses_1".to_owned())).unwrap();
    assert!(waiting(&of_session).await.contains("one"));
}

#[tokio::test]
async fn a_session_that_was_closed_has_no_stream_and_its_answer_is_still_read() {
    let (streams, _first) = Streams::new(patient());
    streams.route(answer(0, "{}")).await;
    let key = Some("ses_1".to_owned());
    streams.note_request(Id::Number(1), key.clone(), Effect::Opens);
    streams.route(answer(1, "{}")).await;
    streams.note_request(Id::Number(2), key, Effect::Closes);
    streams.route(answer(2, "{}")).await;
    assert!(waiting(&streams.read(None).unwrap()).await.contains("\"id\":2"));
    assert_eq!(lock(&streams.state).streams.len(), 1);
    assert_eq!(lock(&streams.state).weight, 0);
}

#[tokio::test]
async fn a_stream_has_one_reader_and_what_was_said_is_read_behind_the_end() {
    let streams = streams(patient());
    streams.route(answer(0, "{}")).await;
    let reader = streams.read(None).unwrap();
    assert_eq!(streams.read(None).unwrap_err(), Unreadable::Taken);
    streams.route(update("ses_1", "last")).await;
    streams.close();
    assert!(waiting(&reader).await.contains("last"));
    assert_eq!(reader.next().await, None);
    drop(reader);
    assert_eq!(streams.read(None).unwrap_err(), Unreadable::Closed);
}

#[tokio::test]
async fn a_connection_that_nobody_reads_is_given_up() {
    let soon = Duration::from_millis(10);
    let streams = streams(Limits { unread: 100, stall: soon, unattended: soon });
    streams.route(answer(0, "{}")).await;
    assert!(!streams.route(update("ses_1", &"x".repeat(200))).await);
    streams.unattended().await;
    let reader = streams.read(None).unwrap();
    let attended = timeout(10 * soon, streams.unattended()).await;
    assert!(attended.is_err(), "one that is read is not given up");
    drop(reader);
    streams.unattended().await;
}
