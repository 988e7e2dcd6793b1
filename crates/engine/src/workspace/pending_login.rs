//! A login at an MCP server that has begun and not ended.

use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use windlass_services::mcp::login::LoginError;

/// A login that waits for the browser, or for a code by another way.
pub(crate) struct PendingLogin {
    /// The mark by which its return is known.
    pub state: String,
    pub codes: mpsc::Sender<String>,
    pub end: watch::Receiver<Option<Result<(), LoginError>>>,
    pub _task: AbortOnDropHandle<()>,
}
