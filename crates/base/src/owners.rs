//! Tells whether others than the user and root can change a file.

use std::{fmt, fs, os::unix::fs::MetadataExt, sync::OnceLock};

use nix::unistd::geteuid;

/// The bit of a directory in which nobody can rename or remove the entries of others.
const STICKY: u32 = 0o1000;
const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_ALL: u32 = 0o002;

/// The users that files are accepted from.
#[derive(Debug, Clone)]
pub struct Owners {
    uids: Vec<u32>,
    /// Read when the first file is met that a group can write.
    accounts: OnceLock<Accounts>,
}

/// The reason why a file may not be the one that the user put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It belongs to this user.
    Owner(u32),
    /// Every user can write it.
    All,
    /// This group can write it, and others are in the group.
    Group(u32),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Owner(uid) => write!(f, "belongs to another user (uid {uid})"),
            Fault::All => f.write_str("can be written by every user"),
            Fault::Group(gid) => write!(f, "can be written by others in its group (gid {gid})"),
        }
    }
}

impl Fault {
    /// Returns the option of `chmod` that mends it; an owner is not mended so.
    pub fn chmod(self) -> Option<&'static str> {
        match self {
            Fault::Owner(_) => None,
            Fault::All => Some("go-w"),
            Fault::Group(_) => Some("g-w"),
        }
    }
}

impl PartialEq for Owners {
    fn eq(&self, other: &Self) -> bool {
        self.uids == other.uids
    }
}

impl Owners {
    /// Returns this process's user and root; under `sudo`, which sets the variable, also its caller, as for git.
    pub fn new(sudo_uid: Option<&str>) -> Self {
        let own = geteuid();
        let caller = sudo_uid.filter(|_| own.is_root()).and_then(|uid| uid.parse().ok());
        Self::of([own.as_raw(), 0].into_iter().chain(caller).collect())
    }

    fn of(uids: Vec<u32>) -> Self {
        Self { uids, accounts: OnceLock::new() }
    }

    /// Returns the way by which others can change a file or a directory's entries.
    pub fn fault(&self, file: &fs::Metadata) -> Option<Fault> {
        if !self.uids.contains(&file.uid()) {
            return Some(Fault::Owner(file.uid()));
        }
        let mode = file.mode();
        if file.is_symlink() || file.is_dir() && mode & STICKY != 0 {
            return None;
        }
        if mode & WRITABLE_BY_ALL != 0 {
            return Some(Fault::All);
        }
        let is_shared = || !self.is_private(file.gid());
        (mode & WRITABLE_BY_GROUP != 0 && is_shared()).then_some(Fault::Group(file.gid()))
    }

    /// Returns true if only these users are in a group: with the umask 002 everything is writable by the user's own.
    fn is_private(&self, gid: u32) -> bool {
        gid == 0 || self.accounts.get_or_init(Accounts::read).is_private(gid, &self.uids)
    }
}

/// The files that list users and groups. A directory service is not asked: it may take long, and its groups are shared.
#[derive(Debug, Clone)]
struct Accounts {
    users: String,
    groups: String,
}

impl Accounts {
    fn read() -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        Self { users: read("/etc/passwd"), groups: read("/etc/group") }
    }

    /// Returns true if every user of a group is one of these. A group of which nothing is known is a user's own if it
    /// has the user's number.
    fn is_private(&self, gid: u32, uids: &[u32]) -> bool {
        let number = |text: Option<&&str>| text.and_then(|it| it.parse::<u32>().ok());
        let users: Vec<Vec<&str>> = self.users.lines().map(|line| line.split(':').collect()).collect();
        let is_one = |user: &Vec<&str>| number(user.get(2)).is_some_and(|uid| uids.contains(&uid));
        let is_named_one = |name: &str| users.iter().any(|it| it.first() == Some(&name) && is_one(it));
        let mut is_known = false;
        for user in users.iter().filter(|it| number(it.get(3)) == Some(gid)) {
            is_known = true;
            if !is_one(user) {
                return false;
            }
        }
        for line in self.groups.lines() {
            let group: Vec<&str> = line.split(':').collect();
            if number(group.get(2)) != Some(gid) {
                continue;
            }
            is_known = true;
            let mut members = group.get(3).unwrap_or(&"").split(',').map(str::trim);
            if members.any(|name| !name.is_empty() && !is_named_one(name)) {
                return false;
            }
        }
        is_known || uids.contains(&gid)
    }
}

#[cfg(test)]
mod tests;
