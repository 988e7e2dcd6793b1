//! Translation of each kind of content block.

use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_engine::PromptPart;
use windlass_protocol::opencode::part::FilePart;
use windlass_protocol_acp::schema::ContentBlock;

use super::prompt_parts;

#[track_caller]
fn check(block: Value, expected: &[PromptPart], expected_unused: &[&str]) {
    let parsed: ContentBlock = serde_json::from_value(block.clone()).unwrap();
    let (parts, unused) = prompt_parts(vec![parsed]);
    assert_eq!(format!("{parts:#?}"), format!("{expected:#?}"), "{block}");
    assert_eq!(unused, expected_unused, "{block}");
}

fn text(text: &str) -> PromptPart {
    PromptPart::Text { text: text.to_owned(), is_synthetic: false, is_ignored: false }
}

fn file(mime: &str, filename: Option<&str>, url: &str) -> PromptPart {
    PromptPart::File(FilePart {
        mime: mime.to_owned(),
        filename: filename.map(str::to_owned),
        url: url.to_owned(),
        source: None,
    })
}

#[test]
fn text_is_for_those_its_audience_names() {
    for (audience, is_synthetic, is_ignored) in [
        (json!(null), false, false),
        (json!([]), false, false),
        (json!(["assistant"]), true, false),
        (json!(["user"]), false, true),
        (json!(["user", "assistant"]), false, false),
    ] {
        let block = json!({"type": "text", "text": "hi", "annotations": {"audience": audience}});
        check(block, &[PromptPart::Text { text: "hi".to_owned(), is_synthetic, is_ignored }], &[]);
    }
    check(json!({"type": "text", "text": "hi"}), &[text("hi")], &[]);
}

#[test]
fn an_image_is_its_data_or_else_its_address() {
    let image =
        |data: &str, uri: Value| json!({"type": "image", "data": data, "mimeType": "image/png", "uri": uri});
    let inline = file("image/png", None, "data:image/png;base64,AAAA");
    check(image("AAAA", Value::Null), std::slice::from_ref(&inline), &[]);
    check(image("AAAA", json!("file:///a.png")), &[inline], &[]);
    check(image("", json!("https://x/a.png")), &[file("image/png", None, "https://x/a.png")], &[]);
}

#[test]
fn a_link_to_a_local_file_is_a_file_and_any_other_its_address() {
    let link = |uri: &str| json!({"type": "resource_link", "uri": uri, "name": "n"});
    for (uri, mime) in [
        ("file:///w/a.rs", "text/plain"),
        ("file:///w/a.rs#L10", "text/plain"),
        ("file:///w.png/a", "text/plain"),
        ("file:///w/a.PNG", "image/png"),
        ("file:///w/a.jpeg", "image/jpeg"),
        ("file:///w/a.gif", "image/gif"),
        ("file:///w/a.webp?x=.pdf", "image/webp"),
        ("file:///w/a.pdf#page=2", "application/pdf"),
    ] {
        check(link(uri), &[file(mime, Some("n"), uri)], &[]);
    }
    check(link("zed:///agent/file?path=/w/a.rs"), &[file("text/plain", Some("n"), "file:///w/a.rs")], &[]);
    for uri in ["https://x/a.png", "zed:///agent/thread/1", "a.rs"] {
        check(link(uri), &[text(uri)], &[]);
    }
}

#[test]
fn a_links_own_mime_type_counts() {
    let block = json!({"type": "resource_link", "uri": "file:///w/a", "name": "n", "mimeType": "image/png"});
    check(block, &[file("image/png", Some("n"), "file:///w/a")], &[]);
}

#[test]
fn embedded_text_says_where_it_is_from() {
    for (uri, place) in [
        ("file:///w/a.rs", "/w/a.rs"),
        ("file:///w/a.rs#L10", "/w/a.rs:10"),
        ("file:///w/a.rs#L10:20", "/w/a.rs:10"),
        ("file:///w/a.rs#L10-L20", "/w/a.rs:10"),
        ("https://x/a#L10", "https://x/a#L10"),
    ] {
        let block = json!({"type": "resource", "resource": {"uri": uri, "text": "fn a() {}"}});
        let path = (uri == "file:///w/a.rs").then(|| PathBuf::from("/w/a.rs"));
        let wanted = PromptPart::Document { place: place.to_owned(), path, text: "fn a() {}".to_owned() };
        check(block, &[wanted], &[]);
    }
}

#[test]
fn an_embedded_blob_is_a_file() {
    let block = json!({"type": "resource", "resource": {
        "uri": "file:///w/a.pdf", "blob": "AAAA", "mimeType": "application/pdf",
    }});
    check(block, &[file("application/pdf", Some("a.pdf"), "data:application/pdf;base64,AAAA")], &[]);
    let block = json!({"type": "resource", "resource": {"uri": "memo:/", "blob": "AAAA"}});
    let url = "data:application/octet-stream;base64,AAAA";
    check(block, &[file("application/octet-stream", None, url)], &[]);
}

#[test]
fn what_cannot_be_used_is_named() {
    let block = json!({"type": "image", "data": "", "mimeType": "image/png"});
    check(block, &[], &["an image with neither data nor uri is ignored"]);
}

#[test]
fn blocks_stay_in_order() {
    let blocks = json!([
        {"type": "text", "text": "a"},
        {"type": "resource_link", "uri": "file:///b", "name": "b"},
        {"type": "text", "text": "c"},
    ]);
    let (parts, _) = prompt_parts(serde_json::from_value(blocks).unwrap());
    let expected = [text("a"), file("text/plain", Some("b"), "file:///b"), text("c")];
    assert_eq!(format!("{parts:?}"), format!("{expected:?}"));
}
