//! Markdown that jobs wrote, as HTML that can do no harm.
//!
//! What is read is GitHub's dialect: tables, task lists, strikethrough, and the tags that actions write by way of
//! `core.summary`. Two gates stand one behind the other: the reader gives out little, nested little; and of what comes
//! out, only known tags and attributes are left, whoever wrote them.

mod raw;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};
use maud::PreEscaped;
use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use raw::Raw;

/// How deep quotes, lists and emphasis are drawn inside of each other.
const DEEPEST: usize = 24;
/// How many pieces of a text are read; the rest is left out.
const PIECES: usize = 200_000;

const TAGS: [&str; 45] = [
    "a",
    "b",
    "blockquote",
    "br",
    "code",
    "dd",
    "del",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "ins",
    "kbd",
    "li",
    "ol",
    "p",
    "pre",
    "q",
    "s",
    "samp",
    "small",
    "span",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
    "var",
];

/// The whole text, as HTML.
pub(super) fn show(text: &str) -> PreEscaped<String> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_STRIKETHROUGH;
    let mut reader = Reader::default();
    let events = Parser::new_ext(text, options).take(PIECES);
    let mut made = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut made, events.filter_map(|event| reader.read(event)));
    PreEscaped(CLEANER.clean(&made).to_string())
}

/// What is left of HTML.
static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let attributes = HashMap::from([
        ("a", HashSet::from(["href", "title"])),
        ("details", HashSet::from(["open"])),
        ("ol", HashSet::from(["start"])),
        ("td", HashSet::from(["align", "colspan", "rowspan"])),
        ("th", HashSet::from(["align", "colspan", "rowspan"])),
    ]);
    let mut builder = Builder::empty();
    builder
        .tags(HashSet::from(TAGS))
        .clean_content_tags(HashSet::from(["script", "style", "title", "template"]))
        .tag_attributes(attributes)
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some("nofollow noopener noreferrer"))
        .attribute_filter(|tag, name, value| allowed(tag, name, value).then(|| value.into()))
        // What scrolls can be reached by the keyboard.
        .set_tag_attribute_value("pre", "tabindex", "0")
        .set_tag_attribute_value("table", "tabindex", "0");
    builder
});

/// Whether an attribute that is known may have this value.
fn allowed(tag: &str, name: &str, value: &str) -> bool {
    let begins =
        |start: &str| value.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    match (tag, name) {
        (_, "href") => ["http://", "https://", "mailto:"].iter().any(|start| begins(start)),
        (_, "align") => ["left", "center", "right"].contains(&value),
        (_, "colspan" | "rowspan" | "start") => {
            !value.is_empty() && value.len() <= 4 && value.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => true,
    }
}

/// Makes of pieces what is to be written: nested no deeper than it may be, pictures as links, headings below those of
/// the page.
#[derive(Debug, Default)]
struct Reader {
    /// Whether each thing that is open was written.
    open: Vec<bool>,
    raw: Raw,
    /// How many links are open; there is no link in a link.
    links: usize,
    columns: Vec<Alignment>,
    column: usize,
    in_head: bool,
}

fn written(text: impl Into<Cow<'static, str>>) -> Event<'static> {
    let text: CowStr<'static> = match text.into() {
        Cow::Borrowed(text) => CowStr::Borrowed(text),
        Cow::Owned(text) => text.into(),
    };
    Event::Html(text)
}

impl Reader {
    fn read<'t>(&mut self, event: Event<'t>) -> Option<Event<'t>> {
        match event {
            Event::Start(tag) => {
                let fits = self.open.len() < DEEPEST;
                let made = if fits { self.start(tag) } else { None };
                self.open.push(made.is_some());
                made
            }
            Event::End(tag) => {
                let was_written = self.open.pop().unwrap_or(false);
                if was_written { Some(self.end(tag)) } else { None }
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                Some(if self.raw.takes(&text) { Event::Html(text) } else { Event::Text(text) })
            }
            Event::TaskListMarker(done) => {
                Some(Event::Text(CowStr::Borrowed(if done { "☑ " } else { "☐ " })))
            }
            Event::SoftBreak => Some(Event::SoftBreak),
            other => Some(other),
        }
    }

    fn start<'t>(&mut self, tag: Tag<'t>) -> Option<Event<'t>> {
        Some(match tag {
            Tag::Heading { level, .. } => written(format!("<h{}>", lower(level))),
            Tag::Image { dest_url, title, .. } if self.links == 0 => {
                self.links += 1;
                let id = CowStr::Borrowed("");
                let link_type = pulldown_cmark::LinkType::Inline;
                Event::Start(Tag::Link { link_type, dest_url, title, id })
            }
            Tag::Image { .. } => return None,
            Tag::Link { .. } => {
                self.links += 1;
                Event::Start(tag)
            }
            Tag::Table(columns) => {
                self.columns = columns;
                written("<table>")
            }
            Tag::TableHead | Tag::TableRow => {
                self.column = 0;
                self.in_head = matches!(tag, Tag::TableHead);
                written(if self.in_head { "<thead><tr>" } else { "<tr>" })
            }
            Tag::TableCell => {
                let align = match self.columns.get(self.column) {
                    Some(Alignment::Left) => " align=\"left\"",
                    Some(Alignment::Center) => " align=\"center\"",
                    Some(Alignment::Right) => " align=\"right\"",
                    _ => "",
                };
                self.column += 1;
                written(format!("<{}{align}>", self.cell()))
            }
            other => Event::Start(other),
        })
    }

    fn end<'t>(&mut self, tag: TagEnd) -> Event<'t> {
        match tag {
            TagEnd::Heading(level) => written(format!("</h{}>\n", lower(level))),
            TagEnd::Image | TagEnd::Link => {
                self.links = self.links.saturating_sub(1);
                Event::End(TagEnd::Link)
            }
            TagEnd::Table => written("</table>\n"),
            TagEnd::TableHead => written("</tr></thead>"),
            TagEnd::TableRow => written("</tr>\n"),
            TagEnd::TableCell => written(format!("</{}>", self.cell())),
            other => Event::End(other),
        }
    }

    fn cell(&self) -> &'static str {
        if self.in_head { "th" } else { "td" }
    }
}

/// Headings of the page come first.
fn lower(level: HeadingLevel) -> usize {
    (level as usize + 2).min(6)
}

#[cfg(test)]
mod tests;
