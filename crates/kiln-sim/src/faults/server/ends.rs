//! Ends of jobs that come with one request. Each is heard for itself.

use super::{Server, Then};
use crate::faults::bug::Bug;
use crate::faults::kiln::{Done, News, Word, Work};
use crate::faults::message::{Actor, Answer, Message, Out};
use crate::faults::workload::CALM;

/// Ends of one request, until all that could be heard is.
#[derive(Debug)]
pub(super) struct Together {
    to: Actor,
    request: u64,
    /// What is said of each. Nothing of one that is to be told alone, because its answer says more.
    answers: Vec<Option<Answer>>,
    /// How many transactions are under way.
    open: usize,
}

/// Ends that share a transaction: the request they came with, the place of each there, and what it was.
#[derive(Debug)]
pub(super) struct Share {
    together: u64,
    ends: Vec<(usize, News)>,
}

impl Server {
    /// What this server remembers of an end that it heard before.
    pub(super) fn heard_before(&self, news: &News) -> Option<Answer> {
        let finished = matches!(news.word, Word::Finished(_));
        let before = self.ends.get(&(news.job, news.claim)).filter(|_| finished);
        before.map(|before| Answer::Ended(*before))
    }

    pub(super) fn remember_end(&mut self, news: &News) {
        if let Word::Finished(conclusion) = news.word {
            self.ends.insert((news.job, news.claim), conclusion);
        }
    }

    /// Those of a run share a transaction, and of several runs all do or two halves, as the database has it.
    pub(super) fn hear_together(
        &mut self,
        (to, request): (Actor, u64),
        ends: Vec<News>,
        out: &mut Out,
    ) {
        let mut answers = Vec::new();
        let mut ways: Vec<Vec<(usize, News)>> = vec![Vec::new(); self.rules.ways];
        for (place, news) in ends.into_iter().enumerate() {
            answers.push(self.heard_before(&news));
            // Some of its log is missing here, for example.
            let unready = out.now < CALM && self.random.chance(1, 5);
            if answers[place].is_none() && !unready {
                let way = usize::try_from(news.job.run().0).unwrap_or(0) % ways.len();
                ways[way].push((place, news));
            }
        }
        ways.retain(|ends| !ends.is_empty());
        self.count += 1;
        let together = self.count;
        self.together.insert(together, Together { to, request, answers, open: ways.len() });
        if ways.is_empty() {
            self.answer_together(together, out);
        }
        for ends in ways {
            let works = ends.iter().map(|(_, news)| Work::News(news.clone())).collect();
            self.transact(works, Then::Ends(Share { together, ends }), out);
        }
    }

    /// Some of them were heard, or nothing came of them.
    pub(super) fn heard_some(&mut self, share: Share, done: Vec<Done>, out: &mut Out) {
        let Share { together, ends } = share;
        for ((place, news), done) in ends.into_iter().zip(done) {
            if !matches!(done, Done::Accepted) {
                continue;
            }
            self.remember_end(&news);
            if let Some(request) = self.together.get_mut(&together) {
                request.answers[place] = Some(Answer::Accepted);
            }
        }
        if let Some(request) = self.together.get_mut(&together) {
            request.open -= 1;
            if request.open == 0 {
                self.answer_together(together, out);
            }
        }
    }

    fn answer_together(&mut self, together: u64, out: &mut Out) {
        let Some(Together { to, request: id, mut answers, .. }) = self.together.remove(&together)
        else {
            return;
        };
        if self.rules.has(Bug::HeardForAll) && answers.iter().any(Option::is_some) {
            answers.fill(Some(Answer::Accepted));
        }
        out.send(to, Message::Response { id, answer: Answer::Together(answers) });
    }
}
