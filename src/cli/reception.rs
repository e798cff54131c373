//! From flags to how the two listeners treat those who connect.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};

use crate::cli::{Exit, Failure};
use crate::config::{OnOff, ServiceArgs};
use crate::http::{Access, AdminToken, Budgets, Clients, Cors, Manners, Patience, is_near};
use crate::telemetry::Metrics;

/// Connections to the admin listener at one time: a few scrapers, a few operators.
const ADMIN_CONNECTIONS: u32 = 256;
/// How long an operator's request may take: some of them walk the whole table.
const ADMIN_ANSWER_WITHIN: Duration = Duration::from_mins(10);
/// Descriptors that are not connections to the public listener: database, files, admin listener, some to spare.
const OTHER_DESCRIPTORS: u64 = 500;

/// The admin listener's token, where one is wanted.
///
/// # Errors
/// [`Exit::File`] when the file cannot be used; [`Exit::Usage`] when the listener needs a token and has none.
pub(super) fn admin_token(args: &ServiceArgs) -> Result<Option<AdminToken>, Failure> {
    let Some(path) = &args.protection.admin_token_file else {
        if args.admin_listen.ip().to_canonical().is_loopback() {
            return Ok(None);
        }
        let error = anyhow!(
            "--admin-listen {}: beyond loopback addresses the admin listener demands a token; name its file with --admin-token-file",
            args.admin_listen
        );
        return Err(Failure::new(Exit::Usage, error));
    };
    let token = AdminToken::parse(&read_token(path)?)
        .with_context(|| format!("the admin token in {} cannot be used", path.display()))
        .map_err(|error| Failure::new(Exit::File, error))?;
    warn_if_others_may_read(path);
    Ok(Some(token))
}

/// The text of a token file.
pub(super) fn read_token(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .with_context(|| format!("could not read the admin token in {}", path.display()))
        .map_err(|error| Failure::new(Exit::File, error))
}

fn warn_if_others_may_read(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).map(|file| file.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            tracing::warn!(
                "other users may read the admin token in {}; chmod 600 keeps it",
                path.display()
            );
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Budgets of clients, where they are switched on.
pub(super) fn budgets(args: &ServiceArgs) -> Option<Budgets> {
    let protection = &args.protection;
    (protection.rate_limit == OnOff::On).then(|| {
        Budgets::new(
            protection.rate_limit_burst.get(),
            protection.rate_limit_per_second,
        )
    })
}

/// How the public listener treats those who connect.
pub(super) fn public(args: &ServiceArgs, metrics: &Arc<Metrics>) -> Manners {
    let protection = &args.protection;
    let clients = (protection.rate_limit == OnOff::On)
        .then(|| Clients::new(protection.trusted_proxies.clone(), Arc::clone(metrics)));
    Manners {
        access: Access::Public {
            clients,
            cors: Cors::new(&protection.cors_origin),
        },
        patience: patience(args, protection.request_timeout),
        max_connections: protection.max_connections.get(),
        is_counted: true,
    }
}

/// How the admin listener treats those who connect.
pub(super) fn admin(
    args: &ServiceArgs,
    token: Option<AdminToken>,
    metrics: &Arc<Metrics>,
) -> Manners {
    Manners {
        access: Access::Admin {
            token,
            metrics: Arc::clone(metrics),
        },
        patience: patience(args, ADMIN_ANSWER_WITHIN),
        max_connections: ADMIN_CONNECTIONS,
        is_counted: false,
    }
}

fn patience(args: &ServiceArgs, answer: Duration) -> Patience {
    Patience {
        request: args.protection.request_timeout,
        answer,
        idle: args.protection.idle_timeout,
    }
}

/// Says what is allowed and yet surprising.
pub(super) fn warn_of_surprises(args: &ServiceArgs) {
    let protection = &args.protection;
    if protection.cors_origin.iter().any(|origin| origin == "*") {
        tracing::warn!("--cors-origin *: every page in every browser may ask");
    }
    if protection
        .trusted_proxies
        .iter()
        .any(|network| network.prefix_len() == 0)
    {
        tracing::warn!(
            "--trusted-proxies holds a network of all addresses: clients can say whoever they are, and budgets mean nothing"
        );
    }
    if protection.rate_limit == OnOff::On
        && protection.trusted_proxies.is_empty()
        && is_near(args.listen.ip())
    {
        tracing::info!(
            "budgets go by the peer's address; behind a proxy, name it with --trusted-proxies, or all its clients share one"
        );
    }
    make_room(protection.max_connections.get().into());
}

/// Raises the limit of open descriptors as far as it may be raised and is needed.
fn make_room(connections: u64) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let wanted = connections + OTHER_DESCRIPTORS;
        let limit = getrlimit(Resource::Nofile);
        let Some(current) = limit.current.filter(|current| *current < wanted) else {
            return; // enough, or no limit
        };
        let reachable = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        let raised = Rlimit {
            current: Some(reachable),
            maximum: limit.maximum,
        };
        let reached = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => reachable,
            Err(_) => current,
        };
        if reached < wanted {
            tracing::warn!(
                "this process may open {reached} descriptors, fewer than --max-connections {connections} needs: raise the limit \
                 (ulimit -n), or lower the number"
            );
        }
    }
    #[cfg(not(unix))]
    let _ = connections;
}
