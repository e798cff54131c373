//! `namegate audit`: every committed row must be *maybe* in the running filter.

use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::Deserialize;
use tokio::time::sleep;

use crate::cli::admin_client::{AdminClient, Reply};
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
    let service = AdminClient::new(&args.admin)?;
    let begun: Begun = read(service.post("/audit", None).await?)?;
    let mut progress = Progress::new("audit", "rows", None);
    let report = loop {
        let report: Report = read(service.get("/audit", &[]).await?)?;
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

fn read<T: for<'de> Deserialize<'de>>(reply: Reply) -> Result<T, Failure> {
    if reply.status.is_success() {
        return serde_json::from_value(reply.body)
            .context("the admin listener does not answer like namegate's")
            .map_err(unanswered);
    }
    let detail = reply.body["detail"]
        .as_str()
        .unwrap_or("no reason was given");
    Err(unanswered(anyhow!(
        "the service answered {}: {detail}",
        reply.status
    )))
}

fn unanswered(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Service, error)
}
