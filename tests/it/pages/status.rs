//! The status page, and what it is made of: `/status` and `/rebuild`.

use std::time::Duration;

use serde_json::Value;

use super::Site;
use crate::fixtures::{
    insert, sample_database, sample_database_in, serve, serve_warm, verdict, within,
};
use crate::support::browser::{Key, Page};
use crate::support::http;
use crate::support::postgres::Cluster;
use crate::support::service::Service;
use crate::support::stage::Stage;

async fn status(service: &Service) -> Value {
    let reply = http::get(service.admin(), "/status").await;
    assert_eq!(reply.status, 200);
    reply.json()
}

async fn post_rebuild(service: &Service, headers: &[(&str, &str)]) -> http::Reply {
    http::request(service.admin(), "POST", "/rebuild", headers, b"").await
}

async fn until_built(service: &Service, job: u64) {
    within(Duration::from_mins(1), "the rebuild is done", async || {
        let report = http::get(service.admin(), "/rebuild").await.json();
        report["last"]["job"] == job
    })
    .await;
}

#[tokio::test]
async fn the_status_counts_what_was_asked_and_what_it_cost() {
    let database = sample_database("status").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve_warm(&database.url, &["--signup", "--cache-ttl", "1m"]).await;
    for name in ["zoe77", "zoe78", "zoe79", "alice", "alice", "admin", "x"] {
        service.ask(name).await;
    }
    within(Duration::from_secs(20), "the bits are read", async || {
        status(&service).await["filter"]["names"].is_u64()
    })
    .await;
    let found = status(&service).await;
    let questions = &found["questions"];
    for (who, count) in [
        ("total", 7),
        ("filter", 3),
        ("cache", 1),
        ("database", 1),
        ("policy", 2),
        ("unverified", 0),
    ] {
        assert_eq!(questions[who], count, "{who}: {found}");
    }
    assert_eq!(found["database"]["statements"], 1, "{found}");
    assert_eq!(found["database"]["queries_saved"], 4, "{found}");
    assert_eq!(found["state"], "following");
    assert_eq!(found["trusted"], true);
    assert_eq!(found["max_staleness_seconds"], 2.0);
    let filter = &found["filter"];
    assert_eq!(
        (&filter["generation"], &filter["names"]),
        (&1.into(), &1.into())
    );
    assert!(
        filter["lag_seconds"]
            .as_f64()
            .is_some_and(|lag| (0.0..2.0).contains(&lag))
    );
    assert!(
        filter["fill_ratio"]
            .as_f64()
            .is_some_and(|fill| fill > 0.0 && fill < 0.01)
    );
    let rates = &found["false_positives"];
    assert_eq!(
        (&rates["designed"], &rates["measured"]),
        (&0.001.into(), &0.0.into())
    );
    assert_eq!(found["rebuild"]["last"]["generation"], 1);
    assert_eq!(found["rebuild"]["job"], Value::Null);
}

#[tokio::test]
async fn a_rebuild_makes_deleted_names_free_without_a_query_and_loses_no_question() {
    let database = sample_database("rebuild").await;
    insert(&database, &["leaver".to_owned(), "stayer".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    sqlx::query("DELETE FROM users WHERE username = 'leaver'")
        .execute(&mut database.session().await)
        .await
        .expect("the row is there");
    within(Duration::from_secs(10), "the name is free", async || {
        verdict(&service.ask("leaver").await)
            == (Some(true), "free".into(), Some("database".into()))
    })
    .await;
    let started = post_rebuild(&service, &[]).await;
    assert_eq!((started.status, &started.json()["job"]), (202, &1.into()));
    assert_eq!(verdict(&service.ask("stayer").await).1, "taken");
    until_built(&service, 1).await;
    assert_eq!(
        verdict(&service.ask("leaver").await),
        (Some(true), "free".into(), Some("filter".into()))
    );
    assert_eq!(verdict(&service.ask("stayer").await).1, "taken");
    let report = http::get(service.admin(), "/rebuild").await.json();
    assert_eq!(report["state"], "idle");
    assert_eq!(
        (&report["last"]["generation"], &report["last"]["rows"]),
        (&2.into(), &1.into())
    );
    assert_eq!(post_rebuild(&service, &[]).await.json()["job"], 2);
    until_built(&service, 2).await;
}

#[tokio::test]
async fn a_rebuild_wished_twice_is_one_rebuild() {
    let database = sample_database("twice").await;
    let service = serve_warm(&database.url, &[]).await;
    // A lock that no scan gets past holds the rebuild up.
    let mut holder = database.session().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        .execute(&mut holder)
        .await
        .expect("nobody else holds it");
    let jobs: Vec<Value> = [
        post_rebuild(&service, &[]).await,
        post_rebuild(&service, &[]).await,
    ]
    .iter()
    .map(|reply| {
        assert_eq!(reply.status, 202, "{reply:?}");
        reply.json()["job"].clone()
    })
    .collect();
    assert_eq!(jobs, [1, 1]);
    within(Duration::from_secs(10), "it runs", async || {
        http::get(service.admin(), "/rebuild").await.json()["running"]["generation"] == 2
    })
    .await;
    drop(holder);
    until_built(&service, 1).await;
    assert_eq!(post_rebuild(&service, &[]).await.json()["job"], 2);
}

#[tokio::test]
async fn a_rebuild_of_nothing_is_refused_with_the_reason() {
    let database = sample_database("off").await;
    let service = serve(&database.url, &["--filter", "off"]).await;
    service.wait_ready().await;
    let refused = post_rebuild(&service, &[]).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (409, &"filter_off".into())
    );
    assert_eq!(status(&service).await["state"], "off");

    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "early").await;
    cluster.stop_fast().await;
    let service = serve(&database.url, &[]).await;
    let refused = post_rebuild(&service, &[]).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (409, &"no_generation".into())
    );
    assert_eq!(status(&service).await["filter"], Value::Null);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_start_a_rebuild() {
    let database = sample_database("cross").await;
    let service = serve_warm(&database.url, &[]).await;
    for site in ["cross-site", "same-site"] {
        let refused = post_rebuild(&service, &[("sec-fetch-site", site)]).await;
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (403, &"cross_site".into())
        );
    }
    assert_eq!(status(&service).await["rebuild"]["job"], Value::Null);
    assert_eq!(
        post_rebuild(&service, &[("sec-fetch-site", "same-origin")])
            .await
            .status,
        202
    );
}

#[tokio::test]
async fn an_operator_sees_live_numbers_and_rebuilds() {
    let site = Site::open(&[]).await;
    let page = Page::at(site.service.admin(), "/").await;
    page.until_text("#state", "following the database").await;
    page.until_text("#names", "3").await;
    page.until_text("#generation", "1").await;
    for name in ["zoe77", "zoe78", "alice", "admin"] {
        site.service.ask(name).await;
    }
    for (source, count) in [
        ("filter", "2"),
        ("database", "1"),
        ("policy", "1"),
        ("cache", "0"),
    ] {
        page.until_text(&format!("tr[data-source={source}] td:last-child"), count)
            .await;
    }
    page.until("Number(document.querySelector('#rate').textContent) > 0")
        .await;
    page.until_text("#saved-count", "2").await;
    page.until_text("#saved-now", "66.7 %").await;
    page.until("document.querySelector('#rate-plot path[data-source=filter]').getAttribute('d').length > 20")
        .await;
    page.click("#rebuild").await;
    page.until_text("#rebuild-text", "Generation 2 is live: 3 rows")
        .await;
    page.until_text("#generation", "2").await;
    page.until("document.querySelector('#rebuild').getAttribute('aria-disabled') === 'false'")
        .await;
    assert_eq!(page.all_complaints(), [""; 0]);
}

#[tokio::test]
async fn the_plots_begin_before_the_page_was_opened() {
    let site = Site::open(&[]).await;
    within(Duration::from_secs(30), "two samples", async || {
        let samples = http::get(site.service.admin(), "/status/history")
            .await
            .json();
        samples.as_array().is_some_and(|samples| samples.len() >= 2)
    })
    .await;
    let samples = http::get(site.service.admin(), "/status/history")
        .await
        .json();
    let first = &samples[0];
    assert!(first["uptime_seconds"].as_f64() < samples[1]["uptime_seconds"].as_f64());
    assert_eq!(first["questions"]["total"], 0);
    assert_eq!(first["queries_saved"], 0);
    let page = Page::at(site.service.admin(), "/").await;
    // More points than the page can have asked for by itself.
    page.until(
        "document.querySelector('#lag-plot .line').getAttribute('d')?.split(/[ML]/).length > 2",
    )
    .await;
    assert_eq!(page.all_complaints(), [""; 0]);
}

#[tokio::test]
async fn a_service_that_has_gone_is_not_shown_as_running() {
    let site = Site::open(&[]).await;
    let page = Page::at(site.service.admin(), "/").await;
    page.until_text("#state", "following the database").await;
    site.service.kill().await;
    page.until("document.querySelector('#notice').textContent.startsWith('The service has not answered since')")
        .await;
}

#[tokio::test]
async fn where_a_token_is_wanted_the_page_asks_for_it_and_keeps_it_for_the_tab() {
    let site = Site::shared().await;
    let stage = Stage::before(site.service.admin()).await;
    stage.demand_token("open-sesame");
    let page = Page::at(stage.address(), "/").await;
    page.until("document.activeElement.id === 'token'").await;
    page.write("wrong").await;
    page.press(Key::Enter).await;
    page.until_text("#notice", "This token is not accepted.")
        .await;
    page.until("document.querySelector('#tiles').hidden").await;
    page.select_all().await;
    page.write("open-sesame").await;
    page.press(Key::Enter).await;
    page.until_text("#state", "following the database").await;
    page.until("document.querySelector('#token-form').hidden")
        .await;
    assert_eq!(page.text("#notice").await, "");
    page.goto(&format!("http://{}/", stage.address())).await;
    page.until_text("#state", "following the database").await;
    assert!(
        page.eval::<bool>("document.querySelector('#token-form').hidden")
            .await
    );
    // Not in the address, not in a cookie, not for other tabs.
    let places: (String, String, usize) = page
        .eval("[location.href, document.cookie, localStorage.length]")
        .await;
    assert_eq!(
        places,
        (format!("http://{}/", stage.address()), String::new(), 0)
    );
}

#[tokio::test]
async fn the_status_page_without_javascript_says_where_the_numbers_are() {
    let page = Page::blank().await;
    page.switch_javascript_off().await;
    page.goto(&format!("http://{}/", Site::shared().await.service.admin()))
        .await;
    page.until("document.querySelector('noscript a[href=\"/metrics\"]') !== null")
        .await;
}
