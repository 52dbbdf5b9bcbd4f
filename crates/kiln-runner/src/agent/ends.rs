//! Jobs that end at the same time are told of with one request.

use kiln_proto::job::JobRef;
use kiln_proto::report::{Complete, Completed, End, Ended, Ends as Together, MOST_ENDS};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// What is longer goes alone, so that a request never becomes too large.
const LONGEST: usize = 64 << 10;

type Waiting = (End, oneshot::Sender<Option<Completed>>);

/// The way for ends that come together. Clones lead to the same place.
#[derive(Debug, Clone)]
pub(super) struct Ends(mpsc::UnboundedSender<Waiting>);

impl Ends {
    /// With what does the telling, for as long as there may be something to tell. `tell` says what the server answered, if
    /// it heard of them.
    pub(super) fn new<T, F>(tell: T) -> (Self, impl Future<Output = ()>)
    where
        T: Fn(Together) -> F,
        F: Future<Output = Option<Ended>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), tell_together(receiver, tell))
    }

    /// What the server says of an end that others came with. Nothing if it came alone, or was not heard: then it is to be
    /// told alone, and has an answer that says more.
    pub(super) async fn tell(
        &self,
        job: JobRef,
        token: &str,
        complete: &Complete,
    ) -> Option<Completed> {
        if serde_json::to_vec(complete).map_or(usize::MAX, |body| body.len()) > LONGEST {
            return None;
        }
        let JobRef { job_id, attempt } = job;
        let end = End { job_id, attempt, token: token.to_owned(), complete: complete.clone() };
        let (reply, answer) = oneshot::channel();
        self.0.send((end, reply)).ok()?;
        answer.await.ok()?
    }
}

/// Takes what has come by now. Nothing waits for others to come, or for those that went before.
async fn tell_together<F>(
    mut waiting: mpsc::UnboundedReceiver<Waiting>,
    tell: impl Fn(Together) -> F,
) where
    F: Future<Output = Option<Ended>> + Send + 'static,
{
    let (mut come, mut under_way) = (Vec::new(), JoinSet::new());
    while waiting.recv_many(&mut come, MOST_ENDS).await > 0 {
        while under_way.try_join_next().is_some() {}
        if come.len() == 1 {
            come.clear();
            continue;
        }
        let (ends, replies): (Vec<End>, Vec<_>) = come.drain(..).unzip();
        let told = tell(Together { ends });
        under_way.spawn(async move {
            let answer = told.await.unwrap_or_default();
            for (reply, completed) in replies.into_iter().zip(answer.ended) {
                let _ = reply.send(completed);
            }
        });
    }
    under_way.join_all().await;
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_util::future::join_all;

    use super::*;

    /// Tells of jobs with outputs of these lengths at once. Returns which were told together, and what each heard.
    async fn told(
        lengths: &[usize],
        heard: &[Option<&str>],
    ) -> (Vec<Vec<i64>>, Vec<Option<String>>) {
        let batches = RefCell::new(Vec::new());
        let completed = |word: &&str| Completed { conclusion: (*word).to_owned() };
        let tell = |together: Together| {
            batches.borrow_mut().push(together.ends.iter().map(|end| end.job_id).collect());
            let ended = heard.iter().map(|word| word.as_ref().map(completed)).collect();
            std::future::ready((!heard.is_empty()).then_some(Ended { ended }))
        };
        let (ends, telling) = Ends::new(tell);
        let asking = async move {
            let ask = async |(number, length): (usize, &usize)| {
                let outputs = [("out".to_owned(), "x".repeat(*length))].into();
                let complete = Complete { outputs, ..Complete::default() };
                let job_id = i64::try_from(number).unwrap();
                ends.tell(JobRef { job_id, attempt: 1 }, "token", &complete).await
            };
            join_all(lengths.iter().enumerate().map(ask)).await
        };
        let (answers, ()) = tokio::join!(asking, telling);
        let answers = answers.into_iter().map(|one| one.map(|one| one.conclusion)).collect();
        (batches.into_inner(), answers)
    }

    #[tokio::test]
    async fn ends_that_come_together_are_told_together() {
        let yes = || Some("success".to_owned());
        let (batches, answers) = told(&[1, 1, 1], &[Some("success"), None, Some("success")]).await;
        assert_eq!((batches, answers), (vec![vec![0, 1, 2]], vec![yes(), None, yes()]));
        // A server that is away, or a proxy that knows only the old calls.
        assert_eq!(told(&[1, 1], &[]).await, (vec![vec![0, 1]], vec![None, None]));
        // An answer that is too short says nothing of the rest.
        let short = told(&[1, 1], &[Some("success")]).await;
        assert_eq!(short, (vec![vec![0, 1]], vec![yes(), None]));
    }

    #[tokio::test]
    async fn who_comes_alone_or_with_much_goes_alone() {
        assert_eq!(told(&[1], &[Some("success")]).await, (Vec::new(), vec![None]));
        let much = told(&[1, LONGEST, 1], &[Some("a"), Some("b")]).await;
        let words = [Some("a"), None, Some("b")].map(|word| word.map(ToOwned::to_owned)).to_vec();
        assert_eq!(much, (vec![vec![0, 2]], words));
    }
}
