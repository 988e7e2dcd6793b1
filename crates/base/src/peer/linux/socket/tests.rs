//! The kernel's answers about sockets.

use std::net::{TcpListener, TcpStream};

use super::*;

const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1000 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1 0 100 0 0 10 0
   1: 0100007F:D431 0100007F:1000 01 00000000:00000000 00:00000000 00000000  1001        0 4711 1 0 20 4 30 10 -1
   2: 0100007F:D432 0100007F:1000 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0
";

const MAPPED: &str = "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode
   0: 0000000000000000FFFF00000100007F:D431 0000000000000000FFFF00000100007F:1000 01 00000000:00000000 00:00000000 00000000 1000 0 12 1 0
   1: 00000000000000000000000001000000:D431 00000000000000000000000001000000:1000 01 00000000:00000000 00:00000000 00000000 1000 0 13 1 0
";

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

#[test]
#[cfg(target_endian = "little")]
fn a_socket_is_found_by_both_of_its_ends() {
    let server = at("127.0.0.1:4096");
    let end = |user, inode, state| Some(End { user, inode, state });
    assert_eq!(in_table(TABLE, at("127.0.0.1:54321"), server), end(1001, 4711, 1));
    assert_eq!(in_table(TABLE, server, at("127.0.0.1:54321")), None);
    let closed = in_table(TABLE, at("127.0.0.1:54322"), server);
    assert_eq!(closed, end(0, 0, 6));
    assert!(!closed.unwrap().is_connected(), "nobody has it open any more");
    assert_eq!(in_table(MAPPED, at("127.0.0.1:54321"), server), end(1000, 12, 1));
    assert_eq!(in_table(MAPPED, at("[::1]:54321"), at("[::1]:4096")), end(1000, 13, 1));
}

#[test]
fn one_question_tells_what_the_table_tells() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, other) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let texts = ["/proc/net/tcp", "/proc/net/tcp6"].map(|it| fs::read_to_string(it).unwrap_or_default());
        let read = texts.iter().find_map(|text| in_table(text, own, other));
        assert!(read.is_some(), "{address}");
        assert_eq!(ask(own, other).unwrap(), read, "{address}");
        let listens = ask(other, at("127.0.0.1:1")).unwrap_or_default();
        assert!(!listens.is_some_and(End::is_connected), "{listens:?}");
        let (first, second) = ends(own, other);
        assert_eq!((first, second.is_some()), (read, true), "not taken yet, so nobody has it open");
    }
}
