//! Copies the properties of a replaced file to the new one: owner, mode, extended attributes and access lists.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{MetadataExt, fchown},
    path::Path,
};

use rustix::fs as unix;

/// The attribute of an access control list, which extends the mode's bits (`acl(5)`).
const ACL: &str = "system.posix_acl_access";
/// Maximum length of an attribute, and of the list of their names (`xattr(7)`).
const MAX_ATTRIBUTE: usize = 64 * 1024;

/// Copies the properties; returns true if the new file has the same as the old one. If not, the old one has to
/// be written in place.
///
/// The owner comes first, because changing it clears setuid and setgid. The mode comes last, because access
/// lists of the directory or the kernel may have changed it.
pub(crate) fn keep(new: &File, old: &Metadata, path: &Path) -> io::Result<bool> {
    let own = new.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid())
        && fchown(new, Some(old.uid()), Some(old.gid())).is_err()
    {
        return Ok(false);
    }
    if !copy_attributes(new, path) {
        return Ok(false);
    }
    new.set_permissions(old.permissions())?;
    Ok(new.metadata()?.mode() == old.mode())
}

/// Copies the attributes that can be copied; returns true if the access rights are the same.
fn copy_attributes(new: &File, path: &Path) -> bool {
    let mut buffer = vec![0; MAX_ATTRIBUTE];
    let names = match unix::listxattr(path, &mut buffer[..]) {
        Ok(n_bytes) => buffer[..n_bytes].to_vec(),
        // The file system has no attributes.
        Err(_) => return true,
    };
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut has_list = false;
    for name in names {
        let is_list = name == ACL.as_bytes();
        has_list |= is_list;
        let copied = unix::getxattr(path, name, &mut buffer[..])
            .and_then(|n_bytes| unix::fsetxattr(new, name, &buffer[..n_bytes], unix::XattrFlags::empty()));
        if is_list && copied.is_err() {
            return false;
        }
    }
    // The directory may have given the new file an access list that the old one did not have.
    has_list || unix::fgetxattr(new, ACL, &mut buffer[..]).is_err() || unix::fremovexattr(new, ACL).is_ok()
}
