//! Any bytes at all, as a row of the users table: a key, the same one for every spelling that a database may call equal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namegate::names::{Canonical, FilterKey};

fuzz_target!(|bytes: &[u8]| {
    let key = FilterKey::of_bytes(bytes);
    assert_eq!(FilterKey::of_bytes(key.as_ref()), key, "folding twice");
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(FilterKey::of(&text), key);
    for spelling in [
        text.to_lowercase(),
        text.to_uppercase(),
        text.to_lowercase().to_uppercase(),
        text.to_ascii_lowercase(),
        text.trim().to_owned(),
        format!(" {text}\u{3000}"),
        Canonical::unjudged(&text).as_str().to_owned(),
    ] {
        assert_eq!(FilterKey::of(&spelling), key, "{spelling:?}");
    }
    // No character looks at its neighbours.
    if let Some((half, _)) = text.char_indices().nth(text.chars().count() / 2) {
        let (left, right) = text.split_at(half);
        let parts = [FilterKey::of(left), FilterKey::of(right)];
        assert_eq!([parts[0].as_ref(), parts[1].as_ref()].concat(), key.as_ref());
    }
});
