//! The ways into a server without a password: one-time links, the cookie that they give a page, a secret of programs.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;
use windlass_base::{ids, lock::lock};

/// Path of a link.
pub const PATH: &str = "/enter";
/// Characters of a key.
pub const CHARS: usize = 40;
/// Links that can be followed at once; the oldest gives way.
const MAX_LINKS: usize = 16;
/// Time in which a link can be followed.
const LIFETIME: Duration = Duration::from_secs(600);
/// The same of one that is shown for another device.
const PAIRING_LIFETIME: Duration = Duration::from_secs(300);
/// Beginning of the cookie's name. Ports share their cookies, so that the server's port follows.
const COOKIE: &str = "windlass_";

/// See the module's comment.
pub struct Entry {
    cookie: String,
    secret: String,
    /// Keys, and the times until which they hold.
    links: Mutex<Vec<(String, Instant)>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entry")
    }
}

impl Entry {
    /// Makes an entry with this value for the cookie, and this secret for programs that cannot be told.
    pub fn new(cookie: String, secret: String) -> Self {
        Self { cookie, secret, links: Mutex::default() }
    }

    /// Returns the path and query of a link that can be followed once.
    pub fn link(&self) -> String {
        self.link_for(LIFETIME)
    }

    /// Returns a link that another device can follow once.
    pub fn pairing_link(&self) -> String {
        self.link_for(PAIRING_LIFETIME)
    }

    fn link_for(&self, lifetime: Duration) -> String {
        let key = ids::random(CHARS);
        let mut links = lock(&self.links);
        if links.len() >= MAX_LINKS {
            links.remove(0);
        }
        links.push((key.clone(), Instant::now() + lifetime));
        format!("{PATH}?key={key}")
    }

    /// Uses a link up, and returns the header that sets the cookie; `None` for a link that does not hold.
    pub fn enter(&self, key: &str, host: &str) -> Option<String> {
        let mut links = lock(&self.links);
        let place = links.iter().position(|(it, _)| is_same(it, key))?;
        let (_, end) = links.remove(place);
        if Instant::now() >= end {
            return None;
        }
        Some(format!("{}={}; Path=/; HttpOnly; SameSite=Strict", name(host), self.cookie))
    }

    pub fn has_cookie(&self, headers: &HeaderMap, host: &str) -> bool {
        let name = name(host);
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
        let mut cookies = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
        cookies.any(|(found, value)| found == name && is_same(value, &self.cookie))
    }

    /// Returns true if this is the programs' secret, behind any user name.
    pub fn is_secret(&self, shown: &str) -> bool {
        shown.split_once(':').is_some_and(|(_, secret)| is_same(secret, &self.secret))
    }
}

fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn name(host: &str) -> String {
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    format!("{COOKIE}{port}")
}
