//! The table to attach to: what the catalog says of it, and why it may not be watched.

use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::gate::StoreError;
use crate::store::postgres::Watched;
use crate::store::postgres::attach::unfit;
use crate::store::postgres::errors::classify;
use crate::store::postgres::ident::TableName;

/// The table as the catalog describes it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts that have nothing to do with one another"
)]
pub(super) struct Target {
    /// Quoted, with its schema.
    pub(super) table: String,
    /// Quoted.
    pub(super) schema: String,
    kind: String,
    persistence: String,
    is_partition: bool,
    is_ours: bool,
    is_system: bool,
    is_owned: bool,
    pub(super) has_row_security: bool,
    hides_rows: bool,
    has_other_triggers: bool,
    /// Tables under it that no trigger can watch for us, or that are somebody else's; for people.
    odd_members: Option<String>,
    pub(super) has_column: bool,
}

impl Target {
    pub(super) async fn find(
        connection: &mut PgConnection,
        watched: &Watched,
    ) -> Result<Self, StoreError> {
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
            has_column: fact(12)?,
        })
    }

    pub(super) fn refuse_what_cannot_be_watched(&self) -> Result<(), StoreError> {
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

    pub(super) fn refuse_other_triggers(&self) -> Result<(), StoreError> {
        if self.has_other_triggers {
            return unfit(format!(
                "{} has triggers with names of namegate's, and this database has no change feed: drop namegate_insert, \
                 namegate_update, namegate_delete and namegate_truncate first",
                self.table
            ));
        }
        Ok(())
    }

    pub(super) async fn refuse_without_rights(
        &self,
        connection: &mut PgConnection,
    ) -> Result<(), StoreError> {
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
