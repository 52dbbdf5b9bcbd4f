//! Events of the scanner become a tree with spans, within bounds.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kiln_core::value::Value;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use crate::diag::Diagnostic;
use crate::source::{FileId, SourceMap, Span};

use super::explain::explain;
use super::resolve::resolve;
use super::tags::{core_tag, tagged, unknown_tag};
use super::{Entry, Kind, Node, Scalar, Style};

/// The largest file that is read.
pub const MAX_FILE_BYTES: usize = 384 * 1024;
/// How deep collections may nest.
pub const MAX_DEPTH: usize = 100;
/// How many nodes a document may have once every alias is expanded.
pub const MAX_NODES: usize = 100_000;
/// How many bytes of text a document may have once every alias is expanded: later stages read the
/// text of every place.
pub const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;

/// Reads one document. Without a root there is at least one error.
pub fn read(file: FileId, sources: &SourceMap) -> (Option<Arc<Node>>, Vec<Diagnostic>) {
    let text = sources.file(file).text();
    if text.len() > MAX_FILE_BYTES {
        let message = format!(
            "the file has {} KiB; at most {} KiB are read",
            text.len() / 1024,
            MAX_FILE_BYTES / 1024
        );
        let found = Diagnostic::error("file-too-large", Span::new(file, 0, 0), message)
            .help("move long scripts into files of the repository, or split the workflow");
        return (None, vec![found]);
    }
    let mut builder = Builder::new(file, text);
    let root = builder.document(&mut Parser::new_from_str(text));
    match root {
        Ok(root) => (root, builder.diagnostics),
        Err(fatal) => {
            builder.diagnostics.push(*fatal);
            (None, builder.diagnostics)
        }
    }
}

/// An error after which nothing more can be read.
type Fatal = Box<Diagnostic>;

struct Builder<'t> {
    file: FileId,
    text: &'t str,
    /// Byte offset of each character, when the two differ.
    bytes: Option<Vec<usize>>,
    anchors: HashMap<usize, Anchored>,
    /// Nodes and bytes of text so far, aliases counted with all they stand for.
    weight: Weight,
    diagnostics: Vec<Diagnostic>,
}

/// A node that an alias may name, and how much it stands for.
struct Anchored {
    node: Arc<Node>,
    weight: Weight,
}

#[derive(Clone, Copy, Default)]
struct Weight {
    nodes: usize,
    bytes: usize,
}

impl Weight {
    fn since(self, before: Weight) -> Weight {
        Weight { nodes: self.nodes - before.nodes, bytes: self.bytes - before.bytes }
    }
}

/// A collection that is still open.
struct Open {
    start: Span,
    /// Where the last thing in it ends.
    end: Span,
    anchor: usize,
    before: Weight,
    content: Content,
}

impl Open {
    /// Whether the value of an `if` comes next.
    fn is_condition(&self) -> bool {
        match &self.content {
            Content::Mapping { key: Some(key), .. } => key.text() == Some("if"),
            _ => false,
        }
    }
}

enum Content {
    Sequence(Vec<Arc<Node>>),
    Mapping { entries: Vec<Entry>, key: Option<Arc<Node>> },
}

impl<'t> Builder<'t> {
    fn new(file: FileId, text: &'t str) -> Self {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self {
            file,
            text,
            bytes,
            anchors: HashMap::new(),
            weight: Weight::default(),
            diagnostics: Vec::new(),
        }
    }

    fn byte(&self, index: usize) -> usize {
        let byte = match &self.bytes {
            Some(bytes) => bytes.get(index).copied().unwrap_or(self.text.len()),
            None => index,
        };
        byte.min(self.text.len())
    }

    fn span(&self, span: saphyr_parser::Span) -> Span {
        Span::new(self.file, self.byte(span.start.index()), self.byte(span.end.index()))
    }

    fn document<T: saphyr_parser::Input>(
        &mut self,
        parser: &mut Parser<'_, T>,
    ) -> Result<Option<Arc<Node>>, Fatal> {
        let mut open: Vec<Open> = Vec::new();
        let mut root = None;
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| Box::new(self.scan_error(&error)))?;
            let span = self.span(span);
            let done = match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) if root.is_some() => {
                    return Err(Box::new(second_document(span)));
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let tag = tag
                        .as_deref()
                        .map(|tag| (tag, open.last().is_some_and(Open::is_condition)));
                    Some(self.scalar(&text, style, anchor, tag, span)?)
                }
                Event::Alias(id) => Some(self.alias(id, span)?),
                Event::SequenceStart(anchor, tag) => {
                    self.open(&mut open, anchor, tag, span, Content::Sequence(Vec::new()))?;
                    None
                }
                Event::MappingStart(anchor, tag) => {
                    let content = Content::Mapping { entries: Vec::new(), key: None };
                    self.open(&mut open, anchor, tag, span, content)?;
                    None
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    let closed = open.pop().expect("the parser closes only what it opened");
                    Some(self.close(closed, span))
                }
                _ => None,
            };
            if let Some(node) = done {
                match open.last_mut() {
                    // An alias stands here, whatever stands at its anchor.
                    Some(parent) => self.attach(parent, node, trim_end(span, self.text)),
                    None => root = Some(node),
                }
            }
        }
        Ok(root)
    }

    fn scan_error(&self, error: &ScanError) -> Diagnostic {
        let at = self.byte(error.marker().index());
        // The scanner has a bound of its own, which deep flow collections may reach first.
        if error.info().contains("recursion limit") {
            return too_deep(Span::new(self.file, at, at));
        }
        explain(self.file, self.text, at, error.info())
    }

    fn open(
        &mut self,
        open: &mut Vec<Open>,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        start: Span,
        content: Content,
    ) -> Result<(), Fatal> {
        if open.len() >= MAX_DEPTH {
            return Err(Box::new(too_deep(start)));
        }
        if let Some(tag) = tag.filter(|tag| core_tag(tag).is_none()) {
            self.diagnostics.push(unknown_tag((&tag, false), "", start));
        }
        let before = self.weight;
        self.count(Weight { nodes: 1, bytes: 0 }, start)?;
        open.push(Open { start, end: start, anchor, before, content });
        Ok(())
    }

    fn close(&mut self, closed: Open, end: Span) -> Arc<Node> {
        // A block collection ends with its last item; only a flow one has a bracket of its own.
        let end = if end.start < end.end { end } else { closed.end };
        let kind = match closed.content {
            Content::Sequence(items) => Kind::Sequence(items),
            Content::Mapping { entries, .. } => {
                check_duplicates(&entries, &mut self.diagnostics);
                Kind::Mapping(merge(entries, &mut self.diagnostics))
            }
        };
        let kind = self.braces_without_dollar(closed.start.to(end)).unwrap_or(kind);
        let node = Arc::new(Node { span: closed.start.to(end), kind });
        self.remember(closed.anchor, &node, self.weight.since(closed.before));
        node
    }

    /// `{{ matrix.os }}` is a mapping within a mapping to YAML, and a slip to everyone else. It is
    /// reported once and then taken as the text it looks like.
    fn braces_without_dollar(&mut self, span: Span) -> Option<Kind> {
        let written = self.text.get(span.range()).filter(|text| text.starts_with("{{"))?;
        let message = "an expression starts with `${{`, not with `{{`";
        self.diagnostics.push(
            Diagnostic::error("yaml-syntax", span, message)
                .help(format!("write `${written}`, in quotes inside a list in brackets")),
        );
        let value = Value::string(written);
        Some(Kind::Scalar(Scalar { text: written.into(), style: Style::Plain, value }))
    }

    /// Whether a key is the inner half of `{{ … }}`, which is reported as a whole.
    fn is_inner_brace(&self, key: &Node) -> bool {
        let at = key.span.start as usize;
        at > 0 && self.text.get(at - 1..=at) == Some("{{")
    }

    fn attach(&mut self, parent: &mut Open, node: Arc<Node>, span: Span) {
        parent.end = if span.start < span.end { span } else { node.span };
        match &mut parent.content {
            Content::Sequence(items) => items.push(node),
            Content::Mapping { entries, key } => match key.take() {
                None => {
                    if !self.is_inner_brace(&node) {
                        check_key(&node, &mut self.diagnostics);
                    }
                    *key = Some(node);
                }
                Some(key) => {
                    entries.push(Entry { key, value: node, merged: false });
                }
            },
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<(&Tag, bool)>,
        span: Span,
    ) -> Result<Arc<Node>, Fatal> {
        let weight = Weight { nodes: 1, bytes: text.len() };
        self.count(weight, span)?;
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::SingleQuoted,
            ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        };
        let value = match tag {
            None if style == Style::Plain => resolve(text),
            None => Value::string(text),
            Some(tag) => tagged(tag, text, span).unwrap_or_else(|problem| {
                self.diagnostics.push(*problem);
                Value::string(text)
            }),
        };
        // The span of a block scalar runs on to the next token.
        let span = trim_end(span, self.text);
        let scalar = Scalar { text: text.into(), style, value };
        let node = Arc::new(Node { span, kind: Kind::Scalar(scalar) });
        self.remember(anchor, &node, weight);
        Ok(node)
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<Arc<Node>, Fatal> {
        let Some(anchored) = self.anchors.get(&id) else {
            // The anchor is still open: the alias would contain itself.
            let message = "an alias cannot stand inside the value its anchor names";
            return Err(Box::new(Diagnostic::error("yaml-syntax", span, message)));
        };
        let (node, weight) = (anchored.node.clone(), anchored.weight);
        self.count(weight, span)?;
        Ok(node)
    }

    fn remember(&mut self, anchor: usize, node: &Arc<Node>, weight: Weight) {
        if anchor != 0 {
            self.anchors.insert(anchor, Anchored { node: node.clone(), weight });
        }
    }

    fn count(&mut self, weight: Weight, span: Span) -> Result<(), Fatal> {
        self.weight.nodes = self.weight.nodes.saturating_add(weight.nodes);
        self.weight.bytes = self.weight.bytes.saturating_add(weight.bytes);
        let message = if self.weight.nodes > MAX_NODES {
            format!("the document has more than {MAX_NODES} nodes once aliases are expanded")
        } else if self.weight.bytes > MAX_TEXT_BYTES {
            let limit = MAX_TEXT_BYTES / (1024 * 1024);
            format!("the document has more than {limit} MiB of text once aliases are expanded")
        } else {
            return Ok(());
        };
        Err(Box::new(
            Diagnostic::error("too-many-nodes", span, message)
                .help("aliases that name values full of further aliases multiply"),
        ))
    }
}

fn too_deep(span: Span) -> Diagnostic {
    let message = format!("the document nests deeper than {MAX_DEPTH} levels");
    Diagnostic::error("too-deep", span, message)
}

fn second_document(span: Span) -> Diagnostic {
    Diagnostic::error("yaml-syntax", span, "the file contains a second YAML document")
        .help("keep one workflow per file, without `---` between parts")
}

fn trim_end(span: Span, text: &str) -> Span {
    let written = text.get(span.range()).unwrap_or_default();
    Span { end: span.start + u32::try_from(written.trim_ascii_end().len()).unwrap_or(0), ..span }
}

fn check_key(key: &Node, diagnostics: &mut Vec<Diagnostic>) {
    if key.is_null() && key.text() == Some("") {
        let message = "a key is missing before this `:`";
        diagnostics.push(Diagnostic::error("yaml-syntax", key.span, message));
    }
    if key.scalar().is_none() {
        let message = format!("a key must be a string, but this is {}", key.describe());
        diagnostics.push(Diagnostic::error("yaml-syntax", key.span, message));
    }
}

/// GitHub compares keys without regard to case, and so do we.
fn check_duplicates(entries: &[Entry], diagnostics: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<String, &Entry> = HashMap::with_capacity(entries.len());
    for entry in entries {
        let name = entry.name();
        let Some(first) = seen.insert(name.to_ascii_lowercase(), entry) else {
            continue;
        };
        let message = if first.name() == name {
            format!("the key `{name}` is defined twice")
        } else {
            format!("the keys `{}` and `{name}` differ only in case", first.name())
        };
        diagnostics.push(
            Diagnostic::error("duplicate-key", entry.key.span, message)
                .label("defined again here")
                .related(first.key.span, "first defined here")
                .help("remove one of them, or merge what they contain"),
        );
    }
}

/// Replaces `<<` by the entries of the mappings it names; keys written out win.
fn merge(entries: Vec<Entry>, diagnostics: &mut Vec<Diagnostic>) -> Vec<Entry> {
    let is_merge = |entry: &Entry| {
        entry.key.scalar().is_some_and(|key| key.style == Style::Plain && &*key.text == "<<")
    };
    if !entries.iter().any(is_merge) {
        return entries;
    }
    let (merges, mut result): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_merge);
    let mut known: HashSet<String> = result.iter().map(|own| own.name().to_owned()).collect();
    for entry in merges {
        let sources = match &entry.value.kind {
            Kind::Sequence(items) => items.clone(),
            _ => vec![entry.value.clone()],
        };
        for source in sources {
            if !source.is_mapping() {
                let message = format!("`<<` merges mappings, but this is {}", source.describe());
                diagnostics.push(Diagnostic::error("yaml-syntax", entry.key.span, message));
            }
            for merged in source.entries() {
                if known.insert(merged.name().to_owned()) {
                    result.push(Entry { merged: true, ..merged.clone() });
                }
            }
        }
    }
    result
}
