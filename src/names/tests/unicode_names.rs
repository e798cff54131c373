//! Names beyond ASCII, under the profile that takes them.

use super::super::FilterKey;
use super::{unicode, verdict};

#[test]
fn spellings_of_one_name_share_a_canonical_form() {
    for spelling in ["ふたば", "ふたは\u{3099}", "ふたは\u{FF9E}"] {
        assert_eq!(verdict(&unicode(), spelling), "ふたば", "{spelling:?}");
    }
    for spelling in ["straße", "STRASSE", "strasse", "STRAẞE"] {
        assert_eq!(verdict(&unicode(), spelling), "strasse", "{spelling}");
    }
    for spelling in ["Zoë", "ZOË", "Zoe\u{308}"] {
        assert_eq!(verdict(&unicode(), spelling), "zoë", "{spelling:?}");
    }
    for spelling in ["İnci", "I\u{307}nci", "i\u{307}nci", "INCI"] {
        assert_eq!(verdict(&unicode(), spelling), "inci", "{spelling:?}");
    }
    for spelling in ["ＡＬＩＣＥ", "\u{24D0}lice", "\u{1D4D0}lice", "alice"] {
        assert_eq!(verdict(&unicode(), spelling), "alice", "{spelling:?}");
    }
}

#[test]
fn names_of_living_scripts_are_allowed() {
    for name in [
        "renée",
        "łukasz",
        "søren",
        "þórður",
        "işık",
        "nguyễn",
        "ōtani",
        "мария",
        "ольга_7",
        "γιώργος",
        "δημήτρης",
        "רחל5",
        "مريم",
        "فاطمة",
        "علی1",
        "রহিম",
        "প্রিয়া",
        "प्रिया",
        "மணிமேகலை",
        "สมชาย",
        "น้ำฝน",
        "ნინო",
        "արամ",
        "ふたば",
        "カタカナ",
        "山田太郎",
        "山田さくら",
        "東京タワー",
        "ラーメン",
        "김철수",
        "박지민-9",
        "王小明",
        "አበበች",
        "ខ្មែរ",
    ] {
        let verdict = verdict(&unicode(), name);
        assert!(!verdict.starts_with("invalid:"), "{name}: {verdict}");
    }
}

#[test]
fn scripts_are_not_mixed() {
    for raw in [
        "us\u{435}r",
        "B\u{3BF}b",
        "p\u{430}ypal",
        "аlice",
        "alice日本",
        "алисаx",
        "αбв",
        "한글ひらがな",
        "ひらがな한글",
        "abcא",
        "mαria",
        "ольга_k",
        "سلامabc",
        "٣٤abc",
        "12٣",
        "٣۴۵",
        "۱٢۳",
        "কa৪",
    ] {
        assert_eq!(verdict(&unicode(), raw), "invalid:mixed_script", "{raw}");
    }
}

#[test]
fn normalisation_does_not_smuggle_syntax_in() {
    for (raw, expected) in [
        ("a\u{2100}b", "invalid:charset"),
        ("\u{2025}", "invalid:separator"),
        ("a\u{2025}b", "invalid:separator"),
        ("a\u{2024}b", "a.b"),
        ("a\u{FF0E}\u{FF0E}b", "invalid:separator"),
        ("a\u{FF05}b", "invalid:charset"),
        ("a\u{FF0F}b", "invalid:charset"),
        ("x\u{B4}y", "invalid:whitespace"),
        ("\u{B4}xyz", "invalid:whitespace"),
        ("a\u{A8}b", "invalid:whitespace"),
        ("ふた\u{306F}\u{309B}", "invalid:whitespace"),
        ("\u{FDFA}", "invalid:whitespace"),
        ("marlow\u{FF0E}json", "reserved:route_suffix"),
        ("\u{FF52}obots\u{2024}txt", "reserved:route"),
        ("kim\u{FF20}example.org", "invalid:charset"),
        ("\u{2488}abc", "1.abc"),
    ] {
        assert_eq!(verdict(&unicode(), raw), expected, "{raw:?}");
    }
}

#[test]
fn length_is_that_of_the_canonical_form() {
    for (raw, expected) in [
        ("\u{FDFA}".repeat(30), "invalid:whitespace"),
        ("\u{FB03}".repeat(11), "invalid:too_long"),
        ("\u{1D4D0}".repeat(31), "invalid:too_long"),
        ("é".repeat(31), "invalid:too_long"),
        ("é".repeat(3000), "invalid:too_long"),
        ("\u{FDFA}".repeat(3000), "invalid:too_long"),
        ("ab".to_owned(), "invalid:too_short"),
        ("e\u{301}e\u{301}".to_owned(), "invalid:too_short"),
    ] {
        assert_eq!(verdict(&unicode(), &raw), expected);
    }
    assert_eq!(verdict(&unicode(), "\u{FB01}a"), "fia");
    // The longest text that can still be one allowed name: decomposed, in the widest characters.
    let wide = "\u{1111}\u{1171}\u{11B6}".repeat(30);
    assert_eq!(verdict(&unicode(), &wide), "\u{D4DB}".repeat(30));
    let widest = "ᾧ".repeat(15);
    let decomposed = "\u{3C9}\u{314}\u{342}\u{345}".repeat(15);
    assert_eq!(
        verdict(&unicode(), &decomposed),
        verdict(&unicode(), &widest)
    );
}

#[test]
fn marks_stand_on_letters_and_in_small_numbers() {
    for (raw, expected) in [
        ("a\u{335}\u{336}\u{337}\u{338}bc", "invalid:charset"),
        ("q\u{300}\u{302}\u{303}\u{304}bc", "invalid:too_many_marks"),
        ("ab\u{302}\u{302}c", "invalid:too_many_marks"),
        ("\u{301}abc", "invalid:charset"),
        ("ab.\u{301}c", "invalid:charset"),
        ("ab1\u{301}", "invalid:charset"),
        ("ab\u{20DD}c", "invalid:charset"),
        ("i\u{307}\u{307}van", "invalid:invisible"),
        ("ı\u{307}van", "invalid:invisible"),
        ("j\u{307}ohn", "invalid:invisible"),
        ("i\u{323}\u{307}van", "invalid:invisible"),
        ("\u{456}\u{307}ван", "invalid:invisible"),
    ] {
        assert_eq!(verdict(&unicode(), raw), expected, "{raw:?}");
    }
}

#[test]
fn letters_that_imitate_and_symbols_are_outside_the_alphabet() {
    for raw in [
        "ᴀᴅᴍɪɴ",
        "ꓮꓡꓲꓚꓰ",
        "ᎪᏞᏆᏟᎬ",
        "alice\u{1F600}",
        "\u{1F600}\u{1F600}\u{1F600}",
        "\u{1F150}\u{1F151}\u{1F152}",
        "ⰀⰁⰂ",
        "ᚠᚢᚦ",
        "a·b·c",
        "カタ・カナ",
        "alice™©",
        "\u{E000}bob",
        "\u{FFFD}bob",
        "bob\u{FFFF}",
        "foo/bar",
        "foo\\bar",
        "kim@example.org",
        "j.o'neil",
        "testuser+",
        "مــريم",
        "\u{10FFFF}abc",
    ] {
        assert_eq!(verdict(&unicode(), raw), "invalid:charset", "{raw}");
    }
}

#[test]
fn confusable_names_of_one_script_are_different_names() {
    let latin = unicode().judge("cao");
    let cyrillic = unicode().judge("сао");
    assert!(matches!((&latin, &cyrillic), (Ok(a), Ok(b)) if a != b));
    assert_ne!(FilterKey::of("cao"), FilterKey::of("сао"));
}
