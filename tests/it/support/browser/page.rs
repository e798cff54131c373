//! One page: what a person does with it, and what they get to see.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Browser, lock};

/// More than anything takes that a page is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a state that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// Events that say that something is wrong with the page.
const COMPLAINTS: [&str; 3] = [
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Log.entryAdded",
];

/// A page with a profile of its own: no cookie, no storage, no cache is shared with another.
pub(crate) struct Page {
    browser: &'static Browser,
    context: String,
    session: String,
}

/// A key that writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Tab,
    BackTab,
    Enter,
    Backspace,
}

/// A node of the accessibility tree: what assistive technology is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) role: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) value: String,
    pub(crate) is_invalid: bool,
}

impl Page {
    /// A blank page, as wide as a desktop's window, in the light scheme.
    pub(crate) async fn blank() -> Self {
        let browser = Browser::shared();
        let text = |value: &Value| value.as_str().expect("ids are text").to_owned();
        let made = browser
            .call(None, "Target.createBrowserContext", json!({}))
            .await;
        let context = text(&made["browserContextId"]);
        let target = json!({"url": "about:blank", "browserContextId": context});
        let target = browser.call(None, "Target.createTarget", target).await["targetId"].clone();
        let attach = json!({"targetId": target, "flatten": true});
        let session = text(&browser.call(None, "Target.attachToTarget", attach).await["sessionId"]);
        lock(&browser.inbox.events).insert(session.clone(), Vec::new());
        let page = Self {
            browser,
            context,
            session,
        };
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        page.call(
            "Emulation.setFocusEmulationEnabled",
            json!({"enabled": true}),
        )
        .await;
        page.resize(1100, 800).await;
        page.prefer("light", "no-preference").await;
        page
    }

    /// A blank page that then goes to `path` of the server at `address`.
    pub(crate) async fn at(address: SocketAddr, path: &str) -> Self {
        let page = Self::blank().await;
        page.goto(&format!("http://{address}{path}")).await;
        page
    }

    /// Goes to `url` and waits until everything on it is loaded and has run.
    pub(crate) async fn goto(&self, url: &str) {
        let went = self.call("Page.navigate", json!({"url": url})).await;
        assert_eq!(went.get("errorText"), None, "{url}");
        self.until("document.readyState === 'complete'").await;
    }

    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        self.until(&format!("window.innerWidth === {width}")).await;
    }

    /// `scheme`: `light` or `dark`; `motion`: `no-preference` or `reduce`.
    pub(crate) async fn prefer(&self, scheme: &str, motion: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    /// From the next page on, scripts do not run.
    pub(crate) async fn switch_javascript_off(&self) {
        self.call(
            "Emulation.setScriptExecutionDisabled",
            json!({"value": true}),
        )
        .await;
    }

    /// What a JavaScript expression, or the promise that it is, comes to.
    /// # Panics
    /// When it throws, or is of another type.
    pub(crate) async fn eval<T: DeserializeOwned>(&self, expression: &str) -> T {
        let parameters =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let outcome = self.call("Runtime.evaluate", parameters).await;
        assert_eq!(outcome.get("exceptionDetails"), None, "{expression}");
        serde_json::from_value(outcome["result"]["value"].clone())
            .unwrap_or_else(|error| panic!("{expression} is {outcome}: {error}"))
    }

    /// Looks again and again until `condition` holds. A page that is just going elsewhere has none.
    /// # Panics
    /// When it does not; the message holds what the page shows.
    pub(crate) async fn until(&self, condition: &str) {
        let began = Instant::now();
        let parameters =
            json!({"expression": format!("Boolean({condition})"), "returnByValue": true});
        loop {
            let outcome = self
                .browser
                .try_call(Some(&self.session), "Runtime.evaluate", &parameters)
                .await;
            if outcome
                .as_ref()
                .is_ok_and(|outcome| outcome["result"]["value"] == true)
            {
                return;
            }
            if began.elapsed() > PATIENCE {
                let shown: String = self.eval("document.body.innerText").await;
                panic!("never {condition}: {outcome:?}\n{shown}");
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Waits until the element has this text.
    pub(crate) async fn until_text(&self, selector: &str, text: &str) {
        self.until(&format!(
            "document.querySelector({})?.textContent.trim() === {}",
            json!(selector),
            json!(text)
        ))
        .await;
    }

    /// The text of the first such element.
    pub(crate) async fn text(&self, selector: &str) -> String {
        self.eval(&format!(
            "document.querySelector({}).textContent.trim()",
            json!(selector)
        ))
        .await
    }

    /// Types, key by key and faster than anybody can, into whatever has the focus.
    pub(crate) async fn write(&self, text: &str) {
        let keys = text.chars().flat_map(|character| {
            let character = character.to_string();
            ["keyDown", "keyUp"].map(|kind| {
                let mut key = json!({"type": kind, "key": character});
                if kind == "keyDown" {
                    key["text"] = character.clone().into();
                }
                self.call("Input.dispatchKeyEvent", key)
            })
        });
        // Sent in their order and all at once: on a busy machine, a pause between two would count as one.
        join_all(keys).await;
    }

    pub(crate) async fn press(&self, key: Key) {
        let (name, code, text, modifiers) = match key {
            Key::Tab => ("Tab", 9, "", 0),
            Key::BackTab => ("Tab", 9, "", 8), // with Shift
            Key::Enter => ("Enter", 13, "\r", 0),
            Key::Backspace => ("Backspace", 8, "", 0),
        };
        let mut event = json!({
            "type": if text.is_empty() { "rawKeyDown" } else { "keyDown" },
            "key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers,
        });
        if !text.is_empty() {
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event.clone()).await;
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event).await;
    }

    /// Selects everything in the field that has the focus: what is written next replaces it.
    pub(crate) async fn select_all(&self) {
        self.command("selectAll").await;
    }

    /// Pastes `text` through the clipboard.
    pub(crate) async fn paste(&self, text: &str) {
        let permissions = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "browserContextId": self.context});
        self.browser
            .call(None, "Browser.grantPermissions", permissions)
            .await;
        let () = self
            .eval(&format!(
                "navigator.clipboard.writeText({}).then(() => null)",
                json!(text)
            ))
            .await;
        self.command("paste").await;
    }

    /// Clicks in the middle of the first such element.
    /// # Panics
    /// When there is none, or something lies over it.
    pub(crate) async fn click(&self, selector: &str) {
        let found: Option<(f64, f64)> = self
            .eval(&format!(
                "(() => {{
                    const element = document.querySelector({});
                    if (!element) return null;
                    element.scrollIntoView({{ block: 'center' }});
                    const box = element.getBoundingClientRect();
                    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                    return element.contains(document.elementFromPoint(x, y)) ? [x, y] : null;
                }})()",
                json!(selector)
            ))
            .await;
        let (x, y) = found.unwrap_or_else(|| panic!("{selector} cannot be clicked"));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Every node of the accessibility tree that assistive technology is told of.
    pub(crate) async fn accessibility(&self) -> Vec<Node> {
        let tree = self.call("Accessibility.getFullAXTree", json!({})).await;
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        let told = nodes.iter().filter(|node| node["ignored"] == false);
        told.map(|node| {
            let text = |field: &str| match &node[field]["value"] {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            let properties = node["properties"].as_array();
            let is_invalid = properties.into_iter().flatten().any(|property| {
                property["name"] == "invalid" && property["value"]["value"] == "true"
            });
            Node {
                role: text("role"),
                name: text("name"),
                description: text("description"),
                value: text("value"),
                is_invalid,
            }
        })
        .collect()
    }

    /// Everything that a developer would find in the console, but for answers with an error status.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.console(|event| event["params"]["entry"]["source"] != "network")
    }

    /// The same, and also what could not be loaded or was answered with an error status.
    pub(crate) fn all_complaints(&self) -> Vec<String> {
        self.console(|_| true)
    }

    /// The visible part as PNG.
    pub(crate) async fn screenshot(&self) -> Vec<u8> {
        let picture = self
            .call("Page.captureScreenshot", json!({"format": "png"}))
            .await;
        base64(picture["data"].as_str().unwrap_or_default())
    }

    fn console(&self, counts: impl Fn(&Value) -> bool) -> Vec<String> {
        let events = lock(&self.browser.inbox.events);
        let ours = events.get(&self.session).into_iter().flatten();
        ours.filter(|event| {
            event["method"]
                .as_str()
                .is_some_and(|method| COMPLAINTS.contains(&method))
                && counts(event)
        })
        .map(|event| event["params"].to_string())
        .collect()
    }

    /// An editing command, as a menu or a key combination gives it.
    async fn command(&self, command: &str) {
        let event = json!({"type": "rawKeyDown", "commands": [command]});
        self.call("Input.dispatchKeyEvent", event).await;
    }

    async fn call(&self, method: &str, parameters: Value) -> Value {
        self.browser
            .call(Some(&self.session), method, parameters)
            .await
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        lock(&self.browser.inbox.events).remove(&self.session);
        // Nobody waits for the answer.
        let context = json!({"browserContextId": self.context});
        self.browser
            .send(0, None, "Target.disposeBrowserContext", &context);
    }
}

/// Decodes base64 without line breaks.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(digit)
        .collect();
    digits
        .chunks(4)
        .flat_map(|chunk| {
            let bits =
                chunk.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - chunk.len()));
            bits.to_be_bytes()[1..chunk.len()].to_vec()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_whatever_its_length() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
        ] {
            assert_eq!(base64(text), bytes, "{text}");
        }
    }
}
