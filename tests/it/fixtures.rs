//! What most tests begin with: a migrated database, and a service in front of it.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::http::{Connection, Reply};
use crate::support::postgres::{Cluster, Database};
use crate::support::service::{self, Service, question};

/// The freshness bound that services are started with, unless a test says otherwise. The default of the binary.
pub(crate) const BOUND: Duration = Duration::from_secs(2);

/// A fresh database in the shared cluster, with the sample table in it.
pub(crate) async fn sample_database(prefix: &str) -> Database {
    sample_database_in(Cluster::shared().await, prefix).await
}

/// A fresh database in `cluster`, with the sample table in it.
pub(crate) async fn sample_database_in(cluster: &Cluster, prefix: &str) -> Database {
    let database = cluster.database(prefix).await;
    migrate(&database.url).await;
    database
}

pub(crate) async fn migrate(url: &str) {
    service::run(&["migrate", "--database-url", url], b"")
        .await
        .expect_success();
}

/// A service in front of the database at `url`, on ports of its own. Without budgets, unless `more` switches them on: all
/// tests ask from one address.
pub(crate) async fn serve(url: &str, more: &[&str]) -> Service {
    let mut args = vec![
        "serve",
        "--database-url",
        url,
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    if !more.contains(&"--rate-limit") {
        args.extend(["--rate-limit", "off"]);
    }
    args.extend(more);
    Service::spawn(&args, &[]).await
}

/// A service that follows: its filter is complete and fresh.
pub(crate) async fn serve_warm(url: &str, more: &[&str]) -> Service {
    let service = serve(url, more).await;
    wait_until_following(&service).await;
    service
}

pub(crate) async fn wait_until_following(service: &Service) {
    within(Duration::from_mins(1), "the service follows", async || {
        is_trusted(service).await
    })
    .await;
}

/// Whether free names are answered from memory now.
pub(crate) async fn is_trusted(service: &Service) -> bool {
    count(service, "namegate_trusted").await == 1
}

/// A metric that counts.
pub(crate) async fn count(service: &Service, series: &str) -> u64 {
    let value = service.metric(series).await;
    assert!(value >= 0.0 && value.fract() == 0.0, "{series} is {value}");
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number, as asserted"
    )]
    let count = value as u64;
    count
}

/// Looks again and again until `is_so`.
/// # Panics
/// When it is not so after `patience`.
#[track_caller]
pub(crate) fn within(
    patience: Duration,
    what: &str,
    mut is_so: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    let began = Instant::now();
    let caller = std::panic::Location::caller();
    async move {
        while !is_so().await {
            assert!(
                began.elapsed() < patience,
                "not within {patience:?} ({caller}): {what}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// `(available, reason, source)` of an answer; the status must go with it.
#[track_caller]
pub(crate) fn verdict(reply: &Reply) -> (Option<bool>, String, Option<String>) {
    let body = reply.json();
    let available = body["available"].as_bool();
    let status = if available.is_some() { 200 } else { 503 };
    assert_eq!(reply.status, status, "{reply:?}");
    let text = |field: &str| body[field].as_str().map(ToOwned::to_owned);
    (
        available,
        text("reason").expect("every answer has a reason"),
        text("source"),
    )
}

/// The answer as JSON.
pub(crate) async fn answer(service: &Service, name: &str) -> Value {
    service.ask(name).await.json()
}

/// Whether the service says *free*.
pub(crate) async fn is_free(service: &Service, name: &str) -> bool {
    verdict(&service.ask(name).await).0 == Some(true)
}

/// Whether the service says *taken*.
pub(crate) async fn is_taken(service: &Service, name: &str) -> bool {
    verdict(&service.ask(name).await).1 == "taken"
}

/// Asks about all names on one connection; returns `(reason, source)` for each.
pub(crate) async fn ask_all<'a>(
    service: &Service,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<(String, Option<String>)> {
    let mut connection: Connection = service
        .connect()
        .await
        .expect("the service accepts connections");
    let mut answers = Vec::new();
    for name in names {
        let reply = connection.get(&question(name)).await.expect("an answer");
        let (_, reason, source) = verdict(&reply);
        answers.push((reason, source));
    }
    answers
}

/// `count` names that nobody ever picked, all different, all allowed.
pub(crate) fn absent_names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("zq{n:05}xk")).collect()
}

/// `count` names for rows, none of them among the [`absent_names`].
pub(crate) fn present_names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("user{n:06}")).collect()
}

/// Inserts all names with one statement, as another program would.
pub(crate) async fn insert(database: &Database, names: &[String]) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    sqlx::query("INSERT INTO users (username) SELECT unnest($1::text[])")
        .bind(names)
        .execute(&mut database.session().await)
        .await
        .expect("the rows are new");
}
