//! What nobody reads of a request is read for nothing for a while, so that its client hears why.
//!
//! A connection that is closed while bytes arrive is reset, and the answer may go with it. So whoever refuses a
//! request early simply answers: the rest of its body is taken in beside that. Up to a bound the connection can be
//! used again; beyond it a client has the time to look up from sending.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use futures_util::{StreamExt as _, future};
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How much is read for nothing: what clients send as one piece, mostly.
const MOST: usize = 16 << 20;
/// How long a connection is kept for that.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request whose body is read on if its handler does not.
pub(crate) fn read_on(request: Request) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    let waits = waits_to_be_asked(request.headers());
    request.map(|body| Body::new(Wanted { body, waits, is_over: false }))
}

/// Whether the client sends nothing before it is told to, or has been refused.
fn waits_to_be_asked(headers: &HeaderMap) -> bool {
    headers
        .get(header::EXPECT)
        .is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// A body as long as somebody wants it.
#[derive(Debug)]
struct Wanted {
    body: Body,
    /// To read it would ask the client for it.
    waits: bool,
    is_over: bool,
}

impl HttpBody for Wanted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.waits = false;
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.is_over = !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if self.waits || self.is_over || self.body.is_end_stream() {
            return;
        }
        let rest = std::mem::take(&mut self.body);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(timeout(PATIENCE, discard(rest)));
        }
    }
}

async fn discard(rest: Body) {
    let mut pieces = rest.into_data_stream();
    let mut left = MOST;
    while let Some(Ok(piece)) = pieces.next().await {
        left = left.saturating_sub(piece.len());
        if left == 0 {
            // Nothing more is taken, but neither is the connection closed before the client had time to look.
            future::pending::<()>().await;
        }
    }
}
