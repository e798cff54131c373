//! Taking the change feed away from a table that [`attach`](super::attach) installed it on. Nothing is left behind.
//!
//! Dropped is what is known by name, and nothing by CASCADE: what somebody else has put into the schema, or built on it,
//! stops it. The rights that attaching gave outside the schema are taken back; those that were there before stay.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::time::timeout;

use crate::gate::StoreError;
use crate::store::postgres::errors::classify;
use crate::store::postgres::ident::{Identifier, TableName};
use crate::store::postgres::script::{LockWait, Script, ScriptError};
use crate::store::postgres::{connection, fitness};

/// All that the feed's migrations make beside the schema; tables first, for triggers on them need functions.
const OBJECTS: [&str; 3] = [
    "DROP TABLE namegate.outbox, namegate.consumer, namegate.meta, namegate.granted;",
    "DROP FUNCTION namegate.capture(), namegate.refuse_truncate(), namegate.watch(regclass, name), namegate.watched(),\n    \
     namegate.watched_tree(), namegate.armed_triggers(), namegate.fingerprint(), namegate.poll(uuid, xid8, xid8[]),\n    \
     namegate.register(uuid, uuid), namegate.certify(uuid, uuid, pg_snapshot), namegate.unregister(uuid),\n    \
     namegate.prune(interval, interval, int),\n    \
     namegate.place(uuid, uuid, pg_snapshot), namegate.resume(uuid, uuid, uuid, uuid);",
    "DROP SCHEMA namegate;",
];

/// A service certifies its position once a second; one unseen for so long is no longer there.
const ALIVE: &str = "30 seconds";

/// For the look at the database, in all.
const LOOK_DEADLINE: Duration = Duration::from_secs(30);

/// What to detach.
#[derive(Debug, Clone)]
pub struct Request {
    /// The table that the feed must watch; whichever it watches when there is none.
    pub table: Option<TableName>,
    /// Also under services that follow the feed.
    pub force: bool,
    /// How long to wait for the table.
    pub wait: LockWait,
}

/// What is to be done, found out by a look that changed nothing.
#[derive(Debug)]
pub struct Plan {
    connection: PgConnection,
    wait: LockWait,
    /// The tables that carry triggers of the feed, for people.
    pub tables: Vec<String>,
    /// `None` when there is no feed.
    pub script: Option<Script>,
}

/// Looks at the database.
///
/// # Errors
/// [`StoreError::Unfit`] says what stands in the way.
pub async fn plan(options: &PgConnectOptions, request: &Request) -> Result<Plan, StoreError> {
    let options = options.clone().application_name("namegate detach");
    let connection = connection::open(&options, Duration::from_secs(5)).await?;
    match timeout(LOOK_DEADLINE, look(connection, request)).await {
        Ok(plan) => plan,
        Err(_elapsed) => Err(StoreError::Overdue(LOOK_DEADLINE)),
    }
}

impl Plan {
    /// Does it. `waits` is called whenever a table is busy and has to be waited for.
    ///
    /// # Errors
    /// [`ScriptError`]; nothing has changed then.
    pub async fn run(&mut self, waits: &(dyn Fn() + Sync)) -> Result<(), ScriptError> {
        match &self.script {
            Some(script) => script.run(&mut self.connection, self.wait, waits).await,
            None => Ok(()),
        }
    }
}

async fn look(mut connection: PgConnection, request: &Request) -> Result<Plan, StoreError> {
    fitness::server(&mut connection).await?;
    if !is_there(&mut connection).await? {
        return Ok(Plan {
            connection,
            wait: request.wait,
            tables: Vec::new(),
            script: None,
        });
    }
    let watched = watched(&mut connection, request.table.as_ref()).await?;
    if !request.force {
        refuse_under_services(&mut connection).await?;
    }
    let triggers = triggers(&mut connection).await?;
    let mut tables: Vec<String> = triggers.iter().map(|(table, _)| table.clone()).collect();
    tables.dedup();
    let mut steps = Vec::new();
    if !tables.is_empty() {
        // All at once and before anything else: in the order in which writers come, first their table, then the outbox.
        steps.push(format!(
            "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE;",
            tables.join(", ")
        ));
    }
    for (table, trigger) in triggers {
        steps.push(format!("DROP TRIGGER {trigger} ON {table};"));
    }
    if let Some((table, column)) = watched {
        steps.extend(revocations(&mut connection, &table, &column).await?);
    }
    steps.extend(OBJECTS.map(str::to_owned));
    Ok(Plan {
        connection,
        wait: request.wait,
        tables,
        script: Some(Script::new(request.wait, &steps)),
    })
}

/// Whether there is a feed, which must be one that may be taken away.
async fn is_there(connection: &mut PgConnection) -> Result<bool, StoreError> {
    let (has_meta, is_migrated, is_complete, is_owned): (bool, bool, bool, bool) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE c.relname = 'meta') > 0,
                count(*) FILTER (WHERE c.relname = 'migrations') > 0,
                count(*) FILTER (WHERE c.relname IN ('meta', 'outbox', 'consumer', 'granted')) = 4,
                coalesce(bool_and(pg_has_role(n.nspowner, 'USAGE')), true)
           FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r'
          WHERE n.nspname = 'namegate'",
    )
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    if !has_meta {
        return Ok(false);
    }
    if is_migrated {
        return unfit(
            "the change feed of this database came with the sample table of `namegate migrate`, whose rows it fills in; \
             they go together: DROP TABLE users; DROP SCHEMA namegate CASCADE",
        );
    }
    if !is_owned {
        return unfit(
            "the change feed of this database is owned by another role: detach as that one",
        );
    }
    if !is_complete {
        return unfit(
            "the schema `namegate` is not as namegate made it, and is left as it is: look into it, then DROP SCHEMA \
             namegate CASCADE",
        );
    }
    Ok(true)
}

/// What is watched, table and column quoted; `None` when the table is gone. It must be `demanded`, where that is given.
async fn watched(
    connection: &mut PgConnection,
    demanded: Option<&TableName>,
) -> Result<Option<(String, String)>, StoreError> {
    let row = sqlx::query(
        "SELECT source_table, quote_ident(source_column), to_regclass(source_table) IS NOT NULL,
                $1::text IS NULL OR to_regclass(source_table) IS NOT DISTINCT FROM to_regclass($1)
           FROM namegate.meta",
    )
    .bind(demanded.map(ToString::to_string))
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    let text = |at| row.try_get::<Option<String>, _>(at).map_err(classify);
    let fact = |at| row.try_get::<bool, _>(at).map_err(classify);
    if let (Some(demanded), false) = (demanded, fact(3)?) {
        return unfit(format!(
            "the change feed of this database does not watch {demanded} but {}",
            text(0)?.unwrap_or_else(|| "nothing".into())
        ));
    }
    if !fact(2)? {
        return Ok(None);
    }
    Ok(text(0)?.zip(text(1)?))
}

async fn refuse_under_services(connection: &mut PgConnection) -> Result<(), StoreError> {
    let following: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM namegate.consumer WHERE seen > clock_timestamp() - $1::text::interval",
    )
    .bind(ALIVE)
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    match following {
        0 => Ok(()),
        1 => unfit(format!(
            "a service follows this change feed, or did so less than {ALIVE} ago: stop it first, or pass --force"
        )),
        many => unfit(format!(
            "{many} filters follow this change feed, or did so less than {ALIVE} ago: stop their services first, or pass \
             --force"
        )),
    }
}

/// (table, trigger), both quoted, wherever they are: the table may have been renamed since. Without the copies on
/// partitions, which go with the original.
async fn triggers(connection: &mut PgConnection) -> Result<Vec<(String, String)>, StoreError> {
    sqlx::query_as(
        "SELECT format('%I.%I', n.nspname, c.relname), quote_ident(t.tgname)
           FROM pg_trigger t
           JOIN pg_class c ON c.oid = t.tgrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE t.tgfoid = 'namegate.capture()'::regprocedure AND t.tgparentid = 0
          ORDER BY c.oid, t.tgname",
    )
    .fetch_all(connection)
    .await
    .map_err(classify)
}

async fn revocations(
    connection: &mut PgConnection,
    table: &str,
    column: &str,
) -> Result<Vec<String>, StoreError> {
    let granted: Vec<(String, bool, bool, String)> = sqlx::query_as(
        "SELECT g.grantee::text, g.on_schema, g.on_column, quote_ident(n.nspname)
           FROM namegate.granted g
           JOIN pg_roles r ON r.rolname = g.grantee
           JOIN pg_class c ON c.oid = to_regclass($1)
           JOIN pg_namespace n ON n.oid = c.relnamespace
          ORDER BY g.grantee",
    )
    .bind(table)
    .fetch_all(connection)
    .await
    .map_err(classify)?;
    let mut statements = Vec::new();
    for (grantee, on_schema, on_column, schema) in granted {
        let role = Identifier::new(&grantee)
            .map_err(|_| StoreError::Garbled("a role that has no name"))?;
        if on_column {
            statements.push(format!("REVOKE SELECT ({column}) ON {table} FROM {role};"));
        }
        if on_schema {
            statements.push(format!("REVOKE USAGE ON SCHEMA {schema} FROM {role};"));
        }
    }
    Ok(statements)
}

fn unfit<T>(why: impl Into<String>) -> Result<T, StoreError> {
    Err(StoreError::Unfit(why.into()))
}
