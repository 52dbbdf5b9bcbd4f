//! A request that no longer lies in the buffer it was read into.
//!
//! What hyper hands over points into the buffer of its connection. As long as somebody holds a header, that buffer cannot be
//! used again, and the connection takes another 8 KiB to hear whether its client is still there. When many come at once,
//! what is left behind is a hole for each of them between buffers that live on.

use axum::extract::Request;
use axum::http::{HeaderValue, Uri};
use bytes::Bytes;

/// Gives the headers and the address of a request a place of their own, which is as large as they are.
pub(crate) fn detach(request: &mut Request) {
    let headers = request.headers();
    let mut copy = Vec::with_capacity(headers.values().map(HeaderValue::len).sum());
    headers.values().for_each(|value| copy.extend_from_slice(value.as_bytes()));
    let mut rest = Bytes::from(copy);
    for value in request.headers_mut().values_mut() {
        let own = HeaderValue::from_maybe_shared(rest.split_to(value.len()));
        let mut own = own.expect("these bytes were a value before");
        own.set_sensitive(value.is_sensitive());
        *value = own;
    }
    if let Ok(own) = Uri::try_from(request.uri().to_string()) {
        *request.uri_mut() = own;
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    /// W3 Q5
    #[test]
    fn a_detached_request_says_the_same_and_holds_no_buffer() {
        let buffer = Bytes::from(b"/a/b%20c?d=1&e=%C3%A4 one two \xe4 secret".to_vec());
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = Uri::from_maybe_shared(buffer.slice(..21)).unwrap();
        let value = |range| HeaderValue::from_maybe_shared(buffer.slice(range)).unwrap();
        let headers = request.headers_mut();
        headers.append("x-several", value(22..25));
        headers.append("x-several", value(26..29));
        headers.insert("x-bytes", value(30..31));
        headers.insert("x-empty", value(0..0));
        let mut secret = value(32..38);
        secret.set_sensitive(true);
        headers.insert("authorization", secret);
        let before = (request.uri().to_string(), format!("{:?}", request.headers()));
        assert!(!buffer.is_unique());
        detach(&mut request);
        assert!(buffer.is_unique(), "somebody still points into it");
        assert_eq!((request.uri().to_string(), format!("{:?}", request.headers())), before);
        assert!(request.headers()["authorization"].is_sensitive());
        assert_eq!(request.headers()["authorization"], "secret");
    }

    #[test]
    fn every_form_of_an_address_stays_what_it_is() {
        for text in ["*", "/", "http://kiln.example:7800/a?b", "kiln.example:443", "/%zz?"] {
            let mut request = Request::new(Body::empty());
            *request.uri_mut() = text.parse().unwrap();
            detach(&mut request);
            assert_eq!(request.uri().to_string(), text);
        }
    }
}
