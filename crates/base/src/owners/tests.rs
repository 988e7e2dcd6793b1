//! Files that others can change, and those that only the user can.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use super::{Accounts, Fault, Owners};

#[test]
fn a_file_is_taken_of_its_owner_alone_and_when_nobody_else_can_write_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let uid = fs::metadata(&file).unwrap().uid();
    let fault = |owners: &Owners, mode: u32| {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        owners.fault(&fs::metadata(&file).unwrap())
    };
    let own = Owners::new(None);
    assert_eq!(fault(&own, 0o644), None);
    assert_eq!(fault(&own, 0o646), Some(Fault::All));
    assert_eq!(fault(&own, 0o666), Some(Fault::All));
    assert_eq!(fault(&Owners::of(vec![uid + 1]), 0o600), Some(Fault::Owner(uid)));
}

#[test]
fn a_directory_that_everybody_writes_is_taken_only_if_nobody_can_replace_the_files_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let fault = |mode: u32| {
        fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
        Owners::new(None).fault(&fs::metadata(directory.path()).unwrap())
    };
    assert_eq!((fault(0o1777), fault(0o777), fault(0o755)), (None, Some(Fault::All), None));
}

#[test]
fn a_group_is_private_if_all_its_users_are_the_user() {
    let accounts = Accounts {
        users: "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n\
                you:x:1001:1001::/home/you:/bin/sh\nlate:x:1002:100::/:/bin/sh\n"
            .to_owned(),
        groups: "me:x:1000:\nown:x:1005:me\nyou:x:1001:\nusers:x:100:\nteam:x:50:me,you\ngone:x:51:nobody-known\nempty:x:52:\n"
            .to_owned(),
    };
    for (gid, is_private) in [
        (1000, true),
        (1005, true),
        (1001, false),
        (100, false),
        (50, false),
        (51, false),
        (52, true),
        (777, false),
    ] {
        assert_eq!(accounts.is_private(gid, &[1000, 0]), is_private, "{gid}");
    }
    let none = Accounts { users: String::new(), groups: String::new() };
    assert!(none.is_private(1000, &[1000, 0]) && !none.is_private(5000, &[1000, 0]));
}
