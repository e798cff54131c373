//! Which questions reach the database, counted by the service and by the server itself.

use std::time::Duration;

use crate::fixtures::{
    absent_names, answer, ask_all, count, insert, present_names, sample_database, serve,
    serve_warm, verdict, within,
};
use crate::support::http;
use crate::support::postgres::{Cluster, Database, TURKISH};

const MANY: usize = 10_000;

/// Index scans on the unique index, as the server counts them. A backend reports them for certain when it ends.
async fn index_scans(database: &Database) -> i64 {
    let mut session = database.session().await;
    sqlx::query_scalar(
        "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'users_canonical_key'",
    )
    .fetch_one(&mut session)
    .await
    .expect("the index has statistics")
}

#[tokio::test]
async fn absent_names_are_free_and_hardly_any_of_them_needs_the_database() {
    let database = sample_database("absent").await;
    insert(&database, &present_names(100_000)).await;
    let service = serve_warm(&database.url, &[]).await;
    let before = index_scans(&database).await;

    let names = absent_names(MANY);
    let answers = ask_all(&service, names.iter().map(String::as_str)).await;

    assert!(answers.iter().all(|(reason, _)| reason == "free"));
    let from_database = answers
        .iter()
        .filter(|(_, source)| source.as_deref() == Some("database"))
        .count();
    assert!(
        from_database <= MANY / 500,
        "{from_database} of {MANY} needed the database"
    );
    let expected = from_database as u64;
    assert_eq!(
        count(&service, "namegate_lookup_names_total").await,
        expected
    );
    assert_eq!(
        count(&service, "namegate_false_positives_total").await,
        expected
    );
    assert_eq!(
        count(&service, r#"namegate_questions_total{source="filter"}"#).await,
        10_000 - expected
    );
    service.terminate().await;
    let mut scans = 0;
    within(
        Duration::from_secs(10),
        "the server's own count is in",
        async || {
            scans = index_scans(&database).await - before;
            scans != 0 || from_database == 0
        },
    )
    .await;
    assert_eq!(
        usize::try_from(scans).expect("a count"),
        from_database,
        "the server counts the same"
    );
}

#[tokio::test]
async fn present_names_are_all_taken() {
    let database = sample_database("present").await;
    let names = present_names(MANY);
    insert(&database, &names).await;
    let service = serve_warm(&database.url, &[]).await;
    let answers = ask_all(&service, names.iter().map(String::as_str)).await;
    assert!(
        answers
            .iter()
            .all(|(reason, source)| reason == "taken" && source.as_deref() == Some("database"))
    );
}

#[tokio::test]
async fn a_taken_name_costs_one_lookup_however_often_it_is_asked() {
    let database = sample_database("cached").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    let answers = ask_all(&service, std::iter::repeat_n("alice", 500)).await;
    assert!(answers.iter().all(|(reason, _)| reason == "taken"));
    assert_eq!(
        answers
            .iter()
            .filter(|(_, source)| source.as_deref() == Some("cache"))
            .count(),
        499
    );
    assert_eq!(count(&service, "namegate_lookup_statements_total").await, 1);
}

#[tokio::test]
async fn a_crowd_asking_for_one_name_costs_few_statements() {
    let database = sample_database("crowd").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve_warm(&database.url, &["--cache-ttl", "1ms"]).await;
    let crowd = (0..200).map(|_| service.ask("alice"));
    let replies = futures_util::future::join_all(crowd).await;
    assert!(replies.iter().all(|reply| verdict(reply).1 == "taken"));
    let statements = count(&service, "namegate_lookup_statements_total").await;
    assert!(
        statements < 100,
        "{statements} statements for 200 questions at once"
    );
}

#[tokio::test]
async fn with_the_filter_off_every_question_is_one_statement() {
    let database = sample_database("off").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve(&database.url, &["--filter", "off"]).await;
    service.wait_ready().await;
    let names = ["alice", "alice", "zoe", "zoe"];
    let answers = ask_all(&service, names).await;
    let reasons: Vec<&str> = answers.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(reasons, ["taken", "taken", "free", "free"]);
    assert!(
        answers
            .iter()
            .all(|(_, source)| source.as_deref() == Some("database"))
    );
    assert_eq!(count(&service, "namegate_lookup_statements_total").await, 4);
}

#[tokio::test]
async fn the_letter_case_of_a_question_makes_no_difference() {
    let database = sample_database("case").await;
    insert(&database, &["Alice".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    for spelling in ["alice", "ALICE", "aLiCe", " Alice "] {
        let answer = answer(&service, spelling).await;
        assert_eq!(answer["reason"], "taken", "{answer}");
        assert_eq!(answer["canonical"], "alice");
        assert_eq!(answer["username"], spelling);
    }
}

#[tokio::test]
async fn rows_outside_the_rules_are_keyed_and_hold_their_names() {
    let database = sample_database("legacy").await;
    database
        .execute(
            "INSERT INTO users (username) VALUES (' bob'), ('carol '), ('a\\b'), (E'tab\\there'), (repeat('x', 2000));
             INSERT INTO users (username, canonical) VALUES ('John', 'John'), ('joHN', 'joHN')",
        )
        .await;
    let service = serve_warm(&database.url, &[]).await;
    for held in ["bob", "carol", "carol "] {
        assert_eq!(answer(&service, held).await["reason"], "taken", "{held}");
    }
}

#[tokio::test]
async fn a_turkish_database_holds_the_same_names() {
    let database = Cluster::shared()
        .await
        .database_with("turkish", TURKISH)
        .await;
    crate::fixtures::migrate(&database.url).await;
    insert(&database, &["INFO".to_owned(), "TITLE".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    for held in ["info", "INFO", "title", "TITLE"] {
        assert_eq!(answer(&service, held).await["reason"], "taken", "{held}");
    }
}

#[tokio::test]
async fn an_empty_table_is_a_normal_start() {
    let database = sample_database("empty").await;
    let service = serve_warm(&database.url, &[]).await;
    let (available, reason, source) = verdict(&service.ask("somebody7").await);
    assert_eq!(
        (available, reason.as_str(), source.as_deref()),
        (Some(true), "free", Some("filter"))
    );
}

#[tokio::test]
async fn the_rules_are_answered_without_asking_anybody() {
    let database = sample_database("rules").await;
    let service = serve_warm(&database.url, &[]).await;
    let cases = [
        ("ab", "invalid"),
        ("admin", "reserved"),
        ("", "invalid"),
        ("a..b", "invalid"),
        ("null", "reserved"),
    ];
    for (name, reason) in cases {
        let answer = answer(&service, name).await;
        assert_eq!(
            (&answer["reason"], &answer["source"]),
            (&reason.into(), &"policy".into()),
            "{answer}"
        );
        assert_eq!(answer["available"], false);
    }
    assert_eq!(count(&service, "namegate_lookup_names_total").await, 0);
    assert_eq!(
        count(&service, r#"namegate_questions_total{source="policy"}"#).await,
        5
    );
}

#[tokio::test]
async fn the_last_line_says_how_many_questions_needed_the_database() {
    let database = sample_database("tally").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    ask_all(&service, ["alice", "zoe", "admin"]).await;
    let ended = service.terminate().await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let tally = "3 questions, 1 needed the database (1 statements, 0 false positives): \
                 1 free from memory, 0 taken from cache, 1 settled by the rules, 0 unverified; lag ";
    assert!(ended.output.contains(tally), "{}", ended.output);
}

#[tokio::test]
async fn suggestions_for_a_taken_name_are_free_and_cost_no_query() {
    let database = sample_database("suggest").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    let ask = async |query: &str| {
        let path = format!("/username/available?username={query}");
        http::get(service.public(), &path).await.json()
    };
    let taken = ask("Alice&suggest=3").await;
    let suggestions = taken["suggestions"].as_array().expect("an array");
    assert_eq!(suggestions.len(), 3, "{taken}");
    assert_eq!(count(&service, "namegate_lookup_names_total").await, 1);
    for suggestion in suggestions {
        let name = suggestion.as_str().expect("a name");
        assert_eq!(verdict(&service.ask(name).await).1, "free", "{name}");
    }
    for (query, reason) in [
        ("admin&suggest=3", "reserved"),
        ("a..b&suggest=3", "invalid"),
        ("zoe&suggest=3", "free"),
    ] {
        let answer = ask(query).await;
        assert_eq!(
            (answer["reason"].as_str(), &answer["suggestions"]),
            (Some(reason), &serde_json::json!([]))
        );
    }
    assert!(
        ask("alice").await.get("suggestions").is_none(),
        "only when asked for"
    );
}
