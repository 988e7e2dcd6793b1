//! Requests to other nodes, under the address that each has signed and with a token of the fleet for it alone.

use std::time::Duration;

use http::Method;
use reqwest::{Client, RequestBuilder};
use windlass_shared::Owner;

use super::{Fleet, TOKEN};

/// Time in which a node takes a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Pause after which a silent connection is tried, and time between two tries: a host may go without a word.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const MAX_TRIES: u32 = 3;

impl Fleet<'_> {
    /// Returns a request to a node, with a path and query of its server.
    pub async fn request(self, to: &Owner, method: Method, path: &str) -> Result<RequestBuilder, String> {
        let address = to.address.as_deref().ok_or("it has no address")?;
        let token = self.token(to).await.map_err(|error| error.to_string())?;
        Ok(self.client()?.request(method, format!("{address}{path}")).header(TOKEN, token))
    }

    fn client(self) -> Result<&'static Client, String> {
        static CLIENT: std::sync::OnceLock<Client> = std::sync::OnceLock::new();
        if let Some(client) = CLIENT.get() {
            return Ok(client);
        }
        // Fails if another part of the process has installed one, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            // A WebSocket begins as a request of this version.
            .http1_only()
            .connect_timeout(CONNECT_LIMIT)
            .tcp_keepalive(KEEP_ALIVE)
            .tcp_keepalive_interval(KEEP_ALIVE)
            .tcp_keepalive_retries(MAX_TRIES)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(CLIENT.get_or_init(|| client))
    }
}
