//! `namegate audit`: every committed row must be *maybe* in the running filter.

use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::Deserialize;
use tokio::time::sleep;

use crate::cli::healthcheck::client;
use crate::cli::{Exit, Failure};
use crate::config::AuditArgs;
use crate::telemetry::Progress;

const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
struct Begun {
    job: u64,
}

#[derive(Deserialize)]
struct Report {
    job: u64,
    state: String,
    rows: u64,
    misses: u64,
    error: Option<String>,
}

pub(super) async fn run(args: AuditArgs) -> Result<Exit, Failure> {
    let url = format!("{}/audit", args.admin.trim_end_matches('/'));
    let client = client()?;
    let begun: Begun = read(client.post(&url), &url).await?;
    let mut progress = Progress::new("audit", "rows", None);
    let report = loop {
        let report: Report = read(client.get(&url), &url).await?;
        if report.job != begun.job {
            return Err(unanswered(anyhow!(
                "the service began another audit, or was restarted, before this one ended"
            )));
        }
        if report.state != "running" {
            break report;
        }
        progress.reached(report.rows);
        sleep(LOOK_EVERY).await;
    };
    progress.finish();
    if let Some(error) = report.error {
        return Err(unanswered(anyhow!("the audit failed: {error}")));
    }
    println!("{} rows, {} misses", report.rows, report.misses);
    Ok(if report.misses == 0 {
        Exit::Done
    } else {
        Exit::No
    })
}

async fn read<T: for<'de> Deserialize<'de>>(
    request: reqwest::RequestBuilder,
    url: &str,
) -> Result<T, Failure> {
    let response = request
        .send()
        .await
        .with_context(|| format!("could not reach the service at {url}; see --admin"))
        .map_err(unanswered)?;
    let status = response.status();
    let body = response.text().await.unwrap_or_default();
    if status.is_success() {
        return serde_json::from_str(&body)
            .with_context(|| format!("{url} does not answer like namegate"))
            .map_err(unanswered);
    }
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("no reason was given");
    Err(unanswered(anyhow!("{url} answered {status}: {detail}")))
}

fn unanswered(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Service, error)
}
