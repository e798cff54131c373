//! The sign-up page and its parts, all of them in the binary.
//!
//! The page works without JavaScript: its form then posts to `/` itself, or, where there is no sign-up, asks with
//! `GET /?username=NAME`, and the page comes back with the answer in it. With JavaScript the same form asks
//! `/username/available` while a person types and posts JSON to `/users`.

use axum::extract::{Path, RawQuery, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, RETRY_AFTER,
};
use http::{HeaderValue, StatusCode};

use crate::gate::{Answer, Reason, SignUp};
use crate::http::body::Expected;
use crate::http::openapi::{Anywhere, PROBLEM_JSON};
use crate::http::template::{Html, fill};
use crate::http::{App, Client, Problem, QUESTION, SIGN_UP, Wait, available, sign_up};
use crate::names::{Canonical, QueryError, parse_query};

/// A file in the binary: its name below `/assets/`, its media type, its text.
pub(super) type Part = (&'static str, &'static str, &'static str);

pub(super) const CSS: &str = "text/css; charset=utf-8";
pub(super) const JS: &str = "text/javascript; charset=utf-8";
const INDEX: &str = include_str!("../../assets/index.html");
const PARTS: [Part; 3] = [
    ("page.css", CSS, include_str!("../../assets/page.css")),
    ("page.js", JS, include_str!("../../assets/page.js")),
    (
        "username-field.js",
        JS,
        include_str!("../../assets/username-field.js"),
    ),
];
/// A page may load nothing but what this service serves.
pub(super) const ONLY_OURS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                         form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// As many as `username-field.js` asks for.
const SUGGESTIONS: usize = 3;

/// The sign-up page
///
/// Empty; with a `username` in the query, with the answer in it.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "page",
    tag = "pages",
    params(("username" = Option<String>, Query, description = "The name to ask about, as the page's form does without JavaScript")),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 400, description = "The page, which says why the question cannot be read", body = String, content_type = "text/html"),
        (status = 403, description = "The page, which says that registration is closed", body = String, content_type = "text/html"),
        (status = 429, description = "The page, which says when to ask again", body = String, content_type = "text/html"),
        (status = 503, description = "The page, which says that it could not be found out", body = String, content_type = "text/html"),
        Anywhere,
    )
)]
pub(super) async fn index(
    State(app): State<App>,
    client: Client,
    RawQuery(query): RawQuery,
) -> Response {
    let question = match parse_query(query.as_deref()) {
        Ok(question) => question,
        Err(QueryError::MissingUsername) => return render(&app, StatusCode::OK, &Shown::nothing()),
        Err(error) => return unreadable(&app, &error),
    };
    if let Err(turned_away) = turn_away(&app, client, QUESTION, &question.name) {
        return *turned_away;
    }
    let answer = app.gate.ask(&question.name).await;
    let status = match answer.outcome.reason() {
        Reason::Unverified => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    render(&app, status, &Shown::answer(&app, &answer))
}

const FORM: Expected = Expected {
    largest: sign_up::LARGEST_BODY,
    example: "username=alice",
};

/// Sign up by form
///
/// As a browser without JavaScript sends it, where the sign-up is switched on. Statuses as those of `POST /users`, the
/// body a page.
#[utoipa::path(
    post,
    path = "/",
    operation_id = "sign_up_by_form",
    tag = "pages",
    request_body(content = String, content_type = "application/x-www-form-urlencoded", description = "`username`, at most 16 KiB"),
    responses(
        (status = 201, description = "The page: the account is made", body = String, content_type = "text/html"),
        (status = 400, description = "The form cannot be read", content((String = "text/html"), (Problem = "application/problem+json"))),
        (status = 403, description = "The page: registration is closed", body = String, content_type = "text/html"),
        (status = 409, description = "The page: somebody has the name", body = String, content_type = "text/html"),
        (status = 413, description = "The form is over 16 KiB: `body_too_large`", body = Problem, content_type = PROBLEM_JSON),
        (status = 415, description = "It is not a form: `unsupported_media_type`", body = Problem, content_type = PROBLEM_JSON),
        (status = 422, description = "The page: the rules refuse the name", body = String, content_type = "text/html"),
        (status = 429, description = "The page: too many questions", body = String, content_type = "text/html"),
        (status = 503, description = "The page: it is not known whether the account was made", body = String, content_type = "text/html"),
        Anywhere,
    )
)]
pub(super) async fn submit(
    State(app): State<App>,
    client: Client,
    request: Request,
) -> Result<Response, Problem> {
    let body = FORM
        .receive("application/x-www-form-urlencoded", request)
        .await?;
    let question = match std::str::from_utf8(&body) {
        Ok(text) => parse_query(Some(text)),
        Err(_not_utf8) => Err(QueryError::InvalidUtf8),
    };
    let username = match question {
        Ok(question) => question.name,
        Err(error) => return Ok(unreadable(&app, &error)),
    };
    if let Err(turned_away) = turn_away(&app, client, SIGN_UP, &username) {
        return Ok(*turned_away);
    }
    let (status, shown) = match app.gate.sign_up(&username).await {
        SignUp::Created(canonical) => {
            let sentence = format!("Welcome, {}. The account was created.", canonical.as_str());
            (StatusCode::CREATED, Shown::new("created", sentence))
        }
        SignUp::Taken(_) => (StatusCode::CONFLICT, Shown::taken(&app, &username)),
        SignUp::Refused(answer) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            Shown::answer(&app, &answer),
        ),
        SignUp::Unverified => {
            let shown = Shown::new("unverified", sign_up::NOT_KNOWN.to_owned());
            (StatusCode::SERVICE_UNAVAILABLE, shown.beside(&username))
        }
    };
    Ok(render(&app, status, &shown))
}

/// A part of a page
#[utoipa::path(
    get,
    path = "/assets/{file}",
    operation_id = "part_of_a_page",
    tag = "pages",
    params(("file" = String, Path, description = "Such as `username-field.js`", example = "username-field.js")),
    responses(
        (status = 200, description = "The part", content((String = "text/css"), (String = "text/javascript"))),
        (status = 404, description = "There is no such part: `not_found`", body = Problem, content_type = PROBLEM_JSON),
        Anywhere,
    )
)]
pub(super) async fn asset(Path(file): Path<String>) -> Result<Response, Problem> {
    part(&PARTS, &file)
}

/// One of `parts`.
pub(super) fn part(parts: &[Part], file: &str) -> Result<Response, Problem> {
    let (_, kind, text) = parts
        .iter()
        .find(|(name, ..)| *name == file)
        .ok_or_else(Problem::not_found)?;
    let headers: [(HeaderName, HeaderValue); 2] = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok((headers, *text).into_response())
}

/// A page that can neither load nor run nor send to what is not ours.
pub(super) fn html(status: StatusCode, page: String) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, ONLY_OURS),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (status, headers, page).into_response()
}

/// What stands in the field and beside it.
struct Shown {
    value: String,
    /// The `data-state` of the sentence, as `username-field.js` sets it; `None` when there is none.
    state: Option<&'static str>,
    sentence: String,
    suggestions: Vec<Canonical>,
}

impl Shown {
    fn nothing() -> Self {
        Self {
            value: String::new(),
            state: None,
            sentence: String::new(),
            suggestions: Vec::new(),
        }
    }

    fn new(state: &'static str, sentence: String) -> Self {
        Self {
            state: Some(state),
            sentence,
            ..Self::nothing()
        }
    }

    fn beside(self, value: &str) -> Self {
        Self {
            value: value.to_owned(),
            ..self
        }
    }

    fn taken(app: &App, name: &str) -> Self {
        let suggestions = app.gate.suggest(name, SUGGESTIONS, available::random());
        let sentence = match suggestions.as_slice() {
            [] => "This name is taken.",
            _ => "Taken. These are free:",
        };
        Self {
            suggestions,
            ..Self::new("taken", sentence.to_owned()).beside(name)
        }
    }

    /// In the words that `username-field.js` has for it.
    fn answer(app: &App, answer: &Answer) -> Self {
        let detail = answer.detail.as_ref();
        let message = detail.map_or("This name is not allowed.", |detail| &detail.message);
        let reason = answer.outcome.reason();
        let sentence = match reason {
            Reason::Taken => return Self::taken(app, &answer.username),
            Reason::Free => match &answer.canonical {
                Some(canonical) if canonical.as_str() != answer.username.trim() => {
                    format!("Free. It will be written {}.", canonical.as_str())
                }
                _ => "This name is free.".to_owned(),
            },
            Reason::Reserved => format!("{message} Please choose another."),
            Reason::Invalid => message.to_owned(),
            Reason::Unverified if app.offers.sign_up => {
                "Could not check this name. You can still submit.".to_owned()
            }
            Reason::Unverified | Reason::RateLimited => {
                "Could not check this name. Please try again.".to_owned()
            }
        };
        Self::new(reason.word(), sentence).beside(&answer.username)
    }
}

/// The page for one who may not ask, or not now.
fn turn_away(app: &App, client: Client, units: u32, name: &str) -> Result<(), Box<Response>> {
    let say = |status, sentence: String| {
        render(
            app,
            status,
            &Shown::new("unverified", sentence).beside(name),
        )
    };
    if app.admit().is_err() {
        let closed = say(StatusCode::FORBIDDEN, "Registration is closed.".into());
        return Err(Box::new(closed));
    }
    app.charge(client, units).map_err(|Wait(wait)| {
        let seconds = wait.as_secs().saturating_add(1);
        let sentence = format!("Too many questions. Please try again in {seconds} s.");
        let mut response = say(StatusCode::TOO_MANY_REQUESTS, sentence);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
        Box::new(response)
    })
}

fn unreadable(app: &App, error: &QueryError) -> Response {
    render(
        app,
        StatusCode::BAD_REQUEST,
        &Shown::new("invalid", error.to_string()),
    )
}

fn render(app: &App, status: StatusCode, shown: &Shown) -> Response {
    let policy = app.gate.policy().document();
    let page = fill(INDEX, |hole| match (hole, app.offers.sign_up) {
        ("title", _) => match shown.state {
            Some(_) => Html::text(&format!("{} · Pick a username", shown.sentence)),
            None => Html::ours("Pick a username"),
        },
        ("method", true) => Html::ours("post"),
        ("method", false) => Html::ours("get"),
        ("submit", true) => Html::ours("Sign up"),
        ("submit", false) => Html::ours("Check"),
        ("check_only", true) => Html::ours(CHECK_ONLY),
        ("rules", _) => Html::text(&format!(
            "{} to {} characters: {}.",
            policy.min_length, policy.max_length, policy.allowed
        )),
        ("value", _) => Html::text(&shown.value),
        ("invalid", _) => match shown.state {
            Some("taken" | "reserved" | "invalid") => Html::ours(r#" aria-invalid="true""#),
            _ => Html::ours(""),
        },
        ("state", _) => shown.state.map_or(Html::ours(""), |state| {
            Html::from_iter([
                Html::ours(r#" data-state=""#),
                Html::ours(state),
                Html::ours(r#"""#),
            ])
        }),
        ("sentence", _) => Html::text(&shown.sentence),
        ("suggestions", _) => shown.suggestions.iter().map(suggestion).collect(),
        _ => Html::ours(""),
    });
    let mut response = html(status, page);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = super::RETRY_AFTER.as_secs();
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Beside the sign-up button, for those without JavaScript: the same form, sent as a question.
const CHECK_ONLY: &str = r#"<noscript><button type="submit" formmethod="get" class="plain">Check only</button></noscript>"#;

/// A link that asks about the name. No canonical name holds a character that means anything in a query.
fn suggestion(name: &Canonical) -> Html {
    let name = Html::text(name.as_str());
    Html::from_iter([
        Html::ours(r#"<a href="/?username="#),
        name.clone(),
        Html::ours(r#"">"#),
        name,
        Html::ours("</a>"),
    ])
}
