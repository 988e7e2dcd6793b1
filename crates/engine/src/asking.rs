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
