//! The check of the directory of keys and sessions: it is the user's, and others cannot write it.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use windlass_base::owners::{Fault, Owners};

/// Fails with a sentence for the user if others could have put something into an existing directory. Does blocking
/// reads.
pub fn check(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    let owners = Owners::new(None);
    // A link may be another user's, and that user can lead it elsewhere at any time.
    let found = [fs::symlink_metadata(directory), fs::metadata(directory)];
    for metadata in found.into_iter().flatten() {
        // In a sticky directory others cannot replace the files that exist, but they can be the first to create one.
        let is_open = metadata.is_dir() && metadata.mode() & 0o002 != 0;
        let Some(fault) = owners.fault(&metadata).or(is_open.then_some(Fault::All)) else { continue };
        let remedy = match fault {
            Fault::Owner(_) => "Run windlass as that user".to_owned(),
            Fault::All | Fault::Group(_) => {
                format!("Run `chmod 700 {shown}` once you have seen what is in it")
            }
        };
        return Err(format!(
            "The directory of keys and sessions, {shown}, {fault}. {remedy}, or set WINDLASS_HOME to another one."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Directories that are used and that are not.

    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::check;

    #[test]
    fn a_directory_that_every_user_can_write_is_not_used() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("data");
        assert_eq!(check(&directory), Ok(()), "it is yet to be made");
        fs::create_dir(&directory).unwrap();
        for (mode, is_used) in [(0o700, true), (0o755, true), (0o777, false), (0o1777, false)] {
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            let checked = check(&directory);
            assert_eq!(checked.is_ok(), is_used, "{mode:o}: {checked:?}");
            let names_all = |reason: String| {
                let way_out = format!("Run `chmod 700 {}`", directory.display());
                reason.contains("can be written by every user") && reason.contains(&way_out)
            };
            assert!(checked.err().is_none_or(names_all));
        }
    }
}
