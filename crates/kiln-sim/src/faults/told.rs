//! What happens, in short lines.

use super::kiln::{Done, Given, Work};
use super::message::{Actor, Answer, Ask, Mark, Message};

/// A message that arrives; nothing when it is not worth a line.
pub(super) fn message(from: Actor, to: Actor, message: &Message) -> Option<String> {
    let what = match message {
        Message::Request { id, ask } => format!("asks ({id}) {}", asked(ask)),
        Message::Response { id, answer } => format!("answers ({id}) {}", answered(answer)),
        Message::Refused { id } => format!("is not there ({id})"),
        _ => return None,
    };
    Some(format!("{} {what} -> {}", actor(from), actor(to)))
}

fn actor(actor: Actor) -> String {
    match actor {
        Actor::People => "people".to_owned(),
        Actor::Server(number) => format!("server {number}"),
        Actor::Runner(number) => format!("runner {number}"),
        Actor::Database => "database".to_owned(),
    }
}

fn asked(ask: &Ask) -> String {
    match ask {
        Ask::Trigger { key, .. } => format!("for a run, trigger {key}"),
        Ask::Claim(asking) => {
            format!("for work, up to {}, nonce {:x}", asking.want, asking.nonce)
        }
        other => format!("{other:?}"),
    }
}

fn answered(answer: &Answer) -> String {
    match answer {
        Answer::Jobs(jobs) => {
            let name = |given: &Given| format!("job {} claim {}", given.job, given.claim);
            format!("[{}]", jobs.iter().map(name).collect::<Vec<_>>().join(", "))
        }
        Answer::Ended(end) => format!("that it heard {end:?} before"),
        Answer::Refused(reason) => format!("no: {reason}"),
        other => format!("{other:?}"),
    }
}

/// A transaction that was carried out; nothing when it changed nothing.
pub(super) fn transaction(server: usize, work: &Work, done: &Done) -> Option<String> {
    let what = match (work, done) {
        (Work::Create { key, .. }, done) => format!("create for trigger {key}: {done:?}"),
        (Work::Claim(asking), Done::Given(given)) => {
            if given.iter().all(|offered| offered.jobs.is_empty()) {
                return None;
            }
            let name = |runner: u64, given: &Given| {
                format!(
                    "runner {runner} gets job {} claim {} (run {} leg {})",
                    given.job, given.claim, given.run, given.leg
                )
            };
            let all = asking.iter().zip(given).flat_map(|(asking, offered)| {
                offered.jobs.iter().map(|given| name(asking.runner, given))
            });
            all.collect::<Vec<_>>().join(", ")
        }
        (Work::Expired, Done::Expired(jobs)) if jobs.is_empty() => return None,
        (Work::TakeTasks, Done::Tasks(tasks)) if tasks.is_empty() => return None,
        (Work::Ring | Work::GiveUp, _) => return None,
        (work, done) => format!("{work:?}: {done:?}"),
    };
    Some(format!("  database for server {server}: {what}"))
}

pub(super) fn mark(who: Actor, mark: &Mark) -> String {
    match mark {
        Mark::Began(given) => {
            let (run, leg) = (given.run, given.leg);
            let (job, claim) = (given.job, given.claim);
            format!("  {} BEGAN job {job} claim {claim} (run {run} leg {leg})", actor(who))
        }
        other => format!("  {} MARK {other:?}", actor(who)),
    }
}
