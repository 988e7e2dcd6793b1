//! Reports changes of files that are in use, including files and directories that do not exist yet.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod none;
mod plan;
mod stamp;
mod target;

#[cfg(target_os = "linux")]
pub use inotify::Watcher;
#[cfg(not(target_os = "linux"))]
pub use none::Watcher;
pub use plan::MAX_DIRECTORIES;
pub use stamp::{Stamp, Survey};
pub use target::{Followed, Target, is_passed_over};

#[cfg(test)]
mod tests;
