//! Lookup of a program's file by name, as the system does it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Finds the file of a program: a name with a slash starts from `directory`, any other is looked up in the
/// directories of `search`, the value of `PATH`.
pub fn find(search: Option<&str>, directory: &Path, program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return Some(directory.join(program)).filter(|file| is_program(file));
    }
    let directories = std::env::split_paths(search.unwrap_or_default());
    directories.map(|it| directory.join(it).join(program)).find(|file| is_program(file))
}

/// Finds a program in the absolute directories of `search`: those that are relative are a project's, with programs that
/// the user may not have meant to run.
pub fn find_outside(search: Option<&str>, program: &Path) -> Option<PathBuf> {
    find(Some(&absolute_directories(search)), Path::new("/"), program)
}

/// Returns the absolute directories of `search` as a value of `PATH`.
pub fn absolute_directories(search: Option<&str>) -> String {
    let directories = search.unwrap_or_default().split(':').filter(|it| Path::new(it).is_absolute());
    directories.collect::<Vec<_>>().join(":")
}

/// Returns true if the file may be executed.
fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    //! Names, paths and files that may not be executed.

    use std::{
        fs,
        os::unix::fs::PermissionsExt,
        path::{Path, PathBuf},
    };

    use super::find;

    #[test]
    fn a_name_is_looked_up_and_a_path_is_taken_from_the_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path();
        let write = |name: &str, mode: u32| {
            let file = directory.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let (tool, here) = (write("bin/tool", 0o755), write("own/here", 0o700));
        write("bin/text", 0o644);
        let search = format!("/nowhere:{}", directory.join("bin").display());
        let found = |program: &str| find(Some(&search), directory, Path::new(program));
        assert_eq!(found("tool"), Some(tool.clone()));
        assert_eq!(found(tool.to_str().unwrap()), Some(tool));
        assert_eq!(found("own/here"), Some(here.clone()));
        assert_eq!(found("./own/here"), Some(directory.join("./own/here")));
        for absent in ["here", "text", "bin", "bin/", "", "none"] {
            assert_eq!(found(absent), None::<PathBuf>, "{absent}");
        }
        assert_eq!(find(None, directory, Path::new("tool")), None);
    }
}
