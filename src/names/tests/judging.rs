//! Names as people type them, and what both profiles say.

use super::super::{FilterKey, NameError, Refusal};
use super::{ascii, unicode, verdict};

#[test]
fn capitals_are_welcome_and_lowered() {
    for raw in ["alice", "ALICE", "aLiCe", "Alice"] {
        assert_eq!(verdict(&ascii(), raw), "alice");
        assert_eq!(verdict(&unicode(), raw), "alice");
    }
    assert_eq!(verdict(&ascii(), "Maria7"), "maria7");
    assert_eq!(verdict(&ascii(), "TITLE"), "title");
}

#[test]
fn outer_white_space_is_trimmed_and_inner_is_refused() {
    for raw in [
        "alice ",
        " alice",
        "\talice\r\n",
        "\u{A0}alice\u{3000}",
        "\u{2028}alice\u{85}",
    ] {
        assert_eq!(verdict(&ascii(), raw), "alice", "{raw:?}");
        assert_eq!(verdict(&unicode(), raw), "alice", "{raw:?}");
    }
    for raw in [
        "max mustermann",
        "a\tb",
        "a\nb",
        "a\u{A0}b",
        "a\u{3000}b",
        "a\u{2003}b",
        "a\u{2029}b",
        "a\u{1680}b",
        "Sage \u{1D599}",
    ] {
        assert_eq!(verdict(&ascii(), raw), "invalid:whitespace", "{raw:?}");
        assert_eq!(verdict(&unicode(), raw), "invalid:whitespace", "{raw:?}");
    }
}

#[test]
fn nothing_but_white_space_is_empty() {
    for raw in ["", " ", "   ", "\t\n", "\u{3000}"] {
        assert_eq!(ascii().judge(raw), Err(NameError::Empty.into()), "{raw:?}");
        assert_eq!(
            unicode().judge(raw),
            Err(NameError::Empty.into()),
            "{raw:?}"
        );
    }
}

#[test]
fn controls_are_refused_wherever_they_stand() {
    for raw in [
        "petrak\0",
        "admin\0",
        "\0",
        "a\0b",
        "\0alice",
        "alice\u{7F}",
        "ali\u{1B}[31mce",
        "alice\u{9F}",
        "\u{8}alice",
        "a\0\u{200B}",
    ] {
        assert_eq!(verdict(&ascii(), raw), "invalid:control", "{raw:?}");
        assert_eq!(verdict(&unicode(), raw), "invalid:control", "{raw:?}");
    }
}

#[test]
fn invisible_characters_are_refused_and_never_stripped() {
    let mut names: Vec<String> = (14..=16).map(|n| "\u{200B}".repeat(n)).collect();
    names.extend(
        [
            "al\u{200B}ice",
            "alice\u{FEFF}",
            "\u{FEFF}alice",
            "al\u{AD}ice",
            "al\u{2060}ice",
            "al\u{200D}ice",
            "al\u{200C}ice",
        ]
        .map(String::from),
    );
    names.extend(
        "\u{34F}\u{115F}\u{1160}\u{17B4}\u{17B5}\u{180B}\u{180E}\u{180F}\u{3164}\u{FFA0}\u{FE00}\u{FE0F}\u{E0100}\u{E0001}\u{E0061}\u{2061}\u{206A}\u{2800}\u{1D173}\u{1BCA0}"
            .chars()
            .map(|c| format!("alice{c}")),
    );
    for raw in names {
        assert_eq!(verdict(&ascii(), &raw), "invalid:invisible", "{raw:?}");
        assert_eq!(verdict(&unicode(), &raw), "invalid:invisible", "{raw:?}");
    }
}

#[test]
fn characters_that_turn_the_writing_direction_are_refused() {
    let controls = "\u{61C}\u{200E}\u{200F}\u{202A}\u{202B}\u{202C}\u{202D}\u{202E}\u{2066}\u{2067}\u{2068}\u{2069}";
    for raw in controls.chars().flat_map(|c| {
        [
            format!("{c}vatsug"),
            format!("gus{c}tav"),
            format!("gustav{c}"),
        ]
    }) {
        assert_eq!(verdict(&ascii(), &raw), "invalid:bidi_control", "{raw:?}");
        assert_eq!(verdict(&unicode(), &raw), "invalid:bidi_control", "{raw:?}");
    }
}

#[test]
fn ascii_takes_no_other_visible_character() {
    for raw in [
        "foo/bar",
        "foo\\bar",
        "../admin",
        "testuser+",
        "a+b",
        "kim@example.org",
        "j.o'neil",
        "a%b",
        "a&b",
        "\"bob\"",
        "<b>bob",
        "bob!",
        "bob,",
        "bob:bob",
        "bob;",
        "bob=1",
        "bob?",
        "bob#1",
        "$bob",
        "bob*",
        "{bob}",
        "[bob]",
        "b|b|b",
        "~bob",
        "\u{FF41}dmin",
        "\u{24D0}dmin",
        "\u{1D4EA}dmin",
        "us\u{435}r",
        "B\u{3BF}b",
        "straße",
        "Renée",
        "re\u{301}my",
        "রহিম",
        "ふたば",
        "alice\u{1F600}",
        "a\u{2100}b",
        "\u{2025}",
        "x\u{B4}y",
        "a\u{FF05}b",
        "\u{FDFA}",
        "\u{FFFD}bob",
        "\u{E000}bob",
        "İnfo",
        "ınfo",
        "\u{212A}im",
    ] {
        assert_eq!(verdict(&ascii(), raw), "invalid:charset", "{raw:?}");
    }
    let Err(Refusal::Invalid(NameError::Charset { allowed })) = ascii().judge("রহিম")
    else {
        panic!("not charset")
    };
    assert!(allowed.contains("a to z"));
    assert_eq!(ascii().document().allowed, allowed);
}

#[test]
fn separators_go_between_and_one_at_a_time() {
    for raw in [
        "test..test",
        "a--b",
        "a._b",
        "-ab",
        "ab-",
        ".ab",
        "ab.",
        "_ab",
        "ab_",
        "...",
        "a-.b",
        "a__b",
    ] {
        assert_eq!(verdict(&ascii(), raw), "invalid:separator", "{raw:?}");
        assert_eq!(verdict(&unicode(), raw), "invalid:separator", "{raw:?}");
    }
    for raw in [
        "a.b",
        "a_b",
        "a-b",
        "j.oneil",
        "a.b-c_d",
        "best-name",
        "i42-test",
        "4-2",
    ] {
        assert_eq!(verdict(&ascii(), raw), raw);
    }
}

#[test]
fn three_to_thirty_characters() {
    for (raw, expected) in [
        ("ab".to_owned(), "invalid:too_short"),
        ("a".to_owned(), "invalid:too_short"),
        (" ab ".to_owned(), "invalid:too_short"),
        ("a".repeat(31), "invalid:too_long"),
        ("x".repeat(255), "invalid:too_long"),
        ("x".repeat(256), "invalid:too_long"),
        ("x".repeat(3000), "invalid:too_long"),
        ("x".repeat(65536), "invalid:too_long"),
    ] {
        assert_eq!(verdict(&ascii(), &raw), expected);
        assert_eq!(verdict(&unicode(), &raw), expected);
    }
    for raw in ["abc".to_owned(), "a".repeat(30)] {
        assert_eq!(verdict(&ascii(), &raw), raw);
    }
    assert_eq!(
        ascii().judge(&"a".repeat(31)),
        Err(NameError::TooLong { max: 30 }.into())
    );
    assert_eq!(
        ascii().judge("ab"),
        Err(NameError::TooShort { min: 3 }.into())
    );
}

#[test]
fn legacy_spellings_occupy_the_key_of_the_name() {
    for (row, asked) in [
        (" bob", "bob"),
        ("carol ", "carol"),
        ("Straße", "straße"),
        ("Straße", "STRASSE"),
        ("STRAẞE", "strasse"),
        ("INFO", "info"),
        ("ınfo", "info"),
        ("İnfo", "info"),
        ("i\u{307}nfo", "INFO"),
        ("ΣΑΣ", "σας"),
        ("ΣΑΣ", "σασ"),
        ("max mustermann", "maxmustermann"),
        ("petrak\0", "petrak"),
        ("al\u{AD}ice", "alice"),
        ("ＡＬＩＣＥ", "alice"),
        ("Zoë", "zoe"),
        ("ﬁona", "Fiona"),
        ("\u{212A}im", "kim"),
        ("ſam", "sam"),
    ] {
        assert_eq!(
            FilterKey::of(row),
            FilterKey::of(asked),
            "{row:?} {asked:?}"
        );
    }
}
