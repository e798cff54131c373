//! What every store must do, on both of them: the same names, the same answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namegate::gate::freshness::Moment;
use namegate::gate::{Bookmark, Claim, Distrust, Extent, Sink, Store, StoreError};
use namegate::names::Canonical;
use namegate::store::Address;
use namegate::store::postgres::equality::Demand;
use namegate::store::postgres::{Connections, Deadlines, Watched};
use sqlx::{AssertSqlSafe, Connection};

use crate::support::postgres::{Cluster, Database};

/// A store, and a way for "another program" to write to the same table.
struct Fixture {
    store: Arc<dyn Store>,
    other: Other,
}

enum Other {
    Postgres(Database),
    Sqlite(tempfile::TempDir),
}

impl Fixture {
    async fn both() -> [Self; 2] {
        let database = Cluster::shared().await.database("conformance").await;
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("names.db");
        [
            Self::new(&database.url.clone(), Other::Postgres(database)).await,
            Self::new(
                &format!("sqlite:{}", file.display()),
                Other::Sqlite(directory),
            )
            .await,
        ]
    }

    async fn new(url: &str, other: Other) -> Self {
        let address: Address = url.parse().expect("a database URL");
        let watched = Watched {
            table: "users".parse().expect("a table"),
            column: "canonical".parse().expect("a column"),
            equality: Demand::Auto,
        };
        let store = address.open(watched, Deadlines::default(), Connections::default());
        store
            .migrate()
            .await
            .expect("an empty database can be migrated");
        store.probe().await.expect("a migrated database fits");
        Self { store, other }
    }

    /// Runs SQL that both databases understand, on a connection that is not the store's.
    async fn sql(&self, statements: &str) {
        match &self.other {
            Other::Postgres(database) => database.execute(statements).await,
            Other::Sqlite(directory) => {
                let url = format!("sqlite:{}", directory.path().join("names.db").display());
                let mut connection = sqlx::SqliteConnection::connect(&url)
                    .await
                    .expect("the file opens");
                sqlx::raw_sql(AssertSqlSafe(statements))
                    .execute(&mut connection)
                    .await
                    .expect(statements);
                connection.close().await.expect("the file closes");
            }
        }
    }

    async fn held(&self, names: &[&str]) -> Vec<bool> {
        let names: Vec<Canonical> = names.iter().map(|name| Canonical::stored(name)).collect();
        self.store.held(&names).await.expect("an answer")
    }

    async fn claim(&self, username: &str) -> Claim {
        let canonical = Canonical::stored(&username.to_lowercase());
        self.store
            .claim(username, &canonical, &|| {})
            .await
            .expect("an answer")
    }
}

/// Everything a feed reports, as it comes.
#[derive(Default)]
struct Heard {
    held: Vec<String>,
    released: Vec<String>,
}

impl Heard {
    fn sorted(mut self) -> (Vec<String>, Vec<String>) {
        for names in [&mut self.held, &mut self.released] {
            names.sort_unstable();
            names.dedup();
        }
        (self.held, self.released)
    }
}

impl Sink for Heard {
    fn held(&mut self, raw: &[u8]) {
        self.held.push(String::from_utf8_lossy(raw).into_owned());
    }

    fn released(&mut self, raw: &[u8]) {
        self.released
            .push(String::from_utf8_lossy(raw).into_owned());
    }

    fn truncated(&mut self) {}
}

#[tokio::test]
async fn a_lookup_answers_each_name_in_the_order_asked() {
    for fixture in Fixture::both().await {
        fixture
            .sql("INSERT INTO users (username) VALUES ('alice'), ('Bob')")
            .await;
        assert_eq!(
            fixture.held(&["zoe", "alice", "bob", "Bob", "alice"]).await,
            [false, true, true, false, true]
        );
        assert_eq!(fixture.held(&[]).await, [false; 0]);
    }
}

#[tokio::test]
async fn a_name_is_never_read_as_sql_or_as_a_pattern() {
    for fixture in Fixture::both().await {
        fixture
            .sql("INSERT INTO users (username) VALUES ('axb')")
            .await;
        let names = [
            "a_b",
            "a%b",
            "a'b",
            "a\"b",
            "a\\b",
            "a,b",
            "{a}",
            "a;--",
            "\u{1f600}",
            "",
        ];
        assert_eq!(fixture.held(&names).await, [false; 10]);
    }
}

#[tokio::test]
async fn the_table_fills_in_the_canonical_form_when_the_writer_gives_none() {
    for fixture in Fixture::both().await {
        fixture
            .sql("INSERT INTO users (username) VALUES ('  INFO\u{3000}')")
            .await;
        assert_eq!(fixture.held(&["info", "INFO"]).await, [true, false]);
        fixture
            .sql("UPDATE users SET username = 'Title' WHERE canonical = 'info'")
            .await;
        assert_eq!(fixture.held(&["info", "title"]).await, [false, true]);
    }
}

#[tokio::test]
async fn the_unique_index_decides_a_claim() {
    for fixture in Fixture::both().await {
        assert_eq!(fixture.claim("Anon1").await, Claim::Claimed);
        assert_eq!(fixture.claim("anon1").await, Claim::Taken);
        assert_eq!(fixture.claim("Anon1").await, Claim::Taken);
        assert_eq!(fixture.held(&["anon1"]).await, [true]);
    }
}

#[tokio::test]
async fn of_many_claims_at_once_one_wins() {
    for fixture in Fixture::both().await {
        for round in 0..20 {
            let names = [
                format!("CaseUser{round}"),
                format!("caseuser{round}"),
                format!("CASEUSER{round}"),
            ];
            let claims =
                futures_util::future::join_all(names.iter().map(|name| fixture.claim(name))).await;
            let won = claims
                .iter()
                .filter(|claim| **claim == Claim::Claimed)
                .count();
            assert_eq!((won, claims.len()), (1, 3), "{claims:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_calls_back_before_others_can_see_the_row() {
    for fixture in Fixture::both().await {
        let called = AtomicBool::new(false);
        let canonical = Canonical::stored("early");
        let claim = fixture
            .store
            .claim("early", &canonical, &|| {
                called.store(true, Ordering::SeqCst);
            })
            .await;
        assert_eq!(claim.expect("an answer"), Claim::Claimed);
        assert!(called.load(Ordering::SeqCst));

        let called_again = AtomicBool::new(false);
        let refused = fixture
            .store
            .claim("early", &canonical, &|| {
                called_again.store(true, Ordering::SeqCst);
            })
            .await;
        assert_eq!(refused.expect("an answer"), Claim::Taken);
        assert!(
            !called_again.load(Ordering::SeqCst),
            "a refused insert holds no name"
        );
    }
}

#[tokio::test]
async fn an_import_leaves_out_what_is_there() {
    for fixture in Fixture::both().await {
        fixture
            .sql("INSERT INTO users (username) VALUES ('b')")
            .await;
        let rows = ["a", "b", "c", "a"].map(|name| (name.to_owned(), name.to_owned()));
        assert_eq!(fixture.store.import(&rows).await.expect("an import"), 2);
        assert_eq!(fixture.store.import(&rows).await.expect("an import"), 0);
        assert_eq!(fixture.held(&["a", "b", "c"]).await, [true; 3]);
    }
}

#[tokio::test]
async fn migrating_twice_is_migrating_once() {
    for fixture in Fixture::both().await {
        fixture
            .sql("INSERT INTO users (username) VALUES ('kept')")
            .await;
        fixture
            .store
            .migrate()
            .await
            .expect("nothing is left to do");
        assert_eq!(fixture.held(&["kept"]).await, [true]);
    }
}

#[tokio::test]
async fn scan_and_polls_together_report_every_name() {
    for fixture in Fixture::both().await {
        fixture
            .sql("INSERT INTO users (username) VALUES ('old1'), ('old2')")
            .await;
        let mut feed = fixture.store.open_feed().await.expect("a feed");
        assert_eq!(feed.begin().await.expect("a beginning"), 2);
        fixture
            .sql("INSERT INTO users (username) VALUES ('between')")
            .await;

        let mut scanned = Heard::default();
        assert_eq!(feed.scan(&mut scanned).await.expect("a scan"), 2);
        assert_eq!(
            scanned.sorted(),
            (vec!["old1".into(), "old2".into()], vec![])
        );

        let mut changes = Heard::default();
        feed.poll(&mut changes).await.expect("a poll");
        assert_eq!(changes.sorted(), (vec!["between".into()], vec![]));

        fixture.sql("INSERT INTO users (username) VALUES ('late'); DELETE FROM users WHERE canonical = 'old1'; UPDATE users SET username = 'new2' WHERE canonical = 'old2'").await;
        let mut changes = Heard::default();
        feed.poll(&mut changes).await.expect("a poll");
        let (held, released) = changes.sorted();
        assert!(
            held.iter().any(|name| name == "late") && held.iter().any(|name| name == "new2"),
            "{held:?}"
        );
        assert_eq!(released, ["old1", "old2"]);
        feed.close().await;
    }
}

#[tokio::test]
async fn a_rolled_back_insert_is_not_reported() {
    for fixture in Fixture::both().await {
        let mut feed = fixture.store.open_feed().await.expect("a feed");
        feed.begin().await.expect("a beginning");
        feed.scan(&mut Heard::default()).await.expect("a scan");
        fixture
            .sql("BEGIN; INSERT INTO users (username) VALUES ('ghost'); ROLLBACK")
            .await;
        fixture
            .sql("INSERT INTO users (username) VALUES ('real')")
            .await;
        let mut changes = Heard::default();
        feed.poll(&mut changes).await.expect("a poll");
        assert_eq!(changes.sorted(), (vec!["real".into()], vec![]));
        feed.close().await;
    }
}

#[tokio::test]
async fn odd_names_come_out_of_scan_and_poll_byte_for_byte() {
    let odd = [
        "back\\slash",
        "tab\there",
        "line\nbreak",
        "quote''s",
        "\\N",
        "\u{1f600}",
        "a\\.b",
        "{x,y}",
    ];
    for fixture in Fixture::both().await {
        let rows: Vec<String> = odd
            .iter()
            .map(|name| format!("('{name}', '{name}')"))
            .collect();
        let insert = format!(
            "INSERT INTO users (username, canonical) VALUES {}",
            rows.join(", ")
        );
        fixture.sql(&insert).await;
        let mut feed = fixture.store.open_feed().await.expect("a feed");
        feed.begin().await.expect("a beginning");
        let mut scanned = Heard::default();
        feed.scan(&mut scanned).await.expect("a scan");
        fixture.sql("DELETE FROM users").await;
        fixture.sql(&insert).await;
        let mut polled = Heard::default();
        feed.poll(&mut polled).await.expect("a poll");

        let mut expected: Vec<String> = odd.iter().map(|name| name.replace("''", "'")).collect();
        expected.sort_unstable();
        assert_eq!(scanned.sorted().0, expected);
        assert_eq!(polled.sorted(), (expected.clone(), expected));
        feed.close().await;
    }
}

#[tokio::test]
async fn a_database_without_the_table_is_refused_in_words_that_name_the_way_out() {
    let database = Cluster::shared().await.database("bare").await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    for url in [
        database.url,
        format!("sqlite:{}", directory.path().join("bare.db").display()),
    ] {
        let address: Address = url.parse().expect("a database URL");
        let watched = Watched {
            table: "users".parse().expect("a table"),
            column: "canonical".parse().expect("a column"),
            equality: Demand::Auto,
        };
        let refused = address
            .open(watched, Deadlines::default(), Connections::default())
            .probe()
            .await;
        let Err(StoreError::Unfit(why)) = refused else {
            panic!("{url}: {refused:?}")
        };
        assert!(why.contains("namegate migrate"), "{why}");
    }
}

#[tokio::test]
async fn a_feed_resumed_from_a_bookmark_misses_nothing_that_came_after_it() {
    for fixture in Fixture::both().await {
        let mut feed = fixture.store.open_feed().await.expect("a feed");
        feed.begin().await.expect("a beginning");
        feed.scan(&mut Heard::default()).await.expect("a scan");
        let bookmark = feed.bookmark().await.expect("a bookmark");
        fixture
            .sql("INSERT INTO users (username) VALUES ('after1')")
            .await;
        feed.poll(&mut Heard::default()).await.expect("a poll");
        feed.close().await;
        fixture
            .sql("INSERT INTO users (username) VALUES ('after2')")
            .await;
        // A bookmark is good more than once: a copy on disk may be read again after another crash.
        for _ in 0..2 {
            let mut resumed = fixture.store.open_feed().await.expect("a feed");
            resumed.resume(&bookmark).await.expect("it holds");
            let mut heard = Heard::default();
            resumed.poll(&mut heard).await.expect("a poll");
            assert_eq!(
                heard.sorted(),
                (vec!["after1".into(), "after2".into()], vec![])
            );
            resumed.close().await;
        }
        fixture.store.forget(&bookmark).await.expect("it is there");
        fixture
            .store
            .forget(&bookmark)
            .await
            .expect("once is enough");
        let mut late = fixture.store.open_feed().await.expect("a feed");
        let refused = late.resume(&bookmark).await;
        assert!(
            matches!(refused, Err(StoreError::Distrusted(Distrust::Certificate))),
            "{refused:?}"
        );
        let garbled = late.resume(&Bookmark(b"{}".to_vec())).await;
        assert!(
            matches!(garbled, Err(StoreError::Garbled(_))),
            "{garbled:?}"
        );
    }
}

#[tokio::test]
async fn a_walk_sees_the_rows_of_one_moment() {
    for fixture in Fixture::both().await {
        let empty = fixture
            .store
            .open_walk(Extent::Sample)
            .await
            .expect("a walk");
        assert_eq!(empty.rows(&mut Heard::default()).await.expect("rows"), 0);
        fixture
            .sql("INSERT INTO users (username) VALUES ('a'), ('b'), ('c')")
            .await;
        let before = Moment::now();
        let walk = fixture
            .store
            .open_walk(Extent::Whole)
            .await
            .expect("a walk");
        assert!(walk.taken_at() > before);
        fixture
            .sql("INSERT INTO users (username) VALUES ('d'); DELETE FROM users WHERE canonical = 'a'")
            .await;
        let mut heard = Heard::default();
        assert_eq!(walk.rows(&mut heard).await.expect("rows"), 3);
        assert_eq!(
            heard.sorted(),
            (vec!["a".into(), "b".into(), "c".into()], vec![])
        );
        let mut sample = Heard::default();
        let walk = fixture
            .store
            .open_walk(Extent::Sample)
            .await
            .expect("a walk");
        let rows = walk.rows(&mut sample).await.expect("rows");
        assert!((1..=3).contains(&rows), "{rows}");
        assert!(sample.held.iter().all(|name| "bcd".contains(name.as_str())));
    }
}
