//! The whole service on real parts: real PostgreSQL servers that may be killed, the real binary, real sockets.

mod bad_input;
mod commands;
mod conformance;
mod faults;
mod fixtures;
mod following;
mod http_contract;
mod protection;
mod questions;
mod sign_up;
mod support;
mod support_works;
