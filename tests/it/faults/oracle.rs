//! Judges answers: a model of which names are held, and since when everybody may know.
//!
//! | answer | is wrong when |
//! | --- | --- |
//! | free, from the filter | the name's commit was acknowledged more than the bound before the question was asked |
//! | free, from the database | the name's commit was acknowledged before the question was asked |
//! | taken | nobody ever touched the name |
//! | unverified | never |
//!
//! A name is in doubt from the moment in which a writer sets out to insert or release it until the server has
//! acknowledged that: then every answer is right.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use super::insert_one;
use crate::fixtures::{BOUND, absent_names, verdict};
use crate::support::http::Reply;
use crate::support::postgres::Database;
use crate::support::service::{Service, question};

/// How long a healthy service may take to give every name a proper answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two questions and two inserts of a load: enough of both, and the machine is not only busy with them.
const BREATH: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    InDoubt,
    /// Since its commit was acknowledged.
    Held(Instant),
}

/// The model. Shared by writers and askers.
#[derive(Debug)]
pub(super) struct Oracle {
    bound: Duration,
    lives: Mutex<HashMap<String, Life>>,
}

/// What came back for a number of questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) free_from_filter: usize,
    pub(super) free_from_database: usize,
    pub(super) taken: usize,
    pub(super) unverified: usize,
}

impl Oracle {
    /// For services that are started with the default freshness bound.
    pub(super) fn new() -> Self {
        Self::with_bound(BOUND)
    }

    pub(super) fn with_bound(bound: Duration) -> Self {
        Self {
            bound,
            lives: Mutex::default(),
        }
    }

    /// A writer sets out to insert or to release these.
    pub(super) fn doubt(&self, names: &[String]) {
        self.set(names, Life::InDoubt);
    }

    /// The server has acknowledged a commit after which these are held.
    pub(super) fn committed(&self, names: &[String]) {
        self.set(names, Life::Held(Instant::now()));
    }

    /// Inserts all names in one statement of its own transaction.
    pub(super) async fn insert(&self, session: &mut PgConnection, names: &[String]) {
        self.doubt(names);
        sqlx::query("INSERT INTO users (username) SELECT unnest($1::text[])")
            .bind(names)
            .execute(session)
            .await
            .expect("the rows are new");
        self.committed(names);
    }

    /// Runs `change`, after which exactly `held` of the names `touched` are held.
    pub(super) async fn change(
        &self,
        session: &mut PgConnection,
        change: &str,
        touched: &[&str],
        held: &[&str],
    ) {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        self.doubt(&owned(touched));
        super::run(session, change).await;
        self.committed(&owned(held));
    }

    /// Learns from the table what is held: after a crash that may have lost commits which were acknowledged.
    pub(super) async fn learn(&self, database: &Database) {
        let held: Vec<String> = sqlx::query_scalar("SELECT canonical FROM users")
            .fetch_all(&mut database.session().await)
            .await
            .expect("the table can be read");
        let all: Vec<String> = self.lives().keys().cloned().collect();
        self.doubt(&all);
        self.committed(&held);
    }

    /// Names that are held, in no order.
    pub(super) fn held(&self) -> Vec<String> {
        let lives = self.lives();
        let held = lives.iter().filter(|(_, life)| **life != Life::InDoubt);
        held.map(|(name, _)| name.clone()).collect()
    }

    /// Asks about one name on a connection of its own.
    pub(super) async fn ask(&self, service: &Service, name: &str) -> Tally {
        let asked_at = Instant::now();
        let reply = service.ask(name).await;
        let mut tally = Tally::default();
        self.judge(name, asked_at, &reply, &mut tally);
        tally
    }

    /// Asks about all names on one connection.
    pub(super) async fn ask_all<'a>(
        &self,
        service: &Service,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Tally {
        let mut tally = Tally::default();
        let mut connection = service.connect().await.expect("the service listens");
        for name in names {
            let asked_at = Instant::now();
            let reply = connection.get(&question(name)).await.expect("an answer");
            self.judge(name, asked_at, &reply, &mut tally);
        }
        tally
    }

    /// Demands that a service without trouble calls every held name taken, once the bound has passed.
    pub(super) async fn sees_every_name_taken(&self, service: &Service) {
        tokio::time::sleep(self.until_all_must_be_known()).await;
        let mut left = self.held();
        assert!(!left.is_empty(), "nothing is held, so nothing is shown");
        let began = Instant::now();
        while !left.is_empty() {
            assert!(
                began.elapsed() < PATIENCE,
                "no proper answer for {}",
                left.len()
            );
            let mut unanswered = Vec::new();
            for name in left {
                if self.ask(service, &name).await.taken == 0 {
                    unanswered.push(name);
                }
            }
            left = unanswered;
        }
    }

    /// Asks and inserts without end while `fault` runs: names that are held, in turn, and names that nobody holds;
    /// new names that start with `prefix`. Returns what came back.
    pub(super) async fn under_load(
        &self,
        service: &Service,
        database: &Database,
        prefix: &str,
        fault: impl Future<Output = ()>,
    ) -> Tally {
        let mut tally = Tally::default();
        let mut fault = pin!(fault);
        tokio::select! {
            () = &mut fault => {}
            () = self.ask_for_ever(service, &mut tally) => {}
            () = self.write_for_ever(database, prefix) => {}
        }
        tally
    }

    /// As [`Oracle::under_load`], without the inserts.
    pub(super) async fn under_questions(
        &self,
        service: &Service,
        fault: impl Future<Output = ()>,
    ) -> Tally {
        let mut tally = Tally::default();
        let mut fault = pin!(fault);
        tokio::select! {
            () = &mut fault => {}
            () = self.ask_for_ever(service, &mut tally) => {}
        }
        tally
    }

    async fn ask_for_ever(&self, service: &Service, tally: &mut Tally) {
        let absent = absent_names(50);
        let mut connection = service.connect().await.expect("the service listens");
        loop {
            let mut asked = self.held();
            asked.extend_from_slice(&absent);
            for name in asked {
                let asked_at = Instant::now();
                match connection.get(&question(&name)).await {
                    Ok(reply) => self.judge(&name, asked_at, &reply, tally),
                    // A frozen service may let a connection go.
                    Err(_) => connection = service.connect().await.expect("it listens"),
                }
                tokio::time::sleep(BREATH).await;
            }
        }
    }

    async fn write_for_ever(&self, database: &Database, prefix: &str) {
        let mut session = None;
        for n in 0.. {
            let name = [format!("{prefix}{n:06}")];
            self.doubt(&name);
            let connected = match session.take() {
                Some(connected) => Ok(connected),
                None => PgConnection::connect(&database.url).await,
            };
            let Ok(mut connected) = connected else {
                tokio::time::sleep(BREATH * 10).await;
                continue;
            };
            if insert_one(&mut connected, &name[0]).await.is_ok() {
                self.committed(&name);
                session = Some(connected);
            }
            tokio::time::sleep(BREATH).await;
        }
    }

    /// # Panics
    /// When the answer is wrong.
    #[track_caller]
    pub(super) fn judge(&self, name: &str, asked_at: Instant, reply: &Reply, tally: &mut Tally) {
        let (available, reason, source) = verdict(reply);
        let life = self.lives().get(name).copied();
        match (available, source.as_deref()) {
            (Some(true), Some("filter")) => tally.free_from_filter += 1,
            (Some(true), _) => tally.free_from_database += 1,
            (Some(false), _) => tally.taken += 1,
            (None, _) => tally.unverified += 1,
        }
        match life {
            Some(Life::Held(since)) if available == Some(true) => {
                let known_for = asked_at.checked_duration_since(since);
                let may_lag = if source.as_deref() == Some("filter") {
                    self.bound
                } else {
                    Duration::ZERO
                };
                assert!(
                    known_for.is_none_or(|known_for| known_for <= may_lag),
                    "a wrong free: {name} was held for {known_for:?} when it was asked for: {reply:?}"
                );
            }
            None => assert_ne!(reason, "taken", "nobody ever held {name}: {reply:?}"),
            Some(_) => {}
        }
    }

    fn until_all_must_be_known(&self) -> Duration {
        let lives = self.lives();
        let since = lives.values().filter_map(|life| match life {
            Life::Held(since) => Some(*since),
            Life::InDoubt => None,
        });
        since.max().map_or(Duration::ZERO, |latest| {
            (latest + self.bound + BREATH).saturating_duration_since(Instant::now())
        })
    }

    fn set(&self, names: &[String], life: Life) {
        let mut lives = self.lives();
        for name in names {
            lives.insert(name.clone(), life);
        }
    }

    /// What it guards is whole at any time, so a panic elsewhere does not spoil it.
    fn lives(&self) -> MutexGuard<'_, HashMap<String, Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
