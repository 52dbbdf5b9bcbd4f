//! The jobs of a plan, each with the legs of its matrix, and those that a run had to wait for until its end.

use std::collections::{BTreeMap, BTreeSet};

use kiln_core::time::Timestamp;
use maud::{Markup, html};

use crate::service::jobs::Seen;
use crate::web::parts::{self, Look};

/// What is said of the path wherever it is shown.
pub(super) const CRITICAL: &str = "critical path";

/// A job of the plan with all its legs.
pub(super) struct Group<'a> {
    pub(super) legs: Vec<&'a Seen>,
    /// Places of other groups.
    pub(super) needs: Vec<usize>,
}

impl<'a> Group<'a> {
    /// The legs of a matrix have a name in common.
    pub(super) fn label(&self) -> &'a str {
        let name = self.legs[0].name.as_str();
        if self.legs.len() == 1 { name } else { name.split(" (").next().unwrap_or(name) }
    }

    pub(super) fn is_matrix(&self) -> bool {
        self.legs.len() > 1
    }

    pub(super) fn look(&self) -> Look {
        Look::worst(self.legs.iter().map(|leg| Look::of_job(leg)))
    }

    /// The leg that says how the group stands: one of those that look worst.
    pub(super) fn speaker(&self) -> &'a Seen {
        let worst = self.look();
        let found = self.legs.iter().find(|leg| Look::of_job(leg) == worst);
        found.unwrap_or(&self.legs[0])
    }

    fn ended(&self) -> Option<Timestamp> {
        self.legs.iter().map(|leg| leg.timings.ended).max().flatten()
    }

    /// The leg that ended last: the others did not hold up what came after.
    pub(super) fn last(&self) -> &'a Seen {
        let last = self.legs.iter().max_by_key(|leg| leg.timings.ended);
        last.unwrap_or(&self.legs[0])
    }

    /// How many legs are done, or how many failed.
    pub(super) fn count(&self) -> String {
        let looks = self.legs.iter().map(|leg| Look::of_job(leg));
        let done = looks.clone().filter(|look| !look.is_open()).count();
        let bad = looks.filter(|look| look.is_bad()).count();
        let total = self.legs.len();
        match (bad, done == total) {
            (0, true) => parts::count(total, "job", "jobs"),
            (0, false) => format!("{done} of {total} jobs done"),
            (bad, _) => format!("{bad} of {total} jobs failed"),
        }
    }
}

pub(super) fn groups(jobs: &[Seen]) -> Vec<Group<'_>> {
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for job in jobs {
        let place = *places.entry(job.node).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group { legs: Vec::new(), needs: Vec::new() });
        }
        groups[place].legs.push(job);
    }
    for group in &mut groups {
        let needs = group.legs[0].needs.iter().filter_map(|need| places.get(need).copied());
        group.needs = needs.collect();
    }
    groups
}

/// The jobs without which the run would have ended earlier, once it has. A single job is no path.
pub(super) fn critical(groups: &[Group<'_>], over: bool) -> BTreeSet<usize> {
    let mut path = BTreeSet::new();
    let latest = |of: &mut dyn Iterator<Item = usize>| {
        of.filter_map(|at| Some((groups[at].ended()?, at))).max().map(|(_, at)| at)
    };
    let mut next = latest(&mut (0..groups.len())).filter(|_| over && groups.len() > 1);
    while let Some(at) = next {
        path.insert(at);
        next = latest(&mut groups[at].needs.iter().copied()).filter(|need| !path.contains(need));
    }
    path
}

/// The sign of a job on the path, which says so to those who do not see it.
pub(super) fn sign() -> Markup {
    html! { span.path role="img" aria-label={ "On the " (CRITICAL) } title={ "On the " (CRITICAL) } { "◆" } }
}

/// What the sign means.
pub(super) fn legend() -> Markup {
    html! {
        p.legend.quiet { (sign()) " " (CRITICAL) ": without these jobs the run would have ended earlier" }
    }
}

#[cfg(test)]
mod tests {
    use kiln_core::id::RunId;
    use kiln_core::run::{Conclusion, Timings};

    use super::*;

    fn job(node: u32, needs: &[u32], ended: u64, conclusion: Conclusion) -> Seen {
        Seen {
            id: None,
            logged_as: None,
            run: RunId(1),
            node,
            needs: needs.to_vec(),
            tolerated: false,
            run_attempt: 1,
            name: format!("job {node} ({ended})"),
            labels: Vec::new(),
            status: "completed",
            conclusion: Some(conclusion),
            reason: format!("ended at {ended}"),
            claim: 1,
            runner: None,
            runner_name: None,
            timings: Timings { ended: Some(Timestamp(ended)), ..Timings::default() },
            outputs: Vec::new(),
            steps: Vec::new(),
            own_steps: 0..0,
            reused: None,
            used: None,
            allowed: None,
            deployed: None,
            claims: Vec::new(),
        }
    }

    #[test]
    fn the_critical_path_leads_from_what_ended_last_to_what_it_waited_for_longest() {
        let good = Conclusion::Success;
        let jobs = [
            job(0, &[], 10, good),
            job(1, &[], 30, good),
            job(2, &[0, 1], 40, good),
            job(2, &[0, 1], 60, good),
            job(3, &[0], 50, good),
        ];
        let groups = groups(&jobs);
        assert_eq!(critical(&groups, true), BTreeSet::from([1, 2]));
        assert_eq!(critical(&groups, false), BTreeSet::new());
        assert_eq!(critical(&groups[..1], true), BTreeSet::new());
        assert_eq!((groups[2].label(), groups[2].is_matrix()), ("job 2", true));
        assert_eq!(groups[2].last().reason, "ended at 60");
    }

    #[test]
    fn of_a_matrix_the_worst_leg_speaks() {
        let jobs = [
            job(0, &[], 10, Conclusion::Success),
            job(0, &[], 20, Conclusion::Failure),
            job(0, &[], 30, Conclusion::Cancelled),
        ];
        let groups = groups(&jobs);
        assert_eq!(groups[0].speaker().reason, "ended at 20");
        assert_eq!(groups[0].count(), "1 of 3 jobs failed");
    }
}
