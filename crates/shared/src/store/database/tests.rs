//! Addresses of databases, and the TLS that each asks for.

use super::*;

#[test]
fn a_database_elsewhere_is_reached_by_tls_unless_somebody_says_otherwise() {
    for (url, mode) in [
        ("postgres://u@db.example/x", SslMode::Require),
        ("postgres://u@db.example/x?sslmode=prefer", SslMode::Require),
        ("postgres://u@db.example/x?sslmode=verify-full&connect_timeout=3", SslMode::Require),
        ("postgres://u@db.example/x?sslmode=disable", SslMode::Disable),
        ("postgres://u@127.0.0.1/x", SslMode::Disable),
        ("postgres://u@localhost/x?sslmode=require", SslMode::Require),
        ("postgres://u@%2Frun%2Fpostgresql/x", SslMode::Disable),
        ("postgres://u@127.0.0.1,db.example/x", SslMode::Require),
    ] {
        let (config, _) = read_url(url).unwrap();
        assert_eq!(config.get_ssl_mode(), mode, "{url}");
    }
    let (_, root) = read_url("postgres://u@h/x?sslrootcert=%2Fetc%2Fca.pem").unwrap();
    assert_eq!(root.as_deref(), Some("/etc/ca.pem"));
}

#[test]
fn a_wrong_setting_is_named_with_the_way_out_and_without_the_password() {
    for (url, schema, words) in [
        ("mysql://u:geheim@h/x", "windlass", "write postgres://USER@HOST/DATABASE"),
        ("postgres:///x", "windlass", "names no host"),
        ("postgres://u:geheim@h/x?sslmode=maybe", "windlass", "unknown sslmode `maybe`"),
        ("postgres://u:geheim@h/x?nonsense=1", "windlass", "is no address of a Postgres"),
        ("postgres://u:geheim@h/x?sslrootcert=/none.pem", "windlass", "/none.pem cannot be read"),
        ("postgres://u@h/x", "a; DROP", "small letters"),
    ] {
        let refused = Database::new(url, schema).err().expect("refused").to_string();
        assert!(refused.contains(words), "{url}: {refused}");
        assert!(!refused.contains("geheim"), "{refused}");
    }
}
