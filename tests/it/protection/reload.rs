//! SIGHUP: the reserved names are read anew, or stay as they were.

use std::time::Duration;

use crate::fixtures::{count, sample_database, serve_warm, verdict, within};
use crate::support::process::Signal;
use crate::support::service::Service;

async fn hangs_up(service: &Service, outcome: &str, times: u64) {
    service.signal(Signal::HUP);
    let series = format!(r#"namegate_reserved_reloads_total{{outcome="{outcome}"}}"#);
    within(Duration::from_secs(10), "the list is read", async || {
        count(service, &series).await == times
    })
    .await;
}

#[tokio::test]
async fn a_hangup_swaps_the_reserved_names_and_a_bad_list_changes_nothing() {
    let database = sample_database("reload").await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("reserved.txt");
    std::fs::write(&file, "acme\n").expect("a file");
    let path = file.to_str().expect("a path in UTF-8");
    let service = serve_warm(&database.url, &["--reserved", path]).await;
    let reason = async |name: &str| verdict(&service.ask(name).await).1;
    assert_eq!(
        (reason("acme").await.as_str(), reason("zoe").await.as_str()),
        ("reserved", "free")
    );

    std::fs::write(&file, "zoe\n").expect("a file");
    hangs_up(&service, "applied", 1).await;
    assert_eq!(
        (reason("acme").await.as_str(), reason("zoe").await.as_str()),
        ("free", "reserved")
    );
    assert_eq!(reason("admin").await, "reserved", "the built-in list stays");

    std::fs::write(&file, "acme\nsam)\n").expect("a file");
    hangs_up(&service, "refused", 1).await;
    assert_eq!(
        (reason("acme").await.as_str(), reason("zoe").await.as_str()),
        ("free", "reserved")
    );
    let output = service.output();
    let told: Vec<_> = output
        .lines()
        .filter(|line| line.contains("stay as they were"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("reserved.txt") && told[0].contains("line 2"));

    std::fs::remove_file(&file).expect("it was there");
    hangs_up(&service, "refused", 2).await;
    assert_eq!(reason("zoe").await, "reserved");
    std::fs::write(&file, "acme\n").expect("a file");
    hangs_up(&service, "applied", 2).await;
    assert_eq!(reason("zoe").await, "free");
    assert_eq!(service.terminate().await.code, Some(0));
}

#[tokio::test]
async fn a_hangup_without_a_list_of_ones_own_ends_nothing() {
    let database = sample_database("no_list").await;
    let service = serve_warm(&database.url, &[]).await;
    hangs_up(&service, "applied", 1).await;
    assert_eq!(verdict(&service.ask("zoe").await).0, Some(true));
}
