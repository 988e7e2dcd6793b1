//! Sessions that several machines share: a log in Postgres behind the store of each, and a lease on each session.
//!
//! A session is worked in by one node at a time, from its own store, and its changes go to the log as well. Another
//! node takes the session over when its owner gives it back or has ended, and makes its store's rows anew from the log.
//! Without the feature `postgres` there is no such store, and a setting that names one is refused.

mod types;

#[cfg(not(feature = "postgres"))]
mod absent;
#[cfg(feature = "postgres")]
mod store;

#[cfg(not(feature = "postgres"))]
pub use absent::{PeopleTurn, Shared};
#[cfg(feature = "postgres")]
pub use store::{Shared, people::PeopleTurn};
pub use types::{
    Claimed, NodeRow, Notice, Owner, PeopleRow, Place, ServerState, SharedAnswer, Standing, Totals,
};

#[cfg(test)]
mod tests;
