//! Tells public addresses from those of this machine and of the networks around it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

/// Looks up the names of addresses that somebody other than the user chose. Each has to be at public addresses alone,
/// but for `localhost`, which says where it is.
#[derive(Debug, Clone, Copy)]
pub struct PublicNames;

impl Resolve for PublicNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            judge(name.as_str(), &found)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Fails for a URL with a host that is itself an address and not public, but for one of this machine: no name is looked
/// up for it.
pub fn check_literal(url: &Url) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default();
    let Some(address) = literal(host).filter(|it| !it.to_canonical().is_loopback()) else { return Ok(()) };
    match special(address) {
        Some(kind) => Err(refusal(host, address, kind)),
        None => Ok(()),
    }
}

/// Returns true for a URL with a host that names this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    literal(host).map_or_else(|| is_localhost(host), |it| it.to_canonical().is_loopback())
}

fn is_localhost(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn refusal(host: &str, address: IpAddr, kind: &str) -> String {
    format!(
        "{host} is at {address}, which is {kind}, and no file of yours names it; to use it, name it in your own \
         configuration"
    )
}

/// Fails if a name is at an address that is not public. One such address is enough, since the choice among them is
/// arbitrary.
fn judge(host: &str, found: &[SocketAddr]) -> Result<(), String> {
    let is_local = is_localhost(host);
    let is_seen = |address: IpAddr| is_local && address.to_canonical().is_loopback();
    let hidden = found.iter().map(SocketAddr::ip).filter(|it| !is_seen(*it));
    match hidden.filter_map(|it| special(it).map(|kind| (it, kind))).next() {
        Some((address, kind)) => Err(refusal(host, address, kind)),
        None => Ok(()),
    }
}

/// The kind of addresses at which clouds tell their machines secrets, beside the link-local one.
const METADATA: &str = "a metadata service";

/// Returns the kind of an address that is not public
/// (<https://www.iana.org/assignments/iana-ipv4-special-registry>, `iana-ipv6-special-registry`).
pub fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        // Azure's, Alibaba's, and Oracle's.
        [168, 63, 129, 16] | [100, 100, 100, 200] | [192, 0, 0, 192] => METADATA,
        [0, ..] => "unspecified",
        [127, ..] => "loopback",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "private",
        [169, 254, ..] => "link-local",
        [100, 64..=127, ..] => "carrier-grade NAT",
        [224..=239, ..] => "multicast",
        [240..=255, ..] | [192, 0, 0 | 2, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            "reserved"
        }
        _public => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        special_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        [0, 0, 0, 0, 0, 0xffff, ..] => Some("IPv4-mapped"),
        // Amazon's, and Google's.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => Some(METADATA),
        [0xfc00..=0xfdff, ..] => Some("private"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfec0..=0xfeff, ..] => Some("site-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        // A translator forwards these to the IPv4 address inside.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        // Teredo's inner address is hidden; the others are for protocols, tests and documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("reserved"),
        [0x2000..=0x3fff, ..] => None,
        _unassigned => Some("reserved"),
    }
}

/// Parses a literal address of a host as [`Url`] writes it, which has already read `0x7f.1` and `2130706433`.
pub fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    //! Names, and the addresses that they lead to.

    use super::*;

    #[test]
    fn a_name_leads_nowhere_but_to_public_addresses() {
        let check = |host: &str, addresses: &[&str], expected: Option<&str>| {
            let found: Vec<SocketAddr> =
                addresses.iter().map(|it| SocketAddr::new(it.parse().expect("an address"), 0)).collect();
            match (judge(host, &found), expected) {
                (Ok(()), None) => {}
                (Err(reason), Some(kind)) => assert!(reason.contains(kind), "{host}: {reason}"),
                (found, _) => panic!("{host}: {found:?}, expected {expected:?}"),
            }
        };
        check("a.example", &["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"], None);
        check("a.example", &["93.184.215.14", "127.0.0.1"], Some("at 127.0.0.1, which is loopback"));
        check("a.example", &["10.1.2.3"], Some("private"));
        check("a.example", &["169.254.169.254"], Some("link-local"));
        check("a.example", &["::ffff:127.0.0.1"], Some("IPv4-mapped"));
        check("a.example", &["fd00::1"], Some("private"));
        check("a.example", &["fd00:ec2::254"], Some("metadata"));
        check("localhost", &["127.0.0.1", "::1"], None);
        check("x.LOCALHOST.", &["127.0.0.1"], None);
        check("localhost", &["10.0.0.1"], Some("private"));
        check("localhost.example", &["127.0.0.1"], Some("loopback"));
    }

    #[test]
    fn an_address_in_the_place_of_a_name_is_public_or_this_machines() {
        for (url, expected) in [
            ("https://93.184.215.14/", None),
            ("https://a.example/", None),
            ("http://127.0.0.1:1234/v1", None),
            ("http://[::1]/", None),
            ("http://2130706433/", None),
            ("http://169.254.169.254/latest/meta-data", Some("link-local")),
            ("http://0xa9fea9fe/", Some("link-local")),
            ("http://[::ffff:169.254.169.254]/", Some("IPv4-mapped")),
            ("http://[64:ff9b::10.0.0.1]/", Some("private")),
            ("http://192.168.0.1/", Some("private")),
            ("http://0.0.0.0/", Some("unspecified")),
        ] {
            match (check_literal(&Url::parse(url).expect("a URL")), expected) {
                (Ok(()), None) => {}
                (Err(reason), Some(kind)) => assert!(reason.contains(kind), "{url}: {reason}"),
                (found, _) => panic!("{url}: {found:?}, expected {expected:?}"),
            }
        }
        for (url, expected) in [
            ("http://localhost:1/", true),
            ("http://x.localhost./", true),
            ("http://[::1]/", true),
            ("http://127.1/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).expect("a URL")), expected, "{url}");
        }
    }
}
