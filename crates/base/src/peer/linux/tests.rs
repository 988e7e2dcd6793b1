//! The processes that have connections.

use std::{
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::OwnedFd,
};

use super::*;

fn inode(stream: &TcpStream) -> u64 {
    fs::File::from(OwnedFd::from(stream.try_clone().unwrap())).metadata().unwrap().ino()
}

#[test]
fn the_other_end_is_known_as_long_as_both_are_connected() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (taken, other) = listener.accept().unwrap();
    let own = listener.local_addr().unwrap();
    let expected = OtherEnd::Socket { user: geteuid().as_raw(), inode: inode(&client) };
    assert_eq!(other_end(inode(&taken), own, other), expected);
    assert_eq!(other_end(inode(&client), own, other), OtherEnd::Gone, "our end is another socket");
    let OtherEnd::Socket { user, inode: of_client } = expected else { unreachable!() };
    assert_eq!(of_socket(user, of_client), Standing::Held, "what the server itself asks for");
    assert_eq!(of_socket(user, u64::MAX), Standing::Hidden);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(other_end(inode(&taken), own, other), expected, "it still takes the answer");
    drop(client);
    assert_eq!(other_end(inode(&taken), own, other), OtherEnd::Gone);
}

#[test]
fn root_and_other_users_are_not_the_user() {
    let others = if geteuid().is_root() { [(1, Standing::OtherUser)] } else { [(0, Standing::Unknown)] };
    for (user, expected) in others {
        assert_eq!((of_socket(user, 1), of_process(user, Some(1))), (expected, expected), "{user}");
    }
}

#[test]
fn a_sandbox_is_one_that_we_are_not_in() {
    let marks = |namespace: &str, filters| Marks {
        tags: BTreeSet::new(),
        namespaces: [namespace.into(), "pid:[1]".into()],
        filters,
    };
    assert!(!marks("user:[1]", 1).is_within(&marks("user:[1]", 1)));
    assert!(!marks("user:[1]", 0).is_within(&marks("user:[1]", 1)));
    assert!(marks("user:[1]", 2).is_within(&marks("user:[1]", 1)));
    assert!(marks("user:[2]", 0).is_within(&marks("user:[1]", 0)));
}
