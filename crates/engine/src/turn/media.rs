//! Pictures and documents as a model is given them: of the type that their bytes have.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use windlass_base::mime;
use windlass_protocol::opencode::part::{FilePart, PartKind};

use crate::session::state::text_part;

/// Returns the parts for a file that is given as data: data that is no picture or document becomes text.
pub fn of_data(file: FilePart) -> Vec<PartKind> {
    let (file, is_text) = of_its_type(file);
    if !is_text {
        return vec![PartKind::File(file)];
    }
    let base64 = data(&file).unwrap_or_default();
    let name = file.filename.as_deref().unwrap_or("attachment");
    let text = BASE64_STANDARD.decode(base64).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let mime = match (mime::is_media(&file.mime), &text) {
        (false, _) => file.mime.clone(),
        (true, Some(_)) => "text/plain".to_owned(),
        (true, None) => "application/octet-stream".to_owned(),
    };
    let shown = match text {
        Some(text) => format!("[{name}]\n{text}"),
        None => format!("[Binary attachment omitted: {name} ({})]", file.mime),
    };
    let url = format!("data:{mime};base64,{base64}");
    vec![text_part(shown, true, false), PartKind::File(FilePart { mime, url, ..file })]
}

/// Gives a tool's files the types that their bytes have. A note in the output takes the place of a file that is no
/// picture.
pub fn of_tool(files: Vec<FilePart>, output: &mut String) -> Vec<FilePart> {
    let kept = files.into_iter().map(of_its_type).filter_map(|(file, is_text)| {
        let is_mistaken = is_text && mime::is_media(&file.mime);
        if is_mistaken {
            output.push_str(&mistaken(&file));
        }
        (!is_mistaken).then_some(file)
    });
    kept.collect()
}

/// Returns the words about a file that was declared to be a picture or document and is none.
pub fn mistaken(file: &FilePart) -> String {
    let name = file.filename.as_deref().unwrap_or("the attachment");
    format!("\n\n[{name} is not shown: it is no file of the type {}]", file.mime)
}

/// Returns a file's base64, if it is given as data.
pub fn data(file: &FilePart) -> Option<&str> {
    Some(file.url.strip_prefix("data:")?.split_once(";base64,")?.1)
}

/// Gives a picture or document the type of its bytes; true with data that is none. An empty one keeps the declared type,
/// since wires have words for it.
fn of_its_type(file: FilePart) -> (FilePart, bool) {
    let Some(base64) = data(&file) else { return (file, false) };
    match mime::of_base64(base64) {
        Some(mime) if mime == file.mime => (file, false),
        Some(mime) => {
            let url = format!("data:{mime};base64,{base64}");
            (FilePart { mime: mime.to_owned(), url, ..file }, false)
        }
        None => {
            let is_text = !base64.is_empty() || !mime::is_media(&file.mime);
            (file, is_text)
        }
    }
}

#[cfg(test)]
mod tests;
