//! A network link to a server that can be cut, stalled and slowed down, for faults that no server
//! shows by itself.
//!
//! ```text
//! client ──▶ FaultyWire (its own port) ──▶ server
//!
//!   whole    bytes go both ways
//!   cut      every connection is closed, new ones are refused, as by a machine without the server
//!   stalled  nothing is closed and nothing arrives, as through a firewall that forgot the connection
//!   slow     each piece arrives late
//! ```
//!
//! A stall loses no byte: what was under way arrives after [`FaultyWire::mend`], as TCP sends
//! again. A new connection is accepted during a stall and then hears nothing. All of it ends when
//! the wire is dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::port;

/// Bytes taken up at once, so also what a stalled direction holds back beside the system's own
/// buffers.
const PIECE_BYTES: usize = 16 * 1024;

/// Where bytes no longer arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
    Both,
}

/// What the test wants of the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Condition {
    is_cut: bool,
    is_stalled_to_server: bool,
    is_stalled_to_client: bool,
    delay: Duration,
}

/// A TCP relay; see the module.
#[derive(Debug)]
pub(crate) struct FaultyWire {
    port: u16,
    wanted: watch::Sender<Condition>,
    /// Whether the port is open, for the two calls that wait for it.
    is_open: watch::Receiver<bool>,
    counts: Arc<Counts>,
    relay: JoinHandle<()>,
}

/// Only read by tests after the fact: no other memory depends on them, so every access is relaxed.
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicUsize,
    open: AtomicUsize,
}

impl FaultyWire {
    /// A whole wire that leads to `host` and `port`; the server need not run yet.
    pub(crate) async fn in_front_of(host: &str, port: u16) -> Self {
        let (wanted, condition) = watch::channel(Condition::default());
        let (open, mut is_open) = watch::channel(false);
        let counts = Arc::<Counts>::default();
        let own_port = port::unused();
        let relay = Relay {
            port: own_port,
            server: (host.to_owned(), port),
            condition,
            counts: Arc::clone(&counts),
        };
        let relay = tokio::spawn(relay.run(open));
        is_open
            .wait_for(|&is_open| is_open)
            .await
            .expect("the relay runs until the wire is dropped");
        Self {
            port: own_port,
            wanted,
            is_open,
            counts,
            relay,
        }
    }

    /// Where clients connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Closes every connection and refuses new ones. All are closed when this returns.
    pub(crate) async fn cut(&self) {
        self.wanted.send_modify(|condition| condition.is_cut = true);
        self.wait_until_open_is(false).await;
    }

    /// Holds back every byte of this direction, and closes nothing.
    pub(crate) fn stall(&self, direction: Direction) {
        self.wanted.send_modify(|condition| {
            condition.is_stalled_to_server |= direction != Direction::ToClient;
            condition.is_stalled_to_client |= direction != Direction::ToServer;
        });
    }

    /// Lets each piece wait for `delay`: a question and its answer take twice that.
    pub(crate) fn slow(&self, delay: Duration) {
        self.wanted.send_modify(|condition| condition.delay = delay);
    }

    /// Makes the wire whole again. New connections are accepted when this returns; cut ones stay
    /// lost.
    pub(crate) async fn mend(&self) {
        self.wanted.send_replace(Condition::default());
        self.wait_until_open_is(true).await;
    }

    /// How many connections were ever accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::Relaxed)
    }

    /// How many connections are open now.
    pub(crate) fn open(&self) -> usize {
        self.counts.open.load(Ordering::Relaxed)
    }

    async fn wait_until_open_is(&self, wanted: bool) {
        let mut is_open = self.is_open.clone();
        is_open
            .wait_for(|&is_open| is_open == wanted)
            .await
            .expect("the relay runs until the wire is dropped");
    }
}

impl Drop for FaultyWire {
    fn drop(&mut self) {
        self.relay.abort(); // its connections are in a set of its own, which is dropped with it
    }
}

/// The task behind a wire.
struct Relay {
    port: u16,
    server: (String, u16),
    condition: watch::Receiver<Condition>,
    counts: Arc<Counts>,
}

impl Relay {
    /// Ends only by being aborted or when the wire is dropped.
    async fn run(self, open: watch::Sender<bool>) {
        let mut condition = self.condition.clone();
        loop {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await;
            let listener = listener.expect("nobody else took the wire's port");
            open.send_replace(true);
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (client, _) = accepted.expect("a listener in order accepts");
                        connections.spawn(self.connection(client));
                    }
                    Some(_) = connections.join_next() => {}
                    cut = condition.wait_for(|condition| condition.is_cut) => match cut {
                        Ok(_) => break,
                        Err(_) => return,
                    },
                }
            }
            drop(listener);
            connections.shutdown().await;
            open.send_replace(false);
            if condition
                .wait_for(|condition| !condition.is_cut)
                .await
                .is_err()
            {
                return;
            }
        }
    }

    fn connection(&self, client: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let server = self.server.clone();
        let condition = self.condition.clone();
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        let open = Open::counted_in(&self.counts);
        async move {
            let _open = open;
            // Without a server the client sees its connection closed.
            if let Ok(server) = TcpStream::connect(server).await {
                relay(client, server, condition).await;
            }
        }
    }
}

/// Counts a connection as open for as long as it lives, also when its task is aborted.
struct Open(Arc<Counts>);

impl Open {
    fn counted_in(counts: &Arc<Counts>) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counts))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn relay(client: TcpStream, server: TcpStream, condition: watch::Receiver<Condition>) {
    for socket in [&client, &server] {
        // The relay must add no delay of its own; a socket that is closing already may refuse.
        let _ = socket.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        pump(from_client, to_server, condition.clone(), |condition| {
            condition.is_stalled_to_server
        }),
        pump(from_server, to_client, condition, |condition| condition
            .is_stalled_to_client),
    );
}

/// Forwards one direction until its end, which it passes on, or until an error, which closes it
/// too.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut condition: watch::Receiver<Condition>,
    is_stalled: impl Fn(&Condition) -> bool,
) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = from.read(&mut piece).await.unwrap_or(0);
        let delay = condition.borrow().delay;
        tokio::time::sleep(delay).await;
        // Asked last: a stall that began meanwhile holds this piece, and a closing too.
        let Ok(_) = condition.wait_for(|condition| !is_stalled(condition)).await else {
            return;
        };
        if length == 0 || to.write_all(&piece[..length]).await.is_err() {
            let _ = to.shutdown().await; // a reset connection has nothing left to shut down
            return;
        }
    }
}
