//! Every way to spell a name that some system got wrong, as bytes on the wire, in front of rows that they imitate.
//! Queries are sent exactly as written here.

use serde_json::{Value, json};

use crate::fixtures::{insert, sample_database, serve, serve_warm, wait_until_following};
use crate::support::http::{self, Reply};
use crate::support::service::Service;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// The answer to a raw query, and of it whatever a form would branch on.
async fn ask(service: &Service, query: &str) -> Value {
    let path = format!("/username/available?username={query}");
    let reply = http::get(service.public(), &path).await;
    assert_eq!(reply.status, 200, "{query}: {reply:?}");
    reply.json()
}

async fn sign_up(service: &Service, name: &str) -> Reply {
    let body = json!({ "username": name }).to_string();
    http::request(service.public(), "POST", "/users", &JSON, body.as_bytes()).await
}

/// `reason`, or `reason:code` where there is a code.
fn verdict(answer: &Value) -> String {
    let reason = answer["reason"].as_str().expect("a reason");
    match answer["detail"]["code"].as_str() {
        Some(code) => format!("{reason}:{code}"),
        None => reason.to_owned(),
    }
}

async fn all(service: &Service, cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        let answer = ask(service, query).await;
        assert_eq!(verdict(&answer), *expected, "{query}: {answer}");
        assert_eq!(answer["available"], *expected == "free", "{query}");
    }
}

async fn ascii() -> Service {
    let database = sample_database("spelling").await;
    let rows = [
        "Alice", "user", "Bob", "petrak", "testuser", "j.oneil", "kim", "title",
    ];
    insert(&database, &rows.map(str::to_owned)).await;
    serve_warm(&database.url, &["--signup"]).await
}

async fn unicode() -> Service {
    let database = sample_database("spelling").await;
    let rows = [
        "Alice", "user", "Bob", "petrak", "testuser", "j.oneil", "kim", "title",
    ];
    insert(&database, &rows.map(str::to_owned)).await;
    let service = serve_warm(&database.url, &["--signup", "--profile", "unicode"]).await;
    for name in ["ふたば", "straße", "мария", "zoë"] {
        assert_eq!(sign_up(&service, name).await.status, 201, "{name}");
    }
    service
}

/// What no profile takes, however it is spelled.
const NEITHER: &[(&str, &str)] = &[
    // Letter case, and what phones add.
    ("alice", "taken"),
    ("ALICE", "taken"),
    ("aLiCe", "taken"),
    ("Alice%20", "taken"),
    ("%09Alice%0A", "taken"),
    ("%C2%A0alice%E3%80%80", "taken"),
    ("Maria7", "free"),
    ("Kim", "taken"),
    // Nothing.
    ("", "invalid:empty"),
    ("%20", "invalid:empty"),
    ("+", "invalid:empty"),
    ("%E3%80%80", "invalid:empty"),
    // Spaces inside.
    ("max%20mustermann", "invalid:whitespace"),
    ("max+mustermann", "invalid:whitespace"),
    ("a%09b%0Ac", "invalid:whitespace"),
    ("al%C2%A0ice", "invalid:whitespace"),
    ("al%E2%80%89ice", "invalid:whitespace"),
    ("al%E3%80%80ice", "invalid:whitespace"),
    ("al%E2%80%A8ice", "invalid:whitespace"),
    ("al%C2%85ice", "invalid:whitespace"),
    ("al%E1%9A%80ice", "invalid:whitespace"),
    ("a+b", "invalid:whitespace"),
    // Controls.
    ("%00", "invalid:control"),
    ("a%00b", "invalid:control"),
    ("petrak%00", "invalid:control"),
    ("admin%00", "invalid:control"),
    ("%00alice", "invalid:control"),
    ("alice%7F", "invalid:control"),
    ("ali%1B[31mce", "invalid:control"),
    ("alice%C2%9F", "invalid:control"),
    ("alice%08", "invalid:control"),
    // Invisible: joiners, fillers, selectors, tags, marks of interlinear text, an empty cell.
    ("al%E2%80%8Bice", "invalid:invisible"),
    ("alice%EF%BB%BF", "invalid:invisible"),
    ("%EF%BB%BFalice", "invalid:invisible"),
    ("al%C2%ADice", "invalid:invisible"),
    ("al%E2%81%A0ice", "invalid:invisible"),
    ("al%E2%80%8Dice", "invalid:invisible"),
    ("al%E2%80%8Cice", "invalid:invisible"),
    ("alice%CD%8F", "invalid:invisible"),
    ("alice%E1%85%9F", "invalid:invisible"),
    ("alice%E1%85%A0", "invalid:invisible"),
    ("alice%E1%9E%B4", "invalid:invisible"),
    ("alice%E1%9E%B5", "invalid:invisible"),
    ("alice%E1%A0%8B", "invalid:invisible"),
    ("alice%E1%A0%8E", "invalid:invisible"),
    ("alice%E3%85%A4", "invalid:invisible"),
    ("alice%EF%BE%A0", "invalid:invisible"),
    ("alice%EF%B8%80", "invalid:invisible"),
    ("alice%EF%B8%8F", "invalid:invisible"),
    ("alice%F3%A0%84%80", "invalid:invisible"),
    ("alice%F3%A0%81%81", "invalid:invisible"),
    ("alice%E2%A0%80", "invalid:invisible"),
    ("alice%EF%BF%B9", "invalid:invisible"),
    ("alice%F0%9D%85%B3", "invalid:invisible"),
    // Direction.
    ("%E2%80%AEvatsug", "invalid:bidi_control"),
    ("%E2%80%AAalice", "invalid:bidi_control"),
    ("alice%E2%80%AC", "invalid:bidi_control"),
    ("al%E2%80%ABice", "invalid:bidi_control"),
    ("al%E2%80%ADice", "invalid:bidi_control"),
    ("%E2%81%A6alice%E2%81%A9", "invalid:bidi_control"),
    ("%E2%81%A7alice", "invalid:bidi_control"),
    ("%E2%81%A8alice", "invalid:bidi_control"),
    ("alice%E2%80%8F", "invalid:bidi_control"),
    ("alice%E2%80%8E", "invalid:bidi_control"),
    ("alice%D8%9C", "invalid:bidi_control"),
    // What belongs to URLs, mail, shells and SQL.
    ("testuser%2B", "invalid:charset"),
    ("a%2Bb", "invalid:charset"),
    ("foo%2Fbar", "invalid:charset"),
    ("foo%5Cbar", "invalid:charset"),
    ("..%2Fadmin", "invalid:charset"),
    ("foo/bar", "invalid:charset"),
    ("foo?bar", "invalid:charset"),
    ("a%252Fb", "invalid:charset"),
    ("a%2500b", "invalid:charset"),
    ("%2525", "invalid:charset"),
    ("j.o%27neil", "invalid:charset"),
    ("kim%40example.org", "invalid:charset"),
    ("kim@example.org", "invalid:charset"),
    ("foo%26admin%3Dtrue", "invalid:charset"),
    ("bob;--", "invalid:charset"),
    ("bob%25", "invalid:charset"),
    ("%3Cb%3Ebob", "invalid:charset"),
    ("%24%7Bbob%7D", "invalid:charset"),
    ("alice%F0%9F%98%80", "invalid:charset"),
    ("bob%EF%BF%BD", "invalid:charset"),
    ("bob%EF%BF%BF", "invalid:charset"),
    ("bob%ED%9F%BF", "invalid:charset"),
    ("bob%EE%80%80", "invalid:charset"),
    ("bob%F4%8F%BF%BF", "invalid:charset"),
    ("a%E2%84%80b", "invalid:charset"),
    ("a%EF%BC%85b", "invalid:charset"),
    ("a%EF%BC%8Fb", "invalid:charset"),
    // Separators.
    ("test..test", "invalid:separator"),
    ("a--b", "invalid:separator"),
    ("a._b", "invalid:separator"),
    ("-ab", "invalid:separator"),
    ("ab-", "invalid:separator"),
    (".ab", "invalid:separator"),
    ("ab.", "invalid:separator"),
    ("-rf", "invalid:separator"),
    // Lengths.
    ("ab", "invalid:too_short"),
    ("j", "invalid:too_short"),
    ("%C2%A0ab%C2%A0", "invalid:too_short"),
    // Kept back.
    ("account", "reserved:route"),
    ("SIGNOUT", "reserved:route"),
    ("SignIn", "reserved:route"),
    ("learn-more", "reserved:route"),
    ("settings", "reserved:route"),
    ("API", "reserved:route"),
    ("login%20", "reserved:route"),
    ("categories", "reserved:route"),
    ("latest", "reserved:route"),
    ("Robots.TXT", "reserved:route"),
    (".well-known", "reserved:route"),
    ("favicon.ico", "reserved:route"),
    ("sitemap.xml", "reserved:route"),
    ("security.txt", "reserved:route"),
    ("openapi.json", "reserved:route"),
    ("marlow.json", "reserved:route_suffix"),
    ("marlow.JSON", "reserved:route_suffix"),
    ("a.png", "reserved:route_suffix"),
    ("a.atom", "reserved:route_suffix"),
    ("a.git", "reserved:route_suffix"),
    ("a.keys", "reserved:route_suffix"),
    ("x.y.json", "reserved:route_suffix"),
    ("autodiscover", "reserved:infrastructure"),
    ("mta-sts", "reserved:infrastructure"),
    ("wpad", "reserved:infrastructure"),
    ("ns1", "reserved:infrastructure"),
    ("Postmaster", "reserved:infrastructure"),
    ("hostmaster", "reserved:infrastructure"),
    ("ssladmin", "reserved:infrastructure"),
    ("con", "reserved:infrastructure"),
    ("NUL", "reserved:infrastructure"),
    ("internal-tool", "reserved:sentinel"),
    ("system", "reserved:sentinel"),
    ("Anonymous", "reserved:sentinel"),
    ("null", "reserved:sentinel"),
    ("undefined", "reserved:sentinel"),
    ("me", "reserved:sentinel"),
    ("self", "reserved:sentinel"),
    ("root", "reserved:sentinel"),
];

#[tokio::test]
async fn what_no_profile_takes_is_refused_with_its_own_code_in_both() {
    for service in [ascii().await, unicode().await] {
        all(&service, NEITHER).await;
        for (length, code) in [
            (31, "too_long"),
            (255, "too_long"),
            (256, "too_long"),
            (3000, "too_long"),
        ] {
            let answer = ask(&service, &"a".repeat(length)).await;
            assert_eq!(answer["detail"]["code"], code);
            assert_eq!(answer["detail"]["max"], 30);
        }
        for times in 14..=16 {
            let answer = ask(&service, &"%E2%80%8B".repeat(times)).await;
            assert_eq!(verdict(&answer), "invalid:invisible");
        }
        for files in [
            ".htaccess",
            "index.html",
            "nextcloud.log",
            ".",
            "..",
            "con",
            "nul",
            "aux.txt",
        ] {
            assert_eq!(ask(&service, files).await["available"], false, "{files}");
        }
        assert_eq!(
            ask(&service, "%E2%80%AEvatsug").await["username"],
            "\u{202e}vatsug"
        );
    }
}

#[tokio::test]
async fn under_ascii_nothing_but_ascii_is_a_name() {
    let service = ascii().await;
    let cases = [
        ("%EF%BD%81dmin", "invalid:charset"),
        ("%E2%93%90dmin", "invalid:charset"),
        ("%F0%9D%93%AAdmin", "invalid:charset"),
        ("us%D0%B5r", "invalid:charset"),
        ("B%CE%BFb", "invalid:charset"),
        ("%D0%BC%D0%B0%D1%80%D0%B8%D1%8F", "invalid:charset"),
        ("%E3%81%B5%E3%81%9F%E3%81%B0", "invalid:charset"),
        ("%E0%A6%B0%E0%A6%B9%E0%A6%BF%E0%A6%AE", "invalid:charset"),
        ("stra%C3%9Fe", "invalid:charset"),
        ("T%C4%B0TLE", "invalid:charset"),
        ("t%C4%B1tle", "invalid:charset"),
        ("%E2%84%AAim", "invalid:charset"),
        ("%E2%80%A5", "invalid:charset"),
        ("x%C2%B4y", "invalid:charset"),
        ("Sage%20%F0%9D%96%99", "invalid:whitespace"),
        ("%F0%9D%96%99", "invalid:charset"),
    ];
    all(&service, &cases).await;
    let answer = ask(&service, "%E0%A6%B0%E0%A6%B9%E0%A6%BF%E0%A6%AE").await;
    let rules = http::get(service.public(), "/username/policy").await.json();
    let allowed = answer["detail"]["allowed"]
        .as_str()
        .expect("the alphabet in words");
    assert_eq!(rules["allowed"], allowed);
    assert!(allowed.contains("a to z"));
    let ligatures = "%EF%B7%BA".repeat(30);
    assert_eq!(ask(&service, &ligatures).await["reason"], "invalid");
}

#[tokio::test]
async fn under_unicode_spellings_of_one_name_are_one_name_and_imitations_are_none() {
    let service = unicode().await;
    let cases = [
        // Compatibility variants of a name that is kept back.
        ("%EF%BD%81dmin", "reserved:route"),
        ("%E2%93%90dmin", "reserved:route"),
        ("%F0%9D%93%AAdmin", "reserved:route"),
        ("%EF%BC%AE%EF%BC%B5%EF%BC%AC%EF%BC%AC", "reserved:sentinel"),
        ("r%C2%BAot", "reserved:sentinel"),
        ("marlow%EF%BC%8Ejson", "reserved:route_suffix"),
        // Composed, combining, half-width; the spacing mark makes a space.
        ("%E3%81%B5%E3%81%9F%E3%81%B0", "taken"),
        ("%E3%81%B5%E3%81%9F%E3%81%AF%E3%82%99", "taken"),
        ("%E3%81%B5%E3%81%9F%E3%81%AF%EF%BE%9E", "taken"),
        ("%E3%81%B5%E3%81%9F%E3%81%AF%E3%82%9B", "invalid:whitespace"),
        // Full case folding: ß is ss, whoever wrote it.
        ("stra%C3%9Fe", "taken"),
        ("STRASSE", "taken"),
        ("strasse", "taken"),
        ("STRA%E1%BA%9EE", "taken"),
        ("%EF%BC%B3TRASSE", "taken"),
        ("%D0%9C%D0%90%D0%A0%D0%98%D0%AF", "taken"),
        ("ZO%C3%8B", "taken"),
        ("Zoe%CC%88", "taken"),
        ("zoe", "free"),
        // A dotted capital is an i, a dotless one is not.
        ("T%C4%B0TLE", "taken"),
        ("TI%CC%87TLE", "taken"),
        ("t%C4%B1tle", "free"),
        ("%E2%84%AAim", "taken"),
        // Letters of another script.
        ("us%D0%B5r", "invalid:mixed_script"),
        ("B%CE%BFb", "invalid:mixed_script"),
        ("%D0%BElga", "invalid:mixed_script"),
        ("user%D9%A3", "invalid:mixed_script"),
        ("%D0%BE%D0%BB%D1%8C%D0%B3%D0%B0", "free"),
        ("%CE%B3%CE%B9%CF%8E%CF%81%CE%B3%CE%BF%CF%82", "free"),
        // Normalisation makes syntax.
        ("a%E2%84%80b", "invalid:charset"),
        ("%E2%80%A5", "invalid:separator"),
        ("a%E2%80%A5b", "invalid:separator"),
        ("a%EF%BC%85b", "invalid:charset"),
        ("x%C2%B4y", "invalid:whitespace"),
        ("a%EF%BC%A0b", "invalid:charset"),
        // Stacks of marks, marks without a letter, hidden dots.
        ("q%CC%80%CC%82%CC%83%CC%84bc", "invalid:too_many_marks"),
        ("%CC%81abc", "invalid:charset"),
        ("i%CC%87%CC%87van", "invalid:invisible"),
        ("Sage%F0%9D%96%99", "free"),
        ("Sage%20%F0%9D%96%99", "invalid:whitespace"),
    ];
    all(&service, &cases).await;
    let ligatures = ask(&service, &"%EF%B7%BA".repeat(30)).await;
    assert_eq!(ligatures["reason"], "invalid");
    let wide = ask(&service, &"%EF%AC%83".repeat(11)).await;
    assert_eq!(verdict(&wide), "invalid:too_long");
    // The longest name there is, in the widest characters, comes to the database and back.
    let widest = "\u{d4db}".repeat(30);
    assert_eq!(sign_up(&service, &widest).await.status, 201);
    assert_eq!(
        sign_up(&service, &"\u{1111}\u{1171}\u{11b6}".repeat(30))
            .await
            .status,
        409
    );
}

#[tokio::test]
async fn parameters_cannot_be_smuggled_in_and_none_is_guessed() {
    let service = ascii().await;
    for (query, status, code) in [
        ("username=foo&username=bar", 400, "repeated_parameter"),
        ("username=foo&username=foo", 400, "repeated_parameter"),
        ("username&username=foo", 400, "repeated_parameter"),
        ("username=foo&user%6Eame=bar", 400, "repeated_parameter"),
        ("username=a&suggest=1&suggest=1", 400, "repeated_parameter"),
        ("username=foo&x=%", 400, "malformed_query"),
        ("username=foo&%zz", 400, "malformed_query"),
        ("username=test%", 400, "malformed_query"),
        ("username=abc%zz", 400, "malformed_query"),
        ("username=%4", 400, "malformed_query"),
        ("username=%u0041lice", 400, "malformed_query"),
        ("username=Andr%E9", 400, "invalid_utf8"),
        ("username=%C0%80", 400, "invalid_utf8"),
        ("username=%ED%A0%80%ED%B0%80", 400, "invalid_utf8"),
        ("username=%F5%80%80%80", 400, "invalid_utf8"),
        ("username=%E3%81", 400, "invalid_utf8"),
        ("Username=bob", 400, "missing_username"),
        ("user=bob", 400, "missing_username"),
        ("username[]=bob", 400, "missing_username"),
        ("=bob", 400, "missing_username"),
        ("usernames=bob", 400, "missing_username"),
        ("username=a&suggest=-1", 400, "invalid_suggest"),
        ("username=a&suggest=%2B5", 400, "invalid_suggest"),
    ] {
        let path = format!("/username/available?{query}");
        let reply = http::get(service.public(), &path).await;
        let body = reply.json();
        assert_eq!(
            (reply.status, body["code"].as_str()),
            (status, Some(code)),
            "{query}"
        );
        assert_eq!(body["available"], Value::Null, "{query}");
    }
    for (query, username) in [
        ("username=zoe&admin=true&admin=false", "zoe"),
        ("username=zoe&&=&x", "zoe"),
        ("user%6eame=zoe", "zoe"),
        ("username", ""),
        ("username=", ""),
        ("username=zoe;username=yan", "zoe;username=yan"),
        ("username=zoe=yan", "zoe=yan"),
        ("username=zoe#x", "zoe"),
    ] {
        let path = format!("/username/available?{query}");
        let reply = http::get(service.public(), &path).await;
        assert_eq!(reply.status, 200, "{query}");
        assert_eq!(reply.json()["username"], username, "{query}");
    }
    for path in [
        "/username/available/foo",
        "/username/available%2Ffoo",
        "/username//available",
    ] {
        let reply = http::get(service.public(), &format!("{path}?username=zoe")).await;
        assert_eq!(reply.status, 404, "{path}");
        assert_eq!(reply.json()["available"], Value::Null);
    }
}

/// Bytes outside ASCII as they are, which no client library sends: the same name, or no request at all.
#[tokio::test]
async fn raw_bytes_in_a_query_are_read_as_what_they_are_or_not_at_all() {
    let service = ascii().await;
    let request = |name: &[u8]| {
        let head = b"GET /username/available?username=";
        [&head[..], name, b" HTTP/1.1\r\nhost: x\r\n\r\n"].concat()
    };
    for name in ["é".as_bytes(), b"Andr\xe9", b"al\x00ice", b"\xed\xa0\x80"] {
        let reply = http::raw(service.public(), &request(name)).await;
        let says_free = reply.is_some_and(|reply| {
            serde_json::from_str::<Value>(&reply.body)
                .is_ok_and(|body| body["available"] == Value::Bool(true))
        });
        assert!(!says_free, "{}", name.escape_ascii());
    }
    let spaced = http::raw(service.public(), &request(b"max mustermann")).await;
    assert!(spaced.is_none_or(|reply| reply.status == 400));
    assert_eq!(ask(&service, "zoe").await["available"], true, "unharmed");
}

/// Nobody's locale changes a key: not the process's own.
#[tokio::test]
async fn the_locale_of_the_process_makes_no_difference() {
    let database = sample_database("locale").await;
    insert(&database, &["TITLE".to_owned(), "INFO".to_owned()]).await;
    for locale in ["C", "tr_TR.UTF-8", "C.UTF-8", "az_AZ.UTF-8"] {
        let args = [
            "serve",
            "--database-url",
            database.url.as_str(),
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ];
        let service = Service::spawn(&args, &[("LC_ALL", locale), ("LANG", locale)]).await;
        wait_until_following(&service).await;
        for name in ["title", "TITLE", "Title", "info", "INFO"] {
            assert_eq!(
                ask(&service, name).await["reason"],
                "taken",
                "{name} in {locale}"
            );
        }
    }
}

/// With the filter off every allowed name reaches the database, and nothing else does.
#[tokio::test]
async fn what_is_no_name_never_reaches_the_database() {
    let database = sample_database("unreached").await;
    let service = serve(&database.url, &["--filter", "off"]).await;
    service.wait_ready().await;
    for (query, expected) in NEITHER {
        if expected.contains(':') {
            assert_eq!(verdict(&ask(&service, query).await), *expected, "{query}");
        }
    }
    let series = "namegate_lookup_names_total";
    assert_eq!(crate::fixtures::count(&service, series).await, 0);
}

/// 409 is the name's own constraint, and no other.
#[tokio::test]
async fn a_violation_of_another_constraint_is_not_called_taken() {
    let database = sample_database("constraint").await;
    database
        .execute("CREATE UNIQUE INDEX one_of_a_length ON users (length(username))")
        .await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    assert_eq!(sign_up(&service, "alice").await.status, 201);
    assert_eq!(sign_up(&service, "Alice").await.status, 409);
    let other = sign_up(&service, "clara").await;
    assert_eq!(
        (other.status, other.json()["code"].as_str()),
        (503, Some("unverified"))
    );
    assert_eq!(other.json()["available"], Value::Null);
    assert_eq!(ask(&service, "clara").await["reason"], "free");
}

#[tokio::test]
async fn suggestions_are_names_that_could_be_had_at_that_moment() {
    let database = sample_database("suggestions").await;
    let longest = format!("{}_{}", "x".repeat(28), "y");
    let rows = [longest.as_str(), "kimura", "bad", "i42-test", "alice"];
    insert(&database, &rows.map(str::to_owned)).await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("reserved.txt");
    let list = "i42-*\nsubstring dass\ntoken fox\n*kimura-*\n*kimura_*\nalice*a*b*c*d*e*f*g\n";
    std::fs::write(&file, list).expect("a file");
    let file = file.to_str().expect("a path in UTF-8");
    let service = serve_warm(&database.url, &["--reserved", file]).await;
    let suggested = async |name: &str| {
        let answer = ask(&service, &format!("{name}&suggest=10")).await;
        let names = answer["suggestions"].as_array().expect("an array").clone();
        let text = |name: &Value| name.as_str().expect("a name").to_owned();
        (
            answer["reason"].clone(),
            names.iter().map(text).collect::<Vec<_>>(),
        )
    };
    for _ in 0..20 {
        for name in [longest.as_str(), "kimura", "alice", "bad"] {
            let (reason, names) = suggested(name).await;
            assert_eq!(reason, "taken");
            assert!(!names.is_empty() && names.len() <= 10, "{name}: {names:?}");
            for suggestion in names {
                let answer = ask(&service, &suggestion).await;
                assert_eq!(verdict(&answer), "free", "{name}: {answer}");
                assert_eq!(answer["canonical"], suggestion);
                let is_barred = suggestion.contains("kimura-")
                    || suggestion.contains("kimura_")
                    || suggestion.contains("dass")
                    || suggestion.split(['-', '_', '.']).any(|word| word == "fox");
                assert!(!is_barred, "{suggestion}");
            }
        }
    }
    let (reason, names) = suggested("i42-test").await;
    assert_eq!((reason, names), ("reserved".into(), vec![]));
}
