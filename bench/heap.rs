//! The limit of `bench/sim`: the events of a simulation without a simulation. A heap with one end for each
//! runner, from which the earliest is taken and a later one put in, once for each job.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let mut next = || numbers.next().and_then(Result::ok).expect("usage: heap RUNNERS JOBS TIMES");
    let (runners, jobs, times) = (next(), next(), next());
    let mut state = 1_u64;
    // The middle bits of a linear congruential generator are random enough for lengths of jobs.
    let mut length = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(state >> 44).expect("20 bits are left")
    };
    let mut last = 0;
    for _ in 0..times {
        let mut heap: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
        for job in 0..jobs {
            let now = if job < runners { 0 } else { heap.pop().map_or(0, |Reverse((end, _))| end) };
            heap.push(Reverse((now + length(), job)));
        }
        while let Some(Reverse((end, _))) = heap.pop() {
            last = last.max(end);
        }
    }
    println!("{last}");
}
