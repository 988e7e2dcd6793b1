//! The files of a worktree's repository, found and read without git.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::settings::{Setting, settings};

/// Size of the largest file that is read.
const MAX_FILE: u64 = 4 << 20;

/// Settings that say how the data are kept and how they become files. They name neither a program nor an address.
const KEPT: [(&str, &str); 12] = [
    ("core", "autocrlf"),
    ("core", "eol"),
    ("core", "filemode"),
    ("core", "ignorecase"),
    ("core", "precomposeunicode"),
    ("core", "symlinks"),
    ("core", "sharedrepository"),
    ("core", "sparsecheckout"),
    ("core", "sparsecheckoutcone"),
    ("core", "trustctime"),
    ("extensions", "objectformat"),
    ("extensions", "refstorage"),
];

/// A setting that is kept: section, name and value.
type Kept = (&'static str, &'static str, String);

/// The directories of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The worktree's own: `.git`, or the directory that a linked worktree or a submodule names.
    pub git_dir: PathBuf,
    /// The one that linked worktrees share, with objects, references and configuration.
    pub common_dir: PathBuf,
}

impl Repository {
    /// Finds the repository of a worktree. Blocks.
    pub fn of(worktree: &Path) -> io::Result<Self> {
        let named = worktree.join(".git");
        let git_dir = if fs::metadata(&named)?.is_dir() {
            named.canonicalize()?
        } else {
            worktree.join(read_path(&named)?).canonicalize()?
        };
        let common_dir = match read_path(&git_dir.join("commondir")) {
            Ok(path) => git_dir.join(path).canonicalize()?,
            Err(_) => git_dir.clone(),
        };
        Ok(Self { git_dir, common_dir })
    }

    /// Returns the format of the names of objects. Blocks.
    pub fn object_format(&self) -> String {
        let kept = self.settings().into_iter().rev().find(|(_, name, _)| *name == "objectformat");
        kept.map_or_else(|| "sha1".to_owned(), |(_, _, value)| value)
    }

    /// Returns a configuration with those settings of the repository that cannot act. Blocks.
    pub fn inert_config(&self) -> String {
        // Later versions know the extensions, and earlier ones need none.
        let mut config = "[core]\n\trepositoryformatversion = 1\n".to_owned();
        for (section, name, value) in self.settings() {
            config.push_str(&format!("[{section}]\n\t{name} = {value}\n"));
        }
        config
    }

    /// Returns the settings that are kept, the strongest last.
    fn settings(&self) -> Vec<Kept> {
        let files = [self.common_dir.join("config"), self.git_dir.join("config.worktree")];
        let text = |file| String::from_utf8_lossy(&read(file).unwrap_or_default()).into_owned();
        files.iter().flat_map(|file| kept(&text(file))).collect()
    }
}

/// Returns those settings of a configuration that are kept and have a plain word as their value, so that a value which
/// is written over several lines can only be missed. Included files are not read.
fn kept(config: &str) -> Vec<Kept> {
    let known = |setting: &Setting| KEPT.iter().find(|(section, name)| setting.is(section, name));
    let kept = settings(config).into_iter().filter_map(|setting| {
        let (section, name) = known(&setting)?;
        Some((*section, *name, setting.value.unwrap_or_else(|| "true".to_owned())))
    });
    let is_plain = |value: &str| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    kept.filter(|(_, _, value)| is_plain(value)).collect()
}

/// Reads a file of a repository, which anybody may have made: no pipe is waited for.
pub fn read(file: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(file)?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    fs::read(file)
}

/// Reads a path that a file of a repository names.
fn read_path(file: &Path) -> io::Result<PathBuf> {
    let bytes = read(file)?;
    let path = bytes.strip_prefix(b"gitdir:").unwrap_or(&bytes).trim_ascii();
    Ok(Path::new(OsStr::from_bytes(path)).to_owned())
}

#[cfg(test)]
mod tests {
    //! Settings that are kept, in every form in which git writes and reads them.

    use super::kept;

    #[test]
    fn settings_of_the_data_are_kept_and_no_others() {
        let check = |config: &str, wanted: &[&str]| {
            let found: Vec<String> = kept(config)
                .iter()
                .map(|(section, name, value)| format!("{section}.{name}={value}"))
                .collect();
            assert_eq!(found, wanted, "{config}");
        };
        check("[core]\n\tautocrlf = input\n", &["core.autocrlf=input"]);
        check(
            "[CORE] FileMode = \"false\" ; why\n[extensions]\nobjectFormat=sha256",
            &["core.filemode=false", "extensions.objectformat=sha256"],
        );
        check("[core]\nsymlinks\nignorecase=#\n", &["core.symlinks=true"]);
        check("[core]\nfsmonitor = true\nhooksPath = x\nworktree = /\neol = $(x)\n", &[]);
        check(
            "[core \"autocrlf\"]\nautocrlf = true\n[include]\npath = x\n[extensions]\npartialclone = x\n",
            &[],
        );
    }
}
