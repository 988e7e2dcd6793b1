//! An attached file: a small picture is shown, any other file is named.

use windlass_base::{figures, text};
use windlass_protocol::opencode::part::FilePart;

use super::escape;

/// Types of pictures that cannot contain scripts.
const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Maximum bytes of a picture's URL.
const MAX_PICTURE: usize = 2 * 1024 * 1024;

/// Writes a file.
pub fn push(out: &mut String, file: &FilePart) {
    let name = file.filename.as_deref().unwrap_or(&file.mime);
    match picture(file) {
        Some(mime_and_data) => {
            out.push_str("<figure class=\"picture\"><img alt=\"");
            escape(out, &text::visible_line(name));
            out.push_str("\" src=\"data:");
            escape(out, mime_and_data);
            out.push_str("\"><figcaption>");
            escape(out, &text::visible_line(name));
            out.push_str("</figcaption></figure>\n");
        }
        None => {
            out.push_str("<p class=\"file\"><code>");
            escape(out, &text::visible_line(name));
            out.push_str("</code> <small>");
            escape(out, &text::visible_line(&file.mime));
            if let Some((_, data)) = file.url.split_once(";base64,") {
                out.push_str(" · ");
                out.push_str(&figures::short(data.len() as u64 * 3 / 4));
                out.push_str(" bytes");
            }
            out.push_str("</small></p>\n");
        }
    }
}

/// Returns the URL behind `data:` of a picture that is small enough and of a safe type.
fn picture(file: &FilePart) -> Option<&str> {
    let url = file.url.strip_prefix("data:").filter(|url| url.len() <= MAX_PICTURE)?;
    let (mime, data) = url.split_once(";base64,")?;
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    (PICTURES.contains(&mime) && data.bytes().all(is_base64)).then_some(url)
}
