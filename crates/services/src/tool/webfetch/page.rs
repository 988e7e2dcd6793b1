//! Converts a server's answer to text for the model.

use std::rc::Rc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use htmd::{
    HtmlToMarkdown, Node,
    options::{BulletListMarker, HrStyle, Options},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_base::mime;
use windlass_protocol::opencode::part::FilePart;

/// Maximum nesting of pages that are converted: the converter recurses, and a page must not be able to end the
/// process. Others become plain text.
const MAX_DEPTH: usize = 256;
/// Maximum number of tags of pages that are converted. Others become plain text.
const MAX_TAGS: usize = 200_000;
/// Maximum number of open elements of [`FORMATTING`]; more are left out.
const MAX_FORMATTING: usize = 8;

/// Elements with content that is not meant to be read, and those with content that is not markup.
const UNREAD: [&str; 14] = [
    "script", "style", "noscript", "iframe", "object", "applet", "template", "svg", "math", "textarea",
    "xmp", "noembed", "noframes", "frameset",
];

/// Elements without content.
const VOID: [&str; 14] = [
    "br", "img", "hr", "input", "meta", "link", "source", "wbr", "col", "area", "embed", "base", "track",
    "param",
];

/// Tags without a meaning for the text.
const DROPPED: [&str; 12] = [
    "html",
    "head",
    "body",
    "meta",
    "link",
    "base",
    "source",
    "track",
    "param",
    "embed",
    "plaintext",
    "frame",
];

/// Elements that HTML parsers reopen in every block behind a missing end tag.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// An element, and the open elements that its start tag closes.
const IMPLIED_ENDS: [(&str, &[&str]); 8] = [
    ("p", &["p"]),
    ("li", &["p", "li"]),
    ("dt", &["p", "dt", "dd"]),
    ("dd", &["p", "dt", "dd"]),
    ("td", &["p", "td", "th"]),
    ("th", &["p", "td", "th"]),
    ("tr", &["p", "td", "th", "tr"]),
    ("option", &["option"]),
];

/// Elements of a table that contain others of it, and those that contain content.
const TABLE: [&str; 6] = ["table", "thead", "tbody", "tfoot", "tr", "colgroup"];
const CELLS: [&str; 3] = ["td", "th", "caption"];

/// The attributes that are kept.
const ATTRIBUTES: [(&str, &[&str]); 4] =
    [("a", &["href", "title"]), ("img", &["src", "alt", "title"]), ("code", &["class"]), ("ol", &["start"])];

/// Elements with text that is separated from the text before them.
const APART: [&str; 3] = ["td", "th", "option"];

/// Elements that end a line.
const BLOCKS: [&str; 26] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "caption",
    "dd",
    "div",
    "dt",
    "figcaption",
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

/// Reads `body` by its content type; fails with a sentence for the model.
pub(crate) fn read(body: &[u8], content_type: &str, format: Format) -> Result<Page, String> {
    let mime = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if let Some(mime) = mime::of_bytes(body) {
        let kind = if mime == "application/pdf" { "PDF" } else { "Image" };
        let url = format!("data:{mime};base64,{}", BASE64_STANDARD.encode(body));
        let file = FilePart { mime: mime.to_owned(), filename: None, url, source: None };
        return Ok(Page::Media { kind, file });
    }
    let text = decode(body, content_type);
    let is_text = !mime::is_media(&mime) || str::from_utf8(body).is_ok();
    if !is_text || text.contains('\0') {
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

/// The format that a page is converted to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Text,
    #[default]
    Markdown,
    Html,
}

fn mime_name(mime: &str) -> &str {
    if mime.is_empty() { "no content type" } else { mime }
}

/// Decodes a body by its byte order mark, else by the content type's charset, else as UTF-8.
fn decode(body: &[u8], content_type: &str) -> String {
    let parameter = content_type.split(';').skip(1).find_map(|it| {
        let (name, value) = it.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    let encoding = parameter.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
    encoding.unwrap_or(encoding_rs::UTF_8).decode(body).0.into_owned()
}

/// Converts a page to Markdown; `None` if it is nested too deeply or too large.
fn markdown(html: &str) -> Option<String> {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        hr_style: HrStyle::Dashes,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder().options(options).build();
    let tree = converter.html_to_tree(&balanced(html)?).ok()?;
    (depth(&tree) <= MAX_DEPTH).then(|| converter.tree_to_markdown(&tree))
}

/// Returns the page with an end tag for every start tag, in order, and without unreadable content.
///
/// HTML's rules for missing and crossed end tags let a small page become a tree of any size: each formatting
/// element that was left open is reopened in every block that follows.
fn balanced(html: &str) -> Option<String> {
    let mut out = String::with_capacity(html.len());
    let mut open: Vec<String> = Vec::new();
    let mut n_tags = 0;
    let close = |out: &mut String, open: &mut Vec<String>, n_kept: usize| {
        for name in open.drain(n_kept..).rev() {
            out.extend(["</", &name, ">"]);
        }
    };
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let Some(tag) = Tag::read(rest) else {
            out.push_str("&lt;");
            rest = &rest[1..];
            continue;
        };
        rest = &rest[tag.n_bytes..];
        n_tags += 1;
        if n_tags > MAX_TAGS {
            return None;
        }
        let name = tag.name.to_ascii_lowercase();
        // The title would be hidden with the head.
        let name = if name == "title" { "p".to_owned() } else { name };
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_word || tag.is_one_of(&DROPPED) {
            continue;
        }
        if tag.is_end {
            if let Some(idx) = open.iter().rposition(|it| *it == name) {
                close(&mut out, &mut open, idx);
            }
            continue;
        }
        if tag.is_one_of(&UNREAD) {
            rest = after_end(rest, tag.name);
            continue;
        }
        if let Some((_, ended)) = IMPLIED_ENDS.iter().find(|(it, _)| *it == name) {
            while open.last().is_some_and(|it| ended.contains(&it.as_str())) {
                let n_kept = open.len() - 1;
                close(&mut out, &mut open, n_kept);
            }
        }
        // Content between cells is moved in front of the table, each time with all elements that are still
        // open.
        let is_part = |name: &str| TABLE.contains(&name) || CELLS.contains(&name);
        let around = open.iter().rev().find(|it| is_part(it));
        let is_between_cells = around.is_some_and(|it| TABLE.contains(&it.as_str()));
        if is_between_cells && (name == "table" || !is_part(&name)) {
            continue;
        }
        let is_formatting = |name: &str| FORMATTING.contains(&name);
        if is_formatting(&name) && open.iter().filter(|it| is_formatting(it)).count() >= MAX_FORMATTING {
            continue;
        }
        out.extend(["<", &name]);
        let wanted = ATTRIBUTES.iter().find(|(it, _)| *it == name).map_or(&[][..], |(_, wanted)| wanted);
        for (attribute, value) in &tag.attributes {
            if let Some(wanted) = wanted.iter().find(|it| it.eq_ignore_ascii_case(attribute)) {
                out.extend([" ", wanted, "=\"", &value.replace('"', "&quot;"), "\""]);
            }
        }
        out.push('>');
        if !tag.is_one_of(&VOID) {
            open.push(name);
        }
        if open.len() > MAX_DEPTH {
            return None;
        }
    }
    out.push_str(rest);
    close(&mut out, &mut open, 0);
    Some(out)
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

/// Returns the page's text, with line ends at the ends of blocks.
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
        } else if tag.is_one_of(&APART) {
            push_words(&mut text, " ");
        }
    }
    push_words(&mut text, rest);
    text.trim().to_owned()
}

struct Tag<'a> {
    name: &'a str,
    is_end: bool,
    attributes: Vec<(&'a str, &'a str)>,
    /// The length from `<` to the byte behind `>`.
    n_bytes: usize,
}

impl<'a> Tag<'a> {
    /// Parses the tag at the start of the text, if there is one.
    fn read(text: &'a str) -> Option<Self> {
        let inner = text.strip_prefix('<')?;
        let is_end = inner.starts_with('/');
        let inner = inner.strip_prefix('/').unwrap_or(inner);
        if !inner.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '!' | '?')) {
            return None;
        }
        let blank = |it: char| it.is_ascii_whitespace();
        let (name, mut rest) = split(inner, |it| blank(it) || matches!(it, '>' | '/'));
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(|it| blank(it) || it == '/');
            if rest.is_empty() || rest.starts_with('>') {
                break;
            }
            // A `=` here is the name's first character.
            let n_first = rest.chars().next().map_or(0, char::len_utf8);
            let (tail, _) = split(&rest[n_first..], |it| blank(it) || matches!(it, '=' | '>' | '/'));
            let (attribute, behind) = rest.split_at(n_first + tail.len());
            let Some(value) = behind.trim_start_matches(blank).strip_prefix('=') else {
                attributes.push((attribute, ""));
                rest = behind;
                continue;
            };
            let value = value.trim_start_matches(blank);
            let quote = value.chars().next().filter(|it| matches!(it, '"' | '\''));
            let (value, behind) = match quote {
                Some(quote) => {
                    let (value, behind) = split(&value[1..], |it| it == quote);
                    (value, behind.get(1..).unwrap_or_default())
                }
                None => split(value, |it| blank(it) || it == '>'),
            };
            attributes.push((attribute, value));
            rest = behind;
        }
        let rest = rest.strip_prefix('>').unwrap_or(rest);
        Some(Self { name, is_end, attributes, n_bytes: text.len() - rest.len() })
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| name.eq_ignore_ascii_case(self.name))
    }
}

/// Splits a text at the first character for which `is_end` is true.
fn split(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

/// Returns the text behind the end tag of an element; empty if there is no end tag.
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

/// Appends text with references resolved and runs of blanks reduced to one; line ends stay.
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

/// Parses a character reference at the start of the text into its character and its length.
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
