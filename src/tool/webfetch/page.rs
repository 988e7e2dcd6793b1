//! Turns what a server sent into what the model reads.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use htmd::{
    HtmlToMarkdown, Node,
    options::{BulletListMarker, HrStyle, Options},
};
use std::rc::Rc;
use windlass_protocol::opencode::part::FilePart;

use super::{super::read, Format};

/// Pages nested deeper are given as text: the converter recurses, and a page must not be able to end the process.
const MAX_DEPTH: usize = 256;
/// The same for a count that knows no rules about which elements end others.
const MAX_NESTING: usize = 1024;

/// Elements whose content is not meant to be read.
const UNREAD: [&str; 8] = ["script", "style", "noscript", "iframe", "object", "embed", "template", "svg"];

/// Elements that end a line.
const BLOCKS: [&str; 24] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dt",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "p",
    "pre",
    "section",
    "table",
    "title",
    "tr",
];

/// A fetched document for the model.
pub(crate) enum Page {
    Text(String),
    /// An image or a PDF.
    Media {
        kind: &'static str,
        file: FilePart,
    },
}

/// Reads `body` as its content type says; fails with a sentence for the model.
pub(crate) fn read(body: &[u8], content_type: &str, format: Format) -> Result<Page, String> {
    let mime = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_media = (mime.starts_with("image/") && mime != "image/svg+xml") || mime == "application/pdf";
    if let Some(mime) = read::media_type(body).filter(|_| is_media || mime == "application/octet-stream") {
        let kind = if mime == "application/pdf" { "PDF" } else { "Image" };
        let url = format!("data:{mime};base64,{}", BASE64_STANDARD.encode(body));
        let file = FilePart { mime: mime.to_owned(), filename: None, url, source: None };
        return Ok(Page::Media { kind, file });
    }
    let text = decode(body, content_type);
    if is_media || text.contains('\0') {
        return Err(format!("it is binary ({}), which cannot be read as text", mime_name(&mime)));
    }
    let is_html = matches!(mime.as_str(), "text/html" | "application/xhtml+xml");
    Ok(Page::Text(match format {
        Format::Html => text,
        Format::Markdown | Format::Text if !is_html => text,
        Format::Markdown => markdown(&text).unwrap_or_else(|| strip(&text)),
        Format::Text => strip(&text),
    }))
}

fn mime_name(mime: &str) -> &str {
    if mime.is_empty() { "no content type" } else { mime }
}

/// By the byte order mark, else the content type's charset, else UTF-8.
fn decode(body: &[u8], content_type: &str) -> String {
    let parameter = content_type.split(';').skip(1).find_map(|it| {
        let (name, value) = it.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    let encoding = parameter.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
    encoding.unwrap_or(encoding_rs::UTF_8).decode(body).0.into_owned()
}

/// None when the page is nested too deeply.
fn markdown(html: &str) -> Option<String> {
    if nesting(html) > MAX_NESTING {
        return None;
    }
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        hr_style: HrStyle::Dashes,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder()
        .options(options)
        .skip_tags([&UNREAD[..], &["meta", "link"]].concat())
        .build();
    let tree = converter.html_to_tree(html).ok()?;
    (depth(&tree) <= MAX_DEPTH).then(|| converter.tree_to_markdown(&tree))
}

fn depth(root: &Rc<Node>) -> usize {
    let mut level = vec![root.clone()];
    let mut res = 0;
    while !level.is_empty() {
        res += 1;
        level = level.iter().flat_map(|node| node.children.borrow().clone()).collect();
    }
    res
}

/// The page's words, with line ends where blocks end.
fn strip(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        push_words(&mut text, &rest[..start]);
        rest = &rest[start..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let Some(tag) = Tag::read(rest) else {
            push_words(&mut text, "<");
            rest = &rest[1..];
            continue;
        };
        rest = &rest[tag.n_bytes..];
        if tag.is_one_of(&UNREAD) && !tag.is_end {
            rest = after_end(rest, tag.name);
        } else if tag.is_one_of(&BLOCKS) && !text.is_empty() && !text.ends_with('\n') {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
    }
    push_words(&mut text, rest);
    text.trim().to_owned()
}

/// How deep elements stand in each other at most, as far as tags alone tell; rather too deep than not deep enough.
///
/// The parser's time grows with the square of the depth, so it is not given what would only be thrown away.
fn nesting(html: &str) -> usize {
    // They stand alone or are ended by the next one like them.
    const FLAT: [&str; 18] = [
        "br", "img", "hr", "input", "meta", "link", "p", "li", "dt", "dd", "td", "th", "tr", "option",
        "source", "wbr", "col", "area",
    ];
    const N_MISNESTED: usize = 16;
    let mut open: Vec<&str> = Vec::new();
    let mut deepest = 0;
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        let Some(tag) = Tag::read(rest) else {
            rest = &rest[1..];
            continue;
        };
        rest = &rest[tag.n_bytes..];
        if tag.is_end {
            let near = open.len().saturating_sub(N_MISNESTED);
            let begun = open[near..].iter().rposition(|name| tag.is_one_of(&[name]));
            open.truncate(begun.map_or(open.len(), |idx| near + idx));
        } else if tag.is_one_of(&["script", "style"]) {
            rest = after_end(rest, tag.name);
        } else if !tag.is_one_of(&FLAT) && !tag.name.starts_with(['!', '?']) {
            open.push(tag.name);
        }
        deepest = deepest.max(open.len());
        if deepest > MAX_NESTING {
            break;
        }
    }
    deepest
}

struct Tag<'a> {
    name: &'a str,
    is_end: bool,
    /// From `<` to behind `>`.
    n_bytes: usize,
}

impl<'a> Tag<'a> {
    /// The tag that begins the text, if it is one.
    fn read(text: &'a str) -> Option<Self> {
        let inner = text.strip_prefix('<')?;
        let is_end = inner.starts_with('/');
        let inner = inner.strip_prefix('/').unwrap_or(inner);
        if !inner.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '!' | '?')) {
            return None;
        }
        let name_end = inner.find(|it: char| it.is_ascii_whitespace() || matches!(it, '>' | '/'));
        let name = &inner[..name_end.unwrap_or(inner.len())];
        let mut quote = None;
        let end = text.bytes().position(|byte| match (quote, byte) {
            (None, b'>') => true,
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                false
            }
            (Some(open), byte) if open == byte => {
                quote = None;
                false
            }
            _other => false,
        });
        Some(Self { name, is_end, n_bytes: end.map_or(text.len(), |end| end + 1) })
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| name.eq_ignore_ascii_case(self.name))
    }
}

/// What stands behind the end tag of an element; nothing when it is not ended.
fn after_end<'a>(mut rest: &'a str, name: &str) -> &'a str {
    while let Some(start) = rest.find("</") {
        rest = &rest[start..];
        match Tag::read(rest) {
            Some(tag) if tag.is_one_of(&[name]) => return &rest[tag.n_bytes..],
            Some(_) | None => rest = &rest[2..],
        }
    }
    ""
}

/// Appends text with references resolved, its runs of blanks made one, its line ends kept.
fn push_words(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let (shown, n_bytes) = match char {
            '&' => reference(rest).unwrap_or(('&', 1)),
            other => (other, other.len_utf8()),
        };
        rest = &rest[n_bytes..];
        let is_after_blank = out.is_empty() || out.ends_with([' ', '\n']);
        match shown {
            '\n' if out.ends_with("\n\n") => {}
            '\n' => {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
            }
            '\t' | '\r' | ' ' | '\u{a0}' if is_after_blank => {}
            '\t' | '\r' | ' ' | '\u{a0}' => out.push(' '),
            other => out.push(other),
        }
    }
}

/// The character that a reference at the start of the text stands for, and the reference's length.
fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let name = text.get(1..end)?;
    let char = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "copy" => '©',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        _numeric => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code).filter(|it| *it != '\0')?
        }
    };
    Some((char, end + 1))
}

#[cfg(test)]
mod tests;
