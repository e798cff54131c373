//! The canonical column of the sample table, whoever writes it: no row may hold a name under a spelling that no question
//! looks for.

use namegate::names::{Policy, Profile, Reserved};
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::fixtures::{BOUND, migrate, sample_database, serve_warm, verdict, within};
use crate::support::http;
use crate::support::service::{self, Service};

/// A row as another program writes it, and a name that a person then asks for.
const PAIRS: [(&str, &str); 16] = [
    ("STRA\u{1e9e}E", "strasse"),
    ("Straße2", "STRASSE2"),
    ("Łódź", "łÓDŹ"),
    ("İstanbul", "istanbul"),
    ("\u{2126}μέγα", "ωμέγα"),
    ("e\u{301}clair", "éclair"),
    ("ｆｕｌｌ", "full"),
    ("ǆungla", "Ǆungla"),
    ("σοφός", "ΣΟΦΌΣ"),
    ("ﬁsh", "fish"),
    ("\u{212a}elvin", "kelvin"),
    ("Ünder", "ünder"),
    ("ふたは\u{3099}", "ふたば"),
    ("Мария", "мария"),
    ("ſmith", "smith"),
    ("\u{1d4d0}lbert", "albert"),
];

/// One statement on a connection of its own; the database's own words when it refuses.
async fn run(url: &str, statement: &str) -> Result<u64, sqlx::Error> {
    let statement = AssertSqlSafe(statement.to_owned());
    if url.starts_with("sqlite:") {
        let mut connection = sqlx::SqliteConnection::connect(url).await?;
        let done = connection.execute(sqlx::raw_sql(statement)).await?;
        return Ok(done.rows_affected());
    }
    let mut connection = sqlx::PgConnection::connect(url).await?;
    let done = connection.execute(sqlx::raw_sql(statement)).await?;
    Ok(done.rows_affected())
}

async fn both() -> (tempfile::TempDir, [String; 2]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = format!("sqlite:{}", directory.path().join("names.db").display());
    migrate(&file).await;
    (directory, [sample_database("column").await.url, file])
}

#[track_caller]
fn is_refused_with_the_way_out(refused: Result<u64, sqlx::Error>) {
    let Err(sqlx::Error::Database(error)) = refused else {
        panic!("not refused: {refused:?}")
    };
    let words = match error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        Some(error) => format!("{} {}", error.message(), error.hint().unwrap_or_default()),
        None => error.message().to_owned(),
    };
    for wanted in ["outside ASCII", "canonical", "GET /username/available"] {
        assert!(words.contains(wanted), "{words}");
    }
}

async fn is_taken_soon(service: &Service, name: &str) {
    within(BOUND, "the row's name is taken", async || {
        verdict(&service.ask(name).await).1 == "taken"
    })
    .await;
}

/// Never a wrong *free*: SQL cannot spell these names as the policy does, so it does not try.
#[tokio::test]
async fn a_row_whose_name_sql_cannot_spell_is_refused_and_with_its_canonical_form_it_holds_the_name()
 {
    let (_directory, urls) = both().await;
    for url in urls {
        let service = serve_warm(&url, &["--profile", "unicode", "--signup"]).await;
        for (written, asked) in PAIRS {
            let insert = format!("INSERT INTO users (username) VALUES ('{written}')");
            is_refused_with_the_way_out(run(&url, &insert).await);
            let answer = service.ask(asked).await.json();
            assert_eq!(answer["reason"], "free", "nothing was stored: {answer}");
            let same = service.ask(written).await.json();
            assert_eq!(same["canonical"], answer["canonical"], "{written}");

            let canonical = answer["canonical"].as_str().expect("a spelling");
            let insert = format!(
                "INSERT INTO users (username, canonical) VALUES ('{written}', '{canonical}')"
            );
            run(&url, &insert).await.expect("a new row");
            is_taken_soon(&service, asked).await;
            is_taken_soon(&service, written).await;
            let body = serde_json::json!({ "username": asked }).to_string();
            let kind = [("content-type", "application/json")];
            let made = http::request(service.public(), "POST", "/users", &kind, body.as_bytes());
            assert_eq!(made.await.status, 409, "{asked}");
        }
    }
}

#[tokio::test]
async fn a_rename_that_sql_cannot_spell_is_refused_as_well() {
    let (_directory, urls) = both().await;
    for url in urls {
        run(&url, "INSERT INTO users (username) VALUES ('plain')")
            .await
            .expect("a new row");
        let rename = "UPDATE users SET username = 'STRA\u{1e9e}E' WHERE canonical = 'plain'";
        is_refused_with_the_way_out(run(&url, rename).await);
        let both = "UPDATE users SET username = 'STRA\u{1e9e}E', canonical = 'strasse' WHERE canonical = 'plain'";
        assert_eq!(run(&url, both).await.expect("a renamed row"), 1);
        let back = "UPDATE users SET username = ' Plain ' WHERE canonical = 'strasse'";
        assert_eq!(run(&url, back).await.expect("a renamed row"), 1);
        let service = serve_warm(&url, &["--profile", "unicode"]).await;
        assert_eq!(verdict(&service.ask("plain").await).1, "taken");
        assert_eq!(verdict(&service.ask("strasse").await).1, "free");
    }
}

/// White space around a name is no part of it, whichever it is.
#[tokio::test]
async fn what_is_ascii_once_trimmed_is_filled_in() {
    let (_directory, urls) = both().await;
    for url in urls {
        let insert = "INSERT INTO users (username) VALUES ('\u{3000}\u{a0} Alice\u{2003}\u{85}'), ('BOB.x-1'), ('a!~')";
        run(&url, insert).await.expect("new rows");
        for profile in ["ascii", "unicode"] {
            let service = serve_warm(&url, &["--profile", profile]).await;
            for name in ["alice", "Bob.X-1"] {
                assert_eq!(verdict(&service.ask(name).await).1, "taken", "{name}");
            }
        }
    }
}

/// A database that an older version has migrated gets the new rule.
#[tokio::test]
async fn rows_that_were_there_before_the_rule_stay_and_new_ones_obey_it() {
    let database = sample_database("older").await;
    let older = "CREATE OR REPLACE FUNCTION namegate.fill_canonical() RETURNS trigger
                 LANGUAGE plpgsql SET search_path = pg_catalog AS $$
                 BEGIN NEW.canonical := lower(NEW.username COLLATE \"C\"); RETURN NEW; END $$;
                 DELETE FROM namegate.migrations WHERE version = 4;
                 INSERT INTO users (username) VALUES ('Ünder')";
    database.execute(older).await;
    migrate(&database.url).await;
    let insert = "INSERT INTO users (username) VALUES ('Öder')";
    is_refused_with_the_way_out(run(&database.url, insert).await);
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM users")
        .fetch_one(&mut database.session().await)
        .await
        .expect("a count");
    assert_eq!(kept, 1);
}

/// What is loaded without being judged is spelled as the policy spells it, whichever profile asks later.
#[tokio::test]
async fn an_import_without_rules_holds_the_names_that_its_lines_spell() {
    let (_directory, urls) = both().await;
    let lines = PAIRS.map(|(written, _)| written).join("\n");
    for url in urls {
        let args = ["import", "-", "--database-url", url.as_str()];
        let output = service::run(&args, lines.as_bytes()).await.expect_success();
        assert!(output.starts_with("16 names imported"), "{output}");
        let service = serve_warm(&url, &["--profile", "unicode"]).await;
        for (written, asked) in PAIRS {
            for name in [written, asked] {
                assert_eq!(verdict(&service.ask(name).await).1, "taken", "{name}");
            }
        }
    }
    let policy = Policy::new(Profile::Unicode, Reserved::built_in());
    for (written, asked) in PAIRS {
        assert_eq!(
            policy.judge(written),
            policy.judge(asked),
            "{written} {asked}"
        );
    }
}
