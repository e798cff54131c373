//! A restart goes on from the filter on disk, and never from one whose past cannot be vouched for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixtures::{
    BOUND, absent_names, ask_all, count, insert, is_free, is_taken, present_names, sample_database,
    sample_database_in, serve, serve_warm, wait_until_following, within,
};
use crate::support::http;
use crate::support::postgres::{Cluster, Database};
use crate::support::service::Service;

const FROM_DISK: &str = "read from disk";
const FROM_TABLE: &str = "rows=";

/// Says where the filter that is followed came from. What is printed is read a moment later.
async fn origin(service: &Service) -> &'static str {
    let found = || {
        [FROM_DISK, FROM_TABLE]
            .into_iter()
            .find(|words| service.output().contains(words))
    };
    within(
        Duration::from_secs(10),
        "it says where the filter is from",
        async || found().is_some(),
    )
    .await;
    found().expect("as awaited")
}

/// A database with names in it, and a directory for filters.
struct Kept {
    database: Database,
    directory: tempfile::TempDir,
}

impl Kept {
    async fn new(prefix: &str) -> Self {
        Self::in_cluster(Cluster::shared().await, prefix).await
    }

    async fn in_cluster(cluster: &Cluster, prefix: &str) -> Self {
        let database = sample_database_in(cluster, prefix).await;
        insert(&database, &present_names(500)).await;
        Self {
            database,
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn path(&self) -> &str {
        self.directory.path().to_str().expect("a readable path")
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("filter/filter.snapshot")
    }

    async fn serve(&self) -> Service {
        self.serve_with(&[]).await
    }

    async fn serve_with(&self, more: &[&str]) -> Service {
        let mut args = vec!["--data-dir", self.path()];
        if !more.contains(&"--save-interval") {
            args.extend(["--save-interval", "5m"]);
        }
        args.extend(more);
        serve_warm(&self.database.url, &args).await
    }

    /// Fills the directory: a service comes, follows and goes.
    async fn keep_a_filter(&self) {
        let ended = self.serve().await.terminate().await;
        assert_eq!(ended.code, Some(0), "{}", ended.output);
        assert!(self.file().is_file(), "{}", ended.output);
    }

    /// Everything in the table is taken, and what is not is still answered from memory.
    async fn is_answered_rightly_by(&self, service: &Service) {
        let held: Vec<String> = sqlx::query_scalar("SELECT canonical FROM users")
            .fetch_all(&mut self.database.session().await)
            .await
            .expect("the table can be read");
        for (reason, _) in ask_all(service, held.iter().map(String::as_str)).await {
            assert_eq!(reason, "taken");
        }
        let absent = absent_names(200);
        let answers = ask_all(service, absent.iter().map(String::as_str)).await;
        let from_memory = answers
            .iter()
            .filter(|(reason, source)| reason == "free" && source.as_deref() == Some("filter"));
        assert!(from_memory.count() > 180, "{answers:?}");
    }
}

#[tokio::test]
async fn a_restart_reads_the_filter_from_disk_and_what_it_missed_from_the_feed() {
    let kept = Kept::new("restart").await;
    kept.keep_a_filter().await;
    let missed: Vec<String> = (0..2_000).map(|n| format!("missed{n:05}")).collect();
    insert(&kept.database, &missed).await;
    let service = kept.serve().await;
    kept.is_answered_rightly_by(&service).await;
    assert_eq!(origin(&service).await, FROM_DISK);
    kept.database
        .execute("INSERT INTO users (username) VALUES ('afterwards')")
        .await;
    within(BOUND, "the service follows", async || {
        is_taken(&service, "afterwards").await
    })
    .await;
}

#[tokio::test]
async fn a_service_killed_at_any_moment_of_a_copy_loses_no_name() {
    let kept = Kept::new("killed").await;
    let mut from_disk = 0;
    for round in 0..12 {
        // Copies follow one another, so that a kill is likely to fall into one.
        let service = kept.serve_with(&["--save-interval", "1ms"]).await;
        let names: Vec<String> = (0..20).map(|n| format!("round{round}x{n}")).collect();
        for name in &names {
            insert(&kept.database, std::slice::from_ref(name)).await;
        }
        tokio::time::sleep(Duration::from_millis(37 * round)).await;
        from_disk += usize::from(origin(&service).await == FROM_DISK);
        service.kill().await;
        insert(&kept.database, &[format!("while{round}gone")]).await;
    }
    let service = kept.serve().await;
    kept.is_answered_rightly_by(&service).await;
    assert!(
        from_disk > 6,
        "only {from_disk} of 12 starts were from disk"
    );
}

#[tokio::test]
async fn a_crash_of_the_database_in_between_costs_no_name() {
    let cluster = Cluster::private().await;
    let kept = Kept::in_cluster(&cluster, "both").await;
    for round in 0..3 {
        let service = kept.serve_with(&["--save-interval", "1ms"]).await;
        // Ids that nothing in the log vouches for are given out again after the crash.
        let mut session = kept.database.session().await;
        for _ in 0..40 {
            sqlx::raw_sql("BEGIN; SELECT pg_current_xact_id(); ROLLBACK")
                .execute(&mut session)
                .await
                .expect("a transaction");
        }
        within(
            Duration::from_secs(15),
            "some copies are made",
            async || count(&service, "namegate_filter_saves_total").await > 1,
        )
        .await;
        service.kill().await;
        cluster.kill_minus_nine().await;
        cluster.start().await;
        let names: Vec<String> = (0..60).map(|n| format!("crash{round}x{n}")).collect();
        for name in &names {
            insert(&kept.database, std::slice::from_ref(name)).await;
        }
    }
    let service = kept.serve().await;
    kept.is_answered_rightly_by(&service).await;
}

/// What a person, a disk or another program may do to the directory or the database while no service runs. Each ends in
/// a scan, with every name.
#[tokio::test]
async fn a_filter_whose_past_is_in_doubt_is_not_used() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("cut short", |file| {
            let bytes = std::fs::read(file).expect("a file");
            std::fs::write(file, &bytes[..bytes.len() / 2]).expect("a file");
        }),
        ("emptied", |file| std::fs::write(file, b"").expect("a file")),
        ("with another header", |file| {
            let mut bytes = std::fs::read(file).expect("a file");
            bytes[40] ^= 1;
            std::fs::write(file, bytes).expect("a file");
        }),
        ("without its key", |file| {
            for entry in
                std::fs::read_dir(file.parent().expect("a directory")).expect("a directory")
            {
                let path = entry.expect("an entry").path();
                if path.extension().is_some_and(|extension| extension == "key") {
                    std::fs::remove_file(path).expect("a file");
                }
            }
        }),
        ("a directory", |file| {
            std::fs::remove_file(file).expect("a file");
            std::fs::create_dir(file).expect("a directory");
        }),
    ];
    let kept = Kept::new("harmed").await;
    for (what, harm) in harms {
        kept.keep_a_filter().await;
        // One filter only, so that there is no earlier one to fall back on.
        drop(std::fs::remove_file(
            kept.file().with_file_name("filter.previous.snapshot"),
        ));
        harm(&kept.file());
        let service = kept.serve().await;
        kept.is_answered_rightly_by(&service).await;
        assert_eq!(origin(&service).await, FROM_TABLE, "{what}");
        service.terminate().await;
        let filters = kept.file().parent().expect("a directory").to_owned();
        std::fs::remove_dir_all(filters).expect("a directory");
    }
}

#[tokio::test]
async fn what_was_done_to_the_feed_while_nobody_looked_is_noticed() {
    let deeds = [
        (
            "a trigger is off for an insert",
            "ALTER TABLE users DISABLE TRIGGER namegate_insert;
             INSERT INTO users (username) VALUES ('sneaked');
             ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_insert",
        ),
        (
            "the bookmarks expire and another instance prunes",
            "INSERT INTO users (username) VALUES ('pruned');
             UPDATE namegate.consumer SET seen = now() - interval '2 hours';
             SELECT namegate.prune('0', '1 hour', 1000);
             DELETE FROM namegate.outbox",
        ),
        (
            "the bookmarks are somebody else's",
            "UPDATE namegate.consumer SET nonce = gen_random_uuid()",
        ),
        (
            "the outbox was pruned past them",
            "INSERT INTO users (username) VALUES ('past');
             DELETE FROM namegate.outbox;
             UPDATE namegate.meta SET pruned_below = pg_snapshot_xmax(pg_current_snapshot())",
        ),
    ];
    for (what, deed) in deeds {
        let kept = Kept::new("deeds").await;
        kept.keep_a_filter().await;
        kept.database.execute(deed).await;
        let service = kept.serve().await;
        kept.is_answered_rightly_by(&service).await;
        assert_eq!(origin(&service).await, FROM_TABLE, "{what}");
    }
}

#[tokio::test]
async fn a_filter_of_another_database_or_of_other_settings_is_not_used() {
    let kept = Kept::new("one").await;
    kept.keep_a_filter().await;
    let other = Kept::new("two").await;
    let foreign = serve_warm(
        &other.database.url,
        &["--data-dir", kept.path(), "--save-interval", "5m"],
    )
    .await;
    other.is_answered_rightly_by(&foreign).await;
    assert_eq!(origin(&foreign).await, FROM_TABLE);
    foreign.kill().await;

    let stricter = kept.serve_with(&["--fpr", "0.0001"]).await;
    assert_eq!(origin(&stricter).await, FROM_TABLE);
    kept.is_answered_rightly_by(&stricter).await;
}

#[tokio::test]
async fn two_services_do_not_share_a_directory() {
    let kept = Kept::new("shared").await;
    let first = kept.serve().await;
    let second = kept.serve().await;
    kept.is_answered_rightly_by(&second).await;
    assert!(
        second
            .output()
            .contains("another process keeps its filters there"),
        "{}",
        second.output()
    );
    second.terminate().await;
    first.terminate().await;
    let third = kept.serve().await;
    assert_eq!(origin(&third).await, FROM_DISK);
}

#[tokio::test]
async fn a_full_disk_costs_a_copy_and_no_answer() {
    let kept = Kept::new("full").await;
    let filters = kept.directory.path().join("filter");
    std::fs::create_dir(&filters).expect("a directory");
    // What is written aside goes to a device that is always full.
    std::os::unix::fs::symlink("/dev/full", filters.join("filter.partial.snapshot"))
        .expect("a link");
    let service = kept.serve_with(&["--save-interval", "2s"]).await;
    within(Duration::from_secs(15), "a copy fails", async || {
        count(&service, "namegate_filter_save_failures_total").await > 0
    })
    .await;
    kept.is_answered_rightly_by(&service).await;
    assert!(
        service.output().contains("could not be copied to disk"),
        "{}",
        service.output()
    );
    // The failed attempt removes what it wrote, and with it the link: the next one has room.
    within(
        Duration::from_secs(15),
        "a later copy is made",
        async || count(&service, "namegate_filter_saves_total").await > 0,
    )
    .await;
    service.kill().await;
    let again = kept.serve().await;
    assert_eq!(origin(&again).await, FROM_DISK);
}

#[tokio::test]
async fn bookmarks_of_files_that_are_gone_do_not_hold_up_pruning() {
    let kept = Kept::new("places").await;
    let service = kept.serve_with(&["--save-interval", "20ms"]).await;
    within(Duration::from_secs(15), "ten copies are made", async || {
        count(&service, "namegate_filter_saves_total").await >= 10
    })
    .await;
    service.terminate().await;
    let places = async || -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM namegate.consumer")
            .fetch_one(&mut kept.database.session().await)
            .await
            .expect("the places can be counted")
    };
    assert_eq!(places().await, 2, "one for each file that is kept");
}

#[tokio::test]
async fn the_embedded_database_restarts_from_disk_too() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().to_str().expect("a readable path");
    let url = format!("sqlite:{path}/names.db");
    let args = [
        "--migrate",
        "--data-dir",
        path,
        "--save-interval",
        "5m",
        "--signup",
    ];
    let first = serve_warm(&url, &args).await;
    first.terminate().await;
    let writer = serve(&url, &["--signup", "--data-dir", path]).await;
    wait_until_following(&writer).await;
    let json = [("content-type", "application/json")];
    let body = br#"{"username": "keeper"}"#;
    let signed_up = http::request(writer.public(), "POST", "/users", &json, body).await;
    assert_eq!(signed_up.status, 201, "{signed_up:?}");
    writer.kill().await;
    let again = serve_warm(&url, &args).await;
    assert_eq!(origin(&again).await, FROM_DISK);
    assert!(is_taken(&again, "keeper").await);
    assert!(is_free(&again, "stranger").await);
}

#[tokio::test]
async fn an_operator_can_have_the_filter_written_now() {
    let kept = Kept::new("now").await;
    let service = kept.serve().await;
    let saves = async || count(&service, "namegate_filter_saves_total").await;
    within(
        Duration::from_secs(15),
        "the first copy is made",
        async || saves().await == 1,
    )
    .await;
    let reply = http::request(service.admin(), "POST", "/snapshot", &[], b"").await;
    assert_eq!(reply.status, 202, "{reply:?}");
    within(Duration::from_secs(5), "another copy is made", async || {
        saves().await == 2
    })
    .await;

    let bare = serve_warm(&sample_database("bare").await.url, &[]).await;
    let reply = http::request(bare.admin(), "POST", "/snapshot", &[], b"").await;
    assert_eq!(reply.status, 409, "{reply:?}");
}
