//! Rules on a canonical spelling that both profiles share: where separators stand, and how long it is.

use super::profile::{MAX_CHARACTERS, MIN_CHARACTERS};
use super::refusal::NameError;

/// The characters that may stand, one at a time, between others.
pub(super) const SEPARATORS: [char; 3] = ['.', '_', '-'];

/// Judges the shape of a canonical spelling whose characters have been judged already.
///
/// Separators come first: somebody who has typed `ab-` so far is better told about the hyphen's place
/// than about the length.
pub(super) fn refuse_misshapen(canonical: &str) -> Result<(), NameError> {
    if canonical.split(SEPARATORS).any(str::is_empty) {
        return Err(NameError::Separator);
    }
    let characters = canonical.chars().count();
    if characters < MIN_CHARACTERS {
        return Err(NameError::TooShort {
            min: MIN_CHARACTERS,
        });
    }
    if characters > MAX_CHARACTERS {
        return Err(NameError::TooLong {
            max: MAX_CHARACTERS,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_stand_alone_and_inside() {
        for bad in [
            "test..test",
            "a--b",
            "a._b",
            "-ab",
            "ab-",
            ".ab",
            "ab.",
            "_ab",
            "ab_",
            ".",
            "..",
            "-_-",
        ] {
            assert_eq!(refuse_misshapen(bad), Err(NameError::Separator), "{bad}");
        }
        for good in ["a.b", "a-b_c.d", "0.0"] {
            assert_eq!(refuse_misshapen(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn length_counts_characters_not_bytes() {
        assert_eq!(refuse_misshapen("ab"), Err(NameError::TooShort { min: 3 }));
        assert_eq!(refuse_misshapen("éé"), Err(NameError::TooShort { min: 3 }));
        assert_eq!(refuse_misshapen("abc"), Ok(()));
        assert_eq!(refuse_misshapen(&"é".repeat(30)), Ok(()));
        assert_eq!(
            refuse_misshapen(&"a".repeat(31)),
            Err(NameError::TooLong { max: 30 })
        );
    }
}
