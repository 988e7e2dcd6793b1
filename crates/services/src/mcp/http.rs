//! The common parts of requests to remote servers.

/// Chooses the process's cryptography.
pub(super) fn install_tls() {
    // Fails if one is chosen already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
