//! Requests to login providers: no redirects, a time limit, and a bound on each answer.

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse, http::Response};
use reqwest::{Certificate, Url};
use tokio::sync::OnceCell;
use windlass_base::{cause, public_address::is_loopback};

use super::error::LoginError;

/// Time limit of a request and its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of an answer.
const MAX_ANSWER: usize = 1 << 20;

/// The HTTP client for providers, built at first use. Clones share its connections.
#[derive(Debug, Clone, Default)]
pub struct Http {
    built: Arc<OnceCell<reqwest::Client>>,
    certificates: Option<Arc<Path>>,
}

/// A request without a usable answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HttpError {
    /// There is no answer, or the server says that it cannot give one now.
    #[error("{0}")]
    Unreachable(String),
    /// The answer is refused unread.
    #[error("{0}")]
    Refused(String),
}

impl HttpError {
    pub(super) fn at(self, provider: &str) -> LoginError {
        let provider = provider.to_owned();
        match self {
            Self::Unreachable(reason) => LoginError::Unreachable { provider, reason },
            Self::Refused(reason) => LoginError::Answer { provider, reason },
        }
    }
}

impl Http {
    /// Makes a client that trusts a file of certificates (PEM) beside the system's.
    pub fn new(certificates: Option<PathBuf>) -> Self {
        Self { built: Arc::default(), certificates: certificates.map(Arc::from) }
    }

    /// Sends a request and returns its answer. Answers with 429 and 5xx count as unreachable.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let client = self.client().await?;
        let request = reqwest::Request::try_from(request)
            .map_err(|_| HttpError::Refused("the address of the request is not one".to_owned()))?;
        let host = request.url().host_str().unwrap_or_default().to_owned();
        let broken = |error: reqwest::Error| HttpError::Unreachable(failed(&host, error));
        let mut response = client.execute(request).await.map_err(broken)?;
        let status = response.status();
        if status.is_redirection() {
            return Err(HttpError::Refused(format!(
                "{host} redirects the request, which is not followed; the administrator has to set the final address"
            )));
        }
        if status.is_server_error() || status.as_u16() == 429 {
            return Err(HttpError::Unreachable(format!("{host} answered {status}")));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(HttpError::Refused(format!("the answer of {host} is larger than 1 MiB")));
            }
            body.extend_from_slice(&chunk);
        }
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        Ok(answer)
    }

    async fn client(&self) -> Result<&reqwest::Client, HttpError> {
        let build = || async {
            let certificates = self.certificates.clone();
            // The system's certificates are read here.
            let built = tokio::task::spawn_blocking(move || build(certificates.as_deref())).await;
            built.unwrap_or_else(|error| Err(HttpError::Unreachable(cause::innermost(&error))))
        };
        self.built.get_or_try_init(build).await
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

fn build(certificates: Option<&Path>) -> Result<reqwest::Client, HttpError> {
    // Fails if another part of the process has installed one, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificates = certificates.map(read_certificates).transpose()?.unwrap_or_default();
    let builder = || {
        reqwest::Client::builder()
            .timeout(TIMEOUT)
            // A redirected request would carry a code, a secret or a token to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
    };
    // Without root certificates on the system, plain HTTP to this machine must still work.
    let built = builder()
        .tls_certs_merge(certificates.iter().cloned())
        .build()
        .or_else(|_| builder().tls_certs_only(certificates.iter().cloned()).build());
    let unbuilt = |error| format!("the HTTP client cannot be set up: {}", cause::innermost(&error));
    built.map_err(|error| HttpError::Unreachable(unbuilt(error)))
}

fn read_certificates(file: &Path) -> Result<Vec<Certificate>, HttpError> {
    let read = std::fs::read(file).map_err(|error| cause::innermost(&error));
    let parsed =
        read.and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|error| cause::innermost(&error)));
    parsed.map_err(|reason| {
        HttpError::Unreachable(format!("the certificates in {} cannot be read: {reason}", file.display()))
    })
}

/// Says why a request failed, without its URL, which may hold a code.
fn failed(host: &str, error: reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("{host} gave no answer within {} s", TIMEOUT.as_secs());
    }
    format!("{host}: {}", cause::innermost(&error.without_url()))
}

/// Reads an address of a provider: `https`, or `http` on this machine for trials.
pub(super) fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)
        .map_err(|error| format!("\"{}\" is not a URL ({error})", super::error::shown(text)))?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err(format!("\"{}\" has to begin with https://", super::error::shown(text))),
    }
}
