//! Where a request comes from. What a proxy says about that counts only if the proxy is trusted.

use std::net::IpAddr;

use axum::http::{HeaderMap, Request};

use crate::config::Network;

/// The client of a request; handlers find it among the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub address: IpAddr,
    /// Whether the client came by HTTPS, as far as a trusted proxy knows.
    pub secure: bool,
}

pub(crate) fn of<B>(request: &Request<B>, direct: IpAddr, trusted: &[Network]) -> Peer {
    let direct = direct.to_canonical();
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(direct) {
        return Peer { address: direct, secure: false };
    }
    let headers = request.headers();
    let secure = last(headers, "x-forwarded-proto").is_some_and(|word| word == "https");
    // Each proxy adds whom it heard at the end: the last one that we do not trust is the client. What
    // stands before it, anybody may have written.
    let mut address = direct;
    for word in values(headers, "x-forwarded-for").rev() {
        let Ok(next) = word.parse::<IpAddr>() else { break };
        address = next.to_canonical();
        if !is_trusted(address) {
            break;
        }
    }
    Peer { address, secure }
}

fn last<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    values(headers, name).next_back()
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl DoubleEndedIterator<Item = &'h str> {
    let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(direct: &str, forwarded: &[&str], expect: &str) {
        let mut request = Request::builder();
        for value in forwarded {
            request = request.header("x-forwarded-for", *value);
        }
        let trusted = ["10.0.0.0/8", "::1"].map(|text| text.parse().unwrap());
        let peer = of(&request.body(()).unwrap(), direct.parse().unwrap(), &trusted);
        assert_eq!(peer.address, expect.parse::<IpAddr>().unwrap());
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        check("192.0.2.1", &["198.51.100.7"], "192.0.2.1");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.7"], "198.51.100.7");
        check("10.0.0.1", &["6.6.6.6, 198.51.100.7, 10.0.0.2"], "198.51.100.7");
        check("10.0.0.1", &["6.6.6.6", "198.51.100.7"], "198.51.100.7");
        check("10.0.0.1", &["nonsense, 10.0.0.2"], "10.0.0.2");
        check("::1", &["2001:db8::1"], "2001:db8::1");
        check("::ffff:10.0.0.1", &["198.51.100.7"], "198.51.100.7");
    }

    #[test]
    fn https_is_believed_likewise() {
        let request = Request::builder().header("x-forwarded-proto", "https").body(()).unwrap();
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        assert!(of(&request, "10.0.0.1".parse().unwrap(), &trusted).secure);
        assert!(!of(&request, "192.0.2.1".parse().unwrap(), &trusted).secure);
    }
}
