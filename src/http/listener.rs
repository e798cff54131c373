//! Accepts connections, no more than there are seats for, and sees them off.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::conversation::{Closing, Patience, Reception, converse};
use crate::http::refusal;
use crate::http::responder::Access;
use crate::telemetry::Metrics;

/// Connections that are told at one time that they are too many; more are closed without a word.
const REFUSALS_AT_ONCE: u32 = 64;
/// How long to wait when the system has no more descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// How a listener treats those who connect.
#[derive(Debug)]
pub struct Manners {
    /// Who may ask.
    pub access: Access,
    /// How long they may take.
    pub patience: Patience,
    /// Connections at one time.
    pub max_connections: u32,
    /// Whether its connections are shown in the metrics.
    pub is_counted: bool,
}

/// Serves until `stop`; then accepts nothing new, finishes what is under way, and returns when every connection is
/// closed. Connections on which nothing is asked are closed at once.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    manners: Manners,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let seats = Seats {
        taken: if manners.is_counted {
            metrics.protection.connections.clone()
        } else {
            Gauge::default()
        },
        all: manners.max_connections,
    };
    let door = Seats {
        taken: Gauge::default(),
        all: REFUSALS_AT_ONCE,
    };
    let reception = Arc::new(Reception {
        router,
        access: Arc::new(manners.access),
        patience: manners.patience,
        closing: Closing::default(),
        metrics,
    });
    let conversations = TaskTracker::new();
    let mut is_failing = false;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, address)) => {
                is_failing = false;
                greet(socket, address, &seats, &door, &reception, &conversations);
            }
            Err(error) if is_the_clients_affair(error.kind()) => {}
            Err(error) => {
                if !is_failing {
                    is_failing = true;
                    tracing::error!(error = %error, "connections cannot be accepted");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    reception.closing.begin();
    conversations.close();
    conversations.wait().await;
}

fn greet(
    socket: TcpStream,
    address: SocketAddr,
    seats: &Seats,
    door: &Seats,
    reception: &Arc<Reception>,
    conversations: &TaskTracker,
) {
    // Answers are one small write: waiting for more to send only delays them. Where it cannot be set, the client is gone.
    let _gone = socket.set_nodelay(true);
    if let Some(seat) = seats.take() {
        let reception = Arc::clone(reception);
        conversations.spawn(async move {
            converse(socket, address.ip(), reception).await;
            drop(seat);
        });
        return;
    }
    reception.metrics.protection.connections_refused.inc();
    if let Some(place) = door.take() {
        conversations.spawn(async move {
            refusal::send(socket, refusal::full()).await;
            drop(place);
        });
    }
}

/// A connection that was gone before it was accepted.
fn is_the_clients_affair(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

/// A number of places, counted by a metric.
struct Seats {
    taken: Gauge,
    all: u32,
}

/// One place, given back when it is dropped.
struct Seat(Gauge);

impl Seats {
    fn take(&self) -> Option<Seat> {
        let seat = Seat(self.taken.clone());
        let taken_before = self.taken.inc();
        (taken_before < i64::from(self.all)).then_some(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.dec();
    }
}
