//! The cause of an error in words for people: without the layers of libraries around it, and without error
//! numbers.

use std::error::Error;

use super::text::without_number;

/// Returns the innermost cause of an error, such as `Connection refused`.
///
/// The outer errors name layers of libraries, and an address that may hold a key.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    without_number(&innermost.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::innermost;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Layer(#[source] io::Error);

    #[test]
    fn layers_and_numbers_are_left_out() {
        let refused = || io::Error::from_raw_os_error(111);
        assert_eq!(innermost(&Layer(refused())), "Connection refused");
        assert_eq!(innermost(&refused()), "Connection refused");
        assert_eq!(innermost(&io::Error::other("it is not a file")), "it is not a file");
    }
}
