//! The driver against a server on the loopback that answers with prepared bytes.

mod bad_input;

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use super::{
    Client,
    fixture::{merge, model, text},
};
use crate as provider;
use crate::{Delta, Finish, Model, Prompt, PromptMessage, ProviderError, UserContent, Wire};

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";

/// The server's action after its answer is sent.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Close,
    Hang,
    /// Sends comments until the client disconnects.
    Drip,
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn listen() -> (TcpListener, Model) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let mut model = model(Wire::OpenAiChat);
    model.base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    (listener, model)
}

/// Reads the head and the body of one request.
async fn receive(socket: &mut TcpStream) -> (String, String) {
    let mut received = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                return (head.to_owned(), body.to_owned());
            }
        }
        assert_ne!(socket.read_buf(&mut received).await.unwrap(), 0, "the request is incomplete");
    }
}

async fn ask(client: &Client, model: &Model) -> (Vec<Delta>, Result<(), ProviderError>) {
    let prompt = Prompt {
        messages: vec![PromptMessage::User(vec![UserContent::Text("Hi".into())])],
        ..Prompt::default()
    };
    let mut deltas = Vec::new();
    let end = async {
        let mut stream = provider::stream(client, model, &prompt).await?;
        while stream.next(&mut deltas).await? {}
        Ok(())
    };
    let end = end.await;
    (merge(deltas), end)
}

/// Sends a request to a server that gives `answer`.
fn exchange(
    answer: &str,
    then: Then,
    change: impl FnOnce(&mut Model),
) -> (Vec<Delta>, Result<(), ProviderError>, String) {
    run(async {
        let (listener, mut model) = listen().await;
        change(&mut model);
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let (head, _) = receive(&mut socket).await;
            socket.write_all(answer.as_bytes()).await.unwrap();
            if then == Then::Hang {
                // Waits until the client disconnects.
                let _ = socket.read_u8().await;
            }
            let mut pulse = tokio::time::interval(Duration::from_millis(20));
            while then == Then::Drip && socket.write_all(b": still here\n\n").await.is_ok() {
                pulse.tick().await;
            }
            head
        };
        let client = Client::default();
        let ((deltas, end), head) = tokio::join!(ask(&client, &model), serve);
        let end = end.map_err(|error| without_address(error, &model));
        (deltas, end, head)
    })
}

/// Removes the port, which differs each time.
fn without_address(mut error: ProviderError, model: &Model) -> ProviderError {
    let address = model.base_url.trim_start_matches("http://").trim_end_matches("/v1");
    match &mut error {
        ProviderError::Auth { message }
        | ProviderError::RateLimited { message, .. }
        | ProviderError::Overflow { message }
        | ProviderError::Overloaded { message, .. }
        | ProviderError::Api { message, .. }
        | ProviderError::Transport { message }
        | ProviderError::NotRunning { message }
        | ProviderError::Silent { message }
        | ProviderError::Unsent { message } => *message = message.replace(address, "HOST"),
    }
    error
}

fn hello_cut() -> Vec<Delta> {
    text(0, "Hello")[..2].to_vec()
}

fn hello() -> Vec<Delta> {
    let mut deltas = text(0, "Hello").to_vec();
    deltas.push(Delta::Finish(Finish::Stop));
    deltas
}

#[test]
fn a_stream_is_received() {
    let (deltas, end, head) = exchange(&format!("{EVENTS}\r\n{HELLO}{STOP}"), Then::Close, |model| {
        model.headers.push(("X-Title".to_owned(), "windlass".to_owned()));
    });
    assert_eq!((deltas, end), (hello(), Ok(())));
    let mut lines: Vec<&str> = head
        .lines()
        .filter(|line| !line.starts_with("host:") && !line.starts_with("content-length:"))
        .collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "POST /v1/chat/completions HTTP/1.1",
            "accept: text/event-stream",
            "authorization: Bearer key-123",
            "content-type: application/json",
            concat!("user-agent: windlass/", env!("CARGO_PKG_VERSION")),
            "x-title: windlass",
        ]
    );
}

#[test]
fn own_headers_replace_the_wires() {
    let (_, _, head) = exchange(&format!("{EVENTS}\r\n{HELLO}{STOP}"), Then::Close, |model| {
        model.headers.push(("Authorization".to_owned(), "Token x".to_owned()));
    });
    assert!(head.contains("authorization: Token x\r\n"), "{head}");
    assert!(!head.contains("key-123"), "{head}");
}

#[test]
fn an_answer_is_complete_though_the_server_stays() {
    let (deltas, end, _) = exchange(&format!("{EVENTS}\r\n{HELLO}{STOP}"), Then::Hang, |_| {});
    assert_eq!((deltas, end), (hello(), Ok(())));
}

#[test]
fn the_connection_serves_the_next_request() {
    run(async {
        let (listener, model) = listen().await;
        // The end of the body comes only after the client has read the answer itself.
        let finished = Notify::new();
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let body = format!("{HELLO}{STOP}");
            let answer = format!("{EVENTS}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len());
            for _ in 0..2 {
                receive(&mut socket).await;
                socket.write_all(answer.as_bytes()).await.unwrap();
                finished.notified().await;
                socket.write_all(b"0\r\n\r\n").await.unwrap();
            }
        };
        let client = Client::default();
        let asks = async {
            for _ in 0..2 {
                let mut stream = provider::stream(&client, &model, &Prompt::default()).await.unwrap();
                let mut deltas = Vec::new();
                while deltas.last() != Some(&Delta::Finish(Finish::Stop)) {
                    assert!(stream.next(&mut deltas).await.unwrap());
                }
                finished.notify_one();
                assert!(!stream.next(&mut deltas).await.unwrap());
            }
        };
        tokio::join!(asks, serve);
    });
}

#[test]
fn the_last_event_may_lack_its_line_ends_and_a_piece_of_one_is_a_broken_connection() {
    let stop = STOP.split("\n\n").next().unwrap();
    for ends in ["", "\n", "\r\n"] {
        let body = format!("{HELLO}{stop}{ends}");
        let answer = format!("{EVENTS}content-length: {}\r\n\r\n{body}", body.len());
        let (deltas, end, _) = exchange(&answer, Then::Close, |_| {});
        assert_eq!((deltas, end), (hello(), Ok(())), "{ends:?}");
    }
    let body = format!("{HELLO}{}", &stop[..stop.len() - 1]);
    let answer = format!("{EVENTS}content-length: {}\r\n\r\n{body}", body.len());
    let (_, end, _) = exchange(&answer, Then::Close, |_| {});
    assert!(matches!(end, Err(ProviderError::Transport { .. })), "{end:?}");
}

#[test]
fn a_rate_limit_says_how_long() {
    let body = r#"{"error":{"message":"Slow down."}}"#;
    let answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (deltas, end, _) = exchange(&answer, Then::Close, |_| {});
    assert_eq!(deltas, []);
    assert_eq!(
        end,
        Err(ProviderError::RateLimited {
            message: "Acme, large (HOST): Slow down. (HTTP 429)".to_owned(),
            status: 429,
            after: Some(Duration::from_secs(7)),
        })
    );
}

#[test]
fn an_overloaded_server_is_its_own_kind() {
    let (_, end, _) = exchange("HTTP/1.1 529 Busy\r\ncontent-length: 0\r\n\r\n", Then::Close, |_| {});
    assert_eq!(
        end,
        Err(ProviderError::Overloaded {
            message: "Acme, large (HOST): the provider gave no reason (HTTP 529)".to_owned(),
            status: Some(529),
            after: None,
        })
    );
}

#[test]
fn a_connection_that_breaks_is_noticed() {
    let closed = "the connection closed before the answer was complete";
    let (deltas, end, _) = exchange(&format!("{EVENTS}\r\n{HELLO}"), Then::Close, |_| {});
    assert_eq!(deltas, hello_cut());
    assert_eq!(end, Err(ProviderError::Transport { message: format!("Acme, large (HOST): {closed}") }));

    let (deltas, end, _) =
        exchange(&format!("{EVENTS}content-length: 9000\r\n\r\n{HELLO}"), Then::Close, |_| {});
    assert_eq!(deltas, hello_cut());
    match end {
        Err(ProviderError::Transport { message }) => {
            assert!(message.starts_with("Acme, large (HOST): the connection broke"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_that_breaks_behind_the_last_event_does_no_harm() {
    let (deltas, end, _) = exchange(
        &format!("{EVENTS}content-length: 9000\r\n\r\n{HELLO}{}", STOP.trim_end_matches("data: [DONE]\n\n")),
        Then::Close,
        |_| {},
    );
    assert_eq!((deltas, end), (hello(), Ok(())));
}

#[test]
fn silence_ends_the_request() {
    let (deltas, end, _) = exchange(&format!("{EVENTS}\r\n{HELLO}"), Then::Hang, |model| {
        model.timeouts.chunk = Duration::from_millis(30);
    });
    assert_eq!(deltas, hello_cut());
    assert_eq!(
        end,
        Err(ProviderError::Silent {
            message: "Acme, large (HOST): the answer stopped: nothing arrived for 30 ms".to_owned()
        })
    );

    let (deltas, end, _) = exchange("", Then::Hang, |model| {
        model.timeouts.headers = Duration::from_millis(30);
    });
    assert_eq!(deltas, []);
    assert_eq!(
        end,
        Err(ProviderError::Silent { message: "Acme, large (HOST): no answer within 30 ms".to_owned() })
    );
}

#[test]
fn signs_of_life_alone_are_not_waited_for_for_ever() {
    let (deltas, end, _) = exchange(&format!("{EVENTS}\r\n{HELLO}"), Then::Drip, |model| {
        model.timeouts.chunk = Duration::from_millis(400);
    });
    assert_eq!(deltas, hello_cut());
    let message = "Acme, large (HOST): the answer stopped: only signs of life arrived for 2 s".to_owned();
    assert_eq!(end, Err(ProviderError::Silent { message }));
}

#[test]
fn an_answer_that_is_no_stream_is_an_error() {
    let answer = |body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let (_, end, _) = exchange(&answer(r#"{"error":{"message":"Busy.","code":503}}"#), Then::Close, |_| {});
    assert_eq!(
        end,
        Err(ProviderError::Overloaded {
            message: "Acme, large (HOST): Busy.".to_owned(),
            status: Some(503),
            after: None
        })
    );
    let (_, end, _) = exchange(&answer(r#"{"choices":[]}"#), Then::Close, |_| {});
    match end {
        Err(ProviderError::Api { message, .. }) => {
            assert!(message.contains("not a stream of events"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_key_does_not_follow_a_redirection() {
    let answer = "HTTP/1.1 307 Moved\r\nlocation: https://elsewhere.example/\r\ncontent-length: 0\r\n\r\n";
    let (_, end, _) = exchange(answer, Then::Close, |_| {});
    assert_eq!(
        end,
        Err(ProviderError::Api {
            message: "Acme, large (HOST): the base URL is redirected to https://elsewhere.example/; put the final address \
                into the configuration"
                .to_owned(),
            status: Some(307),
            body: None,
        })
    );
}

#[test]
fn dropping_the_stream_closes_the_connection() {
    run(async {
        let (listener, model) = listen().await;
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            receive(&mut socket).await;
            socket.write_all(format!("{EVENTS}\r\n{HELLO}").as_bytes()).await.unwrap();
            socket.read(&mut [0]).await.unwrap_or(0)
        };
        let client = Client::default();
        let start = async {
            let prompt = Prompt::default();
            let mut stream = provider::stream(&client, &model, &prompt).await.unwrap();
            let mut deltas = Vec::new();
            assert!(stream.next(&mut deltas).await.unwrap());
            assert_eq!(deltas, hello_cut());
        };
        let ((), n_read) = tokio::join!(start, serve);
        assert_eq!(n_read, 0);
    });
}

#[test]
fn a_refused_connection_is_reported_without_the_key() {
    let error = run(async {
        let (listener, mut model) = listen().await;
        drop(listener);
        model.base_url.push_str("?key=secret");
        ask(&Client::default(), &model).await.1.map_err(|error| error.to_string()).unwrap_err()
    });
    assert!(error.starts_with("Acme, large (127.0.0.1:"), "{error}");
    assert!(error.contains("nothing listens there (Connection refused); is the server running?"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn a_key_that_the_provider_repeats_is_not_shown() {
    for (key, said, shown) in [
        ("key-1234", "The key key-1234 is unknown.", "The key ******** is unknown."),
        ("key-1234", "The key is key-12345, not xkey-1234.", "The key is key-12345, not xkey-1234."),
        ("ollama", "The model ollama is unknown.", "The model ollama is unknown."),
        ("e", "The message is an error.", "The message is an error."),
    ] {
        let body = serde_json::json!({"error": {"message": said}}).to_string();
        let answer = format!("HTTP/1.1 400 Bad\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let (_, end, _) = exchange(&answer, Then::Close, |model| {
            model.api_key = Some(provider::Secret(key.to_owned()));
        });
        assert_eq!(
            end,
            Err(ProviderError::Api {
                message: format!("Acme, large (HOST): {shown} (HTTP 400)"),
                status: Some(400),
                body: Some(body.replace(said, shown)),
            })
        );
    }
}

#[test]
fn a_header_that_the_provider_repeats_is_not_shown() {
    let body = r#"{"error": {"message": "Bearer tok-zzzz-1111 is unknown"}}"#;
    let answer = format!("HTTP/1.1 401 No\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (_, end, _) = exchange(&answer, Then::Close, |model| {
        model.headers = vec![("Authorization".to_owned(), "Bearer tok-zzzz-1111".to_owned())];
    });
    let shown = format!("{end:?}");
    assert!(shown.contains("Bearer ********") && !shown.contains("tok-zzzz-1111"), "{shown}");
}

#[test]
fn a_key_that_cannot_be_sent_is_not_shown() {
    let mut model = model(Wire::OpenAiChat);
    model.api_key = Some(provider::Secret("sec\nret".to_owned()));
    let error = run(async { ask(&Client::default(), &model).await.1.unwrap_err() });
    assert!(matches!(&error, ProviderError::Auth { message } if !message.contains("ret\n")), "{error}");
    assert!(!error.to_string().contains("sec\n"), "{error}");
}
