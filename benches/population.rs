//! What keeping a filter in step costs: warm-up beside psql, polls, lag, restart, memory during a rebuild.
//!
//! ```text
//! export DATABASE_URL=postgres://...            an empty database that may be filled, local, as its owner
//! cargo bench --bench population -- warmup      rows=5000000 by default
//! cargo bench --bench population -- polls
//! cargo bench --bench population -- lag         1,000 inserts a second, some of them open for seconds
//! cargo bench --bench population -- restart     rows=10000000 missed=1000000
//! cargo bench --bench population -- rebuild     resident memory while one filter replaces another
//! ```
//!
//! Each prints its figures as a Markdown table, medians over rounds that take turns.

#[path = "support/mod.rs"]
mod support;

use std::env;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use namegate::filter::{BlockedBloom, HashSecret, Sizing};
use namegate::gate::decision::Memory;
use namegate::gate::{Recall, Sink, Store, TakenCache};
use namegate::names::{Canonical, FilterKey};
use namegate::population::{Keeper, Population, PopulationSettings, State, Status, Wish};
use namegate::store::Address;
use namegate::store::postgres::equality::Demand;
use namegate::store::postgres::{Connections, Deadlines, Watched};
use namegate::telemetry::Metrics;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use support::{load_average, median, whole};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 5;

#[tokio::main]
async fn main() {
    let argument = |name: &str| env::args().find_map(|it| it.strip_prefix(name).map(whole));
    let is_bench = env::args().any(|argument| argument == "--bench");
    let Ok(url) = env::var("DATABASE_URL") else {
        // `cargo test` builds and runs benches too; there is nothing to measure without a server.
        println!("DATABASE_URL names no server: nothing was measured");
        return;
    };
    if !is_bench {
        return;
    }
    let bench = Bench { url };
    println!("Load average before: {}\n", load_average());
    for mode in env::args().skip(1) {
        match mode.as_str() {
            "warmup" => bench.warm_up(argument("rows=").unwrap_or(5_000_000)).await,
            "polls" => bench.polls().await,
            "lag" => bench.lag().await,
            "restart" => {
                let rows = argument("rows=").unwrap_or(10_000_000);
                bench
                    .restart(rows, argument("missed=").unwrap_or(1_000_000))
                    .await;
            }
            "rebuild" => bench.rebuild(argument("rows=").unwrap_or(5_000_000)).await,
            _ => {}
        }
    }
    println!("\nLoad average after: {}", load_average());
}

struct Bench {
    url: String,
}

/// A population in this process.
struct Running {
    recall: Arc<Recall>,
    status: Arc<Status>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Bench {
    async fn session(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("a server")
    }

    async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut self.session().await)
            .await
            .expect("the statement");
    }

    fn store(&self, scan: u32) -> Arc<dyn Store> {
        let watched = Watched {
            table: "users".parse().expect("a table"),
            column: "canonical".parse().expect("a column"),
            equality: Demand::Auto,
        };
        let address: Address = self.url.parse().expect("a database URL");
        let connections = Connections {
            scan,
            ..Connections::default()
        };
        address.open(watched, Deadlines::default(), connections)
    }

    /// A users table as an application has it: about 190 bytes a row.
    async fn fill(&self, rows: u64) {
        self.store(1).migrate().await.expect("an empty database");
        let present: i64 = sqlx::query_scalar("SELECT count(*) FROM users")
            .fetch_one(&mut self.session().await)
            .await
            .expect("a count");
        if u64::try_from(present).ok() == Some(rows) {
            return;
        }
        eprintln!("filling {rows} rows");
        self.run(&format!(
            "TRUNCATE users; ALTER TABLE users ADD COLUMN IF NOT EXISTS email text, ADD COLUMN IF NOT EXISTS profile text;
             ALTER TABLE users DISABLE TRIGGER USER;
             INSERT INTO users (username, canonical, email, profile)
             SELECT name, name, name || '@example.com', repeat(md5(name), 3)
               FROM (SELECT substr(md5(n::text), 1, 6 + (n % 12)::int) || n AS name FROM generate_series(1, {rows}) n) AS made;
             ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_insert, ENABLE ALWAYS TRIGGER namegate_update,
               ENABLE ALWAYS TRIGGER namegate_delete, ENABLE ALWAYS TRIGGER namegate_truncate,
               ENABLE ALWAYS TRIGGER fill_canonical_on_insert, ENABLE ALWAYS TRIGGER fill_canonical_on_update"
        ))
        .await;
        self.run("VACUUM ANALYZE users").await;
        self.run("CHECKPOINT").await;
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
    async fn warm_up(&self, rows: u64) {
        self.fill(rows).await;
        let mut psql = Vec::new();
        let mut counting = Vec::new();
        let lanes = [1, 2, 4];
        let mut scans = lanes.map(|_| Vec::new());
        for round in 0..=ROUNDS {
            let began = Instant::now();
            let copied = Command::new("psql")
                .args([
                    &self.url,
                    "-qc",
                    "\\copy (SELECT canonical FROM users) TO '/dev/null'",
                ])
                .stdin(Stdio::null())
                .status()
                .expect("psql is in PATH");
            assert!(copied.success());
            if round > 0 {
                psql.push(began.elapsed().as_secs_f64());
            }
            for (lanes, times) in lanes.iter().zip(&mut scans) {
                let mut feed = self.store(*lanes).open_feed().await.expect("a feed");
                let began = Instant::now();
                let counted = feed.begin().await.expect("a beginning");
                let count_time = began.elapsed().as_secs_f64();
                let mut filling = Filling::sized_for(counted + counted / 2);
                let began = Instant::now();
                let scanned = feed.scan(&mut filling).await.expect("a scan");
                filling.flush();
                assert_eq!(scanned, rows);
                if round > 0 {
                    times.push(began.elapsed().as_secs_f64());
                    counting.push(count_time);
                }
                feed.close().await;
            }
        }
        println!(
            "| {rows} rows | s, median | rows/s | of psql's rate |\n| --- | ---: | ---: | ---: |"
        );
        let ratio = |times: &[f64]| {
            let ratios: Vec<f64> = psql
                .iter()
                .zip(times)
                .map(|(psql, ours)| psql / ours)
                .collect();
            median(ratios.into_iter())
        };
        let line = |what: &str, times: &[f64]| {
            let seconds = median(times.iter().copied());
            println!(
                "| {what} | {seconds:.2} | {:.2} M | {:.2} |",
                rows as f64 / seconds / 1e6,
                ratio(times)
            );
        };
        line("psql \\copy to /dev/null, one connection", &psql);
        for (lanes, times) in lanes.iter().zip(&scans) {
            line(&format!("scan into a filter, {lanes} connections"), times);
        }
        println!(
            "\nBeginning and counting: {:.2} s (median).",
            median(counting.iter().copied())
        );
    }

    async fn polls(&self) {
        self.fill(100_000).await;
        let running = self.start(None).await;
        println!(
            "| a poll, time on the server | ms, median of 200 | 99 % |\n| --- | ---: | ---: |"
        );
        self.time_polls("nothing new").await;
        let mut old = self.session().await;
        sqlx::raw_sql("BEGIN; SELECT pg_current_xact_id()")
            .execute(&mut old)
            .await
            .expect("a transaction");
        self.run(
            "INSERT INTO users (username) SELECT 'bulk' || n FROM generate_series(1, 1000000) n",
        )
        .await;
        sleep(Duration::from_secs(5)).await;
        self.time_polls("a million newer rows in the outbox, an old transaction open")
            .await;
        running.stop().await;
        self.run("DELETE FROM users WHERE canonical LIKE 'bulk%'")
            .await;
    }

    /// Asks from the present position, as a feed does, and lets the server take the time.
    async fn time_polls(&self, what: &str) {
        let mut session = self.session().await;
        let mut times = Vec::new();
        for _ in 0..200 {
            let ms: f64 = sqlx::query_scalar(
                "WITH began AS MATERIALIZED (SELECT clock_timestamp() AS at),
                      polled AS MATERIALIZED (
                        SELECT count(*) AS rows FROM began, LATERAL namegate.poll(
                          gen_random_uuid(), pg_snapshot_xmax(pg_current_snapshot()),
                          ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot()))) WHERE began.at IS NOT NULL)
                 SELECT extract(epoch FROM clock_timestamp() - began.at)::float8 * 1000 FROM began, polled",
            )
            .fetch_one(&mut session)
            .await
            .expect("a poll");
            times.push(ms);
        }
        times.sort_by(f64::total_cmp);
        println!(
            "| {what} | {:.3} | {:.3} |",
            times[times.len() / 2],
            times[times.len() * 99 / 100]
        );
    }

    /// From the acknowledged commit to the moment in which the filter says *maybe*.
    async fn lag(&self) {
        self.fill(100_000).await;
        let running = self.start(None).await;
        let mut slow = Vec::new();
        for writer in 0..5 {
            let url = self.url.clone();
            slow.push(tokio::spawn(async move {
                let mut session = PgConnection::connect(&url).await.expect("a server");
                for round in 0.. {
                    let open = format!(
                        "BEGIN; INSERT INTO users (username) VALUES ('slow{writer}x{round}')"
                    );
                    sqlx::raw_sql(AssertSqlSafe(open))
                        .execute(&mut session)
                        .await
                        .expect("an insert");
                    sleep(Duration::from_secs(3)).await;
                    sqlx::raw_sql("COMMIT")
                        .execute(&mut session)
                        .await
                        .expect("a commit");
                }
            }));
        }
        let mut quick = Vec::new();
        for writer in 0..4_u64 {
            let (url, recall) = (self.url.clone(), Arc::clone(&running.recall));
            quick.push(tokio::spawn(async move {
                let mut session = PgConnection::connect(&url).await.expect("a server");
                let mut lags = Vec::new();
                let began = Instant::now();
                for n in 0..5_000_u64 {
                    let due = began + Duration::from_millis(4) * u32::try_from(n).expect("small");
                    tokio::time::sleep_until(due.into()).await;
                    let name = format!("quick{writer}x{n}");
                    sqlx::query("INSERT INTO users (username) VALUES ($1)")
                        .bind(&name)
                        .execute(&mut session)
                        .await
                        .expect("an insert");
                    let committed = Instant::now();
                    let recall = Arc::clone(&recall);
                    lags.push(tokio::spawn(async move {
                        let (key, name) = (FilterKey::of(&name), Canonical::stored(&name));
                        while recall.of(&key, &name) == Memory::Absent {
                            sleep(Duration::from_millis(1)).await;
                        }
                        committed.elapsed().as_secs_f64() * 1000.0
                    }));
                }
                let mut times = Vec::new();
                for lag in lags {
                    times.push(lag.await.expect("a lag"));
                }
                times
            }));
        }
        let mut lags = Vec::new();
        for writer in quick {
            lags.extend(writer.await.expect("a writer"));
        }
        for writer in slow {
            writer.abort();
        }
        running.stop().await;
        lags.sort_by(f64::total_cmp);
        let at = |share: usize| lags[(lags.len() - 1) * share / 1000];
        println!(
            "| lag at 100 ms polling, {} inserts, 5 writers open for 3 s | ms |\n| --- | ---: |",
            lags.len()
        );
        for (what, share) in [
            ("median", 500),
            ("99 %", 990),
            ("99.9 %", 999),
            ("longest", 1000),
        ] {
            println!("| {what} | {:.0} |", at(share));
        }
        self.run("DELETE FROM users WHERE canonical LIKE 'quick%' OR canonical LIKE 'slow%'")
            .await;
    }

    async fn restart(&self, rows: u64, missed: u64) {
        self.fill(rows).await;
        let directory = env::temp_dir().join(format!("namegate-bench-{}", std::process::id()));
        let began = Instant::now();
        let first = self.start(Some(&directory)).await;
        let scanned = began.elapsed();
        first.stop().await;
        self.run(&format!(
            "INSERT INTO users (username, canonical) SELECT 'missed' || n, 'missed' || n FROM generate_series(1, {missed}) n"
        ))
        .await;
        let began = Instant::now();
        let second = self.start(Some(&directory)).await;
        let resumed = began.elapsed();
        let name = Canonical::stored("missed1");
        assert_ne!(
            second.recall.of(&FilterKey::of("missed1"), &name),
            Memory::Absent
        );
        second.stop().await;
        let began = Instant::now();
        let third = self.start(Some(&directory)).await;
        let again = began.elapsed();
        third.stop().await;
        println!("| from start to following, {rows} rows | s |\n| --- | ---: |");
        println!("| scanning the table | {:.2} |", scanned.as_secs_f64());
        println!(
            "| from disk, {missed} names missed | {:.2} |",
            resumed.as_secs_f64()
        );
        println!("| from disk, nothing missed | {:.2} |", again.as_secs_f64());
        std::fs::remove_dir_all(&directory).expect("made above");
        self.run("DELETE FROM users WHERE canonical LIKE 'missed%'")
            .await;
    }

    #[allow(clippy::cast_precision_loss, reason = "shown in whole megabytes")]
    async fn rebuild(&self, rows: u64) {
        self.fill(rows).await;
        let running = self.start(None).await;
        let before = resident_bytes();
        let live = running.recall.live().expect("a filter");
        let (number, filter) = (live.number(), live.filter().size_bytes());
        drop(live);
        let began = Instant::now();
        running.status.want_replaced(number, Wish::Command);
        let mut most = before;
        while running.recall.live().expect("a filter").number() == number {
            most = most.max(resident_bytes());
            sleep(Duration::from_millis(2)).await;
        }
        let took = began.elapsed();
        sleep(Duration::from_secs(1)).await;
        let after = resident_bytes();
        running.stop().await;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        println!("| resident memory, {rows} rows | MB |\n| --- | ---: |");
        println!("| the filter | {:.0} |", mb(filter));
        println!("| before | {:.0} |", mb(before));
        println!(
            "| most, while the next one was built ({:.1} s) | {:.0} |",
            took.as_secs_f64(),
            mb(most)
        );
        println!("| after | {:.0} |", mb(after));
    }

    async fn start(&self, keep_in: Option<&std::path::Path>) -> Running {
        let store = self.store(4);
        let recall = Arc::new(Recall::new(
            Duration::from_secs(2),
            TakenCache::new(1000, Duration::from_secs(1)),
        ));
        let status = Arc::new(Status::default());
        let settings = PopulationSettings {
            poll_interval: Duration::from_millis(100),
            target_fpr: 0.001,
            least_capacity: 1000,
            ceiling_bytes: 8 << 30,
            save_interval: Duration::from_mins(5),
        };
        let keeper = keep_in.map(|path| {
            Arc::new(Keeper::open(path, store.source()).expect("a writable directory"))
        });
        let population = Population::new(
            store,
            Arc::clone(&recall),
            Arc::new(Metrics::new()),
            Arc::clone(&status),
            settings,
            keeper,
        );
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { population.run(stop).await.expect("a fit database") }
        });
        status.reaches(State::Following).await;
        Running {
            recall,
            status,
            stop,
            task,
        }
    }
}

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the population");
    }
}

/// Fills a filter as the population does.
struct Filling {
    filter: BlockedBloom,
    handful: Vec<FilterKey>,
}

impl Filling {
    fn sized_for(names: u64) -> Self {
        let sizing = Sizing::plan(names, 0.001, 8 << 30).expect("a sensible rate");
        let secret = HashSecret::from_bytes(*b"benchmark secret");
        Self {
            filter: BlockedBloom::new(sizing, secret).expect("enough memory"),
            handful: Vec::with_capacity(32),
        }
    }

    fn flush(&mut self) {
        self.filter.insert_batch_exclusive(&self.handful);
        self.handful.clear();
    }
}

impl Sink for Filling {
    fn held(&mut self, raw: &[u8]) {
        self.handful.push(FilterKey::of_bytes(raw));
        if self.handful.len() == 32 {
            self.flush();
        }
    }

    fn released(&mut self, _raw: &[u8]) {}

    fn truncated(&mut self) {}
}

/// Memory of this process that is in RAM; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
