//! The jobs of a run in layers: each one right of what it needs, the legs of a matrix folded into one box.

use std::collections::{BTreeMap, BTreeSet};

use kiln_core::time::Timestamp;
use maud::{Markup, html};

use super::{job_address, list};
use crate::service::jobs::Seen;
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
/// How often columns are sorted by their neighbours.
const SWEEPS: usize = 4;

/// A job of the plan with all its legs.
struct Group<'a> {
    legs: Vec<&'a Seen>,
    needs: Vec<usize>,
    level: usize,
    row: usize,
}

impl Group<'_> {
    /// The legs of a matrix have a name in common.
    fn label(&self) -> &str {
        let name = self.legs[0].name.as_str();
        if self.legs.len() == 1 { name } else { name.split(" (").next().unwrap_or(name) }
    }

    fn look(&self) -> Look {
        Look::worst(self.legs.iter().map(|leg| Look::of_job(leg)))
    }

    fn ended(&self) -> Option<Timestamp> {
        self.legs.iter().map(|leg| leg.timings.ended).max().flatten()
    }

    fn corner(&self) -> (usize, usize) {
        (self.level * (WIDTH + ACROSS) + 1, self.row * (HEIGHT + DOWN) + 1)
    }
}

pub(super) fn show(found: &Attempt) -> Markup {
    let groups = groups(&found.jobs);
    if groups.len() > MOST {
        return list::show(found);
    }
    let columns = groups.iter().map(|group| group.level + 1).max().unwrap_or(1);
    let rows = groups.iter().map(|group| group.row + 1).max().unwrap_or(1);
    let (width, height) =
        (columns * (WIDTH + ACROSS) - ACROSS + 2, rows * (HEIGHT + DOWN) - DOWN + 2);
    let critical = critical(&groups, found.view.ended.is_some());
    html! {
        div.graph tabindex="0" role="group" aria-label="Graph of the jobs" {
            svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                @for (at, group) in groups.iter().enumerate() {
                    @for need in &group.needs {
                        @let on_path = critical.contains(&at) && critical.contains(need);
                        path.edge.critical[on_path] d=(curve(&groups[*need], group)) {}
                    }
                }
                @for (at, group) in groups.iter().enumerate() {
                    (node(found, group, critical.contains(&at)))
                }
            }
        }
        @for group in groups.iter().filter(|group| group.legs.len() > 1) { (legs(found, group)) }
    }
}

fn groups(jobs: &[Seen]) -> Vec<Group<'_>> {
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for job in jobs {
        let place = *places.entry(job.node).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group { legs: Vec::new(), needs: Vec::new(), level: 0, row: 0 });
        }
        groups[place].legs.push(job);
    }
    for group in &mut groups {
        let needs = group.legs[0].needs.iter().filter_map(|need| places.get(need).copied());
        group.needs = needs.collect();
    }
    place(&mut groups);
    groups
}

/// Levels by the longest way, rows by the mean of what a job needs.
fn place(groups: &mut [Group<'_>]) {
    // As many rounds as there are levels; needs have no cycles, and the bound holds if they had.
    for _ in 0..groups.len() {
        let levels: Vec<usize> = groups
            .iter()
            .map(|group| group.needs.iter().map(|need| groups[*need].level + 1).max().unwrap_or(0))
            .collect();
        let settled = groups.iter().zip(&levels).all(|(group, level)| group.level == *level);
        for (group, level) in groups.iter_mut().zip(levels) {
            group.level = level;
        }
        if settled {
            break;
        }
    }
    shorten(groups);
    let deepest = groups.iter().map(|group| group.level).max().unwrap_or(0);
    for _ in 0..SWEEPS {
        for level in 0..=deepest {
            sort_column(groups, level);
        }
    }
}

/// A line that another way says already is left out.
fn shorten(groups: &mut [Group<'_>]) {
    let reach = |from: usize, groups: &[Group<'_>]| {
        let (mut seen, mut open) = (BTreeSet::new(), groups[from].needs.clone());
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(&groups[next].needs);
            }
        }
        seen
    };
    let above: Vec<BTreeSet<usize>> = (0..groups.len()).map(|at| reach(at, groups)).collect();
    for group in groups {
        let needs = group.needs.clone();
        group.needs.retain(|need| !needs.iter().any(|other| above[*other].contains(need)));
    }
}

fn sort_column(groups: &mut [Group<'_>], level: usize) {
    let mut column: Vec<usize> =
        (0..groups.len()).filter(|at| groups[*at].level == level).collect();
    let mean = |at: &usize| {
        let rows: Vec<usize> = groups[*at].needs.iter().map(|need| groups[*need].row).collect();
        // In thousandths, so that no floating point is sorted.
        if rows.is_empty() { *at * 1_000 } else { rows.iter().sum::<usize>() * 1_000 / rows.len() }
    };
    column.sort_by_key(|at| (mean(at), *at));
    for (row, at) in column.into_iter().enumerate() {
        groups[at].row = row;
    }
}

/// The jobs without which the run would have ended earlier, once it has.
fn critical(groups: &[Group<'_>], over: bool) -> BTreeSet<usize> {
    let mut path = BTreeSet::new();
    let latest = |of: &mut dyn Iterator<Item = usize>| {
        of.filter_map(|at| Some((groups[at].ended()?, at))).max().map(|(_, at)| at)
    };
    let mut next = latest(&mut (0..groups.len())).filter(|_| over && groups.len() > 2);
    while let Some(at) = next {
        path.insert(at);
        next = latest(&mut groups[at].needs.iter().copied()).filter(|need| !path.contains(need));
    }
    path
}

fn curve(from: &Group<'_>, to: &Group<'_>) -> String {
    let ((left, top), (right, low)) = (from.corner(), to.corner());
    let (x1, y1, x2, y2) = (left + WIDTH, top + HEIGHT / 2, right, low + HEIGHT / 2);
    let bend = (x2 - x1.min(x2)) / 2;
    format!("M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}", x1 + bend, x2 - bend)
}

fn node(found: &Attempt, group: &Group<'_>, critical: bool) -> Markup {
    let (x, y) = group.corner();
    let look = group.look();
    let single = group.legs.len() == 1;
    let href = match group.legs[0].id {
        Some(id) if single => Some(job_address(found, id)),
        _ if !single => Some(format!("#matrix-{}", group.legs[0].node)),
        _ => None,
    };
    let label = short(group.label());
    let inner = html! {
        title { (group.label()) ": " (look.word()) ". " (group.legs[0].reason) }
        rect x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="8" {}
        svg class={ "status " (look.class()) } x=(x + 12) y=(y + 18) width="16" height="16" viewBox="0 0 16 16" {
            (look.shape())
        }
        text.name x=(x + 38) y=(y + 22) { (label) }
        text.more x=(x + 38) y=(y + 40) { (below(group)) }
    };
    html! {
        g class={ "node " (look.class()) } .critical[critical] data-entry="" {
            @match href {
                Some(href) => a href=(href) data-open="" aria-label={ (group.label()) ", " (look.word()) } { (inner) },
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
    if group.legs.len() > 1 {
        let looks = group.legs.iter().map(|leg| Look::of_job(leg));
        let done = looks.clone().filter(|look| !look.is_open()).count();
        let bad = looks.filter(|look| look.is_bad()).count();
        let total = group.legs.len();
        return match (bad, done == total) {
            (0, true) => format!("{total} jobs"),
            (0, false) => format!("{done} of {total} jobs done"),
            (bad, _) => format!("{bad} of {total} jobs failed"),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(needs: &[&[usize]]) -> Vec<(usize, usize)> {
        let mut groups: Vec<Group<'_>> = needs
            .iter()
            .map(|needs| Group { legs: Vec::new(), needs: needs.to_vec(), level: 0, row: 0 })
            .collect();
        place(&mut groups);
        groups.iter().map(|group| (group.level, group.row)).collect()
    }

    #[test]
    fn a_job_is_right_of_what_it_needs() {
        assert_eq!(levels(&[&[], &[0], &[0], &[1, 2]]), [(0, 0), (1, 0), (1, 1), (2, 0)]);
        assert_eq!(levels(&[&[1], &[]]), [(1, 0), (0, 0)]);
        // Needs in a circle cannot be; they end all the same.
        assert_eq!(levels(&[&[1], &[0]]).len(), 2);
    }

    #[test]
    fn what_another_way_says_already_is_not_drawn() {
        let mut groups: Vec<Group<'_>> = [vec![], vec![0], vec![0, 1]]
            .into_iter()
            .map(|needs| Group { legs: Vec::new(), needs, level: 0, row: 0 })
            .collect();
        shorten(&mut groups);
        assert_eq!(groups[2].needs, [1]);
    }

    #[test]
    fn long_names_are_cut_with_a_sign() {
        assert_eq!(short("build"), "build");
        assert_eq!(short(&"ä".repeat(40)).chars().count(), LETTERS);
    }
}
