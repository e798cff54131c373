//! What holds for the pages whatever they show: nothing moves, everything can be read, reached and heard.

use std::time::Duration;

use super::{Site, retype, sign_up_page, until_state};
use crate::support::browser::{Key, Node, Page};
use crate::support::http;
use crate::support::stage::{Cue, Gate, Scripted, Stage};

/// The smallest contrast of text on its ground, and where it is, as WCAG 2 reckons it.
const LEAST_CONTRAST: &str = r"(() => {
    const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const [r, g, b, a = 1] = parts(getComputedStyle(at).backgroundColor);
            if (a > 0) return [r, g, b];
        }
        return [255, 255, 255];
    };
    let least = [21, 'nothing'];
    for (const element of document.body.querySelectorAll('*')) {
        const isText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '') || element.value;
        if (!isText || element.closest('noscript, path') || element.checkVisibility?.({ visibilityProperty: true }) === false) continue;
        const [one, other] = [luminance(parts(getComputedStyle(element).color)), luminance(ground(element))];
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (contrast < least[0]) least = [contrast, element.outerHTML];
    }
    return least;
})()";

/// Whether the page is no wider than the window.
const FITS: &str = "document.documentElement.scrollWidth <= window.innerWidth";

async fn assert_legible(page: &Page, what: &str) {
    for scheme in ["light", "dark"] {
        page.prefer(scheme, "no-preference").await;
        let (contrast, element): (f64, String) = page.eval(LEAST_CONTRAST).await;
        assert!(
            contrast >= 4.5,
            "{what}, {scheme}: contrast {contrast:.2} of {element}"
        );
    }
}

#[tokio::test]
async fn nothing_moves_when_an_answer_comes_and_everything_can_be_read() {
    let (stage, page) = sign_up_page().await;
    let top_of_button = "document.querySelector('button.main').getBoundingClientRect().top";
    for width in [1100, 360] {
        page.resize(width, 800).await;
        let () = page.eval("(window.scrollTo(0, 0), null)").await;
        let before: f64 = page.eval(top_of_button).await;
        for (name, state) in [
            ("zoe77", "free"),
            ("Maria7", "free"),
            ("numpy", "taken"),
            ("admin", "reserved"),
            ("zoë", "invalid"),
            ("waits", "checking"),
            ("fails", "unverified"),
        ] {
            let held = Scripted::verdict("waits", true, "free");
            stage.set("waits", [Cue::When(Gate::closed(), held)]);
            stage.set(
                "fails",
                [Cue::Answer(Scripted::problem(429, "fails", "rate_limited"))],
            );
            retype(&page, name).await;
            until_state(&page, state).await;
            let now: f64 = page.eval(top_of_button).await;
            assert!(
                (now - before).abs() < 0.5,
                "{name} at {width}: {before} -> {now}"
            );
            assert!(page.eval::<bool>(FITS).await, "{name} at {width}");
            assert_legible(&page, name).await;
        }
    }
    page.resize(320, 600).await;
    assert!(page.eval::<bool>(FITS).await, "WCAG's narrowest window");
}

#[tokio::test]
async fn assistive_technology_is_told_everything() {
    let (_stage, page) = sign_up_page().await;
    page.write("numpy").await;
    until_state(&page, "taken").await;
    let tree = page.accessibility().await;
    let all = |role: &str| -> Vec<Node> {
        let nodes = tree.iter().filter(|node| node.role == role);
        nodes.cloned().collect()
    };
    let fields = all("textbox");
    let [field] = fields.as_slice() else {
        panic!("one field: {fields:?}")
    };
    assert_eq!(
        (field.name.as_str(), field.value.as_str()),
        ("Username", "numpy")
    );
    assert!(field.is_invalid);
    assert!(
        field.description.starts_with("3 to 30 characters")
            && field.description.ends_with("Taken. These are free:"),
        "{}",
        field.description
    );
    assert_eq!(all("status").len(), 1, "one live region");
    assert!(all("group").iter().any(|group| group.name == "Free names"));
    let buttons: Vec<String> = all("button")
        .into_iter()
        .map(|button| button.name)
        .collect();
    assert_eq!(buttons.len(), 4, "{buttons:?}");
    assert!(buttons.contains(&"Sign up".to_owned()), "{buttons:?}");
    let headings: Vec<String> = all("heading")
        .into_iter()
        .map(|heading| heading.name)
        .collect();
    assert_eq!(headings, ["Pick a username", "What your questions cost"]);
    // A sign is for the eye only.
    assert!(
        !tree.iter().any(|node| node.name.contains(['✕', '✓'])),
        "{tree:#?}"
    );
}

#[tokio::test]
async fn everything_can_be_reached_by_keyboard_and_the_focus_can_be_seen() {
    let (_stage, page) = sign_up_page().await;
    page.write("numpy").await;
    until_state(&page, "taken").await;
    let focused =
        "[document.activeElement.localName, getComputedStyle(document.activeElement).outlineStyle]";
    for wanted in ["input", "button", "button", "button", "button", "summary"] {
        let (name, outline): (String, String) = page.eval(focused).await;
        assert_eq!((name.as_str(), outline.as_str()), (wanted, "solid"));
        page.press(Key::Tab).await;
    }
}

#[tokio::test]
async fn who_wants_no_motion_sees_none() {
    let (stage, page) = sign_up_page().await;
    stage.set(
        "zoe77",
        [Cue::When(
            Gate::closed(),
            Scripted::verdict("zoe77", true, "free"),
        )],
    );
    page.write("zoe77").await;
    until_state(&page, "checking").await;
    let animation =
        "getComputedStyle(document.querySelector('#username-status'), '::before').animationName";
    assert_eq!(page.eval::<String>(animation).await, "turn");
    page.prefer("light", "reduce").await;
    assert_eq!(page.eval::<String>(animation).await, "none");
}

#[tokio::test]
async fn a_script_that_gets_into_a_page_does_not_run() {
    let site = Site::shared().await;
    for (address, path) in [(site.service.public(), "/"), (site.service.admin(), "/")] {
        let policy = http::get(address, path).await;
        let policy = policy.header("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        let page = Page::at(address, path).await;
        let ran: bool = page
            .eval(
                "(() => {
                    const script = document.createElement('script');
                    script.textContent = 'window.ran = true';
                    document.body.append(script);
                    return window.ran === true;
                })()",
            )
            .await;
        assert!(!ran);
        let complaints = page.complaints();
        assert!(
            complaints
                .iter()
                .any(|line| line.contains("Content Security Policy")),
            "{complaints:?}"
        );
    }
}

#[tokio::test]
async fn the_status_page_can_be_read_on_a_phone_and_on_a_wide_screen() {
    let site = Site::shared().await;
    let stage = Stage::before(site.service.admin()).await;
    let page = Page::at(stage.address(), "/").await;
    page.until("document.querySelector('#names').textContent !== '–'")
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await; // some points to draw
    for width in [320, 360, 700, 1100, 1900] {
        page.resize(width, 900).await;
        assert!(page.eval::<bool>(FITS).await, "{width}");
        assert_legible(&page, &format!("status at {width}")).await;
    }
    let tree = page.accessibility().await;
    let regions = tree.iter().filter(|node| node.role == "region");
    let regions: Vec<&str> = regions.map(|node| node.name.as_str()).collect();
    assert_eq!(
        regions,
        [
            "Questions",
            "Database queries saved",
            "Lag behind the database",
            "Names in the filter",
            "False positives",
            "Generation"
        ]
    );
    assert_eq!(page.all_complaints(), [""; 0]);
}
