//! Submitting: while a check is pending, twice, and what a late answer must not say then.

use std::time::Duration;

use super::{Site, seen, sign_up_page, state, until_state, watch};
use crate::fixtures::{is_taken, within};
use crate::support::browser::{Key, Page};
use crate::support::stage::{Cue, Gate, Scripted};

const SENTENCE: &str = "#username-status";

#[tokio::test]
async fn an_account_is_made_and_a_second_press_of_enter_makes_no_second_one() {
    let (stage, page) = sign_up_page().await;
    page.write("Newcomer1").await;
    until_state(&page, "free").await;
    page.press(Key::Enter).await;
    until_state(&page, "created").await;
    assert_eq!(
        page.text(SENTENCE).await,
        "Welcome, newcomer1. The account was created."
    );
    page.press(Key::Enter).await;
    until_state(&page, "invalid").await;
    assert_eq!(page.text(SENTENCE).await, "Type a name.");
    assert_eq!(stage.count("/users"), 1);
    assert!(is_taken(&Site::shared().await.service, "newcomer1").await);
    assert_eq!(page.all_complaints(), [""; 0]);
}

#[tokio::test]
async fn a_late_answer_does_not_speak_of_ones_own_new_account() {
    let (stage, page) = sign_up_page().await;
    let late = Gate::closed();
    stage.set("newcomer2", [Cue::PassWhen(late.clone())]);
    watch(&page).await;
    page.write("newcomer2").await;
    within(Duration::from_secs(10), "asked", async || {
        stage.count("newcomer2") == 1
    })
    .await;
    page.press(Key::Enter).await;
    until_state(&page, "created").await;
    late.open(); // by now the service would say: taken
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(state(&page).await, "created");
    assert!(!seen(&page).await.contains(&"taken".to_owned()));
}

#[tokio::test]
async fn submitting_before_the_field_has_asked_asks_nothing() {
    let (stage, page) = sign_up_page().await;
    page.write("newcomer3").await;
    page.press(Key::Enter).await;
    until_state(&page, "created").await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!((stage.count("newcomer3"), stage.count("/users")), (0, 1));
    assert_eq!(state(&page).await, "created");
}

#[tokio::test]
async fn while_a_sign_up_is_under_way_another_cannot_be_sent() {
    let (stage, page) = sign_up_page().await;
    let gate = Gate::closed();
    stage.set("/users", [Cue::PassWhen(gate.clone())]);
    page.write("newcomer4").await;
    page.press(Key::Enter).await;
    within(Duration::from_secs(10), "sent", async || {
        stage.count("/users") == 1
    })
    .await;
    page.press(Key::Enter).await;
    page.click("button.main").await;
    page.write("x").await; // the field is locked
    gate.open();
    until_state(&page, "created").await;
    assert_eq!(
        page.text(SENTENCE).await,
        "Welcome, newcomer4. The account was created."
    );
    assert_eq!(stage.count("/users"), 1);
}

#[tokio::test]
async fn a_name_lost_to_somebody_else_is_taken() {
    let (stage, page) = sign_up_page().await;
    stage.set(
        "alice",
        [Cue::Answer(Scripted::verdict("alice", true, "free"))],
    );
    page.write("alice").await;
    until_state(&page, "free").await;
    page.press(Key::Enter).await;
    until_state(&page, "taken").await;
    assert_eq!(page.text(SENTENCE).await, "This name is taken.");
    // The field goes on as before.
    page.write("9").await;
    until_state(&page, "free").await;
    assert_eq!(page.complaints(), [""; 0]);
}

#[tokio::test]
async fn what_the_rules_refuse_is_said_in_their_words() {
    let (_stage, page) = sign_up_page().await;
    for (name, state, sentence) in [
        ("ab", "invalid", "Use at least 3 characters."),
        (
            "null",
            "reserved",
            "Programs use this name for something else. Please choose another.",
        ),
    ] {
        page.select_all().await;
        page.write(name).await;
        page.press(Key::Enter).await;
        until_state(&page, state).await;
        assert_eq!(page.text(SENTENCE).await, sentence);
    }
}

#[tokio::test]
async fn a_name_that_could_not_be_checked_can_still_be_submitted() {
    let (stage, page) = sign_up_page().await;
    stage.set(
        "newcomer5",
        [Cue::Answer(Scripted::problem(
            503,
            "newcomer5",
            "unverified",
        ))],
    );
    page.write("newcomer5").await;
    until_state(&page, "unverified").await;
    page.click("button.main").await;
    until_state(&page, "created").await;
}

#[tokio::test]
async fn a_sign_up_without_an_answer_is_neither_made_nor_refused() {
    let (stage, page) = sign_up_page().await;
    for cue in [
        Cue::Answer(Scripted::problem(503, "newcomer6", "unverified")),
        Cue::Answer(Scripted::text(502, "text/html", "<h1>Bad gateway</h1>")),
        Cue::HangUp,
    ] {
        stage.set("/users", [cue]);
        page.select_all().await;
        page.write("newcomer6").await;
        page.press(Key::Enter).await;
        until_state(&page, "unverified").await;
        let kept: String = page.eval("document.querySelector('#username').value").await;
        assert_eq!(kept, "newcomer6");
    }
}

#[tokio::test]
async fn a_pasted_name_is_checked_like_a_typed_one() {
    let (_stage, page) = sign_up_page().await;
    page.paste("alice").await;
    until_state(&page, "taken").await;
    page.select_all().await;
    page.paste("al\u{200b}ice").await;
    until_state(&page, "invalid").await;
    assert_eq!(page.all_complaints(), [""; 0]);
}

#[tokio::test]
async fn where_there_is_no_sign_up_the_button_checks() {
    let site = Site::open(&[]).await;
    let page = Page::at(site.service.public(), "/").await;
    assert_eq!(page.text("button.main").await, "Check");
    page.write("alice").await;
    page.press(Key::Enter).await;
    until_state(&page, "taken").await;
    assert_eq!(page.all_complaints(), [""; 0]);
}

#[tokio::test]
async fn the_page_tells_what_each_question_cost() {
    let (_stage, page) = sign_up_page().await;
    assert!(
        page.text("#costs-summary")
            .await
            .starts_with("Nothing yet.")
    );
    for (name, state, who) in [
        ("zoe77", "free", "memory"),
        ("admin", "reserved", "rules"),
        ("kim", "taken", "database"),
    ] {
        page.select_all().await;
        page.write(name).await;
        until_state(&page, state).await;
        page.until_text("#costs-list li:first-child .name", name)
            .await;
        let found: String = page
            .eval("document.querySelector('#costs-list li').dataset.who")
            .await;
        // Another test may have asked for it a moment ago.
        assert!(
            found == who || (name == "kim" && found == "memory"),
            "{name}: {found}"
        );
    }
    assert!(
        page.text("#costs-summary")
            .await
            .starts_with("3 questions, ")
    );
}
