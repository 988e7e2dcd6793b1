//! Landlock: which files a process and all it starts may write, and which of them it may read.

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, make_bitflags, path_beneath_rules,
};

use super::boundary::{Boundary, Level};

/// The newest interface that is asked for rights; an older kernel gives the rights it has.
const NEWEST: ABI = ABI::V9;

/// Rights that a writable directory does not give: to make devices, as root could, and to use sockets of services.
const NEVER: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeBlock | MakeChar | ResolveUnix});

/// Devices that a program may write without having changed anything.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Makes the ruleset of a boundary; none where the kernel has no Landlock.
pub(super) fn ruleset(boundary: &Boundary) -> Result<Option<OwnedFd>, RulesetError> {
    let is_full = boundary.level == Level::Full;
    let write = AccessFs::from_write(NEWEST);
    let mut handled = write;
    // In the full level a mount hides the paths that must not be read.
    let hides = !is_full && !boundary.hidden.is_empty();
    if hides {
        handled |= AccessFs::ReadFile;
    }
    if is_full {
        // The launcher closes the sockets that were there before; those of the command itself may be anywhere.
        handled.remove(AccessFs::ResolveUnix);
    }
    // A right to read would hold for the hidden paths below as well.
    let is_above_hidden = |path: &&PathBuf| hides && is_above_any(path, &boundary.hidden);
    let (above_hidden, writable): (Vec<_>, Vec<_>) = boundary.writable.iter().partition(is_above_hidden);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)?
        .scope(Scope::AbstractUnixSocket)?
        .scope(Scope::Signal)?
        .create()?
        .add_rules(path_beneath_rules(writable, handled & !NEVER))?
        .add_rules(path_beneath_rules(above_hidden, handled & !(NEVER | AccessFs::ReadFile)))?;
    // Mounts made for the command alone; else single devices of everybody's.
    rules = if is_full {
        rules.add_rules(path_beneath_rules(["/dev"], handled))?
    } else {
        rules
            .add_rules(path_beneath_rules(DEVICES, handled & !(AccessFs::MakeReg | AccessFs::ResolveUnix)))?
    };
    if handled.contains(AccessFs::ResolveUnix) {
        rules = rules.add_rules(path_beneath_rules(&boundary.sockets, AccessFs::ResolveUnix))?;
    }
    if hides {
        rules = rules.add_rules(path_beneath_rules(readable(&boundary.hidden), AccessFs::ReadFile))?;
        rules = rules.add_rules(path_beneath_rules(&boundary.shown, AccessFs::ReadFile))?;
    }
    Ok(rules.into())
}

/// Returns everything but the hidden paths. Landlock only adds rights, so every directory above a hidden path is given
/// up for its present entries.
fn readable(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![PathBuf::from("/")];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            // A rule about a link would be one about its target.
            if hidden.contains(&path) || entry.file_type().is_ok_and(|it| it.is_symlink()) {
                continue;
            }
            if is_above_any(&path, hidden) {
                ahead.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

fn is_above_any(path: &Path, others: &[PathBuf]) -> bool {
    others.iter().any(|other| other.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_hidden_is_readable() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let root = fs::canonicalize(temp.path()).expect("it is there");
        for directory in ["a/secret", "a/open", "b"] {
            fs::create_dir_all(root.join(directory)).expect("created");
        }
        std::os::unix::fs::symlink(root.join("a/secret"), root.join("a/link")).expect("linked");
        let found = readable(&[root.join("a/secret")]);
        assert!(found.contains(&root.join("a/open")) && found.contains(&root.join("b")));
        for none in ["a", "a/secret", "a/link", ""] {
            assert!(!found.contains(&root.join(none)), "{none}");
        }
        assert!(found.contains(&PathBuf::from("/usr")) && !found.contains(&PathBuf::from("/")));
    }
}
