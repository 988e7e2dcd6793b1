//! The links by which a device elsewhere enters, as text and as a QR code for its camera.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    net::{IpAddr, SocketAddr},
};

use qrcodegen::{QrCode, QrCodeEcc};

use crate::{cli::output, http::Access};

/// Modules of light around a code; scanners want four of a printed one, and find it by two on a screen.
const MARGIN: i32 = 2;
/// White on black in a terminal of any colours.
const COLOURS: &str = "\x1b[97;40m";
const NO_COLOURS: &str = "\x1b[0m";

/// Shows a link that one device can follow, for each address of this machine that it may reach. A code is drawn for the
/// first, where a person sees it.
pub fn show(scheme: &str, bound: SocketAddr, access: &Access) {
    let path = access.pairing_link();
    let addresses = if bound.ip().is_unspecified() { addresses(bound.ip()) } else { vec![bound.ip()] };
    let links: Vec<String> = addresses
        .into_iter()
        .map(|address| format!("{scheme}://{}{path}", SocketAddr::new(address, bound.port())))
        .collect();
    let Some(first) = links.first() else {
        output::note("This machine has no address that a device elsewhere could reach.");
        return;
    };
    if io::stderr().is_terminal()
        && let Some(code) = drawn(first)
    {
        // A terminal that is gone misses it.
        let _ = io::stderr().write_all(code.as_bytes());
    }
    output::note(&format!(
        "For one device in this network, within five minutes: {}\nIt may do here what you may, whenever \
         `windlass web --pair` runs; Ctrl-C ends it.",
        links.join("\nor ")
    ));
    if scheme == "http" {
        output::note(
            "Others who listen in the network could take its place: --tls-cert and --tls-key keep them out.",
        );
    }
}

/// Returns the addresses of this machine that others may reach, private ones first.
fn addresses(bound: IpAddr) -> Vec<IpAddr> {
    let found = if_addrs::get_if_addrs().unwrap_or_default().into_iter().map(|it| it.ip());
    let is_meant = |it: &IpAddr| match it {
        IpAddr::V4(it) => !it.is_loopback() && !it.is_link_local(),
        IpAddr::V6(it) => bound.is_ipv6() && !it.is_loopback() && !it.is_unicast_link_local(),
    };
    let mut addresses: Vec<IpAddr> = found.filter(is_meant).collect();
    addresses.sort_by_key(|it| !matches!(it, IpAddr::V4(it) if it.is_private()));
    addresses
}

/// Returns a code in half blocks, two rows of modules in one of characters; `None` for a text that is too long for one.
fn drawn(text: &str) -> Option<String> {
    let code = QrCode::encode_text(text, QrCodeEcc::Low).ok()?;
    let range = || -MARGIN..code.size() + MARGIN;
    let mut drawn = String::new();
    for y in range().step_by(2) {
        drawn.push_str(COLOURS);
        for x in range() {
            drawn.push(match (code.get_module(x, y), code.get_module(x, y + 1)) {
                (false, false) => '█',
                (false, true) => '▀',
                (true, false) => '▄',
                (true, true) => ' ',
            });
        }
        let _ = writeln!(drawn, "{NO_COLOURS}");
    }
    Some(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_a_margin_and_its_three_marks() {
        let drawn =
            drawn("http://192.168.1.7:4096/enter?key=0123456789012345678901234567890123456789").unwrap();
        let rows: Vec<Vec<char>> = drawn
            .lines()
            .map(|row| row.trim_start_matches(COLOURS).trim_end_matches(NO_COLOURS).chars().collect())
            .collect();
        assert!(rows[0].iter().all(|it| *it == '█'));
        assert!(rows.iter().all(|row| row.len() == rows[0].len() && row[..2] == ['█', '█']));
        // A mark begins with seven dark modules.
        let mark = &rows[1][2..9];
        assert!(mark.iter().all(|it| [' ', '▄'].contains(it)), "{mark:?}");
        assert_eq!(rows[1][9], '█');
    }
}
