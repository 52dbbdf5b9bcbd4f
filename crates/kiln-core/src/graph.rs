//! Which job waits for which: a directed graph of `needs`.
//!
//! Nodes are numbers in the order of their declaration. Every walk is a loop over its own stack or
//! queue, so that a chain of ten thousand jobs costs memory and not the thread's stack, and each
//! is linear in nodes and edges.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// Nodes and, for each, the nodes it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    needs: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
}

/// A need that names no node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownNeed {
    pub node: usize,
    pub need: usize,
}

/// Nodes that need each other: each one needs the next, the last one needs the first. It starts
/// with the node declared first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle(pub Vec<usize>);

impl Graph {
    /// Builds a graph from the needs of each node; a need given twice counts once.
    pub fn new(mut needs: Vec<Vec<usize>>) -> Result<Self, UnknownNeed> {
        let mut dependents = vec![Vec::new(); needs.len()];
        for (node, list) in needs.iter_mut().enumerate() {
            if let Some(&need) = list.iter().find(|&&need| need >= dependents.len()) {
                return Err(UnknownNeed { node, need });
            }
            // Nodes come in rising order, so a repeated need shows as the last dependent.
            list.retain(|&need| {
                let new = dependents[need].last() != Some(&node);
                if new {
                    dependents[need].push(node);
                }
                new
            });
        }
        Ok(Self { needs, dependents })
    }

    pub fn len(&self) -> usize {
        self.needs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.needs.is_empty()
    }

    /// What the node itself asks for, in the order it was written.
    pub fn needs(&self, node: usize) -> &[usize] {
        &self.needs[node]
    }

    /// The nodes that ask for this one, in order of declaration.
    pub fn direct_dependents(&self, node: usize) -> &[usize] {
        &self.dependents[node]
    }

    /// An order in which every node comes after its needs: level by level, and within a level in
    /// order of declaration.
    pub fn order(&self) -> Result<Vec<usize>, Cycle> {
        let levels = self.levels()?;
        let depth = levels.iter().max().map_or(0, |deepest| deepest + 1);
        let mut by_level = vec![Vec::new(); depth];
        for (node, level) in levels.into_iter().enumerate() {
            by_level[level].push(node);
        }
        Ok(by_level.concat())
    }

    /// How many steps each node is away from a node without needs, by the longest way. Drawn in
    /// columns by level, every edge points forward.
    pub fn levels(&self) -> Result<Vec<usize>, Cycle> {
        let mut levels = vec![0; self.len()];
        let mut readiness = self.readiness();
        let mut queue: VecDeque<usize> = readiness.ready().into();
        let mut done = 0;
        while let Some(node) = queue.pop_front() {
            done += 1;
            for &dependent in &self.dependents[node] {
                levels[dependent] = levels[dependent].max(levels[node] + 1);
            }
            queue.extend(readiness.finish(self, node));
        }
        if done < self.len() {
            return Err(self.cycle_among(&readiness));
        }
        Ok(levels)
    }

    /// A cycle if there is one, short enough to read in a message.
    pub fn find_cycle(&self) -> Option<Vec<usize>> {
        self.levels().err().map(|Cycle(nodes)| nodes)
    }

    /// Everything the node waits for, directly or through others, in order of declaration.
    pub fn ancestors(&self, node: usize) -> Vec<usize> {
        reachable(&self.needs, node)
    }

    /// Everything that waits for the node, directly or through others, in order of declaration.
    pub fn dependents(&self, node: usize) -> Vec<usize> {
        reachable(&self.dependents, node)
    }

    /// Counters that tell which nodes may start as others finish.
    pub fn readiness(&self) -> Readiness {
        let waiting_for = self.needs.iter().map(Vec::len).collect();
        Readiness { waiting_for, finished: vec![false; self.len()] }
    }

    /// A cycle among the nodes that never became ready.
    fn cycle_among(&self, readiness: &Readiness) -> Cycle {
        let is_stuck = |node: usize| readiness.waiting_for[node] > 0;
        let stuck_need = |node: usize| {
            let mut needs = self.needs[node].iter().copied();
            needs.find(|&need| is_stuck(need)).expect("a stuck node waits for a stuck one")
        };
        let mut at = (0..self.len()).find(|&node| is_stuck(node)).expect("some node is stuck");
        // Following stuck needs until a node comes back ends on a cycle, whatever led into it.
        let mut seen = vec![false; self.len()];
        while !std::mem::replace(&mut seen[at], true) {
            at = stuck_need(at);
        }
        self.shortest_cycle_through(at)
    }

    /// Breadth first along the needs, until the node is met again.
    fn shortest_cycle_through(&self, start: usize) -> Cycle {
        let mut came_from = vec![None; self.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if self.needs[node].contains(&start) {
                let mut cycle = vec![node];
                let mut at = node;
                while at != start {
                    at = came_from[at].expect("every node but the start was reached from another");
                    cycle.push(at);
                }
                cycle.reverse();
                let lowest = (0..cycle.len()).min_by_key(|&at| cycle[at]).unwrap_or(0);
                cycle.rotate_left(lowest);
                return Cycle(cycle);
            }
            for &need in &self.needs[node] {
                if need != start && came_from[need].is_none() {
                    came_from[need] = Some(node);
                    queue.push_back(need);
                }
            }
        }
        unreachable!("the caller starts on a cycle");
    }
}

/// The nodes found by following the edges from a node; the node itself only if it is on a cycle.
fn reachable(edges: &[Vec<usize>], start: usize) -> Vec<usize> {
    let mut found = vec![false; edges.len()];
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for &next in &edges[node] {
            if !found[next] {
                found[next] = true;
                open.push(next);
            }
        }
    }
    (0..edges.len()).filter(|&node| found[node]).collect()
}

/// For each node, how many of its needs have not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    waiting_for: Vec<usize>,
    finished: Vec<bool>,
}

impl Readiness {
    /// The nodes that wait for nothing and have not finished, in order of declaration.
    pub fn ready(&self) -> Vec<usize> {
        (0..self.finished.len()).filter(|&node| self.is_ready(node)).collect()
    }

    pub fn is_ready(&self, node: usize) -> bool {
        self.waiting_for[node] == 0 && !self.finished[node]
    }

    /// Marks a node as finished and returns those that became ready by it, in order of
    /// declaration. To finish a node again changes nothing.
    pub fn finish(&mut self, graph: &Graph, node: usize) -> Vec<usize> {
        if std::mem::replace(&mut self.finished[node], true) {
            return Vec::new();
        }
        let dependents = graph.direct_dependents(node);
        for &dependent in dependents {
            self.waiting_for[dependent] -= 1;
        }
        dependents.iter().copied().filter(|&dependent| self.is_ready(dependent)).collect()
    }
}
