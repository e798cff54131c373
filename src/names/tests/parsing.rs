//! Queries as they arrive on the wire.

use super::super::{QueryError, Question, parse_query};

fn name(raw: &str) -> String {
    parse_query(Some(raw)).expect("well formed").name
}

fn code(raw: &str) -> &'static str {
    parse_query(Some(raw)).expect_err("not a question").code()
}

#[test]
fn a_question_without_a_username_is_not_a_question() {
    assert_eq!(parse_query(None), Err(QueryError::MissingUsername));
    for raw in [
        "",
        "&",
        "&&",
        "Username=bob",
        "USERNAME=bob",
        "user=bob",
        "=bob",
        "username%00=bob",
        "username[]=bob",
        "suggest=3",
    ] {
        assert_eq!(code(raw), "missing_username", "{raw}");
    }
}

#[test]
fn an_empty_name_is_a_question() {
    for raw in ["username=", "username", "&username&", "a=b&username"] {
        assert_eq!(name(raw), "", "{raw}");
    }
}

#[test]
fn the_name_is_decoded_once_and_never_trimmed() {
    for (raw, decoded) in [
        ("username=Alice", "Alice"),
        ("username=%20bob+", " bob "),
        ("username=max%20mustermann", "max mustermann"),
        ("username=max+mustermann", "max mustermann"),
        ("username=a%2Bb", "a+b"),
        ("username=a%252Bb", "a%2Bb"),
        ("username=foo%2Fbar", "foo/bar"),
        ("username=foo%26admin%3Dtrue", "foo&admin=true"),
        ("username=a=b", "a=b"),
        ("username=a;b", "a;b"),
        ("username=petrak%00", "petrak\0"),
        ("username=%F0%9D%93%AAdmin", "\u{1D4EA}dmin"),
        ("username=%EF%BB%BFbob", "\u{FEFF}bob"),
        ("username=ふた", "ふた"),
        ("user%6eame=bob", "bob"),
    ] {
        assert_eq!(name(raw), decoded, "{raw}");
    }
}

#[test]
fn a_plus_read_as_a_space_is_reported() {
    let plus = |raw| parse_query(Some(raw)).expect("well formed").plus_decoded;
    assert!(plus("username=a+b"));
    assert!(!plus("username=a%2Bb"));
    assert!(!plus("username=a%20b"));
    assert!(!plus("username=ab&other=c+d"));
}

#[test]
fn a_bad_escape_anywhere_spoils_the_question() {
    for raw in [
        "username=test%",
        "username=abc%zz",
        "username=%4",
        "username=%",
        "username=%%41",
        "username=% 41",
        "username=bob&other=%zz",
        "other=%&username=bob",
        "%zz=1&username=bob",
        "username=100%25%",
        "username=bob&%",
    ] {
        assert_eq!(code(raw), "malformed_query", "{raw}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_never_replaced() {
    for raw in [
        "username=Andr%E9",
        "username=%C0%80",
        "username=%ED%A0%80",
        "username=%F4%90%80%80",
        "username=%E3%81",
        "username=bob&other=%FF",
        "%FF=1&username=bob",
    ] {
        assert_eq!(code(raw), "invalid_utf8", "{raw}");
    }
}

#[test]
fn no_value_of_a_repeated_parameter_wins() {
    for raw in [
        "username=foo&username=bar",
        "username=foo&username=foo",
        "username&username",
        "username=foo&user%6Eame=bar",
        "username=a&suggest=1&suggest=2",
        "username=a&scope=operator&scope=operator",
    ] {
        assert_eq!(code(raw), "repeated_parameter", "{raw}");
    }
}

#[test]
fn unknown_parameters_are_ignored_however_often_they_come() {
    assert_eq!(name("username=foo&admin=true&admin=false&=&x"), "foo");
}

#[test]
fn suggestions_are_counted_up_to_ten() {
    let suggest = |raw: &str| parse_query(Some(raw)).map(|question| question.suggest);
    for (raw, wanted) in [
        ("username=a", None),
        ("username=a&suggest=0", Some(0)),
        ("username=a&suggest=3", Some(3)),
        ("suggest=10&username=a", Some(10)),
        ("username=a&suggest=11", Some(10)),
        ("username=a&suggest=300", Some(10)),
        ("username=a&suggest=99999999999999999999999", Some(10)),
        ("username=a&suggest=%33", Some(3)),
        ("username=a&suggest=007", Some(7)),
    ] {
        assert_eq!(suggest(raw), Ok(wanted), "{raw}");
    }
    for raw in [
        "suggest",
        "suggest=",
        "suggest=-1",
        "suggest=%2B5",
        "suggest=+5",
        "suggest=1.5",
        "suggest=x",
        "suggest=%D9%A3",
    ] {
        assert_eq!(
            code(&format!("username=a&{raw}")),
            "invalid_suggest",
            "{raw}"
        );
    }
}

#[test]
fn only_the_exact_scope_is_the_operators() {
    let scope = |raw| {
        parse_query(Some(raw))
            .expect("well formed")
            .is_operator_scope
    };
    assert!(scope("username=a&scope=operator"));
    for raw in [
        "username=a",
        "username=a&scope=",
        "username=a&scope=Operator",
        "username=a&scope=public",
    ] {
        assert!(!scope(raw), "{raw}");
    }
}

#[test]
fn a_query_of_4096_bytes_is_read_and_no_longer_one() {
    let key = "username=";
    let longest = format!("{key}{}", "a".repeat(4096 - key.len()));
    assert_eq!(name(&longest).len(), 4096 - key.len());
    let error = parse_query(Some(&format!("{longest}%"))).expect_err("too long");
    assert_eq!(
        error,
        QueryError::TooLong {
            max: 4096,
            found: 4097
        }
    );
    assert_eq!(error.code(), "query_too_long");
}

#[test]
fn a_question_printed_for_a_log_does_not_hold_the_name() {
    let question = parse_query(Some("username=secretive&suggest=2")).expect("well formed");
    let printed = format!("{question:?}");
    assert!(!printed.contains("secretive"), "{printed}");
    let Question { suggest, .. } = question;
    assert_eq!(suggest, Some(2));
}
