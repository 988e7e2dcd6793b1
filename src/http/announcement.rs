//! Announces a server by mDNS, so that programs in the same network find it without being given its address.

use std::{net::SocketAddr, time::Duration};

use mdns_sd::{IfKind, ServiceDaemon, ServiceInfo};

const TYPE: &str = "_http._tcp.local.";
/// Time that other programs are given to hear that the server ends.
const END_LIMIT: Duration = Duration::from_millis(300);

/// A server's entry in the directory that the machines of a network keep together; dropped, it ages there by itself.
pub struct Announcement(ServiceDaemon);

/// Announces the server at `bound` under a host name, which ends in `.local`.
pub fn announce(bound: SocketAddr, host: &str) -> mdns_sd::Result<Announcement> {
    let service = service(bound, host)?;
    let daemon = ServiceDaemon::new()?;
    daemon.disable_interface(unreached(bound))?;
    daemon.register(service)?;
    Ok(Announcement(daemon))
}

/// Returns the host name as mDNS writes it; `None` for one that it cannot carry.
pub fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).strip_suffix(".local")?;
    let is_usable = name.split('.').all(|label| (1..64).contains(&label.len())) && name.len() < 240;
    is_usable.then(|| format!("{name}.local."))
}

impl Announcement {
    /// Tells other programs that the server ends.
    pub async fn end(self) {
        let Ok(ended) = self.0.shutdown() else { return };
        let _ = tokio::time::timeout(END_LIMIT, ended.recv_async()).await;
    }
}

/// Returns the entry in OpenCode's form.
fn service(bound: SocketAddr, host: &str) -> mdns_sd::Result<ServiceInfo> {
    let name = format!("opencode-{}", bound.port());
    let properties: &[(&str, &str)] = &[("path", "/")];
    if bound.ip().is_unspecified() {
        return Ok(ServiceInfo::new(TYPE, &name, host, "", bound.port(), properties)?.enable_addr_auto());
    }
    ServiceInfo::new(TYPE, &name, host, bound.ip(), bound.port(), properties)
}

/// Returns the interfaces on which nobody could reach the server.
fn unreached(bound: SocketAddr) -> Vec<IfKind> {
    let mut interfaces = vec![IfKind::LoopbackV4, IfKind::LoopbackV6];
    if bound.is_ipv4() {
        interfaces.push(IfKind::IPv6);
    }
    interfaces
}

#[cfg(test)]
mod tests;
