//! Suggestions for names that are taken.

use super::super::{Canonical, Policy, Profile, Reserved, Suggestions};
use super::{ascii, unicode};

fn suggested(policy: &Policy, asked: &str, seed: u64) -> Vec<String> {
    Suggestions::new(policy, asked, seed)
        .map(|name| name.as_str().to_owned())
        .collect()
}

#[test]
fn every_suggestion_is_allowed_new_and_named_once() {
    for policy in [ascii(), unicode()] {
        for asked in [
            "alice",
            "Bob",
            "kim",
            "a.b",
            "maria7",
            "zoë",
            "мария",
            "ふたば",
            "a_b-c.d",
            &"x".repeat(30),
            &"é".repeat(30),
        ] {
            let Some(canonical) = policy.canonical_of(asked) else {
                continue;
            };
            for seed in 0..50 {
                let mut seen = vec![canonical.clone()];
                for name in Suggestions::new(&policy, asked, seed) {
                    assert_eq!(policy.judge(name.as_str()), Ok(name.clone()));
                    assert!(!seen.contains(&name), "{asked}: {} twice", name.as_str());
                    seen.push(name);
                }
                assert!(seen.len() > 20, "{asked}: only {}", seen.len());
            }
        }
    }
}

#[test]
fn a_cut_name_does_not_end_at_a_separator() {
    for at in 20..30 {
        let asked: String = (0..30)
            .map(|i| if i == at - 1 { '_' } else { 'a' })
            .collect();
        if ascii().canonical_of(&asked).is_none() {
            continue;
        }
        let names = suggested(&ascii(), &asked, 1);
        assert!(names.len() > 20);
        for name in names {
            assert!(
                name.len() <= 30 && !name.contains("__") && !name.ends_with('_'),
                "{name}"
            );
        }
    }
}

#[test]
fn words_formed_by_joining_are_barred_like_any_other() {
    let reserved = Reserved::built_in()
        .with_operator_list("substring hey\nsubstring ali-s\ntoken fox\nsubstring 7");
    let policy = Policy::new(Profile::Ascii, reserved.expect("well formed"));
    for seed in 0..200 {
        for name in suggested(&policy, "ali", seed) {
            assert!(
                !name.contains("hey") && !name.contains("ali-s") && !name.contains('7'),
                "{name}"
            );
        }
    }
}

#[test]
fn no_suggestions_for_reserved_or_invalid_names() {
    let reserved = Reserved::built_in()
        .with_operator_list("i42-*")
        .expect("well formed");
    let policy = Policy::new(Profile::Ascii, reserved);
    for asked in [
        "i42-test",
        "admin",
        "marlow.json",
        "me",
        "",
        "a b",
        "ab",
        "\u{200B}",
    ] {
        assert_eq!(
            suggested(&policy, asked, 3),
            Vec::<String>::new(),
            "{asked}"
        );
    }
}

#[test]
fn rules_that_leave_no_room_end_the_search() {
    let list = "*-*\n*_*\n*.*\n*0*\n*1*\n*2*\n*3*\n*4*\n*5*\n*6*\n*7*\n*8*\n*9*";
    let reserved = Reserved::nothing().with_operator_list(list);
    let policy = Policy::new(Profile::Ascii, reserved.expect("well formed"));
    assert!(policy.judge("alice").is_ok());
    assert!(suggested(&policy, "alice", 1).is_empty());
}

#[test]
fn the_seed_decides() {
    assert_eq!(
        suggested(&ascii(), "alice", 42),
        suggested(&ascii(), "Alice ", 42)
    );
    assert_ne!(
        suggested(&ascii(), "alice", 42),
        suggested(&ascii(), "alice", 43)
    );
}

#[test]
fn suggestions_printed_for_a_log_do_not_hold_the_name() {
    let policy = Policy::new(Profile::Ascii, Reserved::nothing());
    let printed = format!("{:?}", Suggestions::new(&policy, "secretive", 1));
    assert!(!printed.contains("secretive"), "{printed}");
    assert_eq!(
        format!("{:?}", Canonical::stored("secretive")),
        "Canonical(9 bytes)"
    );
}
