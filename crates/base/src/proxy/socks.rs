//! SOCKS5 (<https://www.rfc-editor.org/rfc/rfc1928>): connections without a login.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    gate::{Closed, Gate, PATIENCE},
    intercept,
};

pub const VERSION: u8 = 5;

const NO_LOGIN: u8 = 0;
const NONE_ACCEPTABLE: u8 = 0xff;
const CONNECT: u8 = 1;

/// The end of a request that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Connected = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandUnknown = 7,
    AddressUnknown = 8,
}

pub(super) async fn serve(mut stream: TcpStream, gate: &Gate) -> io::Result<()> {
    if !timeout(PATIENCE, greet(&mut stream)).await?? {
        return stream.write_all(&[VERSION, NONE_ACCEPTABLE]).await;
    }
    stream.write_all(&[VERSION, NO_LOGIN]).await?;
    let (host, port) = match timeout(PATIENCE, request(&mut stream)).await?? {
        Ok(target) => target,
        Err(status) => return answer(&mut stream, status).await,
    };
    match intercept::open(gate, &host, port).await {
        Ok(tunnel) => {
            answer(&mut stream, Status::Connected).await?;
            tunnel.serve(stream, gate).await
        }
        Err(Closed::Refused(_)) => answer(&mut stream, Status::NotAllowed).await,
        Err(Closed::Failed(_)) => answer(&mut stream, Status::HostUnreachable).await,
    }
}

/// Returns true if the client would do without a login.
async fn greet(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
    let [version, n_methods] = bytes(stream).await?;
    let mut methods = vec![0; n_methods.into()];
    stream.read_exact(&mut methods).await?;
    Ok(version == VERSION && methods.contains(&NO_LOGIN))
}

/// Reads where the connection is to lead.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<(String, u16), Status>> {
    let [version, command, _reserved, kind] = bytes(stream).await?;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        1 => Ipv4Addr::from(bytes(stream).await?).to_string(),
        3 => {
            let [length] = bytes(stream).await?;
            let mut name = vec![0; length.into()];
            stream.read_exact(&mut name).await?;
            match String::from_utf8(name) {
                Ok(name) => name,
                Err(_) => return Ok(Err(Status::AddressUnknown)),
            }
        }
        4 => Ipv6Addr::from(bytes::<16>(stream).await?).to_string(),
        _other => return Ok(Err(Status::AddressUnknown)),
    };
    let port = u16::from_be_bytes(bytes(stream).await?);
    Ok(if command == CONNECT { Ok((host, port)) } else { Err(Status::CommandUnknown) })
}

async fn bytes<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn answer(stream: &mut TcpStream, status: Status) -> io::Result<()> {
    // The address that the connection has outside is nobody's business.
    stream.write_all(&[VERSION, status as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}

#[cfg(test)]
mod tests {
    //! Requests, whole and broken.

    use super::*;

    #[tokio::test]
    async fn a_request_names_a_host_or_an_address() {
        for (bytes, expected) in [
            (&b"\x05\x01\x00\x03\x09a.example\x01\xbb"[..], Some(Ok(("a.example".to_owned(), 443)))),
            (b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", Some(Ok(("127.0.0.1".to_owned(), 80)))),
            (b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50", Some(Ok(("::1".to_owned(), 80)))),
            (b"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", Some(Err(Status::CommandUnknown))),
            (b"\x05\x01\x00\x09", Some(Err(Status::AddressUnknown))),
            (b"\x05\x01\x00\x03\x01\xff\x00\x50", Some(Err(Status::AddressUnknown))),
            (b"\x05\x01\x00\x03\x09a.ex", None),
            (b"\x04\x01\x00\x50", None),
        ] {
            let mut stream = bytes;
            assert_eq!(request(&mut stream).await.ok(), expected, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_client_that_wants_a_login_is_not_served() {
        for (bytes, expected) in [
            (&b"\x05\x01\x00"[..], Some(true)),
            (b"\x05\x02\x02\x00", Some(true)),
            (b"\x05\x01\x02", Some(false)),
            (b"\x05\x09\x00", None),
        ] {
            let mut stream = bytes;
            assert_eq!(greet(&mut stream).await.ok(), expected, "{bytes:?}");
        }
    }
}
