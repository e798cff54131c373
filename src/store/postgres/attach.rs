//! Installing the change feed on a table that is somebody else's.
//!
//! ```text
//!   look    server, table, column, unique index, owner, rights, what is installed already: refuse in words
//!   try     the column's equality on the filter's fold
//!   plan    one SQL text: the feed's migrations, one call of namegate.watch, the grants
//!   run     that text; or print it
//! ```
//!
//! The feed is made by the same files as `migrate` makes it with. Only the sample table's own step is left out.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use tokio::time::timeout;

use crate::gate::StoreError;
use crate::store::postgres::equality::{self, Equality};
use crate::store::postgres::errors::classify;
use crate::store::postgres::ident::{Identifier, TableName, quote_literal};
use crate::store::postgres::script::{LockWait, Script, ScriptError};
use crate::store::postgres::{Watched, connection, fitness};

/// The steps of `migrations/postgres` that make the feed, in order; the others make the sample table.
const FEED: [&str; 3] = [
    include_str!("../../../migrations/postgres/0001_feed.sql"),
    include_str!("../../../migrations/postgres/0003_attach.sql"),
    include_str!("../../../migrations/postgres/0005_bookmarks.sql"),
];

/// What `namegate.meta` says when all of them have been taken.
const VERSION: i32 = 5;

/// What a service calls.
const FUNCTIONS: &str = "namegate.watched(), namegate.watched_tree(), namegate.armed_triggers(), \
     namegate.fingerprint(), namegate.poll(uuid, xid8, xid8[]), namegate.register(uuid, uuid), \
     namegate.certify(uuid, uuid, pg_snapshot), namegate.unregister(uuid), namegate.prune(interval, interval, int)";

/// For the look at the database, in all.
const LOOK_DEADLINE: Duration = Duration::from_secs(30);

/// What to attach to.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which column of which table.
    pub watched: Watched,
    /// The role that will run the service, to be given its rights.
    pub role: Option<Identifier>,
    /// How long to wait for the table.
    pub wait: LockWait,
}

/// What is to be done, found out by a look that changed nothing.
#[derive(Debug)]
pub struct Plan {
    connection: PgConnection,
    wait: LockWait,
    /// The table, quoted, with its schema.
    pub table: String,
    /// How names are compared.
    pub equality: String,
    /// Whether the feed is in place and watches this very column.
    pub is_attached: bool,
    /// The rights a service needs: SQL, one statement a line; with a placeholder where no role was named.
    pub grants: Vec<String>,
    /// What people should know.
    pub notes: Vec<String>,
    /// `None` when nothing is left to do.
    pub script: Option<Script>,
}

/// Looks at the database.
///
/// # Errors
/// [`StoreError::Unfit`] says what does not fit, and what to do.
pub async fn plan(options: &PgConnectOptions, request: &Request) -> Result<Plan, StoreError> {
    let options = options.clone().application_name("namegate attach");
    let connection = connection::open(&options, Duration::from_secs(5)).await?;
    match timeout(LOOK_DEADLINE, look(connection, request)).await {
        Ok(plan) => plan,
        Err(_elapsed) => Err(StoreError::Overdue(LOOK_DEADLINE)),
    }
}

impl Plan {
    /// Does it. `waits` is called whenever the table is busy and has to be waited for.
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
    let Request {
        watched,
        role,
        wait,
    } = request;
    fitness::server(&mut connection).await?;
    let target = Target::find(&mut connection, watched).await?;
    target.refuse_what_cannot_be_watched()?;
    if !target.has_column {
        return unfit(format!(
            "the table {} has no column {}: name the right one with --column",
            target.table, watched.column
        ));
    }
    let equality = equality::detect(
        &mut connection,
        &target.table,
        &watched.column,
        watched.equality,
    )
    .await?;
    equality::check::verify(&mut connection, &target.table, &equality).await?;
    let is_attached = match Feed::find(&mut connection).await? {
        Feed::Absent => false,
        Feed::Watches { table, column } => {
            refuse_another(&target, &watched.column, &table, &column)?;
            true
        }
    };
    if !is_attached {
        target.refuse_other_triggers()?;
        target.refuse_without_rights(&mut connection).await?;
    }
    let grants = match role {
        Some(role) => Grants::missing(&mut connection, &target, watched, role).await?,
        None => Grants::all(&target, watched),
    };
    let mut steps = Vec::new();
    if !is_attached {
        steps.extend(FEED.map(str::to_owned));
        steps.push(format!(
            "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE;",
            target.table
        ));
        steps.push(format!(
            "SELECT namegate.watch({}, {});",
            quote_literal(&target.table),
            quote_literal(watched.column.name())
        ));
    }
    if role.is_some() {
        steps.extend(grants.statements.iter().cloned());
        steps.extend(grants.record.clone());
    }
    Ok(Plan {
        connection,
        wait: *wait,
        equality: equality.describe(),
        is_attached,
        notes: notes(&target, &equality, role.is_some()),
        grants: grants.statements,
        script: (!steps.is_empty()).then(|| Script::new(*wait, &steps)),
        table: target.table,
    })
}

fn notes(target: &Target, equality: &Equality, is_role_checked: bool) -> Vec<String> {
    let mut notes: Vec<String> = equality.note_on_length().into_iter().collect();
    if target.has_row_security && !is_role_checked {
        notes.push(format!(
            "row-level security is on for {}: the service's role must be one that it does not hide rows from \
             (ALTER ROLE ... BYPASSRLS)",
            target.table
        ));
    }
    notes
}

fn refuse_another(
    target: &Target,
    column: &Identifier,
    watched_table: &str,
    watched_column: &str,
) -> Result<(), StoreError> {
    if target.is_watched && watched_column == column.name() {
        Ok(())
    } else {
        unfit(format!(
            "the change feed of this database watches {watched_table}, column {watched_column:?}, and there is one feed \
             a database: run `namegate detach` first to watch {}.{column} instead",
            target.table
        ))
    }
}

/// The table as the catalog describes it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts that have nothing to do with one another"
)]
struct Target {
    /// Quoted, with its schema.
    table: String,
    /// Quoted.
    schema: String,
    kind: String,
    persistence: String,
    is_partition: bool,
    is_ours: bool,
    is_system: bool,
    is_owned: bool,
    has_row_security: bool,
    hides_rows: bool,
    has_other_triggers: bool,
    /// Tables under it that no trigger can watch for us, or that are somebody else's; for people.
    odd_members: Option<String>,
    is_watched: bool,
    has_column: bool,
}

impl Target {
    async fn find(connection: &mut PgConnection, watched: &Watched) -> Result<Self, StoreError> {
        let Watched { table, column, .. } = watched;
        let row = sqlx::query(
            "WITH RECURSIVE tree (oid) AS (
                 SELECT to_regclass($1)::oid
                 UNION
                 SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid
             )
             SELECT format('%I.%I', n.nspname, c.relname), quote_ident(n.nspname),
                    c.relkind::text, c.relpersistence::text, c.relispartition,
                    n.nspname = 'namegate', n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast'),
                    pg_has_role(c.relowner, 'USAGE'), c.relrowsecurity, row_security_active(c.oid),
                    EXISTS (SELECT FROM pg_trigger t JOIN tree ON tree.oid = t.tgrelid
                             WHERE t.tgname IN ('namegate_insert', 'namegate_update', 'namegate_delete', 'namegate_truncate')),
                    (SELECT string_agg(m.oid::regclass::text, ', ') FROM tree JOIN pg_class m ON m.oid = tree.oid
                      WHERE m.relkind NOT IN ('r', 'p') OR m.relpersistence <> 'p' OR NOT pg_has_role(m.relowner, 'USAGE')),
                    EXISTS (SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
                              JOIN pg_namespace pn ON pn.oid = p.pronamespace
                             WHERE t.tgrelid = c.oid AND pn.nspname = 'namegate' AND p.proname = 'capture'),
                    EXISTS (SELECT FROM pg_attribute a
                             WHERE a.attrelid = c.oid AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped)
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE c.oid = to_regclass($1)",
        )
        .bind(table.to_string())
        .bind(column.name())
        .fetch_optional(connection)
        .await
        .map_err(|error| without_the_schema(error, table))?;
        let Some(row) = row else {
            return unfit(format!(
                "there is no table {table}: name it as psql's \\d shows it, with its schema where that is not in the \
                 search path"
            ));
        };
        let text = |at| row.try_get::<String, _>(at).map_err(classify);
        let fact = |at| row.try_get::<bool, _>(at).map_err(classify);
        Ok(Self {
            table: text(0)?,
            schema: text(1)?,
            kind: text(2)?,
            persistence: text(3)?,
            is_partition: fact(4)?,
            is_ours: fact(5)?,
            is_system: fact(6)?,
            is_owned: fact(7)?,
            has_row_security: fact(8)?,
            hides_rows: fact(9)?,
            has_other_triggers: fact(10)?,
            odd_members: row.try_get(11).map_err(classify)?,
            is_watched: fact(12)?,
            has_column: fact(13)?,
        })
    }

    fn refuse_what_cannot_be_watched(&self) -> Result<(), StoreError> {
        let table = &self.table;
        let what = match self.kind.as_str() {
            "r" | "p" => None,
            "v" | "m" => Some("a view: no trigger sees its rows change; name the table behind it"),
            "f" => Some("a foreign table: whoever writes to it elsewhere passes by its triggers"),
            _ => Some("no table"),
        };
        if let Some(what) = what {
            return unfit(format!("{table} is {what}"));
        }
        if self.is_ours {
            return unfit(format!("{table} is a table of namegate's own"));
        }
        if self.is_system {
            return unfit(format!("{table} is a table of the system's own"));
        }
        if self.is_partition {
            return unfit(format!(
                "{table} is a partition: attach to the partitioned table, whose other partitions hold names too"
            ));
        }
        match self.persistence.as_str() {
            "u" => {
                return unfit(format!(
                    "{table} is unlogged: a crash empties it, and no trigger tells; ALTER TABLE {table} SET LOGGED"
                ));
            }
            "t" => {
                return unfit(format!(
                    "{table} is temporary: only its own session sees it"
                ));
            }
            _ => {}
        }
        if !self.is_owned {
            return unfit(format!(
                "the role does not own {table}, and only its owner can install triggers that always fire: attach as the owner"
            ));
        }
        if let Some(members) = &self.odd_members {
            return unfit(format!(
                "under {table} there are tables that cannot be watched, being foreign, unlogged or owned by another role: {members}"
            ));
        }
        if self.hides_rows {
            return unfit(format!(
                "row-level security hides rows of {table} even from this role: namegate has to see every row"
            ));
        }
        Ok(())
    }

    fn refuse_other_triggers(&self) -> Result<(), StoreError> {
        if self.has_other_triggers {
            return unfit(format!(
                "{} has triggers with names of namegate's, and this database has no change feed: drop namegate_insert, \
                 namegate_update, namegate_delete and namegate_truncate first",
                self.table
            ));
        }
        Ok(())
    }

    async fn refuse_without_rights(&self, connection: &mut PgConnection) -> Result<(), StoreError> {
        let (may_create, role, database): (bool, String, String) = sqlx::query_as(
            "SELECT has_database_privilege(current_database(), 'CREATE'), quote_ident(current_user),
                    quote_ident(current_database())",
        )
        .fetch_one(connection)
        .await
        .map_err(classify)?;
        if may_create {
            Ok(())
        } else {
            unfit(format!(
                "the role may not create a schema in this database: GRANT CREATE ON DATABASE {database} TO {role}"
            ))
        }
    }
}

fn without_the_schema(error: sqlx::Error, table: &TableName) -> StoreError {
    match classify(error) {
        StoreError::Unfit(_) => StoreError::Unfit(format!(
            "the role may not look into the schema of {table}: attach as the table's owner"
        )),
        other => other,
    }
}

/// What of ours is in the database.
enum Feed {
    Absent,
    Watches { table: String, column: String },
}

impl Feed {
    async fn find(connection: &mut PgConnection) -> Result<Self, StoreError> {
        let (has_objects, has_meta, is_readable): (bool, bool, bool) = sqlx::query_as(
            "SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid)
                    OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = n.oid),
                    EXISTS (SELECT FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
                             WHERE c.relnamespace = n.oid AND c.relname = 'meta' AND a.attname = 'source_table'),
                    n.oid IS NULL OR pg_has_role(n.nspowner, 'USAGE')
               FROM (SELECT 1) AS always LEFT JOIN pg_namespace n ON n.nspname = 'namegate'",
        )
        .fetch_one(&mut *connection)
        .await
        .map_err(classify)?;
        if !has_objects {
            return Ok(Self::Absent);
        }
        if !has_meta {
            return unfit(
                "a schema `namegate` exists already and was not made by namegate; it is left as it is",
            );
        }
        if !is_readable {
            return unfit(
                "the change feed of this database is owned by another role: attach as that one",
            );
        }
        let row: PgRow = sqlx::query(
            "SELECT source_table, source_column::text, (to_jsonb(m) ->> 'version')::int FROM namegate.meta m",
        )
        .fetch_one(connection)
        .await
        .map_err(classify)?;
        let text = |at| row.try_get::<Option<String>, _>(at).map_err(classify);
        let version = row.try_get::<Option<i32>, _>(2).map_err(classify)?;
        match (text(0)?, text(1)?, version) {
            (Some(table), Some(column), Some(VERSION)) => Ok(Self::Watches { table, column }),
            (_, _, None) => unfit(
                "the change feed was installed by an older version of namegate: run `namegate migrate` to bring it up to date",
            ),
            (Some(_), Some(_), Some(found)) => unfit(format!(
                "the change feed was installed by another version of namegate (feed {found}, this one knows {VERSION}): \
                 use that version, or detach with it first"
            )),
            _ => unfit(
                "the change feed of this database watches nothing: run `namegate detach` first",
            ),
        }
    }
}

/// The rights that a service's role needs and does not have.
struct Grants {
    statements: Vec<String>,
    /// Remembers those outside the schema `namegate`, so that detaching takes back no others.
    record: Option<String>,
}

impl Grants {
    /// For the role that is yet to be named.
    fn all(target: &Target, watched: &Watched) -> Self {
        let to = "gate";
        Self {
            statements: vec![
                on_schema(target, to),
                on_column(target, watched, to),
                on_feed_schema(to),
                on_functions(to),
            ],
            record: None,
        }
    }

    async fn missing(
        connection: &mut PgConnection,
        target: &Target,
        watched: &Watched,
        role: &Identifier,
    ) -> Result<Self, StoreError> {
        let row = sqlx::query(
            "SELECT has_schema_privilege(r.oid, n.oid, 'USAGE'), has_column_privilege(r.oid, c.oid, $3::text, 'SELECT'),
                    c.relrowsecurity AND NOT (r.rolsuper OR r.rolbypassrls
                        OR (pg_has_role(r.oid, c.relowner, 'USAGE') AND NOT c.relforcerowsecurity)),
                    has_schema_privilege(n.oid, 'USAGE WITH GRANT OPTION'),
                    coalesce(has_schema_privilege(r.oid, (SELECT oid FROM pg_namespace WHERE nspname = 'namegate'), 'USAGE'), false),
                    coalesce((SELECT bool_and(has_function_privilege(r.oid, p.oid, 'EXECUTE'))
                                FROM pg_proc p JOIN pg_namespace f ON f.oid = p.pronamespace
                               WHERE f.nspname = 'namegate' AND p.proname IN ('watched', 'watched_tree', 'armed_triggers',
                                     'fingerprint', 'poll', 'register', 'certify', 'unregister', 'prune')), false)
               FROM pg_roles r, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE r.rolname = $1 AND c.oid = to_regclass($2)",
        )
        .bind(role.name())
        .bind(&target.table)
        .bind(watched.column.name())
        .fetch_optional(connection)
        .await
        .map_err(classify)?;
        let Some(row) = row else {
            return unfit(format!(
                "there is no role {role}: CREATE ROLE {role} LOGIN, or name another with --role"
            ));
        };
        let fact = |at| row.try_get::<bool, _>(at).map_err(classify);
        if fact(2)? {
            return unfit(format!(
                "row-level security hides rows of {} from the role {role}: ALTER ROLE {role} BYPASSRLS, or name another \
                 with --role",
                target.table
            ));
        }
        let (needs_schema, needs_column) = (!fact(0)?, !fact(1)?);
        if needs_schema && !fact(3)? {
            return unfit(format!(
                "the role {role} may not look into the schema {0}, and this role may not let it: the schema's owner has to \
                 GRANT USAGE ON SCHEMA {0} TO {role}",
                target.schema
            ));
        }
        let to = role.to_string();
        let mut statements = Vec::new();
        if needs_schema {
            statements.push(on_schema(target, &to));
        }
        if needs_column {
            statements.push(on_column(target, watched, &to));
        }
        if !fact(4)? || !fact(5)? {
            statements.push(on_feed_schema(&to));
            statements.push(on_functions(&to));
        }
        let record = (needs_schema || needs_column).then(|| {
            format!(
                "INSERT INTO namegate.granted AS before (grantee, on_schema, on_column)\n\
                 VALUES ({}, {needs_schema}, {needs_column})\n\
                 ON CONFLICT (grantee) DO UPDATE SET on_schema = before.on_schema OR excluded.on_schema,\n\
                 \x20                                   on_column = before.on_column OR excluded.on_column;",
                quote_literal(role.name())
            )
        });
        Ok(Self { statements, record })
    }
}

fn on_schema(target: &Target, to: &str) -> String {
    format!("GRANT USAGE ON SCHEMA {} TO {to};", target.schema)
}

fn on_column(target: &Target, watched: &Watched, to: &str) -> String {
    format!(
        "GRANT SELECT ({}) ON {} TO {to};",
        watched.column, target.table
    )
}

fn on_feed_schema(to: &str) -> String {
    format!("GRANT USAGE ON SCHEMA namegate TO {to};")
}

fn on_functions(to: &str) -> String {
    format!("GRANT EXECUTE ON FUNCTION {FUNCTIONS} TO {to};")
}

fn unfit<T>(why: impl Into<String>) -> Result<T, StoreError> {
    Err(StoreError::Unfit(why.into()))
}
