//! MIME types of the files that models accept, by path and by content.

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};

/// Bytes by which a type is known.
pub const HEAD_BYTES: u64 = 12;
/// Characters of base64 that hold the bytes by which a type is known.
const BASE64_HEAD: usize = 16;

/// Returns the MIME type of an image or document by the extension of its name.
pub fn of_path(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
        Some("png") => Some("image/png"),
        Some("jpg" | "jpeg") => Some("image/jpeg"),
        Some("gif") => Some("image/gif"),
        Some("webp") => Some("image/webp"),
        Some("pdf") => Some("application/pdf"),
        Some(_) | None => None,
    }
}

/// Returns the MIME type of an image or document that providers accept, by its first bytes.
pub fn of_bytes(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', ..] => Some("application/pdf"),
        _other => None,
    }
}

/// Like [`of_bytes`], of bytes in base64.
pub fn of_base64(base64: &str) -> Option<&'static str> {
    let head = base64.as_bytes().get(..BASE64_HEAD).unwrap_or(base64.as_bytes());
    // The padding of a short one.
    let head = head.split(|byte| *byte == b'=').next().unwrap_or_default();
    of_bytes(&BASE64_STANDARD_NO_PAD.decode(head).ok()?)
}

/// Returns true for a type that is declared to be one of images or documents for models, in any spelling.
pub fn is_media(mime: &str) -> bool {
    let mime = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    mime.starts_with("image/") || mime == "application/pdf"
}

#[cfg(test)]
mod tests {
    //! Types by the content of a file, and declared types in other spellings.

    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn the_type_of_a_picture_comes_from_its_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n"[..], Some("image/png")),
            (b"\x89PNG\r\n\x1a\n and more", Some("image/png")),
            (b"\xff\xd8\xff", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x10\0\0\0WAVE", None),
            (b"%PDF-1.7", Some("application/pdf")),
            (b"<html>", None),
            (b"", None),
        ] {
            assert_eq!(of_bytes(bytes), expected, "{bytes:?}");
            assert_eq!(of_base64(&BASE64_STANDARD.encode(bytes)), expected, "{bytes:?}");
        }
        assert_eq!(of_base64("no base64!"), None);
    }

    #[test]
    fn a_declared_type_is_read_in_any_spelling() {
        for mime in ["image/png", "IMAGE/PNG", "image/jpg", "image/png; charset=binary", "Application/PDF"] {
            assert!(is_media(mime), "{mime}");
        }
        assert!(!is_media("text/plain") && !is_media("imagery"));
    }
}
