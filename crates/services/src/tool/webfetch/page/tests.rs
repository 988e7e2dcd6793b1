//! Tests of [`super`].

use std::time::{Duration, Instant};

use super::{Page, balanced, read};
use crate::tool::webfetch::Format;

fn shown(body: impl AsRef<[u8]>, content_type: &str, format: Format) -> String {
    match read(body.as_ref(), content_type, format) {
        Ok(Page::Text(text)) => text,
        Ok(Page::Media { kind, file }) => format!("{kind} {}", file.url),
        Err(why) => format!("error: {why}"),
    }
}

/// Large enough to distinguish quadratic from linear time.
const N_BYTES: usize = 128 << 10;

const PAGE: &str = "<!doctype html><html><head><title>Tea &amp; more</title><style>p {}</style>\
    <script>if (a < b) { '</p>' }</script><link rel=x><meta name=y></head><body><!-- <p>hidden</p> -->\
    <h1>Tea</h1>\n<p>One  <b>cup</b>,\n<a href=\"/two\">two</a> cups.</p><ul><li>green<li>black</ul>\
    <pre><code>let x = 1 &lt; 2;\n  y();</code></pre><noscript>no</noscript><hr></body></html>";

#[test]
fn a_page_becomes_markdown() {
    let expected = "Tea & more\n\n# Tea\n\nOne **cup**, [two](/two) cups.\n\n- green\n- black\n\n```\nlet x = 1 < 2;\n  y();\n```\n\n- - -";
    assert_eq!(shown(PAGE, "text/html; charset=utf-8", Format::Markdown), expected);
}

#[test]
fn a_page_becomes_text() {
    let expected = "Tea & more\nTea\n\nOne cup,\ntwo cups.\ngreen\nblack\nlet x = 1 < 2;\ny();";
    assert_eq!(shown(PAGE, "text/html", Format::Text), expected);
}

#[test]
fn a_page_too_large_for_markdown_keeps_its_cells_apart() {
    let rows: String = (0..40_000).map(|n| format!("<tr><td>{n}</td><td>x</td><td>y</td></tr>")).collect();
    let text = shown(format!("<table>{rows}</table>"), "text/html", Format::Markdown);
    assert!(text.starts_with("0 x y\n1 x y\n2 x y\n") && text.ends_with("39999 x y"), "{:?}", &text[..40]);
}

#[test]
fn requested_html_and_other_text_stay_unchanged() {
    assert_eq!(shown(PAGE, "text/html", Format::Html), PAGE);
    for format in [Format::Text, Format::Markdown, Format::Html] {
        assert_eq!(shown("{\"a\": \"<b>\"}", "application/json", format), "{\"a\": \"<b>\"}");
        assert_eq!(shown("<b>", "", format), "<b>");
    }
    assert_eq!(shown("<svg/>", "image/svg+xml", Format::Markdown), "<svg/>");
}

#[test]
fn odd_markup_loses_no_text() {
    for (html, expected) in [
        ("a < b and c > d", "a < b and c > d"),
        ("&#65;&#x42;&bogus;&amp", "AB&bogus;&amp"),
        ("<p title='a > b'>x</p>", "x"),
        ("x<script>never ended", "x"),
        ("x<!-- never ended", "x"),
        ("x<p", "x"),
        ("<ScRiPt>no</sCrIpT >yes", "yes"),
        ("<script>\"</scripty>\"</script>yes", "yes"),
        ("é<b>è</b>", "éè"),
        ("<table><tr><th>a<th>b<tr><td>1</td><td> 2</td></table>c", "a b\n1 2\nc"),
        ("<select><option>a</option><option>b</option></select>", "a b"),
    ] {
        assert_eq!(shown(html, "text/html", Format::Text), expected, "{html}");
    }
}

#[test]
fn text_is_decoded_by_its_charset() {
    assert_eq!(shown(b"caf\xe9", "text/plain; charset=\"ISO-8859-1\"", Format::Text), "café");
    assert_eq!(shown(b"caf\xe9", "text/plain", Format::Text), "caf\u{fffd}");
    assert_eq!(shown(b"\xff\xfea\0", "text/plain", Format::Text), "a");
}

#[test]
fn images_and_documents_are_attached_and_other_binaries_refused() {
    let png = b"\x89PNG\r\n\x1a\nrest";
    assert_eq!(shown(png, "image/png", Format::Markdown), "Image data:image/png;base64,iVBORw0KGgpyZXN0");
    // The bytes decide the type, because providers refuse requests with a wrong one.
    assert_eq!(shown(png, "image/jpeg", Format::Markdown), "Image data:image/png;base64,iVBORw0KGgpyZXN0");
    assert_eq!(
        shown(b"%PDF-1.7", "application/pdf", Format::Text),
        "PDF data:application/pdf;base64,JVBERi0xLjc="
    );
    assert_eq!(shown("<html>no", "image/png", Format::Html), "<html>no");
    let refused = "error: it is binary (image/avif), which cannot be read as text";
    assert_eq!(shown(b"\0\0\0\x20ftypavif", "image/avif", Format::Text), refused);
    let refused = "error: it is binary (application/zip), which cannot be read as text";
    assert_eq!(shown(b"PK\x03\x04\0\0", "application/zip", Format::Html), refused);
}

#[test]
fn missing_and_crossed_end_tags_are_put_in_order() {
    for (html, expected) in [
        ("<p>a<p>b", "<p>a</p><p>b</p>"),
        ("<ul><li>a<li>b</ul>c", "<ul><li>a</li><li>b</li></ul>c"),
        (
            "<table><tr><td>a<td>b<tr><td>c</table>",
            "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>",
        ),
        ("<b>a<i>b</b>c</i>", "<b>a<i>b</i></b>c"),
        ("</p>a</b>", "a"),
        ("<A HREF='x\"y' onclick=z>a", "<a href=\"x&quot;y\">a</a>"),
        ("<img src=a.png/ alt><br/>", "<img src=\"a.png/\" alt=\"\"><br>"),
        ("<a ==\"x>y\">z", "<a>z</a>"),
        ("<x-tag>a < b</x-tag><!-- <b> --><svg><b></svg>", "a &lt; b"),
        ("<i><i><i><i><i><i><i><i><i>a", "<i><i><i><i><i><i><i><i>a</i></i></i></i></i></i></i></i>"),
    ] {
        assert_eq!(balanced(html).as_deref(), Some(expected), "{html}");
    }
    assert_eq!(balanced(&"<div>".repeat(257)), None);
}

#[test]
fn a_malicious_page_is_read_in_bounded_time() {
    let fonts: String = (0..200).map(|idx| format!("<font color={idx}>")).collect();
    let spans = "<span>".repeat(200);
    let pieces = [
        ("", "<div>"),
        ("", "<div></x>"),
        ("", "<b></x>"),
        ("", "<b><p></b>"),
        ("", "<b><p></x>"),
        ("", "<ul><li>"),
        ("", "<dd><li>"),
        ("", "<table><tr><td>"),
        ("", "<p><table></p>"),
        ("", "<"),
        ("", "</"),
        ("", "&"),
        ("", "<a x='"),
        ("", "<a x "),
        ("", "<!--"),
        ("", "<script>"),
        ("", "</script"),
        ("", "<svg><a>"),
        ("<p>", "</p><p>x"),
        ("<table>", "<tr>x"),
        ("<i><u><s><b><table>", "<tr>x"),
        ("<table><foo>", "<tr>x"),
        ("<table><tr><td>", "<tr><td>x"),
        (spans.as_str(), "</x>"),
    ];
    for (before, piece) in pieces {
        for fonts in ["", &fonts] {
            let html = format!("{before}{fonts}{}end", piece.repeat(N_BYTES / piece.len()));
            for format in [Format::Markdown, Format::Text] {
                let start = Instant::now();
                let text = shown(&html, "text/html", format);
                assert!(!text.starts_with("error"), "{piece}");
                let took = start.elapsed();
                assert!(took < Duration::from_secs(10), "{before} {piece} {format:?}: {took:?}");
            }
        }
    }
}
