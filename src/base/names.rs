//! Hosts by name: patterns that allow and deny them, and the addresses at which a named host may be.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use reqwest::Url;
use windlass_protocol::opencode::settings::NamedNetwork;

use super::public_address::{literal, special};

/// Ports of a pattern that names none, unless the settings say otherwise.
const USUAL_PORTS: [u16; 2] = [80, 443];
/// Bytes of a host's name.
const MAX_NAME: usize = 255;

/// Lists of hosts, all of which must agree: an agent's own, and those of the sessions above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    lists: Vec<List>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct List {
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
}

/// A pattern of hosts with its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    hosts: Hosts,
    /// None for all ports.
    ports: Option<Vec<u16>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// The names that end in a dot and this one.
    Below(String),
    Exactly(Host),
}

/// A host, written in one way only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// In small letters and ASCII, without a dot at the end; an IPv6 address has its brackets.
    text: String,
    address: Option<IpAddr>,
}

/// The verdict of lists about a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Denied,
    /// `is_exact` is set where every list names this very host.
    Allowed {
        is_exact: bool,
    },
    /// Neither denied nor allowed by all.
    Unnamed,
}

impl Host {
    /// Reads a host as programs write it, such as `0x7f.1` or `BÜCHER.example.`; none for what is no host.
    pub fn parse(text: &str) -> Option<Self> {
        let is_bare_address = text.parse::<IpAddr>().is_ok_and(|it| it.is_ipv6());
        let text = if is_bare_address { format!("[{text}]") } else { text.to_owned() };
        let is_url_part = |it: char| it.is_whitespace() || it.is_control() || "/\\?#@%".contains(it);
        if text.is_empty() || text.len() > MAX_NAME || text.contains(is_url_part) {
            return None;
        }
        let is_bracketed = text.starts_with('[') && text.ends_with(']');
        if text.contains(':') && !is_bracketed {
            return None;
        }
        let url = Url::parse(&format!("http://{text}/")).ok()?;
        let text = url.host_str()?.trim_end_matches('.').to_owned();
        let address = literal(&text).map(|it| it.to_canonical());
        let text = match address {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            Some(IpAddr::V4(address)) => address.to_string(),
            None => text,
        };
        (!text.is_empty()).then_some(Self { text, address })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the address that the host is written as.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn is_localhost(&self) -> bool {
        self.text == "localhost" || self.text.ends_with(".localhost")
    }

    /// Returns true if the host says itself that it is this machine.
    pub fn is_loopback(&self) -> bool {
        self.address.map_or_else(|| self.is_localhost(), |it| it.is_loopback())
    }

    /// Fails with the address and its kind if the host may not be there.
    ///
    /// A host that is named exactly may be in a private network. Only an address that is itself named, and `localhost`,
    /// leads to this machine or to a service of its link: otherwise whoever answers for a name would choose among these.
    pub fn check(&self, is_exact: bool, found: &[SocketAddr]) -> Result<(), (IpAddr, &'static str)> {
        let may_be = |address: IpAddr, kind: &str| {
            is_exact
                && match self.address {
                    Some(_) => true,
                    None if self.is_localhost() => address.is_loopback(),
                    None => matches!(kind, "private" | "carrier-grade NAT"),
                }
        };
        let found = found.iter().map(|it| it.ip().to_canonical());
        let mut kinds = found.filter_map(|it| special(it).map(|kind| (it, kind)));
        kinds.find(|(address, kind)| !may_be(*address, kind)).map_or(Ok(()), Err)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Names {
    /// Reads a setting. The error names what cannot be understood.
    pub fn parse(setting: &NamedNetwork) -> Result<Self, String> {
        let ports = setting.ports.clone().unwrap_or_else(|| USUAL_PORTS.to_vec());
        let read = |texts: &[String], ports: Option<&[u16]>| -> Result<Vec<Pattern>, String> {
            let read = |text: &String| Pattern::parse(text, ports).ok_or_else(|| text.clone());
            texts.iter().map(read).collect()
        };
        // A denial that named no port would let the others through.
        let list = List { allow: read(&setting.allow, Some(&ports))?, deny: read(&setting.deny, None)? };
        Ok(Self { lists: vec![list] })
    }

    /// Returns the lists of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let new = other.lists.into_iter().filter(|it| !self.lists.contains(it)).collect::<Vec<_>>();
        self.lists.extend(new);
        self
    }

    /// Judges a host and a port.
    pub fn judge(&self, host: &Host, port: u16) -> Verdict {
        let is_of = |it: &&Pattern| it.matches(host, port);
        if self.lists.iter().flat_map(|it| &it.deny).any(|it| is_of(&it)) {
            return Verdict::Denied;
        }
        let mut is_exact = true;
        for list in &self.lists {
            let mut allowing = list.allow.iter().filter(is_of).peekable();
            if allowing.peek().is_none() {
                return Verdict::Unnamed;
            }
            is_exact &= allowing.any(|it| matches!(it.hosts, Hosts::Exactly(_)));
        }
        Verdict::Allowed { is_exact }
    }

    /// Returns true if every list names this host, on some port.
    pub fn names(&self, text: &str) -> bool {
        let is_it = |it: &Pattern| matches!(&it.hosts, Hosts::Exactly(host) if host.text == text);
        self.lists.iter().all(|list| list.allow.iter().any(is_it))
    }

    /// Returns, in words, all that is reached here and not there.
    pub fn wider_than(&self, old: &Self) -> Vec<String> {
        let mut acc = Vec::new();
        let covered = |pattern: &Pattern, by: &[Pattern]| by.iter().any(|it| it.covers(pattern));
        for list in &old.lists {
            let is_new = |it: &&Pattern| !covered(it, &list.allow);
            let new = self.lists.iter().flat_map(|it| &it.allow).filter(is_new);
            acc.extend(new.map(|it| format!("reaches {it}")));
        }
        for pattern in old.lists.iter().flat_map(|it| &it.deny) {
            if !self.lists.iter().any(|it| covered(pattern, &it.deny)) {
                acc.push(format!("no longer denies {pattern}"));
            }
        }
        acc
    }

    /// Returns the patterns that allow, each list by itself, and those that deny.
    pub fn shown(&self) -> (Vec<Vec<String>>, Vec<String>) {
        let texts = |it: &[Pattern]| it.iter().map(Pattern::to_string).collect::<Vec<_>>();
        let denied = self.lists.iter().flat_map(|it| texts(&it.deny)).collect();
        (self.lists.iter().map(|it| texts(&it.allow)).collect(), denied)
    }
}

impl Pattern {
    fn parse(text: &str, ports: Option<&[u16]>) -> Option<Self> {
        let (hosts, ports) = match text.rsplit_once(':') {
            // The colons of an IPv6 address are within its brackets.
            Some((hosts, port)) if !port.contains(']') => (hosts, Some(vec![port_number(port)?])),
            Some(_) | None => (text, ports.map(<[u16]>::to_vec)),
        };
        let hosts = if hosts == "*" {
            Hosts::All
        } else if let Some(above) = hosts.strip_prefix("*.") {
            Hosts::Below(Host::parse(above).filter(|it| is_plain(above) && it.address.is_none())?.text)
        } else {
            Hosts::Exactly(Host::parse(hosts).filter(|_| is_plain(hosts))?)
        };
        Some(Self { hosts, ports })
    }

    fn matches(&self, host: &Host, port: u16) -> bool {
        let is_of_port = self.ports.as_ref().is_none_or(|it| it.contains(&port));
        is_of_port
            && match &self.hosts {
                Hosts::All => true,
                Hosts::Below(above) => is_below(&host.text, above),
                Hosts::Exactly(named) => named == host,
            }
    }

    /// Returns true if it matches all that the other does, and leads no less far.
    fn covers(&self, other: &Self) -> bool {
        let has_ports = match (&self.ports, &other.ports) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => others.iter().all(|it| own.contains(it)),
        };
        has_ports
            && match (&self.hosts, &other.hosts) {
                (Hosts::Exactly(own), Hosts::Exactly(other)) => own == other,
                (Hosts::All, Hosts::All | Hosts::Below(_)) => true,
                (Hosts::Below(own), Hosts::Below(other)) => own == other || is_below(other, own),
                // A host that is named exactly may be in a private network, which a wildcard does not reach.
                (Hosts::All | Hosts::Below(_), Hosts::Exactly(_))
                | (Hosts::Below(_), Hosts::All)
                | (Hosts::Exactly(_), Hosts::All | Hosts::Below(_)) => false,
            }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::All => formatter.write_str("*")?,
            Hosts::Below(above) => write!(formatter, "*.{above}")?,
            Hosts::Exactly(host) => write!(formatter, "{host}")?,
        }
        let Some(ports) = &self.ports else { return Ok(()) };
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        write!(formatter, ":{}", ports.join(","))
    }
}

fn port_number(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port != 0)
}

/// Returns true for a name whose parts have letters, digits, `-` and `_` alone, and for an address in brackets: what
/// else a URL may have, such as a bare IPv6 address whose end is taken for a port, would not be what its writer meant.
fn is_plain(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        return !address.is_empty() && address.chars().all(|it| it.is_ascii_hexdigit() || ":.".contains(it));
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|it| it.is_alphanumeric() || "-_".contains(it));
    name.split('.').all(is_part)
}

fn is_below(name: &str, above: &str) -> bool {
    name.strip_suffix(above).is_some_and(|it| it.len() > 1 && it.ends_with('.'))
}

#[cfg(test)]
mod tests;
