//! The fold is at least as coarse as what a live PostgreSQL calls equal: every scalar value, and characters in the
//! company in which case rules look around themselves.

use std::collections::HashMap;

use namegate::names::{FilterKey, fold_probes};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::support::postgres::{Cluster, Database, TURKISH};

/// Collations whose case rules differ, as far as this server has them.
const COLLATIONS: [&str; 6] = [
    "C",
    "C.utf8",
    "und-x-icu",
    "tr-x-icu",
    "lt-x-icu",
    "el-x-icu",
];

/// What a character is put beside: letters with rules of their own, marks that change a neighbour, ends of words.
const COMPANY: [&str; 20] = [
    "Σ", "σ", "ς", "Α", "I", "i", "ı", "İ", "J", "\u{307}", "\u{301}", "\u{300}", "\u{345}", "ß",
    "ﬁ", "a", "1", ".", " ", "\u{ad}",
];

async fn collations(session: &mut PgConnection) -> Vec<&'static str> {
    let known: Vec<String> = sqlx::query_scalar(
        "SELECT collname::text FROM pg_collation WHERE collencoding IN (-1, 6) AND collisdeterministic",
    )
    .fetch_all(session)
    .await
    .expect("the catalog");
    let is_known = |name: &&str| known.iter().any(|known| known == name);
    COLLATIONS.into_iter().filter(is_known).collect()
}

/// What each rule makes of `texts`, where it changes anything: (text, rule, changed).
async fn changed(
    session: &mut PgConnection,
    texts: &[String],
    rules: &[String],
) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for rule in rules {
        let statement = format!(
            r#"SELECT t, r FROM (SELECT t, {rule} AS r FROM unnest($1::text[]) AS t OFFSET 0) AS ruled
                WHERE r COLLATE "C" <> t COLLATE "C""#
        );
        let rows = sqlx::query(AssertSqlSafe(statement))
            .bind(texts)
            .fetch_all(&mut *session)
            .await
            .unwrap_or_else(|error| panic!("{rule}: {error}"));
        let text = |row: &sqlx::postgres::PgRow, at: usize| row.get::<String, _>(at);
        all.extend(
            rows.iter()
                .map(|row| (text(row, 0), rule.clone(), text(row, 1))),
        );
    }
    all
}

/// Lower, upper and title case under every collation, in this database's own, and `normalize`.
fn rules(collations: &[&str]) -> Vec<String> {
    let mut rules: Vec<String> = ["NFC", "NFD", "NFKC", "NFKD"]
        .map(|form| format!("normalize(t, {form})"))
        .to_vec();
    for function in ["lower", "upper", "initcap"] {
        rules.push(format!("{function}(t)"));
        for collation in collations {
            rules.push(format!(r#"{function}(t COLLATE "{collation}")"#));
        }
    }
    rules
}

#[track_caller]
fn all_share_their_key(changed: &[(String, String, String)]) {
    let finer: Vec<_> = changed
        .iter()
        .filter(|(text, _, changed)| FilterKey::of(text) != FilterKey::of(changed))
        .take(10)
        .collect();
    assert!(finer.is_empty(), "the fold tells apart: {finer:?}");
}

/// Every character but NUL, which no text in PostgreSQL holds.
fn every_character() -> impl Iterator<Item = char> {
    '\u{1}'..=char::MAX
}

/// Databases whose own locale differs: what plain `lower` and `citext` go by.
async fn databases() -> Vec<Database> {
    let cluster = Cluster::shared().await;
    let libc = "TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C.UTF-8'";
    let root = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'und'";
    let lithuanian = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'lt'";
    let mut databases = Vec::new();
    for (prefix, options) in [
        ("foldlibc", libc),
        ("foldroot", root),
        ("foldtr", TURKISH),
        ("foldlt", lithuanian),
    ] {
        databases.push(cluster.database_with(prefix, options).await);
    }
    databases
}

#[tokio::test]
async fn no_rule_of_postgresql_changes_the_key_of_any_character() {
    let characters: Vec<String> = every_character().map(String::from).collect();
    assert_eq!(characters.len(), 1_112_063);
    let mut seen = 0;
    for database in databases().await {
        let mut session = database.session().await;
        let collations = collations(&mut session).await;
        assert!(collations.contains(&"C.utf8") && collations.contains(&"tr-x-icu"));
        // The collations are the same in every database, its own rule is not.
        let rules = match seen {
            0 => rules(&collations),
            _ => rules(&[]),
        };
        for texts in characters.chunks(100_000) {
            let changed = changed(&mut session, texts, &rules).await;
            all_share_their_key(&changed);
            seen += changed.len();
        }
    }
    assert!(
        seen > 50_000,
        "only {seen} characters were changed by a rule"
    );
}

#[tokio::test]
async fn no_rule_of_postgresql_changes_the_key_of_a_character_in_company() {
    // Those that a case rule or a mark can touch at all; the others were seen alone.
    let touchy: Vec<char> = every_character()
        .filter(|c| {
            let alone = c.to_string();
            alone.to_lowercase() != alone
                || alone.to_uppercase() != alone
                || ('\u{300}'..='\u{36f}').contains(c)
                || ('\u{1e00}'..='\u{1fff}').contains(c)
                || ('\u{fb00}'..='\u{fb06}').contains(c)
        })
        .collect();
    let texts: Vec<String> = touchy
        .iter()
        .flat_map(|c| {
            COMPANY
                .iter()
                .flat_map(move |it| [format!("{it}{c}"), format!("{c}{it}"), format!("a{c}{it}Σ")])
        })
        .collect();
    assert!(texts.len() > 100_000, "{}", texts.len());
    let mut seen = 0;
    for database in databases().await {
        let mut session = database.session().await;
        let collations = collations(&mut session).await;
        let rules = match seen {
            0 => rules(&collations),
            _ => rules(&[]),
        };
        for texts in texts.chunks(50_000) {
            let changed = changed(&mut session, texts, &rules).await;
            all_share_their_key(&changed);
            seen += changed.len();
        }
    }
    assert!(seen > 500_000, "only {seen} texts were changed by a rule");
}

/// Equality itself, not the mapping behind it: `citext` in each database, and collations that call more equal.
#[tokio::test]
async fn what_postgresql_calls_equal_has_one_key() {
    let mut texts: Vec<String> = fold_probes().collect();
    for first in COMPANY {
        for second in COMPANY {
            texts.extend(COMPANY.map(|third| format!("{first}{second}{third}")));
        }
    }
    for database in databases().await {
        database
            .execute(
                "CREATE EXTENSION citext;
                 CREATE COLLATION ignores_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
                 CREATE COLLATION ignores_accents (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
                 CREATE COLLATION ignores_case_tr (provider = icu, locale = 'tr-u-ks-level2', deterministic = false)",
            )
            .await;
        let mut session = database.session().await;
        for equality in [
            "t::citext",
            "t COLLATE ignores_case",
            "t COLLATE ignores_accents",
            "t COLLATE ignores_case_tr",
        ] {
            let groups = groups(&mut session, &texts, equality).await;
            let mut merged = 0;
            for group in &groups {
                let mut keys: HashMap<FilterKey, &str> = HashMap::new();
                for text in group {
                    keys.insert(FilterKey::of(text), text);
                }
                assert!(
                    keys.len() <= 1,
                    "{equality} in {}: {group:?}",
                    database.name
                );
                merged += group.len();
            }
            assert!(
                merged > 2_000,
                "{equality} calls only {merged} texts equal to others"
            );
        }
    }
}

/// The texts that `equality` calls equal to others, group by group.
async fn groups(session: &mut PgConnection, texts: &[String], equality: &str) -> Vec<Vec<String>> {
    let statement = format!(
        "SELECT array_agg(t) FROM unnest($1::text[]) AS t GROUP BY {equality} HAVING count(*) > 1"
    );
    sqlx::query_scalar(AssertSqlSafe(statement))
        .bind(texts)
        .fetch_all(session)
        .await
        .unwrap_or_else(|error| panic!("{equality}: {error}"))
}
