//! Reports changes of files that are in use, including files and directories that do not exist yet.

mod changes;
#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod none;
mod plan;
mod stamp;
mod target;
#[cfg(target_os = "linux")]
mod tree;

pub use changes::{Changes, Lost};
#[cfg(target_os = "linux")]
pub use inotify::Watcher;
#[cfg(not(target_os = "linux"))]
pub use none::{TreeWatch, Watcher};
pub use plan::MAX_DIRECTORIES;
pub use stamp::{Stamp, Survey};
pub use target::{Followed, Target, is_passed_over};
#[cfg(target_os = "linux")]
pub use tree::TreeWatch;

#[cfg(test)]
mod tests;
