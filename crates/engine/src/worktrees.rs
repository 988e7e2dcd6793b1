//! Linked worktrees of a repository, made for tasks that must not disturb each other.

mod folder;
mod held;
mod open_files;

pub use folder::{WorktreeError, Worktrees};
pub use held::{HeldWorktrees, TaskWorktree};
