//! Boxes and lines for a terminal.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::canvas::{Canvas, width};
use super::layout::Layers;
use super::{Graph, Node};

/// Rows of a box: border, label, detail, border.
const BOX_ROWS: i32 = 4;

/// The row of a box at which lines begin and end.
const PORT: i32 = 1;

pub(crate) fn draw(graph: &Graph) -> String {
    let mut out = format!("{}\n\n{}", graph.title, picture(graph));
    for node in &graph.nodes {
        if let Some(inner) = &node.inner {
            let _ = write!(out, "\n{} calls {}", node.label, draw(inner));
        }
    }
    out
}

/// The boxes and lines alone.
pub(crate) fn picture(graph: &Graph) -> String {
    let layers = Layers::new(graph);
    let rows = |vertex: usize| if layers.is_bend(vertex) { 1 } else { BOX_ROWS };
    let port = |vertex: usize| if layers.is_bend(vertex) { 0 } else { PORT };
    let tops = layers.tops(rows, port);
    let drawing = Drawing {
        graph,
        layers: &layers,
        ports: (0..layers.vertices()).map(|vertex| tops[vertex] + port(vertex)).collect(),
    };
    drawing.render()
}

/// Columns of characters that one column of boxes takes.
struct Column {
    left: i32,
    right: i32,
}

struct Drawing<'a> {
    graph: &'a Graph,
    layers: &'a Layers,
    /// The row of each vertex at which lines begin and end.
    ports: Vec<i32>,
}

impl Drawing<'_> {
    fn render(&self) -> String {
        let mut canvas = Canvas::default();
        let mut left = 0;
        for (index, column) in self.layers.columns.iter().enumerate() {
            let boxes = column.iter().filter_map(|&vertex| self.graph.nodes.get(vertex));
            let inside = boxes.map(|node| width(&label(node)).max(width(&node.detail))).max();
            let place = Column { left, right: left + inside.unwrap_or(0) + 3 };
            left = place.right + 1 + self.lines(index, &place, &mut canvas);
            for &vertex in column {
                self.vertex(vertex, &place, &mut canvas);
            }
        }
        canvas.finish()
    }

    /// Draws the lines to the next column and gives the room they take.
    fn lines(&self, column: usize, place: &Column, canvas: &mut Canvas) -> i32 {
        let channels = self.channels(column);
        let count = channels.values().max().map_or(0, |last| last + 1);
        let room = (2 * count + 2).max(3);
        let end = place.right + room;
        for &from in &self.layers.columns[column] {
            let turn = channels.get(&from).map_or(place.right + 1, |at| place.right + 2 + 2 * at);
            let start = self.ports[from];
            for &to in &self.layers.after[from] {
                let goal = self.ports[to];
                canvas.horizontal(start, place.right, turn);
                canvas.vertical(turn, start, goal);
                canvas.horizontal(goal, turn, end + 1);
                canvas.joint(start, turn);
                // Lines to the same box may share their last piece, but only if nobody can take
                // the one for the start of the other.
                if goal != start && self.layers.after[from].len() > 1 {
                    canvas.turn_right(goal, turn);
                } else {
                    canvas.joint(goal, turn);
                }
                if !self.layers.is_bend(to) {
                    canvas.put(goal, end, '▶');
                }
            }
        }
        room
    }

    /// Where the lines of each vertex of a column go up or down, counted from the left. Two share a
    /// channel when they do not meet in it. A line that arrives in the row where another vertex
    /// starts must turn right of where that one does, or it would seem to come from there.
    fn channels(&self, column: usize) -> HashMap<usize, i32> {
        let mut waiting: Vec<usize> = self.layers.columns[column].clone();
        waiting.retain(|&from| self.turns(from));
        let mut taken: Vec<(i32, (i32, i32))> = Vec::new();
        let mut channels = HashMap::new();
        while !waiting.is_empty() {
            let ready = |&from: &usize| waiting.iter().all(|&other| !self.arrives_at(from, other));
            let next = waiting.iter().position(ready).unwrap_or(0);
            let from = waiting.remove(next);
            let (top, bottom) = self.extent(from);
            let earlier = channels.iter().filter(|(other, _)| self.arrives_at(from, **other));
            let least = earlier.map(|(_, channel)| channel + 1).max().unwrap_or(0);
            let meets = |channel: i32| {
                let mut others = taken.iter().filter(|(other, _)| *other == channel);
                others.any(|(_, (first, last))| top <= *last && *first <= bottom)
            };
            // One of as many channels as there are others is always free.
            let most = least + i32::try_from(taken.len()).unwrap_or(0);
            let channel = (least..most).find(|&channel| !meets(channel)).unwrap_or(most);
            taken.push((channel, (top, bottom)));
            channels.insert(from, channel);
        }
        channels
    }

    /// Whether any line of a vertex leaves its row.
    fn turns(&self, from: usize) -> bool {
        let (top, bottom) = self.extent(from);
        top != bottom
    }

    /// The rows between which the lines of a vertex run.
    fn extent(&self, from: usize) -> (i32, i32) {
        let start = self.ports[from];
        let ends = self.layers.after[from].iter().map(|&to| self.ports[to]);
        ends.fold((start, start), |(top, bottom), end| (top.min(end), bottom.max(end)))
    }

    /// Whether a line of one vertex ends in the row in which the other, that leads elsewhere, starts.
    fn arrives_at(&self, from: usize, other: usize) -> bool {
        let after = &self.layers.after;
        from != other
            && after[from]
                .iter()
                .any(|to| self.ports[*to] == self.ports[other] && !after[other].contains(to))
    }

    fn vertex(&self, vertex: usize, place: &Column, canvas: &mut Canvas) {
        let row = self.ports[vertex];
        let Some(node) = self.graph.nodes.get(vertex) else {
            canvas.horizontal(row, place.left - 1, place.right);
            return;
        };
        let top = row - PORT;
        let bottom = top + BOX_ROWS - 1;
        for x in place.left + 1..place.right {
            canvas.put(top, x, '─');
            canvas.put(bottom, x, '─');
        }
        for y in top + 1..bottom {
            canvas.put(y, place.left, '│');
            canvas.put(y, place.right, '│');
            (place.left + 1..place.right).for_each(|x| canvas.put(y, x, ' '));
        }
        canvas.put(top, place.left, '╭');
        canvas.put(top, place.right, '╮');
        canvas.put(bottom, place.left, '╰');
        canvas.put(bottom, place.right, '╯');
        canvas.write(row, place.left + 2, &label(node));
        canvas.write(row + 1, place.left + 2, &node.detail);
        if !self.layers.after[vertex].is_empty() {
            canvas.put(row, place.right, '├');
        }
    }
}

fn label(node: &Node) -> String {
    let space = if node.times.is_empty() { "" } else { " " };
    format!("{}{space}{}", node.label, node.times)
}

#[cfg(test)]
mod tests {
    use kiln_core::plan::Plan;

    use super::*;
    use crate::testing::{job, sample, workflow};

    #[test]
    fn a_workflow_is_drawn_from_left_to_right() {
        let expect = "\
CI

                     ╭───────────────────────────────╮
                  ╭─▶│ test ×3                       ├─╮
╭───────────────╮ │  │ ${{ matrix.os }}              │ ╰────────────────────╮    ╭──────────────────────────╮
│ lint          ├─┤  ╰───────────────────────────────╯    ╭───────────────╮ ╰─┬─▶│ Release & \"publish\" <it> │
│ ubuntu-latest │ │  ╭───────────────────────────────╮ ╭─▶│ e2e ×?        ├───╯  │ ubuntu-latest            │
╰───────────────╯ ╰─▶│ build                         ├─╯  │ ubuntu-latest │      ╰──────────────────────────╯
╭───────────────╮    │ ./.github/workflows/build.yml │    ╰───────────────╯
│ docs          │    ╰───────────────────────────────╯
│ ubuntu-latest │
╰───────────────╯

build calls Build

╭───────────────╮   ╭───────────────╮
│ compile       ├──▶│ package       │
│ ubuntu-latest │   │ ubuntu-latest │
╰───────────────╯   ╰───────────────╯
";
        assert_eq!(draw(&Graph::of(&sample())), expect);
    }

    fn drawn(needs: &[&[usize]]) -> String {
        let jobs = needs.iter().enumerate().map(|(index, needs)| {
            let mut job = job(&format!("{index}"), needs);
            crate::testing::steps(&mut job).runs_on = crate::testing::literal("x");
            job
        });
        let plan = Plan { workflows: vec![workflow("a.yml", "A", jobs.collect())] };
        picture(&Graph::of(&plan))
    }

    #[test]
    fn lines_to_the_same_box_do_not_seem_to_come_from_each_other() {
        let expect = "
           ╭───╮
╭───╮ ╭─╭─▶│ 2 │
│ 0 ├─┤ │  │ x │
│ x │ │ │  ╰───╯
╰───╯ │ │  ╭───╮
╭───╮ ╰─├─▶│ 3 │
│ 1 ├───┤  │ x │
│ x │   │  ╰───╯
╰───╯   │  ╭───╮
        ╰─▶│ 4 │
           │ x │
           ╰───╯
";
        assert_eq!(format!("\n{}", drawn(&[&[], &[], &[0, 1], &[0, 1], &[1]])), expect);
    }

    #[test]
    fn a_line_that_joins_another_does_not_seem_to_start_there() {
        let expect = "\
╭───╮        ╭───╮
│ 0 ├─╭─┬───▶│ 3 │
│ x │ │ │    │ x │
╰───╯ │ │    ╰───╯
╭───╮ │ │    ╭───╮
│ 1 ├─┤ ╰─╭─▶│ 4 │
│ x │ │   │  │ x │
╰───╯ │   │  ╰───╯
╭───╮ │   │  ╭───╮
│ 2 ├─╰───┴─▶│ 5 │
│ x │        │ x │
╰───╯        ╰───╯
";
        assert_eq!(drawn(&[&[], &[], &[], &[0, 1], &[0, 2], &[1, 2]]), expect);
    }

    #[test]
    fn wide_characters_keep_the_boxes_square() {
        let mut wide = job("x", &[]);
        wide.id = "構築".into();
        let plan = Plan { workflows: vec![workflow("a.yml", "A", vec![wide, job("b", &[0])])] };
        let expect = "\
A

╭───────────────╮   ╭───────────────╮
│ 構築          ├──▶│ b             │
│ ubuntu-latest │   │ ubuntu-latest │
╰───────────────╯   ╰───────────────╯
";
        assert_eq!(draw(&Graph::of(&plan)), expect);
    }

    #[test]
    fn a_workflow_without_jobs_is_only_its_title() {
        let plan = Plan { workflows: vec![workflow("a.yml", "A", Vec::new())] };
        assert_eq!(draw(&Graph::of(&plan)), "A\n\n");
    }
}
