//! What a database holds, as text, so that two states can be compared line by line.

use std::collections::BTreeSet;

use sqlx::AssertSqlSafe;

use crate::support::postgres::Database;

/// Every object by its name and definition: the same for two databases that were made in different ways.
const DEFINITIONS: &str = r"
    SELECT format('schema %s owner %s', nspname, nspowner::regrole) FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL
    SELECT format('%s %s.%s %s', c.relkind, n.nspname, c.relname, c.relpersistence)
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname !~ '^pg_|^information_schema'
    UNION ALL
    SELECT format('column %s.%s %s %s %s %s', a.attrelid::regclass, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                  a.attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid))
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE n.nspname !~ '^pg_|^information_schema' AND a.attnum > 0 AND c.relkind IN ('r', 'p')
    UNION ALL
    SELECT pg_get_functiondef(p.oid) || coalesce(p.proacl::text, '')
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname !~ '^pg_|^information_schema' AND p.prokind = 'f'
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
    UNION ALL
    SELECT format('%s %s', pg_get_triggerdef(t.oid), t.tgenabled) FROM pg_trigger t WHERE NOT t.tgisinternal
    UNION ALL
    SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname !~ '^pg_|^information_schema'
    UNION ALL
    SELECT format('%s: %s', k.conrelid::regclass, pg_get_constraintdef(k.oid)) FROM pg_constraint k WHERE k.conrelid <> 0
    UNION ALL
    SELECT to_jsonb(m)::text FROM namegate.meta m
    UNION ALL
    SELECT to_jsonb(g)::text FROM namegate.granted g
";

/// Every row of the catalogs that an object could leave a trace in, by its object id.
/// Left out is what says nothing: statistics, `relhastriggers`, which VACUUM sets right, and an access list that is
/// written out but grants what is granted without one.
const ROWS: &str = r#"
    SELECT format('namespace %s %s', oid, nspname) FROM pg_namespace
    UNION ALL
    SELECT format('class %s %s %s %s %s', oid, relname, relowner, relfilenode, relkind) FROM pg_class
    UNION ALL
    SELECT format('attribute %s %s %s', attrelid, attnum, attacl) FROM pg_attribute
    UNION ALL
    SELECT format('type %s %s', oid, typname) FROM pg_type
    UNION ALL
    SELECT format('proc %s %s', oid, proname) FROM pg_proc
    UNION ALL
    SELECT format('trigger %s %s %s', oid, tgname, tgenabled) FROM pg_trigger
    UNION ALL
    SELECT format('constraint %s %s', oid, conname) FROM pg_constraint
    UNION ALL
    SELECT format('default %s', oid) FROM pg_attrdef
    UNION ALL
    SELECT format('index %s %s', indexrelid, indisvalid) FROM pg_index
    UNION ALL
    SELECT format('depend %s', d) FROM pg_depend d
    UNION ALL
    SELECT format('shared depend %s', d) FROM pg_shdepend d
     WHERE d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT format('description %s %s', objoid, description) FROM pg_description WHERE classoid <> 0
    UNION ALL
    SELECT format('right on schema %s: %s', n.nspname, acl)
      FROM pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS acl
    UNION ALL
    SELECT format('right on %s: %s', c.oid::regclass, acl)
      FROM pg_class c,
           aclexplode(coalesce(c.relacl, acldefault((CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char", c.relowner))) AS acl
"#;

pub(super) async fn definitions(database: &Database) -> BTreeSet<String> {
    lines(database, DEFINITIONS).await
}

pub(super) async fn rows(database: &Database) -> BTreeSet<String> {
    lines(database, ROWS).await
}

/// What the one set has and the other has not, for a message.
pub(super) fn difference(left: &BTreeSet<String>, right: &BTreeSet<String>) -> String {
    let only = |these: &BTreeSet<String>, those: &BTreeSet<String>, sign: &str| {
        let lines = these.difference(those).map(|line| format!("{sign} {line}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    format!("{}\n{}", only(left, right, "-"), only(right, left, "+"))
}

async fn lines(database: &Database, sql: &str) -> BTreeSet<String> {
    let lines: Vec<Option<String>> = sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_all(&mut database.session().await)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert!(lines.len() > 10);
    lines.into_iter().flatten().collect()
}
