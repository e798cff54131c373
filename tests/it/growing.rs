//! A filter that outgrew its capacity is given room at once and replaced soon, within the memory it may take.

use std::time::Duration;

use crate::fixtures::{
    ask_all, count, insert, is_free, present_names, sample_database, serve_warm, within,
};

/// The filter looks at itself every quarter of a minute.
const LOOKS: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_filter_past_its_capacity_gets_room_and_then_a_successor() {
    let database = sample_database("grows").await;
    let service = serve_warm(&database.url, &["--capacity", "1000"]).await;
    let first = count(&service, "namegate_filter_size_bytes").await;
    let names = present_names(5_000);
    insert(&database, &names).await;
    within(LOOKS, "the filter is given room", async || {
        count(&service, "namegate_expansions_total").await > 0
    })
    .await;
    within(LOOKS, "a larger one is built", async || {
        count(&service, "namegate_rebuilds_total{cause=\"capacity\"}").await > 0
            && count(&service, "namegate_generation").await > 1
    })
    .await;
    for (reason, _) in ask_all(&service, names.iter().map(String::as_str)).await {
        assert_eq!(reason, "taken");
    }
    assert_eq!(
        count(&service, "namegate_filter_capacity_names").await,
        7_500,
        "half as many again as the table holds"
    );
    assert!(count(&service, "namegate_filter_size_bytes").await > 4 * first);
}

#[tokio::test]
async fn a_successor_that_does_not_fit_beside_the_filter_is_refused_and_the_service_goes_on() {
    let database = sample_database("tight").await;
    let service = serve_warm(
        &database.url,
        &["--capacity", "1000", "--filter-memory", "4KiB"],
    )
    .await;
    let names = present_names(5_000);
    insert(&database, &names).await;
    within(LOOKS, "the refusal is said", async || {
        let output = service.output();
        output.contains("cannot be given more room") && output.contains("a rebuild failed")
    })
    .await;
    assert_eq!(count(&service, "namegate_generation").await, 1);
    for (reason, _) in ask_all(&service, names.iter().map(String::as_str)).await {
        assert_eq!(reason, "taken");
    }
    // Full of names as it is, it says maybe to nearly everything: the database answers.
    assert!(is_free(&service, "zq00000xk").await);
}
