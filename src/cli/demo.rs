//! `namegate demo`: the service on a throw-away embedded database filled with real names.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::net::TcpListener;

use crate::cli::import::{self, ImportError};
use crate::cli::serve::{Listeners, Service};
use crate::cli::{Exit, Failure, open, reception};
use crate::config::{DEFAULT_ADMIN_LISTEN, DEFAULT_LISTEN, DemoArgs};
use crate::gate::Store;
use crate::store::sqlite::SqliteStore;
use crate::telemetry::{Metrics, Progress, Tally, bar, print_line};

/// An excerpt of the package names of a public index: names that people picked for themselves.
static NAMES: &[u8] = include_bytes!("../../data/demo-names.txt.gz");
const NAMES_COUNT: u64 = 50_000;

pub(super) async fn run(args: DemoArgs) -> Result<Exit, Failure> {
    crate::telemetry::start(args.service.log_format);
    let token = reception::admin_token(&args.service)?;
    let policy = open::policy(&args.policy)?;
    let directory = Directory::new()?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::new(&directory.0.join(open::EMBEDDED_FILE)));
    fill(&store).await?;

    let public = step_around(args.service.listen, DEFAULT_LISTEN).await;
    let admin = step_around(args.service.admin_listen, DEFAULT_ADMIN_LISTEN).await;
    let listeners = Listeners::bind(public, admin).await?;
    let unbound = |error| Failure::new(Exit::Address, error);
    let page = listeners.public_address().map_err(unbound)?;
    let status = listeners.admin_address().map_err(unbound)?;
    // A demo ends with its terminal: no rules to read again.
    let service = Service::new(store, policy, None, &args.service, token, true, None);
    println!();
    println!(
        "  Open http://{page}/ and type a name. numpy is taken, so are flask and requests; try your own."
    );
    println!("  Each answer says whether memory knew it or the database was asked.");
    println!("  Watch it from the operator's side at http://{status}/. Ctrl-C ends the demo.");
    println!();
    let ticker = tokio::spawn(show_tally(service.metrics()));
    let ended = service.run(listeners).await;
    ticker.abort();
    drop(ticker.await); // an error, since it was aborted: its line is gone now
    ended
}

async fn fill(store: &Arc<dyn Store>) -> Result<(), Failure> {
    let failed = |error| Failure::store(error, "could not fill the demo's database");
    store.migrate().await.map_err(failed)?;
    let mut progress = Progress::new("filling the demo's database", "names", Some(NAMES_COUNT));
    let names = Box::new(flate2::read::GzDecoder::new(NAMES));
    let progress_cell = std::cell::RefCell::new(&mut progress);
    let imported = import::import(store, names, None, |done| {
        progress_cell.borrow_mut().reached(done);
    })
    .await;
    progress.finish();
    match imported {
        Ok(imported) => {
            println!("{} real names in a throw-away database", imported.inserted);
            Ok(())
        }
        Err(ImportError::Store(error, _)) => Err(failed(error)),
        Err(ImportError::Read(error)) => Err(Failure::new(Exit::Fault, error)),
    }
}

/// The default port when it is to be had, else any: a demo shall simply work. A port that was asked for is kept.
async fn step_around(asked: SocketAddr, default: &str) -> SocketAddr {
    if asked.to_string() == default && TcpListener::bind(asked).await.is_err() {
        return (Ipv4Addr::LOCALHOST, 0).into();
    }
    asked
}

/// How many questions needed the database: a line that changes on a terminal, a new line now and then elsewhere.
async fn show_tally(metrics: Arc<Metrics>) {
    let Line(bar) = &Line(bar(None));
    bar.set_style(
        ProgressStyle::with_template("  {msg}").expect("the template is a constant that parses"),
    );
    let pause = Duration::from_millis(if bar.is_hidden() { 5000 } else { 300 });
    let mut shown = Tally::of(&metrics);
    bar.set_message(shown.to_string());
    loop {
        tokio::time::sleep(pause).await;
        let tally = Tally::of(&metrics);
        if tally == shown {
            continue;
        }
        shown = tally;
        if bar.is_hidden() {
            print_line(tally);
        } else {
            bar.set_message(tally.to_string());
        }
    }
}

/// A line that is taken off the terminal when nobody changes it any more.
struct Line(ProgressBar);

impl Drop for Line {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A directory that goes with the demo.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("namegate-demo-{}", std::process::id()));
        std::fs::create_dir(&path)
            .with_context(|| format!("could not make the directory {}", path.display()))
            .map_err(|error| Failure::new(Exit::File, error))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("could not remove {}: {error}", self.0.display());
        }
    }
}
