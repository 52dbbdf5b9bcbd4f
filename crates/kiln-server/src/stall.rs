//! A connection whose other end must take what it is sent.
//!
//! The system notices an end that is gone, not one that lives and reads nothing: a browser's tab that sleeps, a proxy
//! that waits for its own client. What such an end was to be told would be held for it without end.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Fails where nothing of what is written was taken for so long.
#[derive(Debug)]
pub(crate) struct Stalling<S> {
    stream: S,
    patience: Duration,
    /// Since the other end takes nothing. Nearly always there is none, so it is elsewhere.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waits: None }
    }

    /// What came of an attempt to write, unless it was the last one.
    fn judged<T>(
        &mut self,
        tried: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.waits = None;
            return tried;
        }
        let patience = self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(patience)));
        waits.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judged(tried, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judged(tried, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_flush(context);
        self.judged(tried, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judged(tried, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(500);

    #[tokio::test]
    async fn who_takes_nothing_is_cut_off_in_time() {
        let (near, _far) = duplex(8);
        let mut near = Stalling::new(near, PATIENCE);
        let began = Instant::now();
        let error = near.write_all(&[0; 9]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= PATIENCE);
    }

    #[tokio::test]
    async fn who_takes_a_little_in_time_is_never_cut_off() {
        let (near, mut far) = duplex(8);
        let mut near = Stalling::new(near, PATIENCE);
        let taking = tokio::spawn(async move {
            let mut taken = Vec::new();
            let mut piece = [0; 4];
            while let Ok(count @ 1..) = far.read(&mut piece).await {
                taken.extend_from_slice(&piece[..count]);
                sleep(PATIENCE / 20).await;
            }
            taken.len()
        });
        // It takes longer as a whole than anybody may take nothing.
        near.write_all(&[7; 100]).await.unwrap();
        near.shutdown().await.unwrap();
        assert_eq!(taking.await.unwrap(), 100);
    }

    #[tokio::test]
    async fn a_connection_on_which_nothing_is_said_stays() {
        let (near, mut far) = duplex(8);
        let mut near = Stalling::new(near, PATIENCE);
        near.write_all(b"hello").await.unwrap();
        assert!(timeout(PATIENCE * 2, near.read_u8()).await.is_err(), "nothing came");
        far.write_u8(1).await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), 1);
    }
}
