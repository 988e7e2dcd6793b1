//! A directory that no sandbox of the tests may write.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// Returns a directory outside of everything that a sandbox lets commands write, wherever the checkout is:
/// temporary directories may be written, `/dev` and `/run` are replaced.
pub fn outside() -> TempDir {
    let temporary = ["/tmp", "/var/tmp", "/dev", "/run"].map(PathBuf::from);
    let writable: Vec<PathBuf> =
        temporary.into_iter().chain([std::env::temp_dir()]).filter_map(|it| it.canonicalize().ok()).collect();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let mut others: Vec<PathBuf> =
        home.into_iter().chain(["/srv", "/opt", "/var/lib"].map(PathBuf::from)).collect();
    // Some tests become a user without rights.
    others.sort_by_key(|place| !is_open_to_everybody(place));
    let places = [PathBuf::from(env!("CARGO_TARGET_TMPDIR"))].into_iter().chain(others);
    let places = places.filter_map(|place| place.canonicalize().ok());
    let mut places = places.filter(|place| !writable.iter().any(|it| place.starts_with(it)));
    places
        .find_map(|place| tempfile::Builder::new().prefix("windlass-outside-").tempdir_in(place).ok())
        .expect("a directory that is not temporary and can be written, such as the home directory")
}

/// Returns a directory that the tests share, and that outlives them.
pub fn shared() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Returns true if every user can reach the files below a directory.
pub fn is_open_to_everybody(path: &Path) -> bool {
    let is_open =
        |it: &Path| std::fs::metadata(it).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0);
    path.ancestors().all(is_open)
}
