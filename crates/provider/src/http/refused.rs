//! Requests without an answer: is it a server of this machine, and off?

use std::{
    error::Error,
    io,
    net::{IpAddr, UdpSocket},
    time::Duration,
};

use reqwest::Url;
use tokio::{net::lookup_host, time::timeout};

use crate::ProviderError;

/// Time limit for finding the addresses of a name that was just found for the connection.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);

/// Classifies the failure of a request that got no answer.
pub async fn unanswered(error: reqwest::Error) -> ProviderError {
    if !is_of_this_machine(&error).await {
        return super::transport(error);
    }
    let message = format!("nothing listens there ({}); is the server running?", super::causes(error));
    ProviderError::NotRunning { message }
}

/// Returns true if a server that would have to run on this machine refused the connection.
///
/// The name in the URL does not tell: any name may lead here.
async fn is_of_this_machine(error: &reqwest::Error) -> bool {
    let Some(url) = error.url().filter(|_| error.is_connect() && is_refused(error)) else { return false };
    let addresses = addresses(url).await;
    !addresses.is_empty() && addresses.into_iter().all(is_own)
}

fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns the addresses of a URL's host; none where it has none.
async fn addresses(url: &Url) -> Vec<IpAddr> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    if let Ok(address) = host.parse() {
        return vec![address];
    }
    match timeout(LOOKUP_LIMIT, lookup_host((host, 0))).await {
        Ok(Ok(found)) => found.map(|it| it.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Returns true for an address of this machine: the kernel lets no other be bound.
fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn addresses_of_this_machine_are_told_from_others() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("0.0.0.0", true),
            // These are for documentation, and belong to no machine.
            ("192.0.2.7", false),
            ("2001:db8::7", false),
        ] {
            assert_eq!(is_own(address.parse().unwrap()), expected, "{address}");
        }
    }
}
