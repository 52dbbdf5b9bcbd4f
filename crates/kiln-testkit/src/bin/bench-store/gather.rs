//! Calls that arrive together share a transaction: while one is under way, the next ones collect.

use tokio::sync::{mpsc, oneshot};

type Call<Q, A> = (Q, oneshot::Sender<A>);

#[derive(Debug)]
pub(crate) struct Gather<Q, A> {
    sender: mpsc::UnboundedSender<Call<Q, A>>,
}

impl<Q, A> Clone for Gather<Q, A> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<Q: Send + 'static, A: Send + 'static> Gather<Q, A> {
    /// Starts one who answers, at most `most` questions at once.
    pub(crate) fn start<F, R>(most: usize, answer: F) -> Self
    where
        F: Fn(Vec<Q>) -> R + Send + 'static,
        R: Future<Output = Vec<A>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(serve(receiver, most, answer));
        Self { sender }
    }

    pub(crate) async fn ask(&self, question: Q) -> A {
        let (caller, answer) = oneshot::channel();
        let sent = self.sender.send((question, caller));
        assert!(sent.is_ok(), "somebody answers");
        answer.await.expect("every question is answered")
    }
}

async fn serve<Q, A, F, R>(
    mut receiver: mpsc::UnboundedReceiver<Call<Q, A>>,
    most: usize,
    answer: F,
) where
    F: Fn(Vec<Q>) -> R,
    R: Future<Output = Vec<A>>,
{
    let mut calls = Vec::new();
    while receiver.recv_many(&mut calls, most).await > 0 {
        let (questions, callers): (Vec<Q>, Vec<_>) = calls.drain(..).unzip();
        for (caller, answer) in callers.into_iter().zip(answer(questions).await) {
            // A runner that left does not want to know.
            let _ = caller.send(answer);
        }
    }
}
