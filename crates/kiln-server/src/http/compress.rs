//! Answers of text are packed for those who can unpack them.
//!
//! How long a packed answer is says something about what is in it (the attack called BREACH). So what carries
//! secrets is never packed, and neither is what a page of another site asked for: nobody else can put words of
//! their choice beside a secret and watch the length.

use std::io::{self, Write as _};

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
    ETAG, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use hyper::body::Body as _;

/// What is smaller fits into a packet anyway.
const SMALLEST: u64 = 1 << 10;
/// How much is packed at once.
const PIECE: usize = 64 << 10;
const LEVEL: i32 = 3;

/// Beginnings of paths whose answers carry secrets (tokens, keys, all that runners are told), and of those with
/// bytes of jobs, whose length counts.
const SECRET: [&str; 8] = [
    "/welcome",
    "/sign-in",
    "/actions/",
    "/api/tokens",
    "/api/registration-keys",
    "/api/blobs",
    "/api/signed/artifacts",
    "/api/uploads",
];
/// The page with the key of a repository's badge.
const SECRET_PAGE: &str = "/settings";

/// What texts are called. A stream of events is none of them: each must arrive when it is sent.
const TEXTS: [&str; 9] = [
    "text/html",
    "text/plain",
    "text/css",
    "text/javascript",
    "application/json",
    "application/problem+json",
    "application/x-ndjson",
    "application/xml",
    "image/svg+xml",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Zstd,
    Gzip,
}

/// Packs the answer if it is a text and the client wants that.
pub fn packed<A: Future<Output = Response>>(
    request: Request,
    ask: impl FnOnce(Request) -> A,
) -> impl Future<Output = Response> {
    let coding = coding(request.headers()).filter(|_| may_be_packed(&request));
    ask(request).map(move |response| pack(response, coding))
}

fn pack(response: Response, coding: Option<Coding>) -> Response {
    if !is_text(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    let size = body.size_hint().exact();
    let Some(coding) = coding.filter(|_| size.is_none_or(|size| size >= SMALLEST)) else {
        return Response::from_parts(parts, body);
    };
    let Ok(packer) = Packer::new(coding, size) else { return Response::from_parts(parts, body) };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.remove(ACCEPT_RANGES);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    weaken(&mut parts.headers);
    Response::from_parts(parts, packer.over(body.into_data_stream()))
}

/// The same, but other bytes: only a weak tag may be the same for both.
fn weaken(headers: &mut HeaderMap) {
    let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    let weak = tag.filter(|tag| !tag.starts_with("W/")).map(|tag| format!("W/{tag}"));
    if let Some(weak) = weak.and_then(|weak| HeaderValue::try_from(weak).ok()) {
        headers.insert(ETAG, weak);
    }
}

fn may_be_packed(request: &Request) -> bool {
    let path = request.uri().path();
    let is_secret =
        SECRET.iter().any(|prefix| path.starts_with(prefix)) || path.ends_with(SECRET_PAGE);
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    let foreign = matches!(site, Some(b"cross-site" | b"same-site"));
    request.method() == Method::GET && !is_secret && !foreign
}

fn is_text(response: &Response) -> bool {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let kind = text(CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default();
    response.status() == StatusCode::OK
        && TEXTS.contains(&kind.trim())
        && text(CONTENT_ENCODING).is_none()
        && !text(CACHE_CONTROL).is_some_and(|rules| rules.contains("no-transform"))
}

/// The best that the client can unpack.
fn coding(headers: &HeaderMap) -> Option<Coding> {
    let texts = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|it| it.to_str().ok());
    let mut best = None;
    for word in texts.flat_map(|text| text.split(',')) {
        let (name, weight) = word.split_once(';').unwrap_or((word, ""));
        let refused = weight
            .trim()
            .strip_prefix("q=")
            .is_some_and(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        match name.trim() {
            _ if refused => {}
            name if name.eq_ignore_ascii_case("zstd") => return Some(Coding::Zstd),
            name if name.eq_ignore_ascii_case("gzip") => best = Some(Coding::Gzip),
            _ => {}
        }
    }
    best
}

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }
}

enum Encoder {
    Zstd(Box<zstd::Encoder<'static, Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

/// Packs pieces as they come.
struct Packer {
    encoder: Encoder,
    /// Somebody waits for each piece: it must not be held back for the next one.
    flows: bool,
}

impl Packer {
    /// For an answer of this size, or for one that is still being made.
    fn new(coding: Coding, size: Option<u64>) -> io::Result<Self> {
        let encoder = match coding {
            Coding::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
                // Knowing the size, it takes no more memory than it needs.
                encoder.set_pledged_src_size(size)?;
                Encoder::Zstd(Box::new(encoder))
            }
            Coding::Gzip => {
                Encoder::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::fast())))
            }
        };
        Ok(Self { encoder, flows: size.is_none() })
    }

    fn add(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        match &mut self.encoder {
            Encoder::Zstd(encoder) => {
                encoder.write_all(piece)?;
                if self.flows {
                    encoder.flush()?;
                }
                Ok(std::mem::take(encoder.get_mut()))
            }
            Encoder::Gzip(encoder) => {
                encoder.write_all(piece)?;
                if self.flows {
                    encoder.flush()?;
                }
                Ok(std::mem::take(encoder.get_mut()))
            }
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self.encoder {
            Encoder::Zstd(encoder) => encoder.finish(),
            Encoder::Gzip(encoder) => encoder.finish(),
        }
    }

    /// The body, packed.
    fn over(self, content: BodyDataStream) -> Body {
        let start = Flow { packer: Some(self), content, rest: Bytes::new() };
        Body::from_stream(stream::unfold(start, async |mut flow| {
            let piece = flow.next().await.transpose()?;
            Some((piece, flow))
        }))
    }
}

/// A body on its way through a packer.
struct Flow {
    /// None once all is said.
    packer: Option<Packer>,
    content: BodyDataStream,
    rest: Bytes,
}

impl Flow {
    async fn next(&mut self) -> Result<Option<Bytes>, axum::Error> {
        loop {
            let Some(packer) = &mut self.packer else { return Ok(None) };
            if self.rest.is_empty() {
                match self.content.next().await.transpose()? {
                    Some(bytes) => self.rest = bytes,
                    None => {
                        let last = self.packer.take().map_or(Ok(Vec::new()), Packer::finish);
                        return last.map(|last| Some(last.into())).map_err(axum::Error::new);
                    }
                }
            }
            let piece = self.rest.split_to(self.rest.len().min(PIECE));
            let packed = packer.add(&piece).map_err(axum::Error::new)?;
            if !packed.is_empty() {
                return Ok(Some(packed.into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::Router;
    use axum::middleware::Next;
    use axum::routing::any;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    const LONG: usize = 200_000;

    fn router() -> Router {
        let text =
            || async { ([(CONTENT_TYPE, "text/plain; charset=utf-8")], "kiln ".repeat(LONG / 5)) };
        let json = || async {
            let headers = [(CONTENT_TYPE, "application/json"), (ETAG, "\"a\"")];
            (headers, "kiln ".repeat(1_000))
        };
        let events = || async { ([(CONTENT_TYPE, "text/event-stream")], "x".repeat(LONG)) };
        let bytes = || async { ([(CONTENT_TYPE, "application/zip")], "x".repeat(LONG)) };
        let packed_already = || async {
            ([(CONTENT_TYPE, "text/plain"), (CONTENT_ENCODING, "gzip")], "x".repeat(LONG))
        };
        let stream = || async {
            let pieces = ["one ", "two ", "three"].map(|it| Ok::<_, io::Error>(Bytes::from(it)));
            ([(CONTENT_TYPE, "text/plain")], Body::from_stream(stream::iter(pieces)))
        };
        Router::new()
            .route("/text", any(text))
            .route("/json", any(json))
            .route("/small", any(|| async { ([(CONTENT_TYPE, "text/plain")], "small") }))
            .route("/events", any(events))
            .route("/zip", any(bytes))
            .route("/packed", any(packed_already))
            .route("/stream", any(stream))
            .route("/api/tokens", any(text))
            .route("/acme/app/settings", any(text))
            .layer(axum::middleware::from_fn(|request, next: Next| {
                packed(request, |request| next.run(request))
            }))
    }

    async fn ask(path: &str, headers: &[(&str, &str)]) -> (HeaderMap, Vec<u8>) {
        let request = Request::get(path);
        let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
        let response = router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn text_is_packed_as_the_client_can_unpack_it() {
        let (headers, body) = ask("/text", &[("accept-encoding", "gzip, deflate, br")]).await;
        assert_eq!(headers[CONTENT_ENCODING], "gzip");
        assert_eq!(headers[VARY], "accept-encoding");
        assert!(!headers.contains_key(CONTENT_LENGTH) && body.len() < LONG / 20);
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*body).read_to_string(&mut text).unwrap();
        assert_eq!(text.len(), LONG);
        let (headers, body) = ask("/json", &[("accept-encoding", "gzip;q=0.5, zstd")]).await;
        assert_eq!(
            (&headers[CONTENT_ENCODING], &headers[ETAG]),
            (&"zstd".parse().unwrap(), &"W/\"a\"".parse().unwrap())
        );
        assert_eq!(zstd::decode_all(&*body).unwrap().len(), 5_000);
    }

    #[tokio::test]
    async fn a_stream_comes_through_piece_by_piece() {
        for name in ["gzip", "zstd"] {
            let request = Request::get("/stream").header(ACCEPT_ENCODING, name);
            let response = router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let mut pieces = response.into_body().into_data_stream();
            let first = pieces.next().await.unwrap().unwrap();
            // What was sent is there before the next piece is.
            let mut said = [0; 4];
            match name {
                "gzip" => flate2::read::GzDecoder::new(&*first).read_exact(&mut said).unwrap(),
                _ => zstd::Decoder::new(&*first).unwrap().read_exact(&mut said).unwrap(),
            }
            assert_eq!(&said, b"one ");
        }
    }

    #[tokio::test]
    async fn what_must_not_or_need_not_be_packed_is_not() {
        let all = ("accept-encoding", "gzip, zstd");
        for path in ["/small", "/events", "/zip", "/api/tokens", "/acme/app/settings"] {
            let (headers, _) = ask(path, &[all]).await;
            assert!(!headers.contains_key(CONTENT_ENCODING), "{path}");
        }
        let (headers, body) = ask("/packed", &[all]).await;
        assert_eq!((headers[CONTENT_ENCODING].as_bytes(), body.len()), (&b"gzip"[..], LONG));
        for (name, value) in
            [("accept-encoding", "identity"), ("accept-encoding", "gzip;q=0"), ("x", "y")]
        {
            let (headers, _) = ask("/text", &[(name, value)]).await;
            assert!(!headers.contains_key(CONTENT_ENCODING), "{value}");
            assert_eq!(headers[VARY], "accept-encoding");
        }
        for site in ["cross-site", "same-site"] {
            let (headers, _) = ask("/text", &[all, ("sec-fetch-site", site)]).await;
            assert!(!headers.contains_key(CONTENT_ENCODING), "{site}");
        }
        let (headers, _) = ask("/text", &[all, ("sec-fetch-site", "same-origin")]).await;
        assert!(headers.contains_key(CONTENT_ENCODING));
    }
}
