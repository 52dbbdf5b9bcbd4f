//! Where a request comes from. What a proxy says about that counts only if the proxy is trusted.

use std::net::IpAddr;

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, Request};

use crate::config::Proxies;

/// The client of a request; handlers find it among the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub address: IpAddr,
    /// Whether the client came by HTTPS, as far as we or a trusted proxy know.
    pub secure: bool,
}

/// Who asks. `direct` is whoever is at the other end of the connection.
pub(crate) fn of<B>(request: &Request<B>, direct: Peer, proxies: &Proxies) -> Peer {
    let direct = Peer { address: direct.address.to_canonical(), ..direct };
    let is_trusted =
        |address: IpAddr| proxies.trusted.iter().any(|network| network.contains(address));
    if !is_trusted(direct.address) {
        return direct;
    }
    let headers = request.headers();
    // Only one kind of header is looked at: a proxy that writes the one lets those of clients through that
    // are of the other.
    let (hops, scheme) = if proxies.forwarded {
        let last = |name| forwarded(headers, name).pop();
        (forwarded(headers, "for"), last("proto"))
    } else {
        let hops = values(headers, "x-forwarded-for").map(str::to_owned).collect();
        (hops, values(headers, "x-forwarded-proto").next_back().map(str::to_owned))
    };
    let secure = scheme.map_or(direct.secure, |word| word.eq_ignore_ascii_case("https"));
    // Each proxy adds whom it heard at the end: the last one that we do not trust is the client. What
    // stands before it, anybody may have written.
    let mut address = direct.address;
    for hop in hops.iter().rev() {
        let Some(next) = address_of(hop) else { break };
        address = next.to_canonical();
        if !is_trusted(address) {
            break;
        }
    }
    Peer { address, secure }
}

/// An address as proxies write it: perhaps with a port, and in brackets if it has colons.
fn address_of(hop: &str) -> Option<IpAddr> {
    if let Ok(address) = hop.parse() {
        return Some(address);
    }
    if let Some((inside, _)) = hop.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inside.parse().ok();
    }
    hop.split_once(':').and_then(|(host, _)| host.parse().ok())
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl DoubleEndedIterator<Item = &'h str> {
    let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}

/// What each proxy says about something, in the order in which they were passed. One that says nothing about
/// it is there with nothing.
fn forwarded(headers: &HeaderMap, wanted: &str) -> Vec<String> {
    let texts = headers.get_all(FORWARDED).into_iter().filter_map(|value| value.to_str().ok());
    let element = |element: &str| {
        let pairs = split(element, ';').into_iter();
        let mut found = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let named = name.trim().eq_ignore_ascii_case(wanted);
            named.then(|| value.trim().trim_matches('"').to_owned())
        });
        found.next_back().unwrap_or_default()
    };
    texts.flat_map(|text| split(text, ',')).map(element).collect()
}

/// The parts of a text between marks that stand outside of quotes.
fn split(text: &str, mark: char) -> Vec<&str> {
    let mut quoted = false;
    let apart = |letter: char| {
        quoted ^= letter == '"';
        letter == mark && !quoted
    };
    text.split(apart).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(forwarded: bool) -> Proxies {
        let trusted = ["10.0.0.0/8", "::1"].map(|text| text.parse().unwrap()).to_vec();
        Proxies { trusted, forwarded }
    }

    fn direct(address: &str) -> Peer {
        Peer { address: address.parse().unwrap(), secure: false }
    }

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let builder =
            headers.iter().fold(Request::builder(), |it, (name, value)| it.header(*name, *value));
        builder.body(()).unwrap()
    }

    #[track_caller]
    fn check(from: &str, forwarded: &[&str], expect: &str) {
        let headers: Vec<_> = forwarded.iter().map(|value| ("x-forwarded-for", *value)).collect();
        let peer = of(&request(&headers), direct(from), &proxies(false));
        assert_eq!(peer.address, expect.parse::<IpAddr>().unwrap());
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        check("192.0.2.1", &["198.51.100.7"], "192.0.2.1");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.7"], "198.51.100.7");
        check("10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7");
        check("10.0.0.1", &["6.6.6.6, 198.51.100.7, 10.0.0.2"], "198.51.100.7");
        check("10.0.0.1", &["6.6.6.6", "198.51.100.7"], "198.51.100.7");
        check("10.0.0.1", &["nonsense, 10.0.0.2"], "10.0.0.2");
        check("::1", &["2001:db8::1"], "2001:db8::1");
        check("::ffff:10.0.0.1", &["198.51.100.7"], "198.51.100.7");
    }

    /// RFC 7239: quotes, brackets, ports, names in any case, hidden clients.
    #[test]
    fn proxies_may_speak_as_the_standard_says() {
        let check = |from: &str, text: &str, expect: (&str, bool)| {
            let peer = of(&request(&[("forwarded", text)]), direct(from), &proxies(true));
            assert_eq!(
                (peer.address, peer.secure),
                (expect.0.parse().unwrap(), expect.1),
                "{text}"
            );
        };
        check("192.0.2.1", "for=198.51.100.7;proto=https", ("192.0.2.1", false));
        check("10.0.0.1", "for=198.51.100.7;proto=https", ("198.51.100.7", true));
        check("10.0.0.1", "For=6.6.6.6, For=198.51.100.7; Proto=HTTPS", ("198.51.100.7", true));
        check("10.0.0.1", "for=\"[2001:db8::1]:4711\";by=10.0.0.1", ("2001:db8::1", false));
        check("10.0.0.1", "for=\"198.51.100.7:80\", for=10.0.0.3", ("198.51.100.7", false));
        check("10.0.0.1", "for=\"6.6.6.6, for=7.7.7.7\"", ("10.0.0.1", false));
        check("10.0.0.1", "for=198.51.100.7, for=unknown", ("10.0.0.1", false));
        check("10.0.0.1", "for=198.51.100.7;proto=https, by=10.0.0.2", ("10.0.0.1", false));
        check("10.0.0.1", "nonsense;;=,", ("10.0.0.1", false));
    }

    /// A client could write the kind of header that the proxy does not know, and lets through.
    #[test]
    fn the_other_kind_of_header_counts_for_nothing() {
        let both = [("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "7.7.7.7")];
        let address = |forwarded| {
            of(&request(&both), direct("10.0.0.1"), &proxies(forwarded)).address.to_string()
        };
        assert_eq!((address(true), address(false)), ("6.6.6.6".to_owned(), "7.7.7.7".to_owned()));
    }

    #[test]
    fn https_is_believed_likewise() {
        let said = |word| request(&[("x-forwarded-proto", word)]);
        let secure = |word, from: Peer| of(&said(word), from, &proxies(false)).secure;
        assert!(secure("https", direct("10.0.0.1")));
        assert!(!secure("https", direct("192.0.2.1")));
        // What we see ourselves counts, unless a proxy knows better.
        assert!(secure("http", Peer { secure: true, ..direct("192.0.2.1") }));
        assert!(!secure("http", Peer { secure: true, ..direct("10.0.0.1") }));
        let silent =
            of(&request(&[]), Peer { secure: true, ..direct("10.0.0.1") }, &proxies(false));
        assert!(silent.secure);
    }
}
