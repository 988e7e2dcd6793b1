//! Questions to people and their answers: permissions, questions of tools, and the clients that can answer.

pub mod approvals;
pub mod asks;
pub mod client;
pub(super) mod granted;
pub mod pending;
mod plugin_opinion;
pub mod questions;
pub mod replies;
pub mod words;

use windlass_core::bus::Bus;

/// Everything that waits for people, and the clients that can answer.
pub struct Waiting {
    pub asks: asks::Asks,
    pub questions: questions::Questions,
    pub clients: client::Clients,
}

impl Waiting {
    pub fn new(bus: &Bus) -> Self {
        let clients = client::Clients::new(bus.clone());
        Self {
            asks: asks::Asks::new(bus.clone(), clients.clone()),
            questions: questions::Questions::new(bus.clone(), clients.clone()),
            clients,
        }
    }
}
