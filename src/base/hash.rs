//! Hashes: one that is the same in every version and on every machine, for names, and one of this process, for content.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

/// FNV-1a, 64 bits. Whoever needs more than a name has to compare what was hashed.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A hash that holds for as long as this process lives. Nobody outside can make two contents share it.
pub fn content(bytes: &[u8]) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(bytes)
}

#[cfg(test)]
mod tests {
    use super::fnv;

    #[test]
    fn the_known_values_are_hit() {
        assert_eq!(
            [fnv(b""), fnv(b"a"), fnv(b"foobar")],
            [0xcbf29ce484222325, 0xaf63dc4c8601ec8c, 0x85944171f73967e8]
        );
    }
}
