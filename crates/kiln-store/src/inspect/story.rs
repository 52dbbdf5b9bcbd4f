//! What readers were told: each beginning and each end once, and nothing after an end.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{Attempt, Event, Piece};
use super::{Report, Rule};

/// What the events say about an attempt.
#[derive(Debug, Default)]
struct Story<'e> {
    created: usize,
    ends: Vec<&'e Event>,
    /// Said after the attempt had ended.
    late: usize,
    jobs: BTreeMap<i64, JobStory<'e>>,
}

#[derive(Debug, Default)]
struct JobStory<'e> {
    ends: Vec<&'e Event>,
    late: usize,
    claims: Vec<Claim>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
struct Claim {
    claim: i64,
    runner: i64,
}

#[derive(Debug, serde::Deserialize)]
struct End {
    conclusion: String,
}

fn end_of(event: &Event) -> Option<String> {
    let end: Option<End> = serde_json::from_str(event.payload.as_deref()?).ok();
    end.map(|end| end.conclusion)
}

impl<'e> Story<'e> {
    fn add(&mut self, event: &'e Event) {
        self.late += usize::from(!self.ends.is_empty());
        match (event.kind.as_str(), event.job) {
            ("run_created", _) => self.created += 1,
            ("run_done", _) => self.ends.push(event),
            (kind, Some(job)) => {
                let story = self.jobs.entry(job).or_default();
                story.late += usize::from(!story.ends.is_empty());
                if kind == "job_done" {
                    story.ends.push(event);
                }
                let payload = event.payload.as_deref().unwrap_or_default();
                if kind == "job_claimed"
                    && let Ok(claim) = serde_json::from_str(payload)
                {
                    story.claims.push(claim);
                }
            }
            _ => {}
        }
    }
}

impl Piece {
    pub(super) fn story_of_all(&self, report: &mut Report) {
        let mut stories: BTreeMap<(i64, i64), Story<'_>> = BTreeMap::new();
        for event in &self.events {
            stories.entry((event.run, event.attempt)).or_default().add(event);
        }
        for (key, attempt) in &self.attempts {
            let story = stories.remove(key).unwrap_or_default();
            run_events(attempt, &story, report);
            job_events(attempt, &story, report);
        }
        for ((run, attempt), _) in stories {
            let subject = format!("run {run}, attempt {attempt}");
            report.find(Rule::RunEvents, subject, "there are events of it, and it does not exist");
        }
        self.past_claims(report);
    }

    /// A claim that came to nothing is older than the one that its job is held under.
    fn past_claims(&self, report: &mut Report) {
        for past in &self.claims {
            let job = self.attempts.get(&(past.run, past.attempt));
            let job = job.and_then(|attempt| attempt.jobs.get(&past.number));
            let right = job.is_some_and(|job| {
                past.claim < job.claim || (past.claim == job.claim && !job.is_held())
            });
            if !right {
                let subject =
                    format!("run {}, attempt {}, job {}", past.run, past.attempt, past.number);
                let text =
                    format!("its claim {} ended, and is the one it is held under", past.claim);
                report.find(Rule::Claim, subject, text);
            }
        }
    }
}

fn run_events(attempt: &Attempt, story: &Story<'_>, report: &mut Report) {
    let mut find = |text: String| report.find(Rule::RunEvents, attempt.name(), text);
    if story.created != 1 {
        find(format!("it says {} times that it was created", story.created));
    }
    if story.ends.len() != usize::from(attempt.is_done()) {
        find(format!("it is {}, and says {} times that it ended", attempt.state, story.ends.len()));
    }
    if story.ends.iter().any(|end| end_of(end) != attempt.conclusion) {
        find(format!("it ended as {:?}, and says otherwise", attempt.conclusion));
    }
    if story.late > 0 {
        find(format!("{} events come after its end", story.late));
    }
}

fn job_events(attempt: &Attempt, story: &Story<'_>, report: &mut Report) {
    let none = JobStory::default();
    let mut ids = BTreeSet::new();
    for (number, job) in &attempt.jobs {
        ids.insert(job.id);
        let story = story.jobs.get(&job.id).unwrap_or(&none);
        let mut find = |rule, text: String| report.find(rule, attempt.job_name(*number), text);
        if story.ends.len() != usize::from(job.is_done()) {
            let count = story.ends.len();
            find(
                Rule::JobEvents,
                format!("it is {}, and says {count} times that it ended", job.state),
            );
        }
        if story.ends.iter().any(|end| end_of(end) != job.conclusion) {
            find(Rule::JobEvents, format!("it ended as {:?}, and says otherwise", job.conclusion));
        }
        if story.late > 0 {
            find(Rule::JobEvents, format!("{} events come after its end", story.late));
        }
        let claims: BTreeSet<i64> = story.claims.iter().map(|claim| claim.claim).collect();
        let held = Claim { claim: job.claim, runner: job.runner.unwrap_or_default() };
        if claims.len() < story.claims.len()
            || claims.last().is_some_and(|last| *last > job.claim)
            || (job.is_held() && !story.claims.contains(&held))
        {
            let text = format!("it is at claim {}, its events say {:?}", job.claim, story.claims);
            find(Rule::Claim, text);
        }
    }
    for id in story.jobs.keys().filter(|id| !ids.contains(id)) {
        let subject = format!("{}, job id {id}", attempt.name());
        report.find(Rule::JobEvents, subject, "there are events of it, and it does not exist");
    }
}
