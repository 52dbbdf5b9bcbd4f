//! The network: it loses, doubles, delays and overtakes, and cuts links in one direction or both.

use super::message::{Actor, Message};
use crate::random::Random;

/// How bad it is, each in thousandths of all messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weather {
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) late: u64,
}

#[derive(Debug)]
struct Cut {
    from: Actor,
    to: Actor,
    until: u64,
}

#[derive(Debug)]
pub(super) struct Network {
    random: Random,
    weather: Weather,
    cuts: Vec<Cut>,
}

impl Network {
    pub(super) fn new(mut random: Random) -> Self {
        let weather = match random.below(3) {
            0 => Weather::default(),
            1 => Weather { lost: 10, doubled: 10, late: 20 },
            _ => Weather { lost: 60, doubled: 60, late: 100 },
        };
        Self { random, weather, cuts: Vec::new() }
    }

    pub(super) fn cut(&mut self, from: Actor, to: Actor, until: u64) {
        self.cuts.push(Cut { from, to, until });
    }

    /// From now on nothing is lost.
    pub(super) fn calm_down(&mut self) {
        self.weather = Weather::default();
        self.cuts.clear();
    }

    /// When the message arrives: never, once or more often.
    pub(super) fn arrivals(
        &mut self,
        now: u64,
        from: Actor,
        to: Actor,
        what: &Message,
    ) -> Vec<u64> {
        self.cuts.retain(|cut| cut.until > now);
        if self.cuts.iter().any(|cut| cut.from == from && cut.to == to) {
            return Vec::new();
        }
        // A connection to the database breaks now and then, but says nothing twice.
        let is_database = from == Actor::Database || to == Actor::Database;
        let lost = if is_database { self.weather.lost / 6 } else { self.weather.lost };
        if self.random.chance(lost, 1_000) {
            return Vec::new();
        }
        let mut arrivals = vec![now + self.delay(is_database)];
        let repeats = !is_database && !matches!(what, Message::Refused { .. });
        if repeats && self.random.chance(self.weather.doubled, 1_000) {
            arrivals.push(now + self.delay(false));
        }
        arrivals
    }

    fn delay(&mut self, is_database: bool) -> u64 {
        let late = if is_database { self.weather.late / 6 } else { self.weather.late };
        if self.random.chance(late, 1_000) {
            return 100 + self.random.below(30_000);
        }
        1 + self.random.below(if is_database { 4 } else { 40 })
    }
}
