//! MIME types of the files that models accept, by path.

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
