//! How evenly runners were shared out, while there were too few.
//!
//! Equal waiting times are no sign of fairness: first in, first out gives everybody the same wait, and most
//! runners to who asks for most. So what an organization *got* is compared with what an even division
//! of the same runners would have given it, as long as jobs of the same kind waited: nobody gets more
//! than they ask for, and what is left is divided among the others by their shares.

use super::jobs::Load;
use super::numbers::{count, float};

/// Jain's index: 1 when all have the same, 1/n when one of n has everything.
pub fn jain(parts: impl IntoIterator<Item = f64>) -> f64 {
    let (mut number, mut sum, mut squares) = (0_usize, 0.0, 0.0);
    for part in parts {
        number += 1;
        sum += part;
        squares += part * part;
    }
    if squares > 0.0 { sum * sum / (count(number) * squares) } else { 1.0 }
}

/// Jobs of a cell now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub(super) running: u32,
    pub(super) waiting: u32,
}

/// What an organization got while there were too few runners, and what it should have got.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Part {
    pub(super) got: f64,
    pub(super) due: f64,
}

/// After so many looks it looks half as often, so that the end of a long simulation costs nothing.
const LOOKS: u32 = 4_000;
/// How often it looks while jobs come.
const LOOKS_AT_FIRST: i64 = 2_000;

/// Looks at who has how many runners, at equal intervals of virtual time.
#[derive(Debug)]
pub(super) struct Meter<'l> {
    load: &'l Load,
    /// Cells of each kind.
    kinds: Vec<Vec<u32>>,
    parts: Vec<Part>,
    next: i64,
    step: i64,
    looks: u32,
    claims: Vec<Claim>,
}

#[derive(Debug, Clone, Copy)]
struct Claim {
    organization: u32,
    shares: f64,
    running: f64,
    wanted: f64,
}

impl<'l> Meter<'l> {
    pub(super) fn new(load: &'l Load, runners: u32) -> Self {
        let mut kinds = vec![Vec::new(); load.kinds.len()];
        for (cell, facts) in (0_u32..).zip(&load.cells) {
            kinds[facts.kind as usize].push(cell);
        }
        let (first, last) = load.span().unwrap_or_default();
        let length = (last - first).max(load.work() / i64::from(runners.max(1)));
        let parts = vec![Part::default(); load.organizations.len()];
        let step = (length / LOOKS_AT_FIRST).max(1);
        Self { load, kinds, parts, next: first, step, looks: 0, claims: Vec::new() }
    }

    /// Nothing changes before `until`: what is seen now counts for all looks before it.
    pub(super) fn pass(&mut self, until: i64, held: &[Held], running: &[u32]) {
        if self.next >= until {
            return;
        }
        let looks = (until - 1 - self.next) / self.step + 1;
        let weight = float(looks.saturating_mul(self.step));
        self.next += looks * self.step;
        for kind in 0..self.kinds.len() {
            self.look(kind, weight, held, running);
        }
        self.looks += 1;
        if self.looks == LOOKS {
            self.looks = 0;
            self.step = self.step.saturating_mul(2);
        }
    }

    fn look(&mut self, kind: usize, weight: f64, held: &[Held], running: &[u32]) {
        self.claims.clear();
        let (mut contended, mut all) = (false, 0.0);
        for &cell in &self.kinds[kind] {
            let Held { running: has, waiting } = held[cell as usize];
            let organization = self.load.cells[cell as usize].organization;
            let facts = &self.load.organizations[organization as usize];
            // Who may not have more does not want more.
            let may = facts.limit.is_none_or(|limit| running[organization as usize] < limit);
            let waiting = if may { waiting } else { 0 };
            contended |= waiting > 0;
            all += f64::from(has);
            let (running, wanted) = (f64::from(has), f64::from(has) + f64::from(waiting));
            if wanted > 0.0 {
                let shares = f64::from(facts.shares.max(1));
                self.claims.push(Claim { organization, shares, running, wanted });
            }
        }
        if !contended {
            return;
        }
        let level = level(all, &mut self.claims);
        for claim in &self.claims {
            let part = &mut self.parts[claim.organization as usize];
            part.got += claim.running * weight;
            part.due += claim.wanted.min(level * claim.shares) * weight;
        }
    }

    /// For each organization.
    pub(super) fn parts(self) -> Vec<Part> {
        self.parts
    }
}

/// How many runners each share is worth when nobody gets more than they want.
fn level(runners: f64, claims: &mut [Claim]) -> f64 {
    claims.sort_unstable_by(|left, right| {
        (left.wanted / left.shares).total_cmp(&(right.wanted / right.shares))
    });
    let (mut left, mut shares) = (runners, claims.iter().map(|claim| claim.shares).sum::<f64>());
    for claim in claims {
        let level = left / shares;
        if claim.wanted > level * claim.shares {
            return level;
        }
        left -= claim.wanted;
        shares -= claim.shares;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-9, "{left} is not {right}");
    }

    /// S19
    #[test]
    fn jains_index_is_one_for_equals_and_a_fraction_for_one_of_many() {
        close(jain([3.0, 3.0, 3.0]), 1.0);
        close(jain([5.0, 0.0, 0.0, 0.0]), 0.25);
        close(jain([1.0, 2.0, 3.0]), 36.0 / 42.0);
        close(jain([]), 1.0);
        close(jain([0.0, 0.0]), 1.0);
    }

    #[test]
    fn nobody_is_due_more_than_they_want() {
        let check = |runners, wants: &[(f64, f64)], expect: f64| {
            let claim = |&(wanted, shares)| Claim { organization: 0, shares, running: 0.0, wanted };
            let mut claims: Vec<Claim> = wants.iter().map(claim).collect();
            let level = level(runners, &mut claims);
            close(level.min(1e9), expect.min(1e9));
        };
        check(10.0, &[(100.0, 1.0), (100.0, 1.0)], 5.0);
        check(10.0, &[(2.0, 1.0), (100.0, 1.0)], 8.0);
        check(10.0, &[(1.0, 1.0), (3.0, 1.0), (9.0, 1.0), (9.0, 1.0)], 3.0);
        check(9.0, &[(100.0, 200.0), (100.0, 100.0)], 0.03);
        check(10.0, &[(4.0, 1.0), (6.0, 1.0)], f64::INFINITY);
    }
}
