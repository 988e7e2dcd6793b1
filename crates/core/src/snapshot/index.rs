//! Reads the entries of git's index, without git (gitformat-index).

use std::{fs, io, os::unix::ffi::OsStrExt, path::Path};

use nix::sys::stat::FileStat;

/// The path of the list of permissions in our index; no file of that name is in the worktree.
pub const MODES: &str = ".windlass-file-modes";

/// An entry of an index of version 2.
pub struct Entry<'a> {
    /// Seconds and nanoseconds of the change and of the modification, device, inode, mode, user, group and size.
    numbers: [u32; 10],
    /// The name of the content.
    pub object: &'a [u8],
    pub name: &'a [u8],
}

/// An index that was read.
pub struct Index {
    bytes: Vec<u8>,
    hash_size: usize,
}

impl Index {
    pub fn read(path: &Path, hash_size: usize) -> io::Result<Self> {
        Ok(Self { bytes: fs::read(path)?, hash_size })
    }

    /// See [`entries`].
    pub fn entries(&self) -> Option<Vec<Entry<'_>>> {
        entries(&self.bytes, self.hash_size)
    }
}

/// Returns the entries of an index; `None` where it has something that only git understands.
pub fn entries(bytes: &[u8], hash_size: usize) -> Option<Vec<Entry<'_>>> {
    let mut reader = Reader(bytes);
    if reader.take(4)? != b"DIRC" || reader.number()? != 2 {
        return None;
    }
    let n_entries = reader.number()?;
    (0..n_entries).map(|_| Entry::read(&mut reader, hash_size)).collect()
}

/// Returns the entry of a path. Entries are in the order of the bytes of their paths.
pub fn find<'a, 'b>(entries: &'b [Entry<'a>], path: &Path) -> Option<&'b Entry<'a>> {
    let name = path.as_os_str().as_bytes();
    entries.binary_search_by(|entry| entry.name.cmp(name)).ok().map(|at| &entries[at])
}

/// Returns the entries below a directory.
pub fn below<'a, 'b>(entries: &'b [Entry<'a>], directory: &Path) -> impl Iterator<Item = &'b Entry<'a>> {
    let mut prefix = directory.as_os_str().as_bytes().to_vec();
    prefix.push(b'/');
    let from = entries.partition_point(|entry| entry.name < prefix.as_slice());
    entries[from..].iter().take_while(move |entry| entry.name.starts_with(&prefix))
}

impl<'a> Entry<'a> {
    const FIXED: usize = 40 + 2;
    const REGULAR: u32 = 0o10;
    const LINK: u32 = 0o12;

    fn read(reader: &mut Reader<'a>, hash_size: usize) -> Option<Self> {
        let mut numbers = [0; 10];
        for number in &mut numbers {
            *number = reader.number()?;
        }
        let object = reader.take(hash_size)?;
        let flags = reader.take(2)?;
        // Anything but a length is for git: unmerged, assumed to be unchanged, a name that is too long to be counted.
        let length = usize::from(u16::from_be_bytes([flags[0], flags[1]]));
        let is_plain = length < 0xfff && [Self::REGULAR, Self::LINK].contains(&(numbers[6] >> 12));
        let name = is_plain.then(|| reader.take(length)).flatten()?;
        let size = Self::FIXED + hash_size + length;
        reader.take(8 - size % 8)?;
        Some(Self { numbers, object, name })
    }

    /// Returns true if the entry has the times and the size of a file. The index has the low 32 bits of every number.
    pub fn is_of(&self, stat: &FileStat) -> bool {
        let [changed, changed_nanos, modified, modified_nanos, _, inode, _, user, group, size] = self.numbers;
        changed == stat.st_ctime as u32
            && changed_nanos == stat.st_ctime_nsec as u32
            && modified == stat.st_mtime as u32
            && modified_nanos == stat.st_mtime_nsec as u32
            && inode == stat.st_ino as u32
            && user == stat.st_uid
            && group == stat.st_gid
            && size == stat.st_size as u32
    }

    /// Returns the device and the inode, as far as the index has them.
    pub fn identity(&self) -> (u32, u32) {
        (self.numbers[4], self.numbers[5])
    }

    /// Returns true for a link.
    pub fn is_link(&self) -> bool {
        self.numbers[6] >> 12 == Self::LINK
    }

    /// Returns true for a file that its owner may run.
    pub fn is_program(&self) -> bool {
        self.numbers[6] & 0o100 != 0
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }
}
