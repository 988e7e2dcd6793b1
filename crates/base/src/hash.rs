//! Two hashes: one stable across versions and machines, for names, and one of this process, for contents.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

/// Returns the FNV-1a hash, 64 bits. Collisions can be provoked, so compare the hashed bytes where that
/// matters.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Hashes a content with a key of this process, so that no outsider can construct two contents with the same
/// hash.
pub fn content(bytes: &[u8]) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(bytes)
}

#[cfg(test)]
mod tests {
    use super::fnv;

    #[test]
    fn hashes_have_the_known_values() {
        assert_eq!(
            [fnv(b""), fnv(b"a"), fnv(b"foobar")],
            [0xcbf29ce484222325, 0xaf63dc4c8601ec8c, 0x85944171f73967e8]
        );
    }
}
