//! Checks of a directory that run no turn: its configuration, its servers, and the request of an agent.

pub mod doctor;
pub mod inspect;
pub mod lint;
pub mod servers;
mod shared;
pub mod upkeep;
