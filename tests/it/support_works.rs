//! The tools keep their own promises: a fault test proves nothing when its fault did not happen.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection, Row};

use crate::support::postgres::{Cluster, TURKISH};
use crate::support::process::{self, Pid, Signal};
use crate::support::service::Service;
use crate::support::wire::{Direction, FaultyWire};

/// Set for a copy of this test binary that is going to be killed.
const VICTIM: &str = "SUPPORT_WORKS_VICTIM";

/// A service on ports of its own, on a database that it sets up.
const SERVE: [&str; 6] = [
    "serve",
    "--migrate",
    "--listen",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
];

#[tokio::test]
async fn rows_committed_before_a_crash_are_there_after_it() {
    let cluster = Cluster::private().await;
    let database = cluster.database("crash").await;
    database
        .execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
        .await;
    let mut open = database.session().await;
    sqlx::raw_sql("BEGIN; INSERT INTO t VALUES (2)")
        .execute(&mut open)
        .await
        .expect("an insert");

    cluster.kill_minus_nine().await;
    assert!(sqlx::query("SELECT 1").execute(&mut open).await.is_err());
    cluster.start().await;

    let rows = cluster
        .psql(&database.name, "SELECT n FROM t;")
        .await
        .expect_success();
    assert_eq!(rows, "1\n");
    assert!(
        cluster
            .log()
            .contains("database system was not properly shut down")
    );
}

#[tokio::test]
async fn a_restart_keeps_the_port_and_the_socket() {
    let cluster = Cluster::private().await;
    let database = cluster.database("restart").await;
    let urls = (
        cluster.url_for(&database.name),
        cluster.socket_url_for(&database.name),
    );
    cluster.restart_fast().await;
    cluster.restart_immediate().await;
    for url in [urls.0, urls.1] {
        let mut connection = sqlx::PgConnection::connect(&url)
            .await
            .expect("the server is back");
        connection.ping().await.expect("it answers");
    }
}

#[tokio::test]
async fn a_frozen_server_answers_once_it_is_thawed() {
    let cluster = Cluster::private().await;
    let mut session = cluster.maintenance().session().await;
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut session)
        .await
        .expect("an answer");
    for (freeze, thaw) in [
        (
            Box::new(|| cluster.pause()) as Box<dyn Fn()>,
            Box::new(|| cluster.resume()) as Box<dyn Fn()>,
        ),
        (
            Box::new(|| cluster.pause_backend(backend)),
            Box::new(|| cluster.resume_backend(backend)),
        ),
    ] {
        freeze();
        let mut question = Box::pin(sqlx::query("SELECT 1").fetch_one(&mut session));
        assert!(
            tokio::time::timeout(Duration::from_millis(300), &mut question)
                .await
                .is_err()
        );
        thaw();
        assert_eq!(question.await.expect("an answer").get::<i32, _>(0), 1);
    }
}

#[tokio::test]
async fn a_standby_follows_and_can_be_promoted() {
    let primary = Cluster::private().await;
    let standby = Cluster::builder().standby_of(&primary).start().await;
    primary
        .maintenance()
        .execute("CREATE TABLE t AS SELECT 1 AS n")
        .await;
    let position = primary
        .psql("postgres", "SELECT pg_current_wal_lsn();")
        .await
        .expect_success();
    let caught_up = format!("SELECT pg_last_wal_replay_lsn() >= '{}';", position.trim());
    while standby.psql("postgres", &caught_up).await.expect_success() != "t\n" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    primary.stop_immediate().await;
    standby.promote().await;
    standby
        .maintenance()
        .execute("INSERT INTO t VALUES (2)")
        .await;
    assert_eq!(
        standby
            .psql("postgres", "SELECT sum(n) FROM t;")
            .await
            .expect_success(),
        "3\n"
    );
}

#[tokio::test]
async fn databases_of_the_shared_server_are_apart_and_may_have_a_locale() {
    let cluster = Cluster::shared().await;
    let (one, other) = tokio::join!(
        cluster.database("apart"),
        cluster.database_with("apart", TURKISH)
    );
    one.execute("CREATE TABLE t ()").await;
    other.execute("CREATE TABLE t ()").await;
    let lower: String = sqlx::query_scalar("SELECT lower('TI')")
        .fetch_one(&other.connect().await)
        .await
        .expect("text");
    assert_eq!(lower, "tı");
}

#[tokio::test]
async fn a_stalled_wire_holds_a_query_until_it_is_mended() {
    let cluster = Cluster::shared().await;
    let wire = FaultyWire::in_front_of("127.0.0.1", cluster.port()).await;
    let url = cluster.maintenance().url_through(wire.port());
    let mut session = sqlx::PgConnection::connect(&url)
        .await
        .expect("the wire is whole");
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        wire.stall(direction);
        let mut question = Box::pin(sqlx::query("SELECT 1").fetch_one(&mut session));
        assert!(
            tokio::time::timeout(Duration::from_millis(200), &mut question)
                .await
                .is_err(),
            "{direction:?}"
        );
        wire.mend().await;
        assert_eq!(
            question.await.expect("an answer").get::<i32, _>(0),
            1,
            "{direction:?}"
        );
    }
    assert_eq!((wire.accepted(), wire.open()), (1, 1));
}

#[tokio::test]
async fn a_cut_wire_loses_its_connections_and_refuses_new_ones_until_it_is_mended() {
    let cluster = Cluster::shared().await;
    let wire = FaultyWire::in_front_of("127.0.0.1", cluster.port()).await;
    let url = cluster.maintenance().url_through(wire.port());
    let mut session = sqlx::PgConnection::connect(&url)
        .await
        .expect("the wire is whole");
    wire.cut().await;
    assert_eq!(wire.open(), 0);
    assert!(session.ping().await.is_err());
    let refused = tokio::net::TcpStream::connect(wire.address())
        .await
        .expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    wire.mend().await;
    sqlx::PgConnection::connect(&url)
        .await
        .expect("the wire is whole again");
}

#[tokio::test]
async fn a_slow_wire_delays_both_ways() {
    let cluster = Cluster::shared().await;
    let wire = FaultyWire::in_front_of("127.0.0.1", cluster.port()).await;
    let url = cluster.maintenance().url_through(wire.port());
    let mut session = sqlx::PgConnection::connect(&url)
        .await
        .expect("the wire is whole");
    wire.slow(Duration::from_millis(100));
    let asked = Instant::now();
    session.ping().await.expect("it answers");
    assert!(asked.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn nothing_outlives_a_killed_test_process() {
    kill_a_copy_of("nothing_outlives_a_killed_test_process", false).await;
}

#[tokio::test]
async fn nothing_frozen_outlives_a_killed_test_process() {
    kill_a_copy_of("nothing_frozen_outlives_a_killed_test_process", true).await;
}

/// Starts a copy of the calling test, lets it start one of everything, and kills it.
async fn kill_a_copy_of(test: &str, is_frozen: bool) {
    if std::env::var_os(VICTIM).is_some() {
        wait_to_be_killed(is_frozen).await;
    }
    let mut victim = Command::new(std::env::current_exe().expect("a running program has a path"))
        .args(["--exact", &format!("support_works::{test}"), "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started");
    let stdout = victim
        .stdout
        .take()
        .expect("the stream was asked to be piped");
    let lines = BufReader::new(stdout)
        .lines()
        .map(|line| line.expect("the victim prints text"));
    let mut words = lines.filter_map(|line| Some(line.strip_prefix("victim: ")?.to_owned()));
    let directory = PathBuf::from(words.next().expect("the victim says its directory"));
    let pids = words.next().expect("the victim says its processes");
    let pids: Vec<Pid> = pids
        .split(' ')
        .map(|pid| {
            pid.parse()
                .ok()
                .and_then(Pid::from_raw)
                .expect("a process id")
        })
        .collect();
    assert!(directory.exists() && pids.len() > 2);
    let began: Vec<Option<String>> = pids.iter().map(|&pid| process::began(pid)).collect();
    // Of the others one may be a session that was just ending.
    assert!(began[..2].iter().all(Option::is_some));
    let is_still_there =
        |pid: Pid, began: &Option<String>| began.is_some() && process::began(pid) == *began;

    victim.kill().expect("a child can be killed");
    victim.wait().expect("a child can be waited for");

    let deadline = Instant::now() + Duration::from_mins(1);
    while directory.exists()
        || pids
            .iter()
            .zip(&began)
            .any(|(&pid, began)| is_still_there(pid, began))
    {
        assert!(
            Instant::now() < deadline,
            "one of {pids:?} or their directory is still there"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_to_be_killed(is_frozen: bool) {
    let cluster = Cluster::private().await;
    let database = cluster.database("victim").await;
    let service = Service::spawn(&SERVE, &[("DATABASE_URL", &database.url)]).await;
    let mut pids = vec![cluster.pid(), service.pid()];
    pids.extend(process::children_of(cluster.pid()));
    if is_frozen {
        cluster.pause();
        service.pause();
    }
    let pids: Vec<String> = pids
        .iter()
        .map(|pid| pid.as_raw_pid().to_string())
        .collect();
    let directory = cluster.directory().display();
    println!("\nvictim: {directory}\nvictim: {}", pids.join(" "));
    std::future::pending::<()>().await;
}

#[test]
fn a_signal_to_a_process_that_is_gone_is_no_error() {
    let mut child = Command::new("true").spawn().expect("true is in PATH");
    let pid = Pid::from_child(&child);
    child.wait().expect("a child can be waited for");
    process::signal(pid, Signal::TERM);
    assert!(!process::is_running(pid));
}
