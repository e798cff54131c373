//! Any text at all, read as the part of a URL after `?`: a typed error, or a question whose name, encoded anew, is read
//! back as the same name.
#![no_main]

use std::fmt::Write;

use libfuzzer_sys::fuzz_target;
use namegate::names::{MAX_QUERY_BYTES, MAX_SUGGESTIONS, QueryError, parse_query};

fuzz_target!(|raw: &str| {
    match parse_query(Some(raw)) {
        Ok(question) => {
            assert!(raw.len() <= MAX_QUERY_BYTES);
            assert!(question.suggest.is_none_or(|most| most <= MAX_SUGGESTIONS));
            // Decoding makes nothing longer, and nothing of nothing.
            assert!(question.name.len() <= raw.len());
            let mut encoded = String::from("username=");
            for byte in question.name.bytes() {
                write!(encoded, "%{byte:02X}").expect("strings take any text");
            }
            if encoded.len() <= MAX_QUERY_BYTES {
                let again = parse_query(Some(&encoded)).expect("well formed");
                assert_eq!(again.name, question.name);
                assert!(!again.plus_decoded);
            }
        }
        Err(QueryError::TooLong { found, .. }) => assert_eq!(found, raw.len()),
        Err(error) => {
            assert!(!error.code().is_empty());
            // No sentence about a query repeats it.
            assert!(raw.len() < 40 || !error.to_string().contains(raw));
        }
    }
});
