//! namegate: a username-availability gatekeeper in front of a database.
//!
//! A sign-up form asks "is this name free?" many times for every account that is made, and each question is usually a
//! database query. namegate keeps a Bloom filter of all names in memory: it answers *definitely free* without touching
//! the database, and asks the database only when the filter says *maybe taken*. The filter is warmed from the users
//! table at start-up and kept in step with inserts, whoever makes them.
//!
//! ```text
//!   GET /username/available?username=Alice                  INSERT INTO users ... (anybody)
//!            │                                                        │ trigger
//!          http ──▶ names: parse, judge, fold                     outbox table
//!            │                                                        │ poll, 10 times a second
//!          gate ──▶ filter: absent? ──▶ free                      population ──▶ filter, lease
//!            │        maybe, or not fresh
//!            ▼
//!          store: one statement for all names that wait ──▶ taken, free, or "could not find out"
//! ```
//!
//! The modules in reading order:
//!
//! 1. [`names`]: what a name is; its canonical form and its filter key. Pure.
//! 2. [`filter`]: the blocked Bloom filter, its sizing and what it knows of itself. Pure.
//! 3. [`gate`]: the decision table, freshness, gathered lookups; and the trait every store implements.
//! 4. [`store`]: PostgreSQL and embedded SQLite.
//! 5. [`population`]: the state machine that fills filters and keeps them in step.
//! 6. [`http`]: the answer on the wire, the page, the admin listener.
//! 7. [`dedup`]: the filter's second job, dropping repeated messages from a stream.
//! 8. [`telemetry`]: logs, metrics, progress.
//! 9. [`config`] and [`cli`]: flags, and one thin file per command.
//!
//! The promises, in the order in which they win: never a wrong *free*; never a wrong *taken*; check and sign-up agree;
//! the database rests; fast; it keeps answering; it shows what it does.

pub mod cli;
pub mod config;
pub mod dedup;
pub mod filter;
pub mod gate;
pub mod http;
pub mod names;
pub mod population;
pub mod store;
pub mod telemetry;
