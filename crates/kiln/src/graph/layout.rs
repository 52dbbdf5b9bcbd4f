//! Layered layout: columns from left to right, few crossings, straight lines where possible.
//!
//! The usual four steps: levels by the longest path, a bend in each column that a long line passes,
//! order within columns by the mean place of neighbours, and coordinates that pull neighbours level.

use std::collections::{BTreeMap, HashMap};

use super::Graph;

/// How often the columns are gone through, forwards and backwards.
const SWEEPS: usize = 8;

/// A graph whose lines only lead from one column to the next. The first vertices are the nodes of
/// the graph, those after them are bends of long lines.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) columns: Vec<Vec<usize>>,
    /// From each vertex to vertices of the next column.
    pub(super) after: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
    nodes: usize,
}

impl Layers {
    pub(super) fn new(graph: &Graph) -> Self {
        let levels = graph.levels();
        let nodes = graph.nodes.len();
        let count = levels.iter().max().map_or(0, |last| last + 1);
        let mut layers = Self {
            columns: vec![Vec::new(); count],
            after: vec![Vec::new(); nodes],
            before: vec![Vec::new(); nodes],
            nodes,
        };
        for (node, &level) in levels.iter().enumerate() {
            layers.columns[level].push(node);
        }
        let mut bends = HashMap::new();
        for (to, needs) in reduced(graph).iter().enumerate() {
            for &from in needs {
                layers.link(from, to, &levels, &mut bends);
            }
        }
        layers.order();
        layers
    }

    pub(super) fn is_bend(&self, vertex: usize) -> bool {
        vertex >= self.nodes
    }

    pub(super) fn vertices(&self) -> usize {
        self.after.len()
    }

    /// Links two nodes; lines from the same node share their bends until they part.
    fn link(
        &mut self,
        from: usize,
        to: usize,
        levels: &[usize],
        bends: &mut HashMap<(usize, usize), usize>,
    ) {
        let mut last = from;
        for level in levels[from] + 1..levels[to] {
            let next = self.after.len();
            let bend = *bends.entry((from, level)).or_insert(next);
            if bend == next {
                self.after.push(Vec::new());
                self.before.push(Vec::new());
                self.columns[level].push(bend);
                self.join(last, bend);
            }
            last = bend;
        }
        self.join(last, to);
    }

    fn join(&mut self, from: usize, to: usize) {
        self.after[from].push(to);
        self.before[to].push(from);
    }

    /// Keeps the order with the fewest crossings that the sweeps come upon.
    fn order(&mut self) {
        let mut best = self.columns.clone();
        let mut fewest = self.crossings();
        for sweep in 0..SWEEPS {
            if fewest == 0 {
                break;
            }
            let forwards = sweep % 2 == 0;
            for step in 1..self.columns.len() {
                let column = if forwards { step } else { self.columns.len() - 1 - step };
                let fixed = if forwards { column - 1 } else { column + 1 };
                let place = places(&self.columns[fixed]);
                let near = if forwards { &self.before } else { &self.after };
                sort_by_mean(&mut self.columns[column], near, &place);
            }
            let crossings = self.crossings();
            if crossings < fewest {
                fewest = crossings;
                best.clone_from(&self.columns);
            }
        }
        self.columns = best;
    }

    fn crossings(&self) -> usize {
        let pairs = self.columns.iter().zip(self.columns.iter().skip(1));
        pairs.map(|(left, right)| self.crossings_between(left, right)).sum()
    }

    /// Goes through the lines from the top; each crosses the earlier ones that end further down.
    fn crossings_between(&self, left: &[usize], right: &[usize]) -> usize {
        let place = places(right);
        let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
        let mut crossings = 0;
        for from in left {
            let to: Vec<_> = self.after[*from].iter().map(|to| place[to]).collect();
            for end in &to {
                crossings += ends.range(end + 1..).map(|(_, count)| count).sum::<usize>();
            }
            for end in to {
                *ends.entry(end).or_default() += 1;
            }
        }
        crossings
    }

    /// The top of each vertex, so that nothing in a column overlaps and lines are as straight as
    /// that allows. `height` is how much room a vertex takes with the gap below it, `port` where
    /// its lines end, counted from its top.
    pub(super) fn tops(
        &self,
        height: impl Fn(usize) -> i32,
        port: impl Fn(usize) -> i32,
    ) -> Vec<i32> {
        let mut tops = vec![0; self.vertices()];
        for column in &self.columns {
            let mut at = 0;
            for &vertex in column {
                tops[vertex] = at;
                at += height(vertex);
            }
        }
        let last = self.columns.len();
        for sweep in 0..SWEEPS {
            for step in 0..last {
                let forwards = sweep % 2 == 0;
                let column = &self.columns[if forwards { step } else { last - 1 - step }];
                let near = if forwards { &self.before } else { &self.after };
                let wish = |vertex: usize| match near[vertex].as_slice() {
                    [] => f64::from(tops[vertex]),
                    near => {
                        let ports = near.iter().map(|&other| f64::from(tops[other] + port(other)));
                        mean(ports) - f64::from(port(vertex))
                    }
                };
                let wishes: Vec<f64> = column.iter().map(|&vertex| wish(vertex)).collect();
                let heights: Vec<i32> = column.iter().map(|&vertex| height(vertex)).collect();
                for (&vertex, top) in column.iter().zip(settle(&wishes, &heights)) {
                    tops[vertex] = top;
                }
            }
        }
        let highest = tops.iter().copied().min().unwrap_or(0);
        tops.iter().map(|top| top - highest).collect()
    }
}

/// The needs of each node without those that another need already waits for.
fn reduced(graph: &Graph) -> Vec<Vec<usize>> {
    let needs: Vec<_> = graph.nodes.iter().map(|node| node.needs.clone()).collect();
    let words = needs.len().div_ceil(64);
    let mut ancestors = vec![vec![0_u64; words]; needs.len()];
    let mut reduced = vec![Vec::new(); needs.len()];
    for index in super::topological(&needs) {
        let mut own = vec![0; words];
        for &need in &needs[index] {
            own.iter_mut().zip(&ancestors[need]).for_each(|(own, theirs)| *own |= theirs);
        }
        let has = |need: usize, bits: &[u64]| bits[need / 64] >> (need % 64) & 1 == 1;
        let direct = needs[index].iter().copied().filter(|&need| !has(need, &own));
        reduced[index] = direct.collect();
        for &need in &needs[index] {
            own[need / 64] |= 1 << (need % 64);
        }
        ancestors[index] = own;
    }
    reduced
}

fn places(column: &[usize]) -> HashMap<usize, usize> {
    column.iter().enumerate().map(|(place, &vertex)| (vertex, place)).collect()
}

fn sort_by_mean(column: &mut [usize], near: &[Vec<usize>], place: &HashMap<usize, usize>) {
    let mut keyed: Vec<(f64, usize)> = Vec::with_capacity(column.len());
    for (at, &vertex) in column.iter().enumerate() {
        let places: Vec<_> =
            near[vertex].iter().filter_map(|other| place.get(other)).map(|&at| index(at)).collect();
        let key = if places.is_empty() { index(at) } else { mean(places.into_iter()) };
        keyed.push((key, vertex));
    }
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (slot, (_, vertex)) in column.iter_mut().zip(keyed) {
        *slot = vertex;
    }
}

fn index(value: usize) -> f64 {
    u32::try_from(value).map_or(f64::MAX, f64::from)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = index(values.len().max(1));
    values.sum::<f64>() / count
}

/// Places things below each other as near to their wishes as the heights allow, in the sense of
/// least squares: neighbours that would overlap form a block at the mean of its wishes.
#[expect(clippy::cast_possible_truncation, reason = "coordinates are small")]
fn settle(wishes: &[f64], heights: &[i32]) -> Vec<i32> {
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    let mut room = 0;
    let mut above = Vec::with_capacity(wishes.len());
    for (wish, height) in wishes.iter().zip(heights) {
        above.push(room);
        let mut block = (wish - f64::from(room), 1);
        while let Some(&(value, count)) = blocks.last().filter(|(value, _)| *value > block.0) {
            blocks.pop();
            let total = value * index(count) + block.0 * index(block.1);
            block = (total / index(count + block.1), count + block.1);
        }
        blocks.push(block);
        room += height;
    }
    let shifts = blocks.into_iter().flat_map(|(value, count)| std::iter::repeat_n(value, count));
    shifts.zip(above).map(|(shift, above)| shift.round() as i32 + above).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;

    fn graph(needs: &[&[usize]]) -> Graph {
        let node = |needs: &&[usize]| Node {
            label: "x".into(),
            detail: String::new(),
            times: String::new(),
            needs: needs.to_vec(),
            inner: None,
        };
        Graph { title: "t".into(), nodes: needs.iter().map(node).collect() }
    }

    #[test]
    fn a_need_of_a_need_is_not_drawn() {
        assert_eq!(reduced(&graph(&[&[], &[0], &[0, 1]])), [vec![], vec![0], vec![1]]);
    }

    #[test]
    fn long_lines_bend_in_every_column_they_pass_and_share_bends() {
        // 0 → 1 → 2 → 3, and the lone 4 leads to 3 and to 5, which is beside 3.
        let layers = Layers::new(&graph(&[&[], &[0], &[1], &[2, 4], &[], &[2, 4]]));
        assert_eq!(layers.columns.len(), 4);
        let bends: Vec<usize> = (0..layers.vertices()).filter(|&v| layers.is_bend(v)).collect();
        assert_eq!(bends.len(), 2);
        assert_eq!(layers.after[4], [bends[0]]);
        assert_eq!(layers.after[bends[1]], [3, 5]);
    }

    #[test]
    fn crossings_that_need_not_be_are_undone() {
        let layers = Layers::new(&graph(&[&[], &[], &[1], &[0]]));
        assert_eq!(layers.crossings(), 0);
        assert_eq!(layers.columns, [vec![0, 1], vec![3, 2]]);
    }

    #[test]
    fn things_settle_without_overlap_near_their_wishes() {
        assert_eq!(settle(&[0.0, 100.0], &[10, 10]), [0, 100]);
        assert_eq!(settle(&[50.0, 50.0], &[10, 10]), [45, 55]);
        assert_eq!(settle(&[20.0, 0.0, 100.0], &[10, 10, 10]), [5, 15, 100]);
    }

    #[test]
    fn a_single_need_stands_level_with_its_job() {
        let layers = Layers::new(&graph(&[&[], &[], &[], &[1]]));
        let tops = layers.tops(|_| 10, |_| 5);
        assert_eq!(tops[3], tops[1]);
        assert!(tops.iter().all(|&top| top >= 0));
    }

    #[test]
    fn an_empty_graph_has_no_columns() {
        let layers = Layers::new(&graph(&[]));
        assert!(layers.columns.is_empty());
        assert!(layers.tops(|_| 1, |_| 0).is_empty());
    }

    #[test]
    fn a_thousand_jobs_are_laid_out_without_overlap() {
        let needs: Vec<Vec<usize>> = (0..1000_usize)
            .map(|at| (1..=4).filter_map(|by| at.checked_sub(by * 7)).collect())
            .collect();
        let needs: Vec<&[usize]> = needs.iter().map(Vec::as_slice).collect();
        let layers = Layers::new(&graph(&needs));
        let tops = layers.tops(|_| 10, |_| 5);
        for column in &layers.columns {
            assert!(column.windows(2).all(|pair| tops[pair[0]] + 10 <= tops[pair[1]]));
        }
    }
}
