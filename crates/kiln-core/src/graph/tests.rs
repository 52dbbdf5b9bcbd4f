//! The graph against pictures in words and a naive model.

use proptest::prelude::*;

use super::{Cycle, Graph, UnknownNeed};

fn graph(needs: &[&[usize]]) -> Graph {
    Graph::new(needs.iter().map(|list| list.to_vec()).collect()).expect("known needs")
}

#[test]
fn a_diamond_is_ordered_by_level_then_declaration() {
    // deploy, build, test and lint need each other as their names say; deploy is declared first.
    let graph = graph(&[&[2, 3], &[], &[1], &[1]]);
    assert_eq!(graph.order(), Ok(vec![1, 2, 3, 0]));
    assert_eq!(graph.levels(), Ok(vec![2, 0, 1, 1]));
    assert_eq!(graph.find_cycle(), None);
    assert_eq!(graph.ancestors(0), [1, 2, 3]);
    assert_eq!(graph.dependents(1), [0, 2, 3]);
    assert_eq!(graph.direct_dependents(1), [2, 3]);
    assert_eq!(graph.needs(0), [2, 3]);
}

#[test]
fn independent_nodes_keep_their_order() {
    assert_eq!(graph(&[&[], &[], &[]]).order(), Ok(vec![0, 1, 2]));
    assert_eq!(graph(&[]).order(), Ok(vec![]));
    assert!(graph(&[]).is_empty());
}

#[test]
fn a_level_is_the_longest_way_and_not_the_shortest() {
    assert_eq!(graph(&[&[], &[0], &[1], &[0, 2]]).levels(), Ok(vec![0, 1, 2, 3]));
}

#[test]
fn a_need_given_twice_counts_once() {
    let graph = graph(&[&[], &[0, 0]]);
    assert_eq!(graph.needs(1), [0]);
    assert_eq!(graph.readiness().finish(&graph, 0), [1]);
}

#[test]
fn an_unknown_need_is_refused() {
    assert_eq!(Graph::new(vec![vec![], vec![0, 7]]), Err(UnknownNeed { node: 1, need: 7 }));
}

#[test]
fn cycles_are_shown_in_order_from_the_first_declared_node() {
    let check = |needs: &[&[usize]], expect: &[usize]| {
        assert_eq!(graph(needs).find_cycle().as_deref(), Some(expect), "{needs:?}");
        assert_eq!(graph(needs).order(), Err(Cycle(expect.to_vec())), "{needs:?}");
    };
    check(&[&[0]], &[0]);
    check(&[&[1], &[0]], &[0, 1]);
    check(&[&[2], &[0], &[1]], &[0, 2, 1]);
    // What only leads into a cycle is not part of it.
    check(&[&[1], &[2], &[3], &[2]], &[2, 3]);
    // Of a long and a short way round, the short one is told.
    check(&[&[1, 3], &[2], &[3], &[0]], &[0, 3]);
}

#[test]
fn nodes_become_ready_as_their_needs_finish() {
    let graph = graph(&[&[], &[], &[0, 1], &[1]]);
    let mut readiness = graph.readiness();
    assert_eq!(readiness.ready(), [0, 1]);
    assert_eq!(readiness.finish(&graph, 1), [3]);
    assert_eq!(readiness.finish(&graph, 1), [0; 0], "to finish again changes nothing");
    assert_eq!(readiness.ready(), [0, 3]);
    assert_eq!(readiness.finish(&graph, 0), [2]);
    assert!(!readiness.is_ready(0));
}

#[test]
fn chains_far_deeper_than_the_stack_are_fine() {
    const NODES: usize = 200_000;
    let chain = |first: Vec<usize>| {
        let rest = (1..NODES).map(|node| vec![node - 1]);
        Graph::new(std::iter::once(first).chain(rest).collect()).expect("known needs")
    };
    let line = chain(vec![]);
    assert_eq!(line.order().expect("acyclic").len(), NODES);
    assert_eq!(line.ancestors(NODES - 1).len(), NODES - 1);
    assert_eq!(line.dependents(0).len(), NODES - 1);
    let ring = chain(vec![NODES - 1]);
    assert_eq!(ring.find_cycle().expect("cyclic").len(), NODES);
}

fn any_needs() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1usize..9)
        .prop_flat_map(|nodes| prop::collection::vec(prop::collection::vec(0..nodes, 0..3), nodes))
}

/// Reachability by repeating the obvious until nothing changes.
fn closure(needs: &[Vec<usize>]) -> Vec<Vec<bool>> {
    let nodes = needs.len();
    let mut reach: Vec<Vec<bool>> =
        needs.iter().map(|list| (0..nodes).map(|n| list.contains(&n)).collect()).collect();
    for via in 0..nodes {
        for from in 0..nodes {
            for to in 0..nodes {
                reach[from][to] |= reach[from][via] && reach[via][to];
            }
        }
    }
    reach
}

proptest! {
    #[test]
    fn the_graph_agrees_with_a_naive_model(needs in any_needs()) {
        let graph = Graph::new(needs.clone()).expect("known needs");
        let reach = closure(&needs);
        for (node, row) in reach.iter().enumerate() {
            let ancestors: Vec<usize> = (0..needs.len()).filter(|&to| row[to]).collect();
            let dependents: Vec<usize> = (0..needs.len()).filter(|&from| reach[from][node]).collect();
            prop_assert_eq!(graph.ancestors(node), ancestors);
            prop_assert_eq!(graph.dependents(node), dependents);
        }
        let cyclic = (0..needs.len()).any(|node| reach[node][node]);
        prop_assert_eq!(graph.find_cycle().is_some(), cyclic);
        if let Some(cycle) = graph.find_cycle() {
            for (at, &node) in cycle.iter().enumerate() {
                let next = cycle[(at + 1) % cycle.len()];
                prop_assert!(needs[node].contains(&next), "{:?}", cycle);
                prop_assert_eq!(cycle.iter().filter(|&&other| other == node).count(), 1);
            }
            prop_assert_eq!(cycle.iter().min(), cycle.first());
        }
    }

    #[test]
    fn orders_and_levels_put_needs_first(needs in any_needs()) {
        // Pointing every need backwards makes the graph acyclic.
        let needs: Vec<Vec<usize>> = needs.into_iter().enumerate()
            .map(|(node, list)| list.into_iter().filter(|&need| need < node).collect())
            .collect();
        let graph = Graph::new(needs.clone()).expect("known needs");
        let order = graph.order().expect("acyclic");
        let levels = graph.levels().expect("acyclic");
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..needs.len()).collect::<Vec<_>>());
        prop_assert!(order.is_sorted_by_key(|&node| (levels[node], node)));
        for (node, list) in needs.iter().enumerate() {
            let deepest = list.iter().map(|&need| levels[need] + 1).max().unwrap_or(0);
            prop_assert_eq!(levels[node], deepest);
        }
    }
}
