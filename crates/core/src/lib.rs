//! The settings and the records of windlass: configuration, events, records, permissions, snapshots, terminals.

pub mod bus;
pub mod config;
pub mod library;
pub mod permission;
pub mod pty;
pub mod snapshot;
pub mod storage;
