//! Real servers, real sockets and real signals, so that a test can break what production breaks.
//!
//! In reading order:
//!
//! | module | gives a test |
//! | --- | --- |
//! | [`process`] | signals, and which processes there are |
//! | [`lifeline`] | programs that are gone when the test process is, however it ended |
//! | [`scratch`] | directories that are gone then |
//! | [`command`] | one command run to its end |
//! | [`output`] | what a running program prints |
//! | [`port`] | TCP ports that stay free while nobody listens |
//! | [`postgres`] | a PostgreSQL server of its own, to crash, freeze and restart |
//! | [`pooler`] | a PgBouncer between a server and its clients |
//! | [`wire`] | a network link to cut, stall and slow down |
//! | [`http`] | an HTTP/1.1 client that can also send what no client would |
//! | [`metrics`] | numbers out of a metrics page |
//! | [`service`] | the `namegate` binary as a process |
//! | [`packages`] | programs that have to be installed first |
//! | [`browser`] | pages in a real Chromium, driven by keyboard and mouse |
//! | [`stage`] | a front that lets a test decide what a page is answered, and when |
//!
//! They know nothing of the crate under test but its binary, and panic with the story so far
//! (the server's log, the program's output) when something takes longer than it ever should.

#![allow(
    dead_code,
    reason = "a tool is complete before every part of it has a test that needs it"
)]

pub(crate) mod browser;
pub(crate) mod command;
pub(crate) mod http;
pub(crate) mod lifeline;
pub(crate) mod metrics;
pub(crate) mod output;
pub(crate) mod packages;
pub(crate) mod pooler;
pub(crate) mod port;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod scratch;
pub(crate) mod service;
pub(crate) mod stage;
pub(crate) mod wire;
