//! One connection from accept to close: never longer in one phase than is allowed.
//!
//! ```text
//!   accepted ──▶ HEAD ──whole──▶ ANSWER ──written──▶ IDLE ──bytes──▶ HEAD ...
//!                 │late            │late   │unread     │late or draining
//!                 ▼                ▼       ▼           ▼
//!            408, close     408 or 503    close      close
//! ```
//!
//! A timer for each request would cost more than the answer. There is one alarm for each connection instead, and it is
//! not wound up again for every request: only when the connection comes to rest in a phase whose end is nearer than the
//! alarm, which a question that memory answers never does, for it is answered before the task rests. An alarm that goes
//! off too early looks at the phase and is set again.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use http::StatusCode;
use hyper::server::conn::http1;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::http::refusal;
use crate::http::responder::{Access, Responder};
use crate::http::wire::{Pulse, Wire};
use crate::telemetry::Metrics;

/// How long a head that has begun to come may still take once the service is about to stop.
const LAST_HEAD_WITHIN: Duration = Duration::from_secs(1);

/// How long a connection may rest.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Until the head of a request is there; until nothing of an answer is read.
    pub request: Duration,
    /// From a request's head to its answer.
    pub answer: Duration,
    /// Between requests.
    pub idle: Duration,
}

/// What all connections of a listener share.
pub(super) struct Reception {
    pub(super) router: Router,
    pub(super) access: Arc<Access>,
    pub(super) patience: Patience,
    pub(super) closing: Closing,
    pub(super) metrics: Arc<Metrics>,
}

/// Tells connections that the service is about to stop, at no cost until it is: a look at a flag.
#[derive(Debug, Default)]
pub(super) struct Closing {
    has_begun: AtomicBool,
    begins: Notify,
}

impl Closing {
    pub(super) fn begin(&self) {
        // Release, with the load's Acquire: whoever is woken by the notice sees the flag, and whoever begins to wait
        // after the notice has seen it before.
        self.has_begun.store(true, Ordering::Release);
        self.begins.notify_waiters();
    }

    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }
}

/// Answers what is asked on one connection.
pub(super) async fn converse(socket: TcpStream, address: IpAddr, reception: Arc<Reception>) {
    let pulse = Arc::new(Pulse::default());
    let responder = Responder::new(&reception.access, reception.router.clone(), address, &pulse);
    let mut http = http1::Builder::new();
    http.max_buf_size(refusal::LARGEST_HEAD);
    let mut connection = http.serve_connection(Wire::new(socket, Arc::clone(&pulse)), responder);

    let end = until_its_end(&mut connection, &pulse, &reception).await;
    let parts = connection.into_parts();
    let socket = parts.io.into_socket();
    match end {
        End::Said => refusal::linger(socket).await,
        End::Unreadable(status) => {
            reception.metrics.protection.unreadable_requests.inc();
            refusal::send(socket, refusal::unreadable(status, &parts.read_buf)).await;
        }
        End::Late(phase) => {
            reception.metrics.protection.count_late(phase.word());
            if phase == Phase::Head && pulse.has_heard.is_set() {
                refusal::send(socket, refusal::late()).await;
            }
        }
        End::Gone => {}
    }
}

/// Where a connection rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Answer,
    Unread,
    Idle,
}

/// How a connection ended.
enum End {
    /// All is said.
    Said,
    /// What came is no request.
    Unreadable(StatusCode),
    /// Something did not come in time.
    Late(Phase),
    /// The client is not there any more.
    Gone,
}

impl Phase {
    fn of(pulse: &Pulse) -> Self {
        if pulse.is_stuck.is_set() {
            Self::Unread
        } else if pulse.is_answering.is_set() {
            Self::Answer
        } else if pulse.has_heard.is_set() || pulse.steps() == 0 {
            Self::Head
        } else {
            Self::Idle
        }
    }

    const fn limit(self, patience: &Patience) -> Duration {
        match self {
            Self::Head | Self::Unread => patience.request,
            Self::Answer => patience.answer,
            Self::Idle => patience.idle,
        }
    }

    /// As a metric label.
    const fn word(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Answer => "answer",
            Self::Unread => "unread",
            Self::Idle => "idle",
        }
    }
}

async fn until_its_end(
    connection: &mut http1::Connection<Wire, Responder>,
    pulse: &Pulse,
    reception: &Reception,
) -> End {
    let Reception {
        patience,
        closing,
        metrics,
        ..
    } = reception;
    // Never further away than a connection may idle: when that begins, nobody looks at the clock.
    let mut alarm = pin!(sleep(patience.request.min(patience.idle)));
    let mut closes = pin!(closing.begins.notified());
    let mut is_closing = false;
    let mut is_heard_of = false;
    let mut rest = Rest::new();
    std::future::poll_fn(|cx| {
        if !is_heard_of {
            is_heard_of = true;
            // Once is enough, for a task's waker stays: both will wake this task, and are asked below whether they did.
            let _pending = (alarm.as_mut().poll(cx), closes.as_mut().poll(cx));
        }
        if !is_closing && closing.has_begun() {
            is_closing = true;
            Pin::new(&mut *connection).graceful_shutdown();
            rest.observe(pulse);
            if rest.phase == Phase::Head {
                alarm.as_mut().reset(Instant::now() + LAST_HEAD_WITHIN);
                let _pending = alarm.as_mut().poll(cx);
            }
        }
        if alarm.is_elapsed() {
            let now = Instant::now();
            rest.observe(pulse);
            let since = *rest.since.get_or_insert(now);
            let mut deadline = since + rest.phase.limit(patience);
            let is_last_head = is_closing && rest.phase == Phase::Head;
            if deadline <= now || is_last_head {
                if rest.phase != Phase::Answer || pulse.is_overdue.is_set() {
                    return Poll::Ready(End::Late(rest.phase));
                }
                metrics.protection.count_late(Phase::Answer.word());
                pulse.is_overdue.set(true); // its answer is given up as soon as it is polled: just below
                deadline = now + patience.request;
            }
            alarm.as_mut().reset(deadline.min(now + patience.idle));
            let _pending = alarm.as_mut().poll(cx);
        }
        if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(cx) {
            return Poll::Ready(End::of(ended, pulse));
        }
        rest.observe(pulse);
        if let Some(since) = rest.since {
            let deadline = since + rest.phase.limit(patience);
            if deadline < alarm.deadline() {
                alarm.as_mut().reset(deadline);
                let _pending = alarm.as_mut().poll(cx);
            }
        }
        Poll::Pending
    })
    .await
}

/// The phase in which a connection rests, and since when.
struct Rest {
    phase: Phase,
    steps: u32,
    /// `None`: nobody has looked at the clock. Between two questions that memory answers nobody does.
    since: Option<Instant>,
}

impl Rest {
    fn new() -> Self {
        Self {
            phase: Phase::Head,
            steps: 0,
            since: Some(Instant::now()),
        }
    }

    fn observe(&mut self, pulse: &Pulse) {
        let (phase, steps) = (Phase::of(pulse), pulse.steps());
        if (phase, steps) != (self.phase, self.steps) {
            let since = (phase != Phase::Idle).then(Instant::now);
            *self = Self {
                phase,
                steps,
                since,
            };
        }
    }
}

impl End {
    fn of(ended: hyper::Result<()>, pulse: &Pulse) -> Self {
        match (ended, pulse.refusal()) {
            (_, Some(status)) => Self::Unreadable(status),
            (Ok(()), None) => Self::Said,
            (Err(error), None) if error.is_parse() => Self::Unreadable(StatusCode::BAD_REQUEST),
            (Err(_), None) => Self::Gone,
        }
    }
}
