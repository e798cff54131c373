//! The bytes of one connection on their way between socket and hyper, watched.
//!
//! Two things cannot be seen from anywhere else. Whether bytes of a request have come that is not whole yet, and whether
//! the client leaves its answer unread: both decide how long the connection may go on. And hyper's own refusals: what it
//! cannot parse it answers itself, with a bare status line. Those heads are held back here, and the status is kept, so
//! that the client can be sent a problem like any other (see [`crate::http::refusal`]).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::task::{Context, Poll};

use http::StatusCode;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What is known about one connection. Written and read by the one task that drives it: the atomics are there because
/// such a task may move from thread to thread, and all of them are relaxed.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Bytes have come since the last request was taken.
    pub(super) has_heard: Flag,
    /// A request was taken and is not answered.
    pub(super) is_answering: Flag,
    /// Its body has not come to its end.
    pub(super) awaits_body: Flag,
    /// The client does not read.
    pub(super) is_stuck: Flag,
    /// The answer took too long; it is given up at the next occasion.
    pub(super) is_overdue: Flag,
    refused_with: AtomicU16,
    steps: AtomicU32,
}

/// Something that is so or not.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Pulse {
    /// A request has come as a whole, perhaps but for its body.
    pub(super) fn takes_request(&self) {
        self.has_heard.set(false);
        self.awaits_body.set(false);
        self.is_overdue.set(false);
        self.is_answering.set(true);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer is there. Whatever was heard meanwhile was its body.
    pub(super) fn answers(&self) {
        self.is_answering.set(false);
        self.has_heard.set(false);
    }

    /// How often it went on: by a request, or by a client that reads again. 0: nothing was ever asked.
    pub(super) fn steps(&self) -> u32 {
        self.steps.load(Ordering::Relaxed)
    }

    /// The status that hyper wanted to refuse with, once it did.
    pub(super) fn refusal(&self) -> Option<StatusCode> {
        StatusCode::from_u16(self.refused_with.load(Ordering::Relaxed)).ok()
    }
}

/// A socket under a [`Pulse`].
#[derive(Debug)]
pub(super) struct Wire {
    socket: TokioIo<TcpStream>,
    pulse: Arc<Pulse>,
}

impl Wire {
    pub(super) fn new(socket: TcpStream, pulse: Arc<Pulse>) -> Self {
        Self {
            socket: TokioIo::new(socket),
            pulse,
        }
    }

    pub(super) fn into_socket(self) -> TcpStream {
        self.socket.into_inner()
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if read.is_ready() {
            self.pulse.has_heard.set(true);
        }
        read
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let passed_on = match refusal_at_the_end_of(bytes) {
            Some((0, status)) => {
                self.pulse.refused_with.store(status, Ordering::Relaxed);
                return Poll::Ready(Ok(bytes.len()));
            }
            // Earlier answers first; hyper comes again with the rest.
            Some((begin, _)) => &bytes[..begin],
            None => bytes,
        };
        let written = Pin::new(&mut self.socket).poll_write(cx, passed_on);
        if self.pulse.is_stuck.is_set() && written.is_ready() {
            self.pulse.steps.fetch_add(1, Ordering::Relaxed);
        }
        self.pulse.is_stuck.set(written.is_pending());
        written
    }

    /// No: an answer is one head and one short body, and copying that together costs less than two pieces do.
    fn is_write_vectored(&self) -> bool {
        false
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.pulse.refusal().is_some() {
            return Poll::Ready(Ok(())); // there is something left to say
        }
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Where in `bytes` hyper's own refusal begins, and its status. It is the last thing that hyper writes, so it ends where
/// the bytes end. None of our answers looks like it: each of them has a request id.
fn refusal_at_the_end_of(bytes: &[u8]) -> Option<(usize, u16)> {
    /// The statuses that hyper refuses with by itself.
    const STARTS: [(&[u8], u16); 3] = [
        (b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n", 400),
        (b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\n", 414),
        (
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n",
            431,
        ),
    ];
    /// With its date, the longest of them has 120 bytes.
    const LONGEST: usize = 160;
    let body = bytes.strip_suffix(b"\r\n\r\n")?; // an answer with a body does not end so
    let window = body.len().saturating_sub(LONGEST);
    let begin = window + find_last(&body[window..], b"HTTP/1.1 ")?;
    STARTS
        .into_iter()
        .find(|(start, _)| bytes[begin..].starts_with(start))
        .map(|(_, status)| (begin, status))
}

fn find_last(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .rposition(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSAL: &[u8] =
        b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                             date: Mon, 30 Nov 2026 17:00:00 GMT\r\n\r\n";

    #[test]
    fn a_bare_refusal_is_found_also_behind_an_answer() {
        assert_eq!(refusal_at_the_end_of(REFUSAL), Some((0, 400)));
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let both = [&answer[..], REFUSAL].concat();
        assert_eq!(refusal_at_the_end_of(&both), Some((answer.len(), 400)));
    }

    #[test]
    fn our_own_answers_are_none() {
        for answer in [
            &b""[..],
            b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 204 No Content\r\nx-request-id: 1\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\nx-request-id: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert_eq!(refusal_at_the_end_of(answer), None);
        }
        assert_eq!(refusal_at_the_end_of(&REFUSAL[..90]), None);
    }
}
