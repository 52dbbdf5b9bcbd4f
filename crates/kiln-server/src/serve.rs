//! Connections: let in up to a bound, answered, and never waited for without one.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::Shared;
use crate::detach::detach;
use crate::http::{self, Front};
use crate::peer::{self, Peer};
use crate::places::Places;
use crate::rate::Rates;
use crate::stall::Stalling;
use crate::tls::Tls;

/// A client that does not say what it wants for so long is gone.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// A body of which nothing comes for so long is not waited for.
const BODY_TIME: Duration = Duration::from_secs(30);
/// A client that takes nothing of an answer for so long is cut off.
const SEND_TIME: Duration = Duration::from_mins(1);
/// A client that does not come to an understanding about encryption in this time is gone.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How often a client of HTTP/2 that says nothing is asked whether it lives, and how long it may take to say so.
const ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(30));
/// Requests at once on one connection of HTTP/2. A page needs few; each event stream is one of them.
const STREAMS: u32 = 128;
/// The most bytes that the headers of a request of HTTP/2 may have, as HTTP/1 has it.
const HEADERS: u32 = 64 << 10;
/// How long nobody is let in when the system has no more room for connections.
const BREATH: Duration = Duration::from_millis(100);

/// A request on its way to its answer.
type Answered = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

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
    front: Front,
    rates: Rates,
    tls: Option<Arc<Tls>>,
    cut: CancellationToken,
}

/// Lets clients in until the server is to stop.
pub(crate) async fn accept(
    app: &Shared,
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
) -> Connections {
    let (tracker, cut) = (TaskTracker::new(), CancellationToken::new());
    if let Some(tls) = &tls {
        tracker.spawn(Arc::clone(tls).follow(app.stopping.clone()));
    }
    let door = Arc::new(Door {
        app: Arc::clone(app),
        front: Front::new(Arc::clone(app)),
        rates: Rates::new(&app.config.limits),
        tls,
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
        match &self.tls {
            // Thousands are connected at once: what a connection does not need takes no room in it.
            Some(tls) => Box::pin(Arc::clone(&self).encrypted(tls, stream, address)).await,
            None => self.talk(Stalling::new(stream, SEND_TIME), address, false).await,
        }
    }

    async fn encrypted(self: Arc<Self>, tls: &Tls, stream: TcpStream, address: SocketAddr) {
        let cut = self.cut.clone();
        let shaken = tokio::select! {
            shaken = timeout(HANDSHAKE_TIME, self.shake(tls, stream)) => shaken,
            () = cut.cancelled() => return,
        };
        let Ok(Some(stream)) = shaken else { return };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.talk_h2(stream, address).await;
        } else {
            self.talk(stream, address, true).await;
        }
    }

    /// Comes to an understanding about encryption. Whoever speaks plainly is told where to go.
    async fn shake(
        &self,
        tls: &Tls,
        mut stream: TcpStream,
    ) -> Option<TlsStream<Stalling<TcpStream>>> {
        let mut first = [0];
        // Each message of TLS begins with its kind, and none of them is a letter.
        if stream.peek(&mut first).await.ok()? == 1 && first[0].is_ascii_alphabetic() {
            let words = format!("this server speaks HTTPS: {}\n", self.app.config.public_url);
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{words}",
                words.len()
            );
            // What nobody read would take the answer away with the connection.
            stream.read(&mut [0; 8 << 10]).await.ok().filter(|taken| *taken > 0)?;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
            return None;
        }
        tls.acceptor().accept(Stalling::new(stream, SEND_TIME)).await.ok()
    }

    /// Answers what is asked on a connection of HTTP/1.
    async fn talk<S>(self: Arc<Self>, stream: S, address: SocketAddr, secure: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = Arc::clone(&self).service(address, secure);
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        self.until_over(Box::pin(connection), http1::UpgradeableConnection::graceful_shutdown)
            .await;
    }

    /// Answers what is asked on a connection of HTTP/2.
    async fn talk_h2<S>(self: Arc<Self>, stream: S, address: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = Arc::clone(&self).service(address, true);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE.0)
            .keep_alive_timeout(ALIVE.1)
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEADERS);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        self.until_over(Box::pin(connection), http2::Connection::graceful_shutdown).await;
    }

    /// What answers the requests of a connection.
    fn service(
        self: Arc<Self>,
        address: SocketAddr,
        secure: bool,
    ) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future = Answered> {
        hyper::service::service_fn(move |request| {
            Arc::clone(&self).answer(request, address, secure)
        })
    }

    /// Lets a connection go on until it is over, and ends it in order when the server stops.
    async fn until_over<C: Future>(
        &self,
        mut connection: Pin<Box<C>>,
        wind_up: impl FnOnce(Pin<&mut C>),
    ) {
        tokio::select! {
            // Clients hang up in many ways, and none of them matters to anybody else.
            _ = connection.as_mut() => return,
            () = self.app.stopping.cancelled() => wind_up(connection.as_mut()),
        }
        tokio::select! {
            _ = connection => {}
            () = self.cut.cancelled() => {}
        }
    }

    /// A connection keeps room for the future of a request as long as it lives, also when its answer has long begun.
    /// So it is only a pointer, and what it points to is small: thousands wait for an answer.
    fn answer(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
        address: SocketAddr,
        secure: bool,
    ) -> Answered {
        let mut request = request.map(patiently);
        if request.version() == hyper::Version::HTTP_2 {
            named(&mut request);
        } else {
            detach(&mut request);
        }
        let direct = Peer { address: address.ip(), secure };
        let peer = peer::of(&request, direct, &self.app.config.proxies);
        match self.rates.admit(peer.address, Instant::now()) {
            Ok(budget) => budget.into_iter().for_each(|budget| {
                request.extensions_mut().insert(budget);
            }),
            Err(refusal) => {
                drop(http::unread::read_on(request));
                let refused = axum::response::IntoResponse::into_response(refusal);
                return Box::pin(std::future::ready(Ok(refused)));
            }
        }
        let client = SocketAddr::new(peer.address, address.port());
        request.extensions_mut().insert(ConnectInfo(client));
        request.extensions_mut().insert(peer);
        // After an outage all runners come back with tokens that have expired. Nobody guesses theirs.
        let is_runner = request.uri().path().starts_with("/actions/");
        let asked = self.front.answer(request);
        Box::pin(async move {
            let response = asked.await;
            if !is_runner {
                self.rates.answered(peer.address, Instant::now(), response.status());
            }
            Ok(response)
        })
    }
}

/// HTTP/2 names the host elsewhere than HTTP/1, and whoever checks it looks in one place.
fn named(request: &mut Request) {
    let host = request.uri().authority().map(|host| HeaderValue::from_str(host.as_str()));
    if let Some(Ok(host)) = host {
        request.headers_mut().insert(HOST, host);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, C, F>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// W3 Q5: thousands are open, and most of them wait.
    #[test]
    fn a_connection_takes_little_room() {
        assert!(size(Door::serve) <= 1_024, "{}", size(Door::serve));
    }
}
