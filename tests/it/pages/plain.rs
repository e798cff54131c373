//! The sign-up page without JavaScript.

use super::Site;
use crate::fixtures::is_taken;
use crate::support::browser::{Key, Page};
use crate::support::http;

const SENTENCE: &str = "#username-status";
const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];

async fn plain(site: &Site) -> Page {
    let page = Page::blank().await;
    page.switch_javascript_off().await;
    page.goto(&format!("http://{}/", site.service.public()))
        .await;
    page
}

#[tokio::test]
async fn without_javascript_the_form_signs_up_and_says_why_not() {
    let page = plain(Site::shared().await).await;
    for (name, state, sentence) in [
        ("", "invalid", "Type a name."),
        ("ab", "invalid", "Use at least 3 characters."),
        ("Alice", "taken", "Taken. These are free:"),
        ("<b>\"x\" & 'y'", "invalid", "Leave out spaces."),
        (
            "admin",
            "reserved",
            "This name is the address of a page of this site. Please choose another.",
        ),
    ] {
        page.click("#username").await;
        page.select_all().await;
        page.press(Key::Backspace).await;
        page.write(name).await;
        page.press(Key::Enter).await;
        page.until_text(SENTENCE, sentence).await;
        let (found, value, invalid): (String, String, String) = page
            .eval("[document.querySelector('#username-status').dataset.state, document.querySelector('#username').value, document.querySelector('#username').getAttribute('aria-invalid')]")
            .await;
        assert_eq!(
            (found.as_str(), value.as_str(), invalid.as_str()),
            (state, name, "true")
        );
        let title: String = page.eval("document.title").await;
        assert!(title.starts_with(sentence), "{title}");
    }
    page.click("#username").await;
    page.select_all().await;
    page.write("Plain1").await;
    page.click("button.main").await;
    page.until_text(SENTENCE, "Welcome, plain1. The account was created.")
        .await;
    assert!(is_taken(&Site::shared().await.service, "plain1").await);
    assert_eq!(page.complaints(), [""; 0]);
}

#[tokio::test]
async fn without_javascript_a_name_can_be_checked_and_a_suggestion_followed() {
    let page = plain(Site::shared().await).await;
    page.click("#username").await;
    page.write("numpy").await;
    page.click("button[formmethod=get]").await;
    page.until_text(SENTENCE, "Taken. These are free:").await;
    page.click("#username-suggestions a").await;
    page.until_text(SENTENCE, "This name is free.").await;
    assert_eq!(page.all_complaints(), [""; 0]);
}

#[tokio::test]
async fn without_javascript_and_sign_up_the_page_checks() {
    let site = Site::open(&[]).await;
    let page = plain(&site).await;
    page.click("#username").await;
    page.write("a b+c%").await;
    page.press(Key::Enter).await;
    page.until_text(SENTENCE, "Leave out spaces.").await;
    let value: String = page.eval("document.querySelector('#username').value").await;
    assert_eq!(value, "a b+c%");
    let posted = http::request(site.service.public(), "POST", "/", &FORM, b"username=zoe77").await;
    assert_eq!(posted.status, 405, "there is no sign-up here");
    assert!(!is_taken(&site.service, "zoe77").await);
}

#[tokio::test]
async fn a_form_that_cannot_be_read_is_refused_on_a_page() {
    let public = Site::shared().await.service.public();
    for (body, status) in [
        (&b"username=%ff"[..], 400),
        (b"username=\xff", 400),
        (b"username=a&username=b", 400),
        (b"", 400),
        (b"name=zoe", 400),
        (b"username=ab", 422),
        (b"username=alice", 409),
    ] {
        let reply = http::request(public, "POST", "/", &FORM, body).await;
        assert_eq!(reply.status, status, "{body:?}");
        assert_eq!(
            reply.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert!(reply.header("content-security-policy").is_some());
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
    let json = [("content-type", "application/json")];
    let reply = http::request(public, "POST", "/", &json, br#"{"username":"zoe"}"#).await;
    assert_eq!(reply.status, 415);
    let huge = format!("username={}", "a".repeat(1 << 20));
    let reply = http::request(public, "POST", "/", &FORM, huge.as_bytes()).await;
    assert_eq!(reply.status, 413);
}

#[tokio::test]
async fn nothing_that_is_typed_gets_into_the_page_unescaped() {
    let public = Site::shared().await.service.public();
    let nasty = r#""><script>alert(1)</script><i x='{{value}}"#;
    let question = format!("/?username={}", http::percent_encoded(nasty));
    let reply = http::get(public, &question).await;
    assert_eq!(reply.status, 200);
    assert!(!reply.body.contains("<script>alert") && !reply.body.contains("<i x="));
    assert!(reply.body.contains("&quot;&gt;&lt;script&gt;alert(1)"));
    for (query, status) in [
        ("?username=%ff", 400),
        ("?utm_source=x", 200),
        ("?username=", 200),
    ] {
        let reply = http::get(public, &format!("/{query}")).await;
        assert_eq!(reply.status, status, "{query}");
    }
}
