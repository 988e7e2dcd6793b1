//! The facts about sessions that machines share: owners, nodes, counts, answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::storage::outlet::SharedError;
use windlass_protocol::opencode::{id::SessionId, permission::Rule};

/// Something that the engine has to act upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A session is another node's now: nothing more may be done in it.
    Lost { session: SessionId, by: String },
    /// This node has been out of reach for so long that any of its sessions may be another's by now.
    Expired,
    /// Another node wants a session; it is given if nothing goes on in it.
    Wanted(SessionId),
}

/// The state of the shared store as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// This process's id as a node, once it is one.
    pub node: Option<String>,
    pub name: String,
    /// The database, without its password.
    pub database: String,
    pub held: usize,
    pub events: u64,
    pub bytes: u64,
    pub commits: u64,
    pub fenced: u64,
    pub taken: u64,
    /// How long the oldest change has waited for the log.
    pub lag: Duration,
    /// Why changes wait, while they do.
    pub trouble: Option<String>,
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It is this node's, or was never shared.
    Here,
    /// Nobody has it.
    Free,
    /// A living node has it.
    At(Owner),
}

/// A session that is this node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// It was here already, or nobody shares it.
    AsItWas,
    /// Its rows were made anew from the log.
    Rebuilt,
}

/// A node of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    pub owner: Owner,
    pub version: String,
    /// Milliseconds since the epoch, by the database's clock.
    pub began: i64,
    /// Milliseconds until its leases end; negative once they have.
    pub left_ms: i64,
    pub lag_ms: i64,
    pub n_sessions: i64,
}

/// The database's server, as this role sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerState {
    /// Milliseconds that its clock is ahead of this machine's.
    pub ahead_ms: i64,
    pub version: String,
    /// The role may change all tables.
    pub may_write: bool,
}

/// The content of the shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub n_sessions: i64,
    /// Those that a living node has.
    pub n_open: i64,
    /// Batches of changes behind the checkpoints.
    pub n_events: i64,
    /// Bytes of all tables.
    pub n_bytes: i64,
}

/// An answer as the nodes share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedAnswer {
    pub rule: Rule,
    /// Milliseconds since the epoch; the later one of two about the same pattern holds.
    pub created: i64,
    /// It was taken back.
    pub is_revoked: bool,
}

/// A row of the accounts of a team's servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeopleRow {
    /// Its place in the order of changes; 0 for one that is to be written.
    #[serde(skip)]
    pub change: i64,
    pub table: String,
    /// The values of its key, as JSON.
    pub key: String,
    /// Its values, as JSON; none if it is gone.
    pub value: Option<String>,
}

/// The node that has a session, as the shared store tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub id: String,
    pub name: String,
    /// The address under which it takes requests, if it does and the row is a node's own.
    pub address: Option<String>,
    pub machine: String,
    /// Its lease has not ended.
    pub is_alive: bool,
}

impl Owner {
    /// Returns the refusal of a session that this node has.
    pub fn refusal(&self, session: &str) -> SharedError {
        let (session, by) = (session.to_owned(), self.name.clone());
        match &self.address {
            Some(address) => SharedError::At { session, by, address: address.clone() },
            None => SharedError::Elsewhere { session, by },
        }
    }
}
