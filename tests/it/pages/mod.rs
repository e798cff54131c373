//! The pages, tried by keyboard and mouse in a real browser: what a person sees in every state, whatever the network
//! does, and what assistive technology is told of it.

mod field;
mod looks;
mod plain;
mod sign_up;
mod status;

use tokio::sync::OnceCell;

use crate::fixtures::wait_until_following;
use crate::support::browser::{Key, Page};
use crate::support::scratch::ScratchDir;
use crate::support::service::{self, Service};
use crate::support::stage::Stage;

/// Names that are taken in every database here.
const TAKEN: [&str; 3] = ["alice", "numpy", "kim"];

/// A service on an embedded database of its own.
struct Site {
    service: Service,
    _directory: ScratchDir,
}

impl Site {
    async fn open(more: &[&str]) -> Self {
        let directory = ScratchDir::new(None, "");
        let data = directory.path().to_str().expect("a path in UTF-8");
        service::run(
            &["import", "-", "--data-dir", data],
            TAKEN.join("\n").as_bytes(),
        )
        .await
        .expect_success();
        let mut args = vec![
            "serve",
            "--data-dir",
            data,
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ];
        args.extend(more);
        let service = Service::spawn(&args, &[]).await;
        wait_until_following(&service).await;
        Self {
            service,
            _directory: directory,
        }
    }

    /// The one with a sign-up that the tests share: whoever signs up takes a name of their own.
    async fn shared() -> &'static Self {
        static SHARED: OnceCell<Site> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::open(&["--signup"])).await
    }
}

/// A front before the shared service, and its sign-up page, empty, with the field in focus.
async fn sign_up_page() -> (Stage, Page) {
    let stage = Stage::before(Site::shared().await.service.public()).await;
    let page = Page::at(stage.address(), "/").await;
    page.until("document.activeElement.id === 'username'").await;
    (stage, page)
}

/// The state that the field shows: `free`, `taken`, `checking`, ...; empty when it shows none.
async fn state(page: &Page) -> String {
    page.eval("document.querySelector('#username-status').dataset.state ?? ''")
        .await
}

async fn until_state(page: &Page, state: &str) {
    page.until(&format!(
        "document.querySelector('#username-status').dataset.state === '{state}'"
    ))
    .await;
}

/// Empties the field and types `name` into it.
async fn retype(page: &Page, name: &str) {
    page.select_all().await;
    page.press(Key::Backspace).await;
    page.until("document.querySelector('#username').value === ''")
        .await;
    page.write(name).await;
}

/// From now on writes down every state and sentence that the field shows. See [`seen`].
async fn watch(page: &Page) {
    let () = page
        .eval(
            "(() => {
                const status = document.querySelector('#username-status');
                const now = () => [status.dataset.state ?? '', status.textContent];
                window.seen = [now()];
                new MutationObserver(() => window.seen.push(now()))
                    .observe(status, { attributes: true, childList: true, characterData: true, subtree: true });
                return null;
            })()",
        )
        .await;
}

/// The states since [`watch`], repetitions left out.
async fn seen(page: &Page) -> Vec<String> {
    let mut states: Vec<String> = page.eval("window.seen.map(([state]) => state)").await;
    states.dedup();
    states
}
