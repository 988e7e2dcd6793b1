//! The keys by which a server without a password knows pages and programs, and the files that keep them.

use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use windlass_base::{ids, private_file};

use crate::http::KEY_CHARS;

/// File of the cookie's key, which lasts so that a page finds its server again after a restart.
const COOKIE: &str = "server.key";
/// Bytes of a file of ours.
const MAX_BYTES: u64 = 1024;

/// The keys of a running server. Its secret is as old as the server: a later one at its address could not use it.
pub struct ServerKeys {
    pub cookie: String,
    pub secret: String,
    /// The secret's file, which goes with the server.
    file: Option<PathBuf>,
}

impl ServerKeys {
    /// Reads and makes the keys of a server that listens at an address.
    pub fn new(data: &Path, address: Option<SocketAddr>) -> io::Result<Self> {
        let cookie = match read(&data.join(COOKIE)) {
            Some(cookie) => cookie,
            None => first(data)?,
        };
        let Some(address) = address else {
            return Ok(Self { cookie, secret: ids::random(KEY_CHARS), file: None });
        };
        let name = file_name(address);
        let secret = write(data, &name)?;
        Ok(Self { cookie, secret, file: Some(data.join(name)) })
    }
}

impl Drop for ServerKeys {
    fn drop(&mut self) {
        // A server that has taken the place has a file of its own.
        if let Some(file) = &self.file
            && read(file).is_some_and(|it| it == self.secret)
        {
            let _ = fs::remove_file(file);
        }
    }
}

/// Returns the address and the secret of our server at a host and a port of this machine, if one runs there.
///
/// The file is the address's own: a secret is shown to nobody but the server that made it.
pub fn secret(data: &Path, host: &str, port: u16) -> Option<(SocketAddr, String)> {
    let ips: Vec<IpAddr> = match host {
        "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        number => number.parse().into_iter().filter(IpAddr::is_loopback).collect(),
    };
    let addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, port));
    addresses.into_iter().find_map(|address| Some((address, read(&data.join(file_name(address)))?)))
}

fn file_name(address: SocketAddr) -> String {
    format!("server-{}-{}.secret", address.ip().to_string().replace(':', "_"), address.port())
}

fn read(file: &Path) -> Option<String> {
    let opened = fs::OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(file).ok()?;
    let mut text = String::new();
    opened.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    (text.len() == KEY_CHARS).then_some(text)
}

/// Makes the cookie's key, unless another server that starts now has just made it.
fn first(data: &Path) -> io::Result<String> {
    let file = data.join(COOKIE);
    let made = data.join(format!("{COOKIE}.{}", ids::random(8)));
    let name = made.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let key = write(data, name)?;
    // A link never takes the place of a file.
    let linked = fs::hard_link(&made, &file);
    fs::remove_file(&made)?;
    match linked {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match read(&file) {
            Some(other) => Ok(other),
            // The text there is no key.
            None => write(data, COOKIE),
        },
        Err(error) => Err(error),
    }
}

/// Writes a new key in the place of an old one.
fn write(data: &Path, name: &str) -> io::Result<String> {
    let key = ids::random(KEY_CHARS);
    let (new, mut file) = private_file::create(data, &format!("{name}.{}", ids::random(8)))?;
    file.write_all(key.as_bytes())?;
    fs::rename(new, data.join(name))?;
    Ok(key)
}
