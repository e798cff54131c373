//! Processes stand still: the service, a session of the server, the whole server, or only the table.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::oracle::Oracle;
use super::{
    FEED_DEADLINE, RECOVERY, backends, follows_within, names, polls, rebuilds, run, stops_following,
};
use crate::fixtures::{
    BOUND, is_trusted, sample_database, sample_database_in, serve_warm, verdict, within,
};
use crate::support::postgres::Cluster;
use crate::support::service::question;

/// Past the bound, with something to spare.
const TOO_LONG: Duration = Duration::from_millis(2500);

#[tokio::test]
async fn a_service_that_stood_still_answers_nothing_from_the_past() {
    let database = sample_database("stopped").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    for round in 0..2 {
        let fresh = names(&format!("asleep{round}x"), 20);
        polls(&service, 1).await;
        service.pause();
        oracle.insert(&mut session, &fresh).await;
        tokio::time::sleep(TOO_LONG).await;
        // The question waits in the socket, as one does that comes in while a machine sleeps.
        let mut waiting = service.connect().await.expect("the system accepts for it");
        waiting
            .send(format!("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", question(&fresh[0])).as_bytes())
            .await
            .expect("the system takes it");
        service.resume();
        let (available, ..) = verdict(&waiting.reply("GET").await.expect("an answer"));
        assert_ne!(available, Some(true));
        oracle.ask_all(&service, &fresh).await;
        follows_within(&service, RECOVERY).await;
    }
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
}

/// As when a firewall forgets a connection: the old one is never heard of again, a new one works.
#[tokio::test]
async fn a_feed_whose_session_froze_is_read_through_another() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "feed").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("before", 10)).await;
    let frozen = backends(&mut session, "namegate").await;
    assert!(!frozen.is_empty());
    for backend in &frozen {
        cluster.pause_backend(*backend);
    }
    oracle.insert(&mut session, &names("meanwhile", 10)).await;
    oracle
        .under_questions(&service, async {
            stops_following(&service).await;
            follows_within(&service, FEED_DEADLINE + RECOVERY).await;
        })
        .await;
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
}

#[tokio::test]
async fn a_frozen_server_means_unknown_until_it_moves_again() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "frozen").await;
    let service = serve_warm(&database.url, &["--cache-ttl", "1ms"]).await;
    let oracle = Oracle::new();
    let held = names("held", 10);
    oracle.insert(&mut database.session().await, &held).await;
    oracle.sees_every_name_taken(&service).await;

    cluster.pause();
    stops_following(&service).await;
    let reply = service.ask(&held[0]).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    let tally = oracle.ask_all(&service, &held[..3]).await;
    assert_eq!(tally.unverified, 3, "{tally:?}");
    tokio::time::sleep(FEED_DEADLINE).await; // connections are given up, and new ones get stuck too
    cluster.resume();
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
}

/// A lock held by a session that nobody minds: the certificate has to wait, the feed must not.
#[tokio::test]
async fn a_locked_place_in_the_outbox_does_not_stop_the_feed() {
    let database = sample_database("locked").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    let mut abandoned = database.session().await;
    run(
        &mut abandoned,
        "BEGIN; SELECT 1 FROM namegate.consumer FOR UPDATE",
    )
    .await;
    for round in 0..3 {
        oracle
            .insert(&mut session, &names(&format!("round{round}x"), 5))
            .await;
        tokio::time::sleep(BOUND).await;
        assert!(is_trusted(&service).await, "round {round}");
        oracle.ask_all(&service, &oracle.held()).await;
    }
    run(&mut abandoned, "ROLLBACK").await;
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
}

#[tokio::test]
async fn a_locked_users_table_stops_neither_the_feed_nor_free_names() {
    const CROWD: usize = 300;
    let database = sample_database("table").await;
    let service = serve_warm(&database.url, &["--cache-ttl", "1ms"]).await;
    let oracle = Oracle::new();
    let held = names("held", CROWD);
    oracle.insert(&mut database.session().await, &held).await;
    oracle.sees_every_name_taken(&service).await;

    let mut locker = database.session().await;
    run(
        &mut locker,
        "BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE",
    )
    .await;
    let began = Instant::now();
    let crowd = join_all(held.iter().map(|name| oracle.ask(&service, name)));
    let (crowd, free) = tokio::join!(crowd, async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        oracle.ask_all(&service, &names("zqfree", 50)).await
    });
    assert!(
        crowd.iter().all(|tally| tally.unverified == 1),
        "the table cannot be read"
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "the crowd waited for {:?}",
        began.elapsed()
    );
    assert_eq!(free.free_from_filter, 50, "{free:?}");
    join_all(held.iter().map(|name| oracle.ask(&service, name))).await;
    let backends = backends(&mut locker, "namegate").await.len();
    assert!(backends <= 8, "{backends} sessions");
    assert!(is_trusted(&service).await);

    run(&mut locker, "ROLLBACK").await;
    within(RECOVERY, "taken names are answered again", async || {
        oracle.ask_all(&service, &held[..10]).await.taken == 10
    })
    .await;
}

#[tokio::test]
async fn of_two_instances_one_that_was_away_catches_up_without_a_scan() {
    let database = sample_database("two").await;
    let awake = serve_warm(&database.url, &[]).await;
    let asleep = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    asleep.pause();
    let tally = oracle
        .under_load(&awake, &database, "load", async {
            tokio::time::sleep(TOO_LONG).await;
        })
        .await;
    assert!(tally.free_from_filter > 0, "{tally:?}");
    // What everybody has certified is pruned; the sleeper's part must stay.
    sqlx::query("SELECT namegate.prune('0 seconds', '1 hour', 100000)")
        .execute(&mut session)
        .await
        .expect("pruning is allowed");
    asleep.resume();
    oracle.ask_all(&asleep, &oracle.held()).await;
    follows_within(&asleep, RECOVERY).await;
    for service in [&awake, &asleep] {
        oracle.sees_every_name_taken(service).await;
        assert!(rebuilds(service, "").await == 0);
    }
}
