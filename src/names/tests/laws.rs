//! Laws that hold for every text, tried on random ones.

use proptest::prelude::*;

use super::super::{
    Canonical, FilterKey, MAX_CHARACTERS, MIN_CHARACTERS, Policy, Refusal, parse_query,
};
use super::{ascii, unicode};

/// Any text, with the characters that rules trip over made frequent.
fn text() -> impl Strategy<Value = String> {
    let tricky = "aA iIıİ ßẞ σςΣ ᾳΑΙ ﬁ éÉ\u{301}\u{307}\u{345} \u{200B}\u{202E}\0\t ._- +%&= 漢カか 한ᄒ عا яЯ ø٣ ĳ 1９\u{FF0E}";
    let characters = tricky.chars().collect::<Vec<_>>();
    let character = prop_oneof![
        3 => prop::sample::select(characters),
        2 => prop::char::range('a', 'z'),
        1 => any::<char>(),
    ];
    prop::collection::vec(character, 0..40).prop_map(String::from_iter)
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |encoded, byte| {
        encoded + &format!("%{byte:02x}")
    })
}

fn allowed(policy: &Policy, raw: &str) -> Option<String> {
    policy
        .judge(raw)
        .ok()
        .map(|canonical| canonical.as_str().to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn the_key_of_a_key_is_the_key(text in text()) {
        let key = FilterKey::of(&text);
        prop_assert_eq!(FilterKey::of_bytes(key.as_ref()), key);
    }

    #[test]
    fn the_key_of_two_texts_together_is_both_keys_together(left in text(), right in text()) {
        let together = FilterKey::of(&format!("{left}{right}"));
        let (left, right) = (FilterKey::of(&left), FilterKey::of(&right));
        prop_assert_eq!(together.as_ref(), [left.as_ref(), right.as_ref()].concat());
    }

    #[test]
    fn no_spelling_of_a_name_changes_its_key(text in text()) {
        let key = FilterKey::of(&text);
        prop_assert_eq!(FilterKey::of(&text.to_lowercase()), key.clone());
        prop_assert_eq!(FilterKey::of(&text.to_uppercase()), key.clone());
        prop_assert_eq!(FilterKey::of(text.trim()), key.clone());
        for policy in [ascii(), unicode()] {
            if let Some(canonical) = policy.canonical_of(&text) {
                prop_assert_eq!(FilterKey::of(canonical.as_str()), key.clone());
            }
        }
    }

    #[test]
    fn any_bytes_have_a_key(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let key = FilterKey::of_bytes(&bytes);
        prop_assert_eq!(FilterKey::of_bytes(key.as_ref()), key.clone());
        prop_assert_eq!(FilterKey::of_bytes(&bytes.to_ascii_uppercase()), key);
    }

    #[test]
    fn a_canonical_form_is_its_own_canonical_form(text in text()) {
        for policy in [ascii(), unicode()] {
            if let Some(canonical) = policy.canonical_of(&text) {
                prop_assert_eq!(policy.canonical_of(canonical.as_str()), Some(canonical.clone()));
                prop_assert_eq!(policy.judge(canonical.as_str()), policy.judge(&text));
            }
        }
    }

    #[test]
    fn an_allowed_name_keeps_the_published_bounds(text in text()) {
        for policy in [ascii(), unicode()] {
            if let Some(name) = allowed(&policy, &text) {
                let document = policy.document();
                prop_assert!((MIN_CHARACTERS..=MAX_CHARACTERS).contains(&name.chars().count()));
                prop_assert!(name.len() <= document.max_bytes);
                prop_assert!(!name.contains(|c: char| c.is_whitespace() || c.is_control() || "/\\%@?#&+".contains(c)));
            }
        }
    }

    #[test]
    fn what_ascii_allows_unicode_allows_alike(name in "[ A-Za-z0-9._-]{1,34}") {
        prop_assert_eq!(ascii().judge(&name), unicode().judge(&name));
    }

    #[test]
    fn what_is_encoded_is_what_is_decoded(text in text()) {
        let question = parse_query(Some(&format!("username={}", percent_encoded(&text)))).expect("well formed");
        prop_assert_eq!(question.name, text);
        prop_assert!(!question.plus_decoded);
    }

    #[test]
    fn no_query_is_too_strange_to_be_answered(raw in "[a-z%&=+0-9A-F]{0,60}|\\PC{0,40}") {
        let _ = parse_query(Some(&raw));
    }

    #[test]
    fn a_query_is_never_answered_about_a_part_of_its_name(name in text(), rest in "[%&=][a-z%&=]{0,6}") {
        // A client that forgets to encode what follows may get an answer only if that made a parameter.
        let encoded = percent_encoded(&name);
        if let Ok(question) = parse_query(Some(&format!("username={encoded}{rest}"))) {
            let value = rest.split('&').next().expect("split yields at least one piece");
            prop_assert_eq!(question.name, format!("{name}{value}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_at_all_is_judged_and_judged_alike_once_trimmed(text in any::<String>(), tricky in text()) {
        for raw in [text, tricky] {
            for policy in [ascii(), unicode()] {
                let judged = policy.judge(&raw);
                prop_assert_eq!(policy.judge(&format!("\t {raw}\u{3000}")), judged);
            }
        }
    }

    #[test]
    fn an_operator_is_refused_only_what_is_no_name(text in any::<String>(), tricky in text()) {
        for raw in [text, tricky] {
            for policy in [ascii(), unicode()] {
                match (policy.judge(&raw), policy.judge_as_operator(&raw)) {
                    (Ok(anybody), Ok(operator)) => prop_assert_eq!(anybody, operator),
                    (Err(Refusal::Invalid(anybody)), Err(operator)) => prop_assert_eq!(anybody, operator),
                    // A listed name may be misshapen besides.
                    (Err(Refusal::Reserved { .. }), _) => {}
                    disagreement => prop_assert!(false, "{disagreement:?}"),
                }
            }
        }
    }

    #[test]
    fn a_row_that_nobody_judged_is_spelled_as_the_policy_would(text in any::<String>(), tricky in text()) {
        for raw in [text, tricky] {
            let unjudged = Canonical::unjudged(&raw);
            prop_assert_eq!(FilterKey::of(unjudged.as_str()), FilterKey::of(&raw));
            for policy in [ascii(), unicode()] {
                if let Some(canonical) = policy.canonical_of(&raw) {
                    prop_assert_eq!(canonical, unjudged.clone());
                }
            }
        }
    }
}
