//! Names that are kept back.

use super::super::{EntryError, NameError, Policy, Profile, Reserved, ReservedError};
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
    assert!(
        matches!(ascii().judge_as_operator("Admin"), Ok(canonical) if canonical.as_str() == "admin")
    );
    assert_eq!(
        ascii().judge_as_operator("me"),
        Err(NameError::TooShort { min: 3 })
    );
}

fn with_list(text: &str) -> Policy {
    let reserved = Reserved::built_in().with_operator_list(text);
    Policy::new(Profile::Ascii, reserved.expect("well formed"))
}

#[test]
fn operators_add_names_and_words() {
    let policy = with_list(
        "sam.saffron\n*admin*\n\n# words\ntoken immo # and why\r\nsubstring swear\ni42-*",
    );
    for (raw, expected) in [
        ("sam.saffron", "reserved:operator"),
        ("SAM.Saffron", "reserved:operator"),
        ("sam9saffron", "sam9saffron"),
        ("superadmin1", "reserved:operator"),
        ("sam", "sam"),
        ("immo", "reserved:word"),
        ("immo-rent", "reserved:word"),
        ("zimmo42", "zimmo42"),
        ("unswearing", "reserved:word"),
        ("i42-test", "reserved:operator"),
        ("i42", "i42"),
        // What is built in keeps its reason, and what is malformed is malformed.
        ("admin", "reserved:route"),
        ("admin--1", "invalid:separator"),
        ("immo immo", "invalid:whitespace"),
    ] {
        assert_eq!(verdict(&policy, raw), expected, "{raw}");
    }
    assert_eq!(verdict(&ascii(), "immo"), "immo");
}

#[test]
fn a_name_that_is_listed_is_reserved_even_if_misshapen() {
    let policy = with_list("xy\n.secret");
    for (raw, expected) in [
        ("xy", "reserved:operator"),
        (".secret", "reserved:operator"),
        ("xz", "invalid:too_short"),
    ] {
        assert_eq!(verdict(&policy, raw), expected, "{raw}");
    }
}

#[test]
fn a_malformed_line_spoils_the_list_and_is_named() {
    for (list, line, source) in [
        (
            "sam.saffron\n*admin*\nsam)",
            3,
            EntryError::Character { found: ')' },
        ),
        (
            "\n# comment\n\nregex sa.m",
            4,
            EntryError::Mode {
                found: "regex".into(),
            },
        ),
        ("*", 1, EntryError::Everything),
        ("acme\r\ntoken\r\n", 2, EntryError::Empty),
    ] {
        let error = Reserved::built_in()
            .with_operator_list(list)
            .expect_err(list);
        assert_eq!(error, ReservedError { line, source });
    }
    let error = Reserved::nothing()
        .with_operator_list("good\nbad!")
        .expect_err("malformed");
    let source = std::error::Error::source(&error).expect("a cause");
    assert_eq!(
        format!("{error}: {source}"),
        "line 2: no name can hold the character '!'"
    );
}

#[test]
fn a_list_saved_on_windows_is_read() {
    let policy = with_list("\u{FEFF}acme\r\ntoken immo\r\n");
    assert_eq!(verdict(&policy, "acme"), "reserved:operator");
    assert_eq!(verdict(&policy, "my-immo"), "reserved:word");
}

#[test]
fn an_empty_list_changes_nothing() {
    for list in ["", "\n\n", "# nothing yet"] {
        assert_eq!(verdict(&with_list(list), "alice"), "alice");
    }
}
