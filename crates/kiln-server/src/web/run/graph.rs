//! The jobs of a run in layers: each one right of what it needs, the legs of a matrix folded into one box.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::groups::{self, CRITICAL, Group};
use super::layers::{Layers, Vertex};
use super::{job_address, list};
use crate::service::runs::Attempt;
use crate::web::parts::{self, Look};

const WIDTH: usize = 220;
const HEIGHT: usize = 52;
const ACROSS: usize = 56;
const DOWN: usize = 14;
/// More boxes than this are no picture any more.
const MOST: usize = 150;
/// How many letters fit into a box.
const LETTERS: usize = 23;

pub(super) fn show(found: &Attempt) -> Markup {
    let groups = groups::groups(&found.jobs);
    if groups.len() > MOST {
        return list::show(found);
    }
    let layers = Layers::new(groups.iter().map(|group| group.needs.clone()).collect());
    let (columns, rows) = layers.size();
    let width = columns * (WIDTH + ACROSS) - ACROSS + 2;
    let height = rows * (HEIGHT + DOWN) - DOWN + 2;
    let critical = groups::critical(&groups, found.view.ended.is_some());
    html! {
        div.graph tabindex="0" role="group" aria-label="Graph of the jobs" {
            svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                @for vertex in &layers.vertices { (edges(&layers, vertex, &critical)) }
                @for (at, group) in groups.iter().enumerate() {
                    (node(found, group, corner(&layers.vertices[at]), critical.contains(&at)))
                }
            }
        }
        @if !critical.is_empty() { (groups::legend()) }
        @for group in groups.iter().filter(|group| group.is_matrix()) { (legs(found, group)) }
    }
}

fn corner(vertex: &Vertex) -> (usize, usize) {
    (vertex.level * (WIDTH + ACROSS) + 1, vertex.row * (HEIGHT + DOWN) + 1)
}

/// The lines that lead to a vertex. One that passes a column goes straight through it.
fn edges(layers: &Layers, vertex: &Vertex, critical: &BTreeSet<usize>) -> Markup {
    let (x, y) = corner(vertex);
    let is_critical = |between: &[usize]| between.iter().all(|end| critical.contains(end));
    html! {
        @for (need, between) in &vertex.needs {
            path.edge.critical[is_critical(between)] d=(curve(corner(&layers.vertices[*need]), (x, y))) {}
        }
        @if let Some((_, between)) = vertex.needs.first().filter(|_| vertex.is_bend) {
            path.edge.critical[is_critical(between)] d={ "M" (x) " " (y + HEIGHT / 2) "h" (WIDTH) } {}
        }
    }
}

fn curve((left, top): (usize, usize), (right, low): (usize, usize)) -> String {
    let (x1, y1, x2, y2) = (left + WIDTH, top + HEIGHT / 2, right, low + HEIGHT / 2);
    let bend = (x2 - x1.min(x2)) / 2;
    format!("M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}", x1 + bend, x2 - bend)
}

fn node(found: &Attempt, group: &Group<'_>, (x, y): (usize, usize), critical: bool) -> Markup {
    let look = group.look();
    let single = !group.is_matrix();
    let href = match group.legs[0].id {
        Some(id) if single => Some(job_address(found, id)),
        _ if !single => Some(format!("#matrix-{}", group.legs[0].node)),
        _ => None,
    };
    let label = short(group.label());
    let inner = html! {
        title {
            (group.label()) ": " (look.word()) ". " (list::reason(group.speaker()))
            @if critical { " On the " (CRITICAL) "." }
        }
        rect x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="8" {}
        svg class={ "status " (look.class()) } x=(x + 12) y=(y + 18) width="16" height="16" viewBox="0 0 16 16" {
            (look.shape())
        }
        text.name x=(x + 38) y=(y + 22) { (label) }
        text.more x=(x + 38) y=(y + 40) { (below(group)) }
        @if critical { text.path x=(x + WIDTH - 16) y=(y + 18) aria-hidden="true" { "◆" } }
    };
    html! {
        g.node.(look.class()).critical[critical] data-entry="" {
            @match href {
                Some(href) => a href=(href) data-open="" { (inner) },
                None => (inner),
            }
        }
    }
}

fn short(name: &str) -> String {
    let count = name.chars().count();
    if count <= LETTERS {
        return name.to_owned();
    }
    let start: String = name.chars().take(LETTERS - 1).collect();
    format!("{start}…")
}

/// The second line of a box: how long it took, or how many legs are done.
fn below(group: &Group<'_>) -> String {
    let leg = group.legs[0];
    if group.is_matrix() {
        return group.count();
    }
    let took = parts::took(leg.timings.started.or(leg.timings.claimed), leg.timings.ended);
    match took {
        Some(took) => format!("{} · {}", group.look().word(), parts::length(took)),
        None => group.look().word().to_owned(),
    }
}

/// The legs of a matrix, below the graph.
fn legs(found: &Attempt, group: &Group<'_>) -> Markup {
    let open = group.look().is_bad();
    html! {
        details.matrix id={ "matrix-" (group.legs[0].node) } open[open] {
            summary { (group.label()) " " span.number { (group.legs.len()) } }
            ul.legs {
                @for leg in &group.legs {
                    li data-entry="" {
                        (Look::of_job(leg).icon())
                        @match leg.id {
                            Some(id) => a href=(job_address(found, id)) data-open="" { (leg.name) },
                            None => span { (leg.name) },
                        }
                        (parts::clocked(leg.timings.started.or(leg.timings.claimed), leg.timings.ended))
                    }
                }
            }
        }
    }
}
