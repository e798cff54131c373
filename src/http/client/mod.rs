//! Who asks: the address that a budget belongs to.
//!
//! An IPv4 address, or the /64 of an IPv6 address, which is what one customer gets and can move about in. It is known
//! here as a number only: a hash under a key that is drawn at start, so that no address is kept, and nobody can pick
//! addresses that share a budget.

mod forwarded;

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::header::FORWARDED;
use http::request::Parts;
use ipnet::IpNet;

use crate::http::client::forwarded::{Origin, X_FORWARDED_FOR, is_in, origin};
use crate::telemetry::Metrics;

/// One client, as a request carries it in its extensions; [`Client::UNKNOWN`] on listeners that do not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client(pub(super) u64);

impl Client {
    /// Nobody in particular: has no budget, and needs none.
    pub const UNKNOWN: Self = Self(0);
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or(Self::UNKNOWN))
    }
}

/// Tells clients apart.
#[derive(Debug)]
pub struct Clients {
    trusted: Vec<IpNet>,
    key: RandomState,
    metrics: Arc<Metrics>,
    has_warned: AtomicBool,
}

/// Who is at the other end of a connection, found out once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    client: Client,
    is_trusted: bool,
    /// Proxies usually are: a peer that is not trusted and yet forwards is then most likely one that was forgotten.
    is_near: bool,
}

impl Clients {
    /// `trusted`: the proxies that are believed when they say whom they ask for.
    #[must_use]
    pub fn new(trusted: Vec<IpNet>, metrics: Arc<Metrics>) -> Self {
        Self {
            trusted,
            key: RandomState::new(),
            metrics,
            has_warned: AtomicBool::new(false),
        }
    }

    pub(super) fn peer(&self, address: IpAddr) -> Peer {
        let address = address.to_canonical();
        Peer {
            client: self.client(address),
            is_trusted: is_in(address, &self.trusted),
            is_near: is_near(address),
        }
    }

    /// Whom a request from `peer` comes from. No header is looked at unless the peer is trusted.
    pub(super) fn of(&self, peer: &Peer, headers: &HeaderMap) -> Client {
        if !peer.is_trusted {
            self.warn_of_a_forgotten_proxy(peer, headers);
            return peer.client;
        }
        match origin(headers, &self.trusted) {
            Origin::Client(address) => self.client(address),
            Origin::Silent => peer.client,
            Origin::Unreadable => {
                self.metrics.protection.unreadable_forwards.inc();
                peer.client
            }
        }
    }

    fn client(&self, address: IpAddr) -> Client {
        let hash = match address {
            IpAddr::V4(address) => self.key.hash_one((4_u8, u64::from(address.to_bits()))),
            IpAddr::V6(address) => self.key.hash_one((6_u8, (address.to_bits() >> 64) as u64)),
        };
        Client(hash.max(1)) // 0 is nobody
    }

    /// Once in a process's life: all clients of a proxy that is not trusted share one budget.
    fn warn_of_a_forgotten_proxy(&self, peer: &Peer, headers: &HeaderMap) {
        // Relaxed: at worst two connections warn.
        if !peer.is_near || self.has_warned.load(Ordering::Relaxed) {
            return;
        }
        if headers.contains_key(&X_FORWARDED_FOR) || headers.contains_key(FORWARDED) {
            self.has_warned.store(true, Ordering::Relaxed);
            tracing::warn!(
                "a peer in a private network forwards requests and is not trusted: all its clients share one budget. \
                 If it is your proxy, name it with --trusted-proxies"
            );
        }
    }
}

/// Whether an address is of a private network or of this machine: where proxies are, and few clients.
#[must_use]
pub fn is_near(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_private() || address.is_loopback() || address.is_link_local()
        }
        IpAddr::V6(address) => {
            address.is_unique_local() || address.is_loopback() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(trusted: &[&str]) -> Clients {
        let trusted = trusted.iter().map(|text| text.parse().expect("a network"));
        Clients::new(trusted.collect(), Arc::new(Metrics::new()))
    }

    fn at(clients: &Clients, address: &str) -> Client {
        let peer = clients.peer(address.parse().expect("an address"));
        clients.of(&peer, &HeaderMap::new())
    }

    #[test]
    fn an_ipv4_address_is_one_client_and_so_is_an_ipv6_network_of_64_bits() {
        let clients = clients(&[]);
        assert_ne!(at(&clients, "192.0.2.1"), at(&clients, "192.0.2.2"));
        assert_eq!(at(&clients, "192.0.2.1"), at(&clients, "::ffff:192.0.2.1"));
        assert_eq!(
            at(&clients, "2001:db8::1"),
            at(&clients, "2001:db8::ffff:0:1")
        );
        assert_ne!(at(&clients, "2001:db8::1"), at(&clients, "2001:db8:0:1::1"));
        assert_ne!(at(&clients, "0.0.0.4"), at(&clients, "0:0:0:4::"));
    }

    #[test]
    fn only_a_trusted_peer_speaks_for_others() {
        let clients = clients(&["10.0.0.0/8"]);
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_FOR, "198.51.100.7".parse().expect("a value"));
        let of = |peer: &str, headers: &HeaderMap| {
            let peer = clients.peer(peer.parse().expect("an address"));
            clients.of(&peer, headers)
        };
        let client = at(&clients, "198.51.100.7");
        assert_eq!(of("10.0.0.1", &headers), client);
        assert_eq!(of("::ffff:10.0.0.1", &headers), client);
        assert_eq!(of("11.0.0.1", &headers), at(&clients, "11.0.0.1"));
        assert_eq!(clients.metrics.protection.unreadable_forwards.get(), 0);
        headers.insert(X_FORWARDED_FOR, "unknown".parse().expect("a value"));
        assert_eq!(of("10.0.0.1", &headers), at(&clients, "10.0.0.1"));
        assert_eq!(clients.metrics.protection.unreadable_forwards.get(), 1);
    }
}
