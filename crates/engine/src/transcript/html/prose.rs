//! A model's Markdown as HTML: HTML tags in it become text, links lead to web pages and mail addresses only,
//! and nothing is loaded.

use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html};
use windlass_base::text;

use super::escape;

/// Maximum bytes of a text that is rendered as Markdown; a longer one is shown as plain text.
const MAX_MARKDOWN: usize = 256 * 1024;

/// Renders a text of Markdown.
pub fn push(out: &mut String, markdown: &str) {
    let markdown = text::readable(markdown);
    if markdown.len() > MAX_MARKDOWN {
        out.push_str("<pre tabindex=\"0\">");
        escape(out, &markdown);
        out.push_str("</pre>");
        return;
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut drawing = Drawing::default();
    let events = Parser::new_ext(&markdown, options).map(|event| drawing.harmless(event));
    html::push_html(out, events);
}

/// The open elements at the current position.
#[derive(Default)]
struct Drawing {
    /// For each open link, true if it is rendered as a link.
    links: Vec<bool>,
    /// The alignments of the columns of the open table.
    alignments: Vec<Alignment>,
    column: usize,
    is_in_head: bool,
}

impl Drawing {
    /// Removes everything unsafe from an event.
    fn harmless<'a>(&mut self, event: Event<'a>) -> Event<'a> {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
            Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
            Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
            Event::Start(Tag::Link { link_type: LinkType::Email, dest_url, .. }) => {
                self.open_link(&format!("mailto:{dest_url}"))
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                self.open_link(&dest_url)
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                let is_link = self.links.pop() == Some(true);
                tag(if is_link { "</a>" } else { "" })
            }
            // The page has headings of its own above these.
            Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
                level: lower(level),
                id: None,
                classes: Vec::new(),
                attrs: Vec::new(),
            }),
            Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(lower(level))),
            // The page's policy forbids inline styles, which the alignment of cells would need.
            Event::Start(Tag::Table(alignments)) => {
                self.alignments = alignments.clone();
                Event::Start(Tag::Table(alignments))
            }
            Event::Start(Tag::TableHead) => {
                (self.is_in_head, self.column) = (true, 0);
                Event::Start(Tag::TableHead)
            }
            Event::End(TagEnd::TableHead) => {
                self.is_in_head = false;
                Event::End(TagEnd::TableHead)
            }
            Event::Start(Tag::TableRow) => {
                self.column = 0;
                Event::Start(Tag::TableRow)
            }
            Event::Start(Tag::TableCell) => self.open_cell(),
            Event::End(TagEnd::TableCell) => tag(if self.is_in_head { "</th>" } else { "</td>" }),
            // A screen reader names a box by its label.
            Event::TaskListMarker(true) => {
                tag("<input type=\"checkbox\" disabled checked aria-label=\"done\"> ")
            }
            Event::TaskListMarker(false) => tag("<input type=\"checkbox\" disabled aria-label=\"to do\"> "),
            other => other,
        }
    }

    fn open_link<'a>(&mut self, url: &str) -> Event<'a> {
        // A link within a link is rendered as text.
        let is_link = is_allowed(url) && !self.links.contains(&true);
        self.links.push(is_link);
        if !is_link {
            return tag("");
        }
        let mut open = "<a rel=\"noreferrer noopener\" href=\"".to_owned();
        escape(&mut open, url);
        open.push_str("\">");
        Event::InlineHtml(open.into())
    }

    fn open_cell<'a>(&mut self) -> Event<'a> {
        let alignment = self.alignments.get(self.column).copied().unwrap_or(Alignment::None);
        self.column += 1;
        tag(match (self.is_in_head, alignment) {
            (true, Alignment::None | Alignment::Left) => "<th>",
            (true, Alignment::Right) => "<th class=\"right\">",
            (true, Alignment::Center) => "<th class=\"center\">",
            (false, Alignment::None | Alignment::Left) => "<td>",
            (false, Alignment::Right) => "<td class=\"right\">",
            (false, Alignment::Center) => "<td class=\"center\">",
        })
    }
}

fn tag<'a>(tag: &'static str) -> Event<'a> {
    Event::InlineHtml(CowStr::Borrowed(tag))
}

fn is_allowed(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https" | "mailto"))
}

fn lower(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H3,
        HeadingLevel::H2 => HeadingLevel::H4,
        HeadingLevel::H3 => HeadingLevel::H5,
        HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}
