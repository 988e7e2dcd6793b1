//! Files that are given as data, and those of tools.

use windlass_protocol::opencode::part::{FilePart, PartKind};

use super::{of_data, of_tool};

const PNG: &str = "iVBORw0KGgo=";
const HTML: &str = "PGh0bWw+";
const BINARY: &str = "AP8A";

fn file(mime: &str, base64: &str) -> FilePart {
    let url = format!("data:{mime};base64,{base64}");
    FilePart { mime: mime.to_owned(), filename: Some("a.png".to_owned()), url, source: None }
}

#[test]
fn data_is_a_picture_or_becomes_text() {
    let check = |mime: &str, base64: &str, text: Option<&str>, expected: &str| {
        let kinds = of_data(file(mime, base64));
        let texts = kinds.iter().filter_map(|kind| match kind {
            PartKind::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        assert_eq!(texts.collect::<Vec<_>>(), Vec::from_iter(text), "{mime} {base64}");
        assert_eq!(kinds.last(), Some(&PartKind::File(file(expected, base64))), "{mime} {base64}");
    };
    for mime in ["image/png", "image/jpg", "IMAGE/PNG", "image/png; x=y", "text/plain"] {
        check(mime, PNG, None, "image/png");
    }
    check("image/png", HTML, Some("[a.png]\n<html>"), "text/plain");
    check("image/svg+xml", HTML, Some("[a.png]\n<html>"), "text/plain");
    check("text/html", HTML, Some("[a.png]\n<html>"), "text/html");
    let omitted = "[Binary attachment omitted: a.png (image/heic)]";
    check("image/heic", BINARY, Some(omitted), "application/octet-stream");
    check("image/png", "", None, "image/png");
}

#[test]
fn a_tools_file_that_is_no_picture_is_named() {
    let mut output = "drawn".to_owned();
    let files = vec![file("image/jpg", PNG), file("image/png", HTML), file("text/plain", HTML)];
    let kept = of_tool(files, &mut output);
    assert_eq!(kept, [file("image/png", PNG), file("text/plain", HTML)]);
    assert_eq!(output, "drawn\n\n[a.png is not shown: it is no file of the type image/png]");
}
