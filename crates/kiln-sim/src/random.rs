//! Numbers that look random and that a seed decides.

/// A generator (`SplitMix64`): small, fast, and good enough to choose faults and lengths of jobs.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another generator, so that one more draw here does not shift what is drawn there.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    #[expect(clippy::should_implement_trait, reason = "no iterator: it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..limit`; 0 when there is none.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }

    /// Whether something happens that does so `times` in `of` cases.
    pub fn chance(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).expect("32 bits are left");
        f64::from(bits) / 4_294_967_296.0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let chosen = self.below(from.len() as u64);
        usize::try_from(chosen).ok().and_then(|chosen| from.get(chosen))
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_decides_every_number() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            std::iter::repeat_with(|| random.below(1_000)).take(50).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|number| *number < 1_000));
    }

    #[test]
    fn nothing_is_picked_from_nothing() {
        let mut random = Random::new(1);
        assert_eq!(random.pick::<u8>(&[]), None);
        assert_eq!(random.below(0), 0);
        assert!((0.0..1.0).contains(&random.fraction()));
    }
}
