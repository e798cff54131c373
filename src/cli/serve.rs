//! `namegate serve`: builds the handles, runs the service, takes it apart in order.
//!
//! ```text
//!   start    probe the database -> bind both listeners -> print where -> population, public, admin
//!   SIGTERM  readyz says no -> wait the drain delay -> stop accepting, finish what is asked (bounded)
//!            -> stop the population (which keeps its filter) -> close the connections -> print the tally -> exit 0
//! ```
//! A second signal ends the process at once. SIGHUP reads the reserved names anew.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cli::{Exit, Failure, open, reception};
use crate::config::{OnOff, PolicyArgs, Registration, ServeArgs, ServiceArgs};
use crate::gate::{FilterSwitch, Gate, LookupLimits, Recall, Store, StoreError, TakenCache};
use crate::http::{AdminToken, App, Manners, Offers, admin_router, keep_history, public_router};
use crate::names::Policy;
use crate::population::{Audits, Keeper, Population, PopulationSettings, Status};
use crate::store::postgres::{Connections, Deadlines};
use crate::telemetry::{Metrics, Tally, print_line};

/// How long the database may take to show itself at start; after that the service starts without.
const FIRST_LOOK: Duration = Duration::from_secs(3);
/// How long requests under way may take once nothing new is accepted.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// Names that the cache of names found taken can hold: about 20 MB when full.
const TAKEN_CAPACITY: u64 = 100_000;

pub(super) async fn run(args: ServeArgs) -> Result<Exit, Failure> {
    crate::telemetry::start(args.service.log_format);
    let token = reception::admin_token(&args.service)?;
    let policy = open::policy(&args.policy)?;
    let chosen = open::database(&args.database)?;
    if chosen.is_embedded_default {
        open::make_data_dir(&args.database)?;
    }
    if args.signup && !open::is_sample(&args.table) {
        let error = anyhow!("--signup inserts into the sample table, and --table names another");
        return Err(Failure::new(Exit::Usage, error));
    }
    let migrate = args.migrate || chosen.is_embedded_default;
    let chosen = if args.migrate {
        chosen.without_pooler()?
    } else {
        chosen
    };
    let limits = limits(&args.service);
    let store = open::store(
        chosen,
        &args.table,
        deadlines(&args.service),
        connections(&args.service, limits),
    )?;
    if migrate {
        let place = store.describe();
        store
            .migrate()
            .await
            .map_err(|error| Failure::store(error, format!("could not migrate {place}")))?;
    }
    look_at(&*store).await?;
    let listeners = Listeners::bind(args.service.listen, args.service.admin_listen).await?;
    let keeper = keeper(&args, &*store);
    let service = Service::new(
        store,
        policy,
        Some(args.policy),
        &args.service,
        token,
        args.signup,
        keeper,
    );
    service.run(listeners).await
}

fn connections(args: &ServiceArgs, limits: LookupLimits) -> Connections {
    // The lanes, and some for questions that go alone when the filter is off.
    let lookups = u32::try_from(limits.lanes)
        .unwrap_or(u32::MAX)
        .saturating_add(2);
    Connections {
        lookups,
        scan: args.scan_connections,
        are_pooled: false, // the database's own flag says
    }
}

fn limits(args: &ServiceArgs) -> LookupLimits {
    LookupLimits {
        deadline: args.lookup_deadline,
        ..LookupLimits::default()
    }
}

fn deadlines(args: &ServiceArgs) -> Deadlines {
    Deadlines {
        lookup: args.lookup_deadline,
        ..Deadlines::default()
    }
}

/// A database that answers and does not fit is refused now; one that does not answer is waited for while serving.
async fn look_at(store: &dyn Store) -> Result<(), Failure> {
    let place = store.describe();
    let looked = timeout(FIRST_LOOK, store.probe())
        .await
        .unwrap_or(Err(StoreError::Overdue(FIRST_LOOK)));
    match looked {
        Ok(()) => Ok(()),
        Err(error @ (StoreError::Unreachable(_) | StoreError::Overdue(_))) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(error = %error, cause, "{place} does not answer; until it does, questions are answered 503");
            Ok(())
        }
        Err(error) => Err(Failure::store(
            error,
            format!("could not serve from {place}"),
        )),
    }
}

/// Where filters are kept for the next start. Without one everything else works, so nothing here ends the service.
fn keeper(args: &ServeArgs, store: &dyn Store) -> Option<Keeper> {
    if args.service.save_interval.is_zero() || args.service.filter == OnOff::Off {
        return None;
    }
    let path = args.database.data_dir.join("filter");
    match Keeper::open(&path, store.source()) {
        Ok(keeper) => Some(keeper),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(
                error = %error, cause,
                "{} is not used, so the next start will read the whole table; see --data-dir and --save-interval",
                path.display()
            );
            None
        }
    }
}

/// Both listeners, bound.
pub(super) struct Listeners {
    public: TcpListener,
    admin: TcpListener,
}

impl Listeners {
    pub(super) async fn bind(public: SocketAddr, admin: SocketAddr) -> Result<Self, Failure> {
        Ok(Self {
            public: bind(public, "--listen").await?,
            admin: bind(admin, "--admin-listen").await?,
        })
    }

    pub(super) fn public_address(&self) -> std::io::Result<SocketAddr> {
        self.public.local_addr()
    }

    pub(super) fn admin_address(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("could not listen on {address}; choose another with {flag}"))
        .map_err(|error| Failure::new(Exit::Address, error))
}

/// Everything that runs while the service does.
pub(super) struct Service {
    app: App,
    store: Arc<dyn Store>,
    population: Option<Population>,
    audit_interval: Duration,
    public: Manners,
    admin: Manners,
    /// Where the rules came from, to be read again at SIGHUP. `None`: SIGHUP ends the process.
    rules: Option<PolicyArgs>,
    drain_delay: Duration,
    stop: CancellationToken,
}

impl Service {
    pub(super) fn new(
        store: Arc<dyn Store>,
        policy: Policy,
        rules: Option<PolicyArgs>,
        args: &ServiceArgs,
        admin_token: Option<AdminToken>,
        signup: bool,
        keeper: Option<Keeper>,
    ) -> Self {
        let metrics = Arc::new(Metrics::new());
        let status = Arc::new(Status::default());
        let taken = TakenCache::new(TAKEN_CAPACITY, args.cache_ttl);
        let recall = Arc::new(Recall::new(args.max_staleness, taken));
        let switch = if args.filter == OnOff::On {
            FilterSwitch::On
        } else {
            FilterSwitch::Off
        };
        let keeps_filters = keeper.is_some();
        let population = (switch == FilterSwitch::On).then(|| {
            let settings = PopulationSettings {
                poll_interval: args.poll_interval,
                target_fpr: args.fpr,
                least_capacity: args.capacity,
                ceiling_bytes: args.filter_memory,
                save_interval: args.save_interval,
            };
            let (store, recall) = (Arc::clone(&store), Arc::clone(&recall));
            Population::new(
                store,
                recall,
                Arc::clone(&metrics),
                Arc::clone(&status),
                settings,
                keeper.map(Arc::new),
            )
        });
        let audits = population.is_some().then(|| {
            let (store, recall) = (Arc::clone(&store), Arc::clone(&recall));
            Audits::new(store, recall, Arc::clone(&status), Arc::clone(&metrics))
        });
        let gate = Gate::new(
            policy,
            Arc::clone(&store),
            recall,
            Arc::clone(&metrics),
            switch,
            limits(args),
        );
        print_configuration(args, &*store, signup);
        reception::warn_of_surprises(args);
        let offers = Offers {
            registration: args.protection.registration == Registration::Open,
            sign_up: signup,
            server_timing: args.server_timing == OnOff::On,
            keeps_filters,
        };
        let public = reception::public(args, &metrics);
        let admin = reception::admin(args, admin_token, &metrics);
        let budgets = reception::budgets(args);
        let gate = Arc::new(gate);
        let store_too = Arc::clone(&store);
        let app = App::new(gate, store_too, status, metrics, audits, offers, budgets);
        Self {
            app,
            store,
            population,
            audit_interval: args.audit_interval,
            public,
            admin,
            rules,
            drain_delay: args.drain_delay,
            stop: CancellationToken::new(),
        }
    }

    pub(super) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.app.metrics)
    }

    /// Runs until a signal, or until the database turns out not to fit.
    pub(super) async fn run(self, listeners: Listeners) -> Result<Exit, Failure> {
        for (what, listener) in [
            ("listening", &listeners.public),
            ("admin", &listeners.admin),
        ] {
            let address = listener
                .local_addr()
                .map_err(|error| Failure::new(Exit::Address, error))?;
            println!("{what} on http://{address}");
        }
        let accepting = self.stop.child_token();
        let public = tokio::spawn(crate::http::serve(
            listeners.public,
            public_router(self.app.clone()),
            self.public,
            Arc::clone(&self.app.metrics),
            accepting.clone(),
        ));
        let admin = tokio::spawn(crate::http::serve(
            listeners.admin,
            admin_router(self.app.clone()),
            self.admin,
            Arc::clone(&self.app.metrics),
            accepting.clone(),
        ));
        let reloading = self
            .rules
            .map(|rules| tokio::spawn(reload_on_hangup(self.app.clone(), rules)));
        let mut population = tokio::spawn({
            let (population, stop) = (self.population.clone(), self.stop.clone());
            async move {
                if let Some(population) = population {
                    return population.run(stop).await;
                }
                stop.cancelled().await;
                Ok(())
            }
        });

        if let Some(audits) = self
            .app
            .audits
            .clone()
            .filter(|_| !self.audit_interval.is_zero())
        {
            tokio::spawn(audits.sample_for_ever(self.audit_interval, self.stop.clone()));
        }
        let history = tokio::spawn(keep_history(self.app.clone(), self.stop.clone()));

        let mut ended = None;
        tokio::select! {
            () = signalled() => tracing::info!("asked to stop: draining"),
            population = &mut population => ended = Some(population),
        }
        tokio::spawn(async {
            signalled().await;
            eprintln!("namegate: asked twice, stopping at once");
            std::process::exit(i32::from(Exit::Fault as u8));
        });
        self.app.start_draining();
        let observed = self.app.status.observe(self.app.gate.recall());
        if ended.is_none() {
            sleep(self.drain_delay).await;
        }
        accepting.cancel();
        if timeout(FINISH_WITHIN, async { tokio::join!(public, admin) })
            .await
            .is_err()
        {
            tracing::warn!("some requests did not finish in time and were cut off");
        }
        if let Some(reloading) = reloading {
            reloading.abort();
        }
        self.stop.cancel();
        let ended = match ended {
            Some(ended) => ended,
            None => population.await,
        };
        drop(history.await); // it has nothing to say, and ends with `stop`
        self.store.close().await;
        let lag = observed.filter.map_or_else(
            || "no filter".to_owned(),
            |filter| format!("lag {:.2} s", filter.lag_seconds),
        );
        print_line(format_args!("{}; {lag}", Tally::of(&self.app.metrics)));
        match ended {
            Ok(Ok(())) => Ok(Exit::Done),
            Ok(Err(error)) => {
                let place = self.store.describe();
                Err(Failure::store(
                    error,
                    format!("could not serve from {place}"),
                ))
            }
            Err(panic) => Err(Failure::new(
                Exit::Fault,
                anyhow::Error::from(panic).context("the population ended abnormally"),
            )),
        }
    }
}

/// Reads the reserved names anew at every SIGHUP. A list that cannot be used changes nothing.
async fn reload_on_hangup(app: App, rules: PolicyArgs) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Without a handler the default action ends the process.
        let Ok(mut hangup) = signal(SignalKind::hangup()) else {
            return tracing::error!("SIGHUP cannot be waited for");
        };
        while hangup.recv().await.is_some() {
            let rules = rules.clone();
            // On a thread of its own: the file may be a slow one.
            let read = tokio::task::spawn_blocking(move || open::policy(&rules)).await;
            let is_applied = match read {
                Ok(Ok(policy)) => {
                    app.gate.replace_policy(policy);
                    tracing::info!("the reserved names were read anew");
                    true
                }
                Ok(Err(failure)) => {
                    tracing::error!("the reserved names stay as they were: {failure}");
                    false
                }
                Err(panic) => {
                    tracing::error!(error = %panic, "the reserved names stay as they were");
                    false
                }
            };
            app.metrics.protection.count_reload(is_applied);
        }
    }
    #[cfg(not(unix))]
    drop((app, rules));
}

/// The effective configuration, in one line, without secrets.
fn print_configuration(args: &ServiceArgs, store: &dyn Store, signup: bool) {
    tracing::info!(
        store = %store.describe(),
        filter = ?args.filter,
        fpr = args.fpr,
        capacity = args.capacity,
        filter_memory = args.filter_memory,
        max_staleness = %humantime::format_duration(args.max_staleness),
        poll_interval = %humantime::format_duration(args.poll_interval),
        lookup_deadline = %humantime::format_duration(args.lookup_deadline),
        cache_ttl = %humantime::format_duration(args.cache_ttl),
        scan_connections = args.scan_connections,
        save_interval = %humantime::format_duration(args.save_interval),
        audit_interval = %humantime::format_duration(args.audit_interval),
        drain_delay = %humantime::format_duration(args.drain_delay),
        signup,
        registration = ?args.protection.registration,
        rate_limit = ?args.protection.rate_limit,
        rate_limit_burst = args.protection.rate_limit_burst,
        rate_limit_per_second = args.protection.rate_limit_per_second,
        trusted_proxies = args.protection.trusted_proxies.len(),
        max_connections = args.protection.max_connections,
        "configuration"
    );
    if args.max_staleness < args.poll_interval * 3 {
        tracing::warn!(
            "--max-staleness is less than three poll intervals: one slow poll sends every question to the database"
        );
    }
}

/// Waits for SIGTERM or SIGINT.
async fn signalled() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Without a handler the default action ends the process, which is what a signal asks for.
        let (Ok(mut term), Ok(mut int)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        ) else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
    #[cfg(not(unix))]
    drop(tokio::signal::ctrl_c().await);
}
