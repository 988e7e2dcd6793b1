//! Requests that a plugin sends in our place: it gets the address, the headers and the body, and answers.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};
use reqwest::{Body, Response, header::HeaderMap};

/// A request that is ready to be sent.
pub struct FetchRequest {
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// The start of an answer, and its body as it comes.
pub struct FetchResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: BoxStream<'static, Result<Bytes, String>>,
}

/// The reason why a request was not answered, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server was not reached, or broke the connection.
    #[error("{0}")]
    Transport(String),
    /// The sender refused it.
    #[error("{0}")]
    Refused(String),
}

/// The function of a sender.
pub type Send =
    dyn Fn(FetchRequest) -> BoxFuture<'static, Result<FetchResponse, FetchError>> + std::marker::Send + Sync;

/// A sender of requests.
#[derive(Clone)]
pub struct Fetch {
    /// The name by which senders are compared: a function made anew sends as the one before did.
    pub name: String,
    pub send: Arc<Send>,
}

impl fmt::Debug for Fetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Fetch({})", self.name)
    }
}

impl PartialEq for Fetch {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Fetch {
    /// Sends a request and returns the answer as if it had been sent by us.
    pub(super) async fn post(
        &self,
        url: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response, FetchError> {
        let text =
            |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let answer = (self.send)(FetchRequest { url: url.to_owned(), headers, body }).await?;
        let mut builder = http::Response::builder().status(answer.status);
        for (name, value) in answer.headers {
            builder = builder.header(name, value);
        }
        let response =
            builder.body(Body::wrap_stream(futures_util::TryStreamExt::map_err(answer.body, Broken)));
        response
            .map(Response::from)
            .map_err(|error| FetchError::Refused(format!("its answer cannot be read: {error}")))
    }
}

/// The reason why a body is not complete.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Broken(String);
