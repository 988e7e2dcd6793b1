//! Names of tools as providers take them.

use std::borrow::Cow;

/// Characters that all providers take.
const MAX: usize = 64;
/// Characters of the checksum that keeps shortened names apart, with the `_` before it.
const CHECKSUM: usize = 9;

/// Returns a name that every provider takes. One that is too long, or has other characters, ends in a checksum of all of
/// it, so that it stays the same and is no other's.
pub fn offered(name: &str) -> Cow<'_, str> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= MAX && name.chars().all(is_usual) {
        return Cow::Borrowed(name);
    }
    let plain = name.chars().map(|c| if is_usual(c) { c } else { '_' });
    let head: String = plain.take(MAX - CHECKSUM).collect();
    Cow::Owned(format!("{head}_{:08x}", crc32fast::hash(name.as_bytes())))
}

#[cfg(test)]
mod tests {
    //! Names that stay, and those that are made anew.

    use super::*;

    #[test]
    fn a_name_that_some_provider_refuses_is_made_anew_and_stays_its_own() {
        let (short, long) = ("a".repeat(64), "a".repeat(75));
        assert_eq!(offered(&short), short);
        assert_eq!(offered(&long), format!("{}_329deca0", "a".repeat(55)));
        assert_eq!(offered("read-it_2"), "read-it_2");
        let odd = ["my.tool", "my tool", "größe", ""];
        for name in odd {
            let made = offered(name).into_owned();
            assert!(made.len() <= 64 && offered(&made) == made && made != name, "{name}: {made}");
            assert_eq!(odd.iter().filter(|other| offered(other) == made).count(), 1, "{made}");
        }
        let other = format!("{}b", "a".repeat(74));
        assert_ne!(offered(&other), offered(&long));
    }
}
