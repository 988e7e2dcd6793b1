//! A directory's files, their versions and its worktrees, for people at a front end.

mod find;
mod fuzzy;
mod look;
mod projects;
mod roots;
pub mod terminals;
mod vcs;
pub mod worktrees;

pub use find::FileQuery;
pub use roots::FilesError;
pub use vcs::{ApplyError, DiffBase};

#[cfg(test)]
pub(super) mod tests;
