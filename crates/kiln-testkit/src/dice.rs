//! Chance that repeats itself, in the words of tests: the numbers are those of the simulator.

use kiln_sim::random::Random;

/// A source of numbers: the same seed gives the same ones everywhere.
#[derive(Debug, Clone)]
pub struct Dice(Random);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// Another source, whose numbers have nothing to do with those of this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// Whether something happens that happens so many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.0.chance(chance, 100)
    }

    /// One of these, of which there is at least one.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        self.0.pick(items).expect("there is something to choose from")
    }
}
