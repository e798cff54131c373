//! The change feed on tables that somebody else has made: installed, followed, and taken away without a trace.

mod catalog;
mod equality;
mod following;
mod installing;
mod refusals;
mod removing;

use crate::fixtures::serve_warm;
use crate::support::command::Finished;
use crate::support::postgres::{Cluster, Database};
use crate::support::service::{self, Service};

/// A database with these objects in it, in the shared cluster.
async fn database_with(prefix: &str, sql: &str) -> Database {
    let database = Cluster::shared().await.database(prefix).await;
    database.execute(sql).await;
    database
}

/// `namegate COMMAND` on this table; `column` is `handle` unless `more` says otherwise.
async fn run(command: &str, url: &str, table: &str, more: &[&str]) -> Finished {
    let mut args = vec![command, "--database-url", url, "--table", table];
    if command != "detach" && !more.contains(&"--column") {
        args.extend(["--column", "handle"]);
    }
    args.extend(more);
    service::run(&args, b"").await
}

async fn attach(url: &str, table: &str) -> String {
    run("attach", url, table, &[]).await.expect_success()
}

/// Flags of a service that is patient: on a busy machine an answer would be "not known" otherwise.
const PATIENT: [&str; 2] = ["--lookup-deadline", "10s"];

/// A service in front of this table that follows it.
async fn serve_table(url: &str, table: &str, more: &[&str]) -> Service {
    let mut args = vec!["--table", table, "--cache-ttl", "1ms"];
    args.extend(PATIENT);
    if !more.contains(&"--column") {
        args.extend(["--column", "handle"]);
    }
    args.extend(more);
    serve_warm(url, &args).await
}

/// A command that must refuse: with this exit code, in one line that holds all of `words`.
#[track_caller]
fn assert_refused(refused: &Finished, code: i32, words: &[&str]) {
    assert_eq!(refused.code, Some(code), "{refused:?}");
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    for words in words {
        assert!(refused.stderr.contains(words), "{words:?} in {refused:?}");
    }
}

/// A role of its own for a database: roles belong to the cluster, which tests share.
fn role(name: &str, database: &Database) -> String {
    format!("{name}_{}", database.name)
}

/// The database as `role` reaches it.
async fn url_as(role: &str, database: &Database) -> String {
    format!(
        "postgres://{role}@127.0.0.1:{}/{}",
        Cluster::shared().await.port(),
        database.name
    )
}
