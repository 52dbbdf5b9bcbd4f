//! Connections: let in up to a bound, answered, and never waited for without one.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::app::Shared;
use crate::http;
use crate::peer;
use crate::places::Places;
use crate::rate::Rates;

/// A client that does not say what it wants for so long is gone.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// A body of which nothing comes for so long is not waited for.
const BODY_TIME: Duration = Duration::from_secs(30);
/// A client that takes nothing of an answer for so long is cut off.
const SEND_TIME: Duration = Duration::from_mins(1);
/// How long nobody is let in when the system has no more room for connections.
const BREATH: Duration = Duration::from_millis(100);

/// Connections that are open.
#[derive(Debug)]
pub(crate) struct Connections {
    tracker: TaskTracker,
    cut: CancellationToken,
}

impl Connections {
    /// Waits until all are closed, and cuts off those that are not in time. Says how many.
    pub(crate) async fn end(self, grace: Duration) -> usize {
        self.tracker.close();
        if timeout(grace, self.tracker.wait()).await.is_ok() {
            return 0;
        }
        let left = self.tracker.len();
        self.cut.cancel();
        self.tracker.wait().await;
        left
    }
}

/// What all connections need.
struct Door {
    app: Shared,
    router: Router,
    rates: Rates,
    cut: CancellationToken,
}

/// Lets clients in until the server is to stop.
pub(crate) async fn accept(app: &Shared, listener: TcpListener) -> Connections {
    let (tracker, cut) = (TaskTracker::new(), CancellationToken::new());
    let door = Arc::new(Door {
        app: Arc::clone(app),
        router: http::router(Arc::clone(app)),
        rates: Rates::new(&app.config.limits),
        cut: cut.clone(),
    });
    let places = Places::new(app.config.limits.connections);
    loop {
        let next = tokio::select! {
            biased;
            () = app.stopping.cancelled() => break,
            next = next(&listener, &places) => next,
        };
        if let Some((stream, address, place)) = next {
            let door = Arc::clone(&door);
            tracker.spawn(async move {
                door.serve(stream, address).await;
                drop(place);
            });
        }
    }
    Connections { tracker, cut }
}

/// The next client, when there is room for it.
async fn next(
    listener: &TcpListener,
    places: &Places,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = places.next().await?;
    match listener.accept().await {
        Ok((stream, address)) => Some((stream, address, place)),
        Err(error) => {
            // Mostly there are too many open files, and soon there will be fewer.
            tracing::warn!(%error, "cannot let a client in");
            sleep(BREATH).await;
            None
        }
    }
}

impl Door {
    async fn serve(self: Arc<Self>, stream: TcpStream, address: SocketAddr) {
        // Answers are small, and somebody waits for each.
        let _ = stream.set_nodelay(true);
        // Who takes nothing for so long is gone, or as good as that: a log that nobody reads holds nothing.
        let patience = u32::try_from(SEND_TIME.as_millis()).unwrap_or(u32::MAX);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, patience);
        let door = Arc::clone(&self);
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let door = Arc::clone(&door);
            async move { Ok::<_, Infallible>(door.answer(request, address).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            // Clients hang up in many ways, and none of them matters to anybody else.
            _ = connection.as_mut() => return,
            () = self.app.stopping.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection => {}
            () = self.cut.cancelled() => {}
        }
    }

    async fn answer(&self, request: hyper::Request<Incoming>, address: SocketAddr) -> Response {
        let mut request = request.map(patiently);
        let peer = peer::of(&request, address.ip(), &self.app.config.trusted_proxies);
        if let Err(refusal) = self.rates.admit(peer.address, Instant::now()) {
            return axum::response::IntoResponse::into_response(refusal);
        }
        let client = SocketAddr::new(peer.address, address.port());
        request.extensions_mut().insert(ConnectInfo(client));
        request.extensions_mut().insert(peer);
        // After an outage all runners come back with tokens that have expired. Nobody guesses theirs.
        let is_runner = request.uri().path().starts_with("/actions/");
        let response = self.ask(request).await;
        if !is_runner {
            self.rates.answered(peer.address, Instant::now(), response.status());
        }
        response
    }

    async fn ask(&self, request: Request) -> Response {
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// A body whose pieces must come in time.
fn patiently(body: Incoming) -> Body {
    if hyper::body::Body::is_end_stream(&body) {
        return Body::empty();
    }
    let pieces = http_body_util::BodyDataStream::new(body);
    let timed = stream::unfold(pieces, async |mut pieces| {
        let late = || Err(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let piece = match timeout(BODY_TIME, pieces.next()).await {
            Ok(piece) => piece?.map_err(std::io::Error::other),
            Err(_) => late(),
        };
        Some((piece, pieces))
    });
    Body::from_stream(timed)
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").finish_non_exhaustive()
    }
}
