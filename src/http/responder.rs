//! From a request that hyper has read to the answer it writes: whatever holds for all routes of a listener, around the
//! router and in one place, since layers of the framework cost a boxed future each.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use http::header::{CONNECTION, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use pin_project_lite::pin_project;
use tower_service::Service as _;

use crate::http::client::{Clients, Peer};
use crate::http::cors::{Cors, Welcome, is_preflight};
use crate::http::token::AdminToken;
use crate::http::wire::Pulse;
use crate::http::{Problem, headers, refusal};
use crate::telemetry::Metrics;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who may ask on a listener.
#[derive(Debug)]
pub enum Access {
    /// Anybody.
    Public {
        /// Tells them apart, where they have budgets.
        clients: Option<Clients>,
        /// Which pages may ask from a browser.
        cors: Option<Cors>,
    },
    /// Operators.
    Admin {
        /// What they prove themselves with. `None`: being able to connect is proof enough.
        token: Option<AdminToken>,
        /// Counts those who could not.
        metrics: Arc<Metrics>,
    },
}

/// Answers the requests of one connection.
pub(super) struct Responder {
    access: Arc<Access>,
    /// Borrowed to make a future, never across one.
    router: RefCell<Router>,
    peer: Option<Peer>,
    pulse: Arc<Pulse>,
}

impl Responder {
    pub(super) fn new(
        access: &Arc<Access>,
        router: Router,
        address: std::net::IpAddr,
        pulse: &Arc<Pulse>,
    ) -> Self {
        let peer = match &**access {
            Access::Public {
                clients: Some(clients),
                ..
            } => Some(clients.peer(address)),
            _ => None,
        };
        Self {
            access: Arc::clone(access),
            router: RefCell::new(router),
            peer,
            pulse: Arc::clone(pulse),
        }
    }

    /// Tells the handlers who asks, where that matters.
    fn introduce(&self, request: &mut Request<Incoming>) {
        if let (
            Access::Public {
                clients: Some(clients),
                ..
            },
            Some(peer),
        ) = (&*self.access, &self.peer)
        {
            let client = clients.of(peer, request.headers());
            request.extensions_mut().insert(client);
        }
    }

    /// The answer to a request that no route is to see.
    fn turned_away<B>(&self, request: &Request<B>, welcome: Option<&Welcome>) -> Option<Response> {
        match (&*self.access, welcome) {
            (
                Access::Admin {
                    token: Some(token),
                    metrics,
                },
                _,
            ) if !token.is_in(request.headers()) => {
                metrics.protection.unauthorized.inc();
                Some(unauthorized())
            }
            (Access::Admin { .. }, _) if is_sent_by_another_site(request) => Some(another_site()),
            (_, Some(welcome)) if is_preflight(request.method(), request.headers()) => {
                let mut response = StatusCode::NO_CONTENT.into_response();
                welcome.preflight(response.headers_mut());
                Some(response)
            }
            _ => None,
        }
    }
}

impl Service<Request<Incoming>> for Responder {
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        self.pulse.takes_request();
        let request_id = headers::request_id_of(request.headers());
        let welcome = match &*self.access {
            Access::Public {
                cors: Some(cors), ..
            } => Some(cors.welcome(request.headers())),
            _ => None,
        };
        let turned_away = self.turned_away(&request, welcome.as_ref());
        let answer = if turned_away.is_some() {
            Answer::Ready {
                response: turned_away,
            }
        } else {
            self.introduce(&mut request);
            let request = request.map(|body| body_of(body, &self.pulse));
            Answer::Routed {
                future: self.router.borrow_mut().call(request),
            }
        };
        Answering {
            answer,
            pulse: Arc::clone(&self.pulse),
            request_id: Some(request_id),
            welcome,
        }
    }
}

pin_project! {
    /// An answer in the making.
    pub(super) struct Answering {
        #[pin]
        answer: Answer,
        pulse: Arc<Pulse>,
        request_id: Option<HeaderValue>,
        welcome: Option<Welcome>,
    }
}

pin_project! {
    #[project = AnswerProjection]
    enum Answer {
        Routed { #[pin] future: RouteFuture<Infallible> },
        Ready { response: Option<Response> },
    }
}

impl Future for Answering {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = match this.answer.project() {
            AnswerProjection::Routed { future } => match future.poll(cx) {
                Poll::Ready(Ok(response)) => response,
                Poll::Ready(Err(never)) => match never {},
                Poll::Pending if this.pulse.is_overdue.is_set() => given_up(this.pulse),
                Poll::Pending => return Poll::Pending,
            },
            AnswerProjection::Ready { response } => response.take().expect("it is polled once"),
        };
        this.pulse.answers();
        let into: &mut HeaderMap = response.headers_mut();
        headers::add(into, this.request_id.take().expect("it is polled once"));
        if let Some(welcome) = this.welcome.take() {
            welcome.add_to(into);
        }
        Poll::Ready(Ok(response))
    }
}

fn given_up(pulse: &Pulse) -> Response {
    let problem = if pulse.awaits_body.is_set() {
        refusal::late()
    } else {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overdue",
            "Overdue",
            "The answer took too long and was given up.",
        )
    };
    let mut response = problem.into_response();
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A page of another site, open in an operator's browser, can send requests here: from the operator's machine, and with
/// the token that the browser remembers. It cannot read the answers, but a POST needs no reader. Browsers say where a
/// request comes from; other programs say nothing.
fn is_sent_by_another_site<B>(request: &Request<B>) -> bool {
    if request.method().is_safe() {
        return false;
    }
    let said = |name| request.headers().get(name).map(HeaderValue::as_bytes);
    if let Some(site) = said(SEC_FETCH_SITE) {
        return !matches!(site, b"same-origin" | b"none");
    }
    let Some(origin) = said(ORIGIN) else {
        return false;
    };
    let host = [&b"http://"[..], b"https://"]
        .into_iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    host.is_none() || host != said(HOST)
}

fn another_site() -> Response {
    Problem::new(
        StatusCode::FORBIDDEN,
        "cross_site",
        "Refused",
        "A page of another site asked for this.",
    )
    .into_response()
}

fn unauthorized() -> Response {
    let problem = Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "Unauthorized",
        "Send the admin token: Authorization: Bearer TOKEN.",
    );
    let mut response = problem.into_response();
    for way in [
        r#"Bearer realm="namegate admin""#,
        r#"Basic realm="namegate admin: the token is the password", charset="UTF-8""#, // for browsers
    ] {
        let way = HeaderValue::from_static(way);
        response.headers_mut().append(WWW_AUTHENTICATE, way);
    }
    response
}

/// Most requests have no body, and one that has none needs no watching.
fn body_of(body: Incoming, pulse: &Arc<Pulse>) -> Body {
    if hyper::body::Body::is_end_stream(&body) {
        return Body::empty();
    }
    pulse.awaits_body.set(true);
    Body::new(Watched {
        body,
        pulse: Arc::clone(pulse),
    })
}

/// A body that says when it has come to its end.
struct Watched {
    body: Incoming,
    pulse: Arc<Pulse>,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.pulse.awaits_body.set(false);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
