//! A graph in layers: columns by the longest way, rows by what a vertex needs, room for lines that pass.

use std::collections::BTreeSet;

/// How often columns are sorted by their neighbours.
const SWEEPS: usize = 4;

/// A node of the graph, or a place where a long line passes a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Vertex {
    pub(super) level: usize,
    pub(super) row: usize,
    pub(super) is_bend: bool,
    /// Vertices of the column before, each with the two nodes that the line is between.
    pub(super) needs: Vec<(usize, [usize; 2])>,
}

/// The first vertices are the nodes, in their order.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) vertices: Vec<Vertex>,
}

impl Layers {
    pub(super) fn new(needs: Vec<Vec<usize>>) -> Self {
        let levels = levels(&needs);
        let needs = shortened(needs);
        let mut layers = Self {
            vertices: levels
                .iter()
                .map(|level| Vertex { level: *level, ..Vertex::default() })
                .collect(),
        };
        for (to, needs) in needs.iter().enumerate() {
            for from in needs {
                layers.link(*from, to);
            }
        }
        let deepest = levels.iter().copied().max().unwrap_or(0);
        for _ in 0..SWEEPS {
            for level in 0..=deepest {
                layers.sort_column(level);
            }
        }
        layers
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        let most = |of: fn(&Vertex) -> usize| self.vertices.iter().map(of).max().unwrap_or(0) + 1;
        (most(|vertex| vertex.level), most(|vertex| vertex.row))
    }

    fn link(&mut self, from: usize, to: usize) {
        let mut last = from;
        for level in self.vertices[from].level + 1..self.vertices[to].level {
            let needs = vec![(last, [from, to])];
            self.vertices.push(Vertex { level, is_bend: true, needs, row: 0 });
            last = self.vertices.len() - 1;
        }
        self.vertices[to].needs.push((last, [from, to]));
    }

    fn sort_column(&mut self, level: usize) {
        let count = self.vertices.len();
        let mut column: Vec<usize> =
            (0..count).filter(|at| self.vertices[*at].level == level).collect();
        let mean = |at: &usize| {
            let needs = &self.vertices[*at].needs;
            let sum: usize = needs.iter().map(|(need, _)| self.vertices[*need].row).sum();
            // In thousandths, so that no floating point is sorted.
            if needs.is_empty() { *at * 1_000 } else { sum * 1_000 / needs.len() }
        };
        column.sort_by_key(|at| (mean(at), *at));
        for (row, at) in column.into_iter().enumerate() {
            self.vertices[at].row = row;
        }
    }
}

/// As many rounds as there are levels; needs have no cycles, and the bound holds if they had.
fn levels(needs: &[Vec<usize>]) -> Vec<usize> {
    let mut levels = vec![0; needs.len()];
    for _ in 0..needs.len() {
        let next: Vec<usize> = needs
            .iter()
            .map(|needs| needs.iter().map(|need| levels[*need] + 1).max().unwrap_or(0))
            .collect();
        if next == levels {
            break;
        }
        levels = next;
    }
    levels
}

/// A line that another way says already is left out.
fn shortened(mut needs: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let reach = |from: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), needs[from].clone());
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(&needs[next]);
            }
        }
        seen
    };
    let above: Vec<BTreeSet<usize>> = (0..needs.len()).map(reach).collect();
    for own in &mut needs {
        let all = own.clone();
        own.retain(|need| !all.iter().any(|other| above[*other].contains(need)));
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(needs: &[&[usize]], expect: &[(usize, usize)]) {
        let layers = Layers::new(needs.iter().map(|needs| needs.to_vec()).collect());
        let found = layers.vertices.iter().map(|vertex| (vertex.level, vertex.row));
        assert_eq!(found.collect::<Vec<_>>(), expect, "{needs:?}");
    }

    #[test]
    fn a_job_is_right_of_what_it_needs() {
        check(&[&[], &[0], &[0], &[1, 2]], &[(0, 0), (1, 0), (1, 1), (2, 0)]);
        check(&[&[1], &[]], &[(1, 0), (0, 0)]);
        check(&[], &[]);
    }

    #[test]
    fn a_long_line_has_a_row_of_its_own() {
        // The last one is the bend of the line from the first job to the last.
        check(&[&[], &[], &[1], &[0, 2]], &[(0, 0), (0, 1), (1, 1), (2, 0), (1, 0)]);
    }

    #[test]
    fn needs_in_a_circle_cannot_be_and_end_all_the_same() {
        assert!(!Layers::new(vec![vec![1], vec![0]]).vertices.is_empty());
    }

    #[test]
    fn what_another_way_says_already_is_not_drawn() {
        assert_eq!(shortened(vec![vec![], vec![0], vec![0, 1]])[2], [1]);
    }
}
