//! Logins by browser or by a code, the tokens that they give, and the renewal of these.

pub mod browser;
pub mod device;
pub mod endpoint;
pub mod rows;
pub mod tokens;

use reqwest::Client;
use windlass_core::config::Environment;
use windlass_protocol::opencode::config::AuthEntry;

use self::{
    device::{Addresses, Show},
    endpoint::{Endpoint, LoginError},
    rows::{Flow, Login},
};

/// Logs in; `show` tells the user which page to open. Stores nothing.
pub async fn log_in(
    client: &Client,
    environment: &Environment,
    login: &Login,
    instance: Option<&str>,
    show: Show<'_>,
) -> Result<AuthEntry, LoginError> {
    let endpoint = Endpoint::new(client, environment, login.issuer, instance)?;
    match &login.flow {
        Flow::Code { authorize, extra, redirect } => {
            browser::log_in(&endpoint, authorize, extra, redirect, show).await
        }
        Flow::Implicit { authorize, redirect } => {
            browser::log_in_implicitly(&endpoint, authorize, redirect, show).await
        }
        Flow::Device { start, extra } => device::log_in(&endpoint, start, extra, show).await,
        Flow::DeviceCode { start, poll, page, redirect } => {
            device::log_in_by_code(&endpoint, &Addresses { start, poll, page, redirect }, show).await
        }
    }
}
