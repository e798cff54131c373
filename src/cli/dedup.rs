//! `namegate dedup`: says what it will cost, runs until the input ends or somebody asks it to stop, says what it did cost.
//!
//! Standard output is for messages alone; everything else goes to standard error.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::size::{grouped, memory, percent};
use crate::cli::{Exit, Failure};
use crate::config::DedupArgs;
use crate::dedup::{
    Dedup, DedupError, Ended, Ends, Identity, OnBad, Plan, Progress, Resumed, Settings, Window,
};

pub(super) async fn run(args: DedupArgs) -> Result<Exit, Failure> {
    crate::telemetry::start(crate::telemetry::LogFormat::Text);
    let settings = settings(&args)?;
    let plan = settings.plan().map_err(|error| {
        let others = memory(settings.other_bytes());
        let error = anyhow::Error::new(error).context(format!(
            "the memory does not fit into --memory {} less {others} for buffers",
            settings.ceiling_bytes
        ));
        Failure::new(Exit::Usage, error)
    })?;
    let (wake, waker) = UnixStream::pair().map_err(fault)?;
    for end in [&wake, &waker] {
        end.set_nonblocking(true).map_err(fault)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    ask_to_stop(&stop, waker.try_clone().map_err(fault)?)?;
    let runtime = Handle::current();
    let is_json = args.json;
    // Reading and writing hold up their thread, which must not be one that futures run on.
    let ran = tokio::task::spawn_blocking(move || {
        let dedup = Dedup::open(&settings, waker, runtime).map_err(failed)?;
        if !is_json {
            announce(&settings, &plan, dedup.resumed());
        }
        let ends = Ends {
            input: own(std::io::stdin().as_fd())?,
            output: own(std::io::stdout().as_fd())?,
            stop: &stop,
            wake,
        };
        let bar = progress_bar(is_json);
        let mut warned = false;
        let ran = dedup.run(ends, &mut |progress| {
            bar.set_message(shown(progress));
            if progress.fill > 1.0 && !warned && !is_json {
                warned = true;
                bar.suspend(|| eprintln!("{}", over_capacity(progress)));
            }
        });
        bar.finish_and_clear();
        let (ended, progress) = ran.map_err(failed)?;
        if ended != Ended::Closed {
            if progress.fill > 1.0 && !warned && !is_json {
                eprintln!("{}", over_capacity(&progress));
            }
            summarise(&settings, &plan, ended, &progress, is_json);
        }
        Ok(Exit::Done)
    });
    ran.await.map_err(|panic| {
        Failure::new(
            Exit::Fault,
            anyhow::Error::from(panic).context("the stream ended abnormally"),
        )
    })?
}

fn settings(args: &DedupArgs) -> Result<Settings, Failure> {
    let identity = if args.whole_line {
        Identity::whole_line()
    } else {
        Identity::of_keys(&args.key, args.time_key.as_ref())
            .context("--key or --time-key is wrong")
            .map_err(|error| Failure::new(Exit::Usage, error))?
    };
    Ok(Settings {
        identity,
        expected: args.expect,
        fpr: args.fpr,
        window: args.window.map(|window| Window::new(window, args.slices)),
        ceiling_bytes: args.memory,
        on_bad: OnBad::from(args.on_bad),
        longest_line: args.max_line,
        dropped: args.dropped.clone(),
        state: args.state.clone(),
        save_every: args.save_every,
        exact: args.exact.then_some(args.exact_last),
    })
}

/// On SIGTERM or SIGINT: asks the stream to stop. On the second one: ends the process.
fn ask_to_stop(stop: &Arc<AtomicBool>, mut waker: UnixStream) -> Result<(), Failure> {
    let mut term = signal(SignalKind::terminate()).map_err(fault)?;
    let mut int = signal(SignalKind::interrupt()).map_err(fault)?;
    let stop = Arc::clone(stop);
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {} _ = int.recv() => {} }
        stop.store(true, Ordering::Release); // pairs with the stream's acquire: it stops for a reason
        let _ = waker.write(&[0]); // a full pipe has woken it already
        tokio::select! { _ = term.recv() => {} _ = int.recv() => {} }
        eprintln!("namegate: asked twice, stopping at once");
        std::process::exit(i32::from(Exit::Fault as u8));
    });
    Ok(())
}

/// The descriptor as a file of ours: the standard library's own handles keep bytes to themselves.
fn own(descriptor: std::os::fd::BorrowedFd<'_>) -> Result<File, Failure> {
    let owned = descriptor.try_clone_to_owned();
    owned.map(File::from).map_err(fault)
}

fn fault(error: std::io::Error) -> Failure {
    let error = anyhow::Error::from(error).context("could not get ready to read and write");
    Failure::new(Exit::Fault, error)
}

fn failed(error: DedupError) -> Failure {
    let exit = match &error {
        DedupError::Plan(_) => Exit::Usage,
        DedupError::Bad { .. } => Exit::No,
        DedupError::Secret(_) | DedupError::Filter(_) => Exit::Fault,
        _ => Exit::File,
    };
    Failure::new(exit, anyhow!(error))
}

fn progress_bar(is_json: bool) -> ProgressBar {
    if is_json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
}

fn announce(settings: &Settings, plan: &Plan, resumed: Option<&Resumed>) {
    let kept = plan.window.map_or_else(
        || "for ever".to_owned(),
        |window| {
            let span = |slices: u64| {
                let span =
                    std::time::Duration::from_millis(window.slice_ms().saturating_mul(slices));
                humantime::format_duration(span)
                    .to_string()
                    .replace(' ', "")
            };
            let slices = u64::from(window.slices());
            format!("for {} to {}", span(slices), span(slices + 1))
        },
    );
    let filters = if plan.filters == 1 {
        "filter"
    } else {
        "filters"
    };
    eprintln!(
        "ids by {}, remembered {kept} in {} {filters} of {}: {} of memory and {} for the rest; allowed are {}",
        settings.identity,
        plan.filters,
        memory(plan.sizing.size_bytes()),
        memory(plan.size_bytes()),
        memory(settings.other_bytes()),
        memory(settings.ceiling_bytes),
    );
    if settings.exact.is_some() {
        eprintln!(
            "expected loss: none; a duplicate further back than the last ids passes once more, and {} of genuine messages go by the index",
            percent(plan.mean_loss())
        );
    } else {
        eprintln!(
            "expected loss: {} of genuine messages on average, about {:.1} in {} ids; {} when full",
            percent(plan.mean_loss()),
            plan.mean_loss() * share(plan.expected),
            grouped(plan.expected),
            percent(plan.target_fpr),
        );
    }
    if let Some(resumed) = resumed {
        eprintln!(
            "going on from {} ids saved {} ago; the run that saved them had read {} lines, {} bytes",
            grouped(resumed.ids),
            humantime::format_duration(std::time::Duration::from_secs(resumed.age.as_secs())),
            resumed.lines,
            resumed.bytes,
        );
    }
}

/// One line for a terminal.
fn shown(progress: &Progress) -> String {
    format!(
        "{} messages  {}/s  {} duplicates  {} full  expected loss {:.3}",
        grouped(progress.tally.lines),
        grouped(per_second(progress)),
        grouped(progress.tally.duplicates),
        percent(rounded(progress.fill)),
        progress.expected_lost,
    )
}

fn over_capacity(progress: &Progress) -> String {
    format!(
        "warning: more ids than expected: the newest filter is {} full, a genuine message is lost with {} now; give a larger --expect",
        percent(rounded(progress.fill)),
        percent(progress.loss_rate),
    )
}

fn summarise(settings: &Settings, plan: &Plan, ended: Ended, progress: &Progress, is_json: bool) {
    if is_json {
        eprintln!("{}", as_json(settings, plan, ended, progress));
        return;
    }
    let tally = &progress.tally;
    let first_bad = tally.first_bad.map_or_else(String::new, |(line, why)| {
        format!(" (the first, line {line}: {why})")
    });
    eprintln!(
        "{} messages: {} passed, {} duplicates dropped, {} without an id {}{first_bad}; {:.1} s, {}/s",
        grouped(tally.lines),
        grouped(tally.passed),
        grouped(tally.duplicates),
        grouped(tally.bad),
        if settings.on_bad == OnBad::Drop {
            "dropped"
        } else {
            "passed"
        },
        progress.elapsed.as_secs_f64(),
        grouped(per_second(progress)),
    );
    if settings.exact.is_some() {
        eprintln!(
            "expected loss: none; {} suspects could not be confirmed and passed",
            grouped(tally.unconfirmed)
        );
    } else {
        eprintln!(
            "expected loss: {:.3} genuine messages so far, {} of those that come now; filter {} full",
            progress.expected_lost,
            percent(progress.loss_rate),
            percent(rounded(progress.fill)),
        );
    }
    if tally.untimed + tally.ahead > 0 {
        eprintln!(
            "taken for the present: {} messages without a time, {} from the future",
            grouped(tally.untimed),
            grouped(tally.ahead)
        );
    }
    if let Ended::Asked {
        unfinished: bytes @ 1..,
    } = ended
    {
        eprintln!(
            "stopped inside a line: {bytes} bytes of it were read and are neither passed nor remembered"
        );
    }
}

fn as_json(
    settings: &Settings,
    plan: &Plan,
    ended: Ended,
    progress: &Progress,
) -> serde_json::Value {
    let tally = &progress.tally;
    let unfinished = if let Ended::Asked { unfinished } = ended {
        unfinished
    } else {
        0
    };
    json!({
        "messages": tally.lines,
        "bytes": tally.bytes,
        "passed": tally.passed,
        "duplicates": tally.duplicates,
        "bad": tally.bad,
        "first_bad": tally.first_bad.map(|(line, why)| json!({"line": line, "why": why.to_string()})),
        "unconfirmed": tally.unconfirmed,
        "untimed": tally.untimed,
        "ahead": tally.ahead,
        "stopped": matches!(ended, Ended::Asked { .. }),
        "unfinished_bytes": unfinished,
        "seconds": progress.elapsed.as_secs_f64(),
        "messages_per_second": per_second(progress),
        "ids": progress.ids,
        "fill": progress.fill,
        "expected_lost": progress.expected_lost,
        "loss_rate": progress.loss_rate,
        "plan": {
            "expect": plan.expected,
            "fpr": plan.target_fpr,
            "mean_loss": if settings.exact.is_some() { 0.0 } else { plan.mean_loss() },
            "filters": plan.filters,
            "filter_bytes": plan.sizing.size_bytes(),
            "memory_bytes": plan.size_bytes(),
            "other_bytes": settings.other_bytes(),
            "ceiling_bytes": settings.ceiling_bytes,
        },
    })
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate for people"
)]
fn per_second(progress: &Progress) -> u64 {
    (share(progress.tally.lines) / progress.elapsed.as_secs_f64().max(1e-9)) as u64
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn share(count: u64) -> f64 {
    count as f64
}

/// To a tenth of a percent.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}
