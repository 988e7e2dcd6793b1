//! Text within a block: emphasis, code, links.

use std::{path::Path, sync::Arc};

use anstyle::{AnsiColor, Effects, Style};
use pulldown_cmark::{Event, Tag, TagEnd};

use super::super::{
    line::{CYAN, DIM, Line, PLAIN, color},
    look::{Colors, Look},
    tool,
};

/// Text that is put together from events.
pub struct Inline<'a> {
    look: &'a Look,
    /// Lines that were broken by hand.
    broken: Vec<Line>,
    line: Line,
    styles: Vec<Style>,
    links: Vec<Link>,
}

struct Link {
    target: Option<Arc<str>>,
    url: String,
    start: usize,
}

impl<'a> Inline<'a> {
    pub fn new(look: &'a Look, style: Style) -> Self {
        Self { look, broken: Vec::new(), line: Line::default(), styles: vec![style], links: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.broken.is_empty() && self.line.spans.is_empty()
    }

    /// Takes an event of a text; false if it belongs to something else.
    pub fn event(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Text(text) => self.push(text),
            Event::Code(code) => self.code(code),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.push(text),
            Event::Html(html) | Event::InlineHtml(html) => match html.trim() {
                "<br>" | "<br/>" | "<br />" => self.break_line(),
                html => self.push_styled(html, DIM),
            },
            Event::FootnoteReference(name) => self.push(&format!("[{name}]")),
            Event::SoftBreak => self.push(" "),
            Event::HardBreak => self.break_line(),
            Event::TaskListMarker(is_done) => self.push(if *is_done { "☑ " } else { "☐ " }),
            Event::Start(tag) => return self.start(tag),
            Event::End(tag) => return self.end(*tag),
            Event::Rule => return false,
        }
        true
    }

    /// Returns the lines, each of which may still have to be wrapped.
    pub fn lines(mut self) -> Vec<Line> {
        self.break_line();
        self.broken
    }

    fn start(&mut self, tag: &Tag<'_>) -> bool {
        let style = self.style();
        match tag {
            Tag::Emphasis => self.styles.push(style.italic()),
            Tag::Strong => self.styles.push(style.bold()),
            Tag::Strikethrough => self.styles.push(style.strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let target = target(dest_url, self.look);
                let start = self.line.text().len();
                self.links.push(Link { target, url: dest_url.to_string(), start });
                self.styles.push(style.effects(style.get_effects() | Effects::UNDERLINE));
            }
            _block => return false,
        }
        true
    }

    fn end(&mut self, tag: TagEnd) -> bool {
        match tag {
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => _ = self.styles.pop(),
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                let Some(link) = self.links.pop() else { return true };
                let text = self.line.text();
                let shown = text.get(link.start..).unwrap_or_default();
                let is_told = shown == link.url || link.url == format!("mailto:{shown}");
                // A terminal without links shows where they lead.
                if self.look.links.is_none() && !is_told && !link.url.starts_with('#') {
                    self.push_styled(&format!(" ({})", link.url), DIM);
                }
            }
            _block => return false,
        }
        true
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(PLAIN)
    }

    fn push(&mut self, text: &str) {
        let style = self.style();
        self.push_styled(text, style);
    }

    fn push_styled(&mut self, text: &str, style: Style) {
        let link = self.links.last().and_then(|link| link.target.clone());
        self.line.push_link(text, style, link);
    }

    fn code(&mut self, code: &str) {
        if self.look.colors == Colors::None {
            self.push(&format!("`{code}`"));
            return;
        }
        let style = CYAN.effects(self.style().get_effects());
        self.push_styled(code, style);
    }

    fn break_line(&mut self) {
        if !self.line.spans.is_empty() {
            self.broken.push(std::mem::take(&mut self.line));
        }
    }
}

/// Returns the style of a heading.
pub fn heading(level: pulldown_cmark::HeadingLevel) -> Style {
    match level {
        pulldown_cmark::HeadingLevel::H1 => color(AnsiColor::Magenta).bold().underline(),
        pulldown_cmark::HeadingLevel::H2 => color(AnsiColor::Magenta).bold(),
        _lower => PLAIN.bold(),
    }
}

/// Returns where a link leads: to a page, or to a file below the session's directory.
fn target(url: &str, look: &Look) -> Option<Arc<str>> {
    let is_page = ["http://", "https://", "mailto:", "file://"].iter().any(|scheme| url.starts_with(scheme));
    if is_page {
        return look.links.as_ref().map(|_| tool::address(url));
    }
    if url.contains("://") || url.starts_with('#') || url.is_empty() {
        return None;
    }
    let path = url.split('#').next().unwrap_or_default();
    let path = match path.rsplit_once(':') {
        Some((path, line)) if line.chars().all(|char| char.is_ascii_digit()) => path,
        Some((scheme, _)) if !scheme.contains('/') && !scheme.contains('.') => return None,
        _other => path,
    };
    tool::file_link(&look.directory.join(Path::new(path)), look)
}
