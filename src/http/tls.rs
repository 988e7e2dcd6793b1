//! TLS by files of certificates.

use std::{path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

/// Reads the server's certificates, its own first, and its key; the reason as a sentence where they cannot be used.
pub fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let cause = |file: &Path, reason: &dyn std::fmt::Display| {
        format!("{} cannot be used for TLS: {reason}. Name PEM files.", file.display())
    };
    let read = CertificateDer::pem_file_iter(certificates).and_then(Iterator::collect);
    let chain: Vec<CertificateDer> = read.map_err(|error| cause(certificates, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| cause(key, &error))?;
    // Fails if another part of the process has installed one, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private);
    let mut config = config.map_err(|error| cause(certificates, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
