//! The server on this machine that a browser comes back to behind a login; it listens only meanwhile.

use std::{io, net::Ipv6Addr, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use reqwest::Url;
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// Time that a user may take.
const WAIT: Duration = Duration::from_secs(300);

/// Time that a browser may take for one request; it opens connections that it may never use.
const REQUEST_WAIT: Duration = Duration::from_secs(10);

/// Maximum bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;

/// Connections that are served at once.
const MAX_CONNECTIONS: usize = 32;

/// The error of a login that timed out.
pub const NOBODY_CAME: &str = "the browser did not come back within 5 minutes; begin again";

/// The open server.
#[derive(Debug)]
pub struct BrowserReturn {
    listeners: Vec<TcpListener>,
    address: String,
    path: String,
}

impl BrowserReturn {
    /// Listens at a port, or at a free one for 0, for the path that the browser is sent to.
    pub async fn open(host: &str, port: u16, path: &str) -> io::Result<Self> {
        let first = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
            let what = "the browser would come back to port";
            io::Error::new(
                error.kind(),
                format!("{what} {port} of this machine, which cannot be listened on ({error})"),
            )
        })?;
        let port = first.local_addr().map_or(port, |address| address.port());
        let mut listeners = vec![first];
        if host == "localhost" {
            // The name may mean either address.
            listeners.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await);
        }
        Ok(Self { listeners, address: format!("http://{host}:{port}{path}"), path: path.to_owned() })
    }

    /// The address that the browser is sent to.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the browser with this state and returns its parameters; any other request is sent away. `None` if the
    /// time is over.
    pub async fn wait(&self, state: &str) -> Option<Map<String, Value>> {
        let served = async {
            let mut open = FuturesUnordered::new();
            loop {
                let accepts = self.listeners.iter().map(|listener| Box::pin(listener.accept()));
                tokio::select! {
                    (accepted, ..) = futures_util::future::select_all(accepts), if open.len() < MAX_CONNECTIONS => {
                        if let Ok((stream, _)) = accepted {
                            open.push(timeout(REQUEST_WAIT, serve(stream, &self.path, state)));
                        }
                    }
                    Some(served) = open.next() => {
                        if let Ok(Some(brought)) = served {
                            return brought;
                        }
                    }
                }
            }
        };
        timeout(WAIT, served).await.ok()
    }
}

/// Serves one connection; returns its parameters.
async fn serve(mut stream: TcpStream, path: &str, state: &str) -> Option<Map<String, Value>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut buffer = [0; 2048];
        let n_read = stream.read(&mut buffer).await.ok()?;
        if n_read == 0 || head.len() > MAX_HEAD {
            return None;
        }
        head.extend_from_slice(&buffer[..n_read]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let url = Url::parse("http://localhost").and_then(|base| base.join(target)).ok()?;
    if url.path() != path {
        respond(&mut stream, "404 Not Found", "There is nothing here.").await;
        return None;
    }
    let fields: Map<String, Value> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect();
    if fields.is_empty() {
        // A browser does not send the part behind `#` by itself.
        respond(&mut stream, "200 OK", FRAGMENT_PAGE).await;
        return None;
    }
    if fields.get("state").and_then(Value::as_str) != Some(state) {
        respond(&mut stream, "400 Bad Request", "This is not the login that windlass began.").await;
        return None;
    }
    let words = if fields.contains_key("error") {
        "The login was not granted. windlass says more."
    } else {
        "windlass has what it needs. You can close this page."
    };
    respond(&mut stream, "200 OK", words).await;
    Some(fields)
}

/// The page that sends the part behind `#` as a query.
const FRAGMENT_PAGE: &str = "<script>if (location.hash.length > 1) \
                             location.replace(location.pathname + '?' + location.hash.slice(1))</script>";

async fn respond(stream: &mut TcpStream, status: &str, words: &str) {
    let page = format!("<!doctype html><meta charset=utf-8><title>windlass</title><p>{words}</p>");
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
        page.len()
    );
    // A browser that has gone needs no page.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}
