//! A directory's files and their versions, its project, and its terminals, for people at a front end.

mod find;
mod fuzzy;
mod look;
mod projects;
mod roots;
pub mod terminals;
mod vcs;

use windlass_engine::Workspace;

pub use find::FileQuery;
pub use projects::Projects;
pub use roots::FilesError;
pub use vcs::{ApplyError, DiffBase};

/// The files of a directory.
#[derive(Clone, Copy)]
pub struct Files<'a>(&'a Workspace);

impl<'a> Files<'a> {
    pub fn of(workspace: &'a Workspace) -> Self {
        Self(workspace)
    }
}
