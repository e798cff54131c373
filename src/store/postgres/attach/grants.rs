//! The rights that the role of a service needs.

use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::gate::StoreError;
use crate::store::postgres::Watched;
use crate::store::postgres::attach::target::Target;
use crate::store::postgres::attach::unfit;
use crate::store::postgres::errors::classify;
use crate::store::postgres::ident::{Identifier, quote_literal};

/// What a service calls.
const FUNCTIONS: &str = "namegate.watched(), namegate.watched_tree(), namegate.armed_triggers(), \
     namegate.fingerprint(), namegate.poll(uuid, xid8, xid8[]), namegate.register(uuid, uuid), \
     namegate.certify(uuid, uuid, pg_snapshot), namegate.unregister(uuid), \
     namegate.prune(interval, interval, int), namegate.place(uuid, uuid, pg_snapshot), \
     namegate.resume(uuid, uuid, uuid, uuid)";

/// The rights that a service's role needs and does not have.
pub(super) struct Grants {
    pub(super) statements: Vec<String>,
    /// Remembers those outside the schema `namegate`, so that detaching takes back no others.
    pub(super) record: Option<String>,
}

impl Grants {
    /// For the role that is yet to be named.
    pub(super) fn all(target: &Target, watched: &Watched) -> Self {
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

    pub(super) async fn missing(
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
