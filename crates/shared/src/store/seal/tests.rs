//! Proofs and tokens hold for the node and the time that they were made for.

use super::*;

#[test]
fn a_token_holds_for_its_node_and_its_minute() {
    let keys = Keys::new(b"fleet", Some("own"));
    let token = keys.token("node1", 1_000);
    assert!(keys.is_token(&token, "node1", 1_000) && keys.is_token(&token, "node1", 60_000));
    for (token, node, now) in [
        (token.as_str(), "node2", 1_000),
        (token.as_str(), "node1", 62_000),
        // From a clock that is far ahead.
        (token.as_str(), "node1", -100_000),
        ("", "node1", 1_000),
        ("1.", "node1", 0),
        ("61000.zz", "node1", 1_000),
        ("61000.ä", "node1", 1_000),
    ] {
        assert!(!keys.is_token(token, node, now), "{token} {node} {now}");
    }
    for other in [Keys::new(b"fleet", None), Keys::new(b"other", Some("own"))] {
        assert!(!other.is_token(&token, "node1", 1_000));
    }
}

#[test]
fn an_address_is_a_nodes_own_only_with_its_proof() {
    let keys = Keys::new(b"fleet", None);
    let proof = keys.of_node("node1", Some("http://one"));
    assert!(keys.is_of_node("node1", Some("http://one"), &proof));
    assert!(!keys.is_of_node("node1", Some("http://169.254.169.254"), &proof));
    assert!(!keys.is_of_node("node2", Some("http://one"), &proof));
    assert!(!keys.is_of_node("node1", None, &proof));
}
