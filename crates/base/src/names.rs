//! Hosts by name: patterns that allow and deny them, and the addresses at which a named host may be.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
};

use reqwest::Url;
use windlass_protocol::opencode::settings::NamedNetwork;

use super::public_address::{literal, special};

/// Ports of a pattern that names none, unless the settings say otherwise.
const USUAL_PORTS: [u16; 2] = [80, 443];
/// Ports of a pattern that names none, of hosts that get a key: it is sent behind TLS.
const KEY_PORTS: [u16; 1] = [443];
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
    /// The hosts that get the value of a variable, by its name.
    keys: BTreeMap<String, Vec<Pattern>>,
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
    /// Reads a host as programs write it, such as `0x7f.1` or `BÜCHER.example.`; none for a text that is no host.
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
        let absolute = text.strip_suffix('.').unwrap_or(&text);
        let url = Url::parse(&format!("http://{absolute}/")).ok()?;
        let text = url.host_str()?.to_owned();
        // A letter that means more in a rule, and an empty part, by which the rest would not be read as a number.
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
        };
        if !is_bracketed && !text.split('.').all(is_part) {
            return None;
        }
        Some(literal(&text).map_or(Self { text, address: None }, Self::at))
    }

    /// Returns an address as a host.
    fn at(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let text = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
        Self { text, address: Some(address) }
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

    /// Returns true if a service of this machine may be meant by it, where it is named exactly.
    pub fn is_machine(&self) -> bool {
        self.address.is_some() || self.is_localhost()
    }

    /// Returns true if the host says itself that it is this machine.
    pub fn is_loopback(&self) -> bool {
        self.address.map_or_else(|| self.is_localhost(), |it| it.is_loopback())
    }

    /// Fails with the address and its kind if the host may not be there.
    ///
    /// A host that is named exactly may be in a private network. Only an address that is itself named, and `localhost`,
    /// leads to this machine or to a service of its link: otherwise the owners of a name would choose among these.
    pub fn check(&self, is_exact: bool, found: &[SocketAddr]) -> Result<(), (IpAddr, &'static str)> {
        let may_be = |address: IpAddr, kind: &str| {
            is_exact
                && match self.address {
                    Some(_) => true,
                    None if self.is_localhost() => address.is_loopback(),
                    None => matches!(kind, "private" | "carrier-grade NAT" | "reserved"),
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
    /// Reads a setting. The error names the part that cannot be understood.
    pub fn parse(setting: &NamedNetwork) -> Result<Self, String> {
        let ports = setting.ports.clone().unwrap_or_else(|| USUAL_PORTS.to_vec());
        let read = |texts: &[String], ports: Option<&[u16]>| -> Result<Vec<Pattern>, String> {
            let read = |text: &String| Pattern::parse(text, ports).ok_or_else(|| text.clone());
            texts.iter().map(read).collect()
        };
        // A denial that named no port would let the others through.
        let mut keys = BTreeMap::new();
        for (variable, hosts) in &setting.keys {
            let hosts = read(hosts, Some(&KEY_PORTS))?;
            if variable.is_empty() || hosts.iter().any(|it| it.hosts == Hosts::All) {
                return Err(variable.clone());
            }
            keys.insert(variable.clone(), hosts);
        }
        let list =
            List { allow: read(&setting.allow, Some(&ports))?, deny: read(&setting.deny, None)?, keys };
        Ok(Self { lists: vec![list] })
    }

    /// Returns the lists of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let new = other.lists.into_iter().filter(|it| !self.lists.contains(it)).collect::<Vec<_>>();
        self.lists.extend(new);
        self
    }

    fn denies(&self, host: &Host, port: u16) -> bool {
        self.lists.iter().flat_map(|it| &it.deny).any(|it| it.matches(host, port))
    }

    /// Returns an address that is denied by itself, under any name.
    pub fn denied(&self, found: &[SocketAddr]) -> Option<IpAddr> {
        found.iter().find(|it| self.denies(&Host::at(it.ip()), it.port())).map(SocketAddr::ip)
    }

    /// Judges a host and a port.
    pub fn judge(&self, host: &Host, port: u16) -> Verdict {
        let is_of = |it: &&Pattern| it.matches(host, port);
        if self.denies(host, port) {
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

    /// Returns the variables of which every list gives the value to some host.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let first = self.lists.first().into_iter().flat_map(|list| list.keys.keys());
        let is_of_all = |variable: &&String| self.lists.iter().all(|list| list.keys.contains_key(*variable));
        first.filter(is_of_all).map(String::as_str)
    }

    /// Returns true if every list gives the value of a variable to this host.
    pub fn gives(&self, variable: &str, host: &Host, port: u16) -> bool {
        let gives = |list: &List| {
            list.keys.get(variable).is_some_and(|it| it.iter().any(|it| it.matches(host, port)))
        };
        !self.lists.is_empty() && self.lists.iter().all(gives)
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

    /// Returns the hosts that get the value of each variable, of all lists.
    pub fn shown_keys(&self) -> BTreeMap<&str, Vec<String>> {
        let mut acc = BTreeMap::<_, Vec<String>>::new();
        for (variable, hosts) in self.lists.iter().flat_map(|it| &it.keys) {
            acc.entry(variable.as_str()).or_default().extend(hosts.iter().map(Pattern::to_string));
        }
        acc
    }

    /// Returns, in words, the keys that hosts get here and not there; there may be no network by name.
    pub fn gives_more_than(&self, old: Option<&Self>) -> Vec<String> {
        let mut acc = Vec::new();
        for (variable, hosts) in self.lists.iter().flat_map(|it| &it.keys) {
            let is_given = |host: &Pattern| {
                old.is_some_and(|old| {
                    let covers = |list: &List| {
                        list.keys.get(variable).is_some_and(|it| it.iter().any(|it| it.covers(host)))
                    };
                    old.lists.iter().all(covers)
                })
            };
            acc.extend(hosts.iter().filter(|it| !is_given(it)).map(|it| format!("gives {variable} to {it}")));
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

/// Returns true for a name made of parts with letters, digits, `-` and `_` alone, and for an address in brackets: any
/// other host in a URL, such as a bare IPv6 address with its end taken for a port, would not be the one its writer
/// meant.
fn is_plain(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        return !address.is_empty() && address.chars().all(|it| it.is_ascii_hexdigit() || ":.".contains(it));
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(|it| it.is_alphanumeric() || "-_".contains(it));
    name.split('.').all(is_part)
}

fn is_below(name: &str, above: &str) -> bool {
    name.strip_suffix(above).is_some_and(|it| it.len() > 1 && it.ends_with('.'))
}

#[cfg(test)]
mod tests;
