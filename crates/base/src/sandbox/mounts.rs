//! The file system as a command sees it: everything read-only but the writable paths, without the hidden ones.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use nix::{
    mount::{MsFlags, mount},
    unistd::{AccessFlags, access},
};

use super::{boundary::Boundary, sys};

/// Holds sockets of services that would do as they are told, outside.
const RUN: &str = "/run";
/// Paths below it that programs read.
const RUN_SHOWN: [&str; 9] = [
    "/run/systemd/resolve",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
    "/run/opengl-driver-32",
    "/run/wrappers",
    "/run/host",
];
const DEV: &str = "/dev";
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Memory of the command's own that it may write in every mode.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// View of a path inside the boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    /// A mount of its own, as it was. Such a path can be neither renamed nor removed.
    Writable,
    ReadOnly,
    /// An empty directory, but for the paths below that have a view of their own.
    Empty,
    /// Like `/dev/null`.
    Closed,
}

/// Changes the mounts of this process's own namespace. `sockets` are those that were bound before.
pub(super) fn apply(boundary: &Boundary, sockets: &[PathBuf]) -> io::Result<()> {
    let views = views(boundary, sockets);
    mount::<str, str, str, str>(None, "/", None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
    let mut trees = Vec::new();
    for (path, view) in &views {
        match tree(path, *view) {
            Ok(tree) => trees.push((path, *view, tree)),
            // One that ended meanwhile, or that we cannot reach anyway.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {}
            Err(error) => return Err(error),
        }
    }
    sys::make_path_read_only(Path::new("/"), true)?;
    let mut emptied: Vec<&Path> = Vec::new();
    for (path, view, tree) in trees {
        let is_in_emptied = emptied.iter().any(|it| path.starts_with(it));
        match tree {
            None => {
                if is_in_emptied {
                    fs::create_dir_all(path)?;
                }
                mount_new("tmpfs", path, MsFlags::MS_NOSUID, "mode=755")?;
                emptied.push(path);
            }
            Some((tree, is_directory)) => {
                if is_in_emptied {
                    make_place(path, is_directory)?;
                }
                match sys::attach(&tree, path) {
                    // A socket of another program that is gone needs no closing.
                    Err(error) if view == View::Closed && error.kind() == ErrorKind::NotFound => {}
                    attached => attached?,
                }
            }
        }
    }
    fill_dev()?;
    for directory in emptied {
        sys::make_path_read_only(directory, false)?;
    }
    // Its files are the kernel's settings; a process changes its own settings by system calls.
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount_new("proc", Path::new("/proc"), flags, "")
}

/// Parents come before the paths below them.
fn views(boundary: &Boundary, sockets: &[PathBuf]) -> BTreeMap<PathBuf, View> {
    let Boundary { writable, protected, hidden, shown, sockets: open, .. } = boundary;
    let mut views = BTreeMap::new();
    let is_below = |path: &Path, others: &[PathBuf]| others.iter().any(|it| path.starts_with(it));
    views.extend(hidden.iter().map(|path| (path.clone(), View::Empty)));
    views.extend([RUN, DEV].map(|path| (PathBuf::from(path), View::Empty)));
    let known = RUN_SHOWN.iter().chain(&DEVICES).map(PathBuf::from);
    let shown = known.chain(shown.iter().cloned()).filter(|path| path.exists());
    views.extend(shown.map(|path| (path, View::ReadOnly)));
    // A mount at `/` would be one that the processes do not see.
    let writable = writable.iter().filter(|path| path.as_path() != Path::new("/"));
    for path in writable.clone() {
        views.insert(path.clone(), View::Writable);
    }
    for path in protected.iter().chain(hidden) {
        // Directories between can be renamed with all that is mounted below, unless they are mounts themselves.
        let above = path.ancestors().skip(1);
        let roots: Vec<&PathBuf> = writable.clone().filter(|it| path.starts_with(it)).collect();
        for directory in above.take_while(|it| roots.iter().any(|root| it.starts_with(root))) {
            views.entry(directory.to_owned()).or_insert(View::Writable);
        }
    }
    views.extend(protected.iter().map(|path| (path.clone(), View::ReadOnly)));
    let closed = sockets.iter().filter(|path| !is_below(path, open) && !views.contains_key(*path));
    let closed: Vec<PathBuf> =
        closed.filter(|path| access(*path, AccessFlags::W_OK).is_ok()).cloned().collect();
    let is_hidden = |path: &Path| {
        let nearest = path.ancestors().find_map(|it| views.get(it));
        nearest == Some(&View::Empty)
    };
    let closed: Vec<PathBuf> = closed.into_iter().filter(|path| !is_hidden(path)).collect();
    views.extend(closed.into_iter().map(|path| (path, View::Closed)));
    views
}

/// Returns a copy to attach, with true for a directory; `None` for a new file system.
fn tree(path: &Path, view: View) -> io::Result<Option<(OwnedFd, bool)>> {
    let is_directory = fs::symlink_metadata(path)?.is_dir();
    let source = match view {
        View::Empty if is_directory => return Ok(None),
        View::Empty | View::Closed => Path::new("/dev/null"),
        View::Writable | View::ReadOnly => path,
    };
    let tree = sys::open_tree(source)?;
    if view == View::ReadOnly {
        sys::make_read_only(&tree)?;
    }
    Ok(Some((tree, is_directory)))
}

/// Makes the directory or file that a mount can be attached to.
fn make_place(path: &Path, is_directory: bool) -> io::Result<()> {
    if is_directory {
        return fs::create_dir_all(path);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match File::create_new(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Terminals and shared memory of the command's own.
fn fill_dev() -> io::Result<()> {
    for directory in ["/dev/pts", SHARED_MEMORY] {
        fs::create_dir_all(directory)?;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount_new("devpts", Path::new("/dev/pts"), flags, "newinstance,ptmxmode=0666,mode=0620")?;
    mount_new("tmpfs", Path::new(SHARED_MEMORY), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "mode=1777")?;
    let links = [
        ("pts/ptmx", "/dev/ptmx"),
        ("/proc/self/fd", "/dev/fd"),
        ("/proc/self/fd/0", "/dev/stdin"),
        ("/proc/self/fd/1", "/dev/stdout"),
        ("/proc/self/fd/2", "/dev/stderr"),
    ];
    links.into_iter().try_for_each(|(target, link)| symlink(target, link))
}

fn mount_new(kind: &str, path: &Path, flags: MsFlags, options: &str) -> io::Result<()> {
    Ok(mount(Some(kind), path, Some(kind), flags, Some(options))?)
}

/// Returns the paths of all Unix sockets of this network namespace.
pub(super) fn bound_sockets() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    // The eighth field; the paths of abstract ones begin with `@`.
    let paths = table.lines().filter_map(|line| Some(&line[line.find(" /")? + 1..]));
    paths.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Level, Network};

    #[test]
    fn directories_above_what_is_protected_cannot_be_renamed() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        let boundary = Boundary {
            level: Level::Full,
            network: Network::Allowed,
            writable: paths(&["/w", "/tmp"]),
            protected: paths(&["/w/.git/modules/m/config", "/w/.git/hooks", "/elsewhere/x"]),
            hidden: paths(&["/home/u/data"]),
            shown: Vec::new(),
            sockets: Vec::new(),
        };
        let views = views(&boundary, &[]);
        let of = |path: &str| views.get(Path::new(path)).copied();
        for pinned in ["/w", "/w/.git", "/w/.git/modules", "/w/.git/modules/m"] {
            assert_eq!(of(pinned), Some(View::Writable), "{pinned}");
        }
        assert_eq!(of("/w/.git/hooks"), Some(View::ReadOnly));
        assert_eq!(of("/home/u/data"), Some(View::Empty));
        assert_eq!(of("/elsewhere"), None);
    }
}
