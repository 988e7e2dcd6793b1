//! Logins in a browser on this machine, which comes back to a server that listens only meanwhile.

use std::{net::Ipv6Addr, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures_util::{StreamExt, stream::FuturesUnordered};
use reqwest::Url;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use windlass_protocol::opencode::config::AuthEntry;

use super::{
    device::{Page, Show},
    endpoint::{Answer, Endpoint, LoginError},
    rows::Redirect,
};

/// Time that a user may take.
const WAIT: Duration = Duration::from_secs(300);

/// Time that a browser may take for one request; it opens connections that it may never use.
const REQUEST_WAIT: Duration = Duration::from_secs(10);

/// Maximum bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;

/// Connections that are served at once.
const MAX_CONNECTIONS: usize = 32;

/// Logs in by a code with proof of possession (RFC 7636).
pub async fn log_in(
    endpoint: &Endpoint<'_>,
    authorize: &str,
    extra: &[(&str, &str)],
    redirect: &Redirect,
    show: Show<'_>,
) -> Result<AuthEntry, LoginError> {
    let listener = Listener::open(endpoint, redirect).await?;
    let (verifier, state) = (random()?, random()?);
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let mut url = endpoint.address(authorize)?;
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", endpoint.client_id())
        .append_pair("redirect_uri", &listener.address)
        .append_pair("scope", endpoint.issuer.scope)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .extend_pairs(extra)
        .append_pair("state", &state);
    show(&Page { url: url.into(), code: None });
    let answer = listener.wait(redirect.path, &state).await?;
    let code = answer.text("code").ok_or_else(|| refused(&answer))?;
    endpoint.exchange(code, &verifier, &listener.address).await
}

/// Logs in by a token that the browser brings itself.
pub async fn log_in_implicitly(
    endpoint: &Endpoint<'_>,
    authorize: &str,
    redirect: &Redirect,
    show: Show<'_>,
) -> Result<AuthEntry, LoginError> {
    let listener = Listener::open(endpoint, redirect).await?;
    let state = random()?;
    let mut url = endpoint.address(authorize)?;
    url.query_pairs_mut()
        .append_pair("response_type", "token")
        .append_pair("client_id", endpoint.client_id())
        .append_pair("redirect_uri", &listener.address)
        .append_pair("scope", endpoint.issuer.scope)
        .append_pair("state", &state);
    show(&Page { url: url.into(), code: None });
    let answer = listener.wait(redirect.path, &state).await?;
    if answer.text("error").is_some() {
        return Err(refused(&answer));
    }
    endpoint.entry(&answer, None)
}

fn refused(answer: &Answer) -> LoginError {
    let reason = answer.text("error_description").or_else(|| answer.text("error"));
    LoginError::Refused(match reason {
        Some(reason) => format!("the login was not granted ({reason})"),
        None => "the browser came back without a code".to_owned(),
    })
}

/// Returns 256 random bits as text.
fn random() -> Result<String, LoginError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| LoginError::Failed(format!("no random numbers can be had ({error})")))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// The server that the browser comes back to.
struct Listener {
    listeners: Vec<TcpListener>,
    address: String,
}

impl Listener {
    async fn open(endpoint: &Endpoint<'_>, redirect: &Redirect) -> Result<Self, LoginError> {
        // A stand-in takes any address, and tests run side by side.
        let port = if endpoint.has_stand_in() { 0 } else { redirect.port };
        let first = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
            LoginError::Failed(format!(
                "the browser would come back to port {port} of this machine, which cannot be listened on ({error}); end \
                 the program that uses it, or log in with a key"
            ))
        })?;
        let port = first.local_addr().map_or(port, |address| address.port());
        let mut listeners = vec![first];
        if redirect.host == "localhost" {
            // The name may mean either address.
            listeners.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await);
        }
        let address = format!("http://{}:{port}{}", redirect.host, redirect.path);
        Ok(Self { listeners, address })
    }

    /// Waits for the browser with this state; anything else that comes is sent away.
    async fn wait(&self, path: &str, state: &str) -> Result<Answer, LoginError> {
        let served = async {
            let mut open = FuturesUnordered::new();
            loop {
                let accepts = self.listeners.iter().map(|listener| Box::pin(listener.accept()));
                tokio::select! {
                    (accepted, ..) = futures_util::future::select_all(accepts), if open.len() < MAX_CONNECTIONS => {
                        if let Ok((stream, _)) = accepted {
                            open.push(timeout(REQUEST_WAIT, serve(stream, path, state)));
                        }
                    }
                    Some(served) = open.next() => {
                        if let Ok(Some(answer)) = served {
                            return answer;
                        }
                    }
                }
            }
        };
        timeout(WAIT, served).await.map_err(|_| {
            LoginError::Failed("nobody came back from the browser within 5 minutes; begin again".to_owned())
        })
    }
}

/// Serves one connection; returns the answer if it brings one.
async fn serve(mut stream: TcpStream, path: &str, state: &str) -> Option<Answer> {
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
    let answer = Answer { status: 200, fields };
    if answer.fields.is_empty() {
        // A browser does not send the part behind `#` by itself.
        respond(&mut stream, "200 OK", FRAGMENT_PAGE).await;
        return None;
    }
    if answer.text("state") != Some(state) {
        respond(&mut stream, "400 Bad Request", "This is not the login that windlass began.").await;
        return None;
    }
    let words = if answer.text("error").is_some() {
        "The login was not granted. windlass says more."
    } else {
        "windlass has what it needs. You can close this page."
    };
    respond(&mut stream, "200 OK", words).await;
    Some(answer)
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
