//! The whole service on real parts: real PostgreSQL servers that may be killed, the real binary, real sockets.

mod attaching;
mod auditing;
mod bad_input;
mod batch;
mod canonical_column;
mod commands;
mod conformance;
mod dedup;
mod faults;
mod fixtures;
mod fold_parity;
mod following;
mod growing;
mod http_contract;
mod one_policy;
mod openapi;
mod pages;
mod protection;
mod questions;
mod restarting;
mod sign_up;
mod spellings;
mod support;
mod support_works;
