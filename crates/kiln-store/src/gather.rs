//! What arrives together goes to the database together.
//!
//! Nothing ever waits for a batch to fill: while transactions are under way, what comes in gathers, and
//! the next one takes it all.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::StoreError;

type Reply<A> = oneshot::Sender<Result<A, StoreError>>;
type Work<Q, A> = dyn Fn(Vec<Q>) -> Answers<A> + Send + Sync;
/// The answers to a batch, in the order of its questions.
pub type Answers<A> = Pin<Box<dyn Future<Output = Result<Vec<A>, StoreError>> + Send>>;

/// A way to ask one question of many that are answered together. Clones lead to the same place.
#[derive(Debug)]
pub struct Gather<Q, A>(mpsc::Sender<(Q, Reply<A>)>);

impl<Q, A> Clone for Gather<Q, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// How much may gather before callers are held back.
const ROOM: usize = 4_096;

impl<Q: Clone + Send + Sync + 'static, A: Send + 'static> Gather<Q, A> {
    /// At most `most` questions in a batch and `abreast` batches at a time. The task behind it ends with
    /// the last clone.
    pub fn new<W>(most: usize, abreast: usize, work: W) -> Self
    where
        W: Fn(Vec<Q>) -> Answers<A> + Send + Sync + 'static,
    {
        let (sender, receiver) = mpsc::channel(ROOM);
        tokio::spawn(serve(receiver, most, abreast, Arc::new(work)));
        Self(sender)
    }

    pub async fn ask(&self, question: Q) -> Result<A, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.0.send((question, reply)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

async fn serve<Q: Clone + Send + Sync + 'static, A: Send + 'static>(
    mut receiver: mpsc::Receiver<(Q, Reply<A>)>,
    most: usize,
    abreast: usize,
    work: Arc<Work<Q, A>>,
) {
    let free = Arc::new(Semaphore::new(abreast));
    loop {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        let mut batch = Vec::new();
        if receiver.recv_many(&mut batch, most).await == 0 {
            return;
        }
        let work = Arc::clone(&work);
        tokio::spawn(async move {
            answer(batch, &*work).await;
            drop(permit);
        });
    }
}

/// Answers a batch. When it fails as a whole because of one of its questions, each is asked alone.
async fn answer<Q: Clone + Send + Sync, A: Send>(batch: Vec<(Q, Reply<A>)>, work: &Work<Q, A>) {
    let (questions, replies): (Vec<Q>, Vec<Reply<A>>) = batch.into_iter().unzip();
    match work(questions.clone()).await {
        Ok(answers) => {
            for (answer, reply) in answers.into_iter().zip(replies) {
                // Whoever does not wait any more does not want to know.
                let _ = reply.send(Ok(answer));
            }
        }
        Err(error) if questions.len() == 1 || error.concerns_all() => {
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
        Err(_) => {
            for (question, reply) in questions.into_iter().zip(replies) {
                let alone = work(vec![question]).await;
                let _ = reply
                    .send(alone.and_then(|mut answers| answers.pop().ok_or(StoreError::Closed)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn recording(batches: &Arc<Mutex<Vec<usize>>>) -> Gather<u32, u32> {
        let batches = batches.clone();
        Gather::new(100, 1, move |questions: Vec<u32>| {
            batches.lock().unwrap().push(questions.len());
            Box::pin(async move {
                tokio::task::yield_now().await;
                if questions.contains(&13) {
                    return Err(StoreError::Database("unlucky".to_owned()));
                }
                Ok(questions.into_iter().map(|question| question * 2).collect())
            })
        })
    }

    async fn ask_all(gather: &Gather<u32, u32>, questions: &[u32]) -> Vec<Result<u32, StoreError>> {
        let asked = questions.iter().map(|question| {
            let (gather, question) = (gather.clone(), *question);
            tokio::spawn(async move { gather.ask(question).await })
        });
        let mut answers = Vec::new();
        for task in asked.collect::<Vec<_>>() {
            answers.push(task.await.unwrap());
        }
        answers
    }

    #[tokio::test]
    async fn what_comes_while_work_is_under_way_shares_the_next_batch() {
        let batches = Arc::new(Mutex::new(Vec::new()));
        let questions: Vec<u32> = (100..150).collect();
        let answers = ask_all(&recording(&batches), &questions).await;
        for (question, answer) in questions.iter().zip(answers) {
            assert_eq!(answer.unwrap(), question * 2);
        }
        assert!(batches.lock().unwrap().len() < 10, "{batches:?}");
    }

    #[tokio::test]
    async fn one_bad_question_does_not_spoil_the_others() {
        let batches = Arc::new(Mutex::new(Vec::new()));
        let answers = ask_all(&recording(&batches), &[1, 13, 2]).await;
        assert_eq!(answers[0].as_ref().unwrap(), &2);
        assert!(answers[1].is_err());
        assert_eq!(answers[2].as_ref().unwrap(), &4);
    }
}
