//! `namegate check`: asks about names from the shell, a running service or the database itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::Value;

use crate::cli::{Exit, Failure, healthcheck, open};
use crate::config::CheckArgs;
use crate::gate::{FilterSwitch, Gate, LookupLimits, Recall, TakenCache};
use crate::store::postgres::{Connections, Deadlines};
use crate::telemetry::Metrics;

pub(super) async fn run(args: CheckArgs) -> Result<Exit, Failure> {
    let answers = if args.direct {
        ask_database(&args).await?
    } else {
        ask_service(&args).await?
    };
    for answer in &answers {
        if args.json {
            println!("{answer}");
        } else {
            println!("{}", line(answer));
        }
    }
    let available: Vec<Option<bool>> = answers
        .iter()
        .map(|answer| answer["available"].as_bool())
        .collect();
    Ok(match available {
        known if known.iter().any(Option::is_none) => Exit::Service,
        known if known.iter().all(|available| *available == Some(true)) => Exit::Done,
        _ => Exit::No,
    })
}

fn line(answer: &Value) -> String {
    let word = |field: &str| answer[field].as_str().unwrap_or("-").to_owned();
    let detail = answer["detail"]["message"]
        .as_str()
        .or_else(|| answer["detail"].as_str())
        .unwrap_or_default();
    // Debug form: a name may hold characters that turn a terminal upside down.
    format!(
        "{:<32} {:<11} {:<9} {detail}",
        format!("{:?}", word("username")),
        word("reason"),
        word("source")
    )
    .trim_end()
    .to_owned()
}

async fn ask_service(args: &CheckArgs) -> Result<Vec<Value>, Failure> {
    let client = healthcheck::client()?;
    let url = format!("{}/username/available", args.url.trim_end_matches('/'));
    let mut answers = Vec::new();
    for name in &args.names {
        let mut url: url::Url = url
            .parse()
            .with_context(|| format!("{} is not a URL", args.url))
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        if url.scheme() != "http" {
            return Err(Failure::new(
                Exit::Usage,
                anyhow!("--url begins with http://, as in http://127.0.0.1:8080"),
            ));
        }
        url.query_pairs_mut().append_pair("username", name);
        let asked = async { client.get(url).send().await?.json::<Value>().await };
        let answer = asked
            .await
            .map_err(reqwest::Error::without_url) // it holds the name
            .with_context(|| format!("could not reach the service at {}", args.url))
            .map_err(|error| Failure::new(Exit::Service, error))?;
        if answer.get("available").is_none() {
            let error = anyhow!("what answers at {} is not namegate", args.url);
            return Err(Failure::new(Exit::Service, error));
        }
        answers.push(answer);
    }
    Ok(answers)
}

async fn ask_database(args: &CheckArgs) -> Result<Vec<Value>, Failure> {
    let policy = open::policy(&args.policy)?;
    let deadlines = Deadlines {
        lookup: Duration::from_secs(5),
        ..Deadlines::default()
    };
    let store = open::store(
        open::database(&args.database)?,
        &args.table,
        deadlines,
        Connections::default(),
    )?;
    let place = store.describe();
    store
        .probe()
        .await
        .map_err(|error| Failure::store(error, format!("could not ask {place}")))?;
    let recall = Arc::new(Recall::new(
        Duration::ZERO,
        TakenCache::new(0, Duration::from_secs(1)),
    ));
    let limits = LookupLimits {
        deadline: deadlines.lookup,
        ..LookupLimits::default()
    };
    let gate = Gate::new(
        policy,
        Arc::clone(&store),
        recall,
        Arc::new(Metrics::new()),
        FilterSwitch::Off,
        limits,
    );
    let mut answers = Vec::new();
    for name in &args.names {
        answers.push(serde_json::to_value(gate.ask(name).await).expect("an answer is plain data"));
    }
    store.close().await;
    Ok(answers)
}
