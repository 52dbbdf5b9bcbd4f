//! A self-contained picture.

use std::fmt::Write as _;

use super::canvas::char_width;
use super::layout::Layers;
use super::{Graph, Node};

/// Pixels around the whole picture.
const MARGIN: i32 = 24;
const BOX_HEIGHT: i32 = 52;
const BOX_PADDING: i32 = 16;
/// Between boxes of a column, and between columns.
const ROW_GAP: i32 = 20;
const COLUMN_GAP: i32 = 64;
/// Room for the name above the jobs of a called workflow.
const HEADER: i32 = 46;
/// A line that only passes a column.
const BEND_HEIGHT: i32 = 4;
const TITLE_HEIGHT: i32 = 40;

const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
.page{fill:#ffffff}.title{font-size:17px;font-weight:600;fill:#1f2328}\
.job{fill:#f6f8fa;stroke:#d1d9e0}.call{fill:#ffffff;stroke:#d1d9e0;stroke-dasharray:5 4}\
.name{font-size:14px;font-weight:600;fill:#1f2328}.detail{font-size:12px;fill:#59636e}\
.pill{fill:#ddf4ff;stroke:#54aeff}.times{font-size:11px;font-weight:600;fill:#0550ae;text-anchor:middle}\
.line{fill:none;stroke:#8c959f;stroke-width:1.5}.tip{fill:#8c959f}\
@media (prefers-color-scheme:dark){.page{fill:#0d1117}.title,.name{fill:#f0f6fc}\
.job{fill:#161b22;stroke:#3d444d}.call{fill:#0d1117;stroke:#3d444d}.detail{fill:#9198a1}\
.pill{fill:#121d2f;stroke:#1f6feb}.times{fill:#79c0ff}.line{stroke:#656c76}.tip{fill:#656c76}}";

pub(crate) fn draw(graph: &Graph) -> String {
    let picture = Picture::new(graph);
    let width = (picture.width + 2 * MARGIN).max(text_width(&graph.title, 17) + 2 * MARGIN);
    let height = picture.height + 2 * MARGIN + TITLE_HEIGHT;
    let title = escape(&graph.title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Jobs of {title}\">\n\
         <style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{title}</text>\n",
        MARGIN + 14
    );
    picture.emit(graph, MARGIN, MARGIN + TITLE_HEIGHT, &mut out);
    out.push_str("</svg>\n");
    out
}

/// Where everything in a graph goes, counted from its own corner.
struct Picture {
    width: i32,
    height: i32,
    boxes: Vec<Frame>,
    lines: Vec<String>,
    inner: Vec<Option<Picture>>,
}

#[derive(Clone, Copy)]
struct Frame {
    x: i32,
    y: i32,
    width: i32,
    height: i32,
}

impl Frame {
    fn middle(self) -> i32 {
        self.y + self.height / 2
    }
}

impl Picture {
    fn new(graph: &Graph) -> Self {
        let inner: Vec<_> =
            graph.nodes.iter().map(|node| node.inner.as_ref().map(Self::new)).collect();
        let layers = Layers::new(graph);
        let size = |vertex: usize| match graph.nodes.get(vertex) {
            Some(node) => size(node, inner[vertex].as_ref()),
            None => (0, BEND_HEIGHT),
        };
        let tops = layers.tops(|vertex| size(vertex).1 + ROW_GAP, |vertex| size(vertex).1 / 2);
        let mut frames = vec![Frame { x: 0, y: 0, width: 0, height: 0 }; layers.vertices()];
        let mut x = 0;
        for column in &layers.columns {
            // Plain boxes are equally wide; a called workflow takes what its jobs need.
            let plain = |vertex: &usize| inner.get(*vertex).is_some_and(Option::is_none);
            let plain_width =
                column.iter().copied().filter(plain).map(|vertex| size(vertex).0).max();
            let mut widest = 0;
            for &vertex in column {
                let (own, height) = size(vertex);
                let width = plain_width.filter(|_| plain(&vertex)).unwrap_or(own);
                frames[vertex] = Frame { x, y: tops[vertex], width, height };
                widest = widest.max(width);
            }
            x += widest + COLUMN_GAP;
        }
        Self {
            width: (x - COLUMN_GAP).max(0),
            height: frames.iter().map(|frame| frame.y + frame.height).max().unwrap_or(0),
            lines: lines(&layers, &frames),
            boxes: frames.into_iter().take(graph.nodes.len()).collect(),
            inner,
        }
    }

    fn emit(&self, graph: &Graph, x: i32, y: i32, out: &mut String) {
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        for line in &self.lines {
            let _ = writeln!(out, "{line}");
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            let frame = self.boxes[index];
            emit_box(node, frame, out);
            if let (Some(inner), Some(graph)) = (&self.inner[index], &node.inner) {
                let left = frame.x + (frame.width - inner.width) / 2;
                inner.emit(graph, left, frame.y + HEADER + BOX_PADDING / 2, out);
            }
        }
        out.push_str("</g>\n");
    }
}

/// Width and height of a box.
fn size(node: &Node, inner: Option<&Picture>) -> (i32, i32) {
    let pill = if node.times.is_empty() { 0 } else { pill_width(node) + 12 };
    let text = (text_width(&node.label, 14) + pill).max(text_width(&node.detail, 12));
    match inner {
        Some(inner) => {
            (text.max(inner.width) + 2 * BOX_PADDING, HEADER + inner.height + BOX_PADDING * 3 / 2)
        }
        None => (text + 2 * BOX_PADDING, BOX_HEIGHT),
    }
}

fn emit_box(node: &Node, frame: Frame, out: &mut String) {
    let Frame { x, y, width, height } = frame;
    let class = if node.inner.is_some() { "call" } else { "job" };
    let left = x + BOX_PADDING;
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"name\" x=\"{left}\" y=\"{}\">{}</text>\n\
         <text class=\"detail\" x=\"{left}\" y=\"{}\">{}</text>",
        y + 22,
        escape(&node.label),
        y + 40,
        escape(&node.detail)
    );
    if !node.times.is_empty() {
        let pill = pill_width(node);
        let from = x + width - BOX_PADDING + 4 - pill;
        let _ = writeln!(
            out,
            "<rect class=\"pill\" x=\"{from}\" y=\"{}\" width=\"{pill}\" height=\"18\" rx=\"9\"/>\n\
             <text class=\"times\" x=\"{}\" y=\"{}\">{}</text>",
            y + 8,
            from + pill / 2,
            y + 21,
            escape(&node.times)
        );
    }
}

/// One path for each line between columns, with an arrowhead where it reaches a box.
fn lines(layers: &Layers, frames: &[Frame]) -> Vec<String> {
    let mut lines = Vec::new();
    for column in &layers.columns {
        let right = column.iter().map(|&vertex| frames[vertex].x + frames[vertex].width).max();
        for (&from, right) in column.iter().zip(std::iter::repeat(right.unwrap_or(0))) {
            let y = frames[from].middle();
            let own = frames[from].x + frames[from].width;
            if own < right && !layers.after[from].is_empty() {
                lines.push(format!("<path class=\"line\" d=\"M{own} {y}H{right}\"/>"));
            }
            for &to in &layers.after[from] {
                let (x, end) = (frames[to].x, frames[to].middle());
                let middle = i32::midpoint(right, x);
                if layers.is_bend(to) {
                    let curve = format!("M{right} {y}C{middle} {y} {middle} {end} {x} {end}");
                    lines.push(format!("<path class=\"line\" d=\"{curve}\"/>"));
                } else {
                    let tip = x - 7;
                    let curve = format!("M{right} {y}C{middle} {y} {middle} {end} {tip} {end}");
                    lines.push(format!(
                        "<path class=\"line\" d=\"{curve}\"/>\
                         <path class=\"tip\" d=\"M{x} {end}l-8 -4v8z\"/>"
                    ));
                }
            }
        }
    }
    lines
}

fn pill_width(node: &Node) -> i32 {
    text_width(&node.times, 11) + 14
}

/// An estimate on the wide side: no font is at hand to measure with.
fn text_width(text: &str, size: i32) -> i32 {
    let tenths = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '!' => 4,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 10,
        c if char_width(c) == 2 => 11,
        c if c.is_uppercase() => 8,
        _ => 7,
    };
    let total: i32 = text.chars().map(tenths).sum();
    total * size / 10
}

/// Text for XML. What XML has no way to write is left out.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;

    #[test]
    fn the_picture_holds_every_job_and_escapes_their_names() {
        let svg = draw(&Graph::of(&sample()));
        for text in ["lint", "compile", "package", "×3", "×?", "docs"] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}");
        }
        assert!(svg.contains(">Release &amp; &quot;publish&quot; &lt;it&gt;</text>"));
        assert!(svg.contains("prefers-color-scheme"));
    }

    #[test]
    fn every_element_is_closed() {
        let svg = draw(&Graph::of(&sample()));
        for name in ["svg", "g", "text", "style"] {
            let opened = svg.matches(&format!("<{name} ")).count()
                + svg.matches(&format!("<{name}>")).count();
            assert_eq!(opened, svg.matches(&format!("</{name}>")).count(), "{name}");
        }
        for name in ["rect", "path"] {
            let opened = svg.matches(&format!("<{name} ")).count();
            assert!(opened > 0 && svg.matches("/>").count() >= opened, "{name}");
        }
    }

    #[test]
    fn boxes_do_not_overlap() {
        let graph = Graph::of(&sample());
        let picture = Picture::new(&graph);
        let apart = |a: &Frame, b: &Frame| {
            a.x + a.width <= b.x
                || b.x + b.width <= a.x
                || a.y + a.height <= b.y
                || b.y + b.height <= a.y
        };
        for (index, a) in picture.boxes.iter().enumerate() {
            assert!(picture.boxes[index + 1..].iter().all(|b| apart(a, b)));
            assert!(a.x + a.width <= picture.width && a.y + a.height <= picture.height);
        }
    }

    #[test]
    fn what_xml_cannot_hold_is_left_out() {
        assert_eq!(escape("a\u{0}b\u{1b}c\u{ffff}<&\">"), "abc&lt;&amp;&quot;&gt;");
    }
}
