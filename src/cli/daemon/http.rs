//! Requests to a server: its address, its credentials, and its answers or their reasons.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
};

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Certificate, Client, Method, RequestBuilder, Response, StatusCode, Url, header::CONTENT_TYPE};
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::config::{Environment, paths::Paths};

use super::super::{run::failure::Failure, server_keys, servers};

/// User name where none is given.
const USER: &str = "opencode";

/// The credentials that a server asks of its clients.
#[derive(Debug, Clone, Default, Args)]
pub struct CredentialArgs {
    /// Password of the server; without one OPENCODE_SERVER_PASSWORD.
    #[arg(long, short, value_name = "WORD")]
    pub password: Option<String>,
    /// User name at the server; without one OPENCODE_SERVER_USERNAME, or `opencode`.
    #[arg(long, short, value_name = "NAME")]
    pub username: Option<String>,
}

/// See the module's comment.
pub struct Http {
    client: Client,
    base: Url,
    user: String,
    password: Option<String>,
    /// The directory that requests are about.
    directory: String,
}

impl Http {
    pub fn new(
        environment: &Environment,
        url: &str,
        args: &CredentialArgs,
        directory: &Path,
    ) -> Result<Self, Failure> {
        let base = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let base = base.ok_or_else(|| {
            Failure::Misuse(format!(
                "`{url}` is no server's address: give one such as http://127.0.0.1:4096."
            ))
        })?;
        let of_environment =
            |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let of_url = |part: &str| Some(part).filter(|part| !part.is_empty()).map(str::to_owned);
        let user = args.username.clone().or_else(|| of_url(base.username()));
        let password = args.password.clone().or_else(|| of_url(base.password().unwrap_or_default()));
        let password = password.or_else(|| of_environment("OPENCODE_SERVER_PASSWORD"));
        // A server without a password may be unable to see that this is a program of its user.
        let (host, port) = (base.host_str().unwrap_or_default(), base.port_or_known_default());
        let host = host.trim_matches(['[', ']']);
        let password = password.or_else(|| servers::token(&Paths::new(environment), &base));
        let own = port.filter(|_| password.is_none());
        let own = own.and_then(|port| server_keys::secret(&Paths::new(environment).data, host, port));
        let (address, secret) = own.unzip();
        Ok(Self {
            client: client(&base, address, environment.get("NODE_EXTRA_CA_CERTS"))?,
            user: user.or_else(|| of_environment("OPENCODE_SERVER_USERNAME")).unwrap_or(USER.to_owned()),
            password: password.or(secret),
            directory: directory.display().to_string(),
            base,
        })
    }

    /// Returns the server's address, without a password.
    pub fn address(&self) -> String {
        let mut base = self.base.clone();
        let _ = base.set_password(None);
        let _ = base.set_username("");
        base.as_str().trim_end_matches('/').to_owned()
    }

    /// Makes a request of a path.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let directory = utf8_percent_encode(&self.directory, NON_ALPHANUMERIC).to_string();
        let request = self.client.request(method, format!("{}{path}", self.address()));
        let request = request.header("x-opencode-directory", directory);
        match &self.password {
            Some(password) if !password.is_empty() => request.basic_auth(&self.user, Some(password)),
            Some(_) | None => request,
        }
    }

    /// Sends a request; the reason as a sentence where it is refused.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, String> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        self.accepted(response).await
    }

    async fn accepted(&self, response: Response) -> Result<Response, String> {
        let status = response.status();
        if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(format!(
                "{0} wants a password: give it by --password or OPENCODE_SERVER_PASSWORD; where it has accounts, run `windlass login {0}`.",
                self.address()
            ));
        }
        let refusal: Value =
            serde_json::from_slice(&response.bytes().await.unwrap_or_default()).unwrap_or_default();
        let words = [&refusal["data"]["message"], &refusal["message"]].into_iter().find_map(Value::as_str);
        Err(words.map_or_else(|| format!("{} answered {status}.", self.address()), str::to_owned))
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        self.read(self.request(Method::GET, path)).await
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, String> {
        self.read(self.post_request(path, body)).await
    }

    /// Posts to a route that answers with nothing; returns false where the server has no such route.
    pub async fn post_if_known(&self, path: &str, body: &Value) -> Result<bool, String> {
        let response =
            self.post_request(path, body).send().await.map_err(|error| self.unreachable(&error))?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(true);
        }
        let status = response.status();
        if !is_json(&response)
            && (status.is_success()
                || status == StatusCode::NOT_FOUND
                || status == StatusCode::METHOD_NOT_ALLOWED)
        {
            return Ok(false);
        }
        self.accepted(response).await.map(|_| true)
    }

    /// Returns true if the server has this route, also if it refuses the request.
    pub async fn has_route(&self, path: &str) -> bool {
        let answered = self.request(Method::GET, path).send().await;
        answered.is_ok_and(|response| is_json(&response))
    }

    /// Makes a request that posts JSON to a path.
    pub fn post_request(&self, path: &str, body: &Value) -> RequestBuilder {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, "application/json");
        request.body(body.to_string())
    }

    pub async fn delete(&self, path: &str) -> Result<(), String> {
        self.send(self.request(Method::DELETE, path)).await.map(|_| ())
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, String> {
        let response = self.send(request).await?;
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body).map_err(|error| {
            format!("{} answered something that is not understood: {error}.", self.address())
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> String {
        tracing::debug!(%error, "a request failed");
        if error.is_connect() {
            format!(
                "No server answers at {}: start it by `windlass serve`, or check the address.",
                self.address()
            )
        } else {
            format!("The connection to {} broke off.", self.address())
        }
    }
}

/// Returns true for an answer of the API: a server that has no such route answers with a page.
fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

/// Makes the client, which trusts a file's certificates too. A server on this machine is not asked through a proxy.
fn client(base: &Url, own: Option<SocketAddr>, certificates: Option<&str>) -> Result<Client, Failure> {
    // Fails if another part of the process has installed one, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let host = base.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_near = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let builder = Client::builder().http1_only().redirect(reqwest::redirect::Policy::none());
    let builder = if is_near { builder.no_proxy() } else { builder };
    // The secret of our own server is for its address alone, whichever others the name has.
    let builder = match own {
        Some(address) => builder.resolve(host, address),
        None => builder,
    };
    let builder = match certificates {
        Some(file) => {
            let unusable = |reason: &dyn std::fmt::Display| {
                Failure::Failed(format!("{file} of NODE_EXTRA_CA_CERTS cannot be used: {reason}."))
            };
            let pem = std::fs::read(file).map_err(|error| unusable(&error))?;
            let bundle = Certificate::from_pem_bundle(&pem).map_err(|error| unusable(&error))?;
            builder.tls_certs_merge(bundle)
        }
        None => builder,
    };
    let built = builder.tcp_nodelay(true).build();
    built.map_err(|error| Failure::Failed(format!("The HTTP client cannot be set up: {error}.")))
}
