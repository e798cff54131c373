//! The checked field: late, lost and misleading answers.

use std::time::Duration;

use serde_json::json;

use super::{Site, retype, seen, sign_up_page, state, until_state, watch};
use crate::fixtures::within;
use crate::support::browser::{Key, Page};
use crate::support::stage::{Cue, Gate, Happened, Scripted, Stage};

const SENTENCE: &str = "#username-status";

/// Long enough for anything late to arrive and to be shown.
async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(600)).await;
}

#[tokio::test]
async fn every_verdict_has_a_sentence_of_its_own() {
    let (_stage, page) = sign_up_page().await;
    for (name, verdict, sentence) in [
        ("zoe77", "free", "This name is free."),
        ("Maria7", "free", "Free. It will be written maria7."),
        ("  zoe77 ", "free", "This name is free."),
        ("alice", "taken", "Taken. These are free:"),
        ("ALICE", "taken", "Taken. These are free:"),
        (
            "admin",
            "reserved",
            "This name is the address of a page of this site. Please choose another.",
        ),
        ("ab", "invalid", "Use at least 3 characters."),
        ("a b c", "invalid", "Leave out spaces."),
        (
            "a--b",
            "invalid",
            "Dots, underscores and hyphens go between other characters, one at a time.",
        ),
        (
            "zoë77",
            "invalid",
            "Use only the letters a to z, the digits 0 to 9, and single dots, underscores and hyphens between them.",
        ),
        (
            "100%+&=#",
            "invalid",
            "Use only the letters a to z, the digits 0 to 9, and single dots, underscores and hyphens between them.",
        ),
    ] {
        retype(&page, name).await;
        until_state(&page, verdict).await;
        assert_eq!(page.text(SENTENCE).await, sentence, "{name:?}");
        let is_refused: bool = page
            .eval("document.querySelector('#username').getAttribute('aria-invalid') === 'true'")
            .await;
        assert_eq!(is_refused, verdict != "free", "{name:?}");
    }
    page.select_all().await;
    page.press(Key::Backspace).await;
    until_state(&page, "empty").await;
    assert_eq!(page.text(SENTENCE).await, "");
    assert_eq!(page.all_complaints(), [""; 0]);
}

#[tokio::test]
async fn a_late_answer_to_an_older_text_is_not_shown() {
    let (stage, page) = sign_up_page().await;
    let gate = Gate::closed();
    stage.set(
        "jo-",
        [Cue::When(
            gate.clone(),
            Scripted::verdict("jo-", false, "taken"),
        )],
    );
    page.write("jo-").await;
    within(Duration::from_secs(10), "the first is asked", async || {
        stage.count("jo-") == 1
    })
    .await;
    watch(&page).await;
    page.write("hn").await;
    until_state(&page, "free").await;
    gate.open();
    a_moment().await;
    assert_eq!(state(&page).await, "free");
    assert!(
        !seen(&page).await.contains(&"taken".to_owned()),
        "{:?}",
        seen(&page).await
    );
    // It was not merely ignored: nobody waits for it any more.
    assert!(
        stage
            .happened()
            .contains(&Happened::GivenUp("jo-".to_owned()))
    );
}

#[tokio::test]
async fn answers_that_come_in_the_wrong_order_cannot_change_places() {
    let (stage, page) = sign_up_page().await;
    let (first, second) = (Gate::closed(), Gate::closed());
    stage.set(
        "jojo1",
        [Cue::When(
            first.clone(),
            Scripted::verdict("jojo1", false, "taken"),
        )],
    );
    stage.set(
        "jojo12",
        [Cue::When(
            second.clone(),
            Scripted::verdict("jojo12", true, "free"),
        )],
    );
    page.write("jojo1").await;
    within(Duration::from_secs(10), "asked", async || {
        stage.count("jojo1") == 1
    })
    .await;
    page.write("2").await;
    within(Duration::from_secs(10), "asked", async || {
        stage.count("jojo12") == 1
    })
    .await;
    second.open();
    until_state(&page, "free").await;
    first.open();
    a_moment().await;
    assert_eq!(state(&page).await, "free");
}

#[tokio::test]
async fn an_answer_to_another_question_is_no_answer() {
    let (stage, page) = sign_up_page().await;
    stage.set(
        "zoe77",
        [Cue::Answer(Scripted::verdict("other", true, "free"))],
    );
    page.write("zoe77").await;
    until_state(&page, "unverified").await;
}

#[tokio::test]
async fn a_question_given_up_is_not_a_refusal() {
    let (stage, page) = sign_up_page().await;
    watch(&page).await;
    stage.set(
        "kim",
        [Cue::When(
            Gate::closed(),
            Scripted::verdict("kim", false, "taken"),
        )],
    );
    page.write("kim").await;
    until_state(&page, "checking").await;
    page.write("zoe").await;
    until_state(&page, "free").await;
    let seen = seen(&page).await;
    assert!(
        seen.iter()
            .all(|state| !["taken", "unverified"].contains(&state.as_str())),
        "{seen:?}"
    );
}

#[tokio::test]
async fn nothing_but_a_true_in_a_200_means_free() {
    let (stage, page) = sign_up_page().await;
    let free = Scripted::verdict("zoe77", true, "free");
    let not_free = [
        Scripted::problem(404, "zoe77", "not_found"),
        Scripted::problem(500, "zoe77", "internal"),
        Scripted::problem(503, "zoe77", "unverified"),
        Scripted::text(404, "text/html", "<h1>Not found</h1>"),
        Scripted::text(200, "text/html", "<h1>Welcome to this hotel's network</h1>"),
        Scripted::text(200, "application/json", ""),
        Scripted::text(204, "application/json", ""),
        Scripted::new(200, &json!(null)),
        Scripted::new(200, &json!({"username": "zoe77"})),
        Scripted::new(200, &json!({"username": "zoe77", "available": null})),
        Scripted::new(200, &json!({"username": "zoe77", "available": "true"})),
        Scripted::new(200, &json!({"username": "zoe77", "available": 1})),
        // Even this: the status says that it is an error.
        Scripted::new(
            503,
            &json!({"username": "zoe77", "available": true, "reason": "free"}),
        ),
    ];
    for scripted in not_free {
        stage.set("zoe77", [Cue::Answer(scripted.clone())]);
        retype(&page, "zoe77").await;
        page.until("!['empty', 'typing', 'checking'].includes(document.querySelector('#username-status').dataset.state)")
            .await;
        assert_eq!(state(&page).await, "unverified", "{scripted:?}");
        assert_eq!(
            page.text(SENTENCE).await,
            "Could not check this name. You can still submit."
        );
    }
    stage.set("zoe77", [Cue::Answer(free)]);
    retype(&page, "zoe77").await;
    until_state(&page, "free").await;
    assert_eq!(page.complaints(), [""; 0]);
}

#[tokio::test]
async fn a_service_that_is_gone_is_said_to_be_and_asked_again() {
    let site = Site::open(&[]).await;
    let page = Page::at(site.service.public(), "/").await;
    site.service.kill().await;
    page.write("zoe77").await;
    until_state(&page, "unverified").await;
    assert_eq!(
        page.text(SENTENCE).await,
        "Could not check this name. It is tried again in a moment."
    );
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_not_a_verdict() {
    let (stage, page) = sign_up_page().await;
    // A browser asks once more by itself when a connection breaks off before any answer.
    stage.set("zoe77", [Cue::HangUp, Cue::HangUp, Cue::HangUp]);
    page.write("zoe77").await;
    until_state(&page, "unverified").await;
    until_state(&page, "free").await; // asked again by the field
}

#[tokio::test]
async fn a_service_that_never_answers_is_not_waited_for_for_ever() {
    let (stage, page) = sign_up_page().await;
    let held = || Cue::When(Gate::closed(), Scripted::verdict("zoe77", true, "free"));
    stage.set("zoe77", [held()]);
    page.write("zoe77").await;
    until_state(&page, "checking").await;
    assert_eq!(page.text(SENTENCE).await, "Checking…");
    until_state(&page, "unverified").await;
    until_state(&page, "free").await;
}

#[tokio::test]
async fn after_too_many_checks_the_field_asks_again_when_it_was_told_to() {
    let (stage, page) = sign_up_page().await;
    let limited = Scripted::problem(429, "zoe77", "rate_limited").with("retry-after", "2");
    stage.set("zoe77", [Cue::Answer(limited)]);
    watch(&page).await;
    page.paste("zoe77").await;
    until_state(&page, "unverified").await;
    assert!(
        page.text(SENTENCE)
            .await
            .starts_with("Too many checks just now")
    );
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(stage.count("zoe77"), 1, "not before Retry-After");
    until_state(&page, "free").await;
    assert_eq!(stage.count("zoe77"), 2);
    // It does not flicker in between.
    let seen = seen(&page).await;
    assert!(
        seen.ends_with(&["unverified".to_owned(), "free".to_owned()]),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_new_text_does_not_wait_for_the_retry_of_the_old_one() {
    let (stage, page) = sign_up_page().await;
    let limited = Scripted::problem(503, "zoe77", "unverified").with("retry-after", "1");
    stage.set("zoe77", [Cue::Answer(limited)]);
    page.write("zoe77").await;
    until_state(&page, "unverified").await;
    page.write("8").await;
    until_state(&page, "free").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(stage.count("zoe77"), 1, "nobody wants to know any more");
    assert_eq!(stage.count("zoe778"), 1);
}

#[tokio::test]
async fn retries_become_rarer() {
    let (stage, page) = sign_up_page().await;
    let busy =
        || Cue::Answer(Scripted::problem(503, "zoe77", "unverified").with("retry-after", "0"));
    stage.set("zoe77", std::iter::repeat_with(busy).take(20));
    page.write("zoe77").await;
    until_state(&page, "unverified").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    // After 1 s and after 2 s more, whatever the header says.
    assert!(
        (2..=3).contains(&stage.count("zoe77")),
        "{}",
        stage.count("zoe77")
    );
}

#[tokio::test]
async fn fast_typing_is_one_question() {
    let (stage, page) = sign_up_page().await;
    page.write("johnny5alive").await;
    until_state(&page, "free").await;
    let asked: Vec<_> = stage
        .happened()
        .into_iter()
        .filter(|event| matches!(event, Happened::Asked(what) if what.starts_with('j')))
        .collect();
    assert_eq!(asked, [Happened::Asked("johnny5alive".to_owned())]);
}

#[tokio::test]
async fn an_answer_from_memory_is_shown_without_flicker() {
    let (_stage, page) = sign_up_page().await;
    page.write("zoe76").await;
    until_state(&page, "free").await;
    watch(&page).await;
    // A machine that is busy may be slow once, and then it is right to say so.
    for _ in 0..5 {
        retype(&page, "zoe77").await;
        until_state(&page, "free").await;
    }
    let seen = seen(&page).await;
    let at_once = ["empty", "typing", "free"].map(str::to_owned);
    assert!(seen.windows(3).any(|states| states == at_once), "{seen:?}");
}

#[tokio::test]
async fn a_suggestion_is_taken_over_with_the_mouse_or_the_keyboard() {
    let (_stage, page) = sign_up_page().await;
    page.write("numpy").await;
    until_state(&page, "taken").await;
    let offered: Vec<String> = page
        .eval("[...document.querySelectorAll('#username-suggestions button')].map((button) => button.textContent)")
        .await;
    assert_eq!(offered.len(), 3, "{offered:?}");
    page.click("#username-suggestions button:nth-child(2)")
        .await;
    until_state(&page, "free").await;
    let value: String = page.eval("document.querySelector('#username').value").await;
    assert_eq!(value, offered[1]);
    assert!(
        page.eval::<bool>("document.activeElement.id === 'username'")
            .await
    );
    assert!(
        page.eval::<bool>(
            "document.querySelector('#username-suggestions').childElementCount === 0"
        )
        .await
    );

    page.select_all().await;
    page.write("kim").await;
    until_state(&page, "taken").await;
    page.press(Key::Tab).await;
    page.press(Key::Enter).await;
    until_state(&page, "free").await;
    assert!(
        page.eval::<bool>("document.activeElement.id === 'username'")
            .await
    );
    assert_eq!(page.all_complaints(), [""; 0]);
}

/// A page of somebody's own, with a field in it that `script` makes a checked one.
async fn own_page(script: &str) -> (Stage, Page) {
    let stage = Stage::before(Site::shared().await.service.public()).await;
    let page = format!(
        "<!doctype html><html lang=en><title>Own</title><link rel=icon href=data:,>
        <form><label>Handle <input name=handle></label></form>
        <script type=module>
            import {{ usernameField }} from '/assets/username-field.js';
            window.field = {script};
        </script>"
    );
    stage.set(
        "/own",
        [Cue::Answer(Scripted::text(200, "text/html", &page))],
    );
    let page = Page::at(stage.address(), "/own").await;
    (stage, page)
}

#[tokio::test]
async fn ones_own_name_is_not_called_taken() {
    let script = "usernameField(document.querySelector('input'), { own: 'kim', suggest: 0 })";
    let (_stage, page) = own_page(script).await;
    page.click("input").await;
    page.write("Kim").await;
    page.until_text("[role=status]", "This is your name already.")
        .await;
    assert!(
        page.eval::<bool>("!document.querySelector('input').hasAttribute('aria-invalid')")
            .await
    );
    page.select_all().await;
    page.write("alice").await;
    page.until_text("[role=status]", "This name is taken.")
        .await;
}

#[tokio::test]
async fn a_field_speaks_the_language_of_its_page() {
    let script = "usernameField(document.querySelector('input'), {
        sentence: (state) => ({ free: 'Dieser Name ist frei.', taken: 'Dieser Name ist vergeben.' })[state],
    })";
    let (_stage, page) = own_page(script).await;
    page.click("input").await;
    page.write("zoe77").await;
    page.until_text("[role=status]", "Dieser Name ist frei.")
        .await;
    page.select_all().await;
    page.write("ab").await;
    page.until_text("[role=status]", "Use at least 3 characters.")
        .await;
}

#[tokio::test]
async fn one_line_makes_a_checked_field_of_any_input() {
    let (_stage, page) = own_page("usernameField(document.querySelector('input'))").await;
    page.click("input").await;
    page.write("alice").await;
    page.until_text("[role=status]", "Taken. These are free:")
        .await;
    let field = "document.querySelector('input')";
    for (attribute, value) in [
        ("autocapitalize", "none"),
        ("autocorrect", "off"),
        ("spellcheck", "false"),
        ("autocomplete", "username"),
        ("aria-invalid", "true"),
    ] {
        let found: String = page
            .eval(&format!("{field}.getAttribute('{attribute}')"))
            .await;
        assert_eq!(found, value, "{attribute}");
    }
    let tree = page.accessibility().await;
    let input = tree
        .iter()
        .find(|node| node.role == "textbox")
        .expect("a field");
    assert_eq!(
        (input.name.as_str(), input.description.as_str()),
        ("Handle", "Taken. These are free:")
    );
    let () = page.eval("(window.field.destroy(), null)").await;
    page.write("x").await;
    a_moment().await;
    assert!(
        page.eval::<bool>("document.querySelector('[role=status], button') === null")
            .await
    );
    assert_eq!(page.all_complaints(), [""; 0]);
}
