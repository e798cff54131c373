//! Names that are kept back.

use super::{ascii, unicode, verdict};

fn all_are(reason: &str, names: &[&str]) {
    for name in names {
        for raw in [(*name).to_owned(), name.to_uppercase(), format!(" {name} ")] {
            assert_eq!(
                verdict(&ascii(), &raw),
                format!("reserved:{reason}"),
                "{raw}"
            );
            assert_eq!(
                verdict(&unicode(), &raw),
                format!("reserved:{reason}"),
                "{raw}"
            );
        }
    }
}

#[test]
fn first_segments_of_pages_are_reserved() {
    all_are(
        "route",
        &[
            "account",
            "signout",
            "signin",
            "learn-more",
            "settings",
            "api",
            "login",
            "logout",
            "categories",
            "latest",
            "admin",
            "robots.txt",
            ".well-known",
            "favicon.ico",
            "sitemap.xml",
            "security.txt",
            "sign-in",
            "sign_up",
            "search",
            "about",
        ],
    );
}

#[test]
fn the_first_segment_of_every_route_of_the_service_is_reserved() {
    all_are(
        "route",
        &[
            "username",
            "users",
            "assets",
            "livez",
            "readyz",
            "openapi.json",
            "docs",
            "metrics",
            "status",
            "rebuild",
            "audit",
            "snapshot",
        ],
    );
}

#[test]
fn names_that_end_like_files_are_reserved() {
    all_are(
        "route_suffix",
        &[
            "marlow.json",
            "a.png",
            "a.atom",
            "a.git",
            "a.keys",
            "a.rss",
            "a.html",
            "marlow.xml",
            "nextcloud.log",
            "x.y.json",
            "a.gz",
            "a.gpg",
            "a.diff",
        ],
    );
    for free in [
        "png",
        "marlow-json",
        "marlow.jsonx",
        "j.son",
        "a.pngb",
        "mar.low",
    ] {
        assert_eq!(verdict(&ascii(), free), free);
    }
}

#[test]
fn names_with_a_meaning_for_machines_are_reserved() {
    all_are(
        "infrastructure",
        &[
            "autodiscover",
            "autoconfig",
            "mta-sts",
            "wpad",
            "ns1",
            "ns2",
            "postmaster",
            "hostmaster",
            "webmaster",
            "abuse",
            "noc",
            "ssladmin",
            "isatap",
            "localhost",
            "con",
            "nul",
            "aux",
            "prn",
            "com1",
            "lpt9",
            "www",
            "smtp",
            "_dmarc",
        ],
    );
}

#[test]
fn words_for_nobody_or_the_system_are_reserved() {
    all_are(
        "sentinel",
        &[
            "internal-tool",
            "system",
            "anonymous",
            "null",
            "undefined",
            "me",
            "self",
            "root",
            "nil",
            "none",
            "nan",
            "true",
            "nobody",
        ],
    );
}

#[test]
fn names_of_servers_own_files_are_never_allowed() {
    for raw in [
        ".htaccess",
        ".HTACCESS",
        "index.html",
        ".env",
        ".git",
        ".",
        "..",
        "thumbs.db",
        "web.config",
    ] {
        let verdict = verdict(&ascii(), raw);
        assert!(
            verdict.starts_with("reserved:") || verdict.starts_with("invalid:"),
            "{raw}: {verdict}"
        );
    }
}

#[test]
fn another_spelling_does_not_slip_past_the_list() {
    for raw in [
        "\u{FF41}dmin",
        "\u{24D0}dmin",
        "\u{1D4EA}dmin",
        "ADMIN",
        " admin ",
    ] {
        assert_eq!(verdict(&unicode(), raw), "reserved:route", "{raw:?}");
    }
}

#[test]
fn ordinary_names_stay_allowed() {
    for name in [
        "info", "alice", "title", "sam", "acme", "late", "slow", "fast", "kim", "paula", "nori",
        "lee", "user", "test", "title", "immo", "zimmo42",
    ] {
        assert_eq!(verdict(&ascii(), name), name);
    }
}

#[test]
fn operators_ask_past_the_list_but_not_past_the_rules() {
    use super::super::{Judgement, NameError};
    assert!(
        matches!(ascii().judge_as_operator("Admin"), Judgement::Allowed(canonical) if canonical.as_str() == "admin")
    );
    assert_eq!(
        ascii().judge_as_operator("me"),
        Judgement::Invalid(NameError::TooShort { min: 3 })
    );
}
