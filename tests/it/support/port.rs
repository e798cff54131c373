//! TCP ports that stay free while nobody listens on them.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};

/// Below the ports that systems give to outgoing connections (from 32,768 on Linux, 49,152
/// elsewhere). A server that comes back on its port must not find it taken by a client, and a
/// client that tries the port of a stopped server again and again must not be given that very port
/// as its own: it would then be connected to itself.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// A port of 127.0.0.1 that nothing listens on, chosen at random so that parallel test runs rarely
/// meet.
/// # Panics
/// When a thousand tries find none.
pub(crate) fn unused() -> u16 {
    (0..1_000)
        .map(|attempt: u16| {
            let random = RandomState::new().hash_one(attempt);
            let offset = random % u64::from(RANGE.end - RANGE.start);
            RANGE.start
                + u16::try_from(offset).expect("the offset is smaller than a range of ports")
        })
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .expect("one of many random ports is free")
}
