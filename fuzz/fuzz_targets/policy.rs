//! Any text at all, judged: a refusal, or a canonical form that keeps the published bounds, is its own canonical form,
//! and is found under the key of what was typed. And any text at all as an operator's list of reserved names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use namegate::names::{Canonical, FilterKey, Policy, Profile, Refusal, Reserved, Suggestions};

static POLICIES: LazyLock<[Policy; 2]> = LazyLock::new(|| {
    [Profile::Ascii, Profile::Unicode].map(|profile| Policy::new(profile, Reserved::built_in()))
});

fuzz_target!(|raw: &str| {
    for policy in &*POLICIES {
        let rules = policy.document();
        let canonical = match policy.judge(raw) {
            Ok(canonical) => {
                let name = canonical.as_str();
                let characters = name.chars().count();
                assert!((rules.min_length..=rules.max_length).contains(&characters));
                assert!(name.len() <= rules.max_bytes);
                assert!(!name.contains(|c: char| {
                    c.is_whitespace() || c.is_control() || "/\\%@?#&+'\"<>".contains(c)
                }));
                assert_eq!(policy.judge(name).as_ref(), Ok(&canonical));
                assert_eq!(policy.judge_as_operator(raw).as_ref(), Ok(&canonical));
                for other in Suggestions::new(policy, raw, raw.len() as u64).take(3) {
                    assert_eq!(policy.judge(other.as_str()).as_ref(), Ok(&other));
                }
                canonical
            }
            Err(Refusal::Reserved { canonical, .. }) => canonical,
            Err(Refusal::Invalid(error)) => {
                assert_eq!(policy.canonical_of(raw), None);
                assert!(!error.code().is_empty());
                continue;
            }
        };
        assert_eq!(FilterKey::of(canonical.as_str()), FilterKey::of(raw));
        assert_eq!(Canonical::unjudged(raw), canonical);
    }
    if let Ok(reserved) = Reserved::nothing().with_operator_list(raw) {
        let policy = Policy::new(Profile::Ascii, reserved);
        // A list may reserve any name but cannot allow one.
        if let Ok(allowed) = policy.judge("alice") {
            assert_eq!(allowed.as_str(), "alice");
        }
    }
});
