//! From flags to a store and to rules: what several commands begin with.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use secrecy::ExposeSecret;

use crate::cli::{Exit, Failure};
use crate::config::{DatabaseArgs, PolicyArgs, TableArgs};
use crate::gate::Store;
use crate::names::{Policy, Reserved};
use crate::store::Address;
use crate::store::postgres::{Deadlines, Watched};

/// A database as the flags name it.
pub(super) struct Chosen {
    pub(super) address: Address,
    /// No database was named: the embedded one, which is ours to make.
    pub(super) is_embedded_default: bool,
}

/// Where the embedded database is, in the data directory.
pub(super) const EMBEDDED_FILE: &str = "namegate.db";

pub(super) fn database(args: &DatabaseArgs) -> Result<Chosen, Failure> {
    let Some(url) = &args.database_url else {
        return Ok(Chosen {
            address: Address::Sqlite(args.data_dir.join(EMBEDDED_FILE)),
            is_embedded_default: true,
        });
    };
    let address = url
        .expose_secret()
        .parse()
        .context("the database URL is wrong")
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(Chosen {
        address,
        is_embedded_default: false,
    })
}

/// Makes the directory of the embedded database; only for commands that fill it.
pub(super) fn make_data_dir(args: &DatabaseArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.data_dir)
        .with_context(|| {
            format!(
                "could not make the data directory {}",
                args.data_dir.display()
            )
        })
        .map_err(|error| Failure::new(Exit::File, error))
}

pub(super) fn store(
    chosen: Chosen,
    table: &TableArgs,
    deadlines: Deadlines,
    connections: u32,
) -> Result<Arc<dyn Store>, Failure> {
    let watched = Watched {
        table: table.table.clone(),
        column: table.column.clone(),
    };
    let is_sample =
        watched.table.to_string() == "\"users\"" && watched.column.name() == "canonical";
    if matches!(chosen.address, Address::Sqlite(_)) && !is_sample {
        let error = anyhow!(
            "--table and --column are for PostgreSQL: an embedded database has the sample table only"
        );
        return Err(Failure::new(Exit::Usage, error));
    }
    Ok(chosen.address.open(watched, deadlines, connections))
}

pub(super) fn policy(args: &PolicyArgs) -> Result<Policy, Failure> {
    let mut reserved = Reserved::built_in();
    if let Some(path) = &args.reserved {
        let text = std::fs::read(path)
            .map_err(anyhow::Error::from)
            .and_then(utf8)
            .with_context(|| format!("could not read the reserved names in {}", path.display()))
            .map_err(|error| Failure::new(Exit::File, error))?;
        reserved = reserved
            .with_operator_list(&text)
            .with_context(|| format!("the reserved names in {} are malformed", path.display()))
            .map_err(|error| Failure::new(Exit::File, error))?;
    }
    Ok(Policy::new(args.profile, reserved))
}

/// A file's text; where it is none, the line to look at.
fn utf8(bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let sound = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = sound.split(|&byte| byte == b'\n').count();
        anyhow!("line {line} is not UTF-8")
    })
}
