//! Asks the kernel for the owner of a socket: by its table of one connection, or by that of all.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsRawFd,
};

use nix::{
    libc,
    sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket},
};

/// The kernel's number of a question about sockets (`SOCK_DIAG_BY_FAMILY`).
const QUESTION: u16 = 20;
const HEADER_BYTES: usize = 16;
/// Bytes of an answer up to the inode's end (`inet_diag_msg`).
const ANSWER_BYTES: usize = HEADER_BYTES + 72;
/// Places in an answer.
const STATE: usize = HEADER_BYTES + 1;
const USER: usize = HEADER_BYTES + 64;
const INODE: usize = HEADER_BYTES + 68;
/// The states of a socket that is connected or has closed one direction (`tcp_states.h`: ESTABLISHED, FIN_WAIT1,
/// FIN_WAIT2, CLOSE_WAIT). One that listens may be given for one that is gone.
const CONNECTED: [u8; 4] = [1, 4, 5, 8];
const LISTENING: u8 = 10;
/// Bytes of an answer with all that may follow.
const MAX_ANSWER: usize = 8192;

/// One end of a connection, as the kernel's table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub user: u32,
    /// 0 for a socket that no process has open.
    pub inode: u64,
    state: u8,
}

impl End {
    /// Returns true for a socket that sends or takes, in one direction at least.
    pub fn is_connected(self) -> bool {
        CONNECTED.contains(&self.state)
    }
}

/// Returns the ends of a connection, the one at the address `first` before the other.
pub fn ends(first: SocketAddr, second: SocketAddr) -> (Option<End>, Option<End>) {
    let asked = ask(first, second).and_then(|found| Ok((found, ask(second, first)?)));
    match asked {
        Ok((found, Some(other))) => (found, Some(other)),
        // Without that question, as in some sandboxes, the whole table is read, which takes milliseconds. A kernel that
        // lacks a part of it answers that there is nothing.
        Ok((_, None)) | Err(_) => {
            let found = in_tables(first, second);
            (found, in_tables(second, first))
        }
    }
}

/// Returns the socket that listens at an address of this machine; none where the kernel knows of none.
pub fn listener(address: SocketAddr) -> io::Result<Option<End>> {
    let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let nobody_v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let canonical = SocketAddr::new(address.ip().to_canonical(), address.port());
    let other = if canonical.is_ipv4() { nobody } else { nobody_v6 };
    match ask(canonical, other) {
        Ok(Some(end)) => Ok(Some(end)),
        Ok(None) | Err(_) => {
            let texts = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
            if texts.iter().all(Result::is_err) {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let is_at = |own: (IpAddr, u16)| {
                own.1 == address.port() && (own.0.is_unspecified() || own.0 == canonical.ip())
            };
            Ok(texts.iter().flatten().find_map(|text| listening(text, is_at)))
        }
    }
}

fn listening(table: &str, is_at: impl Fn((IpAddr, u16)) -> bool) -> Option<End> {
    let ends = table.lines().skip(1).filter_map(|line| Some((self::address(field(line, 1)?)?, end(line)?)));
    let mut ends = ends.filter(|(_, end)| end.state == LISTENING);
    ends.find(|(own, _)| is_at(*own)).map(|(_, end)| end)
}

fn in_tables(own: SocketAddr, other: SocketAddr) -> Option<End> {
    let texts = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
    texts.filter_map(|it| fs::read_to_string(it).ok()).find_map(|text| in_table(&text, own, other))
}

/// Asks about one connection (`sock_diag(7)`).
fn ask(own: SocketAddr, other: SocketAddr) -> io::Result<Option<End>> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let asked = socket(AddressFamily::Netlink, SockType::Raw, flags, Some(SockProtocol::NetlinkSockDiag))?;
    let question = question(own, other);
    send(asked.as_raw_fd(), &question, MsgFlags::empty())?;
    let mut answer = [0; MAX_ANSWER];
    // The kernel answers before it returns from the question.
    let n_bytes = recv(asked.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    let answer = answer.get(..n_bytes).unwrap_or_default();
    let word = |place: usize| {
        let bytes = answer.get(place..place + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let kind = answer.get(4..6).and_then(|it| Some(u16::from_ne_bytes(it.try_into().ok()?)));
    if kind == Some(libc::NLMSG_ERROR as u16) {
        let code = word(HEADER_BYTES).map_or(0, |it| -it.cast_signed());
        return match code {
            libc::ENOENT => Ok(None),
            code => Err(io::Error::from_raw_os_error(code)),
        };
    }
    if kind != Some(QUESTION) || n_bytes < ANSWER_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (state, user, inode) = (answer.get(STATE).copied(), word(USER), word(INODE));
    let end = state.zip(user).zip(inode);
    Ok(end.map(|((state, user), inode)| End { user, inode: inode.into(), state }))
}

/// Returns the question, `inet_diag_req_v2` behind its header.
fn question(own: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let (own, other) = (canonical(own), canonical(other));
    let family = if own.0.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let mut body = vec![family, libc::IPPROTO_TCP as u8, 0, 0];
    // In any state.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend([own.1, other.1].into_iter().flat_map(u16::to_be_bytes));
    for (ip, _) in [own, other] {
        let mut bytes = [0; 16];
        match ip {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes = ip.octets(),
        }
        body.extend(bytes);
    }
    // Any interface and no cookie.
    body.extend(0_u32.to_ne_bytes());
    body.extend([0xff; 8]);
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or_default();
    let mut message = length.to_ne_bytes().to_vec();
    message.extend([QUESTION, libc::NLM_F_REQUEST as u16].into_iter().flat_map(u16::to_ne_bytes));
    message.extend([1_u32, 0].into_iter().flat_map(u32::to_ne_bytes));
    message.extend(body);
    message
}

/// Finds a socket by its ends in the kernel's table.
fn in_table(table: &str, own: SocketAddr, other: SocketAddr) -> Option<End> {
    let is_end = |field: &str, end: SocketAddr| address(field).is_some_and(|it| it == canonical(end));
    table.lines().skip(1).find_map(|line| {
        let found = is_end(field(line, 1)?, own) && is_end(field(line, 2)?, other);
        end(line).filter(|_| found)
    })
}

fn field(line: &str, number: usize) -> Option<&str> {
    line.split_ascii_whitespace().nth(number)
}

/// Reads a line of the kernel's table.
fn end(line: &str) -> Option<End> {
    let (user, inode) = (field(line, 7)?.parse().ok()?, field(line, 9)?.parse().ok()?);
    Some(End { user, inode, state: u8::from_str_radix(field(line, 3)?, 16).ok()? })
}

fn canonical(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// Reads an address as the kernel writes it: words of the machine's byte order in hexadecimal digits, and a port.
fn address(field: &str) -> Option<(IpAddr, u16)> {
    let (words, port) = field.split_once(':')?;
    let mut bytes = Vec::with_capacity(16);
    for start in (0..words.len()).step_by(8) {
        let word = u32::from_str_radix(words.get(start..start + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests;
