//! The link breaks: sessions are ended, bytes stop arriving, connections are cut.

use std::time::Duration;

use super::oracle::Oracle;
use super::{RECOVERY, follows_within, names, rebuilds, stops_following};
use crate::fixtures::{sample_database, serve, serve_warm, within};
use crate::support::postgres::Cluster;
use crate::support::wire::{Direction, FaultyWire};

/// A new name for each kill, so that its change is under way when the session ends.
#[tokio::test]
async fn a_feed_whose_sessions_are_ended_again_and_again_loses_nothing() {
    let database = sample_database("ended").await;
    let service = serve_warm(&database.url, &["--poll-interval", "10ms"]).await;
    let oracle = Oracle::new();
    let mut admin = database.session().await;
    let mut ended = 0;
    oracle
        .under_load(&service, &database, "load", async {
            let mut attempt: u64 = 0;
            while ended < 50 {
                // Not random but spread: every phase of a poll and of a certificate has its turn.
                attempt += 1;
                tokio::time::sleep(Duration::from_millis(attempt * 37 % 90)).await;
                ended += sqlx::query(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                      WHERE datname = current_database() AND application_name = 'namegate feed'",
                )
                .execute(&mut admin)
                .await
                .expect("the superuser may")
                .rows_affected();
            }
        })
        .await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
}

/// The scan is read slowly and its session ended in the middle.
#[tokio::test]
async fn half_a_scan_is_never_answered_from() {
    const KILLS: usize = 3;
    let database = sample_database("half").await;
    let mut session = database.session().await;
    let oracle = Oracle::new();
    oracle.insert(&mut session, &names("row", 40_000)).await;
    let wire = FaultyWire::in_front_of("127.0.0.1", Cluster::shared().await.port()).await;
    wire.slow(Duration::from_millis(4));
    let service = serve(&database.url_through(wire.port()), &[]).await;
    let mut killed = 0;
    within(Duration::from_mins(1), "scans are under way", async || {
        let ended: Vec<bool> = sqlx::query_scalar(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = 'namegate feed' AND starts_with(query, 'COPY')",
        )
        .fetch_all(&mut session)
        .await
        .expect("the superuser may");
        killed += ended.len();
        oracle.ask_all(&service, &[format!("row{:06}", killed * 7919 % 40_000)]).await;
        killed >= KILLS
    })
    .await;
    wire.mend().await;
    follows_within(&service, RECOVERY).await;
    assert!(
        service.output().contains("thrown away"),
        "no scan was broken off:\n{}",
        service.output()
    );
    let sample = names("row", 40_000)
        .into_iter()
        .step_by(97)
        .collect::<Vec<_>>();
    let tally = oracle.ask_all(&service, &sample).await;
    assert_eq!(tally.free_from_filter + tally.free_from_database, 0);
}

#[tokio::test]
async fn a_link_that_falls_silent_towards_the_server_is_survived() {
    survives_silence(Direction::ToServer).await;
}

#[tokio::test]
async fn a_link_that_falls_silent_towards_the_service_is_survived() {
    survives_silence(Direction::ToClient).await;
}

#[tokio::test]
async fn a_link_that_falls_silent_both_ways_is_survived() {
    survives_silence(Direction::Both).await;
}

async fn survives_silence(direction: Direction) {
    let database = sample_database("silent").await;
    let wire = FaultyWire::in_front_of("127.0.0.1", Cluster::shared().await.port()).await;
    let service = serve_warm(&database.url_through(wire.port()), &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("before", 10)).await;
    let accepted = wire.accepted();
    wire.stall(direction);
    oracle.insert(&mut session, &names("during", 10)).await;
    let tally = oracle
        .under_questions(&service, async {
            stops_following(&service).await;
            within(
                Duration::from_secs(20),
                "a silent connection is given up for a new one",
                async || wire.accepted() > accepted + 1,
            )
            .await;
        })
        .await;
    assert!(tally.unverified > 0, "{direction:?}: {tally:?}");
    oracle.insert(&mut session, &names("after", 10)).await;
    wire.mend().await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
    assert!(
        wire.open() <= 12,
        "{} connections are open: those given up were not closed",
        wire.open()
    );
}

#[tokio::test]
async fn a_link_that_is_cut_and_mended_in_quick_succession_costs_nothing_but_time() {
    let database = sample_database("cut").await;
    let wire = FaultyWire::in_front_of("127.0.0.1", Cluster::shared().await.port()).await;
    let service = serve_warm(&database.url_through(wire.port()), &[]).await;
    let oracle = Oracle::new();
    oracle
        .under_load(&service, &database, "load", async {
            for round in 0..15 {
                wire.cut().await;
                tokio::time::sleep(Duration::from_millis(round * 13 % 50)).await;
                wire.mend().await;
                tokio::time::sleep(Duration::from_millis(round * 29 % 150)).await;
            }
        })
        .await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
}

/// Slow, but within the bound: nothing is stale, and nothing piles up.
#[tokio::test]
async fn a_slow_link_is_followed_all_the_same() {
    let database = sample_database("slow").await;
    let wire = FaultyWire::in_front_of("127.0.0.1", Cluster::shared().await.port()).await;
    let service = serve_warm(&database.url_through(wire.port()), &[]).await;
    let oracle = Oracle::new();
    wire.slow(Duration::from_millis(20));
    oracle
        .under_load(&service, &database, "load", async {
            tokio::time::sleep(Duration::from_secs(3)).await;
        })
        .await;
    follows_within(&service, RECOVERY).await;
    wire.mend().await; // the names have been followed; to ask for each of them would take long
    oracle.sees_every_name_taken(&service).await;
}
