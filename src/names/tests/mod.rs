//! Tests that cross several files of this module; those of one file sit beside its code.

mod every_character;
mod judging;
mod laws;
mod parsing;
mod reserved_names;
mod suggesting;
mod unicode_names;

use super::{Policy, Profile, Refusal, Reserved};

fn ascii() -> Policy {
    Policy::new(Profile::Ascii, Reserved::built_in())
}

fn unicode() -> Policy {
    Policy::new(Profile::Unicode, Reserved::built_in())
}

/// The judgement in one word: the canonical form, `reserved:` or `invalid:` with the code.
fn verdict(policy: &Policy, raw: &str) -> String {
    match policy.judge(raw) {
        Ok(canonical) => canonical.as_str().to_owned(),
        Err(Refusal::Reserved { reason, .. }) => format!("reserved:{}", reason.code()),
        Err(Refusal::Invalid(error)) => format!("invalid:{}", error.code()),
    }
}
