//! An address that leads to one server now and to another later, as after a failover.

use std::net::Ipv4Addr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A TCP relay that can be pointed elsewhere. Its port is its own for its whole life.
#[derive(Debug)]
pub(super) struct Switch {
    port: u16,
    server: watch::Sender<u16>,
    relay: JoinHandle<()>,
}

impl Switch {
    /// Leads to `server`, a port of 127.0.0.1.
    pub(super) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let (server, now) = watch::channel(server);
        let relay = tokio::spawn(relay(listener, now));
        Self {
            port,
            server,
            relay,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Closes every connection; new ones lead to `server`.
    pub(super) fn point_to(&self, server: u16) {
        self.server.send_replace(server);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.relay.abort(); // its connections are in a set of its own, which is dropped with it
    }
}

async fn relay(listener: TcpListener, mut server: watch::Receiver<u16>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            pointed = server.changed() => match pointed {
                Ok(()) => connections.shutdown().await,
                Err(_) => return,
            },
            accepted = listener.accept() => {
                let (mut client, _) = accepted.expect("a listener in order accepts");
                let port = *server.borrow_and_update();
                connections.spawn(async move {
                    // Without a server the client sees its connection closed.
                    if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
