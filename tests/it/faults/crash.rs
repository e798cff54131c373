//! The server crashes, restarts, fails over, or is another one.

use std::time::Duration;

use super::oracle::Oracle;
use super::switch::Switch;
use super::{RECOVERY, burn_transaction_ids, follows_within, names, polls, rebuilds, run};
use crate::fixtures::{sample_database_in, serve_warm, within};
use crate::support::postgres::Cluster;
use crate::support::service::Service;

/// More of them between two certificates, so that a crash is likelier to fall just after one.
const QUICK: [&str; 2] = ["--poll-interval", "20ms"];

fn cycles() -> usize {
    std::env::var("NAMEGATE_CRASH_CYCLES").map_or(5, |count| {
        count.parse().expect("NAMEGATE_CRASH_CYCLES is a number")
    })
}

/// Transaction ids that nothing in the log vouches for are given out again after a crash. A feed that moved past them
/// would skip the rows that then carry them.
#[tokio::test]
async fn no_name_is_lost_when_a_crash_gives_transaction_ids_out_again() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "crash").await;
    let service = serve_warm(&database.url, &QUICK).await;
    let oracle = Oracle::new();
    for cycle in 0..cycles() {
        let before = names(&format!("before{cycle}x"), 5);
        oracle.insert(&mut database.session().await, &before).await;
        burn_transaction_ids(&database, 40).await;
        polls(&service, 2).await;
        cluster.kill_minus_nine().await;
        cluster.start().await;
        let mut session = database.session().await;
        for name in names(&format!("after{cycle}x"), 20) {
            oracle.insert(&mut session, &[name]).await;
        }
        follows_within(&service, RECOVERY).await;
    }
    oracle.sees_every_name_taken(&service).await;
}

/// Here the server also forgets commits that it has acknowledged, with all ids that they used.
#[tokio::test]
async fn no_name_is_lost_when_a_crash_takes_back_commits_that_were_not_flushed() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "async").await;
    let service = serve_warm(&database.url, &QUICK).await;
    let oracle = Oracle::new();
    for cycle in 0..cycles() {
        let mut session = database.session().await;
        run(&mut session, "SET synchronous_commit = off").await;
        let fleeting = names(&format!("fleeting{cycle}x"), 30);
        oracle.doubt(&fleeting);
        for name in &fleeting {
            super::insert_one(&mut session, name)
                .await
                .expect("the name is new");
        }
        polls(&service, 2).await;
        cluster.kill_minus_nine().await;
        cluster.start().await;
        let mut session = database.session().await;
        run(&mut session, "SET synchronous_commit = off").await;
        oracle
            .insert(&mut session, &names(&format!("later{cycle}x"), 1))
            .await;
        for name in names(&format!("again{cycle}x"), 20) {
            oracle.insert(&mut session, &[name]).await;
        }
        oracle.learn(&database).await;
        follows_within(&service, RECOVERY).await;
    }
    oracle.sees_every_name_taken(&service).await;
}

#[tokio::test]
async fn restarts_under_load_cost_no_wrong_answer() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "restart").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    oracle
        .insert(&mut database.session().await, &names("held", 10))
        .await;
    let tally = oracle
        .under_load(&service, &database, "load", async {
            for _ in 0..2 {
                cluster.restart_fast().await;
                follows_within(&service, RECOVERY).await;
                cluster.restart_immediate().await;
                follows_within(&service, RECOVERY).await;
            }
        })
        .await;
    assert!(
        tally.free_from_filter > 0 && tally.taken > 0,
        "too little was asked: {tally:?}"
    );
    oracle.sees_every_name_taken(&service).await;
    assert!(
        rebuilds(&service, "").await == 0,
        "a restart is no reason to scan"
    );
}

/// Down for longer than the bound: names that only the database knows are unverified at once, free names as soon as
/// the filter is too old, and nothing is ever guessed.
#[tokio::test]
async fn a_database_that_is_down_for_seconds_is_answered_around_and_found_again() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "down").await;
    let service = serve_warm(&database.url, &["--cache-ttl", "1ms"]).await;
    let oracle = Oracle::new();
    let held = names("held", 20);
    oracle.insert(&mut database.session().await, &held).await;
    oracle.sees_every_name_taken(&service).await;

    polls(&service, 1).await;
    cluster.stop_fast().await;
    let tally = oracle.ask_all(&service, &names("zqfree", 20)).await;
    assert_eq!(
        tally.free_from_filter, 20,
        "free names are answered while the filter is fresh: {tally:?}"
    );
    let tally = oracle.ask_all(&service, &held[..5]).await;
    assert_eq!(tally.unverified, 5, "{tally:?}");

    super::stops_following(&service).await;
    let tally = oracle
        .ask_all(&service, held[..5].iter().chain(&names("zqfree", 5)))
        .await;
    assert_eq!(tally.unverified, 10, "the bound has passed: {tally:?}");
    tokio::time::sleep(Duration::from_secs(2)).await; // by now the pauses between two tries are at their longest

    cluster.start().await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
}

/// A standby that lacks the primary's last commits is promoted: it gives their transaction ids out again.
#[tokio::test]
async fn a_failover_to_a_standby_that_lags_loses_no_name_and_costs_no_scan() {
    let primary = Cluster::private().await;
    let database = sample_database_in(&primary, "failover").await;
    let standby = Cluster::builder().standby_of(&primary).start().await;
    let switch = Switch::to(primary.port()).await;
    let service = serve_warm(&database.url_through(switch.port()), &QUICK).await;
    let oracle = Oracle::new();
    oracle
        .insert(&mut database.session().await, &names("early", 20))
        .await;
    // The row of our certificates must have reached the standby: the service is known there.
    let known = "SELECT count(*) FROM namegate.consumer WHERE seen > now() - interval '1 minute';";
    within(RECOVERY, "the standby knows the service", async || {
        standby.psql(&database.name, known).await.expect_success() == "1\n"
    })
    .await;

    standby.stop_fast().await;
    let lost = names("lost", 40);
    let mut session = database.session().await;
    for name in &lost {
        oracle
            .insert(&mut session, std::slice::from_ref(name))
            .await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await; // a certificate that the standby will not know
    polls(&service, 1).await;
    primary.stop_immediate().await;
    standby.start().await;
    standby.promote().await;
    oracle.doubt(&lost);
    switch.point_to(standby.port());

    let promoted = standby.url_for(&database.name);
    let mut session = <sqlx::PgConnection as sqlx::Connection>::connect(&promoted)
        .await
        .expect("the standby is a primary now");
    for name in names("late", 40) {
        oracle.insert(&mut session, &[name]).await;
    }
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
    assert!(
        service.output().contains("older position"),
        "the test did not bring about what it is for:\n{}",
        service.output()
    );
    assert!(rebuilds(&service, "").await == 0);
}

/// As after a dump and a restore: the same address and the same table, but other ids and another transaction counter.
#[tokio::test]
async fn another_server_at_the_same_address_is_noticed_by_its_identity() {
    let other = Cluster::builder().own_identity().start().await;
    let service = moves_to(&other).await;
    assert!(rebuilds(&service, "identity").await > 0);
}

/// A copy of the data directory has the same identity. Its certificates tell it apart.
#[tokio::test]
async fn a_server_with_the_same_identity_and_another_past_is_noticed() {
    let other = Cluster::private().await;
    let service = moves_to(&other).await;
    assert!(rebuilds(&service, "").await > 0);
    assert!(rebuilds(&service, "identity").await == 0);
}

/// A service whose database moves to `other`, where other names are held.
async fn moves_to(other: &Cluster) -> Service {
    let first = Cluster::private().await;
    let database = sample_database_in(&first, "moved").await;
    burn_transaction_ids(&database, 1000).await;
    let moved = sample_database_in(other, "moved").await;
    assert_eq!(moved.name, database.name);
    let switch = Switch::to(first.port()).await;
    let service = serve_warm(&database.url_through(switch.port()), &[]).await;
    let oracle = Oracle::new();
    oracle
        .insert(&mut moved.session().await, &names("restored", 20))
        .await;

    switch.point_to(other.port());
    oracle
        .insert(&mut moved.session().await, &names("new", 20))
        .await;
    within(RECOVERY, "the other server is noticed", async || {
        rebuilds(&service, "").await > 0
    })
    .await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
    service
}
