//! `namegate migrate`: makes the sample table, its change feed and its trigger.

use crate::cli::{Exit, Failure, open};
use crate::config::{MigrateArgs, TableArgs};
use crate::store::postgres::{Connections, Deadlines};

pub(super) async fn run(args: MigrateArgs) -> Result<Exit, Failure> {
    let chosen = open::database(&args.database)?.without_pooler()?;
    if chosen.is_embedded_default {
        open::make_data_dir(&args.database)?;
    }
    let store = open::store(
        chosen,
        &TableArgs::sample(),
        Deadlines::default(),
        Connections::default(),
    )?;
    let migrated = store.migrate().await;
    let place = store.describe();
    store.close().await;
    migrated.map_err(|error| Failure::store(error, format!("could not migrate {place}")))?;
    println!("{place}: the users table and its change feed are in place");
    Ok(Exit::Done)
}
