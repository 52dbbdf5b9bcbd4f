//! In what order jobs are taken.

use crate::id::{OrgId, RepoId};

use super::class::Class;
use super::usage::ratio;

/// How the next job is chosen. Priority comes before either: 100 is somebody who waits in person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The organization that has used least of its share, in it the repository, in it the lowest key.
    #[default]
    Fair,
    /// The highest score of class, load of the organization and time waited, then the lowest key.
    Score,
}

impl Policy {
    pub const ALL: [Self; 2] = [Self::Fair, Self::Score];

    pub fn word(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Score => "score",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.word() == word)
    }
}

/// Something's place among its siblings; the lowest goes first. Numbers that are not negative are
/// ordered as their bits are, so that floats can stand here.
pub(super) type Rank = (u64, i64, i64);

pub(super) fn by_priority(priority: i64) -> Rank {
    (0, !priority, 0)
}

pub(super) fn by_org(consumed: f64, shares: u32, org: OrgId) -> Rank {
    (ratio(consumed, shares).to_bits(), org.0, 0)
}

pub(super) fn by_repo(consumed: f64, shares: u32, repo: RepoId) -> Rank {
    (ratio(consumed, shares).to_bits(), repo.0, 0)
}

/// The rank with so much more consumed.
pub(super) fn charged(rank: Rank, seconds: f64, shares: u32) -> Rank {
    ((f64::from_bits(rank.0) + ratio(seconds, shares)).to_bits(), rank.1, rank.2)
}

/// Among lanes of one organization and class, the score follows the minutes.
pub(super) fn by_minutes(now: i64, queued_at: i64, key: i64, job: i64) -> Rank {
    (!whole_minutes(now, queued_at), key, job)
}

/// The rank of an organization's class, from that of its best lane.
pub(super) fn by_score(class: Class, running: u32, limit: Option<u32>, best: Rank) -> Rank {
    (!score(class, running, limit, !best.0).to_bits(), best.1, best.2)
}

fn whole_minutes(now: i64, queued_at: i64) -> u64 {
    u64::try_from(now.saturating_sub(queued_at) / 60_000).unwrap_or(0)
}

/// The weight of the class, more for an organization far from its limit, a tenth more each minute.
fn score(class: Class, running: u32, limit: Option<u32>, minutes: u64) -> f64 {
    let load = limit.map_or(0.0, |limit| f64::from(running) / f64::from(limit.max(1)));
    #[expect(clippy::cast_precision_loss, reason = "no job waits for 2^53 minutes")]
    let waited = minutes as f64;
    class.weight() * (1.5 - load).max(0.5) * (1.0 + 0.1 * waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_from_their_words() {
        for policy in Policy::ALL {
            assert_eq!(Policy::parse(policy.word()), Some(policy));
        }
        assert_eq!(Policy::parse("random"), None);
    }

    /// S8
    #[test]
    fn the_score_is_that_of_the_document() {
        let check = |class, running, limit, minutes, expect: f64| {
            let score = score(class, running, limit, minutes);
            assert!((score - expect).abs() < 1e-9, "{score} is not {expect}");
        };
        check(Class::Urgent, 0, Some(10), 0, 4.5);
        check(Class::High, 5, Some(10), 0, 2.0);
        check(Class::Normal, 10, Some(10), 0, 0.5);
        check(Class::Normal, 20, Some(10), 0, 0.5);
        check(Class::Low, 5, Some(10), 10, 1.0);
        check(Class::Normal, 7, None, 1, 1.65);
        check(Class::Normal, 1, Some(0), 0, 0.5);
    }

    #[test]
    fn only_whole_minutes_count() {
        let check = |now, queued_at, expect| assert_eq!(whole_minutes(now, queued_at), expect);
        check(59_999, 0, 0);
        check(60_000, 0, 1);
        check(0, 60_000, 0);
        check(1, i64::MIN, u64::try_from(i64::MAX / 60_000).unwrap());
    }

    /// S8
    #[test]
    fn ranks_sort_as_their_figures_do() {
        let org = |consumed| by_org(consumed, 100, OrgId(1));
        assert!(org(0.0) < org(0.1) && org(0.1) < org(1.0) && org(1.0) < org(1e300));
        assert!(by_priority(100) < by_priority(0) && by_priority(0) < by_priority(i64::MIN));
        let score = |minutes: u64| by_score(Class::Low, 0, None, (!minutes, 0, 0));
        assert!(score(2) < score(1) && score(1) < score(0));
        let (more, less) = (charged(org(100.0), 100.0, 100), org(200.0));
        assert_eq!(more, less);
    }
}
