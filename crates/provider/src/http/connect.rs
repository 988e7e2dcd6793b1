//! Makes HTTP clients, by where they may connect to.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use reqwest::{
    Certificate, ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
};
use windlass_base::{cause, public_address::PublicNames};

use super::causes;
use crate::ProviderError;

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads a file of certificates.
pub(super) fn certificates(file: &Path) -> Result<Vec<Certificate>, ProviderError> {
    let read = std::fs::read(file).map_err(|error| cause::innermost(&error));
    let parsed =
        read.and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|error| cause::innermost(&error)));
    parsed.map_err(|reason| ProviderError::Api {
        message: format!(
            "cannot read the certificates in {} ({reason}); correct NODE_EXTRA_CA_CERTS",
            file.display()
        ),
        status: None,
        body: None,
    })
}

/// Makes a client that connects to these addresses only, for any name in the URL, and never through a proxy.
///
/// Reads the system's certificates; call it on a blocking thread.
pub fn pinned(addresses: &[SocketAddr]) -> Result<reqwest::Client, ProviderError> {
    let resolver = Arc::new(Pinned(addresses.to_vec()));
    build(|builder| builder.no_proxy().dns_resolver(resolver.clone()), &[])
}

struct Pinned(Vec<SocketAddr>);

impl Resolve for Pinned {
    fn resolve(&self, _name: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// Makes a client; one for addresses that only the project names goes nowhere but to public addresses and to those that
/// say where they are.
pub(super) fn client(
    is_foreign: bool,
    certificates: &[Certificate],
) -> Result<reqwest::Client, ProviderError> {
    let adapt = |builder: ClientBuilder| {
        // A proxy would look the name up by itself.
        if is_foreign { builder.no_proxy().dns_resolver(Arc::new(PublicNames)) } else { builder }
    };
    build(adapt, certificates)
}

fn build(
    adapt: impl Fn(ClientBuilder) -> ClientBuilder,
    certificates: &[Certificate],
) -> Result<reqwest::Client, ProviderError> {
    // Fails if another part of the process has installed one, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        let builder = reqwest::Client::builder()
            .connect_timeout(TIMEOUT)
            // A redirected POST loses its body and would carry the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")));
        adapt(builder)
    };
    // Without root certificates on the system, plain HTTP to a local server must still work.
    let with_own = || match certificates {
        [] => builder(),
        _ => builder().tls_certs_merge(certificates.iter().cloned()),
    };
    let built =
        with_own().build().or_else(|_| builder().tls_certs_only(certificates.iter().cloned()).build());
    built.map_err(|error| ProviderError::Transport {
        message: format!("the HTTP client cannot be set up ({})", causes(error)),
    })
}
