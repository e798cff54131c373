//! A front before a real service that lets a test decide what a page is answered, and when.
//!
//! ```text
//!   browser ──▶ Stage ──▶ service      what no cue is set for: pages, assets, everything
//!                 │
//!                 └ cues: answer so, answer when the gate is opened, hang up, never answer
//! ```
//!
//! The page is the real one, served by the real service; only the answers to its questions are directed. A cue is set
//! for a name asked at `/username/available`, or for a path, and used up by the request that it answers.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

const QUESTION: &str = "/username/available";

/// What becomes of one request.
#[derive(Debug, Clone)]
pub(crate) enum Cue {
    /// This answer, at once.
    Answer(Scripted),
    /// This answer, as soon as the gate is open.
    When(Gate, Scripted),
    /// What the service answers, as soon as the gate is open.
    PassWhen(Gate),
    /// The connection is closed.
    HangUp,
}

/// An answer made up by a test.
#[derive(Debug, Clone)]
pub(crate) struct Scripted {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Scripted {
    pub(crate) fn new(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", &body.to_string())
    }

    pub(crate) fn text(status: u16, kind: &str, body: &str) -> Self {
        Self {
            status,
            headers: vec![("content-type", kind.to_owned())],
            body: body.to_owned(),
        }
    }

    /// An answer as the service words it.
    pub(crate) fn verdict(name: &str, available: bool, reason: &str) -> Self {
        Self::new(
            200,
            &json!({
                "username": name, "canonical": name.to_lowercase(), "available": available, "reason": reason,
                "detail": null, "source": "database", "suggestions": [],
            }),
        )
    }

    /// An error as the service words it.
    pub(crate) fn problem(status: u16, name: &str, code: &str) -> Self {
        let body = json!({
            "type": format!("urn:namegate:problem:{code}"), "title": "Problem", "status": status, "detail": "Problem.",
            "code": code, "username": name, "canonical": null, "available": null, "reason": "unverified", "source": null,
        });
        Self::text(status, "application/problem+json", &body.to_string())
    }

    pub(crate) fn with(mut self, header: &'static str, value: &str) -> Self {
        self.headers.push((header, value.to_owned()));
        self
    }
}

/// Holds answers back until it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn is_open(&self) {
        // The sender is ours, so it cannot be gone.
        drop(self.0.subscribe().wait_for(|is_open| *is_open).await);
    }
}

/// What happened to a request, by what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    Asked(String),
    Answered(String),
    /// The browser closed the connection before the answer.
    GivenUp(String),
}

/// The front.
pub(crate) struct Stage {
    address: SocketAddr,
    play: Arc<Play>,
    _accepting: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Play {
    service: SocketAddr,
    cues: Mutex<HashMap<String, VecDeque<Cue>>>,
    happened: Mutex<Vec<Happened>>,
    token: Mutex<Option<String>>,
}

impl Stage {
    /// # Panics
    /// When no port is to be had.
    pub(crate) async fn before(service: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("the listener is bound");
        let play = Arc::new(Play {
            service,
            cues: Mutex::default(),
            happened: Mutex::default(),
            token: Mutex::default(),
        });
        let played = Arc::clone(&play);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&played).serve(stream));
            }
        });
        Self {
            address,
            play,
            _accepting: AbortOnDropHandle::new(accepting),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets what becomes of the next requests about `subject`: a name, or a path that begins with a slash. What comes
    /// after the last cue goes to the service.
    pub(crate) fn set(&self, subject: &str, cues: impl IntoIterator<Item = Cue>) {
        lock(&self.play.cues).insert(subject.to_owned(), cues.into_iter().collect());
    }

    /// From now on everything but pages and their parts is 401 without this token.
    pub(crate) fn demand_token(&self, token: &str) {
        *lock(&self.play.token) = Some(token.to_owned());
    }

    pub(crate) fn happened(&self) -> Vec<Happened> {
        lock(&self.play.happened).clone()
    }

    /// How often `subject` was asked for.
    pub(crate) fn count(&self, subject: &str) -> usize {
        let asked = Happened::Asked(subject.to_owned());
        self.happened()
            .into_iter()
            .filter(|event| *event == asked)
            .count()
    }
}

/// A request, as far as it matters here.
struct Request {
    bytes: Vec<u8>,
    path: String,
    /// What cues are set for.
    subject: String,
    authorization: Option<String>,
}

impl Play {
    /// One connection, one request.
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let Some(request) = read(&mut stream).await else {
            return; // a browser opens connections that it then does not need
        };
        let subject = request.subject.clone();
        self.note(Happened::Asked(subject.clone()));
        let reply = if self.admits(&request) {
            let cue = lock(&self.cues)
                .get_mut(&subject)
                .and_then(VecDeque::pop_front);
            self.reply(&mut stream, &request, cue).await
        } else {
            Some(Scripted::problem(401, "", "unauthorized").written())
        };
        let is_answered = match reply {
            Some(reply) => stream.write_all(&reply).await.is_ok(),
            None => false,
        };
        self.note(if is_answered {
            Happened::Answered(subject)
        } else {
            Happened::GivenUp(subject)
        });
    }

    /// `None`: there is nobody to answer, or nothing.
    async fn reply(
        &self,
        stream: &mut TcpStream,
        request: &Request,
        cue: Option<Cue>,
    ) -> Option<Vec<u8>> {
        match cue {
            None => {}
            Some(Cue::HangUp) => return None,
            Some(Cue::Answer(scripted)) => return Some(scripted.written()),
            Some(Cue::When(gate, scripted)) => {
                let stays = stays_until(stream, &gate).await;
                return stays.then(|| scripted.written());
            }
            Some(Cue::PassWhen(gate)) => stays_until(stream, &gate).await.then_some(())?,
        }
        self.pass(request).await
    }

    /// What the service answers.
    async fn pass(&self, request: &Request) -> Option<Vec<u8>> {
        let mut service = TcpStream::connect(self.service).await.ok()?;
        let text = String::from_utf8_lossy(&request.bytes);
        let once = text.replacen("Connection: keep-alive", "Connection: close", 1);
        service.write_all(once.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        service.read_to_end(&mut answer).await.ok()?;
        (!answer.is_empty()).then_some(answer)
    }

    fn admits(&self, request: &Request) -> bool {
        let is_shell = request.path == "/" || request.path.starts_with("/assets/");
        is_shell
            || lock(&self.token)
                .as_ref()
                .is_none_or(|token| request.authorization == Some(format!("Bearer {token}")))
    }

    fn note(&self, event: Happened) {
        lock(&self.happened).push(event);
    }
}

impl Scripted {
    fn written(&self) -> Vec<u8> {
        let (status, length) = (self.status, self.body.len());
        let mut reply = format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-length: {length}\r\nconnection: close\r\n"
        );
        for (name, value) in &self.headers {
            let _ = write!(reply, "{name}: {value}\r\n"); // writing to a string cannot fail
        }
        format!("{reply}\r\n{}", self.body).into_bytes()
    }
}

/// Waits for the gate; false when the browser went away before it opened.
async fn stays_until(stream: &mut TcpStream, gate: &Gate) -> bool {
    let mut unasked = [0; 1];
    tokio::select! {
        () = gate.is_open() => true,
        _ = stream.read(&mut unasked) => false,
    }
}

/// One request with its body; `None` when none came.
async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(request) = parse(&bytes) {
            return Some(request);
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// `None` while it is not whole.
fn parse(bytes: &[u8]) -> Option<Request> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.to_owned())
    };
    let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap_or(0));
    if body.len() < length {
        return None;
    }
    let target = head.split(' ').nth(1)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let name = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("username="));
    let subject = match name {
        Some(name) if path == QUESTION => percent_decoded(name),
        _ => path.to_owned(),
    };
    Some(Request {
        bytes: bytes.to_vec(),
        path: path.to_owned(),
        subject,
        authorization: header("authorization"),
    })
}

/// What a browser encoded; whatever else stands there stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let escape = piece
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escape.unwrap_or(b'%'));
        bytes.extend_from_slice(&piece.as_bytes()[if escape.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is guarded here is whole at any time, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_once_it_is_whole() {
        let whole = b"POST /users HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_none(), "{end}");
        }
        let request = parse(whole).expect("it is whole");
        assert_eq!(
            (request.path.as_str(), request.subject.as_str()),
            ("/users", "/users")
        );
    }

    #[test]
    fn a_question_goes_by_the_name_in_it() {
        let question = b"GET /username/available?username=a%20%C3%A9%25&suggest=3 HTTP/1.1\r\n\r\n";
        let request = parse(question).expect("it is whole");
        assert_eq!(request.subject, "a \u{e9}%");
        assert_eq!(percent_decoded("%zz%"), "%zz%");
    }
}
