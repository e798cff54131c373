//! The beginning goes wrong: nobody is there yet, or somebody is there and says nothing.

use super::oracle::Oracle;
use super::{FEED_DEADLINE, RECOVERY, follows_within, names, run};
use crate::fixtures::{sample_database_in, serve, within};
use crate::support::postgres::Cluster;

#[tokio::test]
async fn a_service_that_starts_before_its_database_waits_for_it() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "early").await;
    let oracle = Oracle::new();
    let held = names("held", 20);
    oracle.insert(&mut database.session().await, &held).await;
    cluster.stop_fast().await;

    let service = serve(&database.url, &[]).await;
    let tally = oracle.ask_all(&service, &held).await;
    assert_eq!(tally.unverified, held.len(), "{tally:?}");
    assert!(service.is_running());
    cluster.start().await;
    oracle
        .under_questions(&service, follows_within(&service, RECOVERY))
        .await;
    oracle.sees_every_name_taken(&service).await;
}

/// The session that takes the first look is frozen in it, and never heard of again.
#[tokio::test]
async fn a_first_look_that_is_never_answered_is_taken_again() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "look").await;
    let oracle = Oracle::new();
    oracle
        .insert(&mut database.session().await, &names("held", 20))
        .await;
    let mut locker = database.session().await;
    run(
        &mut locker,
        "BEGIN; LOCK TABLE namegate.meta IN ACCESS EXCLUSIVE MODE",
    )
    .await;
    // It gives up its very first look by itself, says where it listens, and looks again.
    let service = serve(&database.url, &[]).await;
    let mut frozen = None;
    within(RECOVERY, "the service looks", async || {
        frozen = sqlx::query_scalar(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                AND application_name = 'namegate' AND wait_event_type = 'Lock' ORDER BY backend_start DESC LIMIT 1",
        )
        .fetch_optional(&mut locker)
        .await
        .expect("the statistics can be read");
        frozen.is_some()
    })
    .await;
    // The look before it may still wait there too; it is the newest that the service waits for.
    cluster.pause_backend(frozen.expect("it was seen"));
    run(&mut locker, "ROLLBACK").await;
    follows_within(&service, FEED_DEADLINE + RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
}

/// Names that come and go while a filter is built: the scan's snapshot and the feed must meet without a gap.
#[tokio::test]
async fn names_written_while_the_service_warms_up_are_not_lost() {
    let cluster = Cluster::shared().await;
    let database = sample_database_in(cluster, "meanwhile").await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("row", 20_000)).await;
    for round in 0..2 {
        let service = serve(&database.url, &[]).await;
        let prefix = format!("load{round}x");
        oracle
            .under_load(
                &service,
                &database,
                &prefix,
                follows_within(&service, RECOVERY),
            )
            .await;
        let written = oracle
            .held()
            .into_iter()
            .filter(|name| name.starts_with(&prefix))
            .collect::<Vec<_>>();
        tokio::time::sleep(crate::fixtures::BOUND).await;
        let tally = oracle.ask_all(&service, &written).await;
        assert_eq!(tally.free_from_filter + tally.free_from_database, 0);
    }
}
