//! Copies the properties of a replaced file to the new one: owner, mode, extended attributes and access lists.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{MetadataExt, fchown},
    path::Path,
};

use xattr::FileExt;

/// The attribute of an access control list, which extends the mode's bits (`acl(5)`).
const ACL: &str = "system.posix_acl_access";

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
    // The file system may have no attributes.
    let Ok(names) = xattr::list_deref(path) else { return true };
    let mut has_list = false;
    for name in names {
        let is_list = name == ACL;
        has_list |= is_list;
        let value = xattr::get_deref(path, &name);
        let is_copied = value.is_ok_and(|value| value.is_some_and(|it| new.set_xattr(&name, &it).is_ok()));
        if is_list && !is_copied {
            return false;
        }
    }
    // The directory may have given the new file an access list that the old one did not have.
    has_list || !matches!(new.get_xattr(ACL), Ok(Some(_))) || new.remove_xattr(ACL).is_ok()
}
