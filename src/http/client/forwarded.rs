//! Whom a proxy asks for: `X-Forwarded-For` and `Forwarded`, read from right to left.
//!
//! Every proxy appends whoever spoke to it, so only what stands to the right of the last trusted hop was written by
//! somebody believed. From the right, trusted hops are passed over; the first other address is the client. Where all
//! are trusted, the left-most is. Where something stands that is no address (`unknown`, `_hidden`, garbage), nothing
//! further left can be told, and nobody is found.
//!
//! `X-Forwarded-For` wins: where a request has it, `Forwarded` is not read. Proxies that write `Forwarded` have to
//! remove the other, or clients could write it themselves.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use ipnet::IpNet;

pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What the headers of a request from a trusted proxy say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The proxy asks for this client.
    Client(IpAddr),
    /// The proxy says nothing: it asks for itself.
    Silent,
    /// The proxy says something, and it is no address.
    Unreadable,
}

/// Reads the headers of a request that a trusted proxy sent.
pub(super) fn origin(headers: &HeaderMap, trusted: &[IpNet]) -> Origin {
    if headers.contains_key(&X_FORWARDED_FOR) {
        walk(elements(headers, &X_FORWARDED_FOR), address, trusted)
    } else if headers.contains_key(FORWARDED) {
        walk(elements(headers, &FORWARDED), forwarded_for, trusted)
    } else {
        Origin::Silent
    }
}

/// Whether `address` is in one of the networks. Mapped IPv4 addresses are IPv4 addresses here.
pub(super) fn is_in(address: IpAddr, networks: &[IpNet]) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

fn walk<'a>(
    from_the_right: impl Iterator<Item = Option<&'a str>>,
    read: impl Fn(&str) -> Option<IpAddr>,
    trusted: &[IpNet],
) -> Origin {
    let mut found = Origin::Unreadable;
    for element in from_the_right {
        let Some(hop) = element.and_then(&read) else {
            return Origin::Unreadable;
        };
        found = Origin::Client(hop);
        if !is_in(hop, trusted) {
            break;
        }
    }
    found
}

/// The elements of all lines of a list, the last first. Empty ones are passed over, as RFC 9110 has it; a line that is
/// no text is one unreadable element.
fn elements<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = Option<&'a str>> {
    let lines: Vec<_> = headers.get_all(name).iter().collect();
    lines
        .into_iter()
        .rev()
        .flat_map(|line| {
            let text = line.to_str().ok();
            let unreadable = text.is_none().then_some(None);
            text.into_iter()
                .flat_map(|text| text.rsplit(',').map(str::trim))
                .map(Some)
                .chain(unreadable)
        })
        .filter(|element| *element != Some(""))
}

/// `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:4711`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let in_brackets = || {
        let inside = text.strip_prefix('[')?.strip_suffix(']')?;
        inside.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    };
    bare.or_else(with_port)
        .or_else(in_brackets)
        .map(|address| address.to_canonical())
}

/// The address in one element of `Forwarded`: `for=192.0.2.43;proto=https`, `for="[2001:db8::1]:4711"`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    // Commas and semicolons may stand in quoted strings, but in no address: an element torn apart is unreadable.
    let mut nodes = element.split(';').filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then_some(value)
    });
    let (node, more) = (nodes.next()?, nodes.next());
    if more.is_some() {
        return None; // RFC 7239: each parameter once
    }
    let node = match node.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"')?,
        None => node,
    };
    address(node)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const TRUSTED: [&str; 2] = ["10.0.0.0/8", "2001:db8:ffff::/48"];

    fn trusted() -> Vec<IpNet> {
        TRUSTED
            .map(|network| network.parse().expect("a network"))
            .to_vec()
    }

    #[track_caller]
    fn client(address: &str) -> Origin {
        Origin::Client(address.parse().expect("an address"))
    }

    fn read(name: &HeaderName, lines: &[&[u8]]) -> Origin {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name, HeaderValue::from_bytes(line).expect("a value"));
        }
        origin(&headers, &trusted())
    }

    #[test]
    fn the_first_hop_from_the_right_that_is_not_trusted_is_the_client() {
        for (line, expected) in [
            ("198.51.100.7", client("198.51.100.7")),
            ("1.2.3.4, 198.51.100.7", client("198.51.100.7")),
            (
                "1.2.3.4, 198.51.100.7, 10.0.0.9, 10.1.1.1",
                client("198.51.100.7"),
            ),
            ("10.0.0.1,10.0.0.2", client("10.0.0.1")),
            (
                "garbage, 198.51.100.7:4711,10.0.0.2",
                client("198.51.100.7"),
            ),
            (
                "[2001:db8::1]:4711, 2001:db8:ffff::2",
                client("2001:db8::1"),
            ),
            ("[2001:db8::1]", client("2001:db8::1")),
            (
                "::ffff:198.51.100.7, ::ffff:10.0.0.1",
                client("198.51.100.7"),
            ),
            (" , ,198.51.100.7,, ", client("198.51.100.7")),
        ] {
            assert_eq!(
                read(&X_FORWARDED_FOR, &[line.as_bytes()]),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_address_is_unreadable_and_hides_what_stands_left_of_it() {
        for line in [
            &b""[..],
            b", ,",
            b"unknown",
            b"198.51.100.7, unknown",
            b"198.51.100.7, _hidden, 10.0.0.1",
            b"198.51.100.7, 10.0.0.1, 999.1.1.1",
            b"198.51.100.7:port",
            b"[2001:db8::1",
            b"fe80::1%eth0",
            b"203.0.113.07",
            b"\xff\xfe",
            b"for=198.51.100.7",
        ] {
            assert_eq!(
                read(&X_FORWARDED_FOR, &[line]),
                Origin::Unreadable,
                "{}",
                line.escape_ascii()
            );
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines: [&[u8]; 3] = [b"1.2.3.4", b"198.51.100.7, 10.0.0.1", b"10.0.0.2"];
        assert_eq!(read(&X_FORWARDED_FOR, &lines), client("198.51.100.7"));
        let lines: [&[u8]; 2] = [b"198.51.100.7", b"\xff"];
        assert_eq!(read(&X_FORWARDED_FOR, &lines), Origin::Unreadable);
    }

    #[test]
    fn forwarded_is_read_with_its_quotes_and_its_other_parameters() {
        for (line, expected) in [
            (
                r#"for=1.2.3.4, for="[2001:db8::1]:4711""#,
                client("2001:db8::1"),
            ),
            (
                "For=198.51.100.7;proto=https;by=10.0.0.1, for=10.0.0.1",
                client("198.51.100.7"),
            ),
            (
                r#"proto=http; for="198.51.100.7:80""#,
                client("198.51.100.7"),
            ),
            ("for=unknown", Origin::Unreadable),
            ("for=198.51.100.7, for=_hidden", Origin::Unreadable),
            ("for=198.51.100.7, proto=https", Origin::Unreadable),
            ("for=1.2.3.4;for=198.51.100.7", Origin::Unreadable),
            (r#"for="198.51.100.7"#, Origin::Unreadable),
            (
                r#"for=198.51.100.7;host="a,b""#,
                Origin::Unreadable, // torn apart at a comma that no address has
            ),
            ("198.51.100.7", Origin::Unreadable),
        ] {
            assert_eq!(read(&FORWARDED, &[line.as_bytes()]), expected, "{line}");
        }
    }

    proptest! {
        /// Whatever a client writes, its proxy appends the address that it really has.
        #[test]
        fn nothing_left_of_the_client_makes_a_difference(
            invented in "[ -~]{0,40}",
            lines in prop::collection::vec("[ -~]{0,20}", 0..3),
            proxies in 0..3_usize,
        ) {
            let appended = format!("{invented}, 198.51.100.7{}", ", 10.0.0.1".repeat(proxies));
            let mut all: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
            all.push(appended.as_bytes());
            prop_assert_eq!(read(&X_FORWARDED_FOR, &all), client("198.51.100.7"));
        }

        /// Any bytes that can stand in a header end in an address or in none, and never in a panic.
        #[test]
        fn any_header_is_read_or_is_not(line in prop::collection::vec(b' '..=255, 0..80)) {
            for name in [X_FORWARDED_FOR, FORWARDED] {
                let Ok(value) = HeaderValue::from_bytes(&line) else { continue };
                let mut headers = HeaderMap::new();
                headers.append(name, value);
                prop_assert_ne!(origin(&headers, &trusted()), Origin::Silent);
            }
        }
    }

    #[test]
    fn where_both_are_there_the_older_header_wins_whatever_it_holds() {
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED, HeaderValue::from_static("for=198.51.100.7"));
        assert_eq!(origin(&headers, &trusted()), client("198.51.100.7"));
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("203.0.113.9"));
        assert_eq!(origin(&headers, &trusted()), client("203.0.113.9"));
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("unknown"));
        assert_eq!(origin(&headers, &trusted()), Origin::Unreadable);
        assert_eq!(origin(&HeaderMap::new(), &trusted()), Origin::Silent);
    }
}
