//! Tickets, by which a page connects to a terminal: a WebSocket of a browser cannot send a password.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use axum::extract::{Query, Request};
use windlass_base::{ids, lock::lock};

/// Time in which a ticket can be used.
pub const LIFETIME: Duration = Duration::from_secs(60);
const CHARS: usize = 32;
/// Tickets that are kept; beyond it all are forgotten.
const MAX_TICKETS: usize = 256;

/// Permissions to connect once, each for one terminal.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<HashMap<String, (String, Instant)>>);

impl Tickets {
    /// Makes a ticket for a terminal.
    pub fn issue(&self, pty: &str) -> String {
        let ticket = ids::random(CHARS);
        let mut tickets = lock(&self.0);
        tickets.retain(|_, (_, issued)| issued.elapsed() < LIFETIME);
        if tickets.len() >= MAX_TICKETS {
            tickets.clear();
        }
        tickets.insert(ticket.clone(), (pty.to_owned(), Instant::now()));
        ticket
    }

    /// Uses a ticket up. False if it is not for this terminal, or not any more.
    pub fn take(&self, ticket: &str, pty: &str) -> bool {
        let taken = lock(&self.0).remove(ticket);
        taken.is_some_and(|(own, issued)| own == pty && issued.elapsed() < LIFETIME)
    }

    /// Returns true if a request connects to a terminal with a ticket, which its route looks at.
    pub fn is_shown(request: &Request) -> bool {
        let path = request.uri().path().trim_end_matches('/');
        let path = path.strip_prefix("/api").unwrap_or(path);
        let pty = path.strip_prefix("/pty/").and_then(|rest| rest.strip_suffix("/connect"));
        let query = Query::<HashMap<String, String>>::try_from_uri(request.uri());
        pty.is_some() && query.is_ok_and(|query| query.0.contains_key("ticket"))
    }
}
